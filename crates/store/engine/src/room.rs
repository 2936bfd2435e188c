//! A pool that stays full: how long writes have waited in it, and the part of the reserve that a volume may
//! use to get out of it.

use std::cell::Cell;
use std::time::Duration;

use ashlar_runtime::Instant;
use ashlar_units::VolumeId;

use crate::Engine;
use crate::Result;
use crate::engine::Inner;

/// What is lent of the reserve: deletes and checkpoints need the rest.
const LENT_FRACTION: u64 = 4;
/// And for how long. Arbitrary: a mount with a log to replay, and a person who deletes files behind it.
const LENT_FOR: Duration = Duration::from_mins(5);

/// How long the pool has been full. The wait is the pool's, not of each write: a host that flushes a thousand
/// writes into a full pool is told after one wait, and not after a thousand.
#[derive(Default)]
pub(crate) struct Full {
    since: Cell<Option<Instant>>,
    looked: Cell<Option<Instant>>,
}

impl Full {
    /// A write finds the pool full: for how long it has been. Anew when nobody asked for a while.
    pub(crate) fn look(&self, now: Instant, patience: Duration) -> Duration {
        let is_recent = self.looked.get().is_some_and(|last| now.duration_since(last) <= patience);
        let since = self.since.get().filter(|_| is_recent).unwrap_or(now);
        self.since.set(Some(since));
        self.looked.set(Some(now));
        now.duration_since(since)
    }

    /// A write found room.
    pub(crate) fn end(&self) {
        self.since.set(None);
    }
}

/// A part of the reserve in one volume's hands.
#[derive(Clone, Copy)]
pub(crate) struct Lent {
    volume: VolumeId,
    bytes: u64,
    until: Instant,
}

impl Engine {
    /// Lends a volume a part of the reserve for some minutes, once the pool is full: its file system can
    /// replay its log and delete files then.
    pub fn lend_reserve(&self, volume: &str) -> Result<()> {
        let inner = &self.inner;
        let id = inner.volume_id(volume)?;
        let bytes = inner.reserve_segments() / LENT_FRACTION * inner.pool.segment_bytes();
        inner.lent.set(Some(Lent { volume: id, bytes, until: inner.runtime.now() + LENT_FOR }));
        Ok(())
    }
}

impl Inner {
    /// Takes room of the reserve for a write, if some is lent to its volume and left.
    pub(crate) fn take_lent(&self, id: Option<VolumeId>, bytes: u64) -> bool {
        let Some(lent) = self.lent.get() else { return false };
        let kept = self.reserve_segments() - self.reserve_segments() / LENT_FRACTION;
        let is_there = Some(lent.volume) == id
            && lent.bytes >= bytes
            && self.runtime.now() < lent.until
            && self.pool.cells_available() > kept + self.dirty_segments();
        if is_there {
            self.lent.set(Some(Lent { bytes: lent.bytes - bytes, ..lent }));
        }
        is_there
    }
}
