//! One simulated drive: its medium, its volatile write cache, and what a crash leaves of both.
//!
//! Model:
//! - Content is kept per 4 KiB block, sparsely; what was never written reads as zeroes.
//! - A completed cached write is in the volatile cache: reads see it, a loss of power may not keep it.
//!   The cache holds several versions of a block, and power may fail after any of them was stored:
//!   writes are reordered as freely as a drive may.
//! - A sync stores every version that was completed before the sync was issued.
//! - A durable write is stored when it completes, alone: it does not flush the rest of the cache.
//! - The atom of storing is the sector (512 or 4096 bytes): a loss of power tears blocks between
//!   sectors, never inside one.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ashlar_units::BLOCK_BYTES_USIZE;

use crate::chance::Chance;

type Block = Rc<[u8; BLOCK_BYTES_USIZE]>;

/// Versions of one block that the cache keeps apart. More are possible on a real drive; the loss of
/// power already picks among these at random, and memory has to be bounded.
const CACHED_VERSIONS_MAX: usize = 3;

#[derive(Clone, Default)]
struct Cached {
    /// Completion number and content, oldest first.
    versions: Vec<(u64, Block)>,
}

/// How much of what is not safe survives a loss of power.
#[derive(Clone, Copy, Debug)]
pub struct Survival {
    /// Chances in a thousand that a sector in the cache or in flight is stored.
    pub per_mille: u64,
}

/// One drive.
#[derive(Clone)]
pub struct Drive {
    size_bytes: u64,
    sector_bytes: usize,
    medium: BTreeMap<u64, Block>,
    cache: BTreeMap<u64, Cached>,
    completions: u64,
}

impl Drive {
    /// A drive full of zeroes.
    #[must_use]
    pub fn new(size_bytes: u64, sector_bytes: usize) -> Drive {
        assert!(size_bytes.is_multiple_of(BLOCK_BYTES_USIZE as u64), "drive size {size_bytes}");
        assert!(BLOCK_BYTES_USIZE.is_multiple_of(sector_bytes), "sector {sector_bytes}");
        Drive { size_bytes, sector_bytes, medium: BTreeMap::new(), cache: BTreeMap::new(), completions: 0 }
    }

    /// Size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The number of the latest completed write: what a sync issued now covers.
    #[must_use]
    pub fn completions(&self) -> u64 {
        self.completions
    }

    /// Blocks in its cache.
    #[must_use]
    pub fn cached_blocks(&self) -> u64 {
        self.cache.len() as u64
    }

    /// A block that was written some time; `None` on an empty drive.
    pub fn pick_written(&self, chance: &mut Chance) -> Option<u64> {
        let last = *self.medium.keys().next_back()?;
        let start = chance.below(last + 1);
        self.medium.range(start..).next().map(|(block, _)| *block)
    }

    fn latest(&self, block: u64) -> Option<&Block> {
        let cached = self.cache.get(&block).and_then(|cached| cached.versions.last());
        cached.map(|(_, content)| content).or_else(|| self.medium.get(&block))
    }

    /// What a read of whole blocks returns.
    pub fn read(&self, first_block: u64, into: &mut [u8]) {
        for (block, into) in (first_block..).zip(into.chunks_exact_mut(BLOCK_BYTES_USIZE)) {
            match self.latest(block) {
                Some(content) => into.copy_from_slice(&content[..]),
                None => into.fill(0),
            }
        }
    }

    /// A write of whole blocks completes.
    pub fn write(&mut self, first_block: u64, bytes: &[u8], is_durable: bool) {
        self.completions += 1;
        for (block, bytes) in (first_block..).zip(bytes.chunks_exact(BLOCK_BYTES_USIZE)) {
            let content: Block = Rc::new(bytes.try_into().expect("a whole block"));
            if is_durable {
                self.cache.remove(&block);
                self.medium.insert(block, content);
            } else {
                self.cache_version(block, content);
            }
        }
    }

    fn cache_version(&mut self, block: u64, content: Block) {
        let cached = self.cache.entry(block).or_default();
        if cached.versions.len() == CACHED_VERSIONS_MAX {
            let (_, oldest) = cached.versions.remove(0);
            self.medium.insert(block, oldest);
        }
        cached.versions.push((self.completions, content));
    }

    /// A sync that was issued when [`Drive::completions`] was `covered` completes.
    pub fn sync(&mut self, covered: u64) {
        let medium = &mut self.medium;
        self.cache.retain(|block, cached| {
            let stored = cached.versions.iter().take_while(|(completion, _)| *completion <= covered).count();
            if let Some((_, content)) = cached.versions.drain(..stored).next_back() {
                medium.insert(*block, content);
            }
            !cached.versions.is_empty()
        });
    }

    /// A sync fails: the cache loses some of what it held, and never stores it.
    pub fn fail_sync(&mut self, chance: &mut Chance) {
        self.cache.retain(|_, _| chance.one_in(2));
    }

    /// The blocks read as zeroes; like a cached write, a loss of power may undo that.
    pub fn discard(&mut self, first_block: u64, count: u64) {
        self.completions += 1;
        let range = first_block..first_block + count;
        let on_medium = self.medium.range(range.clone()).map(|(block, _)| *block);
        let in_cache = self.cache.range(range).map(|(block, _)| *block);
        let written: BTreeSet<u64> = on_medium.chain(in_cache).collect();
        let zeroes: Block = Rc::new([0; BLOCK_BYTES_USIZE]);
        for block in written {
            self.cache_version(block, zeroes.clone());
        }
    }

    /// Part of a write lands: every sector by itself, into the cache.
    pub fn write_torn(&mut self, first_block: u64, bytes: &[u8], survival: Survival, chance: &mut Chance) {
        self.completions += 1;
        for (block, bytes) in (first_block..).zip(bytes.chunks_exact(BLOCK_BYTES_USIZE)) {
            let old = self.latest(block).cloned();
            if let Some(content) = self.mix(old.as_ref(), bytes, survival, chance) {
                self.cache_version(block, content);
            }
        }
    }

    /// The old block with some sectors of `new`; `None` when none of them came through.
    fn mix(&self, old: Option<&Block>, new: &[u8], survival: Survival, chance: &mut Chance) -> Option<Block> {
        let mut content = old.map_or([0; BLOCK_BYTES_USIZE], |old| **old);
        let mut is_changed = false;
        let sectors = content.chunks_exact_mut(self.sector_bytes).zip(new.chunks_exact(self.sector_bytes));
        for (sector, new) in sectors {
            if chance.per_mille(survival.per_mille) {
                sector.copy_from_slice(new);
                is_changed = true;
            }
        }
        is_changed.then(|| Rc::new(content))
    }

    /// Power fails: of every cached version every sector is stored or lost by itself. Returns how many
    /// blocks did not keep their latest content.
    pub fn lose_power(&mut self, survival: Survival, chance: &mut Chance) -> u64 {
        let mut blocks_lost = 0;
        for (block, cached) in std::mem::take(&mut self.cache) {
            let latest = cached.versions.last().map(|(_, content)| content.clone());
            for (_, content) in cached.versions {
                let old = self.medium.get(&block).cloned();
                if let Some(content) = self.mix(old.as_ref(), &content[..], survival, chance) {
                    self.medium.insert(block, content);
                }
            }
            let zero = [0; BLOCK_BYTES_USIZE];
            let kept = self.medium.get(&block).map_or(&zero, |content| &**content);
            blocks_lost += u64::from(latest.is_some_and(|latest| *latest != *kept));
        }
        blocks_lost
    }

    /// Bit rot: one bit of a block changes, in every version.
    pub fn rot(&mut self, block: u64, chance: &mut Chance) {
        let bit = chance.below(BLOCK_BYTES_USIZE as u64 * 8);
        let flip = |content: &mut Block| Rc::make_mut(content)[(bit / 8) as usize] ^= 1 << (bit % 8);
        if let Some(content) = self.medium.get_mut(&block) {
            flip(content);
        }
        if let Some(cached) = self.cache.get_mut(&block) {
            cached.versions.iter_mut().for_each(|(_, content)| flip(content));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Survival = Survival { per_mille: 0 };
    const HALF: Survival = Survival { per_mille: 500 };

    fn block(byte: u8) -> Vec<u8> {
        vec![byte; BLOCK_BYTES_USIZE]
    }

    fn read(drive: &Drive, number: u64) -> Vec<u8> {
        let mut bytes = block(0xee);
        drive.read(number, &mut bytes);
        bytes
    }

    #[test]
    fn an_unsynced_write_is_read_but_lost_with_the_power() {
        let mut drive = Drive::new(1 << 20, 512);
        drive.write(3, &block(7), false);
        assert_eq!(read(&drive, 3), block(7));
        assert_eq!(drive.lose_power(NOTHING, &mut Chance::new(1)), 1);
        assert_eq!(read(&drive, 3), block(0));
    }

    #[test]
    fn a_synced_and_a_durable_write_survive_any_loss_of_power() {
        let mut drive = Drive::new(1 << 20, 512);
        drive.write(1, &block(1), false);
        drive.sync(drive.completions());
        drive.write(2, &block(2), true);
        drive.lose_power(NOTHING, &mut Chance::new(1));
        assert_eq!((read(&drive, 1), read(&drive, 2)), (block(1), block(2)));
    }

    #[test]
    fn a_sync_covers_only_what_was_complete_when_it_was_issued() {
        let mut drive = Drive::new(1 << 20, 512);
        drive.write(1, &block(1), false);
        let covered = drive.completions();
        drive.write(1, &block(2), false);
        drive.sync(covered);
        drive.lose_power(NOTHING, &mut Chance::new(1));
        assert_eq!(read(&drive, 1), block(1));
    }

    #[test]
    fn a_durable_write_does_not_flush_its_neighbours() {
        let mut drive = Drive::new(1 << 20, 512);
        drive.write(1, &block(1), false);
        drive.write(2, &block(2), true);
        drive.lose_power(NOTHING, &mut Chance::new(1));
        assert_eq!(read(&drive, 1), block(0));
    }

    #[test]
    fn power_loss_tears_blocks_between_sectors_and_reorders_them() {
        let (mut torn, mut reordered) = (0, 0);
        for seed in 0..100 {
            let mut drive = Drive::new(1 << 20, 512);
            drive.write(1, &block(1), false);
            drive.write(2, &block(2), false);
            drive.lose_power(HALF, &mut Chance::new(seed));
            let (first, second) = (read(&drive, 1), read(&drive, 2));
            assert!(first.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
            torn += u32::from(first.iter().any(|byte| *byte != first[0]));
            reordered += u32::from(first.contains(&0) && second.contains(&2));
        }
        assert!(torn > 50 && reordered > 50, "torn {torn} reordered {reordered}");
    }

    #[test]
    fn a_drive_with_whole_block_sectors_never_tears_a_block() {
        for seed in 0..50 {
            let mut drive = Drive::new(1 << 20, 4096);
            drive.write(1, &block(1), false);
            drive.lose_power(HALF, &mut Chance::new(seed));
            let bytes = read(&drive, 1);
            assert!(bytes == block(1) || bytes == block(0));
        }
    }
}
