//! Catalogue, wiring, supervision and API handlers.
