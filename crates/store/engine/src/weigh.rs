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
use crate::mover::{FoundRecord, record_at};

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

    /// Chunks, page records, headers of journal groups and segments. Each counts once: a column computed
    /// wrongly may be the copy of another.
    async fn weight_of(&self, segment: SegmentId, offset: u64, piece: &[u8]) -> Weight {
        // Freed meanwhile: nothing in it matters.
        let Some(entry) = self.pool.with_table(|table| table.find(segment).copied()) else {
            return Weight::default();
        };
        let mut known = BTreeSet::new();
        let mut weight = Weight::default();
        let mut at = 0;
        while at < piece.len() {
            let here = offset + at as u64;
            let (length, is_home) = match record_at(self.pool.key(), &piece[at..]) {
                Some(record) if known.insert((record.segment, record.offset_bytes)) => {
                    let is_home = self.is_home(&record, &entry, here).await;
                    // What moves is intact before the relocation table knows of it.
                    let counts = is_home || entry.kind == SegmentKind::Moved;
                    (if counts { record.bytes.len() } else { 0 }, is_home)
                }
                Some(_) => (0, false),
                None => (header_bytes_at(self.pool.key(), &entry, here, &piece[at..]), true),
            };
            weight.intact_bytes += length as u64;
            weight.home_bytes += if is_home { length as u64 } else { 0 };
            at += length.max(1).next_multiple_of(PLACE_UNIT_BYTES as usize);
        }
        weight
    }

    /// Whether pointers to a record lead here.
    async fn is_home(&self, record: &FoundRecord<'_>, entry: &SegmentEntry, here: u64) -> bool {
        if entry.kind != SegmentKind::Moved {
            return record.segment == entry.segment && record.offset_bytes == here;
        }
        let slot = self.media.relocations.borrow().slot_of(record.segment, record.old_units());
        let Some(slot) = slot else { return false };
        let moved = self.media.relocated_from(slot).await;
        moved.is_ok_and(|moved| record.is_moved_to(&moved, entry.segment, here))
    }
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
