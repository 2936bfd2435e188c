//! What may go wrong with a simulated drive, and how often.
//!
//! Two classes. *Crash class*: lost power, torn and reordered unsynced writes, errors that are
//! reported. A pool without redundancy must survive these with every acknowledged write. *Damage
//! class*: a drive that lies: it acknowledges a write and does not store it, stores it elsewhere, or
//! lets a bit rot. A pool without redundancy cannot get those bytes back; it must notice.

/// Chances in a million requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultRates {
    /// A read reports an error.
    pub read_error: u64,
    /// A write reports an error; it may be stored, or a part of it.
    pub write_error: u64,
    /// A write reports an error after a long time, in which whole checkpoints end.
    pub write_timeout: u64,
    /// A sync reports an error; what it should have stored may be lost at once.
    pub sync_error: u64,
    /// The same for each block that the drive has in its cache.
    pub sync_error_of_block: u64,
    /// A write to the superblocks of a drive is refused, and so are all others until it is mended.
    pub superblock_error: u64,
    /// A write is refused for want of space on the drive (a thin drive, a file on a full disk).
    pub no_space: u64,
    /// Of the errors above, how many in a thousand hit the same place again until the drive is mended.
    pub sticky_per_mille: u64,
    /// A write is acknowledged and not stored.
    pub lost_write: u64,
    /// A write is acknowledged and stored elsewhere on the drive.
    pub misdirected_write: u64,
    /// With a request a bit somewhere on the drive changes.
    pub bit_rot: u64,
    /// With a request the drive dies: it answers nothing but errors from then on, and is not found again.
    pub death: u64,
    /// How many times as long as others drives take that may fail; 0 is as long.
    pub slowness: u64,
}

/// How fast a drive is. Virtual time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Shortest and longest usual time of a request, before its bytes.
    pub usual_micros: (u64, u64),
    /// Chances in a thousand that a request is slow.
    pub slow_per_mille: u64,
    /// Longest time of a slow request.
    pub slow_micros_max: u64,
}

/// How long a write takes that fails late, at least and at most.
pub const TIMEOUT_MICROS: (u64, u64) = (20_000, 200_000);

/// How the machine stops next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crash {
    /// The process dies. Completed writes stay in the drives' caches, where a later loss of power may
    /// still take them.
    Kill,
    /// Power fails; this many chances in a thousand that an unsafe sector is stored.
    Power {
        /// 0: only what is safe survives. 1000: everything does.
        survival_per_mille: u64,
    },
}

/// What happened on the drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DriveCounters {
    pub reads: u64,
    pub writes: u64,
    pub syncs: u64,
    pub discards: u64,
    pub errors: u64,
    pub damages: u64,
    /// Errors and damage of drives that the pool promises to survive.
    pub survivable: u64,
    pub deaths: u64,
    pub writes_in_flight_at_crash: u64,
    /// Writes of a killed process that landed while the next one ran.
    pub late_writes: u64,
    pub blocks_lost_at_crash: u64,
}

impl DriveCounters {
    /// Adds another run's.
    pub fn add(&mut self, other: &DriveCounters) {
        let DriveCounters {
            reads,
            writes,
            syncs,
            discards,
            errors,
            damages,
            survivable,
            deaths,
            writes_in_flight_at_crash,
            late_writes,
            blocks_lost_at_crash,
        } = other;
        self.reads += reads;
        self.writes += writes;
        self.syncs += syncs;
        self.discards += discards;
        self.errors += errors;
        self.damages += damages;
        self.survivable += survivable;
        self.deaths += deaths;
        self.late_writes += late_writes;
        self.writes_in_flight_at_crash += writes_in_flight_at_crash;
        self.blocks_lost_at_crash += blocks_lost_at_crash;
    }
}
