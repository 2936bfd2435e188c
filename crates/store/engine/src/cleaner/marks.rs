//! What a mark found alive: by segment, the lines in which something alive begins.

use ashlar_format::Pointer;
use ashlar_units::SegmentId;
use rustc_hash::FxHashMap;

use super::deaths::LeftBehind;
use crate::walk::Visitor;

/// A line: 1 KiB, a bit for each (128 MiB for a full TiB, while a mark is under way). Few chunks are
/// smaller, so a line says which chunk is alive; the dead neighbours of small ones move along.
pub(super) const LINE_BYTES: u64 = 1024;

/// One segment's lines.
#[derive(Default)]
pub(super) struct SegmentMarks {
    lines: Vec<u64>,
    live_bytes: u64,
}

impl SegmentMarks {
    fn set(&mut self, offset_bytes: u64, length_bytes: u64) {
        let (word, bit) = place_of(offset_bytes);
        if self.lines.len() <= word {
            self.lines.resize(word + 1, 0);
        }
        if self.lines[word] & bit == 0 {
            self.lines[word] |= bit;
            self.live_bytes += length_bytes;
        }
    }

    /// Whether something alive begins in the line of this offset.
    pub(super) fn has(&self, offset_bytes: u64) -> bool {
        let (word, bit) = place_of(offset_bytes);
        self.lines.get(word).is_some_and(|line| line & bit != 0)
    }

    /// Where the marked lines begin, ascending.
    pub(super) fn lines(&self) -> impl Iterator<Item = u64> {
        let bits = |(word, line): (usize, &u64)| {
            let line = *line;
            (0..64).filter(move |bit| line >> bit & 1 == 1).map(move |bit| word as u64 * 64 + bit)
        };
        self.lines.iter().enumerate().flat_map(bits).map(|line| line * LINE_BYTES)
    }

    /// Bytes alive. Of several small chunks that begin in one line only one is counted.
    pub(super) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }
}

fn place_of(offset_bytes: u64) -> (usize, u64) {
    let line = offset_bytes / LINE_BYTES;
    ((line / 64) as usize, 1 << (line % 64))
}

/// All segments' lines, by the addresses that pointers name.
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

    pub(super) fn add(&mut self, pointer: Pointer) {
        self.add_at(pointer.segment(), pointer.offset_bytes(), pointer.length_bytes_max());
    }

    pub(super) fn add_at(&mut self, segment: SegmentId, offset_bytes: u64, length_bytes: u64) {
        self.segments.entry(segment).or_default().set(offset_bytes, length_bytes);
    }

    /// The marks of a segment; `None` when nothing in it is alive.
    pub(super) fn of(&self, segment: SegmentId) -> Option<&SegmentMarks> {
        self.segments.get(&segment)
    }
}

impl Visitor for Marks {
    fn page(&mut self, pointer: Pointer) {
        self.add(pointer);
    }

    fn leaf(&mut self, pointers: &[Pointer]) {
        let mut last = Pointer::HOLE;
        for pointer in pointers.iter().filter(|pointer| pointer.is_data()) {
            if pointer.chunk() != last {
                last = pointer.chunk();
                self.add(last);
                if self.left_behind.has(last) {
                    self.wrongly_dead = Some(last);
                }
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
        marks.add(pointer);
        marks.add(pointer.with_block_index(2));
        marks.add(Pointer::data(SegmentId(3), 4096, 300));
        let of = marks.of(SegmentId(3)).expect("marked");
        assert_eq!(of.live_bytes(), 4352 + 512);
        assert_eq!(of.lines().collect::<Vec<_>>(), [4096, 70 * 1024]);
        assert!(of.has(70 * 1024 + 1000) && !of.has(71 * 1024) && !of.has(1 << 30));
        assert!(marks.of(SegmentId(4)).is_none());
    }
}
