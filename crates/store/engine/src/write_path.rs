//! The write path: a host's bytes become chunks, a journal submission, an acknowledgement.

use std::cell::RefCell;
use std::ops::Range;

use ashlar_format::catalogue::{Compression, Profile, VolumeEntry, VolumeKind};
use ashlar_format::chunk::{CHUNK_REGION_BLOCKS, Codec};
use ashlar_format::group::Record;
use ashlar_journal::{ChunkDraft, Draft, Submission};
use ashlar_reduction as reduction;
use ashlar_runtime::sync::{OneshotReceiver, Permit, oneshot};
use ashlar_units::{BLOCK_BYTES, BLOCK_BYTES_USIZE, Fault, VolumeId, planted};

use crate::apply::Outcome;
use crate::engine::Inner;
use crate::precedence::Place;
use crate::range_lock::{HeldRange, Turn};
use crate::stages::{Course, Stage};
use crate::{Error, ErrorKind, Result};

thread_local! {
    /// Where chunks are compressed to before their length is known; one for each shard's thread.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; 64 << 10]);
}

pub(crate) type Pending = OneshotReceiver<std::result::Result<Outcome, ashlar_journal::Error>>;

/// What the write path needs to know of a volume.
#[derive(Clone, Copy)]
pub(crate) struct Writable {
    id: VolumeId,
    profile: Profile,
    compression: Compression,
    dedupe: bool,
}

impl Inner {
    /// A volume that takes writes.
    pub(crate) fn writable(&self, id: VolumeId) -> Result<Writable> {
        let tree = self.tree.borrow();
        match tree.catalogue.get(id) {
            Some(entry) if entry.kind == VolumeKind::Volume && entry.deleted().is_none() => {
                let VolumeEntry { profile, compression, dedupe, .. } = *entry;
                Ok(Writable { id, profile, compression, dedupe })
            }
            Some(entry) if entry.kind == VolumeKind::Snapshot => {
                let (volume, name) = (tree.catalogue.origin_name(entry), &entry.name);
                let what = format!("{volume}@{name} is a snapshot");
                Err(Error::new(ErrorKind::ReadOnly, what).and_do("write to a clone of it"))
            }
            Some(_) | None => Err(Error::new(ErrorKind::NotFound, "the volume was deleted")),
        }
    }

    /// Writes bytes; returns when they are durable and every later read sees them. Parts of blocks may
    /// be written beside whole ones, by any doors: nobody's bytes are lost.
    pub(crate) async fn write(&self, id: VolumeId, offset: u64, data: &[u8]) -> Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        let mut course = Course::of(self, id, true, offset, data.len() as u64);
        let change = self.under_way.begin(id);
        self.keep_pace(id, data.len() as u64, Some(&change), Some(&mut course)).await;
        let place = self.take_place(id, Some(&mut course)).await;
        let entry = self.writable(id)?;
        let end = offset + data.len() as u64;
        let blocks = offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES);
        if offset.is_multiple_of(BLOCK_BYTES) && end.is_multiple_of(BLOCK_BYTES) {
            let held = self.ranges.hold(Turn::Whole, id, blocks.clone()).await;
            course.passed(Stage::Turn);
            self.write_blocks(&held, entry, blocks.start, data, &mut course).await?;
        } else {
            let held = self.ranges.hold(Turn::Part, id, blocks).await;
            course.passed(Stage::Turn);
            self.write_parts(&held, entry, offset, data, &mut course).await?;
        }
        course.served();
        place.iter().for_each(Place::judge);
        // What is refused is no load: others need not give way to it, and drives are not worn by it.
        self.counters.borrow_mut().host_bytes_written += data.len() as u64;
        Ok(())
    }

    /// Writes parts of blocks, as blocks with what is there around them.
    async fn write_parts(
        &self,
        held: &HeldRange<'_>,
        entry: Writable,
        offset: u64,
        data: &[u8],
        course: &mut Course<'_>,
    ) -> Result<()> {
        let end = offset + data.len() as u64;
        let first = offset / BLOCK_BYTES * BLOCK_BYTES;
        let mut whole = vec![0; (end.next_multiple_of(BLOCK_BYTES) - first) as usize];
        let last = whole.len() - BLOCK_BYTES_USIZE;
        // Only what is kept is read: of a block that is replaced whole nobody needs to know what it was.
        let is_first_cut = offset > first || (last == 0 && !end.is_multiple_of(BLOCK_BYTES));
        if is_first_cut {
            let kept = &mut whole[..BLOCK_BYTES_USIZE];
            self.read_blocks(entry.id, first / BLOCK_BYTES, kept, course).await?;
        }
        if last > 0 && !end.is_multiple_of(BLOCK_BYTES) && !planted(Fault::PartLosesTail) {
            self.read_blocks(entry.id, end / BLOCK_BYTES, &mut whole[last..], course).await?;
        }
        let start = (offset - first) as usize;
        whole[start..start + data.len()].copy_from_slice(data);
        self.write_blocks(held, entry, first / BLOCK_BYTES, &whole, course).await
    }

    /// Waits until no write of part of a block is under way in these volumes: it would bring back
    /// what a restore or a resize is about to replace.
    pub(crate) async fn hold_volumes(&self, volumes: impl Iterator<Item = VolumeId>) -> Vec<HeldRange<'_>> {
        let mut held = Vec::new();
        for volume in volumes.filter(|_| !planted(Fault::ReplaceDoesNotWait)) {
            held.push(self.ranges.hold(Turn::Replace, volume, 0..u64::MAX).await);
        }
        held
    }

    async fn write_blocks(
        &self,
        held: &HeldRange<'_>,
        entry: Writable,
        first_block: u64,
        data: &[u8],
        course: &mut Course<'_>,
    ) -> Result<()> {
        let blocks = data.len() as u64 / BLOCK_BYTES;
        assert!(held.covers(entry.id, first_block..first_block + blocks), "block {first_block} is not held");
        self.load_pages_of(entry.id, first_block, blocks).await?;
        course.passed(Stage::Map);
        let piece_blocks_max = self.piece_blocks_max();
        let mut pending = Vec::new();
        let mut block = first_block;
        let mut rest = data;
        let mut result = Ok(());
        while !rest.is_empty() {
            let blocks = piece_blocks(block, piece_blocks_max);
            let length = (blocks * BLOCK_BYTES).min(rest.len() as u64) as usize;
            let (piece, later) = rest.split_at(length);
            let admitted = self.admit(Some(entry.id), length).await;
            course.passed(Stage::Room);
            let submitted = match admitted {
                Ok(credits) => self.submit_piece(entry, block, piece, credits).await,
                Err(error) => Err(error),
            };
            course.passed(Stage::Reduction);
            match submitted {
                Ok(submitted) => pending.push(submitted),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
            block += length as u64 / BLOCK_BYTES;
            rest = later;
        }
        // While the drives work: nobody waits for it.
        let fingerprints = entry.dedupe.then(|| self.dedupe.fingerprints(data)).flatten();
        for waiting in pending {
            result = result.and(outcome_of(waiting.await));
        }
        course.passed(Stage::Journal);
        if let (Some(fingerprints), Ok(())) = (fingerprints, &result) {
            self.dedupe.note_written(entry.id, first_block, fingerprints);
        }
        result
    }

    /// Blocks of a write that one submission takes.
    fn piece_blocks_max(&self) -> u64 {
        (self.journal.submission_bytes_max() / BLOCK_BYTES).max(1)
    }

    /// A write of so many whole blocks is one piece, wherever it begins: one submission, whose changes
    /// "succeed or fail together, in one group" of the journal. A group that is torn does not count at
    /// replay, with all that is in it.
    pub(crate) fn atomic_bytes_max(&self) -> u64 {
        atomic_blocks(self.piece_blocks_max()) * BLOCK_BYTES
    }

    /// Submits a piece, if its volume may take what it needs.
    async fn submit_piece(
        &self,
        entry: Writable,
        block: u64,
        piece: &[u8],
        credits: Permit,
    ) -> Result<Pending> {
        let mut drafts = Vec::new();
        for run in reduction::cut(entry.profile, block, piece) {
            if run.is_zero {
                let blocks = run.bytes.len() as u64 / BLOCK_BYTES;
                self.counters.borrow_mut().zero_blocks += blocks;
                let (volume, block) = (entry.id, run.block);
                drafts.push(Draft::Record(Record::Fill { volume, block, blocks, is_zero: true }));
            } else {
                self.make_chunks(entry, run.block, run.bytes, &mut drafts);
            }
        }
        let range = block..block + piece.len() as u64 / BLOCK_BYTES;
        let growth = self.grow(entry.id, range, &drafts).await?;
        Ok(self.submit(drafts, growth.into_iter().chain([credits])))
    }

    /// One chunk when it compresses. Data that do not are stored block by block: a read of one block
    /// then reads that block, and nothing is lost but a header.
    fn make_chunks(&self, entry: Writable, block: u64, bytes: &[u8], drafts: &mut Vec<Draft>) {
        let codec = match entry.compression {
            Compression::Off => Codec::None,
            Compression::Lz4 => Codec::Lz4,
            Compression::Zstd => Codec::Zstd,
        };
        let packed = SCRATCH.with_borrow_mut(|scratch| {
            let length = reduction::compress(codec, bytes, &mut scratch[..bytes.len()])?;
            Some(scratch[..length].to_vec())
        });
        let mut counters = self.counters.borrow_mut();
        if let Some(payload) = packed {
            counters.stored_bytes += payload.len() as u64;
            let blocks = (bytes.len() / BLOCK_BYTES_USIZE) as u8;
            drafts.push(Draft::Chunk(ChunkDraft { volume: entry.id, block, blocks, codec, payload }));
            return;
        }
        counters.stored_bytes += bytes.len() as u64;
        let blocks = (bytes.len() / BLOCK_BYTES_USIZE) as u64;
        match codec {
            Codec::None => counters.uncompressed_blocks += blocks,
            Codec::Lz4 | Codec::Zstd => counters.incompressible_blocks += blocks,
        }
        for (index, single) in bytes.chunks_exact(BLOCK_BYTES_USIZE).enumerate() {
            let (volume, payload) = (entry.id, single.to_vec());
            let block = block + index as u64;
            drafts.push(Draft::Chunk(ChunkDraft { volume, block, blocks: 1, codec: Codec::None, payload }));
        }
    }

    /// Journals changes. The credits go back when they are applied.
    pub(crate) fn submit(&self, drafts: Vec<Draft>, credits: impl IntoIterator<Item = Permit>) -> Pending {
        let (done, pending) = oneshot();
        let credits = credits.into_iter().collect();
        self.journal.submit(Submission { drafts, credits, done });
        pending
    }

    /// Journals one record and waits until it is applied.
    pub(crate) async fn change(&self, record: Record) -> Result<()> {
        self.change_together(vec![record]).await
    }

    /// Makes a range read as zeroes: whole blocks as one record, then parts of blocks. In a full pool the
    /// whole blocks make the room that the parts may need.
    pub(crate) async fn fill(&self, id: VolumeId, offset: u64, length: u64, is_zero: bool) -> Result<()> {
        if length == 0 {
            return Ok(());
        }
        let change = self.under_way.begin(id);
        self.keep_pace(id, 0, Some(&change), None).await;
        // While room is short, what gives it back goes first.
        let gives_room = !is_zero && self.is_room_short();
        let _place = if gives_room { None } else { self.take_place(id, None).await };
        let entry = self.writable(id)?;
        let end = offset + length;
        let first_whole = if planted(Fault::UnmapRoundsOutward) {
            offset / BLOCK_BYTES * BLOCK_BYTES
        } else {
            offset.next_multiple_of(BLOCK_BYTES).min(end)
        };
        let end_whole = (end / BLOCK_BYTES * BLOCK_BYTES).max(first_whole);
        if first_whole < end_whole {
            let (block, blocks) = (first_whole / BLOCK_BYTES, (end_whole - first_whole) / BLOCK_BYTES);
            let held = self.ranges.hold(Turn::Whole, id, block..block + blocks).await;
            self.fill_blocks(&held, id, block, blocks, is_zero).await?;
            if !is_zero {
                self.note_unmapped(blocks);
            }
        }
        for part in [offset..first_whole, end_whole..end] {
            if !part.is_empty() {
                self.fill_part(entry, part).await?;
            }
        }
        Ok(())
    }

    async fn fill_blocks(
        &self,
        held: &HeldRange<'_>,
        id: VolumeId,
        block: u64,
        blocks: u64,
        is_zero: bool,
    ) -> Result<()> {
        assert!(held.covers(id, block..block + blocks), "{blocks} blocks from {block} are not held");
        self.load_pages_of_fill(id, block, blocks).await?;
        self.change(Record::Fill { volume: id, block, blocks, is_zero }).await
    }

    /// Zeroes a part of a block. Only one that has something else in it takes room.
    async fn fill_part(&self, entry: Writable, part: Range<u64>) -> Result<()> {
        let block = part.start / BLOCK_BYTES;
        let held = self.ranges.hold(Turn::Part, entry.id, block..block + 1).await;
        let mut whole = vec![0; BLOCK_BYTES_USIZE];
        let mut course = Course::of(self, entry.id, true, part.start, part.end - part.start);
        self.read_blocks(entry.id, block, &mut whole, &mut course).await?;
        let start = (part.start % BLOCK_BYTES) as usize;
        let bytes = &mut whole[start..start + (part.end - part.start) as usize];
        if bytes.iter().all(|byte| *byte == 0) {
            return self.check_online();
        }
        bytes.fill(0);
        match whole.iter().all(|byte| *byte == 0) {
            true => self.fill_blocks(&held, entry.id, block, 1, true).await,
            false => self.write_blocks(&held, entry, block, &whole, &mut course).await,
        }
    }

    /// Much was given back: let the cleaner look soon, not only when space runs out.
    fn note_unmapped(&self, blocks: u64) {
        if blocks * BLOCK_BYTES >= self.pool.segment_bytes() {
            self.cleaner.want_mark();
            self.checkpoints.wanted.notify_one();
        }
    }
}

/// Blocks of the piece of a write that begins at `block`. Pieces end on chunk regions, so that cutting a
/// large write cuts no chunk short.
pub(crate) fn piece_blocks(block: u64, blocks_max: u64) -> u64 {
    let region_end = (block + blocks_max) / CHUNK_REGION_BLOCKS * CHUNK_REGION_BLOCKS;
    if region_end > block { region_end - block } else { blocks_max }
}

/// So many blocks are in one piece wherever they begin, rounded down to a power of two, as hosts like it.
fn atomic_blocks(piece_blocks_max: u64) -> u64 {
    // In the worst case a piece begins right behind the end of a region and ends as much before another.
    let blocks = piece_blocks_max.saturating_sub(CHUNK_REGION_BLOCKS - 1).max(1);
    1 << blocks.ilog2()
}

pub(crate) fn outcome_of(
    answer: std::result::Result<
        std::result::Result<Outcome, ashlar_journal::Error>,
        ashlar_runtime::sync::Closed,
    >,
) -> Result<()> {
    match answer {
        Ok(Ok(Outcome::Done)) => Ok(()),
        Ok(Ok(Outcome::Gone)) => {
            Err(Error::new(ErrorKind::NotFound, "the volume or snapshot was deleted meanwhile"))
        }
        Ok(Ok(Outcome::OutOfRange)) => {
            Err(Error::new(ErrorKind::Invalid, "the request is beyond the volume's end"))
        }
        Ok(Ok(Outcome::Overtaken)) => {
            Err(Error::new(ErrorKind::Invalid, "it changed meanwhile: nothing was done"))
        }
        Ok(Ok(Outcome::Exists)) => Err(Error::new(ErrorKind::Exists, "the name was taken meanwhile")),
        Ok(Err(error)) => Err(error.into()),
        Err(_closed) => Err(Error::new(ErrorKind::Closed, "the pool closed before the change was made")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The loss would be a page of a database that is half old and half new behind a crash, although the
    /// write was said to be atomic.
    #[test]
    fn what_is_called_atomic_is_one_piece_wherever_it_begins() {
        for piece_blocks_max in 1..=64 {
            let atomic = atomic_blocks(piece_blocks_max);
            for block in 0..4 * CHUNK_REGION_BLOCKS {
                let piece = piece_blocks(block, piece_blocks_max);
                assert!(piece <= piece_blocks_max, "{piece} blocks from {block} of {piece_blocks_max}");
                assert!(
                    piece >= atomic,
                    "{piece} blocks from {block}, {atomic} of {piece_blocks_max} promised"
                );
            }
        }
        assert_eq!(atomic_blocks(64), 32, "128 KiB where a submission takes 256");
    }
}
