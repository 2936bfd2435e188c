//! A stretch of a volume: which of its blocks are on the drives already, and what may come of it.

use std::collections::BTreeSet;

use ashlar_format::Pointer;
use ashlar_format::chunk::{CHUNK_BLOCKS_MAX, CHUNK_REGION_BLOCKS, ChunkHeader};
use ashlar_format::group::Record;
use ashlar_journal::Draft;
use ashlar_reduction::{BlockPlace, Fingerprint, FingerprintIndex};
use ashlar_units::{BLOCK_BYTES, Fault, VolumeId, planted};

use super::chunks::ChunkReader;
use super::shares::ShareNumber;
use crate::apply::Outcome;
use crate::engine::Inner;
use crate::relocations::Found;
use crate::write_path::Pending;

/// Entries tried for one block. Of a full bucket's eight, more than one fits a block by chance once in
/// two thousand look-ups.
const CANDIDATES_MAX: usize = 3;

/// Bytes of a share in the journal.
const SHARE_RECORD_BYTES: usize = 34;

/// Whole chunk regions of a volume, as the map had them at the start.
pub(super) struct Window {
    volume: VolumeId,
    first_block: u64,
    pointers: Vec<Pointer>,
    /// Of the blocks to be looked up; the others may be found beside them.
    fingerprints: Vec<Option<Fingerprint>>,
    /// Where else a block's content is.
    targets: Vec<Option<Pointer>>,
    /// Something was condemned only because a mark is under way.
    met_condemned: bool,
    /// Of the relocation table, before any chunk was read.
    epoch: u64,
}

/// Blocks of one chunk to be found in another from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Share {
    /// Place in the window.
    at: usize,
    blocks: usize,
    expected: Pointer,
    pointer: Pointer,
}

/// A share in the journal.
struct Submitted {
    share: Share,
    number: ShareNumber,
    pending: Pending,
    is_in_cycle: bool,
    is_moved: bool,
}

/// What the cleaner has to say about a chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    There,
    /// The running cycle may free it.
    Condemned,
    /// Neither in a segment of the pool nor known to be moved.
    Gone,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    Behind,
}

impl Inner {
    /// Looks for what equals these blocks of a volume, and shares it. True when it is worth
    /// looking again once the mark under way is done.
    pub(super) async fn dedupe_run(
        &self,
        volume: VolumeId,
        first_block: u64,
        fingerprints: Vec<Option<Fingerprint>>,
        reader: &mut ChunkReader,
    ) -> bool {
        if !self.has_room(None) {
            self.dedupe.count(|counters| counters.without_room += fingerprints.len() as u64);
            return false;
        }
        reader.start(self.media.epoch());
        let Some(mut window) = self.window(volume, first_block, fingerprints).await else { return false };
        // `standing` counts on it: what the reader has kept was read in the window's epoch or later, so while
        // that epoch lasts nothing of it was trimmed.
        assert_eq!(reader.epoch(), window.epoch, "a window is read in the epoch that it began in");
        for at in 0..window.pointers.len() {
            if self.is_closing() {
                return false;
            }
            window.find_equal(self, at, reader).await;
        }
        let (shares, short, partial) = window.decide(self.dedupe.run_blocks_min);
        self.dedupe.count(|counters| {
            counters.short += short;
            counters.partial += partial;
        });
        if !shares.is_empty() {
            self.share(&mut window, shares).await;
        }
        window.met_condemned
    }

    async fn window(
        &self,
        volume: VolumeId,
        first_block: u64,
        mut fingerprints: Vec<Option<Fingerprint>>,
    ) -> Option<Window> {
        let blocks_max = self.blocks_to_dedupe(volume)?;
        let start = first_block / CHUNK_REGION_BLOCKS * CHUNK_REGION_BLOCKS;
        let epoch = self.media.epoch();
        let end = first_block + fingerprints.len() as u64;
        let end = end.next_multiple_of(CHUNK_REGION_BLOCKS).min(blocks_max);
        let count = end.checked_sub(start).filter(|count| *count > 0)?;
        let mut pointers = Vec::with_capacity(count as usize);
        // The volume may be gone, or its map unreadable: hosts will be told.
        self.look_up(volume, start, count, &mut pointers).await.ok()?;
        fingerprints.splice(0..0, (start..first_block).map(|_| None));
        fingerprints.resize(pointers.len(), None);
        let targets = vec![None; pointers.len()];
        let met_condemned = false;
        Some(Window { volume, first_block: start, pointers, fingerprints, targets, met_condemned, epoch })
    }

    /// Journals shares and waits until they are applied.
    async fn share(&self, window: &mut Window, shares: Vec<Share>) {
        if self.allow_share_records().await.is_err() || !self.wait_for_list(shares.len()).await {
            return;
        }
        // Held until all are applied: what a window shares goes to the journal in one go.
        let _credits = self.change_credits(shares.len(), SHARE_RECORD_BYTES).await;
        // As for a host's write: a map page that cannot be read fails here, not in the applier.
        let blocks = window.pointers.len() as u64;
        if self.load_pages_of(window.volume, window.first_block, blocks).await.is_err() {
            return;
        }
        let submitted: Vec<Submitted> =
            shares.into_iter().filter_map(|share| self.submit_share(window, share)).collect();
        for Submitted { share, number, pending, is_in_cycle, is_moved } in submitted {
            // Not told: the pool stops, and nothing is cleaned any more.
            let Ok(Ok(outcome)) = pending.await else { return };
            self.dedupe.shares.applied(number, self.checkpoints.cuts.get());
            let blocks = share.blocks as u64;
            if outcome == Outcome::Done {
                self.dedupe.count(|counters| {
                    counters.shared += blocks;
                    counters.shared_in_cycle += if is_in_cycle { blocks } else { 0 };
                    counters.shared_moved += if is_moved { blocks } else { 0 };
                });
                self.forget_entries(window, share);
            } else {
                self.dedupe.count(|counters| counters.overtaken += blocks);
            }
        }
    }

    /// Waits until the list of shares takes so many more; false when the pool is on its way out.
    async fn wait_for_list(&self, more: usize) -> bool {
        loop {
            let changed = self.dedupe.shares.changed();
            if self.check_online().is_err() {
                return false;
            }
            if self.dedupe.shares.has_room(more) {
                return true;
            }
            self.checkpoints.wanted.notify_one();
            changed.await;
        }
    }

    /// The one place where something found by content is referred to. No await between the checks, the
    /// note in the list and the submission: see the module's argument.
    fn submit_share(&self, window: &mut Window, share: Share) -> Option<Submitted> {
        let Share { at, blocks, expected, pointer } = share;
        let first = pointer.block_index();
        let mut standings = (first..first + blocks)
            .map(|index| self.standing(BlockPlace::of(pointer.with_block_index(index)), window.epoch));
        match standings.find(|standing| *standing != Standing::There).unwrap_or(Standing::There) {
            Standing::There => {}
            Standing::Gone => {
                self.dedupe.count(|counters| counters.stale += blocks as u64);
                return None;
            }
            Standing::Condemned => {
                self.dedupe.count(|counters| counters.condemned += blocks as u64);
                window.met_condemned |= self.cleaner.condemned.is_marking();
                return None;
            }
        }
        let number = self.dedupe.shares.add(pointer, blocks);
        let (volume, block) = (window.volume, window.first_block + at as u64);
        let record = Record::Share { volume, block, blocks: blocks as u8, expected, pointer };
        let pending = self.submit(vec![Draft::Record(record)], None);
        let is_moved = !self.pool.has_segment(pointer.segment());
        let is_in_cycle = self.cleaner.condemned.is_cycle();
        Some(Submitted { share, number, pending, is_in_cycle, is_moved })
    }

    /// Whether something may come to refer to a block, at this instant. Its chunk was read after this
    /// epoch began.
    fn standing(&self, place: BlockPlace, epoch: u64) -> Standing {
        let (segment, offset) = (place.segment(), place.offset_bytes());
        let is_moved = !self.pool.has_segment(segment);
        if is_moved && self.media.epoch() != epoch && !planted(Fault::TrimmedTakenForThere) {
            // It may have been trimmed since.
            return Standing::Gone;
        }
        if is_moved {
            let found = self.media.relocations.borrow().find(Pointer::data(segment, offset, 1));
            match found {
                // Entries of what is dead may outlive it: the container was emptied without it then.
                Found::Here(moved) if !self.pool.has_segment(moved.container) => return Standing::Gone,
                Found::Here(_) => {}
                // Its page left the memory since the chunk was read: not worth another try.
                Found::Load(_) | Found::Nowhere => return Standing::Gone,
            }
        }
        let is_condemned = self.cleaner.condemned.has(segment, offset, place.block_index(), is_moved);
        if is_condemned && !planted(Fault::SharedWithCondemned) {
            Standing::Condemned
        } else {
            Standing::There
        }
    }

    /// The chunk given up is no place to find anything any more.
    fn forget_entries(&self, window: &Window, share: Share) {
        self.dedupe.with_index(|index| {
            for at in share.at..share.at + share.blocks {
                if let Some(fingerprint) = window.fingerprints[at] {
                    index.remove(fingerprint, BlockPlace::of(window.pointers[at]));
                }
            }
        });
    }
}

impl Window {
    /// Looks a block up, unless a neighbour's equal led to its own already.
    async fn find_equal(&mut self, inner: &Inner, at: usize, reader: &mut ChunkReader) {
        let own = self.pointers[at];
        let Some(fingerprint) = self.fingerprints[at].filter(|_| own.is_data()) else { return };
        if self.targets[at].is_some() {
            return;
        }
        let here = BlockPlace::of(own);
        let look_up = |index: &mut FingerprintIndex| index.candidates(fingerprint).collect::<Vec<_>>();
        let Some(candidates) = inner.dedupe.with_index(look_up) else { return };
        inner.dedupe.count(|counters| counters.looked_up += 1);
        let is_recorded = candidates.iter().any(|place| place.is_beside(here));
        // Of two that are recorded the older is kept, or each would be given up for the other.
        let is_useless = |place: &BlockPlace| place.is_beside(here) || (is_recorded && *place > here);
        for place in candidates.iter().filter(|place| !is_useless(place)).take(CANDIDATES_MAX) {
            if let Some(target) = self.try_candidate(inner, at, fingerprint, *place, reader).await {
                self.targets[at] = Some(target);
                self.extend(inner, at, Side::Behind, reader).await;
                self.extend(inner, at, Side::Before, reader).await;
                return;
            }
        }
        if !is_recorded {
            inner.dedupe.with_index(|index| index.insert(fingerprint, here));
        }
    }

    async fn try_candidate(
        &mut self,
        inner: &Inner,
        at: usize,
        fingerprint: Fingerprint,
        place: BlockPlace,
        reader: &mut ChunkReader,
    ) -> Option<Pointer> {
        let is_moved = !inner.pool.has_segment(place.segment());
        let (segment, offset, index) = (place.segment(), place.offset_bytes(), place.block_index());
        if inner.cleaner.condemned.has(segment, offset, index, is_moved) {
            inner.dedupe.count(|counters| counters.condemned += 1);
            self.met_condemned |= inner.cleaner.condemned.is_marking();
            return None;
        }
        let Some((target, chunk)) = reader.find(inner, place).await else {
            inner.dedupe.count(|counters| counters.stale += 1);
            inner.dedupe.with_index(|index| index.remove(fingerprint, place));
            return None;
        };
        let own = self.pointers[at];
        let Some(own_chunk) = reader.read(inner, own).await else {
            inner.dedupe.count(|counters| counters.unreadable += 1);
            return None;
        };
        inner.dedupe.count(|counters| counters.compared += 1);
        let found = chunk.block(target.block_index());
        if planted(Fault::SharedWithoutComparing) || found == own_chunk.block(own.block_index()) {
            inner.dedupe.count(|counters| counters.hits += 1);
            inner.dedupe.with_index(|index| index.note_hit(fingerprint, place));
            return Some(target);
        }
        inner.dedupe.count(|counters| counters.mismatched += 1);
        let is = inner.dedupe.key.of(found);
        inner.dedupe.with_index(|index| {
            // Two fingerprints may share an entry's tag. If that is not it, the entry is wrong: its block
            // was written over before it was recorded.
            if !index.is_same_entry(is, fingerprint) {
                index.remove(fingerprint, place);
            }
        });
        None
    }

    /// Goes on beside a block whose equal is known, as long as the contents go on being equal.
    async fn extend(&mut self, inner: &Inner, from: usize, side: Side, reader: &mut ChunkReader) {
        let mut at = from;
        while let Some(target) = self.targets[at] {
            let next = match side {
                Side::Behind => at + 1,
                Side::Before if at == 0 => return,
                Side::Before => at - 1,
            };
            let is_open = |pointer: &&Pointer| pointer.is_data() && self.targets[next].is_none();
            let Some(own) = self.pointers.get(next).filter(is_open).copied() else { return };
            let Some(beside) = inner.pointer_beside(target, side, reader).await else { return };
            if beside.chunk() == own.chunk() {
                return;
            }
            let Some(own_chunk) = reader.read(inner, own).await else { return };
            let Some(chunk) = reader.read(inner, beside).await else { return };
            if inner.standing(BlockPlace::of(beside), self.epoch) != Standing::There {
                return;
            }
            inner.dedupe.count(|counters| counters.compared += 1);
            if own_chunk.block(own.block_index()) != chunk.block(beside.block_index()) {
                return;
            }
            inner.dedupe.count(|counters| counters.extended += 1);
            self.targets[next] = Some(beside);
            at = next;
        }
    }

    /// The shares worth making; and how many blocks are left alone because they are too few in a row,
    /// and because their chunk would stay.
    fn decide(&self, run_blocks_min: usize) -> (Vec<Share>, u64, u64) {
        let is_left = |at: &usize| self.pointers[*at].is_data() && self.targets[*at].is_none();
        let kept: BTreeSet<Pointer> =
            (0..self.pointers.len()).filter(is_left).map(|at| self.pointers[at].chunk()).collect();
        let usable: Vec<bool> = (0..self.pointers.len())
            .map(|at| self.targets[at].is_some() && !kept.contains(&self.pointers[at].chunk()))
            .collect();
        let found = self.targets.iter().filter(|target| target.is_some()).count();
        let partial = found - usable.iter().filter(|is_usable| **is_usable).count();
        let (mut shares, mut short, mut at) = (Vec::new(), 0, 0);
        for run in usable.chunk_by(|one, next| one == next) {
            if run[0] && run.len() < run_blocks_min {
                short += run.len() as u64;
            } else if run[0] {
                self.cut(at, at + run.len(), &mut shares);
            }
            at += run.len();
        }
        (shares, short, partial as u64)
    }

    /// Shares for a run: one for each stretch of blocks that is consecutive in both chunks.
    fn cut(&self, mut at: usize, end: usize, shares: &mut Vec<Share>) {
        let follows = |first: Pointer, other: Pointer, index: usize| {
            first.chunk() == other.chunk() && first.block_index() + index == other.block_index()
        };
        while at < end {
            let Some(pointer) = self.targets[at] else { return };
            let expected = self.pointers[at];
            let is_next = |index: &usize| {
                follows(expected, self.pointers[at + index], *index)
                    && self.targets[at + index].is_some_and(|target| follows(pointer, target, *index))
            };
            let blocks = (1..(end - at).min(CHUNK_BLOCKS_MAX)).take_while(is_next).count() + 1;
            shares.push(Share { at, blocks, expected, pointer });
            at += blocks;
        }
    }
}

impl Inner {
    /// What lies beside a block of a chunk: its neighbour in the chunk, else what the volume that wrote
    /// the chunk has beside it now. A guess; the contents decide.
    async fn pointer_beside(&self, of: Pointer, side: Side, reader: &mut ChunkReader) -> Option<Pointer> {
        let chunk = reader.read(self, of).await?;
        let here = of.block_index();
        let beside = match side {
            Side::Behind => here.checked_add(1),
            Side::Before => here.checked_sub(1),
        };
        if let Some(index) = beside.filter(|index| chunk.has(*index)) {
            return Some(of.with_block_index(index));
        }
        let owner_block = chunk.header.owner_block + here as u64;
        let block = match side {
            Side::Behind => owner_block + 1,
            Side::Before => owner_block.checked_sub(1)?,
        };
        self.pointer_of_writer(&chunk.header, block).await
    }

    /// What the volume that wrote a chunk has at a block now.
    pub(super) async fn pointer_of_writer(&self, header: &ChunkHeader, block: u64) -> Option<Pointer> {
        let owner = VolumeId(u64::from(header.owner_volume));
        let size_bytes = self.tree.borrow().catalogue.get(owner)?.size_bytes;
        if block >= size_bytes / BLOCK_BYTES {
            return None;
        }
        let mut found = Vec::with_capacity(1);
        self.look_up(owner, block, 1, &mut found).await.ok()?;
        found.pop().filter(|pointer| pointer.is_data())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_units::SegmentId;

    fn block(chunk: u32, index: usize) -> Pointer {
        Pointer::data(SegmentId(chunk), 4096, 4000).with_block_index(index)
    }

    fn window(pointers: Vec<Pointer>, targets: Vec<Option<Pointer>>) -> Window {
        let fingerprints = vec![None; pointers.len()];
        Window {
            volume: VolumeId(1),
            first_block: 0,
            pointers,
            fingerprints,
            targets,
            met_condemned: false,
            epoch: 0,
        }
    }

    #[test]
    fn a_run_is_cut_where_either_chunk_ends() {
        let pointers = vec![block(1, 0), block(1, 1), block(1, 2), block(2, 0), block(2, 1), Pointer::HOLE];
        let targets = [block(8, 3), block(8, 4), block(9, 0), block(9, 1), block(9, 2)];
        let targets = targets.into_iter().map(Some).chain([None]).collect();
        let (shares, short, partial) = window(pointers, targets).decide(2);
        let cut: Vec<_> = shares.iter().map(|share| (share.at, share.blocks)).collect();
        assert_eq!((cut, short, partial), (vec![(0, 2), (2, 1), (3, 2)], 0, 0));
        assert_eq!((shares[2].expected, shares[2].pointer), (block(2, 0), block(9, 1)));
    }

    #[test]
    fn short_runs_and_parts_of_chunks_are_left_alone() {
        let pointers = vec![block(1, 0), block(2, 0), block(2, 1), Pointer::ZERO, block(3, 0), block(4, 0)];
        let targets = vec![None, Some(block(8, 0)), None, None, Some(block(8, 1)), None];
        let (shares, short, partial) = window(pointers, targets).decide(2);
        assert_eq!((shares, short, partial), (vec![], 1, 1));
    }

    #[test]
    fn equal_blocks_of_one_content_share_one_block() {
        let pointers = (1..4).map(|chunk| block(chunk, 0)).collect();
        let (shares, ..) = window(pointers, vec![Some(block(8, 0)); 3]).decide(2);
        let cut: Vec<_> = shares.iter().map(|share| (share.at, share.blocks)).collect();
        assert_eq!(cut, [(0, 1), (1, 1), (2, 1)]);
    }
}
