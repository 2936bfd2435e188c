//! What a model of drives implements to be the simulator's storage.

use std::io;

use crate::{Buf, Durability, Instant, OpenDrive};

/// Names an open drive of the storage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SimDriveId(pub u32);

/// Names one request; later requests have greater tickets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SimTicket(pub u64);

/// A drive request. Offsets and lengths are multiples of 4096.
#[derive(Debug)]
pub enum SimOperation {
    /// Fill `into`.
    Read {
        /// The drive.
        drive: SimDriveId,
        /// First byte.
        offset: u64,
        /// Where the bytes go; its length is the request's.
        into: Buf,
    },
    /// Store `data`.
    Write {
        /// The drive.
        drive: SimDriveId,
        /// First byte.
        offset: u64,
        /// The bytes.
        data: Buf,
        /// Whether completion promises to survive power loss.
        durability: Durability,
    },
    /// Make every write completed before the start durable.
    Sync {
        /// The drive.
        drive: SimDriveId,
    },
    /// The range's content is not needed any more.
    Discard {
        /// The drive.
        drive: SimDriveId,
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
}

impl SimOperation {
    /// The drive the request is for.
    #[must_use]
    pub fn drive(&self) -> SimDriveId {
        match self {
            SimOperation::Read { drive, .. }
            | SimOperation::Write { drive, .. }
            | SimOperation::Sync { drive }
            | SimOperation::Discard { drive, .. } => *drive,
        }
    }
}

/// A model of drives. Time is virtual: nothing here may wait or look at the real clock.
///
/// Each request passes through `start`, then, at the instant `start` named, through `finish`, unless
/// a crash comes first, in which case it is in the list given to `crash`. A write may take effect at
/// any point between: the model decides (keep a copy in `start`, or act in `finish` and `crash`,
/// which both see the request).
pub trait SimStorage {
    /// Opens a drive, making or growing it when the options say so: its id and size in bytes.
    fn open(&mut self, path: &str, options: &OpenDrive) -> io::Result<(SimDriveId, u64)>;

    /// A request arrives. The answer is when it completes, in virtual nanoseconds (an instant before
    /// now counts as now); `u64::MAX` means never.
    fn start(&mut self, now: Instant, ticket: SimTicket, operation: &SimOperation) -> u64;

    /// A request completes: apply it, fill the buffer of a read, give the result.
    fn finish(&mut self, now: Instant, ticket: SimTicket, operation: &mut SimOperation) -> io::Result<()>;

    /// The machine stops: requests in flight, oldest first (among them the stuck ones). Called once,
    /// when the simulation is dropped.
    fn crash(&mut self, now: Instant, in_flight: Vec<(SimTicket, SimOperation)>);

    /// Whether a drive is like a file: the first durable write of a range is slow.
    fn is_first_write_slow(&self, _drive: SimDriveId) -> bool {
        true
    }

    /// The last handle of a drive is gone (not called for handles alive at a crash).
    fn close(&mut self, _drive: SimDriveId) {}
}
