//! Copies what is alive out of segments into containers, in large sequential writes.
//!
//! Chunks and page records move as they are, headers included: these go on naming the old address,
//! which is what pointers name too. So a moved chunk is verified against its pointer like any other.

use ashlar_format::chunk::{CHUNK_HEADER_BYTES, ChunkHeader};
use ashlar_format::page::{PAGE_HEADER_BYTES, PageHeader};
use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_format::segment::SegmentKind;
use ashlar_pool::{OpenedSegment, Pool};
use ashlar_runtime::Durability;
use ashlar_units::{BLOCK_BYTES, SegmentId};

use crate::{Error, ErrorKind, Result};

/// Records are gathered into writes of this size: large enough to be sequential for any drive.
const BATCH_BYTES: usize = 512 << 10;

/// A chunk or page record as found on a drive, verified.
pub(crate) struct FoundRecord<'a> {
    /// The address its header names.
    pub(crate) segment: SegmentId,
    pub(crate) offset_bytes: u64,
    /// Blocks of a chunk; none for a page.
    pub(crate) blocks: u8,
    pub(crate) bytes: &'a [u8],
}

/// The intact chunk or page record at the front of `bytes`, whichever address it names.
pub(crate) fn record_at(bytes: &[u8]) -> Option<FoundRecord<'_>> {
    if let Ok((header, payload)) = ChunkHeader::open_any(bytes) {
        let bytes = &bytes[..CHUNK_HEADER_BYTES + payload.len()];
        let (segment, offset_bytes, blocks) = (header.segment, header.offset_bytes, header.blocks);
        return Some(FoundRecord { segment, offset_bytes, blocks, bytes });
    }
    let (header, payload) = PageHeader::open_any(bytes).ok()?;
    let bytes = &bytes[..PAGE_HEADER_BYTES + payload.len()];
    Some(FoundRecord { segment: header.segment, offset_bytes: header.offset_bytes, blocks: 0, bytes })
}

struct Container {
    segment: SegmentId,
    /// Where the batch in memory starts; whole blocks.
    batch_start: u64,
}

/// Appends records to containers.
pub(crate) struct Mover {
    pool: Pool,
    open: Option<Container>,
    batch: Vec<u8>,
    /// No container is opened when only this many segments are left: the checkpoint that makes the
    /// emptied ones usable needs some, in this life or after a crash.
    pub(crate) segments_left_min: u64,
    /// Containers opened since the start.
    pub(crate) opened: u64,
}

impl Mover {
    pub(crate) fn new(pool: &Pool) -> Mover {
        Mover { pool: pool.clone(), open: None, batch: Vec::new(), segments_left_min: 0, opened: 0 }
    }

    /// Appends a record; returns where it will be. It is there after [`Mover::flush`].
    pub(crate) async fn append(&mut self, record: &[u8]) -> Result<(SegmentId, u64)> {
        if self.batch.len() >= BATCH_BYTES {
            self.flush().await?;
        }
        if !self.has_room(record.len() as u64) {
            self.flush().await?;
            self.open_container().await?;
        }
        let open = self.open.as_ref().expect("a container was opened");
        let offset = open.batch_start + self.batch.len() as u64;
        self.batch.extend_from_slice(record);
        self.batch.resize(self.batch.len().next_multiple_of(PLACE_UNIT_BYTES as usize), 0);
        Ok((open.segment, offset))
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.open.as_ref().is_some_and(|open| {
            let end = open.batch_start + self.batch.len() as u64 + bytes;
            end.next_multiple_of(BLOCK_BYTES) <= self.pool.segment_bytes()
        })
    }

    async fn open_container(&mut self) -> Result<()> {
        if self.pool.cells_available() <= self.segments_left_min {
            return Err(Error::new(ErrorKind::NoSpace, "too few segments are left to move data into"));
        }
        let opened: OpenedSegment = self.pool.open_segment(SegmentKind::Moved, 0).await?;
        // Only now: without another one the old one stays open for smaller records.
        if let Some(full) = self.open.take() {
            self.pool.with_table_mut(|table| table.seal(full.segment));
        }
        self.open = Some(Container { segment: opened.segment, batch_start: 0 });
        self.batch = opened.header_block();
        self.opened += 1;
        Ok(())
    }

    /// Writes what is gathered. Not durable before the pool is synced.
    pub(crate) async fn flush(&mut self) -> Result<()> {
        let Some(open) = self.open.as_mut() else { return Ok(()) };
        if self.batch.is_empty() {
            return Ok(());
        }
        self.batch.resize(self.batch.len().next_multiple_of(BLOCK_BYTES as usize), 0);
        let mut buffer = self.pool.runtime().buffer(self.batch.len());
        buffer.copy_from_slice(&self.batch);
        let (segment, at) = (open.segment, open.batch_start);
        open.batch_start += self.batch.len() as u64;
        self.batch.clear();
        self.pool.with_table_mut(|table| table.set_used(segment, open.batch_start));
        Ok(self.pool.write(segment, at, buffer, Durability::Cached).await?)
    }
}
