//! The keeper: a process that does nothing but hold descriptors, so that they outlive the array.
//!
//! ```text
//!   array ───── keep.sock ─────► keeper        keep fuse + descriptor, drop, list
//!     ✗ killed                     │ holds on, and counts the seconds
//!   successor ─── keep.sock ─────► │           list: every descriptor comes back
//!                                  └ nobody came in time: ends what it holds, then itself
//! ```
//!
//! The kernel keeps a FUSE connection while any process has its descriptor, and requests wait in it. So a
//! database on an attached volume sees a pause where it saw errors.
//!
//! One socket, messages with a length ([`message`]), one array at a time. The keeper knows nothing of
//! volumes.

mod client;
mod entry;
mod message;
mod process;
mod supervisor;

pub use client::Keeper;
pub use entry::{Entry, NAME_BYTES_MAX, NOTE_BYTES_MAX};
pub use process::run;
pub use supervisor::notify_supervisor;

/// Where the keeper listens inside the state directory.
pub const SOCKET: &str = "keep.sock";
