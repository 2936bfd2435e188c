//! Replay: walks the hash chain from a checkpoint's position to the end that can be proven.

use std::collections::{BTreeMap, VecDeque};

use ashlar_format::MediaKey;
use ashlar_format::chunk::ChunkHeader;
use ashlar_format::group::{GROUP_ALIGN_BYTES, GROUP_BYTES_MAX, GroupHeader, Record};
use ashlar_format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader, SegmentKind};
use ashlar_format::superblock::JournalPosition;
use ashlar_pool::Pool;
use ashlar_units::{Fault, Lsn, SegmentId, planted};

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
#[derive(Clone, Debug)]
pub struct ReplayEnd {
    /// Behind the last group that counts.
    pub position: JournalPosition,
    /// The LSN after the last record.
    pub next_lsn: Lsn,
    /// Groups found.
    pub groups: u64,
    /// Records in them.
    pub records: u64,
    /// Where in each segment the last group ends that counts. A segment that began with a later group has
    /// none.
    pub ends: BTreeMap<SegmentId, u64>,
}

/// Bytes read at once while walking headers.
const READ_AHEAD_BYTES: u64 = 1 << 20;

/// Finds every group behind a position that counts: the chain holds and, for the last ones which may have
/// been in flight, every chunk is there. Holds no more groups in memory than may have been in flight.
pub struct Replay<'a> {
    walk: Walk<'a>,
    is_walk_over: bool,
    is_clean: bool,
    /// Found, and not known to count yet.
    pending: VecDeque<Replayed>,
    end: ReplayEnd,
}

impl<'a> Replay<'a> {
    /// Starts behind a checkpoint's position. Behind that of a clean close there is nothing, whatever the
    /// drives hold there.
    #[must_use]
    pub fn new(pool: &'a Pool, position: JournalPosition, next_lsn: Lsn, is_clean: bool) -> Replay<'a> {
        let ends = BTreeMap::from([(position.segment, position.offset_bytes)]);
        Replay {
            walk: Walk { pool, position, next_lsn: Some(next_lsn), window: None },
            is_walk_over: is_clean,
            is_clean,
            pending: VecDeque::new(),
            end: ReplayEnd { position, next_lsn, groups: 0, records: 0, ends },
        }
    }

    /// The next group that counts.
    pub async fn next(&mut self) -> Result<Option<Replayed>> {
        while !self.is_walk_over && self.pending.len() <= WINDOW as usize {
            match self.walk.next().await? {
                Some(group) => self.pending.push_back(group),
                None => self.is_walk_over = true,
            }
        }
        // Groups further back than the window were durable before the last ones were submitted.
        let is_proven = self.pending.len() > WINDOW as usize;
        let Some(group) = self.pending.pop_front() else { return Ok(None) };
        let pool = self.walk.pool;
        // A group that was acknowledged is whole on all drives but those that were called out. One whose
        // chunks are there each by itself but not all together was not.
        if planted(Fault::GroupTooFewReplayed) && self.is_walk_over && self.pending.is_empty() {
            return Ok(None);
        }
        let is_whole = is_proven
            || planted(Fault::TornGroupReplayed)
            || chunks_are_there(pool, &group).await?
                && (planted(Fault::StripesNotCompleted) || complete(pool, &group).await?);
        if !is_whole {
            self.pending.clear();
            return Ok(None);
        }
        self.end.position = group.end;
        self.end.next_lsn = Lsn(group.first_lsn.0 + group.records.len() as u64);
        self.end.groups += 1;
        self.end.records += group.records.len() as u64;
        self.end.ends.insert(group.segment, group.end.offset_bytes);
        Ok(Some(group))
    }

    /// The end, when nothing is left. Refuses a journal that went on behind it.
    pub async fn finish(self) -> Result<ReplayEnd> {
        assert!(self.pending.is_empty() && self.is_walk_over, "groups are left to be replayed");
        if !self.is_clean {
            refuse_damage(self.walk.pool, self.end.position).await?;
        }
        Ok(self.end)
    }
}

struct Walk<'a> {
    pool: &'a Pool,
    position: JournalPosition,
    /// What the next group begins with, where that is known.
    next_lsn: Option<Lsn>,
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
        self.next_lsn = Some(Lsn(header.first_lsn.0 + records.len() as u64));
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
    next_lsn: Option<Lsn>,
    segment: SegmentId,
    offset: u64,
) -> bool {
    header.sequence == position.sequence
        && next_lsn.is_none_or(|next| header.first_lsn == next)
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

/// Sees to it that all columns of a group agree. The first group of a segment shares a stripe with the
/// segment's header, which is proven with it: a lost column is computed from all that is in a stripe.
async fn complete(pool: &Pool, group: &Replayed) -> Result<bool> {
    let before = if group.offset == SEGMENT_HEADER_BYTES { SEGMENT_HEADER_BYTES } else { 0 };
    let (start, key) = (group.offset - before, pool.key());
    let is_proven = |bytes: &[u8]| {
        let (header, content) = bytes.split_at_checked(before as usize)?;
        let is_header = |found: SegmentHeader| found.segment == group.segment;
        let is_there = before == 0 || SegmentHeader::decode(key, header).is_ok_and(is_header);
        is_there.then(|| proven_bytes(key, group, content))?.map(|length| before + length)
    };
    pool.complete_stripes(group.segment, start, group.end.offset_bytes - start, is_proven).await
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

/// A group a window behind the end or further was submitted only after the group missing at the end had
/// been acknowledged: then the journal is damaged, and opening it would silently lose writes.
///
/// A segment that begins with such a group proves it by its header, where no host can write. Where the group
/// behind a header that cannot be read begins is not known: it is looked for as far as the longest group
/// reaches, and from there on lengths tell. What is found must have a number that follows, and lead to the
/// next by its own chain. Nothing of it is ever replayed.
async fn refuse_damage(pool: &Pool, end: JournalPosition) -> Result<()> {
    let bound = end.sequence + WINDOW;
    if let Some(first) = journal_segments(pool, |birth| birth >= bound).first() {
        return Err(damaged_at(end, &format!("segment {first} was begun behind it")));
    }
    let mut lost = end;
    while let Some(group) = next_behind_gap(pool, lost).await? {
        let next_lsn = Some(Lsn(group.first_lsn.0 + group.records.len() as u64));
        let mut walk = Walk { pool, position: group.end, next_lsn, window: None };
        let mut count = 1;
        while walk.next().await?.is_some() {
            count += 1;
        }
        lost = walk.position;
        let last = lost.sequence - 1;
        if count > 1 && last >= bound {
            return Err(damaged_at(end, &format!("group {last} behind it is whole")));
        }
    }
    Ok(())
}

fn damaged_at(end: JournalPosition, proof: &str) -> Error {
    let what = format!(
        "journal group {} is damaged although {proof}: acknowledged writes would be lost",
        end.sequence
    );
    Error::new(ErrorKind::Damaged, what)
}

/// The first group behind one that is missing, in its segment.
async fn next_behind_gap(pool: &Pool, lost: JournalPosition) -> Result<Option<Replayed>> {
    if !pool.has_segment(lost.segment) {
        return Ok(None);
    }
    let session = pool.superblock().session;
    let end = (lost.offset_bytes + GROUP_BYTES_MAX + GROUP_ALIGN_BYTES).min(pool.segment_bytes());
    let mut reader = Walk { pool, position: lost, next_lsn: None, window: None };
    let mut at = lost.offset_bytes + GROUP_ALIGN_BYTES;
    while at < end {
        let block = reader.bytes(lost.segment, at, GROUP_ALIGN_BYTES).await?;
        let wanted = lost.sequence + 1..=lost.sequence + WINDOW;
        let is_possible = |header: &GroupHeader| {
            let is_here = header.segment == lost.segment && header.offset_bytes == at;
            is_here && header.session <= session && wanted.contains(&header.sequence)
        };
        if let Some(header) = GroupHeader::peek(block).ok().filter(is_possible) {
            reader.position.sequence = header.sequence;
            reader.position.previous_hash = header.previous_hash;
            if let Some(group) = reader.read_group(lost.segment, at).await? {
                return Ok(Some(group));
            }
        }
        at += GROUP_ALIGN_BYTES;
    }
    Ok(None)
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
