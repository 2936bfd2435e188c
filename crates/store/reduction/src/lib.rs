//! Compression and fingerprints. Pure functions.
