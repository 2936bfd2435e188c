//! What a volume has of its own on the drives: the chunks that it wrote itself and still refers to.
//!
//! The count stands in the volume's entry, changes with each record that is applied, and is durable with it.
//! Limits and reserves go by it, because it is known at every write without a walk:
//!
//! - *Written by itself* is told by the address of birth. Chunks are born in the order of the journal, and
//!   pointers never change. A clone notes where the next chunk will be born when it is made: what it finds
//!   lies before that, what it writes behind. A volume that is no clone has all it refers to for its own.
//! - *Still refers to* is told by the 64 KiB region: no chunk crosses its end, so the sixteen pointers of a
//!   region tell which chunks it needs, before a record and after it. A chunk counts as a whole while any
//!   block of it is referred to, as it does on the drives until the cleaner trims it.
//!
//! So the count is a function of the map and of where its own begins, and a walk comes to the same number
//! (`pool check` does). It errs upwards: a chunk that was trimmed counts as it was, and one that dedupe found
//! equal counts in each region that refers to it, unless it was there before the clone. Bytes are those of
//! records as the mark estimates them, exact where nothing compresses and within 128 bytes a chunk elsewhere.
//! Map pages, parity, and what only snapshots of the volume still show do not count.
//!
//! After an unmap that drops map pages uncounted it is an upper bound until the volume is counted anew.

use std::ops::Range;

use ashlar_format::Pointer;
use ashlar_format::catalogue::VolumeEntry;
use ashlar_format::chunk::CHUNK_REGION_BLOCKS;
use ashlar_format::page::PAGE_POINTERS;
use ashlar_map::{Missing, PageArena};

use crate::apply::WRITTEN_UNKNOWN;
use crate::cleaner::taken_bytes;

const LEAF_BLOCKS: u64 = PAGE_POINTERS as u64;
const _: () = assert!(LEAF_BLOCKS.is_multiple_of(CHUNK_REGION_BLOCKS));

/// Bytes of the own chunks that these slots refer to. They begin where a region does.
pub(crate) fn own_bytes(slots: &[Pointer], own_from: u64) -> u64 {
    slots.chunks(CHUNK_REGION_BLOCKS as usize).map(|region| own_bytes_of_region(region, own_from)).sum()
}

fn own_bytes_of_region(region: &[Pointer], own_from: u64) -> u64 {
    let is_own = |pointer: &Pointer| pointer.is_data() && pointer.birth_place() >= own_from;
    let is_first = |(at, pointer): &(usize, &Pointer)| {
        is_own(pointer)
            && !region[..*at].iter().any(|other| other.is_data() && other.chunk() == pointer.chunk())
    };
    let chunks = region.iter().enumerate().filter(is_first);
    chunks.map(|(_, pointer)| taken_bytes(pointer.length_bytes_max())).sum()
}

/// What a change of the map makes of a volume's own bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct OwnChange {
    /// Of the regions touched, before.
    pub(crate) before: u64,
    /// And after.
    pub(crate) after: u64,
}

impl OwnChange {
    /// Both.
    pub(crate) fn add(&mut self, other: OwnChange) {
        self.before += other.before;
        self.after += other.after;
    }

    /// The entry as it is after the change. A count comes from a drive and is only a count: one that cannot
    /// be right is counted anew, and nothing stops.
    pub(crate) fn of(self, entry: &mut VolumeEntry) {
        if entry.own_bytes < self.before {
            entry.written_blocks = WRITTEN_UNKNOWN;
        }
        entry.own_bytes = entry.own_bytes.saturating_sub(self.before).saturating_add(self.after);
    }
}

/// What mapping a range anew makes of the own bytes. Of few blocks: the regions around them are looked at.
pub(crate) fn own_change(
    arena: &mut PageArena,
    root: Pointer,
    own_from: u64,
    range: Range<u64>,
    mapped: impl Fn(u64) -> Pointer,
) -> Result<OwnChange, Missing> {
    assert!(range.end - range.start <= 2 * LEAF_BLOCKS, "{range:?} is looked at block by block");
    let first = range.start / CHUNK_REGION_BLOCKS * CHUNK_REGION_BLOCKS;
    let end = range.end.next_multiple_of(CHUNK_REGION_BLOCKS);
    let mut slots = Vec::with_capacity((end - first) as usize);
    arena.lookup_run(root, first, end - first, &mut slots)?;
    let before = own_bytes(&slots, own_from);
    range.for_each(|block| slots[(block - first) as usize] = mapped(block));
    Ok(OwnChange { before, after: own_bytes(&slots, own_from) })
}

/// The parts of a fill that lie in leaves which it does not fill whole. What it does fill whole is uniform,
/// and then there is nothing to count, or it is dropped uncounted.
pub(crate) fn edges_of(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let first_end = range.start.next_multiple_of(LEAF_BLOCKS).min(range.end);
    let last_start = (range.end / LEAF_BLOCKS * LEAF_BLOCKS).max(first_end);
    [range.start..first_end, last_start..range.end].into_iter().filter(|edge| !edge.is_empty())
}

#[cfg(test)]
mod tests {
    use ashlar_units::SegmentId;

    use super::*;

    fn chunk(offset: u64, blocks: u64) -> Pointer {
        Pointer::data(SegmentId(7), offset, 32 + blocks * 4096)
    }

    #[test]
    fn chunks_count_whole_and_once_and_only_those_born_later() {
        let (old, one, large) = (chunk(0, 1), chunk(64, 1), chunk(1 << 20, 2));
        let mut slots = [Pointer::HOLE; 32];
        (slots[0], slots[1], slots[2]) = (old, one, large.with_block_index(1));
        (slots[5], slots[9], slots[17]) = (large, Pointer::ZERO, large);
        let from = one.birth_place();
        assert_eq!(own_bytes(&slots[..16], from), 4160 + 8256);
        assert_eq!(own_bytes(&slots[..16], 0), 2 * 4160 + 8256);
        assert_eq!(own_bytes(&slots, from), 4160 + 2 * 8256);
        assert_eq!(own_bytes(&slots, Pointer::data(SegmentId(8), 0, 1).birth_place()), 0);
    }

    #[test]
    fn edges_are_what_is_not_whole_leaves() {
        let edges = |range: Range<u64>| edges_of(range).collect::<Vec<_>>();
        assert_eq!(edges(3..9), vec![3..9]);
        assert_eq!(edges(0..9), vec![0..9]);
        assert_eq!(edges(500..520), vec![500..512, 512..520]);
        assert_eq!(edges(512..1 << 30), vec![]);
        assert_eq!(edges(511..(1 << 30) + 1), vec![511..512, 1 << 30..(1 << 30) + 1]);
    }
}
