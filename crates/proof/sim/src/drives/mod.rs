//! The simulated drives: what a real drive, cable or power supply may do to the pool.

mod drive;
mod faults;
mod lanes;
mod late;
mod storage;

pub use drive::{Drive, Survival};
pub use faults::{Crash, DriveCounters, FaultRates, Pace, TIMEOUT_MICROS};
pub use storage::{DriveArray, kind_of};
