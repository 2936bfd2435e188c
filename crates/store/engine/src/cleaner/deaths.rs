//! Eager death: chunks known to be dead before the next mark finds out.
//!
//! A mark says what was alive at its cut, and serves several rounds of moving; under a steady load much of
//! it is dead before its turn comes, and would be moved for nothing. When a write replaces what a volume
//! mapped, the replaced block is dead at once if nobody else can refer to it:
//!
//! 1. No snapshot or clone was taken of the volume since the block was born, and the volume is no clone
//!    made after it. Addresses stay for life, and segment numbers only grow: a block in a segment whose
//!    number was above all others when the volume's newest snapshot was seen is younger than that.
//! 2. Nothing refers to it by content: cycles that start when the pool has shared blocks go without eager
//!    death, and in the others all candidates are condemned from start to end, alive by the mark or not.
//!
//! Only emptying uses it: a chunk all of whose blocks died is left behind. The cut of the checkpoint that
//! makes this so is later than the deaths, so no published image refers to what it left behind, and an
//! image of before finds everything where it was. Kept in memory while a cycle runs, within a limit;
//! losing it costs only moving.

use std::collections::BTreeMap;

use ashlar_format::Pointer;
use ashlar_format::catalogue::VolumeEntry;
use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_units::{BLOCK_BYTES, Fault, Lsn, SegmentId, VolumeId, planted};
use rustc_hash::FxHashSet;

/// Chunks remembered at most: some 10 MiB.
const CHUNKS_MAX: usize = 1 << 18;

/// A chunk's address of birth: segment, offset in place units.
type Address = (u32, u32);

fn address(pointer: Pointer) -> Address {
    (pointer.segment().0, (pointer.offset_bytes() / PLACE_UNIT_BYTES) as u32)
}

/// Blocks that died at once, not told to the estimate of segments yet.
pub(super) struct News {
    pub(super) chunk: Pointer,
    /// What they may give back of the chunk's bytes.
    pub(super) bytes: u64,
}

/// What died since the running cycle began.
#[derive(Default)]
pub(crate) struct Deaths {
    is_recording: bool,
    /// Dead blocks of each chunk, a bit for each.
    blocks: BTreeMap<Address, u16>,
    news: Vec<News>,
    /// For volumes with snapshots: the newest one seen, and the first segment number younger than it.
    young_from: BTreeMap<VolumeId, (Lsn, u32)>,
    /// Chunks left behind: the next mark must not meet them.
    left_behind: FxHashSet<Address>,
    /// What was applied by then: images of this or an earlier LSN may still refer to them.
    left_behind_at: u64,
}

impl Deaths {
    /// A cycle begins: what died before is in its marks.
    pub(super) fn begin(&mut self) {
        self.is_recording = true;
        self.blocks.clear();
        self.news.clear();
    }

    /// The cycle is over, or goes on without.
    pub(crate) fn end(&mut self) {
        self.is_recording = false;
        self.blocks = BTreeMap::new();
        self.news = Vec::new();
    }

    /// Whether anybody wants to know what a write replaces.
    pub(crate) fn is_recording(&self) -> bool {
        self.is_recording && self.blocks.len() < CHUNKS_MAX
    }

    /// The first segment number that is younger than every image that may share with this volume.
    /// `next` gives a number above all that were ever opened.
    pub(crate) fn young_from(&mut self, volume: &VolumeEntry, next: impl FnOnce() -> u32) -> u32 {
        if volume.newest_snapshot == Lsn(0) {
            return 0;
        }
        match self.young_from.get(&volume.id) {
            Some((snapshot, from)) if *snapshot == volume.newest_snapshot => *from,
            _ => {
                let from = next();
                let before = self.young_from.get(&volume.id).map_or(0, |(_, before)| *before);
                assert!(from >= before, "segment numbers fell from {before} to {from}");
                self.young_from.insert(volume.id, (volume.newest_snapshot, from));
                from
            }
        }
    }

    /// Blocks were replaced in a volume whose own chunks start at segment `young_from`.
    pub(crate) fn note(&mut self, replaced: &[Pointer], young_from: u32) {
        let is_own = |pointer: &&Pointer| {
            pointer.is_data() && (pointer.segment().0 >= young_from || planted(Fault::SharedTakenForDead))
        };
        for pointer in replaced.iter().filter(is_own) {
            let dead = self.blocks.entry(address(*pointer)).or_default();
            *dead |= 1 << pointer.block_index();
            let chunk = pointer.chunk();
            match self.news.last_mut() {
                Some(last) if last.chunk == chunk => last.bytes += BLOCK_BYTES,
                _ => self.news.push(News { chunk, bytes: BLOCK_BYTES }),
            }
        }
    }

    /// Whether all these blocks of a chunk are dead, a bit each.
    pub(super) fn is_dead(&self, segment: SegmentId, offset_bytes: u64, blocks: u16) -> bool {
        let at = (segment.0, (offset_bytes / PLACE_UNIT_BYTES) as u32);
        self.blocks.get(&at).is_some_and(|dead| dead & blocks == blocks)
    }

    /// What died since the last time this was asked.
    pub(super) fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// The places of dead chunks go, with everything below this LSN applied.
    pub(super) fn leave_behind(&mut self, chunks: &[(SegmentId, u32)], applied_lsn: u64) {
        if !chunks.is_empty() {
            self.left_behind_at = applied_lsn;
        }
        self.left_behind.extend(chunks.iter().map(|(segment, units)| (segment.0, *units)));
    }

    /// Chunks left behind since the last mark, for a mark of images of this LSN to compare with. None when
    /// the images may be older than the deaths: the checkpoint after them found no space.
    pub(super) fn take_left_behind(&mut self, lsn: u64) -> LeftBehind {
        if lsn <= self.left_behind_at {
            return LeftBehind::default();
        }
        LeftBehind(std::mem::take(&mut self.left_behind))
    }
}

/// Chunks whose place is gone.
#[derive(Default)]
pub(super) struct LeftBehind(FxHashSet<Address>);

impl LeftBehind {
    pub(super) fn has(&self, chunk: Pointer) -> bool {
        !self.0.is_empty() && self.0.contains(&address(chunk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(segment: u32) -> Pointer {
        Pointer::data(SegmentId(segment), 4096, 6000)
    }

    #[test]
    fn a_chunk_is_dead_when_its_last_block_is() {
        let mut deaths = Deaths::default();
        assert!(!deaths.is_recording());
        deaths.begin();
        assert!(deaths.is_recording());
        deaths.note(&[chunk(9), Pointer::HOLE, chunk(9).with_block_index(2)], 0);
        assert!(!deaths.is_dead(SegmentId(9), 4096, 0b111));
        deaths.note(&[chunk(9).with_block_index(1)], 0);
        assert!(deaths.is_dead(SegmentId(9), 4096, 0b111) && !deaths.is_dead(SegmentId(9), 4096, 0b1111));
        assert!(!deaths.is_dead(SegmentId(9), 8192, 0b111) && !deaths.is_dead(SegmentId(8), 4096, 0b111));
        deaths.begin();
        assert!(!deaths.is_dead(SegmentId(9), 4096, 0b111));
        deaths.end();
        assert!(!deaths.is_recording());
    }

    #[test]
    fn a_mark_of_images_older_than_the_deaths_does_not_compare() {
        let mut deaths = Deaths::default();
        deaths.leave_behind(&[(SegmentId(9), 64)], 100);
        assert!(!deaths.take_left_behind(100).has(chunk(9)));
        assert!(deaths.take_left_behind(101).has(chunk(9)));
        assert!(!deaths.take_left_behind(102).has(chunk(9)));
    }

    #[test]
    fn what_an_image_may_share_is_not_dead() {
        let mut deaths = Deaths::default();
        deaths.begin();
        deaths.note(&[chunk(7), chunk(8)], 8);
        assert!(!deaths.is_dead(SegmentId(7), 4096, 1) && deaths.is_dead(SegmentId(8), 4096, 1));
    }
}
