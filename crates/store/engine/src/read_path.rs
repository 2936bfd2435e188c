//! The read path: map, cache, drives; every chunk verified before a byte of it is returned.

use std::rc::Rc;

use ashlar_format::chunk::ChunkHeader;
use ashlar_format::{Pointer, PointerKind};
use ashlar_reduction as reduction;
use ashlar_runtime::Priority;
use ashlar_units::{BLOCK_BYTES, BLOCK_BYTES_USIZE, VolumeId};

use crate::engine::Inner;
use crate::{Error, ErrorKind, Result};

/// Chunks that lie this close together are read in one piece: the gap costs less than a request.
const GAP_BYTES: u64 = 4096;
/// One read at most.
const READ_BYTES_MAX: u64 = 512 << 10;
/// A read that meets a segment freed under it looks the map up again, this often at most.
const ATTEMPTS: usize = 8;

/// Chunks that lie together on a drive.
struct Extent {
    start: u64,
    end: u64,
    chunks: Vec<Pointer>,
}

impl Inner {
    /// Fills `into` with the bytes at `offset`.
    pub(crate) async fn read(self: &Rc<Self>, id: VolumeId, offset: u64, into: &mut [u8]) -> Result<()> {
        self.counters.borrow_mut().host_bytes_read += into.len() as u64;
        let end = offset + into.len() as u64;
        if offset.is_multiple_of(BLOCK_BYTES) && end.is_multiple_of(BLOCK_BYTES) {
            return self.read_blocks(id, offset / BLOCK_BYTES, into).await;
        }
        let first = offset / BLOCK_BYTES * BLOCK_BYTES;
        let mut whole = vec![0; (end.next_multiple_of(BLOCK_BYTES) - first) as usize];
        self.read_blocks(id, first / BLOCK_BYTES, &mut whole).await?;
        let start = (offset - first) as usize;
        into.copy_from_slice(&whole[start..start + into.len()]);
        Ok(())
    }

    /// The same for whole blocks.
    pub(crate) async fn read_blocks(&self, id: VolumeId, first_block: u64, into: &mut [u8]) -> Result<()> {
        let count = into.len() as u64 / BLOCK_BYTES;
        let mut pointers = Vec::with_capacity(count as usize);
        let mut last_error = None;
        for _ in 0..ATTEMPTS {
            pointers.clear();
            self.look_up(id, first_block, count, &mut pointers).await?;
            let missing = self.copy_cached(&pointers, into);
            if missing.is_empty() {
                return Ok(());
            }
            match self.fetch(missing, &pointers, into).await {
                Ok(()) => return Ok(()),
                Err(error) => {
                    let mut again = Vec::with_capacity(count as usize);
                    self.look_up(id, first_block, count, &mut again).await?;
                    if again == pointers {
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

    async fn look_up(&self, id: VolumeId, first: u64, count: u64, out: &mut Vec<Pointer>) -> Result<()> {
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

    /// Copies what the cache has and zeroes; returns the chunks that must be fetched, each once.
    fn copy_cached(&self, pointers: &[Pointer], into: &mut [u8]) -> Vec<Pointer> {
        let mut missing: Vec<Pointer> = Vec::new();
        let mut cache = self.cache.borrow_mut();
        let mut last: Option<(Pointer, Rc<[u8]>)> = None;
        for (pointer, target) in pointers.iter().zip(into.chunks_exact_mut(BLOCK_BYTES_USIZE)) {
            match pointer.kind() {
                PointerKind::Hole | PointerKind::Zero => target.fill(0),
                PointerKind::Page => unreachable!("a leaf holds no page pointers: the map checks it"),
                PointerKind::Data => {
                    let chunk = pointer.chunk();
                    if last.as_ref().is_none_or(|(of, _)| *of != chunk) {
                        if missing.last() == Some(&chunk) {
                            continue;
                        }
                        last = cache.get(chunk).map(|bytes| (chunk, bytes));
                    }
                    match &last {
                        // A block that the chunk does not have is damage: `fetch` says so.
                        Some((_, bytes)) if copy_block(bytes, *pointer, target) => {}
                        Some(_) | None => missing.push(chunk),
                    }
                }
            }
        }
        missing
    }

    /// Reads chunks, caches them, and copies their blocks.
    async fn fetch(&self, mut chunks: Vec<Pointer>, pointers: &[Pointer], into: &mut [u8]) -> Result<()> {
        chunks.sort_unstable();
        chunks.dedup();
        let mut extents = gather(&chunks);
        let mut decoded: Vec<(Pointer, Rc<[u8]>)> = Vec::with_capacity(chunks.len());
        let alone = if extents.len() == 1 { extents.pop() } else { None };
        if let Some(extent) = alone {
            decoded.extend(read_extent(&self.pool, extent).await?);
        } else {
            let reads: Vec<_> = extents
                .into_iter()
                .map(|extent| {
                    let pool = self.pool.clone();
                    self.runtime.spawn(Priority::Host, async move { read_extent(&pool, extent).await })
                })
                .collect();
            let mut result = Ok(());
            for read in reads {
                match read.await {
                    Ok(chunks) => decoded.extend(chunks),
                    Err(error) => result = Err(error),
                }
            }
            result?;
        }
        decoded.sort_unstable_by_key(|(chunk, _)| *chunk);
        for (pointer, target) in pointers.iter().zip(into.chunks_exact_mut(BLOCK_BYTES_USIZE)) {
            if pointer.is_data()
                && let Ok(at) = decoded.binary_search_by_key(&pointer.chunk(), |(chunk, _)| *chunk)
                && !copy_block(&decoded[at].1, *pointer, target)
            {
                let what = format!("{pointer:?} names a block that its chunk does not have");
                return Err(Error::new(ErrorKind::Damaged, what));
            }
        }
        let mut cache = self.cache.borrow_mut();
        for (chunk, bytes) in decoded {
            cache.insert(chunk, bytes);
        }
        Ok(())
    }
}

/// False when the chunk has no such block.
fn copy_block(chunk: &[u8], pointer: Pointer, target: &mut [u8]) -> bool {
    let at = pointer.block_index() * BLOCK_BYTES_USIZE;
    let Some(block) = chunk.get(at..at + BLOCK_BYTES_USIZE) else { return false };
    target.copy_from_slice(block);
    true
}

/// Joins sorted chunks that lie together.
fn gather(chunks: &[Pointer]) -> Vec<Extent> {
    let mut extents: Vec<Extent> = Vec::new();
    for chunk in chunks {
        let (start, end) = (chunk.offset_bytes(), chunk.offset_bytes() + chunk.length_bytes_max());
        if let Some(last) = extents.last_mut()
            && last.chunks[0].segment() == chunk.segment()
            && start <= last.end + GAP_BYTES
            && end.saturating_sub(last.start) <= READ_BYTES_MAX
        {
            last.end = last.end.max(end);
            last.chunks.push(*chunk);
            continue;
        }
        extents.push(Extent { start, end, chunks: vec![*chunk] });
    }
    extents
}

async fn read_extent(pool: &ashlar_pool::Pool, extent: Extent) -> Result<Vec<(Pointer, Rc<[u8]>)>> {
    let segment = extent.chunks[0].segment();
    let (bytes, skip) = pool.read(segment, extent.start, extent.end - extent.start).await?;
    let mut decoded = Vec::with_capacity(extent.chunks.len());
    for chunk in extent.chunks {
        let at = skip + (chunk.offset_bytes() - extent.start) as usize;
        let stored = bytes.get(at..).unwrap_or_default();
        decoded.push((chunk, decode_chunk(chunk, stored)?));
    }
    Ok(decoded)
}

/// Verifies and decompresses the chunk at the front of `stored`.
pub(crate) fn decode_chunk(chunk: Pointer, stored: &[u8]) -> Result<Rc<[u8]>> {
    let damaged = |what: String| Error::new(ErrorKind::Damaged, format!("chunk {chunk:?}: {what}"));
    let (header, payload) = ChunkHeader::open(chunk, stored).map_err(|damage| damaged(damage.to_string()))?;
    let mut bytes = vec![0; header.decoded_bytes()];
    reduction::decompress(header.codec, payload, &mut bytes).map_err(|error| damaged(error.to_string()))?;
    Ok(bytes.into())
}
