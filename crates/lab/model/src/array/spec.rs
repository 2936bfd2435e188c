//! What an array consists of.

use std::time::Duration;

use crate::drive::discipline::Discipline;
use crate::drive::preset::Model;
use crate::error::{Error, Result};
use crate::layout::Raid;

/// More drives than any array of the papers has; keeps a slip of the pen from taking all memory.
pub const DRIVES_MAX: usize = 10_000;

/// A description of an array. [`Spec::default`] has the defaults of the address.
#[derive(Clone, PartialEq, Debug)]
pub struct Spec {
    /// How many drives work. Spares are left out of the count.
    pub drives: usize,
    /// The kind of all drives.
    pub model: Model,
    /// How the array protects its data.
    pub raid: Raid,
    /// Bytes that lie together on one drive.
    pub chunk_bytes: u64,
    /// The order in which a drive takes what waits.
    pub discipline: Discipline,
    /// Of the oldest waiting requests, so many are put in that order.
    pub window: usize,
    /// The most commands a drive holds. The window is part of it.
    pub queue_depth: usize,
    /// The controller's time for each request; requests do not wait for each other in it.
    pub overhead: Duration,
    /// Memory that survives a power cut and takes writes. Zero is none.
    pub write_cache_bytes: u64,
    /// The write cache is written to the drives from this share of it on, down to three quarters of that.
    pub high_water: f64,
    /// Memory that keeps what was read last, in blocks of 4 KiB. Zero is none.
    pub read_cache_bytes: u64,
    /// A second level of flash in front of the array.
    pub flash: Flash,
}

/// A cache of flash in front of an array, as a database's buffer pool extension or a cache of the host is.
#[derive(Clone, PartialEq, Debug)]
pub struct Flash {
    /// Its size. Zero is none.
    pub size_bytes: u64,
    /// The unit in which it keeps data; a miss that is admitted is read in whole units.
    pub block_bytes: u64,
    /// When a block is let in.
    pub admission: Admission,
    /// The time of a hit, without the transfer.
    pub latency: Duration,
    /// How many bytes per second all hits share.
    pub bytes_per_second: u64,
}

/// When a block is let into the flash cache. Writes never let one in; they keep what is there up to date.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// When it is first read.
    FirstRead,
    /// When it is read again while it is remembered; as many are remembered as the cache has room for.
    SecondRead,
}

impl Admission {
    /// Both, in the order in which they are listed to a reader.
    pub const ALL: [Admission; 2] = [Admission::FirstRead, Admission::SecondRead];

    /// Its name in an address.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Admission::FirstRead => "first",
            Admission::SecondRead => "second",
        }
    }
}

impl Default for Spec {
    fn default() -> Spec {
        Spec {
            drives: 2,
            model: Model::k15_300g(),
            raid: Raid::StripedMirrors,
            chunk_bytes: 64 << 10,
            discipline: Discipline::Sptf,
            // Two papers, by different makers of drives and servers, point to 1 to 3 (design, 6.6).
            window: 2,
            // Arbitrary: the usual depth of SATA; SAS drives hold up to 128.
            queue_depth: 32,
            // With the transfer it makes up the 0.1 ms by which the design's prototype is slower than seek
            // and half a turn.
            overhead: Duration::from_micros(70),
            write_cache_bytes: 0,
            // A usual setting of arrays of the time of the papers.
            high_water: 0.8,
            read_cache_bytes: 0,
            flash: Flash::default(),
        }
    }
}

impl Default for Flash {
    fn default() -> Flash {
        Flash {
            size_bytes: 0,
            // A page of SQL Server.
            block_bytes: 8 << 10,
            admission: Admission::FirstRead,
            // Of the class of PCIe drives of 2014: a tenth of a millisecond, a gigabyte a second.
            latency: Duration::from_micros(100),
            bytes_per_second: 1_000_000_000,
        }
    }
}

impl Spec {
    /// Refuses what cannot work, and says what could.
    pub fn check(&self) -> Result<()> {
        let refuse = |what: String| Err(Error::description(what));
        let (drives, drives_min) = (self.drives, self.raid.drives_min());
        if !(drives_min..=DRIVES_MAX).contains(&drives) {
            let level = self.raid.level();
            return refuse(format!(
                "`drives={drives}` with `raid={level}`: allowed are {drives_min} to {DRIVES_MAX}"
            ));
        }
        if !(1..=self.queue_depth).contains(&self.window) {
            let (window, depth) = (self.window, self.queue_depth);
            return refuse(format!("`window={window}` with `depth={depth}`: allowed are 1 to the depth"));
        }
        let capacity_bytes = self.model.capacity_bytes;
        if !(1..=capacity_bytes).contains(&self.chunk_bytes) {
            let chunk_bytes = self.chunk_bytes;
            return refuse(format!(
                "a chunk of {chunk_bytes} bytes: allowed are 1 byte to a whole drive of {capacity_bytes}"
            ));
        }
        if !(self.high_water > 0.0 && self.high_water <= 1.0) {
            let high_water = self.high_water;
            return refuse(format!("`high_water={high_water}`: allowed is a share above 0 and up to 1"));
        }
        if self.flash.block_bytes == 0 || self.flash.bytes_per_second == 0 {
            return refuse("a flash cache with blocks or a rate of zero".to_string());
        }
        Ok(())
    }
}
