//! Counters and latency histograms of one shard, and snapshots of them that merge across shards.
//!
//! Who uses it: targets count every request they serve, by volume and by door; the daemon takes a
//! [`Snapshot`] from each shard and merges them. The live structs hold plain `Cell`s: no atomics, no
//! locks, no globals, because a shard is one thread. Snapshots are `Send` and carry no references.
//! This crate reads no clock: callers measure, it counts.

mod counters;
mod histogram;
mod registry;
mod shape;

pub use counters::{Counters, CountersSnapshot, Operation, OperationSnapshot};
pub use histogram::{Histogram, HistogramSnapshot};
pub use registry::{Registry, Snapshot, SnapshotEntry};
pub use shape::ShapeSnapshot;

#[cfg(test)]
mod tests;
