//! Shards, tasks, timers, buffers, clock and random; the only door to the world.
//!
//! A shard is one thread with its own executor, buffers and I/O driver; nothing on it is shared, so
//! nothing is locked. Tasks are `!Send` futures, started with [`Runtime::spawn`] at one of four
//! priorities. Other threads reach a shard through its [`Remote`] only.
//!
//! ```text
//!   start_shard ──► thread:  inbox → timers → run queues (credits) → driver turn ─┐
//!                              ▲                                                  │
//!      Remote::run, wakes ─────┘ ◄────────────────────────────────────────────────┘
//!   driver: io_uring | threads        Simulation: the same executor, a seeded world
//! ```
//!
//! Three drivers do the I/O behind one handle: io_uring, a few threads where io_uring is denied, and
//! the simulator ([`sim`]). A request owns its [`Buf`] until it completes, even when its future is
//! dropped, so the kernel never writes to memory given to somebody else.

mod blocking;
mod buddy;
mod buffer;
mod clock;
mod drive;
mod driver;
mod executor;
mod inbox;
mod instant;
mod open;
mod operation;
mod random;
mod raw;
mod remote;
mod runtime;
mod shard;
pub mod sim;
mod slots;
mod socket;
pub mod sync;
mod timer;

#[cfg(test)]
mod tests;

pub use blocking::Blocking;
pub use buffer::{BUFFER_ALIGNMENT, Buf};
pub use drive::{DriveFile, Durability, OpenDrive};
pub use executor::Priority;
pub use inbox::WORKS_MAX;
pub use instant::Instant;
pub use open::{UDEV_WAIT_MAX, UDEV_WAIT_STEP};
pub use remote::{NotDone, Remote, RemoteResult};
pub use runtime::{LocalFuture, Runtime, Sleep, Task, YieldNow};
pub use shard::{DriverChoice, ShardSettings, ShardThread, start_shard};
pub use socket::{Address, Listener, Peer, Stream};
