//! What was written and is still to be looked at. Bounded in bytes: more is dropped, not kept waiting.

use std::collections::VecDeque;

use ashlar_format::chunk::CHUNK_REGION_BLOCKS;
use ashlar_reduction::Fingerprint;
use ashlar_units::VolumeId;

/// Fingerprints kept: 4 MiB, a GiB of writes. Arbitrary; far more than a burst that memory could take in.
const BLOCKS_MAX: u64 = 256 << 10;

/// Blocks looked at in one go: 256 KiB of data read and compared before others get a turn.
const RUN_BLOCKS_MAX: u64 = 64;

/// Consecutive blocks of a volume, as they were written.
pub(super) struct Run {
    pub(super) volume: VolumeId,
    pub(super) first_block: u64,
    pub(super) fingerprints: Vec<Fingerprint>,
}

#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Run>,
    blocks: u64,
}

impl Queue {
    /// Queues written blocks; returns how many had to be dropped.
    pub(super) fn push(&mut self, volume: VolumeId, first_block: u64, fingerprints: Vec<Fingerprint>) -> u64 {
        let blocks = fingerprints.len() as u64;
        if self.blocks + blocks > BLOCKS_MAX {
            return blocks;
        }
        self.blocks += blocks;
        // A stream of small writes becomes one run: alone they would be too short to be shared.
        if let Some(last) = self.waiting.back_mut()
            && last.volume == volume
            && last.first_block + last.fingerprints.len() as u64 == first_block
        {
            last.fingerprints.extend(fingerprints);
            return 0;
        }
        self.waiting.push_back(Run { volume, first_block, fingerprints });
        0
    }

    /// The oldest blocks, cut where no chunk is cut.
    pub(super) fn pop(&mut self) -> Option<Run> {
        let front = self.waiting.front_mut()?;
        let end = (front.first_block + RUN_BLOCKS_MAX) / CHUNK_REGION_BLOCKS * CHUNK_REGION_BLOCKS;
        let blocks = (end - front.first_block) as usize;
        let run = if front.fingerprints.len() <= blocks {
            self.waiting.pop_front()?
        } else {
            let later = front.fingerprints.split_off(blocks);
            let fingerprints = std::mem::replace(&mut front.fingerprints, later);
            let first_block = std::mem::replace(&mut front.first_block, end);
            Run { volume: front.volume, first_block, fingerprints }
        };
        self.blocks -= run.fingerprints.len() as u64;
        Some(run)
    }

    /// Everything of another queue behind what is in this one; returns how many blocks had to be dropped.
    pub(super) fn append(&mut self, other: Queue) -> u64 {
        let runs = other.waiting.into_iter();
        runs.map(|run| self.push(run.volume, run.first_block, run.fingerprints)).sum()
    }

    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    pub(super) fn clear(&mut self) {
        *self = Queue::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prints(count: u64) -> Vec<Fingerprint> {
        (0..count).map(|number| Fingerprint(u128::from(number))).collect()
    }

    #[test]
    fn small_writes_in_a_row_come_out_as_runs_that_cut_no_chunk() {
        let mut queue = Queue::default();
        (5..200).for_each(|block| assert_eq!(queue.push(VolumeId(1), block, prints(1)), 0));
        queue.push(VolumeId(2), 200, prints(3));
        let runs: Vec<(u64, u64, usize)> = std::iter::from_fn(|| queue.pop())
            .map(|run| (run.volume.0, run.first_block, run.fingerprints.len()))
            .collect();
        assert_eq!(runs, [(1, 5, 59), (1, 64, 64), (1, 128, 64), (1, 192, 8), (2, 200, 3)]);
        assert_eq!(queue.blocks(), 0);
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let mut queue = Queue::default();
        assert_eq!(queue.push(VolumeId(1), 0, prints(BLOCKS_MAX)), 0);
        assert_eq!(queue.push(VolumeId(2), 0, prints(7)), 7);
        queue.pop();
        assert_eq!(queue.push(VolumeId(2), 0, prints(7)), 0);
    }
}
