//! Volumes as files: the FUSE target.
