//! The read path: map, cache, drives; every chunk verified before a byte of it is returned.

use std::ops::Range;
use std::rc::Rc;

use ashlar_format::MediaKey;
use ashlar_format::chunk::{CHUNK_BLOCKS_MAX, ChunkHeader, Codec};
use ashlar_format::{Pointer, PointerKind};
use ashlar_map::BlockCache;
use ashlar_reduction as reduction;
use ashlar_runtime::{Buf, Priority};
use ashlar_units::{BLOCK_BYTES, BLOCK_BYTES_USIZE, Fault, SegmentId, VolumeId, planted};

use crate::engine::Inner;
use crate::media::{Location, stored_bytes};
use crate::precedence::Place;
use crate::stages::{Course, Stage};
use crate::{Error, ErrorKind, Result};

/// Chunks that lie this close together are read in one piece: the gap costs less than a request.
const GAP_BYTES: u64 = 4096;
/// One read at most.
const READ_BYTES_MAX: u64 = 512 << 10;
/// Reads of this size are scans: they take from the cache what is there, and leave it as it is.
const SCAN_BYTES: usize = 64 << 10;
/// A read that meets a segment freed under it looks the map up again, this often at most.
const ATTEMPTS: usize = 8;

/// A block that must be read. Sorted, blocks of a chunk and chunks of a segment lie together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Missing {
    /// Where its chunk is.
    location: Location,
    pointer: Pointer,
    /// Which block of the request it is.
    index: usize,
}

/// Chunks that lie together on a drive.
struct Extent {
    segment: SegmentId,
    start: u64,
    end: u64,
    /// Their blocks, in the sorted list of missing ones.
    blocks: Range<usize>,
}

impl Inner {
    /// Fills `into` with the bytes at `offset`.
    pub(crate) async fn read(self: &Rc<Self>, id: VolumeId, offset: u64, into: &mut [u8]) -> Result<()> {
        self.counters.borrow_mut().host_bytes_read += into.len() as u64;
        let mut course = Course::of(self, id, false, offset, into.len() as u64);
        self.keep_pace(id, into.len() as u64, None, Some(&mut course)).await;
        let place = self.take_place(id, Some(&mut course)).await;
        self.read_any(id, offset, into, &mut course).await?;
        course.served();
        place.iter().for_each(Place::judge);
        Ok(())
    }

    async fn read_any(
        self: &Rc<Self>,
        id: VolumeId,
        offset: u64,
        into: &mut [u8],
        course: &mut Course<'_>,
    ) -> Result<()> {
        let end = offset + into.len() as u64;
        if offset.is_multiple_of(BLOCK_BYTES) && end.is_multiple_of(BLOCK_BYTES) {
            return self.read_blocks(id, offset / BLOCK_BYTES, into, course).await;
        }
        let first = offset / BLOCK_BYTES * BLOCK_BYTES;
        let mut whole = vec![0; (end.next_multiple_of(BLOCK_BYTES) - first) as usize];
        self.read_blocks(id, first / BLOCK_BYTES, &mut whole, course).await?;
        let start = (offset - first) as usize;
        into.copy_from_slice(&whole[start..start + into.len()]);
        Ok(())
    }

    /// The same for whole blocks.
    pub(crate) async fn read_blocks(
        &self,
        id: VolumeId,
        first_block: u64,
        into: &mut [u8],
        course: &mut Course<'_>,
    ) -> Result<()> {
        let count = into.len() as u64 / BLOCK_BYTES;
        let mut pointers = Vec::with_capacity(count as usize);
        let mut last_error = None;
        for _ in 0..ATTEMPTS {
            pointers.clear();
            self.look_up(id, first_block, count, &mut pointers).await?;
            course.passed(Stage::Map);
            let missing = self.copy_cached(&pointers, into);
            course.passed(Stage::Reduction);
            if missing.is_empty() {
                return Ok(());
            }
            let epoch = self.media.epoch();
            match self.fetch(&missing, into, course).await {
                Ok(()) => return Ok(()),
                Err(error) => {
                    let mut again = Vec::with_capacity(count as usize);
                    self.look_up(id, first_block, count, &mut again).await?;
                    if planted(Fault::ReadNotTriedAgain) || (again == pointers && self.media.epoch() == epoch)
                    {
                        // The map still says so: it is damage, not a segment freed under us.
                        self.counters.borrow_mut().damage += u64::from(error.kind == ErrorKind::Damaged);
                        return Err(error);
                    }
                    last_error = Some(error);
                }
            }
        }
        Err(last_error.expect("an attempt that does not return leaves its error"))
    }

    pub(crate) async fn look_up(
        &self,
        id: VolumeId,
        first: u64,
        count: u64,
        out: &mut Vec<Pointer>,
    ) -> Result<()> {
        loop {
            let attempt = {
                let mut tree = self.tree.borrow_mut();
                let tree = &mut *tree;
                let Some(entry) = tree.catalogue.get(id) else {
                    return Err(Error::new(ErrorKind::NotFound, "the volume was deleted"));
                };
                tree.arena.lookup_run(entry.root, first, count, out)
            };
            match attempt {
                Ok(()) => return Ok(()),
                Err(missing) => self.load_page(missing).await?,
            }
        }
    }

    /// Copies what the cache has and zeroes; returns the blocks that must be fetched, each with its
    /// place in the request.
    fn copy_cached(&self, pointers: &[Pointer], into: &mut [u8]) -> Vec<(Pointer, usize)> {
        let mut missing = Vec::new();
        let mut cache = self.cache.borrow_mut();
        for (index, (pointer, target)) in
            pointers.iter().zip(into.chunks_exact_mut(BLOCK_BYTES_USIZE)).enumerate()
        {
            match pointer.kind() {
                PointerKind::Hole | PointerKind::Zero => target.fill(0),
                PointerKind::Page => unreachable!("a leaf holds no page pointers: the map checks it"),
                PointerKind::Data if cache.copy(*pointer, target) => {}
                PointerKind::Data => missing.push((*pointer, index)),
            }
        }
        missing
    }

    /// Reads the chunks of missing blocks, copies the blocks and caches the chunks.
    async fn fetch(
        &self,
        blocks: &[(Pointer, usize)],
        into: &mut [u8],
        course: &mut Course<'_>,
    ) -> Result<()> {
        let missing = self.locate_sorted(blocks).await?;
        course.passed(Stage::Map);
        let mut extents = gather(&missing);
        if extents.len() == 1
            && let Some(extent) = extents.pop()
        {
            let read = self.pool.read(extent.segment, extent.start, extent.end - extent.start).await?;
            course.passed(Stage::Drive);
            let taken = self.take_or_mend(&extent, read, &missing, into).await;
            course.passed(Stage::Reduction);
            return taken;
        }
        let reads: Vec<_> = extents
            .into_iter()
            .map(|extent| {
                let pool = self.pool.clone();
                self.runtime.spawn(Priority::Host, async move {
                    let read = pool.read(extent.segment, extent.start, extent.end - extent.start).await;
                    (extent, read)
                })
            })
            .collect();
        let mut result = Ok(());
        for read in reads {
            let (extent, read) = read.await;
            course.passed(Stage::Drive);
            let taken = match read {
                Ok(read) => self.take_or_mend(&extent, read, &missing, into).await,
                Err(error) => Err(error.into()),
            };
            course.passed(Stage::Reduction);
            result = result.and(taken);
        }
        result
    }

    /// Takes an extent; has the chunks mended that do not prove to be what they should.
    async fn take_or_mend(
        &self,
        extent: &Extent,
        mut read: (Buf, usize),
        missing: &[Missing],
        into: &mut [u8],
    ) -> Result<()> {
        let taken = self.take_extent(extent, &read, missing, into);
        let is_damaged = taken.as_ref().is_err_and(|error| error.kind == ErrorKind::Damaged);
        if !is_damaged || self.pool.parity_columns() == 0 {
            return taken;
        }
        let (bytes, skip) = &mut read;
        for of_chunk in missing[extent.blocks.clone()].chunk_by(|a, b| a.pointer.chunk() == b.pointer.chunk())
        {
            let Missing { location, pointer, .. } = of_chunk[0];
            let at = *skip + (location.offset_bytes - extent.start) as usize;
            if stored_bytes(self.pool.key(), pointer, bytes.get(at..).unwrap_or_default()).is_some() {
                continue;
            }
            let Some(mended) = self.media.mend(pointer).await? else { return taken };
            // It may have been moved meanwhile; what it is does not change with where it is.
            bytes[at..at + mended.len()].copy_from_slice(&mended);
        }
        self.take_extent(extent, &read, missing, into)
    }

    async fn locate_sorted(&self, blocks: &[(Pointer, usize)]) -> Result<Vec<Missing>> {
        let mut missing: Vec<Missing> = Vec::with_capacity(blocks.len());
        for (pointer, index) in blocks {
            let location = match missing.last() {
                Some(last) if last.pointer.chunk() == pointer.chunk() => last.location,
                _ => self.media.locate(*pointer).await?,
            };
            missing.push(Missing { location, pointer: *pointer, index: *index });
        }
        missing.sort_unstable();
        Ok(missing)
    }

    /// Copies the blocks of one extent to where they belong, and its chunks to the cache.
    fn take_extent(
        &self,
        extent: &Extent,
        (bytes, skip): &(Buf, usize),
        missing: &[Missing],
        into: &mut [u8],
    ) -> Result<()> {
        let is_scan = into.len() >= SCAN_BYTES;
        let mut cache = self.cache.borrow_mut();
        let mut scratch = self.decompressed.borrow_mut();
        let blocks = &missing[extent.blocks.clone()];
        for of_chunk in blocks.chunk_by(|a, b| a.pointer.chunk() == b.pointer.chunk()) {
            let Missing { location, pointer: last, .. } = *of_chunk.last().expect("no part is empty");
            let at = skip + (location.offset_bytes - extent.start) as usize;
            let chunk = open_chunk(self.pool.key(), last, bytes.get(at..).unwrap_or_default(), &mut scratch)?;
            for Missing { pointer, index, .. } in of_chunk {
                into[index * BLOCK_BYTES_USIZE..][..BLOCK_BYTES_USIZE]
                    .copy_from_slice(chunk.block(*pointer)?);
            }
            if !is_scan {
                let is_asked = |index| of_chunk.iter().any(|asked| asked.pointer.block_index() == index);
                keep_blocks(&mut cache, last, &chunk, is_asked);
            }
        }
        Ok(())
    }
}

/// Caches a chunk's blocks. The host has what it asked for and a cache of its own; what came along with
/// it is what it may ask for next.
fn keep_blocks(
    cache: &mut BlockCache,
    of_chunk: Pointer,
    chunk: &OpenChunk<'_>,
    is_asked: impl Fn(usize) -> bool,
) {
    let there = (0..CHUNK_BLOCKS_MAX).filter(|index| chunk.header.has(*index));
    for (index, block) in there.zip(chunk.blocks.chunks_exact(BLOCK_BYTES_USIZE)) {
        let pointer = of_chunk.with_block_index(if planted(Fault::CacheWrongBlock) { 0 } else { index });
        if is_asked(index) {
            cache.offer(pointer, block);
        } else {
            cache.insert(pointer, block);
        }
    }
}

/// Joins sorted chunks that lie together.
fn gather(missing: &[Missing]) -> Vec<Extent> {
    let mut extents: Vec<Extent> = Vec::new();
    for (at, Missing { location, .. }) in missing.iter().enumerate() {
        let Location { segment, offset_bytes: start, length_bytes_max } = *location;
        let end = start + length_bytes_max;
        if let Some(last) = extents.last_mut()
            && last.segment == segment
            && start <= last.end + GAP_BYTES
            && end.saturating_sub(last.start) <= READ_BYTES_MAX
        {
            last.end = last.end.max(end);
            last.blocks.end = at + 1;
            continue;
        }
        extents.push(Extent { segment, start, end, blocks: at..at + 1 });
    }
    extents
}

/// A verified chunk.
pub(crate) struct OpenChunk<'a> {
    pub(crate) header: ChunkHeader,
    /// The blocks that are there, in order.
    pub(crate) blocks: &'a [u8],
}

impl OpenChunk<'_> {
    /// The block that a pointer to this chunk names.
    pub(crate) fn block(&self, pointer: Pointer) -> Result<&[u8]> {
        let index = pointer.block_index();
        if self.header.has(index) {
            return Ok(&self.blocks[self.header.decoded_at(index)..][..BLOCK_BYTES_USIZE]);
        }
        Err(Error::new(ErrorKind::Damaged, format!("chunk {pointer:?} does not have that block")))
    }
}

/// Verifies the chunk at the front of `stored`, which must have the block that `pointer` names. Its
/// blocks are in place when it is stored as it is, in `scratch` when it was compressed.
pub(crate) fn open_chunk<'a>(
    key: &MediaKey,
    pointer: Pointer,
    stored: &'a [u8],
    scratch: &'a mut Vec<u8>,
) -> Result<OpenChunk<'a>> {
    let damaged = |what: String| Error::new(ErrorKind::Damaged, format!("chunk {pointer:?}: {what}"));
    let (header, payload) =
        ChunkHeader::open(key, pointer, stored).map_err(|damage| damaged(damage.to_string()))?;
    if header.codec == Codec::None {
        return Ok(OpenChunk { header, blocks: payload });
    }
    scratch.resize(header.decoded_bytes(), 0);
    reduction::decompress(header.codec, payload, scratch).map_err(|error| damaged(error.to_string()))?;
    Ok(OpenChunk { header, blocks: scratch })
}
