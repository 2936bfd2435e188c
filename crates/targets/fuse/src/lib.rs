//! Volumes as files: one flat directory with a file for each volume, served to the kernel by FUSE.
//!
//! ```text
//!  kernel ── /dev/fuse (classic.rs) ─┐            ┌─ session.rs: which file, open, names
//!         └─ io_uring  (uring.rs) ───┴─ wire.rs ──┴─ volume_work.rs ─► BlockDevice
//! ```
//!
//! [`FuseServer::mount`] runs on a shard and serves from its tasks. Files carry loop devices, and
//! through them file systems; `dd`, `qemu-img convert -n` and databases work on the files, too. Each
//! request owns its memory until it is answered, and a write is answered in full or with an error.
//!
//! Deliberately not done: creating, removing, emptying or resizing volumes through the file system (the
//! array does that), extended attributes, caching in the kernel (sizes and names change under it).
//!
//! So `cp` and `>` onto a volume are refused, because they begin by emptying it; `dd conv=notrunc` writes
//! what it is given and leaves the rest alone.

mod classic;
mod connection;
mod error;
mod fuzz;
mod legacy;
mod server;
mod session;
mod settings;
mod system;
mod uring;
mod volume_work;
pub mod wire;

pub use error::{Errno, Error, ErrorKind, Result};
pub use fuzz::fuzz_requests;
pub use legacy::{HANDOVER_VERSION, Legacy, OpenHandle, Will};
pub use server::{Descriptors, FuseServer, Left};
pub use session::{Answer, Negotiated, OpenFile, Session, TAKER_FLAG};
pub use settings::{Settings, TransportChoice};
pub use volume_work::{Operation, VolumeWork};

#[cfg(test)]
mod tests;
