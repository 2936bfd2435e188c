//! Copies of blocks inside a pool: what a volume or snapshot has becomes a volume's, by records alone.
//!
//! ```text
//! hold     the target's blocks, as for a whole write                       (range_lock)
//! look up  what the source's map says now                                  \
//! note     the chunks in the list of shares, as alive                       } no await between these
//! submit   `Copy` for blocks of a chunk, `Fill` for holes and zeroes       /
//! apply    in the order of the journal, like any other write
//! ```
//!
//! Of the source nothing is held: each piece is what it was at one moment of the request, and a write of
//! part of a block comes before that moment or behind it. Pointers tell all about what they name, so it does
//! not matter how either volume compresses or cuts.
//!
//! Why no copy leads to a place that is freed. Let a map have block B of chunk T when the copy is submitted.
//! 1. What a map has the cleaner's running cycle keeps. Either T was written behind the cycle's cut, and is
//!    in no candidate. Or an image of the cut has B, or the list of shares that the cycle took: then B is
//!    marked, or will be. Or it came there since by a share, of what was not condemned, or by a copy, of what
//!    a map had. So it does not matter that dedupe would call T condemned.
//! 2. But for eager death: a later write to the source would have T left behind. So the first copy ends it
//!    for the running cycle, which then moves what it would have left; and the superblock tells of shared
//!    blocks before the first copy, so that no later cycle begins with it.
//! 3. A cycle that begins behind the submission finds the copy in its checkpoint, or T in the list. It need
//!    not be applied, nor the source have T any more, nor be there.
//! 4. Replay meets the copy behind the group that wrote T, and T where the rules above kept it.
//!
//! Invariants:
//! 1. A copy of the source's pointers is decided and submitted between two awaits.
//! 2. The pointers are those of the source's map. So all pointers to a chunk stay equal.

use std::time::Duration;

use ashlar_format::Pointer;
use ashlar_format::chunk::{CHUNK_BLOCKS_MAX, CHUNK_REGION_BLOCKS};
use ashlar_format::group::Record;
use ashlar_format::superblock::{INCOMPATIBLE_COPIES, INCOMPATIBLE_SHARES};
use ashlar_journal::Draft;
use ashlar_map::Missing;
use ashlar_runtime::sync::Permit;
use ashlar_units::{BLOCK_BYTES, Fault, VolumeId, planted};

use crate::Result;
use crate::dedupe::ShareNumber;
use crate::engine::Inner;
use crate::range_lock::Turn;
use crate::write_path::{Pending, outcome_of, piece_blocks};

/// Blocks looked up and submitted in one go: at most as many records. Arbitrary, as for dedupe.
const PIECE_BLOCKS_MAX: u64 = 64;

/// Bytes of a copy in the journal, and what it takes in memory on its way.
const RECORD_BYTES: usize = 29 + 256;

/// How often a piece is looked up again because the source changed while the target's limit was counted.
const ATTEMPTS: usize = 16;

/// How often and when a copy looks whether the list of shares has room again. Arbitrary: a checkpoint takes
/// less than a second.
const LIST_LOOKS: u32 = 100;
const LIST_LOOK: Duration = Duration::from_millis(10);

/// Blocks of an image of this pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stretch {
    pub(crate) image: VolumeId,
    pub(crate) first_block: u64,
    pub(crate) blocks: u64,
}

impl Stretch {
    fn end(self) -> u64 {
        self.first_block + self.blocks
    }

    fn overlaps(self, other: Stretch) -> bool {
        self.image == other.image && self.first_block < other.end() && other.first_block < self.end()
    }

    fn part(self, at: u64, blocks: u64) -> Stretch {
        Stretch { first_block: self.first_block + at, blocks, ..self }
    }
}

/// Blocks that one record copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    /// The first, of the target.
    block: u64,
    blocks: u64,
    /// What the source has there: a hole, zeroes, or the first of these blocks of a chunk.
    pointer: Pointer,
}

impl Run {
    fn record(self, volume: VolumeId) -> Record {
        let Run { block, blocks, pointer } = self;
        if pointer.is_data() {
            return Record::Copy { volume, block, blocks: blocks as u8, pointer };
        }
        Record::Fill { volume, block, blocks, is_zero: pointer == Pointer::ZERO }
    }

    /// Whether this pointer of the next block goes on with it.
    fn takes(self, pointer: Pointer) -> bool {
        let next = self.block + self.blocks;
        if !self.pointer.is_data() {
            return pointer == self.pointer;
        }
        let index = self.pointer.block_index() + self.blocks as usize;
        // Within a region of the target, as what is written there.
        !next.is_multiple_of(CHUNK_REGION_BLOCKS)
            && index < CHUNK_BLOCKS_MAX
            && pointer == self.pointer.with_block_index(index)
    }
}

/// A piece in the journal.
struct Submitted {
    pending: Pending,
    shares: Vec<ShareNumber>,
}

impl Inner {
    /// Copies blocks by reference. False where it cannot be done so: some may be done already then, and the
    /// whole is to be read and written.
    pub(crate) async fn copy(&self, source: Stretch, target: Stretch) -> Result<bool> {
        assert_eq!(source.blocks, target.blocks, "a copy of {source:?} to {target:?}");
        if source.overlaps(target) {
            return Ok(false);
        }
        if source.blocks == 0 {
            return Ok(true);
        }
        // No bytes: nothing of them passes by.
        let change = self.under_way.begin(target.image);
        self.keep_pace(source.image, 0, Some(&change), None).await;
        self.keep_pace(target.image, 0, Some(&change), None).await;
        let _place = self.take_place(target.image, None).await;
        self.writable(target.image)?;
        if self.allow_feature(INCOMPATIBLE_SHARES | INCOMPATIBLE_COPIES).await.is_err() {
            self.check_online()?;
            return Ok(false);
        }
        let blocks = target.first_block..target.end();
        let _held = match planted(Fault::CopyDoesNotHold) {
            true => None,
            false => Some(self.ranges.hold(Turn::Whole, target.image, blocks).await),
        };
        self.load_pages_of(target.image, target.first_block, target.blocks).await?;
        let (mut at, mut submitted, mut result) = (0, Vec::new(), Ok(true));
        while at < target.blocks {
            let blocks = piece_blocks(target.first_block + at, PIECE_BLOCKS_MAX).min(target.blocks - at);
            match self.copy_piece(source.part(at, blocks), target.part(at, blocks)).await {
                Ok(Some(piece)) => submitted.push(piece),
                Ok(None) => result = Ok(false),
                Err(error) => result = Err(error),
            }
            if !matches!(result, Ok(true)) {
                break;
            }
            at += blocks;
        }
        for piece in submitted {
            let applied = self.finish_copy(piece).await;
            result = result.and_then(|is_done| applied.map(|()| is_done));
        }
        if matches!(result, Ok(true)) {
            self.counters.borrow_mut().copied_blocks += target.blocks;
        }
        result
    }

    async fn copy_piece(&self, source: Stretch, target: Stretch) -> Result<Option<Submitted>> {
        if !self.list_takes(target.blocks as usize).await? {
            return Ok(None);
        }
        let credits = self.admit(Some(target.image), target.blocks as usize * RECORD_BYTES).await?;
        for _ in 0..ATTEMPTS {
            let Some(runs) = self.load_runs(source, target).await else { return Ok(None) };
            let records = runs.iter().map(|run| run.record(target.image));
            let drafts: Vec<Draft> = records.map(Draft::Record).collect();
            let growth = self.grow(target.image, target.first_block..target.end(), &drafts).await?;
            // From here on nothing is awaited: see the module's argument.
            if self.runs(source, target).is_ok_and(|now| now.as_ref() == Some(&runs)) {
                return Ok(Some(self.submit_copy(&runs, drafts, growth.into_iter().chain([credits]))));
            }
        }
        Ok(None)
    }

    /// The one place where what a map has comes to be referred to from elsewhere. The runs are what the map
    /// of the source says at this instant.
    fn submit_copy(
        &self,
        runs: &[Run],
        drafts: Vec<Draft>,
        credits: impl IntoIterator<Item = Permit>,
    ) -> Submitted {
        self.cleaner.deaths.borrow_mut().end();
        let chunks = runs.iter().filter(|run| run.pointer.is_data());
        let shares = &self.dedupe.shares;
        let shares = chunks.map(|run| shares.add(run.pointer, run.blocks as usize)).collect();
        Submitted { pending: self.submit(drafts, credits), shares }
    }

    async fn finish_copy(&self, piece: Submitted) -> Result<()> {
        let answer = piece.pending.await;
        // Not told: the pool stops, and nothing is cleaned any more.
        if matches!(answer, Ok(Ok(_))) {
            let cuts = self.checkpoints.cuts.get();
            piece.shares.into_iter().for_each(|share| self.dedupe.shares.applied(share, cuts));
        }
        outcome_of(answer)
    }

    /// Waits until the list of shares takes so many more; false when that takes too long.
    async fn list_takes(&self, more: usize) -> Result<bool> {
        for _ in 0..LIST_LOOKS {
            self.check_online()?;
            if self.dedupe.shares.has_room(more) {
                return Ok(true);
            }
            self.checkpoints.wanted.notify_one();
            self.runtime.sleep(LIST_LOOK).await;
        }
        Ok(false)
    }

    /// The runs, with the map's pages loaded. `None` where the source is gone or its map cannot be read: who
    /// reads it is told.
    async fn load_runs(&self, source: Stretch, target: Stretch) -> Option<Vec<Run>> {
        loop {
            match self.runs(source, target) {
                Ok(runs) => return runs,
                Err(missing) => self.load_page(missing).await.ok()?,
            }
        }
    }

    /// What the map of the source says now, cut into records of the target.
    fn runs(&self, source: Stretch, target: Stretch) -> std::result::Result<Option<Vec<Run>>, Missing> {
        let mut tree = self.tree.borrow_mut();
        let tree = &mut *tree;
        let has_it = source.end() * BLOCK_BYTES;
        let entry = tree.catalogue.get(source.image);
        let Some(entry) = entry.filter(|entry| entry.deleted().is_none() && has_it <= entry.size_bytes)
        else {
            return Ok(None);
        };
        let mut pointers = Vec::with_capacity(source.blocks as usize);
        tree.arena.lookup_run(entry.root, source.first_block, source.blocks, &mut pointers)?;
        Ok(Some(runs_of(target.first_block, &pointers)))
    }
}

fn runs_of(first_block: u64, pointers: &[Pointer]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (block, pointer) in (first_block..).zip(pointers) {
        match runs.last_mut() {
            Some(run) if run.takes(*pointer) => run.blocks += 1,
            _ => runs.push(Run { block, blocks: 1, pointer: *pointer }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_units::SegmentId;

    #[test]
    fn runs_end_with_their_chunk_and_with_the_targets_region() {
        let chunk = |segment, index| Pointer::data(SegmentId(segment), 640, 900).with_block_index(index);
        let mut pointers: Vec<Pointer> = (2..7).map(|index| chunk(1, index)).collect();
        pointers.extend([chunk(2, 7), Pointer::HOLE, Pointer::HOLE, Pointer::ZERO, chunk(2, 9), chunk(2, 8)]);
        let cut = |first| {
            let runs = runs_of(first, &pointers);
            assert_eq!(runs.iter().map(|run| run.blocks).sum::<u64>(), pointers.len() as u64);
            runs.into_iter().map(|run| (run.block - first, run.blocks, run.pointer)).collect::<Vec<_>>()
        };
        let rest = [
            (5, 1, chunk(2, 7)),
            (6, 2, Pointer::HOLE),
            (8, 1, Pointer::ZERO),
            (9, 1, chunk(2, 9)),
            (10, 1, chunk(2, 8)),
        ];
        assert_eq!(cut(0), [&[(0, 5, chunk(1, 2))][..], &rest].concat());
        assert_eq!(cut(29), [&[(0, 3, chunk(1, 2)), (3, 2, chunk(1, 5))][..], &rest].concat());
    }
}
