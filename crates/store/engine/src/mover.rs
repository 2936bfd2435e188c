//! Copies what is alive out of segments into containers, in large sequential writes.
//!
//! Chunks and page records move as they are, headers included: these go on naming the old address,
//! which is what pointers name too. So a moved chunk is verified against its pointer like any other.

use ashlar_format::MediaKey;
use ashlar_format::chunk::{CHUNK_HEADER_BYTES, ChunkHeader};
use ashlar_format::page::{PAGE_HEADER_BYTES, PageHeader};
use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_format::relocation::Relocation;
use ashlar_format::segment::SegmentKind;
use ashlar_pool::{OpenedSegment, Pool};
use ashlar_runtime::Durability;
use ashlar_units::SegmentId;

use crate::{Error, ErrorKind, Result};

/// Records are gathered into writes of this size: large enough to be sequential for any drive.
const BATCH_BYTES: usize = 512 << 10;

/// A chunk or page record as found on a drive, verified.
pub(crate) struct FoundRecord<'a> {
    /// The address its header names.
    pub(crate) segment: SegmentId,
    pub(crate) offset_bytes: u64,
    /// A bit for each block of a chunk that is there; none for a page.
    pub(crate) blocks: u16,
    pub(crate) bytes: &'a [u8],
}

impl FoundRecord<'_> {
    /// Where in the segment of its address it was, as relocations count.
    pub(crate) fn old_units(&self) -> u32 {
        (self.offset_bytes / PLACE_UNIT_BYTES) as u32
    }

    /// Whether entries of the relocation table lead to it where it was found.
    pub(crate) fn is_moved_to(&self, entries: &[Relocation], container: SegmentId, at: u64) -> bool {
        let found = entries.binary_search_by_key(&self.old_units(), |entry| entry.old_units);
        found.is_ok_and(|index| entries[index].container == container && entries[index].offset_bytes == at)
    }
}

/// The intact chunk or page record at the front of `bytes`, whichever address it names.
pub(crate) fn record_at<'a>(key: &MediaKey, bytes: &'a [u8]) -> Option<FoundRecord<'a>> {
    if let Ok((header, payload)) = ChunkHeader::open_any(key, bytes) {
        let bytes = &bytes[..CHUNK_HEADER_BYTES + payload.len()];
        let (segment, offset_bytes, blocks) = (header.segment, header.offset_bytes, header.kept);
        return Some(FoundRecord { segment, offset_bytes, blocks, bytes });
    }
    let (header, payload) = PageHeader::open_any(key, bytes).ok()?;
    let bytes = &bytes[..PAGE_HEADER_BYTES + payload.len()];
    Some(FoundRecord { segment: header.segment, offset_bytes: header.offset_bytes, blocks: 0, bytes })
}

/// How long something has lived: what outlived its first segment is more likely to outlive the next.
/// Kept apart, the young ones die together and leave segments that are cheap to empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Age {
    /// It leaves the segment that it was written to.
    Young,
    /// It was moved before.
    Old,
}

/// Pools with fewer segments than this keep one container open, not one for each age.
const SEGMENTS_FOR_AGES: usize = 128;

struct Container {
    segment: SegmentId,
    /// Where the batch in memory starts; whole blocks.
    batch_start: u64,
}

/// Containers of one age, one after the other.
#[derive(Default)]
struct Stream {
    open: Option<Container>,
    batch: Vec<u8>,
}

/// Appends records to containers.
pub(crate) struct Mover {
    pool: Pool,
    has_ages: bool,
    young: Stream,
    old: Stream,
    /// No container is opened when only this many segments are left: the checkpoint that makes the
    /// emptied ones usable needs some, in this life or after a crash.
    pub(crate) segments_left_min: u64,
    /// Containers opened since the start.
    pub(crate) opened: u64,
}

impl Mover {
    pub(crate) fn new(pool: &Pool) -> Mover {
        let has_ages = pool.with_table(ashlar_pool::SegmentTable::open_count) >= SEGMENTS_FOR_AGES;
        let (young, old) = (Stream::default(), Stream::default());
        Mover { pool: pool.clone(), has_ages, young, old, segments_left_min: 0, opened: 0 }
    }

    /// What a container takes, beside what its end wastes.
    pub(crate) fn container_bytes(&self) -> u64 {
        self.pool.segment_bytes() - self.pool.stripe_bytes()
    }

    /// Whether records of so many bytes fit, as far as one can tell beforehand.
    pub(crate) fn check_room(&self, bytes: u64, age: Age) -> Result<()> {
        let stream = if self.has_ages && age == Age::Old { &self.old } else { &self.young };
        let containers = self.pool.cells_available().saturating_sub(self.segments_left_min);
        if bytes > stream.room_bytes(&self.pool) + containers * self.container_bytes() {
            return Err(too_few_left());
        }
        Ok(())
    }

    /// Appends a record; returns where it will be. It is there after [`Mover::flush`].
    pub(crate) async fn append(&mut self, record: &[u8], age: Age) -> Result<(SegmentId, u64)> {
        let stream = if self.has_ages && age == Age::Old { &mut self.old } else { &mut self.young };
        if stream.batch.len() >= BATCH_BYTES {
            stream.flush(&self.pool).await?;
        }
        if !stream.has_room(record.len() as u64, &self.pool) {
            stream.flush(&self.pool).await?;
            if self.pool.cells_available() <= self.segments_left_min {
                return Err(too_few_left());
            }
            stream.open_container(&self.pool).await?;
            self.opened += 1;
        }
        Ok(stream.append(record))
    }

    /// Writes what is gathered. Not durable before the pool is synced.
    pub(crate) async fn flush(&mut self) -> Result<()> {
        self.young.flush(&self.pool).await?;
        self.old.flush(&self.pool).await
    }

    /// Writes no more to containers on a drive that leaves, so that they can be emptied.
    pub(crate) async fn abandon_leaving(&mut self) -> Result<()> {
        for stream in [&mut self.young, &mut self.old] {
            stream.flush(&self.pool).await?;
            if let Some(open) = stream.open.take_if(|open| self.pool.is_leaving(open.segment)) {
                self.pool.with_table_mut(|table| table.seal(open.segment));
            }
        }
        Ok(())
    }
}

fn too_few_left() -> Error {
    Error::new(ErrorKind::NoSpace, "too few segments are left to move data into")
}

impl Stream {
    fn append(&mut self, record: &[u8]) -> (SegmentId, u64) {
        let open = self.open.as_ref().expect("a container was opened");
        let offset = open.batch_start + self.batch.len() as u64;
        self.batch.extend_from_slice(record);
        self.batch.resize(self.batch.len().next_multiple_of(PLACE_UNIT_BYTES as usize), 0);
        (open.segment, offset)
    }

    fn has_room(&self, bytes: u64, pool: &Pool) -> bool {
        bytes <= self.room_bytes(pool)
    }

    /// What the open container takes; writes end with whole stripes.
    fn room_bytes(&self, pool: &Pool) -> u64 {
        let open = self.open.as_ref().filter(|open| !pool.is_leaving(open.segment));
        open.map_or(0, |open| {
            let end = pool.segment_bytes() / pool.stripe_bytes() * pool.stripe_bytes();
            end.saturating_sub(open.batch_start + self.batch.len() as u64)
        })
    }

    async fn open_container(&mut self, pool: &Pool) -> Result<()> {
        let opened: OpenedSegment = pool.open_segment(SegmentKind::Moved, 0).await?;
        // Only now: without another one the old one stays open for smaller records.
        if let Some(full) = self.open.take() {
            pool.with_table_mut(|table| table.seal(full.segment));
        }
        self.open = Some(Container { segment: opened.segment, batch_start: 0 });
        self.batch = opened.header_block(pool.key());
        Ok(())
    }

    async fn flush(&mut self, pool: &Pool) -> Result<()> {
        let Some(open) = self.open.as_mut() else { return Ok(()) };
        if self.batch.is_empty() {
            return Ok(());
        }
        self.batch.resize(self.batch.len().next_multiple_of(pool.stripe_bytes() as usize), 0);
        let mut buffer = pool.runtime().buffer(self.batch.len());
        buffer.copy_from_slice(&self.batch);
        let (segment, at) = (open.segment, open.batch_start);
        open.batch_start += self.batch.len() as u64;
        self.batch.clear();
        pool.with_table_mut(|table| table.set_used(segment, open.batch_start));
        Ok(pool.write(segment, at, buffer, Durability::Cached).await?)
    }
}
