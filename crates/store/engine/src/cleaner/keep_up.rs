//! Keeping up: the rest of a cycle, in which its mark goes on serving while hosts take room.
//!
//! Rounds as small as what hosts took let less room be kept free than cycles that start and stop: nothing has
//! to last until the next mark, and hosts are slowed down by a little all the time instead of by much now
//! and then.

use std::rc::Rc;
use std::time::Duration;

use super::evacuate::Reason;
use super::{CONSUMED_FRACTION, Cycle};
use crate::Result;
use crate::engine::Inner;

/// A cycle that nobody wanted room of for so long ends: its marks take memory. Arbitrary: twice the time
/// between two checkpoints, which have it look.
const IDLE_MAX: Duration = Duration::from_mins(1);

/// Hosts have taken this share of the pool before a round begins: it ends with a checkpoint.
const WORTH_FRACTION: u64 = 256;

/// A cycle that does not know what dies ends when this share of the pool was written since its mark, and room
/// is wanted.
const CONSUMED_BLINDLY_FRACTION: u64 = 100;

/// And one that knows, when as much as this died in segments younger than it: under a skewed load those are
/// the best to empty. With twice as much the last rounds before a mark moved seven times what the first did.
const DIED_YOUNG_FRACTION: u64 = 256;

impl Inner {
    /// Wins the room that hosts take, until the mark is too old or something else is wanted.
    pub(super) async fn keep_up(self: &Rc<Self>, cycle: &mut Cycle) -> Result<()> {
        let mut last_round = self.runtime.now();
        while self.may_keep_up(cycle) {
            let wanted = self.segments_wanted(0);
            if wanted >= self.worth_a_round() || wanted > 0 && self.cleaner.is_urgent.get() {
                if !self.win_a_little(cycle, wanted).await? {
                    return Ok(());
                }
                last_round = self.runtime.now();
                continue;
            }
            // Writes that wait although there is room wait for more than this: for a checkpoint, too.
            let is_idle = self.runtime.now().duration_since(last_round) > IDLE_MAX;
            if is_idle || self.cleaner.is_urgent.get() {
                return Ok(());
            }
            self.cleaner.is_waiting.set(true);
            self.cleaner.news.notified().await;
            self.cleaner.is_waiting.set(false);
        }
        self.check_not_closing()?;
        if self.is_mark_old(cycle) {
            self.cleaner.wake.notify_one();
        }
        Ok(())
    }

    /// One round; false when this cycle has no more to give to who waits.
    async fn win_a_little(self: &Rc<Self>, cycle: &mut Cycle, wanted: u64) -> Result<bool> {
        if !self.cleaner.is_urgent.get() {
            return self.run_round(cycle, wanted, Reason::Scarce).await;
        }
        let gained_before = self.cleaner.gained();
        self.run_round(cycle, wanted, Reason::Urgent).await?;
        let is_enough = self.cleaner.gained() > gained_before;
        if is_enough {
            self.cleaner.is_urgent.set(false);
        }
        Ok(is_enough)
    }

    fn may_keep_up(&self, cycle: &Cycle) -> bool {
        // In cycles with eager death dedupe waits for their end.
        let is_in_the_way = cycle.is_eager && self.dedupe.waits_for_cleaner();
        self.check_online().is_ok()
            && !self.is_removal_waiting()
            && !self.cleaner.is_wanted.get()
            && !self.is_mark_old(cycle)
            && !is_in_the_way
    }

    /// Segments that are worth a round, which ends with a checkpoint.
    fn worth_a_round(&self) -> u64 {
        (self.segments_total() / WORTH_FRACTION).max(1)
    }

    /// Whether another mark is worth it: much was written since, or much is known to have died where this one
    /// did not look. Who does not know what died looks again sooner.
    fn is_mark_old(&self, cycle: &Cycle) -> bool {
        let total = self.segments_total();
        let is_blind = !cycle.is_eager || !self.cleaner.deaths.borrow().is_recording();
        let is_scarce = self.segments_wanted(0) > 0;
        let fraction = if is_blind && is_scarce { CONSUMED_BLINDLY_FRACTION } else { CONSUMED_FRACTION };
        let died_young = cycle.died_young_bytes / self.pool.segment_bytes();
        self.consumed_since_mark() >= (total / fraction).max(2)
            || died_young >= (total / DIED_YOUNG_FRACTION).max(1)
    }

    /// Journal segments opened since the last mark.
    pub(super) fn consumed_since_mark(&self) -> u64 {
        let opened = self.journal.counters().segments;
        opened - self.cleaner.marked_segments.get().min(opened)
    }

    /// Rings for the cleaner when hosts have taken so much that there is something to do.
    pub(crate) fn want_room_if_scarce(&self) {
        if self.cleaner.is_running() && !self.cleaner.is_waiting.get() {
            return;
        }
        if self.segments_wanted(0) < self.worth_a_round() {
            return;
        }
        if self.cleaner.is_waiting.get() {
            self.cleaner.news.notify_one();
        } else if self.should_mark() {
            self.cleaner.wake.notify_one();
        }
    }
}
