//! Whether the journal plainly ends: what lies where the next group would be is empty, agrees with its
//! parity, or is what an earlier segment left there.
//!
//! A damaged group and a place that was never written look alike to a reader of groups. A pool that is
//! whole need not tell them apart; whoever saves a damaged one must know. A group that was being written
//! when the pool stopped is told from a damaged one by what of it was never written.

use ashlar_format::chunk::ChunkHeader;
use ashlar_format::group::GroupHeader;
use ashlar_format::page::PageHeader;
use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_format::segment::Place;
use ashlar_format::superblock::JournalPosition;
use ashlar_units::{BLOCK_BYTES, BLOCK_BYTES_USIZE, SegmentId};

use crate::journal::begun;
use crate::media::Media;

/// How far to look for what an earlier segment left: twice the longest chunk, so that one starts in it.
const REMAINS_BYTES: u64 = 128 << 10;

/// What a drive stores as a whole, at least.
const SECTOR_BYTES: usize = 512;

/// Whether nothing was written at a position, nor in a segment that may have been opened for it.
pub(crate) fn is_plain(media: &Media, position: JournalPosition) -> bool {
    is_everywhere(media, position, |place, segment, offset| is_untouched(media, place, segment, offset))
}

/// Whether a group at a position was cut off when the pool stopped: of what it was to cover something was
/// never written. What is damaged was: nobody writes an address twice.
pub(crate) fn is_cut_off(media: &Media, position: JournalPosition) -> bool {
    is_everywhere(media, position, |place, segment, offset| {
        is_untouched(media, place, segment, offset) || is_torn(media, position, place, segment, offset)
    })
}

/// Whether something holds at each place where the group at a position may have been written.
fn is_everywhere(
    media: &Media,
    position: JournalPosition,
    holds: impl Fn(Place, SegmentId, u64) -> bool,
) -> bool {
    let mut at = begun(media, |birth| birth == position.sequence);
    at.push((position.segment, position.offset_bytes));
    let holds_at = |(segment, offset): (SegmentId, u64)| {
        media.segments.place_of(segment).is_none_or(|place| holds(place, segment, offset))
    };
    let mut frontier = media.storage.superblock.frontier.iter();
    at.into_iter().all(holds_at)
        && frontier.all(|listed| {
            let is_open = media.segments.place_of(listed.segment).is_some();
            is_open || is_unopened(media, listed.place)
        })
}

/// Whether a part of the group that begins here was never written: it is empty, or what another segment
/// left there.
fn is_torn(media: &Media, position: JournalPosition, place: Place, segment: SegmentId, offset: u64) -> bool {
    let read = |length: u64| media.storage.read_unproven(place, segment, offset..offset + length);
    let Ok(first) = read(BLOCK_BYTES) else { return false };
    // No group begins with a sector of zeroes.
    if is_empty(&first[..SECTOR_BYTES]) {
        return true;
    }
    // Nor is one written over: of a former segment, or of a life before this one that ended here, too.
    let is_former = |header: &GroupHeader| {
        header.offset_bytes == offset && (header.segment != segment || header.sequence < position.sequence)
    };
    if GroupHeader::peek(&first).is_ok_and(|header| is_former(&header)) {
        return true;
    }
    let is_it = |header: &GroupHeader| {
        let is_next = (header.sequence, header.previous_hash) == (position.sequence, position.previous_hash);
        is_next && (header.segment, header.offset_bytes) == (segment, offset)
    };
    let Some(header) = GroupHeader::peek(&first).ok().filter(is_it) else { return false };
    let Ok(bytes) = read(u64::from(header.group_bytes)) else { return false };
    let has_empty = bytes.chunks_exact(BLOCK_BYTES_USIZE).any(is_empty);
    has_empty || has_remains(media, segment, offset, &bytes)
}

fn is_empty(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn has_remains(media: &Media, segment: SegmentId, offset: u64, bytes: &[u8]) -> bool {
    owners(media, offset, bytes).any(|owner| owner != segment)
}

/// Whether a place of the frontier that was not opened plainly holds nothing, or a former segment.
fn is_unopened(media: &Media, place: Place) -> bool {
    media.storage.newest_header(place).is_sure
}

fn is_untouched(media: &Media, place: Place, segment: SegmentId, offset: u64) -> bool {
    let end = media.storage.segment_bytes();
    if offset >= end {
        return true;
    }
    let agrees = media.storage.agrees_at(place, segment, offset);
    if agrees == Some(true) {
        return true;
    }
    let range = offset..end.min(offset + REMAINS_BYTES);
    let read = media.storage.read_unproven(place, segment, range);
    let Ok(bytes) = read else { return false };
    let first = &bytes[..BLOCK_BYTES_USIZE.min(bytes.len())];
    // Of a former segment a drive that was away meanwhile may lack its part: where parity does not agree
    // nothing but what is left of that segment tells.
    agrees.is_none() && is_empty(first) || are_remains(media, segment, offset, &bytes)
}

/// Whether intact chunks or page records of other segments are among these bytes, and none of this one.
fn are_remains(media: &Media, segment: SegmentId, offset: u64, bytes: &[u8]) -> bool {
    let mut owners = owners(media, offset, bytes).peekable();
    owners.peek().is_some() && owners.all(|owner| owner != segment)
}

/// The segments that intact chunks and page records among these bytes say that they are of.
fn owners(media: &Media, offset: u64, bytes: &[u8]) -> impl Iterator<Item = SegmentId> {
    assert!(offset.is_multiple_of(BLOCK_BYTES), "group offset {offset}");
    let key = media.storage.key();
    (0..bytes.len()).step_by(PLACE_UNIT_BYTES as usize).filter_map(|at| {
        let chunk = ChunkHeader::open_any(key, &bytes[at..]).map(|(header, _)| header.segment);
        chunk.or_else(|_| PageHeader::open_any(key, &bytes[at..]).map(|(header, _)| header.segment)).ok()
    })
}
