//! Who may still write: back-pressure by bytes in flight, and a clean end when the pool is full or has used
//! up its segment numbers.
//!
//! Deletes, unmap and checkpoints pass: they need little and they are what makes room again.

use std::time::Duration;

use ashlar_runtime::sync::Permit;

use ashlar_pool::SEGMENT_NUMBERS_END;
use ashlar_units::{Fault, VolumeId, planted};

use crate::engine::Inner;
use crate::metadata::RECORD_BYTES_MAX;
use crate::{Error, ErrorKind, Result};

/// The reserve: a fiftieth of the pool, at least this many segments. Deletes and checkpoints of a
/// full pool take two or three before the cleaner gives more back.
const RESERVE_SEGMENTS_MIN: u64 = 6;
const RESERVE_FRACTION: u64 = 50;
/// And room for this many stripes: the least change takes one.
const RESERVE_STRIPES: u64 = 64;
/// What is not lent of it, in eighths: deletes and checkpoints need it.
const NOT_LENT_EIGHTHS: u64 = 5;
/// What can be lent is at least this fraction of a small pool, up to so many segments: a file system that
/// replays its log writes some MiB, however small it is.
const LENDABLE_FRACTION: u64 = 40;
const LENDABLE_SEGMENTS: u64 = 12;

/// Cycles of the cleaner without gain that a write waits for before it is told that the pool is full.
const CLEANING_CYCLES: u64 = 2;

/// How often a write that waits in a full pool looks whether somebody made room. Arbitrary: a person notices
/// nothing, and a look costs little.
const ROOM_LOOK: Duration = Duration::from_millis(200);

/// Writes are slowed down while less than this fraction of the pool is free beyond the reserve.
const THROTTLE_FRACTION: u64 = 256;
/// The longest pause of one write.
const THROTTLE_MAX: Duration = Duration::from_millis(4);

/// What changes without data may take while they wait to be journalled and applied: some thousand of them.
/// More would not be faster, and a host may ask for any number of unmaps at once.
pub(crate) const CHANGE_BYTES_IN_FLIGHT: usize = 1 << 20;
/// What one takes beside its record: its place in the queue, in the group, and who waits for it.
const CHANGE_OVERHEAD_BYTES: usize = 256;

/// From this segment number on hosts may not write. A number is used once, so that no pointer is ever taken
/// for another, and pointers hold 30 bits of it. What is left lets an operator look, copy volumes away and
/// delete for years: a million segments.
pub(crate) const HOST_NUMBERS_END: u32 = SEGMENT_NUMBERS_END - (1 << 20);
/// From this one on nothing is changed any more. What is left is for checkpoints: each opening of the pool
/// ends with one, and without it not even reads would go on.
pub(crate) const CHANGE_NUMBERS_END: u32 = SEGMENT_NUMBERS_END - (1 << 18);

/// Segments that stay free.
#[derive(Clone, Copy, Default)]
pub(crate) struct Reserve {
    /// Segments that host writes never take.
    pub(crate) segments: u64,
    /// Of them, those that are not lent to a volume either.
    pub(crate) not_lent: u64,
}

impl Inner {
    /// Segments host writes never take.
    pub(crate) fn reserve_segments(&self) -> u64 {
        self.reserve().segments
    }

    pub(crate) fn reserve(&self) -> Reserve {
        if planted(Fault::NoReserve) { Reserve::default() } else { self.reserve_of(self.segments_total()) }
    }

    fn reserve_of(&self, total: u64) -> Reserve {
        let least =
            RESERVE_SEGMENTS_MIN + RESERVE_STRIPES * self.pool.stripe_bytes() / self.pool.segment_bytes();
        let usual = (total / RESERVE_FRACTION).max(least).min(total / 4);
        let not_lent = (usual * NOT_LENT_EIGHTHS).div_ceil(8);
        let lendable = (total / LENDABLE_FRACTION).min(LENDABLE_SEGMENTS);
        Reserve { segments: usual.max(not_lent + lendable), not_lent }
    }

    /// Segments that the pool has room for.
    pub(crate) fn segments_total(&self) -> u64 {
        self.pool.with_table(|table| table.open_count() as u64)
    }

    /// What a drive that leaves may not fill in a pool of so many segments: the reserve, what is kept for
    /// volumes, and what hosts need to write without being slowed down.
    pub(crate) fn kept_from_vacating(&self, total: u64) -> u64 {
        self.reserve_of(total).segments + throttle_band(total) + self.kept_segments(None)
    }

    /// Waits for the right to have `bytes` in flight. `NoSpace` when the pool is full and cleaning
    /// does not help.
    pub(crate) async fn admit(&self, id: Option<VolumeId>, bytes: usize) -> Result<Permit> {
        self.check_online()?;
        self.check_numbers(HOST_NUMBERS_END)?;
        let permit = self.write_credits.acquire(bytes.min(self.write_credits_total)).await;
        self.wait_while_full(id).await?;
        let pause = self.throttle(id);
        if !pause.is_zero() {
            self.runtime.sleep(pause).await;
        }
        Ok(permit)
    }

    /// Waits for the cleaner, and for people where cleaning does not help. `NoSpace` when the wait is over.
    async fn wait_while_full(&self, id: Option<VolumeId>) -> Result<()> {
        if self.wait_for_cleaning(id).await? || self.may_use_lent(id) {
            return Ok(());
        }
        let patience = self.settings.no_space_wait;
        if !patience.is_zero() {
            self.counters.borrow_mut().writes_waited_for_room += 1;
        }
        let _waiting = self.full.wait(self.runtime.now(), patience);
        while self.full.look(self.runtime.now()) < patience {
            self.runtime.sleep(ROOM_LOOK.min(patience)).await;
            self.check_numbers(HOST_NUMBERS_END)?;
            if self.wait_for_cleaning(id).await? || self.may_use_lent(id) {
                self.full.end();
                return Ok(());
            }
        }
        self.counters.borrow_mut().writes_refused_for_room += 1;
        let what = match self.kept_segments(id) {
            0 => "the pool is full",
            _ => "the pool is full but for what is kept for other volumes",
        };
        Err(Error::new(ErrorKind::NoSpace, what).and_do("delete or unmap something"))
    }

    /// Waits until hosts may write. Before they may not, a cycle that looks at everything tells: what the
    /// last ones moved and left behind may be room now.
    async fn wait_for_cleaning(&self, id: Option<VolumeId>) -> Result<bool> {
        if self.wait_for_room(|| self.has_room(id)).await? {
            return Ok(true);
        }
        let Some(begun_before) = self.cleaner.try_once_more(self.applied_lsn()) else { return Ok(false) };
        self.cleaner.want_mark();
        self.checkpoints.wanted.notify_one();
        while !self.has_room(id) && self.cleaner.ended() <= begun_before {
            self.check_online()?;
            let ended_before = self.cleaner.ended();
            self.cleaner.finished.notified().await;
            if !self.cleaner.is_running() && self.cleaner.ended() == ended_before {
                // Not even a checkpoint found room.
                break;
            }
        }
        Ok(self.has_room(id))
    }

    /// Changes without data pass where writes do not: they are small, and they are what makes room. But
    /// while checkpoints have eaten into the half of the reserve that is theirs, they wait for the cleaner.
    pub(crate) async fn admit_change(&self) -> Result<()> {
        self.check_numbers(CHANGE_NUMBERS_END)?;
        self.prefer_room().await
    }

    /// Waits while checkpoints have eaten into their half of the reserve and the cleaner finds something.
    /// Nothing is refused: crashes in a row take a segment or two each, and deletes must be possible then.
    pub(crate) async fn prefer_room(&self) -> Result<()> {
        let has_room = || self.pool.cells_available() > self.reserve_segments() / 2 + self.dirty_segments();
        self.wait_for_room(has_room).await.map(drop)
    }

    /// Waits for the right to have changes without data in flight, `count` of them with records of so many
    /// bytes each. Taken last, so that nobody holds it while waiting for anything but the journal.
    pub(crate) async fn change_credits(&self, count: usize, record_bytes: usize) -> Permit {
        let bytes = count.saturating_mul(record_bytes + CHANGE_OVERHEAD_BYTES);
        self.change_credits.acquire(bytes.min(CHANGE_BYTES_IN_FLIGHT)).await
    }

    /// Refuses once the pool has given out this segment number: cleaning gives back space, not numbers.
    fn check_numbers(&self, end: u32) -> Result<()> {
        let next = self.pool.segment_number_given_next();
        if next < end {
            return Ok(());
        }
        let what = format!("the pool has used up its segment numbers: {next} of {SEGMENT_NUMBERS_END}");
        Err(Error::new(ErrorKind::NoSpace, what).and_do("copy its volumes to another pool; they can be read"))
    }

    /// How much of the segment numbers that hosts may use up is used.
    pub(crate) fn segment_numbers_percent(&self) -> u8 {
        let next = u64::from(self.pool.segment_number_given_next());
        (next * 100 / u64::from(HOST_NUMBERS_END)).min(100) as u8
    }

    /// Waits until there is room; false when cleaning does not help.
    async fn wait_for_room(&self, has_room: impl Fn() -> bool) -> Result<bool> {
        // The cycle under way may have looked before there was anything to find.
        let begun_before = self.cleaner.begun();
        let mut rings_in_vain = 0;
        while !has_room() {
            // Who waited for something else meanwhile is not told of a full pool when it closes.
            self.check_online()?;
            let is_hopeful = planted(Fault::EndlessWaitForRoom);
            if !is_hopeful
                && (rings_in_vain == CLEANING_CYCLES
                    || self.cleaner.is_in_vain(CLEANING_CYCLES, begun_before)
                    || self.cleaner.stands_still(begun_before)
                    || !self.can_clean())
            {
                return Ok(false);
            }
            let finished = self.cleaner.finished.notified();
            let ended_before = self.cleaner.ended();
            self.cleaner.want_room();
            self.checkpoints.wanted.notify_one();
            finished.await;
            if !self.cleaner.is_running() && self.cleaner.ended() == ended_before {
                // Not even a checkpoint found room.
                rings_in_vain += 1;
            }
        }
        Ok(true)
    }

    /// How long a write waits while the cleaner falls behind: longer the less is left, so that hosts
    /// slow down to the cleaner's speed instead of running into a wall.
    fn throttle(&self, id: Option<VolumeId>) -> Duration {
        let band = throttle_band(self.segments_total());
        let kept = self.reserve_segments() + self.kept_segments(id);
        let spare = self.pool.cells_available().saturating_sub(kept);
        let missing = band.saturating_sub(spare);
        THROTTLE_MAX * u32::try_from(missing).unwrap_or(u32::MAX) / u32::try_from(band).unwrap_or(u32::MAX)
    }

    /// Room for what is in flight, the reserve, what is kept for other volumes, and the map pages that wait
    /// to be written.
    pub(crate) fn has_room(&self, id: Option<VolumeId>) -> bool {
        let kept = self.reserve_segments() + self.kept_segments(id);
        self.check_numbers(HOST_NUMBERS_END).is_ok()
            && self.pool.cells_available() > kept + self.dirty_segments()
    }

    /// Whether a volume can write for a while before it has to wait.
    pub(crate) fn has_ample_room(&self, id: VolumeId) -> bool {
        let kept = self.reserve_segments() + self.kept_segments(Some(id)) + self.dirty_segments();
        self.pool.cells_available() > kept + throttle_band(self.segments_total())
    }

    /// Whether the cleaner must not wait: hosts do, or are slowed down already.
    pub(crate) fn is_room_short(&self) -> bool {
        let kept = self.reserve_segments() + self.kept_segments(None) + self.dirty_segments();
        self.cleaner.is_urgent() || self.pool.cells_available() <= kept + throttle_band(self.segments_total())
    }

    /// Segments that the map pages and the notes which wait to be written need.
    pub(crate) fn dirty_segments(&self) -> u64 {
        (self.dirty_count() * RECORD_BYTES_MAX).div_ceil(self.pool.segment_bytes())
    }
}

/// Segments beyond the reserve below which writes are slowed down.
fn throttle_band(total: u64) -> u64 {
    (total / THROTTLE_FRACTION).max(2)
}
