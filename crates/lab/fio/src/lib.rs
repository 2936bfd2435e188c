//! I/O tests: jobs for fio written, run and read back.
//!
//! Buyers of storage know fio and can repeat what it did: the job file, its JSON and its logs stay beside
//! each other. What is read from them are counts and latencies as fio's `json+` has them, never averages of
//! percentiles.

mod job;
mod logs;
mod outcome;
mod run;
mod section;

pub use ashlar_programs::{Error, ErrorKind, Result};
pub use job::{Cell, Content, Job, Medium, Offered, Pattern, Sync};
pub use logs::{Second, seconds, together};
pub use outcome::{Outcome, Side};
pub use run::{Fio, Kept};
pub use section::Spread;
