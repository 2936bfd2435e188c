//! A block device of this machine whose requests this process answers: drives that are not there, limits,
//! flash in front of a disk, and liars.
//!
//! A real file system and a real database stand on it. The bytes lie in a file; when and how truly a request
//! is answered is decided here.
//!
//! ```text
//!  ext4 ─ /dev/loopN ─ FILE.mount/disk ─ FUSE ─► file_system ─► medium ─► backing: FILE
//!                                                     │           ├ flash: what was read before
//!                                                     │           ├ held:  what is in memory only
//!                                                     ▼           └ stale: what was there before
//!                                                   pacer ◄─ pace: the drives' model, or a limit
//!                                                     └────► the answer, not before its time
//! ```
//! The lab calls it to test what it measures with (the liars), and to give a database the drives of a paper.
//! Whoever uses the device should be another process: a thread of this one that waits for its own disk when a
//! kill comes keeps the connection open, and waits, until [`remove_left`] cuts it.
//!
//! 1. The bytes are read or written at once; only the answer is held back. An answer that is ready after its
//!    time is counted as late: then the real device was the limit.
//! 2. An honest disk loses nothing that it answered, a liar only what its lie says.
//! 3. With the process the connection to the kernel ends: what is left are a mount and a device that answer
//!    with errors, until [`remove_left`], which every opening calls, takes them away.

mod backing;
mod counters;
mod disk;
mod error;
mod file_system;
mod flash;
mod held;
mod left;
mod loop_device;
mod medium;
mod mounts;
mod pace;
mod pacer;
mod spec;
mod stale;

pub use counters::Counters;
pub use disk::Disk;
pub use error::{Error, ErrorKind, Result};
pub use left::remove_left;
pub use spec::{Kind, Liar, Limit, SCHEMES, Spec};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A thread that panics ends the process (`main` of the program sees to that), but for tests.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
