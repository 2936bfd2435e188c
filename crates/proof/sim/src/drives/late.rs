//! Late writes: what a killed process had asked of its drives may land while the next one runs.
//!
//! The kernel, a network file system or a stuck drive holds requests that nobody waits for any more. A loss
//! of power ends them; a kill does not. Each lands once, whole or in part, at any time: before the next life
//! opens the pool, while it does, or long after.

use ashlar_runtime::sim::SimOperation;
use ashlar_runtime::{Buf, Instant};

use crate::chance::Chance;

/// Shortest and longest delay in microseconds, as powers of two: from before the next life's first read to
/// long after its opening.
const DELAY_MAGNITUDES: (u64, u64) = (3, 20);

/// A write of a dead life.
pub(super) struct LateWrite {
    due_nanos: u64,
    pub(super) drive: u32,
    pub(super) offset: u64,
    pub(super) data: Buf,
    /// Of it so many sectors in a thousand land.
    pub(super) survival_per_mille: u64,
}

/// Writes that are still to land.
pub(super) struct LateWrites {
    /// Draws of its own: the drives' others stay what they are.
    chance: Chance,
    waiting: Vec<LateWrite>,
}

impl LateWrites {
    pub(super) fn new(seed: u64) -> LateWrites {
        LateWrites { chance: Chance::new(seed), waiting: Vec::new() }
    }

    /// A process was killed: takes some of its writes in flight and gives the others back, which end with it.
    pub(super) fn take_some(&mut self, now: Instant, in_flight: Vec<SimOperation>) -> Vec<SimOperation> {
        let is_late = !self.chance.one_in(4);
        let mut others = Vec::new();
        for operation in in_flight {
            match operation {
                SimOperation::Write { drive, offset, data, .. } if is_late && !self.chance.one_in(3) => {
                    let magnitude = self.chance.between(DELAY_MAGNITUDES.0, DELAY_MAGNITUDES.1);
                    let micros = self.chance.between(1 << magnitude, 2 << magnitude);
                    let survival_per_mille = *self.chance.pick(&[1000, 1000, 500]);
                    let due_nanos = now.as_nanos() + micros * 1000;
                    let drive = drive.0;
                    self.waiting.push(LateWrite { due_nanos, drive, offset, data, survival_per_mille });
                }
                other => others.push(other),
            }
        }
        others
    }

    /// One that lands by now.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<LateWrite> {
        let due = self.waiting.iter().position(|late| late.due_nanos <= now.as_nanos())?;
        Some(self.waiting.swap_remove(due))
    }

    /// A drive is not there any more.
    pub(super) fn forget(&mut self, drive: u32) {
        self.waiting.retain(|write| write.drive != drive);
    }

    /// The power is gone, and with it what was under way.
    pub(super) fn lose_power(&mut self) {
        self.waiting.clear();
    }
}
