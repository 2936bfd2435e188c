//! A controller's write cache: what is in it, and what to write to the drives next.
//!
//! It takes a write at once while there is room. From a high-water mark on it is emptied in order of
//! address, in runs that are neighbours, down to a low-water mark. A block that is written again while it
//! waits costs no more room and one write less to the drives.
//!
//! 1. `used_blocks` counts the dirty blocks and those under way to the drives, and never exceeds the room.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The unit of room: hosts write in whole blocks of it, or nearly so.
pub(crate) const BLOCK_BYTES: u64 = 4096;

/// The low-water mark is so many quarters of the high-water mark: 80 % and 60 % were usual.
const LOW_WATER_QUARTERS: usize = 3;

/// A run of blocks on its way to the drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) first: u64,
    pub(crate) count: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct WriteCache {
    room_blocks: usize,
    high_blocks: usize,
    low_blocks: usize,
    dirty: BTreeSet<u64>,
    /// Blocks that are being written, with how often: a block may be written again meanwhile.
    under_way: BTreeMap<u64, usize>,
    used_blocks: usize,
    /// Where the sweep over the addresses is.
    cursor: u64,
    is_emptying: bool,
    /// Writes for which there was no room, the oldest first.
    pub(crate) waiting: VecDeque<u64>,
    pub(crate) overwritten_blocks: u64,
}

impl WriteCache {
    pub(crate) fn new(size_bytes: u64, high_water: f64) -> WriteCache {
        let room_blocks = usize::try_from(size_bytes / BLOCK_BYTES).expect("a cache's blocks fit the memory");
        let high_blocks = (room_blocks as f64 * high_water) as usize;
        WriteCache {
            room_blocks,
            high_blocks,
            low_blocks: high_blocks * LOW_WATER_QUARTERS / 4,
            dirty: BTreeSet::new(),
            under_way: BTreeMap::new(),
            used_blocks: 0,
            cursor: 0,
            is_emptying: false,
            waiting: VecDeque::new(),
            overwritten_blocks: 0,
        }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.room_blocks == 0
    }

    pub(crate) fn used_blocks(&self) -> usize {
        self.used_blocks
    }

    /// Whether a write of so many bytes can ever be taken.
    pub(crate) fn could_take(&self, offset: u64, end: u64) -> bool {
        blocks(offset, end).count() <= self.room_blocks
    }

    /// Takes a write if there is room, and says whether.
    pub(crate) fn take(&mut self, offset: u64, end: u64) -> bool {
        let added = blocks(offset, end).filter(|block| !self.dirty.contains(block)).count();
        if self.used_blocks + added > self.room_blocks {
            return false;
        }
        self.dirty.extend(blocks(offset, end));
        self.used_blocks += added;
        self.overwritten_blocks += (blocks(offset, end).count() - added) as u64;
        true
    }

    /// Whether all these bytes are in it.
    pub(crate) fn holds(&self, offset: u64, end: u64) -> bool {
        let is_held = |block| self.dirty.contains(&block) || self.under_way.contains_key(&block);
        !self.is_none() && blocks(offset, end).all(is_held)
    }

    /// The next run to write, if it is time to empty the cache. `run_end` says where the run that begins at
    /// a byte has to end.
    pub(crate) fn next_run(&mut self, run_end: impl Fn(u64) -> u64) -> Option<Run> {
        if self.used_blocks >= self.high_blocks.max(1) || !self.waiting.is_empty() {
            self.is_emptying = true;
        } else if self.used_blocks <= self.low_blocks {
            self.is_emptying = false;
        }
        if !self.is_emptying {
            return None;
        }
        let next = self.dirty.range(self.cursor..).next().or_else(|| self.dirty.first());
        let first = *next?;
        let end = run_end(first * BLOCK_BYTES).div_ceil(BLOCK_BYTES);
        let count = (first..end).take_while(|block| self.dirty.remove(block)).count();
        for block in first..first + count as u64 {
            *self.under_way.entry(block).or_default() += 1;
        }
        self.cursor = first + count as u64;
        Some(Run { first, count })
    }

    /// The run is on the drives.
    pub(crate) fn written(&mut self, run: Run) {
        for block in run.first..run.first + run.count as u64 {
            let count = self.under_way.get_mut(&block).expect("a run under way");
            *count -= 1;
            if *count == 0 {
                self.under_way.remove(&block);
            }
        }
        self.used_blocks -= run.count;
    }
}

fn blocks(offset: u64, end: u64) -> std::ops::Range<u64> {
    offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: u64 = 8 * BLOCK_BYTES;

    fn row_end(byte: u64) -> u64 {
        (byte / ROW + 1) * ROW
    }

    fn take(cache: &mut WriteCache, block: u64) -> bool {
        cache.take(block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES)
    }

    #[test]
    fn it_is_emptied_from_the_high_to_the_low_water_mark_in_order_of_address() {
        let mut cache = WriteCache::new(10 * BLOCK_BYTES, 0.8);
        for block in [40, 3, 20, 21, 22, 7, 8] {
            assert!(take(&mut cache, block));
        }
        assert_eq!(cache.next_run(row_end), None, "seven of ten are below the mark");
        assert!(take(&mut cache, 60));
        let run = cache.next_run(row_end).expect("the mark is reached");
        assert_eq!(run, Run { first: 3, count: 1 });
        // Blocks 7 and 8 are neighbours, but a row ends between them.
        assert_eq!(cache.next_run(row_end), Some(Run { first: 7, count: 1 }));
        cache.written(run);
        assert_eq!(cache.used_blocks(), 7);
        cache.written(Run { first: 7, count: 1 });
        assert_eq!(cache.next_run(row_end), None, "six are the low-water mark");
    }

    #[test]
    fn a_block_written_again_takes_no_more_room_unless_it_is_under_way() {
        let mut cache = WriteCache::new(2 * BLOCK_BYTES, 1.0);
        assert!(take(&mut cache, 5) && take(&mut cache, 5));
        assert_eq!((cache.used_blocks(), cache.overwritten_blocks), (1, 1));
        cache.waiting.push_back(0);
        let run = cache.next_run(row_end).expect("somebody waits");
        assert!(cache.holds(5 * BLOCK_BYTES, 6 * BLOCK_BYTES), "also while it is under way");
        assert!(take(&mut cache, 5));
        assert_eq!(cache.used_blocks(), 2);
        assert!(!take(&mut cache, 6), "no room");
        cache.written(run);
        assert!(take(&mut cache, 6));
        assert!(cache.holds(5 * BLOCK_BYTES, 7 * BLOCK_BYTES));
    }
}
