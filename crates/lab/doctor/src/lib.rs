//! What a database may expect of a place: ten minutes on any directory or device, one page of answer.
//!
//! ```text
//! fill ─► commits ─► reads ─► writes ─► mixed ─► the same at steps of its rate
//!      ─► commits under a checkpoint ─► write and compare
//! ```
//!
//! The questions are a DBA's: how long does a commit wait, also while a checkpoint writes; does fsync reach
//! the drive; how much can be asked before answers take long; does what was written come back.

mod examine;
mod finding;
mod page;
mod plan;

#[cfg(test)]
mod tests;

pub use ashlar_programs::{Error, ErrorKind, Result};
pub use examine::{Examination, Measured, Progress, Settings, examine};
pub use finding::{Finding, Grade};
pub use plan::Length;
