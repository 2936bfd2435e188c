//! What engine, machine, disk and array did while a run went on, second by second, on one time line.
//!
//! ```text
//!  work    ───────── cold start ── warm-up ── measured ── checks ─────────▶
//!  watch   · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · · ·   a sample each second
//!             └ /proc, the disk, the pool's counters; the server as long as it answers
//! ```
//! Whoever runs the work does not wait for it: a thread of its own looks, and counts what that costs.

mod machine;
mod processor;
mod sample;
mod server;
mod watch;

pub use sample::{ArraySample, DiskSample, MachineSample, Sample, ServerSample};
pub use watch::{Sources, Watched, during, interval};
