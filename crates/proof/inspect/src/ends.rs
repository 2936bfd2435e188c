//! Whether the journal plainly ends: what lies where the next group would be is empty, agrees with its
//! parity, or is what an earlier segment left there.
//!
//! A damaged group and a place that was never written look alike to a reader of groups. A pool that is
//! whole need not tell them apart; whoever saves a damaged one must know.

use ashlar_format::chunk::ChunkHeader;
use ashlar_format::page::PageHeader;
use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_format::segment::{Place, SEGMENT_HEADER_BYTES, SegmentHeader};
use ashlar_format::superblock::JournalPosition;
use ashlar_units::{BLOCK_BYTES, BLOCK_BYTES_USIZE, SegmentId};

use crate::journal::begun;
use crate::media::Media;

/// How far to look for what an earlier segment left: twice the longest chunk, so that one starts in it.
const REMAINS_BYTES: u64 = 128 << 10;

/// Whether nothing was written at a position, nor in a segment that may have been opened for it.
pub(crate) fn is_plain(media: &Media, position: JournalPosition) -> bool {
    let mut at = begun(media, |birth| birth == position.sequence);
    at.push((position.segment, position.offset_bytes));
    let is_plain_at = |(segment, offset): (SegmentId, u64)| {
        let place = media.segments.place_of(segment);
        place.is_none_or(|place| is_untouched(media, place, segment, offset))
    };
    let mut frontier = media.storage.superblock.frontier.iter();
    at.into_iter().all(is_plain_at)
        && frontier.all(|listed| {
            let is_open = media.segments.place_of(listed.segment).is_some();
            is_open || is_unopened(media, listed.place, listed.segment)
        })
}

/// Whether a place that a segment may be opened at holds nothing, or another segment.
fn is_unopened(media: &Media, place: Place, segment: SegmentId) -> bool {
    let first = media.storage.read_proven(place, segment, 0..SEGMENT_HEADER_BYTES, |bytes| {
        let is_empty = bytes.iter().all(|byte| *byte == 0);
        (is_empty || SegmentHeader::decode(bytes).is_ok()).then_some(())
    });
    first.is_ok()
}

fn is_untouched(media: &Media, place: Place, segment: SegmentId, offset: u64) -> bool {
    let end = media.storage.segment_bytes();
    if offset >= end {
        return true;
    }
    if let Some(agrees) = media.storage.agrees_at(place, segment, offset) {
        return agrees;
    }
    let range = offset..end.min(offset + REMAINS_BYTES);
    let read = media.storage.read_unproven(place, segment, range);
    let Ok(bytes) = read else { return false };
    let first = &bytes[..BLOCK_BYTES_USIZE.min(bytes.len())];
    first.iter().all(|byte| *byte == 0) || are_remains(segment, offset, &bytes)
}

/// Whether intact chunks or page records of other segments are among these bytes, and none of this one.
fn are_remains(segment: SegmentId, offset: u64, bytes: &[u8]) -> bool {
    assert!(offset.is_multiple_of(BLOCK_BYTES), "group offset {offset}");
    let mut is_other_there = false;
    for at in (0..bytes.len()).step_by(PLACE_UNIT_BYTES as usize) {
        let found = match ChunkHeader::open_any(&bytes[at..]) {
            Ok((header, _)) => header.segment,
            Err(_) => match PageHeader::open_any(&bytes[at..]) {
                Ok((header, _)) => header.segment,
                Err(_) => continue,
            },
        };
        if found == segment {
            return false;
        }
        is_other_there = true;
    }
    is_other_there
}
