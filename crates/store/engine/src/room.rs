//! A pool that stays full: how long writes have waited in it, and the part of the reserve that a volume may
//! use to get out of it.

use std::cell::Cell;
use std::time::Duration;

use ashlar_runtime::Instant;
use ashlar_units::VolumeId;

use crate::Engine;
use crate::Result;
use crate::engine::Inner;

/// For how long it is lent. Arbitrary: a mount with a log to replay, and a person who deletes files.
const LENT_FOR: Duration = Duration::from_mins(5);

/// How long the pool has been full. The wait is the pool's, not of each write: a host that flushes a thousand
/// writes into a full pool is told after one wait, and not after a thousand.
#[derive(Default)]
pub(crate) struct Full {
    since: Cell<Option<Instant>>,
    looked: Cell<Option<Instant>>,
    waiting: Cell<u64>,
}

/// A write that waits for room.
pub(crate) struct Waiting<'a> {
    full: &'a Full,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.full.waiting.set(self.full.waiting.get() - 1);
    }
}

impl Full {
    /// A write finds the pool full: for how long it has been.
    pub(crate) fn look(&self, now: Instant) -> Duration {
        let since = self.since.get().unwrap_or(now);
        self.since.set(Some(since));
        self.looked.set(Some(now));
        now.duration_since(since)
    }

    /// A write begins to wait: anew when none did for a while.
    pub(crate) fn wait(&self, now: Instant, patience: Duration) -> Waiting<'_> {
        let is_recent = self.looked.get().is_some_and(|last| now.duration_since(last) <= patience);
        if self.waiting.get() == 0 && !is_recent {
            self.since.set(None);
        }
        self.waiting.set(self.waiting.get() + 1);
        Waiting { full: self }
    }

    /// Writes that wait now.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.get()
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
    until: Instant,
    /// Segments that stay free all the same.
    kept: u64,
}

impl Engine {
    /// Lends a volume of a full pool a part of the reserve for some minutes: its file system can replay its
    /// log and delete files then. It is half of what can be lent: an application that comes back with the
    /// file system, and fills that, too, leaves something for the next time.
    pub fn lend_reserve(&self, volume: &str) -> Result<()> {
        let inner = &self.inner;
        let volume = inner.volume_id(volume)?;
        if inner.has_ample_room(volume) {
            // What is lent before it is needed is used up by then.
            return Ok(());
        }
        let reserve = inner.reserve();
        let lendable = inner.pool.cells_available().min(reserve.segments).saturating_sub(reserve.not_lent);
        let kept = reserve.not_lent + lendable / 2;
        inner.lent.set(Some(Lent { volume, until: inner.runtime.now() + LENT_FOR, kept }));
        Ok(())
    }

    /// For the simulator: the next checkpoints are given up for want of room after so many records each.
    #[doc(hidden)]
    pub fn starve_checkpoints(&self, after_records: impl IntoIterator<Item = u64>) {
        self.inner.pool.refuse_metadata(after_records);
    }
}

impl Inner {
    /// Whether a volume may write into the reserve now.
    pub(crate) fn may_use_lent(&self, id: Option<VolumeId>) -> bool {
        let Some(lent) = self.lent.get() else { return false };
        let kept = lent.kept + self.kept_segments(id);
        Some(lent.volume) == id
            && self.runtime.now() < lent.until
            && self.pool.cells_available() > kept + self.dirty_segments()
    }
}
