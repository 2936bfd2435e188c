//! The seam between the tester and what it tests.
//!
//! The engine's adapter ([`crate::engine_system`]) and the deliberately broken fakes of the tests
//! implement the same trait, so that the tester itself can be tested.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ashlar_block::{BlockDevice, LocalFuture};
use ashlar_runtime::Runtime;

use crate::oracle::{Change, Listing, NoteEdit, NoteName, Outcome};

/// What kind of failure the system reported; decides what the oracle concludes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TroubleKind {
    /// The request was wrong, nothing was changed. The workload sends such requests only on purpose.
    Invalid,
    /// The pool is full.
    NoSpace,
    /// A drive failed or lied.
    Drive,
    /// The object is gone or the pool is closed.
    Gone,
}

/// A failed request.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// What to conclude.
    pub kind: TroubleKind,
    /// The system's own words.
    pub text: String,
}

impl Trouble {
    /// What the failure says about the request's effect. Only a request that was wrong promises that
    /// nothing happened.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self.kind {
            TroubleKind::Invalid => Outcome::Refused,
            TroubleKind::NoSpace | TroubleKind::Drive | TroubleKind::Gone => Outcome::Doubtful,
        }
    }
}

impl From<ashlar_block::Error> for Trouble {
    fn from(error: ashlar_block::Error) -> Trouble {
        use ashlar_block::ErrorKind;
        let kind = match error.kind {
            ErrorKind::Invalid => TroubleKind::Invalid,
            ErrorKind::NoSpace => TroubleKind::NoSpace,
            ErrorKind::ReadOnly | ErrorKind::Medium => TroubleKind::Drive,
            ErrorKind::Gone => TroubleKind::Gone,
        };
        Trouble { kind, text: format!("{:?}: {}", error.kind, error.context) }
    }
}

/// The drives and sizes of a simulated pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolLayout {
    /// The machine that opens it.
    pub machine: u128,
    /// Each drive's path.
    pub drives: Vec<String>,
    /// Bytes of every drive.
    pub drive_bytes: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Drives that may be lost.
    pub parity: u8,
    /// Columns of a row, with parity.
    pub width: Option<u8>,
    /// Drives for which there is spare space.
    pub spares: u8,
    /// Bytes of the data cache.
    pub cache_bytes: u64,
    /// Bytes of the cache of map pages.
    pub map_cache_bytes: u64,
    /// Longest time between checkpoints of a pool that changes.
    pub checkpoint_interval_millis: u64,
    /// The cleaner empties segments while less than this share of the pool is free.
    pub free_percent_wanted: u8,
    /// Bytes of the fingerprint index; 0: no dedupe at all.
    pub dedupe_index_bytes: u64,
    /// Fewer equal blocks in a row are left alone.
    pub dedupe_run_blocks_min: u8,
    /// One in two to this power of fingerprints is recorded.
    pub dedupe_sample_shift: u8,
    /// So long a write to a full pool waits for room.
    pub no_space_wait_millis: u64,
}

/// How much a pool holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Whole segments, without parity, spare space and superblocks.
    pub segments: u64,
    /// Bytes of each.
    pub segment_bytes: u64,
}

/// What an administrator does to dedupe. None of it changes what hosts read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DedupeAction {
    /// The switch of a volume.
    Switch {
        /// Which.
        volume: String,
        /// On or off.
        is_on: bool,
    },
    /// Everything is looked at again.
    Rebuild,
    /// The index is forgotten.
    Drop,
    /// The index gets another size.
    Resize,
}

/// A running pool.
pub trait SystemUnderTest {
    /// A volume (`NAME`) or a volume as a snapshot holds it (`NAME@SNAPSHOT`).
    fn device(&self, name: &str) -> Option<Rc<dyn BlockDevice>>;
    /// Carries out a change of metadata.
    fn change(&self, change: Change) -> LocalFuture<'static, Result<(), Trouble>>;
    /// What the pool holds.
    fn listing(&self) -> Listing;
    /// All notes, if it keeps any: the content of each.
    fn notes(&self) -> Option<BTreeMap<NoteName, u64>> {
        None
    }
    /// Makes all changes of a batch of notes, or none.
    fn notes_change(&self, _edits: Vec<NoteEdit>) -> LocalFuture<'static, Result<(), Trouble>> {
        Box::pin(async { Ok(()) })
    }
    /// The pool's own full check: the errors it found.
    fn check(&self) -> LocalFuture<'static, Result<Vec<String>, Trouble>>;
    /// The blocks of 4 KiB at which two images may differ; `None` when the system does not say, or gave way
    /// to something more urgent.
    fn difference(
        &self,
        _one: String,
        _other: String,
    ) -> LocalFuture<'static, Result<Option<BTreeSet<u64>>, Trouble>> {
        Box::pin(async { Ok(None) })
    }
    /// Does something to dedupe.
    fn dedupe(&self, _action: DedupeAction) -> LocalFuture<'static, Result<(), Trouble>> {
        Box::pin(async { Ok(()) })
    }
    /// Rare events and how often they happened, to know what a batch of seeds has covered.
    fn probes(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
    /// Segments that hold or held something; `None` when the system has none.
    fn segments_in_use(&self) -> Option<u64> {
        None
    }
    /// What the pool has room for; `None` when that cannot be said.
    fn room(&self) -> Option<Room> {
        None
    }
    /// The next checkpoints are given up for want of room, after so many records each.
    fn starve_checkpoints(&self, _after_records: &[u64]) {}
    /// What a volume may have of its own at most, if it has a limit.
    fn limit_of(&self, _volume: &str) -> Option<u64> {
        None
    }
    /// Drives out of service: number and path.
    fn drives_out(&self) -> Vec<(usize, String)> {
        Vec::new()
    }
    /// Paths of the drives of which the last check does not say that they hold what they should; `None`
    /// when it says it of none.
    fn drives_unproven(&self) -> Option<Vec<String>> {
        None
    }
    /// Paths of the drives that hold what they should, and how many of them the pool says it can do without.
    fn drives_to_lose(&self) -> (Vec<String>, usize) {
        (Vec::new(), 0)
    }
    /// Drives of the pool.
    fn drive_count(&self) -> usize {
        0
    }
    /// Adds drives.
    fn drives_add(&self, _paths: Vec<String>, _size_bytes: u64) -> LocalFuture<'static, Result<(), Trouble>> {
        Box::pin(async { Ok(()) })
    }
    /// Drives that may leave, and the one that is leaving, by their numbers.
    fn drives_to_leave(&self) -> (Vec<usize>, Option<usize>) {
        (Vec::new(), None)
    }
    /// Lets a drive leave.
    fn drive_remove(&self, _drive: usize) -> LocalFuture<'static, Result<(), Trouble>> {
        Box::pin(async { Ok(()) })
    }
    /// Takes a drive back that is leaving.
    fn drive_stay(&self, _drive: usize) -> LocalFuture<'static, Result<(), Trouble>> {
        Box::pin(async { Ok(()) })
    }
    /// Takes a drive back into service.
    fn drive_return(&self, _drive: usize, _path: String) -> LocalFuture<'static, Result<(), Trouble>> {
        Box::pin(async { Ok(()) })
    }
    /// Puts a new drive in the place of another.
    fn drive_replace(
        &self,
        _drive: usize,
        _path: String,
        _size_bytes: u64,
    ) -> LocalFuture<'static, Result<(), Trouble>> {
        Box::pin(async { Ok(()) })
    }
    /// Clean stop.
    fn close(&self) -> LocalFuture<'static, Result<(), Trouble>>;
}

/// Makes and starts pools. Outlives crashes.
pub trait SystemMaker {
    /// Makes a new pool on new drives.
    fn create(&self, runtime: &Runtime, layout: &PoolLayout) -> LocalFuture<'static, Result<(), Trouble>>;
    /// Starts the pool from its drives.
    fn open(
        &self,
        runtime: &Runtime,
        layout: &PoolLayout,
    ) -> LocalFuture<'static, Result<Rc<dyn SystemUnderTest>, Trouble>>;
    /// True when a second opening of a running pool must be refused; fakes do not bother.
    fn is_exclusive(&self) -> bool {
        true
    }
    /// True when what is on the drives is a pool that the second reader can read.
    fn is_on_drives(&self) -> bool {
        false
    }
    /// The machine stopped; fakes that keep their own state model the loss here.
    fn crash(&self) {}
}
