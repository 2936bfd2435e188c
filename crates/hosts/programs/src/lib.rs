//! Programs that are started, watched and ended: output kept, a time limit, an ear for Ctrl-C.
//!
//! The demo and the lab drive PostgreSQL, fio and the array as a user does: by their command lines. What one
//! of them starts ends with it, also after an error or a signal.

mod error;
mod launcher;

pub use error::{Error, ErrorKind, Result};
pub use launcher::{Cleaning, Finished, Launcher, Running, heed_signals, show};
