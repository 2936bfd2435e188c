//! Reading chunks to compare them: by pointer, or by an index entry that may lead nowhere.

use std::collections::VecDeque;
use std::rc::Rc;

use ashlar_format::MediaKey;
use ashlar_format::Pointer;
use ashlar_format::chunk::{CHUNK_HEADER_BYTES, ChunkHeader};
use ashlar_format::pointer::POINTED_BYTES_MAX;
use ashlar_reduction::BlockPlace;
use ashlar_units::BLOCK_BYTES_USIZE;

use crate::engine::Inner;
use crate::read_path::{OpenChunk, open_chunk};

/// Bytes of chunks kept: both sides of what is looked at in one go, and as much again beside it.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// A verified chunk.
pub(super) struct Chunk {
    pub(super) header: ChunkHeader,
    blocks: Vec<u8>,
}

impl Chunk {
    pub(super) fn block(&self, index: usize) -> &[u8] {
        &self.blocks[self.header.decoded_at(index)..][..BLOCK_BYTES_USIZE]
    }

    pub(super) fn has(&self, index: usize) -> bool {
        self.header.has(index)
    }
}

/// Reads chunks and keeps the last few. What a block of an address is never changes, so what is kept stays
/// true; whether the block is still there and may be referred to is for others to say.
pub(super) struct ChunkReader {
    key: MediaKey,
    kept: VecDeque<(Pointer, Rc<Chunk>)>,
    kept_bytes: usize,
    scratch: Vec<u8>,
    /// Of the relocation table, when the first of them was read.
    epoch: u64,
}

impl ChunkReader {
    pub(super) fn new(key: &MediaKey) -> ChunkReader {
        let key = key.clone();
        ChunkReader { key, kept: VecDeque::new(), kept_bytes: 0, scratch: Vec::new(), epoch: 0 }
    }

    /// Nothing that is kept was read before it.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What was read before this epoch goes: the cleaner may have trimmed it.
    pub(super) fn start(&mut self, epoch: u64) {
        if self.epoch != epoch {
            self.clear();
            self.epoch = epoch;
        }
    }

    pub(super) fn clear(&mut self) {
        *self = ChunkReader::new(&self.key);
    }

    /// The chunk of a pointer found in a map, wherever it is now. What cannot be read is nobody's damage
    /// yet: a host that reads it will be told.
    pub(super) async fn read(&mut self, inner: &Inner, pointer: Pointer) -> Option<Rc<Chunk>> {
        if let Some(chunk) = self.kept_chunk(pointer) {
            return Some(chunk);
        }
        let (bytes, skip) = inner.media.read(pointer).await.ok()?;
        self.keep(pointer, &bytes[skip..])
    }

    /// The block an index entry names: a pointer as the maps have it, and its chunk. `None` when there is
    /// no such block any more.
    pub(super) async fn find(&mut self, inner: &Inner, place: BlockPlace) -> Option<(Pointer, Rc<Chunk>)> {
        let is_kept = |kept: &&(Pointer, Rc<Chunk>)| {
            kept.0.segment() == place.segment() && kept.0.offset_bytes() == place.offset_bytes()
        };
        if let Some((pointer, chunk)) = self.kept.iter().find(is_kept) {
            let is_there = chunk.has(place.block_index());
            return is_there.then(|| (pointer.with_block_index(place.block_index()), chunk.clone()));
        }
        let (segment, offset) = (place.segment(), place.offset_bytes());
        if !inner.pool.has_segment(segment) {
            return self.find_moved(inner, place).await;
        }
        let (bytes, skip) = inner.pool.read(segment, offset, CHUNK_HEADER_BYTES as u64).await.ok()?;
        let header = ChunkHeader::peek(&bytes[skip..]).ok()?;
        let length = header.total_bytes();
        let is_possible = header.segment == segment
            && header.offset_bytes == offset
            && header.has(place.block_index())
            && length <= POINTED_BYTES_MAX
            && offset + length <= inner.pool.segment_bytes();
        if !is_possible {
            return None;
        }
        let pointer = header.pointer().with_block_index(place.block_index());
        let stored = bytes.get(skip..skip + length as usize);
        if let Some(stored) = stored {
            return Some((pointer, self.keep(pointer, stored)?));
        }
        let (bytes, skip) = inner.pool.read(segment, offset, length).await.ok()?;
        Some((pointer, self.keep(pointer, bytes.get(skip..)?)?))
    }

    /// The same for a block that was moved. Its chunk may have been compressed anew, so the header does not
    /// tell the length class that the maps' pointers carry; the map of the volume that wrote it does, as
    /// long as it has the block where it was written.
    async fn find_moved(&mut self, inner: &Inner, place: BlockPlace) -> Option<(Pointer, Rc<Chunk>)> {
        let address = Pointer::data(place.segment(), place.offset_bytes(), 1);
        let at = inner.media.locate(address).await.ok()?;
        let (bytes, skip) = inner.pool.read(at.segment, at.offset_bytes, at.length_bytes_max).await.ok()?;
        let stored = bytes.get(skip..)?;
        let header = ChunkHeader::peek(stored).ok()?;
        let block = header.owner_block + place.block_index() as u64;
        let pointer = inner.pointer_of_writer(&header, block).await?;
        let is_same = BlockPlace::of(pointer) == place;
        if is_same { Some((pointer, self.keep(pointer, stored)?)) } else { None }
    }

    fn kept_chunk(&self, pointer: Pointer) -> Option<Rc<Chunk>> {
        let kept = self.kept.iter().find(|(kept, _)| *kept == pointer.chunk());
        kept.map(|(_, chunk)| chunk.clone()).filter(|chunk| chunk.has(pointer.block_index()))
    }

    fn keep(&mut self, pointer: Pointer, stored: &[u8]) -> Option<Rc<Chunk>> {
        let OpenChunk { header, blocks } = open_chunk(&self.key, pointer, stored, &mut self.scratch).ok()?;
        let chunk = Rc::new(Chunk { header, blocks: blocks.to_vec() });
        self.kept_bytes += chunk.blocks.len();
        self.kept.push_back((pointer.chunk(), chunk.clone()));
        while self.kept_bytes > KEPT_BYTES_MAX
            && let Some((_, oldest)) = self.kept.pop_front()
        {
            self.kept_bytes -= oldest.blocks.len();
        }
        Some(chunk)
    }
}
