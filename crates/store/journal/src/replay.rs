//! Replay: walks the hash chain from a checkpoint's position to the end that can be proven.

use std::collections::VecDeque;

use ashlar_format::MediaKey;
use ashlar_format::chunk::ChunkHeader;
use ashlar_format::group::{GROUP_ALIGN_BYTES, GROUP_BYTES_MAX, GroupHeader, Record};
use ashlar_format::segment::{SEGMENT_HEADER_BYTES, SegmentKind};
use ashlar_format::superblock::JournalPosition;
use ashlar_pool::Pool;
use ashlar_units::{Lsn, SegmentId};

use crate::{Error, ErrorKind, Result, WINDOW};

/// One group found by replay.
pub struct Replayed {
    /// The LSN of its first record.
    pub first_lsn: Lsn,
    /// Its records.
    pub records: Vec<Record>,
    segment: SegmentId,
    offset: u64,
    end: JournalPosition,
}

/// How replay ended.
#[derive(Clone, Copy, Debug)]
pub struct ReplayEnd {
    /// Behind the last group that counts.
    pub position: JournalPosition,
    /// The LSN after the last record.
    pub next_lsn: Lsn,
    /// Groups found.
    pub groups: u64,
    /// Records in them.
    pub records: u64,
    /// Where the position's segment may be written on without writing an address twice; `None` when
    /// it has no room for that.
    pub resume_offset: Option<u64>,
}

/// Bytes read at once while walking headers.
const READ_AHEAD_BYTES: u64 = 1 << 20;

/// Finds every group behind `position` that counts: the chain holds and, for the last ones which may
/// have been in flight, every chunk is there.
pub async fn replay(
    pool: &Pool,
    position: JournalPosition,
    next_lsn: Lsn,
) -> Result<(Vec<Replayed>, ReplayEnd)> {
    let mut walk = Walk { pool, position, next_lsn, window: None };
    let mut groups: VecDeque<Replayed> = VecDeque::new();
    while let Some(group) = walk.next().await? {
        groups.push_back(group);
    }
    // Groups further back than the window were durable before the last ones were submitted.
    let proven = groups.len().saturating_sub(WINDOW as usize);
    let mut count = proven;
    for group in groups.iter().skip(proven) {
        // A group that was acknowledged is whole on all drives but those that were called out. One whose
        // chunks are there each by itself but not all together was not.
        if !chunks_are_there(pool, group).await? || !complete(pool, group).await? {
            break;
        }
        count += 1;
    }
    assert!((proven..=groups.len()).contains(&count), "{count} of {} groups, {proven} proven", groups.len());
    groups.truncate(count);
    let end = groups.back().map_or(position, |last| last.end);
    refuse_damage(pool, end).await?;
    let next_lsn = groups.back().map_or(next_lsn, |last| Lsn(last.first_lsn.0 + last.records.len() as u64));
    let records = groups.iter().map(|group| group.records.len() as u64).sum();
    // Everything in flight at the crash lies within this many bytes behind the end.
    let in_flight = WINDOW * GROUP_BYTES_MAX.min(pool.segment_bytes() / 4);
    let resume = (end.offset_bytes + in_flight).next_multiple_of(pool.stripe_bytes());
    assert!(resume >= end.offset_bytes + in_flight, "resuming at {resume} behind {}", end.offset_bytes);
    assert_eq!(end.sequence, position.sequence + groups.len() as u64, "the chain has a gap");
    let is_known = pool.has_segment(end.segment);
    let resume_offset = (is_known && resume < pool.segment_bytes()).then_some(resume);
    let end = ReplayEnd { position: end, next_lsn, groups: groups.len() as u64, records, resume_offset };
    Ok((groups.into(), end))
}

struct Walk<'a> {
    pool: &'a Pool,
    position: JournalPosition,
    next_lsn: Lsn,
    /// Bytes read ahead: segment, offset, content.
    window: Option<(SegmentId, u64, ashlar_runtime::Buf)>,
}

impl Walk<'_> {
    /// The next group of the chain: behind the last one, or at the start of the segment that says it
    /// begins with this sequence number.
    async fn next(&mut self) -> Result<Option<Replayed>> {
        let JournalPosition { segment, offset_bytes, .. } = self.position;
        let mut candidates = Vec::new();
        if self.pool.has_segment(segment) {
            candidates.push((segment, offset_bytes));
        }
        let begun = journal_segments(self.pool, |birth| birth == self.position.sequence);
        candidates.extend(begun.into_iter().map(|segment| (segment, SEGMENT_HEADER_BYTES)));
        for (segment, offset) in &candidates {
            if let Some(group) = self.read_group(*segment, *offset).await? {
                return Ok(Some(group));
            }
        }
        // The end, or damage: the other columns know.
        for (segment, offset) in candidates {
            if self.mend_group(segment, offset).await?
                && let Some(group) = self.read_group(segment, offset).await?
            {
                return Ok(Some(group));
            }
        }
        Ok(None)
    }

    async fn mend_group(&mut self, segment: SegmentId, offset: u64) -> Result<bool> {
        let length = GROUP_BYTES_MAX.min(self.pool.segment_bytes().saturating_sub(offset));
        let (position, next_lsn) = (self.position, self.next_lsn);
        let key = self.pool.key();
        let accept = |bytes: &[u8]| {
            let (header, _, _) = GroupHeader::open(key, bytes).ok()?;
            is_next(&header, position, next_lsn, segment, offset).then_some(u64::from(header.header_bytes))
        };
        let Some(mended) = self.pool.mend(segment, offset, length, accept).await? else { return Ok(false) };
        // Read from there: parity that was wrong is not mended yet.
        let mut bytes = self.pool.runtime().buffer(mended.len().next_multiple_of(GROUP_ALIGN_BYTES as usize));
        bytes.fill(0);
        bytes[..mended.len()].copy_from_slice(&mended);
        self.window = Some((segment, offset, bytes));
        Ok(true)
    }

    async fn read_group(&mut self, segment: SegmentId, offset: u64) -> Result<Option<Replayed>> {
        if offset + GROUP_ALIGN_BYTES > self.pool.segment_bytes() {
            return Ok(None);
        }
        let Ok(header) = GroupHeader::peek(self.bytes(segment, offset, GROUP_ALIGN_BYTES).await?) else {
            return Ok(None);
        };
        let length = u64::from(header.header_bytes).next_multiple_of(GROUP_ALIGN_BYTES);
        let key = self.pool.key();
        if offset + u64::from(header.group_bytes) > self.pool.segment_bytes() {
            return Ok(None);
        }
        let Ok((header, records, hash)) = GroupHeader::open(key, self.bytes(segment, offset, length).await?)
        else {
            return Ok(None);
        };
        if !is_next(&header, self.position, self.next_lsn, segment, offset)
            || !are_own_chunks(&header, &records)
        {
            return Ok(None);
        }
        let end = JournalPosition {
            segment,
            offset_bytes: offset + u64::from(header.group_bytes),
            sequence: header.sequence + 1,
            previous_hash: hash,
        };
        self.position = end;
        self.next_lsn = Lsn(self.next_lsn.0 + records.len() as u64);
        Ok(Some(Replayed { first_lsn: header.first_lsn, records, segment, offset, end }))
    }

    /// `length` bytes of a segment, from the read-ahead window when they are there.
    async fn bytes(&mut self, segment: SegmentId, offset: u64, length: u64) -> Result<&[u8]> {
        let is_there = self.window.as_ref().is_some_and(|(of, start, bytes)| {
            *of == segment && *start <= offset && offset + length <= start + bytes.len() as u64
        });
        if !is_there {
            let wanted = length.max(READ_AHEAD_BYTES).min(self.pool.segment_bytes() - offset);
            let (bytes, _) = self.pool.read(segment, offset, wanted).await?;
            self.window = Some((segment, offset, bytes));
        }
        let (_, start, bytes) = self.window.as_ref().expect("filled above");
        let from = (offset - start) as usize;
        bytes.get(from..from + length as usize).ok_or_else(|| {
            Error::new(ErrorKind::Damaged, format!("journal group at {offset} runs out of segment {segment}"))
        })
    }
}

/// Whether a group found somewhere is the one that follows a position and begins with this LSN.
fn is_next(
    header: &GroupHeader,
    position: JournalPosition,
    next_lsn: Lsn,
    segment: SegmentId,
    offset: u64,
) -> bool {
    header.sequence == position.sequence
        && header.first_lsn == next_lsn
        && header.previous_hash == position.previous_hash
        && header.segment == segment
        && header.offset_bytes == offset
}

/// Whether the chunks that a group's records map lie in the group itself, behind its header. A record that
/// leads elsewhere was not written by a builder, whatever its checksum says.
pub(crate) fn are_own_chunks(header: &GroupHeader, records: &[Record]) -> bool {
    let content = header.offset_bytes + u64::from(header.header_bytes);
    let end = header.offset_bytes + u64::from(header.group_bytes);
    records.iter().all(|record| match record {
        Record::Write { pointer, .. } => {
            pointer.segment() == header.segment && (content..end).contains(&pointer.offset_bytes())
        }
        _ => true,
    })
}

/// Journal segments whose first group number `wanted` accepts.
fn journal_segments(pool: &Pool, wanted: impl Fn(u64) -> bool) -> Vec<SegmentId> {
    pool.with_table(|table| {
        let entries = table.entries().iter();
        entries
            .filter(|entry| table.find(entry.segment).is_some_and(|found| found.place == entry.place))
            .filter(|entry| entry.kind == SegmentKind::Journal && wanted(entry.birth))
            .map(|entry| entry.segment)
            .collect()
    })
}

/// Whether every chunk that a group's records speak of, in its own segment, is intact.
async fn chunks_are_there(pool: &Pool, group: &Replayed) -> Result<bool> {
    for record in &group.records {
        let Record::Write { pointer, .. } = record else { continue };
        let (segment, offset, length) =
            (pointer.segment(), pointer.offset_bytes(), pointer.length_bytes_max());
        let (bytes, skip) = pool.read(segment, offset, length).await?;
        let is_there = |bytes: &[u8]| {
            ChunkHeader::open(pool.key(), *pointer, bytes).ok().map(|(header, _)| header.total_bytes())
        };
        if is_there(&bytes[skip..]).is_none() && pool.mend(segment, offset, length, is_there).await?.is_none()
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sees to it that all columns of a group agree.
async fn complete(pool: &Pool, group: &Replayed) -> Result<bool> {
    let length = group.end.offset_bytes - group.offset;
    pool.complete_stripes(group.segment, group.offset, length, |bytes| proven_bytes(pool.key(), group, bytes))
        .await
}

/// The length of a group's bytes if header, records and all its chunks are what they were.
fn proven_bytes(key: &MediaKey, group: &Replayed, bytes: &[u8]) -> Option<u64> {
    let (_, _, hash) = GroupHeader::open(key, bytes).ok()?;
    if hash != group.end.previous_hash {
        return None;
    }
    for record in &group.records {
        let Record::Write { pointer, .. } = record else { continue };
        let at = usize::try_from(pointer.offset_bytes().checked_sub(group.offset)?).ok()?;
        ChunkHeader::open(key, *pointer, bytes.get(at..)?).ok()?;
    }
    Some(bytes.len() as u64)
}

/// A group more than a window behind the end was submitted only after the group missing at the end
/// had been acknowledged: then the journal is damaged, and opening it would silently lose writes.
async fn refuse_damage(pool: &Pool, end: JournalPosition) -> Result<()> {
    let session = pool.superblock().session;
    let is_beyond =
        |header: &GroupHeader| header.session == session && header.sequence >= end.sequence + WINDOW;
    let mut suspects = Vec::new();
    if pool.has_segment(end.segment) {
        let mut offset = end.offset_bytes;
        while offset < pool.segment_bytes() {
            let length = READ_AHEAD_BYTES.min(pool.segment_bytes() - offset);
            let (bytes, _) = pool.read(end.segment, offset, length).await?;
            let blocks = bytes.chunks_exact(GROUP_ALIGN_BYTES as usize).enumerate();
            suspects.extend(blocks.filter_map(|(index, block)| {
                let at = offset + index as u64 * GROUP_ALIGN_BYTES;
                let header = GroupHeader::peek(block).ok()?;
                (header.segment == end.segment && header.offset_bytes == at && is_beyond(&header))
                    .then_some((end.segment, at))
            }));
            offset += length;
        }
    }
    for segment in journal_segments(pool, |birth| birth >= end.sequence) {
        suspects.push((segment, SEGMENT_HEADER_BYTES));
    }
    for (segment, offset) in suspects {
        let length = GROUP_BYTES_MAX.min(pool.segment_bytes() - offset);
        let (bytes, _) = pool.read(segment, offset, length).await?;
        if let Ok((header, _, _)) = GroupHeader::open(pool.key(), &bytes)
            && is_beyond(&header)
            && header.segment == segment
        {
            return Err(Error::new(
                ErrorKind::Damaged,
                format!(
                    "journal group {} is damaged although group {} behind it is whole: acknowledged writes would be lost",
                    end.sequence, header.sequence
                ),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ashlar_format::Pointer;
    use ashlar_units::VolumeId;

    use super::*;

    /// Before, a record that led into another segment stopped the process at every start.
    #[test]
    fn a_group_whose_records_lead_elsewhere_is_none() {
        let header = GroupHeader {
            session: 1,
            sequence: 1,
            previous_hash: 0,
            first_lsn: Lsn(1),
            record_count: 1,
            header_bytes: 90,
            group_bytes: 8192,
            segment: SegmentId(5),
            offset_bytes: 4096,
        };
        let write = |segment, offset| {
            let pointer = Pointer::data(SegmentId(segment), offset, 4128);
            [Record::Write { volume: VolumeId(1), block: 0, blocks: 1, pointer }]
        };
        assert!(are_own_chunks(&header, &write(5, 4096 + 128)));
        assert!(!are_own_chunks(&header, &write(6, 4096 + 128)), "another segment");
        assert!(!are_own_chunks(&header, &write(5, 4096)), "its own header");
        assert!(!are_own_chunks(&header, &write(5, 0)), "before it");
        assert!(!are_own_chunks(&header, &write(5, 4096 + 8192)), "behind it");
    }
}
