//! What a segment holds, and where each record in it begins: told by what the pool wrote where no host can.
//!
//! ```text
//! footer      of a segment that the table says has one: all of it
//! else, from the segment's start:
//! journal     group after group, by place, length and hash chain; chunks by the groups' records
//! metadata    record after record, by place and length; every stripe may begin anew
//! container   record after record, by length; each is here by the relocation table, or borne out by parity
//! ```
//!
//! Payloads are never searched: hosts choose them, and what looks like a record in one need not be one, even
//! if its checksum is right. The cleaner moves what is listed, the judge of parity counts it, accounts
//! measure it. A walk ends at the first place that does not prove itself; what lies behind is not listed, so
//! it is neither moved nor freed.

use std::cell::RefCell;
use std::collections::VecDeque;

use ashlar_format::MediaKey;
use ashlar_format::group::{GROUP_BYTES_MAX, GroupHeader, Record};
use ashlar_format::page::PageHeader;
use ashlar_format::pointer::{PLACE_UNIT_BYTES, POINTED_BYTES_MAX};
use ashlar_format::relocation::Relocation;
use ashlar_format::segment::{
    FooterEntry, SEGMENT_HEADER_BYTES, SegmentEntry, SegmentKind, SegmentState, decode_footer, footer_length,
};
use ashlar_pool::Pool;
use ashlar_units::{BLOCK_BYTES, SegmentId};

use crate::Result;
use crate::engine::Inner;
use crate::metadata::RECORD_BYTES_MAX;
use crate::mover::{FoundRecord, record_at};

/// Bytes read at once while walking: whatever begins at the front is there as a whole.
const READ_BYTES: u64 = GROUP_BYTES_MAX;

/// Headers of groups are mended in pieces of this size first: few are longer.
const HEADER_BYTES: u64 = 64 << 10;

/// Records that may come out at one place of a container, one for each guess at what is wrong.
const GUESSES_MAX: usize = 64;

/// Listings kept: judging asks for one again with every guess, and goes through segments one by one.
const KEPT_MAX: usize = 4;

/// A chunk or page record that was written to a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Listed {
    pub(crate) offset: u64,
    /// Its bytes, or a bound of them that reaches into no other.
    pub(crate) length_max: u64,
    /// The address that its header names.
    pub(crate) born_in: SegmentId,
    pub(crate) born_units: u32,
}

impl Listed {
    /// Whether this is the record.
    pub(crate) fn is(&self, record: &FoundRecord<'_>) -> bool {
        (record.segment, record.old_units()) == (self.born_in, self.born_units)
            && record.bytes.len() as u64 <= self.length_max
    }

    /// Whether entries of the relocation table lead to it, in this container.
    pub(crate) fn is_told_by(&self, entries: &[Relocation], container: SegmentId) -> bool {
        let found = entries.binary_search_by_key(&self.born_units, |entry| entry.old_units);
        let is_it = |entry: &Relocation| entry.container == container && entry.offset_bytes == self.offset;
        found.is_ok_and(|index| is_it(&entries[index]))
    }

    /// The record at the front of `bytes`, if it is this one.
    pub(crate) fn open<'a>(&self, key: &MediaKey, bytes: &'a [u8]) -> Option<FoundRecord<'a>> {
        record_at(key, bytes).filter(|record| self.is(record))
    }
}

/// Who may write while a segment is walked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Damaged {
    /// What is wrong is mended.
    Mended,
    /// Somebody else has the turn to mend: what is wrong is looked through.
    LeftAlone,
}

/// The records of a segment, by offset.
pub(crate) struct Listing {
    segment: SegmentId,
    records: Vec<Listed>,
    /// All below this is listed.
    end: u64,
    /// How far the segment was written when the walk did not go on: before more is, it does not.
    stuck_at: Option<u64>,
    /// The last group's number and hash.
    last_group: Option<(u64, u64)>,
}

impl Listing {
    fn new(segment: SegmentId) -> Listing {
        let (records, end) = (Vec::new(), SEGMENT_HEADER_BYTES);
        Listing { segment, records, end, stuck_at: None, last_group: None }
    }

    /// Of a segment of which nothing can be told.
    pub(crate) fn unknown(segment: SegmentId) -> Listing {
        Listing { end: 0, ..Listing::new(segment) }
    }

    /// All below this offset is listed.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The records that begin in a range.
    pub(crate) fn between(&self, from: u64, to: u64) -> &[Listed] {
        let first = self.records.partition_point(|record| record.offset < from);
        let end = self.records.partition_point(|record| record.offset < to);
        &self.records[first..end.max(first)]
    }

    /// Whether a record covers this offset.
    pub(crate) fn covers(&self, offset: u64) -> bool {
        let behind = self.records.partition_point(|record| record.offset <= offset);
        let before = behind.checked_sub(1).map(|index| &self.records[index]);
        before.is_some_and(|record| offset < record.offset + record.length_max)
    }

    fn push(&mut self, record: Listed) {
        let end = self.records.last().map_or(SEGMENT_HEADER_BYTES, |last| last.offset + last.length_max);
        assert!(record.offset >= end, "{record:?} of segment {} begins below {end}", self.segment);
        self.records.push(record);
    }
}

/// Listings made lately.
#[derive(Default)]
pub(crate) struct Listings(RefCell<VecDeque<Listing>>);

impl Listings {
    /// Addresses are written once, so what was listed stays right while the segment grows.
    fn take(&self, segment: SegmentId) -> Option<Listing> {
        let mut kept = self.0.borrow_mut();
        let at = kept.iter().position(|listing| listing.segment == segment)?;
        kept.remove(at)
    }

    pub(crate) fn keep(&self, listing: Listing) {
        let mut kept = self.0.borrow_mut();
        kept.retain(|other| other.segment != listing.segment);
        kept.push_front(listing);
        kept.truncate(KEPT_MAX);
    }
}

/// The footer of a sealed segment, sorted by offset; `None` where there is none, or what it says cannot be.
pub(crate) async fn read_footer(pool: &Pool, entry: &SegmentEntry) -> Option<Vec<FooterEntry>> {
    if entry.state != SegmentState::Sealed || !entry.has_footer {
        return None;
    }
    let (segment, size) = (entry.segment, pool.segment_bytes());
    let length_at = |bytes: &[u8]| footer_length(segment, bytes).ok().filter(|length| *length <= size);
    let (tail, skip) = pool.read(segment, size - BLOCK_BYTES, BLOCK_BYTES).await.ok()?;
    let length = match length_at(&tail[skip..]) {
        Some(length) => length,
        None => {
            let accept = |bytes: &[u8]| length_at(bytes).map(|_| BLOCK_BYTES);
            length_at(&pool.find(segment, size - BLOCK_BYTES, BLOCK_BYTES, accept).await?)?
        }
    };
    let open = |bytes: &[u8]| {
        let footer = decode_footer(pool.key(), segment, bytes).ok()?;
        plausible(entry, footer)
    };
    let (bytes, skip) = pool.read(segment, size - length, length).await.ok()?;
    if let Some(footer) = open(&bytes[skip..]) {
        return Some(footer);
    }
    open(&pool.find(segment, size - length, length, |bytes| open(bytes).map(|_| length)).await?)
}

/// The entries of a footer, if they follow each other between the segment's header and the end of what counts
/// in it. What lies behind that was written by a life that crashed, and never acknowledged.
fn plausible(entry: &SegmentEntry, mut footer: Vec<FooterEntry>) -> Option<Vec<FooterEntry>> {
    let used = u64::from(entry.used_units) * PLACE_UNIT_BYTES;
    let offset = |entry: &FooterEntry| u64::from(entry.offset_units) * PLACE_UNIT_BYTES;
    footer.truncate(footer.partition_point(|entry| offset(entry) < used));
    let mut end = SEGMENT_HEADER_BYTES;
    for listed in &footer {
        let is_moved = listed.birth.is_some();
        if offset(listed) < end || is_moved != (entry.kind == SegmentKind::Moved) {
            return None;
        }
        end = offset(listed) + u64::from(listed.length_bytes);
    }
    (end <= used.max(SEGMENT_HEADER_BYTES)).then_some(footer)
}

/// What a place on a walk proves to be.
enum Step {
    /// Records, and where the next ones begin.
    Records(Vec<Listed>, u64),
    /// A journal group: the same, and its number and hash.
    Group(Vec<Listed>, u64, (u64, u64)),
}

/// Reads a segment from front to back.
struct Walker<'a> {
    inner: &'a Inner,
    entry: &'a SegmentEntry,
    damaged: Damaged,
    used: u64,
    /// Bytes read ahead, from this offset on, and whether parity bears them out.
    window: Vec<u8>,
    window_at: u64,
    is_borne_out: bool,
}

impl Inner {
    /// What is listed of a segment below an offset, at least.
    pub(crate) async fn listing(
        &self,
        entry: &SegmentEntry,
        until: u64,
        damaged: Damaged,
    ) -> Result<Listing> {
        let mut listing = match self.listings.take(entry.segment) {
            Some(listing) => listing,
            None => self.listing_from_footer(entry).await,
        };
        let used = u64::from(entry.used_units) * PLACE_UNIT_BYTES;
        let is_stuck = damaged == Damaged::LeftAlone && listing.stuck_at == Some(used);
        if listing.end < until.min(used) && !is_stuck {
            let (window, window_at, is_borne_out) = (Vec::new(), 0, false);
            let walker = Walker { inner: self, entry, damaged, used, window, window_at, is_borne_out };
            walker.walk(&mut listing, until).await?;
        }
        Ok(listing)
    }

    async fn listing_from_footer(&self, entry: &SegmentEntry) -> Listing {
        let mut listing = Listing::new(entry.segment);
        let Some(footer) = read_footer(&self.pool, entry).await else { return listing };
        for found in footer {
            let (born_in, born_units) = found.birth.unwrap_or((entry.segment, found.offset_units));
            listing.push(Listed {
                offset: u64::from(found.offset_units) * PLACE_UNIT_BYTES,
                length_max: u64::from(found.length_bytes),
                born_in,
                born_units,
            });
        }
        listing.end = self.pool.segment_bytes();
        listing
    }

    /// Whether the relocation table leads from an address to this place of a container.
    pub(crate) async fn is_moved_to(&self, record: &Listed, container: SegmentId) -> Result<bool> {
        let slot = self.media.relocations.borrow().slot_of(record.born_in, record.born_units);
        let Some(slot) = slot else { return Ok(false) };
        let entries = self.media.relocated_from(slot).await?;
        Ok(record.is_told_by(&entries, container))
    }
}

impl Walker<'_> {
    /// Goes on until all below an offset is listed, or something does not prove itself.
    async fn walk(mut self, listing: &mut Listing, until: u64) -> Result<()> {
        let stripe_bytes = self.inner.pool.stripe_bytes();
        listing.stuck_at = None;
        while listing.end < until.min(self.used) {
            let at = listing.end;
            match self.next(listing).await? {
                Some(Step::Records(records, next)) => {
                    records.into_iter().for_each(|record| listing.push(record));
                    listing.end = next;
                }
                Some(Step::Group(records, next, last)) => {
                    records.into_iter().for_each(|record| listing.push(record));
                    (listing.end, listing.last_group) = (next, Some(last));
                }
                // The stream of page records was flushed, or left behind what its table could not foresee.
                // Nothing that a host wrote is in its segments.
                None if self.entry.kind == SegmentKind::Metadata => {
                    listing.end = (at + 1).next_multiple_of(stripe_bytes);
                }
                None if !at.is_multiple_of(stripe_bytes) && self.is_padding(at).await => {
                    listing.end = at.next_multiple_of(stripe_bytes);
                }
                None => {
                    listing.stuck_at = Some(self.used);
                    return Ok(());
                }
            }
            assert!(listing.end > at, "a walk through segment {} stands at {at}", listing.segment);
        }
        Ok(())
    }

    /// What begins where the listing ends.
    async fn next(&mut self, listing: &Listing) -> Result<Option<Step>> {
        let at = listing.end;
        // What begins near the end of what was read ahead may be cut off by it.
        for is_again in [false, true] {
            let is_ahead = (self.window_at..self.window_at + self.window.len() as u64).contains(&at);
            if is_again && self.window_at == at {
                break;
            }
            if is_again || !is_ahead {
                self.read(at).await;
            }
            let bytes = &self.window[(at - self.window_at) as usize..];
            if let Some(step) = self.step(listing, bytes)
                && self.is_here(&step).await?
            {
                return Ok(Some(step));
            }
        }
        // Padding is no damage.
        let is_empty = self.window[(at - self.window_at) as usize..].iter().take(64).all(|byte| *byte == 0);
        if is_empty && self.is_borne_out {
            return Ok(None);
        }
        self.next_mended(listing).await
    }

    /// The same with damage mended, or looked through.
    async fn next_mended(&mut self, listing: &Listing) -> Result<Option<Step>> {
        let (at, pool) = (listing.end, &self.inner.pool);
        let lengths: &[u64] = match self.entry.kind {
            SegmentKind::Journal => &[HEADER_BYTES, GROUP_BYTES_MAX],
            SegmentKind::Metadata => &[RECORD_BYTES_MAX],
            SegmentKind::Moved => &[POINTED_BYTES_MAX],
        };
        for length in lengths {
            let mut unknown: Vec<Listed> = Vec::new();
            // Asking the relocation table takes reading: each record that comes out is asked for once.
            for _ in 0..GUESSES_MAX {
                let known = std::mem::take(&mut unknown);
                let mut asked = Vec::new();
                for record in &known {
                    asked.push((*record, self.inner.is_moved_to(record, listing.segment).await?));
                }
                let accept = |bytes: &[u8]| {
                    let (step, length) = self.measured_step(listing, bytes)?;
                    let Step::Records(records, _) = &step else { return Some(length) };
                    if self.entry.kind != SegmentKind::Moved {
                        return Some(length);
                    }
                    let answer = asked.iter().find(|(record, _)| *record == records[0]);
                    match answer {
                        Some((_, is_here)) => is_here.then_some(length),
                        None => {
                            unknown.push(records[0]);
                            None
                        }
                    }
                };
                let found = match self.damaged {
                    Damaged::Mended => pool.mend(listing.segment, at, *length, accept).await?,
                    Damaged::LeftAlone => pool.find(listing.segment, at, *length, accept).await,
                };
                if let Some(bytes) = found {
                    return Ok(self.step(listing, &bytes));
                }
                unknown.extend(known);
                if unknown.len() == asked.len() {
                    break;
                }
            }
        }
        Ok(None)
    }

    /// Reads ahead. What cannot be read is not known: nothing in it proves itself.
    async fn read(&mut self, at: u64) {
        let length = READ_BYTES.min(self.inner.pool.segment_bytes() - at);
        self.window_at = at;
        match self.inner.pool.read_compared(self.entry.segment, at, length).await {
            Ok((bytes, skip, is_borne_out)) => {
                self.window.clear();
                self.window.extend_from_slice(&bytes[skip..]);
                self.is_borne_out = is_borne_out;
            }
            Err(_) => {
                self.window = vec![0; length as usize];
                self.is_borne_out = false;
            }
        }
    }

    /// What proves itself at the front of `bytes`, which are where the listing ends.
    fn step(&self, listing: &Listing, bytes: &[u8]) -> Option<Step> {
        self.measured_step(listing, bytes).map(|(step, _)| step)
    }

    /// The same, and how many of these bytes prove it.
    fn measured_step(&self, listing: &Listing, bytes: &[u8]) -> Option<(Step, u64)> {
        let (key, at) = (self.inner.pool.key(), listing.end);
        let segment = self.entry.segment;
        if self.entry.kind == SegmentKind::Journal {
            return self.group(listing, bytes);
        }
        let record = record_at(key, bytes)?;
        let length = record.bytes.len() as u64;
        let is_possible = match self.entry.kind {
            SegmentKind::Metadata => {
                PageHeader::open_any(key, bytes).is_ok()
                    && (record.segment, record.offset_bytes) == (segment, at)
                    && length <= RECORD_BYTES_MAX
            }
            SegmentKind::Journal | SegmentKind::Moved => length <= POINTED_BYTES_MAX,
        };
        let next = (at + length).next_multiple_of(PLACE_UNIT_BYTES);
        let (born_in, born_units) = (record.segment, record.old_units());
        let listed = Listed { offset: at, length_max: length, born_in, born_units };
        (is_possible && next <= self.used).then(|| (Step::Records(vec![listed], next), length))
    }

    /// The group that follows.
    fn group(&self, listing: &Listing, bytes: &[u8]) -> Option<(Step, u64)> {
        let (at, segment) = (listing.end, self.entry.segment);
        let (header, records, hash) = GroupHeader::open(self.inner.pool.key(), bytes).ok()?;
        let is_next = match listing.last_group {
            // A clean close makes numbers jump.
            Some((sequence, hash)) => header.sequence > sequence && header.previous_hash == hash,
            None => header.sequence == self.entry.birth,
        };
        let end = at + u64::from(header.group_bytes);
        if !is_next || (header.segment, header.offset_bytes) != (segment, at) || end > self.used {
            return None;
        }
        let mut chunks: Vec<Listed> = Vec::new();
        let mut from = at + u64::from(header.header_bytes);
        for record in &records {
            let Record::Write { pointer, .. } = record else { continue };
            let offset = pointer.offset_bytes();
            if pointer.segment() != segment || offset < from || offset >= end {
                return None;
            }
            if let Some(before) = chunks.last_mut() {
                before.length_max = before.length_max.min(offset - before.offset);
            }
            let length_max = pointer.length_bytes_max().min(end - offset);
            let born_units = (offset / PLACE_UNIT_BYTES) as u32;
            chunks.push(Listed { offset, length_max, born_in: segment, born_units });
            from = offset + PLACE_UNIT_BYTES;
        }
        Some((Step::Group(chunks, end, (header.sequence, hash)), u64::from(header.header_bytes)))
    }

    /// Whether what proves itself belongs here. Journal groups and page records name their place. A record in
    /// a container names another: a drive that lost a write may still have what an earlier container held.
    async fn is_here(&self, step: &Step) -> Result<bool> {
        let Step::Records(records, next) = step else { return Ok(true) };
        if self.entry.kind != SegmentKind::Moved || self.is_borne_out {
            return Ok(true);
        }
        let record = &records[0];
        if self.inner.is_moved_to(record, self.entry.segment).await? {
            return Ok(true);
        }
        let length = next - record.offset;
        let compared = self.inner.pool.read_compared(self.entry.segment, record.offset, length).await;
        Ok(compared.is_ok_and(|(_, _, is_borne_out)| is_borne_out))
    }

    /// Whether nothing follows up to the end of the stripe.
    async fn is_padding(&self, at: u64) -> bool {
        let (pool, segment) = (&self.inner.pool, self.entry.segment);
        let length = at.next_multiple_of(pool.stripe_bytes()) - at;
        let is_empty = |bytes: &[u8]| bytes.iter().take(length as usize).all(|byte| *byte == 0);
        let read = pool.read(segment, at, length).await;
        read.is_ok_and(|(bytes, skip)| is_empty(&bytes[skip..]))
            || pool.find(segment, at, length, |bytes| is_empty(bytes).then_some(length)).await.is_some()
    }
}
