//! The journal behind a checkpoint: its groups along the hash chain, where it ends, and why there.
//!
//! An opening pool takes the end of what is whole for the end of what was acknowledged, because all its
//! drives answer. Here they may not, so every end says how sure it is.

use std::collections::BTreeMap;

use ashlar_format::group::{GROUP_ALIGN_BYTES, GROUP_BYTES_MAX, GroupHeader, Record};
use ashlar_format::segment::{SEGMENT_HEADER_BYTES, SegmentKind};
use ashlar_format::superblock::JournalPosition;
use ashlar_units::{BLOCK_BYTES, Lsn, SegmentId, VolumeId};
use serde::Serialize;

use crate::ends;
use crate::media::Media;
use crate::why::Why;

/// Groups in flight at most: one that far behind another was written after that one was durable. Part of
/// the contract between what writes the journal and what reads it (`journal/src/lib.rs`).
const WINDOW: u64 = 8;

/// Bytes of a group's header to try, the shortest first: what need not be read cannot be missing.
const HEADER_BYTES_TRIED: [u64; 4] = [GROUP_ALIGN_BYTES, 16 << 10, 64 << 10, GROUP_BYTES_MAX];

/// Why the journal ends where it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JournalEnd {
    /// The pool was closed: everything is in the checkpoint.
    Closed,
    /// Nothing follows: all that was acknowledged is there.
    Plain,
    /// What follows was on its way to the drives when the pool stopped, or is now: nobody was told that it
    /// was done, and all that was acknowledged is there.
    CutOff,
    /// What lies behind it is neither empty nor remains of an earlier use: a group that was cut off when
    /// the pool stopped, which nobody was told of, or one that is damaged.
    Unsure,
    /// The next group may lie on drives that are missing: acknowledged writes may be lost.
    Unreadable,
    /// A group is gone although later ones are whole: acknowledged writes are lost.
    Damaged,
}

/// One group.
pub(crate) struct Group {
    pub(crate) first_lsn: Lsn,
    pub(crate) records: Vec<Record>,
    end: JournalPosition,
}

/// A range that a group spoke of which does not count.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Unproven {
    pub(crate) volume: VolumeId,
    pub(crate) first_block: u64,
    pub(crate) blocks: u64,
}

/// The journal behind a checkpoint.
pub(crate) struct Journal {
    pub(crate) groups: Vec<Group>,
    pub(crate) position: JournalPosition,
    pub(crate) end: JournalEnd,
    /// Whole groups behind the end.
    pub(crate) behind: u64,
    /// Ranges of groups that were in flight, or not acknowledged, when the pool stopped.
    pub(crate) unproven: Vec<Unproven>,
}

/// Walks the journal from a checkpoint: the superblock's, or one before it.
pub(crate) fn read(media: &Media, first: JournalPosition) -> Journal {
    let checkpoint = media.storage.superblock.journal;
    let mut position = first;
    let mut groups = Vec::new();
    let mut is_past_checkpoint = first == checkpoint;
    let why = loop {
        // At an opening sequence numbers jump, the chain does not.
        if !is_past_checkpoint && position.previous_hash == checkpoint.previous_hash {
            position = checkpoint;
            is_past_checkpoint = true;
        }
        match next(media, position) {
            Ok(group) => {
                position = group.end;
                groups.push(group);
            }
            Err(why) => break why,
        }
    };
    let unproven = cut_unproven(media, &mut groups);
    // What was cut off is behind the checkpoint, or the checkpoint is not reached.
    let cut_at = groups.last().map_or(first, |group| group.end);
    let position = if cut_at.previous_hash == checkpoint.previous_hash { checkpoint } else { cut_at };
    let is_past_checkpoint = is_past_checkpoint && position.sequence >= checkpoint.sequence;
    let behind = whole_behind(media, position);
    let is_cut = is_damaged(media, position, &behind);
    let is_unreadable = why == Why::Unreadable || !media.segments.frontier_unreadable.is_empty();
    let is_all_told = unproven.is_empty() && behind.is_empty();
    let end = if !is_past_checkpoint {
        JournalEnd::Damaged
    } else if media.storage.is_served && !is_unreadable {
        // It goes on while it is read.
        JournalEnd::CutOff
    } else if is_cut {
        JournalEnd::Damaged
    } else if media.storage.superblock.is_clean {
        JournalEnd::Closed
    } else if is_unreadable {
        JournalEnd::Unreadable
    } else if is_all_told && ends::is_plain(media, position) {
        JournalEnd::Plain
    } else if ends::is_cut_off(media, position) {
        JournalEnd::CutOff
    } else {
        JournalEnd::Unsure
    };
    Journal { groups, position, end, behind: behind.len() as u64, unproven }
}

/// The next group of the chain: behind the last one, or at the start of a segment that begins with it.
fn next(media: &Media, position: JournalPosition) -> Result<Group, Why> {
    let mut candidates = vec![(position.segment, position.offset_bytes)];
    candidates.extend(begun(media, |birth| birth == position.sequence));
    let mut why = Why::Damaged;
    for (segment, offset) in candidates {
        match read_group(media, position, segment, offset) {
            Ok(group) => return Ok(group),
            Err(Why::Unreadable) => why = Why::Unreadable,
            Err(_) => {}
        }
    }
    Err(why)
}

/// Journal segments whose first group number `wanted` accepts, and where that group is.
pub(crate) fn begun(media: &Media, wanted: impl Fn(u64) -> bool) -> Vec<(SegmentId, u64)> {
    let entries = media.segments.by_number.values();
    let wanted = entries.filter(|entry| entry.kind == SegmentKind::Journal && wanted(entry.birth));
    wanted.map(|entry| (entry.segment, SEGMENT_HEADER_BYTES)).collect()
}

fn read_group(
    media: &Media,
    position: JournalPosition,
    segment: SegmentId,
    offset: u64,
) -> Result<Group, Why> {
    let place = media.segments.place_of(segment).ok_or(Why::Nowhere)?;
    if offset + GROUP_ALIGN_BYTES > media.storage.segment_bytes() {
        return Err(Why::Damaged);
    }
    let mut why = Why::Damaged;
    for length in HEADER_BYTES_TRIED {
        let read = media.storage.read_proven(place, segment, offset..offset + length, |bytes| {
            let (header, records, hash) = GroupHeader::open(media.storage.key(), bytes).ok()?;
            let is_next = header.sequence == position.sequence
                && header.previous_hash == position.previous_hash
                && (header.segment, header.offset_bytes) == (segment, offset);
            is_next.then_some((header, records, hash))
        });
        match read {
            Ok((header, records, hash)) => {
                let length = length.min(u64::from(header.group_bytes));
                media.storage.note_use(place, offset..offset + length);
                let end = JournalPosition {
                    segment,
                    offset_bytes: offset + u64::from(header.group_bytes),
                    sequence: header.sequence + 1,
                    previous_hash: hash,
                };
                return Ok(Group { first_lsn: header.first_lsn, records, end });
            }
            Err(error) if length == GROUP_ALIGN_BYTES => why = error,
            Err(_) => {}
        }
    }
    Err(why)
}

/// The last groups may have been in flight: they count as far as their chunks are there. A chunk on a
/// drive that is missing proves nothing: its group is kept, and the blocks it wrote are gone.
fn cut_unproven(media: &Media, groups: &mut Vec<Group>) -> Vec<Unproven> {
    let is_torn = |group: &Group| {
        group.records.iter().any(|record| match record {
            Record::Write { pointer, .. } => media.read_chunk(*pointer).err() == Some(Why::Damaged),
            _ => false,
        })
    };
    let in_flight = groups.len().saturating_sub(WINDOW as usize);
    let Some(torn) = groups[in_flight..].iter().position(is_torn) else { return Vec::new() };
    let cut = groups.split_off(in_flight + torn);
    let mut unproven: Vec<Unproven> =
        cut.iter().flat_map(|group| &group.records).filter_map(range_of).collect();
    unproven.sort();
    unproven.dedup();
    unproven
}

fn range_of(record: &Record) -> Option<Unproven> {
    match record {
        Record::Write { volume, block, blocks, .. } | Record::Copy { volume, block, blocks, .. } => {
            Some(Unproven { volume: *volume, first_block: *block, blocks: u64::from(*blocks) })
        }
        Record::Fill { volume, block, blocks, .. } => {
            Some(Unproven { volume: *volume, first_block: *block, blocks: *blocks })
        }
        // Those change no range, and nobody was told that they were done.
        Record::CreateVolume(_)
        | Record::ResizeVolume { .. }
        | Record::Delete { .. }
        | Record::Snapshot { .. }
        | Record::Clone { .. }
        | Record::Restore { .. }
        | Record::Share { .. }
        | Record::SetEntry { .. }
        | Record::Notes { .. }
        | Record::Skipped { .. } => None,
    }
}

/// What tells a whole group behind the end from another one.
struct Behind {
    previous_hash: u64,
    hash: u64,
}

/// A group a window behind the end was submitted only after the one that is missing had been acknowledged.
/// One alone proves nothing, because a host may have written what looks like it into a group that was cut
/// off: it counts with the one before it, or at the start of a segment, where no host writes.
fn is_damaged(media: &Media, end: JournalPosition, behind: &BTreeMap<u64, Behind>) -> bool {
    let bound = end.sequence + WINDOW;
    let is_chained = |(sequence, group): (&u64, &Behind)| {
        let before = behind.get(&(sequence - 1));
        before.is_some_and(|before| before.hash == group.previous_hash)
    };
    !begun(media, |birth| birth >= bound).is_empty() || behind.range(bound..).any(is_chained)
}

/// The groups of this session that are whole behind the end, by their numbers.
fn whole_behind(media: &Media, end: JournalPosition) -> BTreeMap<u64, Behind> {
    let session = media.storage.superblock.session;
    let mut suspects = begun(media, |birth| birth > end.sequence);
    if let Some(place) = media.segments.place_of(end.segment) {
        let blocks = end.offset_bytes / BLOCK_BYTES..media.storage.segment_bytes() / BLOCK_BYTES;
        for offset in blocks.map(|block| block * BLOCK_BYTES) {
            let range = offset..offset + BLOCK_BYTES;
            let Ok(bytes) = media.storage.read_unproven(place, end.segment, range) else { continue };
            let Ok(header) = GroupHeader::peek(&bytes) else { continue };
            if (header.segment, header.offset_bytes) == (end.segment, offset) {
                suspects.push((end.segment, offset));
            }
        }
    }
    let whole = |(segment, offset): (SegmentId, u64)| {
        let place = media.segments.place_of(segment)?;
        let header = HEADER_BYTES_TRIED.iter().find_map(|length| {
            let range = offset..offset + length;
            let open = |bytes: &[u8]| {
                GroupHeader::open(media.storage.key(), bytes).ok().map(|(header, _, hash)| (header, hash))
            };
            media.storage.read_proven(place, segment, range, open).ok()
        });
        let (header, hash) = header?;
        let is_later = header.session == session && header.sequence > end.sequence;
        let behind = Behind { previous_hash: header.previous_hash, hash };
        (is_later && header.segment == segment).then_some((header.sequence, behind))
    };
    suspects.into_iter().filter_map(whole).collect()
}
