//! Where a test writes, and what that stands on.
//!
//! A target is a directory of any file system, a block device or NBD export that may be overwritten,
//! volumes of an Ashlar pool, which are made through the array's API and removed again, a database server
//! that is there already, or rotating drives in a model. Whatever it is, the lab tells what lies below it:
//! the file system and its options, the block devices under it, their caches and their own counters, which
//! say what really came down.

mod accounts;
mod bases;
mod below;
mod copies;
mod counters;
mod disks;
mod held;
mod kind;
mod machine;
mod mounts;
mod nbd;
mod place;
mod server;
mod volumes;

pub use accounts::{Account, Timed};
pub use bases::{Copied, KeptBase, Manifest, Shelf, count_tree, digest};
pub use below::{BlockDevice, Footing};
pub use copies::{Copies, MadeSnapshot, Opened, remove_snapshot, snapshots_of_process};
pub use counters::Counters;
pub use disks::{Disks, OVER, remove_disks};
pub use kind::Kind;
pub use machine::Machine;
pub use place::{Access, Ground, Laid, Needs, OWN_PREFIX, Place, Refusal, free_bytes, space_bytes};
pub use server::{Databases, MadeDatabase, remove_database};
pub use volumes::{ArrayPool, Form, MadeVolume, Meter, PoolCounters, Volumes, remove};
