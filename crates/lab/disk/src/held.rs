//! Blocks that a liar holds in memory: what it answered as written and did not write, and what it read.

use std::collections::BTreeMap;
use std::io;

use crate::backing::Backing;
use crate::spec::BLOCK_BYTES;

/// Bytes of a block, as an index.
const BLOCK: usize = BLOCK_BYTES as usize;
/// When it holds so many blocks (1 GiB), it writes all down and begins anew, as a real cache that is full
/// does. Arbitrary: above what a test writes, below what hurts the machine.
const BLOCKS_MAX: usize = 1 << 18;

/// A disk's memory.
#[derive(Debug)]
pub(crate) struct Held {
    blocks: BTreeMap<u64, Block>,
    /// What was read is kept, too.
    keeps_reads: bool,
    true_every: u32,
    pub(crate) flush_count: u32,
}

#[derive(Debug)]
struct Block {
    bytes: Box<[u8]>,
    is_written: bool,
}

impl Held {
    pub(crate) fn new(keeps_reads: bool, true_every: u32) -> Held {
        Held { blocks: BTreeMap::new(), keeps_reads, true_every, flush_count: 0 }
    }

    /// Says whether memory alone answered.
    pub(crate) fn read(&mut self, backing: &Backing, offset: u64, into: &mut [u8]) -> io::Result<bool> {
        let has_all = blocks(offset, into.len()).all(|block| self.blocks.contains_key(&block));
        if !has_all && !self.keeps_reads {
            backing.read(offset, into)?;
        }
        for (block, within, part) in parts(offset, into.len()) {
            let held = match self.blocks.get(&block) {
                Some(held) => held,
                None if self.keeps_reads => self.fetch(backing, block)?,
                None => continue,
            };
            into[part].copy_from_slice(&held.bytes[within]);
        }
        Ok(has_all)
    }

    pub(crate) fn write(&mut self, backing: &Backing, offset: u64, data: &[u8]) -> io::Result<()> {
        for (block, within, part) in parts(offset, data.len()) {
            self.fetch(backing, block)?;
            if let Some(held) = self.blocks.get_mut(&block) {
                held.bytes[within].copy_from_slice(&data[part]);
                held.is_written = true;
            }
        }
        Ok(())
    }

    /// Says whether it was a true one.
    pub(crate) fn flush(&mut self, backing: &Backing) -> io::Result<bool> {
        self.flush_count += 1;
        let is_true = self.true_every > 0 && self.flush_count.is_multiple_of(self.true_every);
        if is_true {
            self.settle(backing)?;
        }
        Ok(is_true)
    }

    /// More than half of the flushes between two true ones were answered and not done: some of them were
    /// for commits, and those were told to clients.
    pub(crate) fn is_deep_in_lies(&self) -> bool {
        let false_ones = self.flush_count.checked_rem(self.true_every).unwrap_or(self.flush_count);
        false_ones > (self.true_every / 2).max(1)
    }

    /// Writes down what is held.
    pub(crate) fn settle(&mut self, backing: &Backing) -> io::Result<()> {
        for (block, held) in self.blocks.iter_mut().filter(|(_, held)| held.is_written) {
            backing.write(block * BLOCK_BYTES, &held.bytes)?;
            held.is_written = false;
        }
        if !self.keeps_reads {
            self.blocks.clear();
        }
        backing.flush()
    }

    /// The power is gone, and the memory with it.
    pub(crate) fn lose(&mut self) {
        self.blocks.clear();
    }

    fn fetch(&mut self, backing: &Backing, block: u64) -> io::Result<&Block> {
        if !self.blocks.contains_key(&block) && self.blocks.len() >= BLOCKS_MAX {
            self.settle(backing)?;
            self.blocks.clear();
        }
        match self.blocks.entry(block) {
            std::collections::btree_map::Entry::Occupied(held) => Ok(held.into_mut()),
            std::collections::btree_map::Entry::Vacant(place) => {
                let mut bytes = vec![0; BLOCK].into_boxed_slice();
                backing.read(block * BLOCK_BYTES, &mut bytes)?;
                Ok(place.insert(Block { bytes, is_written: false }))
            }
        }
    }
}

/// The blocks that these bytes touch.
pub(crate) fn blocks(offset: u64, length: usize) -> std::ops::Range<u64> {
    offset / BLOCK_BYTES..(offset + length as u64).div_ceil(BLOCK_BYTES)
}

/// Each block that these bytes touch, with the part within the block and the part of the bytes.
pub(crate) fn parts(
    offset: u64,
    length: usize,
) -> impl Iterator<Item = (u64, std::ops::Range<usize>, std::ops::Range<usize>)> {
    let end = offset + length as u64;
    blocks(offset, length).map(move |block| {
        let begin = block * BLOCK_BYTES;
        let (from, to) = (begin.max(offset), (begin + BLOCK_BYTES).min(end));
        let within = (from - begin) as usize..(to - begin) as usize;
        (block, within, (from - offset) as usize..(to - offset) as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_bytes_block_by_block() {
        let all: Vec<_> = parts(4000, 5000).collect();
        assert_eq!(all, [(0, 4000..4096, 0..96), (1, 0..4096, 96..4192), (2, 0..808, 4192..5000)]);
        assert_eq!(parts(4096, 4096).count(), 1);
        assert_eq!(parts(4096, 0).count(), 0);
    }
}
