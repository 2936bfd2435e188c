//! Weighing: how much of a piece of a segment speaks for it. By this the pool judges which of the drives
//! that disagree is right.

use std::collections::BTreeSet;
use std::rc::Rc;

use ashlar_format::MediaKey;
use ashlar_format::group::GroupHeader;
use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_format::segment::{SEGMENT_HEADER_BYTES, SegmentEntry, SegmentHeader, SegmentKind};
use ashlar_pool::Weight;
use ashlar_runtime::LocalFuture;
use ashlar_units::{BLOCK_BYTES, SegmentId};

use crate::engine::Inner;
use crate::listing::{Damaged, Listed, Listing};
use crate::mover::record_at;

impl Inner {
    /// As [`ashlar_pool::Weigh`].
    pub(crate) fn weigh(
        self: &Rc<Self>,
        segment: SegmentId,
        offset: u64,
        piece: Vec<u8>,
    ) -> LocalFuture<'static, Weight> {
        let inner = self.clone();
        Box::pin(async move { inner.weight_of(segment, offset, &piece).await })
    }

    /// Chunks and page records that are listed there, headers of journal groups and segments. What is not
    /// listed may be what hosts wrote. Only behind the end of a listing, where something is damaged beyond
    /// what parity restores or nothing was ever written, whatever looks like a record counts.
    async fn weight_of(&self, segment: SegmentId, offset: u64, piece: &[u8]) -> Weight {
        // Freed meanwhile: nothing in it matters.
        let Some(entry) = self.pool.with_table(|table| table.find(segment).copied()) else {
            return Weight::default();
        };
        let end = offset + piece.len() as u64;
        // Whoever judges has the turn to write here: what is damaged is looked through.
        let listing = self.listing(&entry, end, Damaged::LeftAlone).await;
        let listing = listing.unwrap_or_else(|_| Listing::unknown(segment));
        let mut weight = Weight::default();
        for listed in listing.between(offset, end) {
            let Some(record) = listed.open(self.pool.key(), &piece[(listed.offset - offset) as usize..])
            else {
                continue;
            };
            let is_home = self.is_home(listed, &entry).await;
            count(&mut weight, &entry, record.bytes.len(), is_home);
        }
        for at in (0..piece.len()).step_by(BLOCK_BYTES as usize) {
            let here = offset + at as u64;
            if !listing.covers(here) {
                let length = header_bytes_at(self.pool.key(), &entry, here, &piece[at..]);
                count(&mut weight, &entry, length, true);
            }
        }
        let unlisted = listing.end().max(offset);
        if unlisted < end {
            let piece = &piece[(unlisted - offset) as usize..];
            self.weigh_unlisted(&entry, unlisted, piece, &mut weight).await;
        }
        if listing.end() > 0 {
            self.listings.keep(listing);
        }
        weight
    }

    /// Each record counts once: a column computed wrongly may be the copy of another.
    async fn weigh_unlisted(&self, entry: &SegmentEntry, offset: u64, piece: &[u8], weight: &mut Weight) {
        let mut known = BTreeSet::new();
        let mut at = 0;
        while at < piece.len() {
            let found = record_at(self.pool.key(), &piece[at..]);
            let found = found.filter(|found| known.insert((found.segment, found.offset_bytes)));
            let length = found.as_ref().map_or(1, |record| record.bytes.len());
            if let Some(record) = found {
                let listed = Listed {
                    offset: offset + at as u64,
                    length_max: length as u64,
                    born_in: record.segment,
                    born_units: record.old_units(),
                };
                let is_home = self.is_home(&listed, entry).await;
                count(weight, entry, length, is_home);
            }
            at += length.next_multiple_of(PLACE_UNIT_BYTES as usize);
        }
    }

    /// Whether pointers to a record lead here.
    async fn is_home(&self, listed: &Listed, entry: &SegmentEntry) -> bool {
        if entry.kind != SegmentKind::Moved {
            let born_at = u64::from(listed.born_units) * PLACE_UNIT_BYTES;
            return (listed.born_in, born_at) == (entry.segment, listed.offset);
        }
        self.is_moved_to(listed, entry.segment).await.unwrap_or(false)
    }
}

/// What moves is intact before the relocation table knows of it.
fn count(weight: &mut Weight, entry: &SegmentEntry, length: usize, is_home: bool) {
    let counts = is_home || entry.kind == SegmentKind::Moved;
    weight.intact_bytes += if counts { length as u64 } else { 0 };
    weight.home_bytes += if is_home { length as u64 } else { 0 };
}

/// Bytes of the header of a group or of the segment that is at this offset.
fn header_bytes_at(key: &MediaKey, entry: &SegmentEntry, offset: u64, bytes: &[u8]) -> usize {
    if offset == 0 {
        let is_it = SegmentHeader::decode(key, bytes).is_ok_and(|header| header.segment == entry.segment);
        return if is_it { SEGMENT_HEADER_BYTES as usize } else { 0 };
    }
    if entry.kind != SegmentKind::Journal || !offset.is_multiple_of(BLOCK_BYTES) {
        return 0;
    }
    GroupHeader::open(key, bytes).map_or(0, |(header, ..)| {
        let is_home = header.segment == entry.segment && header.offset_bytes == offset;
        if is_home { header.header_bytes as usize } else { 0 }
    })
}
