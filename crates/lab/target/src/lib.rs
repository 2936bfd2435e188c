//! Where a test writes, and what that stands on.
//!
//! A target is a directory of any file system, or a block device that may be overwritten. Whatever it is,
//! the lab tells what lies below it: the file system and its options, the block devices under it, their
//! caches and their own counters, which say what really came down.

mod below;
mod counters;
mod machine;
mod mounts;
mod place;

pub use below::{BlockDevice, Footing};
pub use counters::Counters;
pub use machine::Machine;
pub use place::{Place, Refusal};
