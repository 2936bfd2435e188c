//! Copies what is alive out of segments into containers, in large sequential writes.
//!
//! Chunks and page records move as they are, headers included: these go on naming the old address,
//! which is what pointers name too. So a moved chunk is verified against its pointer like any other.

use ashlar_format::MediaKey;
use ashlar_format::chunk::{CHUNK_HEADER_BYTES, ChunkHeader};
use ashlar_format::page::{PAGE_HEADER_BYTES, PageHeader};
use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_format::segment::{FooterEntry, SegmentKind, footer_bytes};
use ashlar_pool::{OpenedSegment, Pool};
use ashlar_runtime::Durability;
use ashlar_units::SegmentId;

use crate::metadata::seal_listed;
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
    /// As footers tell it.
    owner: u64,
    /// Blocks of a chunk that has all of them.
    blocks_all: u8,
    pub(crate) bytes: &'a [u8],
}

impl FoundRecord<'_> {
    /// Where in the segment of its address it was, as relocations count.
    pub(crate) fn old_units(&self) -> u32 {
        (self.offset_bytes / PLACE_UNIT_BYTES) as u32
    }
}

/// The intact chunk or page record at the front of `bytes`, whichever address it names.
pub(crate) fn record_at<'a>(key: &MediaKey, bytes: &'a [u8]) -> Option<FoundRecord<'a>> {
    if let Ok((header, payload)) = ChunkHeader::open_any(key, bytes) {
        let bytes = &bytes[..CHUNK_HEADER_BYTES + payload.len()];
        let (segment, offset_bytes, blocks) = (header.segment, header.offset_bytes, header.kept);
        let owner = u64::from(header.owner_volume) << 36 | header.owner_block;
        let is_whole = blocks == ChunkHeader::all_of(header.blocks);
        let blocks_all = if is_whole { header.blocks } else { 0 };
        return Some(FoundRecord { segment, offset_bytes, blocks, owner, blocks_all, bytes });
    }
    let (header, payload) = PageHeader::open_any(key, bytes).ok()?;
    let bytes = &bytes[..PAGE_HEADER_BYTES + payload.len()];
    let (segment, offset_bytes, owner) = (header.segment, header.offset_bytes, header.identity.tree);
    Some(FoundRecord { segment, offset_bytes, blocks: 0, owner, blocks_all: 0, bytes })
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
    /// `None` once it took a record in place of its footer.
    footer: Option<Vec<FooterEntry>>,
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
    /// Writes wait for room: a record takes the room of a footer rather than another container.
    pub(crate) is_room_short: bool,
    /// Containers opened since the start.
    pub(crate) opened: u64,
}

impl Mover {
    pub(crate) fn new(pool: &Pool) -> Mover {
        let has_ages = pool.with_table(ashlar_pool::SegmentTable::open_count) >= SEGMENTS_FOR_AGES;
        let (young, old) = (Stream::default(), Stream::default());
        Mover {
            pool: pool.clone(),
            has_ages,
            young,
            old,
            segments_left_min: 0,
            is_room_short: false,
            opened: 0,
        }
    }

    /// What a container takes, beside what its end wastes and its footer, which gives way.
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
        let bytes = record.len() as u64;
        let footer = stream.footer_bytes(&self.pool);
        if bytes + footer > stream.room_bytes(&self.pool) {
            stream.flush(&self.pool).await?;
            let fits_alone = bytes <= stream.room_bytes(&self.pool);
            let may_open = self.pool.cells_available() > self.segments_left_min;
            let may_open = may_open && !(self.is_room_short && fits_alone);
            let opened = if may_open { stream.open_container(&self.pool).await } else { Err(too_few_left()) };
            match opened {
                Ok(()) => self.opened += 1,
                Err(error) if error.kind == ErrorKind::NoSpace && fits_alone => {
                    // The footer gives way: without one the container is walked from its start.
                    stream.open.iter_mut().for_each(|open| open.footer = None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(stream.append(record, self.pool.key()))
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
                open.seal(&self.pool).await?;
            }
        }
        Ok(())
    }
}

fn too_few_left() -> Error {
    Error::new(ErrorKind::NoSpace, "too few segments are left to move data into")
}

impl Container {
    async fn seal(self, pool: &Pool) -> Result<()> {
        let Container { segment, batch_start, footer } = self;
        seal_listed(pool, segment, SegmentKind::Moved, batch_start, footer.as_deref()).await
    }
}

impl Stream {
    fn append(&mut self, record: &[u8], key: &MediaKey) -> (SegmentId, u64) {
        let open = self.open.as_mut().expect("a container was opened");
        let offset = open.batch_start + self.batch.len() as u64;
        if let Some(footer) = &mut open.footer {
            let found = record_at(key, record).expect("what moves was proven");
            footer.push(FooterEntry {
                offset_units: (offset / PLACE_UNIT_BYTES) as u32,
                length_bytes: record.len() as u32,
                owner: found.owner,
                blocks: found.blocks_all,
                birth: Some((found.segment, found.old_units())),
            });
        }
        self.batch.extend_from_slice(record);
        self.batch.resize(self.batch.len().next_multiple_of(PLACE_UNIT_BYTES as usize), 0);
        (open.segment, offset)
    }

    /// What the open container's footer takes with one record more.
    fn footer_bytes(&self, pool: &Pool) -> u64 {
        let footer = self.open.as_ref().and_then(|open| open.footer.as_ref());
        let bytes = footer.map(|entries| footer_bytes(SegmentKind::Moved, entries.len() as u64 + 1));
        bytes.map_or(0, |bytes| bytes.next_multiple_of(pool.stripe_bytes()))
    }

    /// What the open container takes, footer and all; writes end with whole stripes.
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
        let full = self.open.replace(Container {
            segment: opened.segment,
            batch_start: 0,
            footer: Some(Vec::new()),
        });
        // Flushed before: the batch is the new one's.
        assert!(self.batch.is_empty(), "a batch of {} bytes is left behind", self.batch.len());
        self.batch = opened.header_block(pool.key());
        match full {
            Some(full) => full.seal(pool).await,
            None => Ok(()),
        }
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
