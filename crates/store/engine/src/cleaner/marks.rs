//! What a mark found alive: by segment, the lines in which something alive begins, and the blocks of
//! chunks that something refers to.

use ashlar_format::Pointer;
use ashlar_format::chunk::{CHUNK_BLOCKS_MAX, CHUNK_HEADER_BYTES};
use ashlar_format::pointer::{LENGTH_UNIT_BYTES, PLACE_UNIT_BYTES};
use ashlar_format::relocation::Relocation;
use ashlar_units::{BLOCK_BYTES, SegmentId};
use rustc_hash::FxHashMap;

use super::deaths::LeftBehind;
use crate::walk::Visitor;

/// A line: 1 KiB, a bit for each (128 MiB for a full TiB, while a mark is under way, and as much again
/// where chunks have several blocks). Few chunks are smaller, so a line says which chunk is alive; the
/// dead neighbours of small ones move along.
pub(super) const LINE_BYTES: u64 = 1024;

/// A bit for each line.
#[derive(Clone, Default)]
struct Lines(Vec<u64>);

impl Lines {
    /// Sets a bit; true when it was not set.
    fn set(&mut self, line: u64) -> bool {
        let (word, bit) = ((line / 64) as usize, 1 << (line % 64));
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }

    fn has(&self, line: u64) -> bool {
        self.0.get((line / 64) as usize).is_some_and(|word| word >> (line % 64) & 1 == 1)
    }

    fn iter(&self) -> impl Iterator<Item = u64> {
        let bits = |(word, bits): (usize, &u64)| {
            let bits = *bits;
            (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| word as u64 * 64 + bit)
        };
        self.0.iter().enumerate().flat_map(bits)
    }
}

/// One segment's marks.
#[derive(Default)]
pub(super) struct SegmentMarks {
    begins: Lines,
    /// Block i of a chunk has the bit of the i-th line from the chunk's own. Chunks compressed to less
    /// than a quarter have fewer lines than blocks, and their bits spill over into those of the chunk
    /// behind: more may be taken for alive then, never less. `None` while every chunk met was referred to
    /// by its first block only: then the line says it.
    blocks: Option<Lines>,
    live_bytes: u64,
    kept_bytes: u64,
}

impl SegmentMarks {
    /// A page record, or anything of which no part can go.
    fn set(&mut self, offset_bytes: u64, taken_bytes: u64) {
        self.set_partly(offset_bytes, taken_bytes, taken_bytes);
    }

    fn set_partly(&mut self, offset_bytes: u64, taken_bytes: u64, kept_bytes: u64) {
        if self.begins.set(offset_bytes / LINE_BYTES) {
            self.live_bytes += taken_bytes;
            self.kept_bytes += kept_bytes;
        }
    }

    /// Blocks of a chunk, a bit each.
    fn set_blocks(&mut self, offset_bytes: u64, length_bytes_max: u64, mask: u16) {
        let taken_bytes = taken_bytes(length_bytes_max);
        let line = offset_bytes / LINE_BYTES;
        let before = self.block_mask(offset_bytes);
        if mask != 1 && self.blocks.is_none() {
            self.blocks = Some(self.begins.clone());
        }
        if let Some(blocks) = &mut self.blocks {
            for index in (0..u64::from(u16::BITS)).filter(|index| mask >> index & 1 == 1) {
                blocks.set(line + index);
            }
        }
        if self.begins.set(line) {
            self.live_bytes += taken_bytes;
        }
        // How many blocks the chunk has is not known here: at least up to the last one met.
        let last = u64::from(u16::BITS - (mask | before).leading_zeros());
        let blocks = last.max(blocks_stored_min(length_bytes_max));
        self.kept_bytes += taken_bytes * u64::from((mask & !before).count_ones()) / blocks;
    }

    /// Whether something alive begins in the line of this offset.
    pub(super) fn has(&self, offset_bytes: u64) -> bool {
        self.begins.has(offset_bytes / LINE_BYTES)
    }

    /// Whether something refers to this block of the chunk that begins at an offset, as far as known. Only
    /// what begins in a marked line is looked at for moving: the bit of a block may be another chunk's.
    pub(super) fn has_block(&self, offset_bytes: u64, block_index: usize) -> bool {
        let line = offset_bytes / LINE_BYTES;
        let is_marked = |blocks: &Lines| blocks.has(line + block_index as u64);
        self.begins.has(line) && self.blocks.as_ref().map_or(block_index == 0, is_marked)
    }

    /// A bit for each of those blocks.
    pub(super) fn block_mask(&self, offset_bytes: u64) -> u16 {
        (0..CHUNK_BLOCKS_MAX)
            .filter(|index| self.has_block(offset_bytes, *index))
            .fold(0, |mask, index| mask | 1 << index)
    }

    /// Where the marked lines begin, ascending.
    pub(super) fn lines(&self) -> impl Iterator<Item = u64> {
        self.begins.iter().map(|line| line * LINE_BYTES)
    }

    /// The first marked line that begins in a range of whole lines.
    pub(super) fn first_between(&self, from: u64, to: u64) -> Option<u64> {
        let mut lines = from / LINE_BYTES..(to / LINE_BYTES).min(self.begins.0.len() as u64 * 64);
        lines.find(|line| self.begins.has(*line)).map(|line| line * LINE_BYTES)
    }

    /// Bytes alive, an estimate. Of several small chunks that begin in one line only one is counted.
    pub(super) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// What of that would be left after moving, an estimate: blocks that nothing refers to stay behind.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }
}

/// What a chunk or a page record takes of its segment, an estimate: its length is known to 256 bytes only.
/// Blocks that did not compress take themselves and a header, which tells them by their length; what else
/// there is ends anywhere in its last unit. Segments that look fuller than they are would never be emptied.
pub(crate) fn taken_bytes(length_bytes_max: u64) -> u64 {
    let header_bytes = CHUNK_HEADER_BYTES as u64;
    let blocks = length_bytes_max.saturating_sub(header_bytes) / BLOCK_BYTES;
    let uncompressed = (header_bytes + blocks * BLOCK_BYTES).next_multiple_of(PLACE_UNIT_BYTES);
    if blocks > 0 && uncompressed + LENGTH_UNIT_BYTES > length_bytes_max {
        uncompressed
    } else {
        length_bytes_max - (LENGTH_UNIT_BYTES - PLACE_UNIT_BYTES) / 2
    }
}

/// Blocks that a chunk of this stored length has at least.
fn blocks_stored_min(length_bytes: u64) -> u64 {
    let around = CHUNK_HEADER_BYTES as u64 + LENGTH_UNIT_BYTES - 1;
    length_bytes.saturating_sub(around).div_ceil(BLOCK_BYTES).max(1)
}

/// All segments' marks, by the addresses that pointers name.
#[derive(Default)]
pub(super) struct Marks {
    segments: FxHashMap<SegmentId, SegmentMarks>,
    left_behind: LeftBehind,
    wrongly_dead: Option<Pointer>,
}

impl Marks {
    /// No marks yet; none of the chunks left behind may be met.
    pub(super) fn new(left_behind: LeftBehind) -> Marks {
        Marks { left_behind, ..Marks::default() }
    }

    /// A chunk left behind that something refers to: the proof that eager death errs, if there is one.
    pub(super) fn wrongly_dead(&self) -> Option<Pointer> {
        self.wrongly_dead
    }

    /// A page record.
    pub(super) fn add_page(&mut self, pointer: Pointer) {
        let marks = self.segments.entry(pointer.segment()).or_default();
        marks.set(pointer.offset_bytes(), taken_bytes(pointer.length_bytes_max()));
    }

    /// A block of a chunk.
    pub(super) fn add_block(&mut self, pointer: Pointer) {
        self.add_blocks(pointer.chunk(), 1 << pointer.block_index());
    }

    fn add_blocks(&mut self, chunk: Pointer, mask: u16) {
        let marks = self.segments.entry(chunk.segment()).or_default();
        marks.set_blocks(chunk.offset_bytes(), chunk.length_bytes_max(), mask);
    }

    /// Something alive that was moved to a container. Its blocks are marked by the address of birth.
    pub(super) fn add_moved(&mut self, moved: &Relocation, blocks: u16) {
        let (length, taken) = (moved.length_bytes_max, taken_bytes(moved.length_bytes_max));
        // It may have been trimmed to as many blocks as it stores; the mask may have those of others.
        let own = blocks & (u16::MAX >> (16 - length.div_ceil(LINE_BYTES).min(16)));
        let stored = blocks_stored_min(length);
        let kept = match u64::from(own.count_ones()) {
            0 => taken,
            alive => taken * alive.min(stored) / stored,
        };
        self.segments.entry(moved.container).or_default().set_partly(moved.offset_bytes, taken, kept);
    }

    /// The marks of a segment; `None` when nothing in it is alive.
    pub(super) fn of(&self, segment: SegmentId) -> Option<&SegmentMarks> {
        self.segments.get(&segment)
    }
}

impl Visitor for Marks {
    fn page(&mut self, pointer: Pointer) {
        self.add_page(pointer);
    }

    fn leaf(&mut self, pointers: &[Pointer]) {
        for of_chunk in pointers.chunk_by(|one, next| one.is_data() && one.chunk() == next.chunk()) {
            if !of_chunk[0].is_data() {
                continue;
            }
            let chunk = of_chunk[0].chunk();
            let mask = of_chunk.iter().fold(0, |mask, pointer| mask | 1 << pointer.block_index());
            self.add_blocks(chunk, mask);
            if self.left_behind.has(chunk) {
                self.wrongly_dead = Some(chunk);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_met_twice_counts_once() {
        let mut marks = Marks::default();
        let pointer = Pointer::data(SegmentId(3), 70 * 1024 + 64, 4128);
        marks.add_block(pointer);
        marks.add_block(pointer.with_block_index(2));
        marks.add_page(Pointer::page(SegmentId(3), 4096, 300));
        let of = marks.of(SegmentId(3)).expect("marked");
        assert_eq!(of.live_bytes(), 4160 + 416);
        assert_eq!(of.lines().collect::<Vec<_>>(), [4096, 70 * 1024]);
        assert!(of.has(70 * 1024 + 1000) && !of.has(71 * 1024) && !of.has(1 << 30));
        assert!(marks.of(SegmentId(4)).is_none());
    }

    #[test]
    fn blocks_of_a_chunk_are_told_apart() {
        let mut marks = Marks::default();
        let first = Pointer::data(SegmentId(3), 64, 4128);
        let chunk = Pointer::data(SegmentId(3), 8192, 32 + 8 * 4096);
        marks.add_block(first);
        let alone = marks.of(SegmentId(3)).expect("marked");
        assert!(alone.has_block(64, 0) && !alone.has_block(64, 1) && !alone.has_block(8192, 0));
        marks.leaf(&[Pointer::HOLE, chunk.with_block_index(1), chunk.with_block_index(6), Pointer::ZERO]);
        let of = marks.of(SegmentId(3)).expect("marked");
        assert_eq!(of.block_mask(8192), 0b100_0010);
        // Behind it, where block 1 has its bit, nothing begins.
        assert!(!of.has_block(8192 + 1024, 0) && !of.has(8192 + 1024));
        assert!(of.has_block(64, 0) && !of.has_block(64, 1));
        assert_eq!(of.live_bytes(), (64 + 4096) + (64 + 8 * 4096));
        assert_eq!(of.kept_bytes(), (64 + 4096) + (64 + 8 * 4096) / 4);
        marks.leaf(&(0..8).map(|index| chunk.with_block_index(index)).collect::<Vec<_>>());
        let of = marks.of(SegmentId(3)).expect("marked");
        let off_by = of.live_bytes() - of.kept_bytes();
        assert!(off_by < 8, "{off_by} bytes of rounding");
    }

    #[test]
    fn what_was_moved_keeps_the_share_of_its_blocks_that_is_alive() {
        let moved = |container, blocks: u64| Relocation {
            old_units: 1,
            container: SegmentId(container),
            offset_bytes: 4096,
            length_bytes_max: (32 + blocks * 4096).next_multiple_of(LENGTH_UNIT_BYTES),
        };
        let mut marks = Marks::default();
        marks.add_moved(&moved(5, 8), 0b1010);
        marks.add_moved(&moved(6, 2), 0b1000_0001);
        marks.add_moved(&moved(7, 1), 0);
        let kept = |container| marks.of(SegmentId(container)).map(SegmentMarks::kept_bytes);
        assert_eq!(kept(5), Some((64 + 8 * 4096) / 4));
        assert_eq!(kept(6), Some(64 + 2 * 4096));
        assert_eq!(kept(7), Some(64 + 4096));
    }

    #[test]
    fn what_is_alive_is_not_taken_for_more_than_it_is() {
        for blocks in 1..=16 {
            let stored =
                (CHUNK_HEADER_BYTES as u64 + blocks * BLOCK_BYTES).next_multiple_of(PLACE_UNIT_BYTES);
            assert_eq!(taken_bytes(stored.next_multiple_of(LENGTH_UNIT_BYTES)), stored);
        }
        let lengths = (1000..3000_u64).step_by(7);
        let stored: u64 = lengths.clone().map(|bytes| bytes.next_multiple_of(PLACE_UNIT_BYTES)).sum();
        let taken: u64 = lengths.map(|bytes| taken_bytes(bytes.next_multiple_of(LENGTH_UNIT_BYTES))).sum();
        assert!(taken.abs_diff(stored) * 200 < stored, "{taken} for {stored}");
        assert!(taken_bytes(LENGTH_UNIT_BYTES) > 0);
    }
}
