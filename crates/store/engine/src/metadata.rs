//! The stream of page records: appended to metadata segments in large writes, read back verified.

use std::collections::BTreeSet;

use ashlar_format::MediaKey;
use ashlar_format::Pointer;
use ashlar_format::chunk::Codec;
use ashlar_format::overrides::{self, Override};
use ashlar_format::page::{PAGE_BYTES, PAGE_HEADER_BYTES, PageHeader, PageIdentity, pointers_to_bytes};
use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_format::segment::{FooterEntry, Place, SegmentKind, encode_footer, footer_bytes};
use ashlar_map::{Delta, PageRecord, RecordForm};
use ashlar_pool::{OpenedSegment, Pool};
use ashlar_reduction as reduction;
use ashlar_runtime::Durability;
use ashlar_units::{Lsn, SegmentId};

use crate::media::stored_bytes;
use crate::tables::Located;
use crate::{Error, ErrorKind, Result};

/// A record takes at most this much.
pub(crate) const RECORD_BYTES_MAX: u64 = (PAGE_HEADER_BYTES + PAGE_BYTES) as u64;

/// Records are gathered into writes of this size: large enough to be sequential for any drive.
const BATCH_BYTES: usize = 256 << 10;

/// A DELTA is written while it takes at most this share of what its base takes, in per cent.
const DELTA_PERCENT_MAX: u64 = 25;

struct OpenStream {
    segment: SegmentId,
    place: Place,
    /// Where the batch in memory starts on the drive; whole blocks.
    batch_start: u64,
    header: Option<OpenedSegment>,
    /// `None` after a resume: see the journal.
    footer: Option<Vec<FooterEntry>>,
}

/// Appends page records.
pub(crate) struct MetadataStream {
    pool: Pool,
    open: Option<OpenStream>,
    batch: Vec<u8>,
    scratch: Vec<u8>,
    /// Segments with records that no published superblock leads to yet. When a checkpoint is given up
    /// trees go on referring to the pages it wrote; only the next one published has them.
    pub(crate) unpublished: BTreeSet<SegmentId>,
    /// Records written since the start.
    pub(crate) pages_written: u64,
    /// Those of them that tell a map page by the difference from its base.
    pub(crate) delta_pages_written: u64,
    /// Bytes written since the start.
    pub(crate) bytes_written: u64,
}

impl MetadataStream {
    pub(crate) fn new(pool: &Pool) -> MetadataStream {
        MetadataStream {
            pool: pool.clone(),
            open: None,
            batch: Vec::new(),
            scratch: vec![0; PAGE_BYTES],
            unpublished: BTreeSet::new(),
            pages_written: 0,
            delta_pages_written: 0,
            bytes_written: 0,
        }
    }

    /// Goes on in a segment that an earlier session left open when it closed, from an address never written.
    pub(crate) fn resume(&mut self, segment: SegmentId, place: Place, offset: u64) {
        assert!(offset.is_multiple_of(self.pool.stripe_bytes()), "resume offset {offset}");
        self.open = Some(OpenStream { segment, place, batch_start: offset, header: None, footer: None });
    }

    /// Sees to it that `records` more records fit into the open segment, whatever their size.
    pub(crate) async fn reserve(&mut self, records: u64, birth: Lsn) -> Result<()> {
        if self.batch.len() >= BATCH_BYTES {
            self.flush().await?;
        }
        let is_refused = self.pool.is_metadata_refused();
        if self.has_room(records) && !is_refused {
            return Ok(());
        }
        self.flush().await?;
        if let Some(full) = self.open.take() {
            self.seal(full).await?;
        }
        if is_refused {
            return Err(Error::new(ErrorKind::NoSpace, "no free segment is left for a checkpoint"));
        }
        let opened = self.pool.open_segment(SegmentKind::Metadata, birth.0).await?;
        self.open = Some(OpenStream {
            segment: opened.segment,
            place: opened.place(),
            batch_start: 0,
            header: Some(opened),
            footer: Some(Vec::new()),
        });
        self.batch = opened.header_block(self.pool.key());
        if self.has_room(records) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Invalid, format!("{records} page records do not fit a segment")))
    }

    /// Whether records fit into the open segment; on a drive that leaves none do.
    fn has_room(&self, records: u64) -> bool {
        let Some(open) = &self.open else { return false };
        if self.pool.is_leaving(open.segment) {
            return false;
        }
        let entries = open.footer.as_ref().map_or(0, |footer| footer.len() as u64) + records;
        let stripe_bytes = self.pool.stripe_bytes();
        let end = (open.batch_start + self.batch.len() as u64).next_multiple_of(stripe_bytes);
        let footer = footer_bytes(SegmentKind::Metadata, entries).next_multiple_of(stripe_bytes);
        end + records * RECORD_BYTES_MAX + stripe_bytes + footer <= self.pool.segment_bytes()
    }

    /// Where the open segment's written part may end after `records` more: what the segment table
    /// that is about to be written must say of it.
    pub(crate) fn note_used(&self, records: u64) {
        if let Some(open) = &self.open {
            let end = open.batch_start + self.batch.len() as u64 + records * RECORD_BYTES_MAX;
            let stripe_bytes = self.pool.stripe_bytes();
            let used = (end + stripe_bytes).next_multiple_of(stripe_bytes).min(self.pool.segment_bytes());
            self.pool.with_table_mut(|table| table.set_used(open.segment, used));
        }
    }

    /// Appends a page; room was reserved.
    pub(crate) fn append(&mut self, identity: PageIdentity, birth: Lsn, page: &[u8]) -> Located {
        let mut packed = std::mem::take(&mut self.scratch);
        let (codec, payload) = match reduction::compress(Codec::Lz4, page, &mut packed) {
            Some(length) => (Codec::Lz4, &packed[..length]),
            None => (Codec::None, page),
        };
        let located = self.append_record(identity, birth, None, codec, payload);
        self.scratch = packed;
        located
    }

    /// Appends a map page in the form that takes less; room was reserved.
    pub(crate) fn append_map_page(
        &mut self,
        identity: PageIdentity,
        birth: Lsn,
        page: &PageRecord<'_>,
    ) -> (Located, RecordForm) {
        let Some((base, payload)) = page.delta.as_ref().and_then(delta_payload) else {
            return (self.append(identity, birth, &pointers_to_bytes(page.pointers)), RecordForm::Full);
        };
        self.delta_pages_written += 1;
        let located = self.append_record(identity, birth, Some(base), Codec::None, &payload);
        (located, RecordForm::Delta)
    }

    fn append_record(
        &mut self,
        identity: PageIdentity,
        birth: Lsn,
        base: Option<Pointer>,
        codec: Codec,
        payload: &[u8],
    ) -> Located {
        let open = self.open.as_mut().expect("reserve opened a segment");
        let offset = open.batch_start + self.batch.len() as u64;
        assert!(offset.is_multiple_of(PLACE_UNIT_BYTES), "record at {offset}");
        let session = self.pool.superblock_session();
        let header =
            PageHeader { identity, base, codec, session, birth, segment: open.segment, offset_bytes: offset };
        let record = header.seal(self.pool.key(), payload);
        let pointer = Pointer::page(open.segment, offset, record.len() as u64);
        if let Some(footer) = &mut open.footer {
            footer.push(FooterEntry {
                offset_units: (offset / PLACE_UNIT_BYTES) as u32,
                length_bytes: record.len() as u32,
                owner: identity.tree,
                blocks: 0,
                birth: None,
            });
        }
        self.unpublished.insert(open.segment);
        self.batch.extend_from_slice(&record);
        self.batch.resize(self.batch.len().next_multiple_of(PLACE_UNIT_BYTES as usize), 0);
        self.pages_written += 1;
        Located { pointer, place: open.place }
    }

    /// Writes what is gathered. Not durable before the pool is synced.
    pub(crate) async fn flush(&mut self) -> Result<()> {
        let Some(open) = self.open.as_mut() else { return Ok(()) };
        if self.batch.is_empty() {
            return Ok(());
        }
        self.batch.resize(self.batch.len().next_multiple_of(self.pool.stripe_bytes() as usize), 0);
        let mut buffer = self.pool.runtime().buffer(self.batch.len());
        buffer.copy_from_slice(&self.batch);
        let (segment, at) = (open.segment, open.batch_start);
        open.batch_start += self.batch.len() as u64;
        open.header = None;
        self.bytes_written += self.batch.len() as u64;
        self.batch.clear();
        self.pool.with_table_mut(|table| table.set_used(segment, open.batch_start));
        Ok(self.pool.write(segment, at, buffer, Durability::Cached).await?)
    }

    async fn seal(&mut self, full: OpenStream) -> Result<()> {
        let OpenStream { segment, batch_start, footer, .. } = full;
        seal_listed(&self.pool, segment, SegmentKind::Metadata, batch_start, footer.as_deref()).await
    }
}

/// Seals a segment written up to an offset: with a footer, where what it holds is listed.
pub(crate) async fn seal_listed(
    pool: &Pool,
    segment: SegmentId,
    kind: SegmentKind,
    used: u64,
    listed: Option<&[FooterEntry]>,
) -> Result<()> {
    let Some(entries) = listed else {
        pool.with_table_mut(|table| table.seal(segment));
        return Ok(());
    };
    let (offset, buffer) = pool.footer_buffer(&encode_footer(pool.key(), segment, kind, entries));
    assert!(offset >= used, "footer of segment {segment} overlaps its content");
    pool.write(segment, offset, buffer, Durability::Cached).await?;
    pool.with_table_mut(|table| table.seal_with_footer(segment));
    Ok(())
}

/// Reads and verifies a page record whose segment is not in the table yet.
pub(crate) async fn read_located(pool: &Pool, located: Located, expected: PageIdentity) -> Result<Vec<u8>> {
    let Located { pointer, place } = located;
    let length = pointer.length_bytes_max().min(pool.segment_bytes().saturating_sub(pointer.offset_bytes()));
    let (bytes, skip) = pool.read_at(place, pointer.offset_bytes(), length).await?;
    let page = decode_page(pool.key(), pointer, expected, &bytes[skip..]);
    if page.is_ok() {
        return page;
    }
    let mended =
        pool.mend_at(place, pointer.offset_bytes(), length, |bytes| stored_bytes(pool.key(), pointer, bytes));
    mended.await?.map_or(page, |bytes| decode_page(pool.key(), pointer, expected, &bytes))
}

/// Base and payload of a page to be written as a DELTA: where it must be, and where that is short.
fn delta_payload(delta: &Delta) -> Option<(Pointer, Vec<u8>)> {
    let payload = overrides::encode(&delta.overrides);
    let bytes = (PAGE_HEADER_BYTES + payload.len()) as u64;
    let is_short = bytes * 100 <= delta.base.length_bytes_max() * DELTA_PERCENT_MAX;
    (is_short || delta.is_owed).then_some((delta.base, payload))
}

/// A page record, verified.
pub(crate) enum StoredPage {
    /// The page.
    Full(Vec<u8>),
    /// Where it differs from its base.
    Delta(Pointer, Vec<Override>),
}

/// Verifies a page record and decompresses it.
pub(crate) fn decode_record(
    key: &MediaKey,
    pointer: Pointer,
    expected: PageIdentity,
    bytes: &[u8],
) -> Result<StoredPage> {
    let damaged = |what: String| Error::new(ErrorKind::Damaged, format!("page record {pointer:?}: {what}"));
    let (header, payload) =
        PageHeader::open(key, pointer, bytes).map_err(|damage| damaged(damage.to_string()))?;
    let found = header.identity;
    // The tree is a hint: clones share pages.
    if (found.content, found.level, found.index) != (expected.content, expected.level, expected.index) {
        return Err(damaged(format!("is {found:?}, expected {expected:?}")));
    }
    if let Some(base) = header.base {
        let overrides = overrides::decode(payload).map_err(|damage| damaged(damage.to_string()))?;
        return Ok(StoredPage::Delta(base, overrides));
    }
    let mut page = vec![0; PAGE_BYTES];
    reduction::decompress(header.codec, payload, &mut page).map_err(|error| damaged(error.to_string()))?;
    Ok(StoredPage::Full(page))
}

/// The same for a record that must be FULL: a table's, or a base.
pub(crate) fn decode_page(
    key: &MediaKey,
    pointer: Pointer,
    expected: PageIdentity,
    bytes: &[u8],
) -> Result<Vec<u8>> {
    match decode_record(key, pointer, expected, bytes)? {
        StoredPage::Full(page) => Ok(page),
        StoredPage::Delta(base, _) => {
            let what =
                format!("page record {pointer:?} is a difference from {base:?}, expected a whole page");
            Err(Error::new(ErrorKind::Damaged, what))
        }
    }
}
