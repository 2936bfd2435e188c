//! Turns submissions into the bytes of one group. Pure: addresses in, bytes and records out.

use ashlar_format::MediaKey;
use ashlar_format::bytes::Writer;
use ashlar_format::chunk::{CHUNK_BLOCKS_MAX, CHUNK_HEADER_BYTES, ChunkHeader};
use ashlar_format::group::{GROUP_ALIGN_BYTES, GROUP_BYTES_MAX, GROUP_HEADER_BYTES, GroupHeader, Record};
use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_format::segment::FooterEntry;
use ashlar_units::{Lsn, SegmentId};

use crate::replay::are_own_chunks;
use crate::{ChunkDraft, Draft, Submission};

/// How much room submissions take in a group.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Room {
    record_bytes: u64,
    chunk_bytes: u64,
    pub(crate) chunks: u64,
}

impl Room {
    /// The room with one more submission.
    pub(crate) fn with<T>(mut self, submission: &Submission<T>) -> Room {
        for draft in &submission.drafts {
            match draft {
                Draft::Record(record) => self.record_bytes += record.encoded_bytes() as u64,
                Draft::Chunk(chunk) => {
                    self.record_bytes += Record::WRITE_BYTES as u64;
                    let stored = (CHUNK_HEADER_BYTES + chunk.payload.len()) as u64;
                    self.chunk_bytes += stored.next_multiple_of(PLACE_UNIT_BYTES);
                    self.chunks += 1;
                }
            }
        }
        self
    }

    fn header_bytes(&self) -> u64 {
        GROUP_HEADER_BYTES as u64 + self.record_bytes
    }

    /// Bytes of the group at this offset of a segment: it ends where a stripe ends.
    pub(crate) fn group_bytes(&self, offset: u64, stripe_bytes: u64) -> u64 {
        let content = self.header_bytes().next_multiple_of(PLACE_UNIT_BYTES) + self.chunk_bytes;
        (offset + content).next_multiple_of(stripe_bytes) - offset
    }
}

/// Where a group goes and what it follows. Its buffer is as long as [`Room::group_bytes`] says.
#[derive(Clone, Copy)]
pub(crate) struct GroupPlace {
    pub(crate) session: u32,
    pub(crate) sequence: u64,
    pub(crate) previous_hash: u64,
    pub(crate) first_lsn: Lsn,
    pub(crate) segment: SegmentId,
    pub(crate) offset_bytes: u64,
}

/// A built group.
pub(crate) struct BuiltGroup {
    /// Records of each submission.
    pub(crate) records: Vec<Vec<Record>>,
    pub(crate) record_count: u64,
    pub(crate) footer: Vec<FooterEntry>,
    pub(crate) hash: u64,
}

/// Fills `group`.
pub(crate) fn build<T>(
    key: &MediaKey,
    place: GroupPlace,
    room: Room,
    submissions: &[Submission<T>],
    group: &mut [u8],
) -> BuiltGroup {
    assert!((group.len() as u64).is_multiple_of(GROUP_ALIGN_BYTES), "group of {} bytes", group.len());
    assert!(group.len() as u64 <= GROUP_BYTES_MAX, "group of {} bytes", group.len());
    assert!(room.header_bytes() <= group.len() as u64, "{room:?} in a group of {} bytes", group.len());
    assert!(!submissions.is_empty(), "group {} without a submission", place.sequence);
    let mut built = BuiltGroup {
        records: Vec::with_capacity(submissions.len()),
        record_count: 0,
        footer: Vec::new(),
        hash: 0,
    };
    let mut encoded = Writer::new();
    let mut at = room.header_bytes().next_multiple_of(PLACE_UNIT_BYTES) as usize;
    group[room.header_bytes() as usize..at].fill(0);
    for submission in submissions {
        let mut records = Vec::with_capacity(submission.drafts.len());
        for draft in &submission.drafts {
            let record = match draft {
                Draft::Record(record) => record.clone(),
                Draft::Chunk(chunk) => {
                    let header = place_chunk(key, place, chunk, group, &mut at);
                    built.footer.push(FooterEntry {
                        offset_units: (header.offset_bytes / PLACE_UNIT_BYTES) as u32,
                        length_bytes: header.total_bytes() as u32,
                        owner: u64::from(header.owner_volume) << 36 | header.owner_block,
                        blocks: header.blocks,
                        birth: None,
                    });
                    let (volume, block, blocks) = (chunk.volume, chunk.block, chunk.blocks);
                    Record::Write { volume, block, blocks, pointer: header.pointer() }
                }
            };
            record.encode(&mut encoded);
            built.record_count += 1;
            records.push(record);
        }
        built.records.push(records);
    }
    group[at..].fill(0);
    // What was reckoned is what was made: the room in the segment, and the footer's, hang on it.
    assert_eq!(encoded.len() as u64, room.record_bytes, "records of group {}", place.sequence);
    assert_eq!(built.footer.len() as u64, room.chunks, "chunks of group {}", place.sequence);
    let header = GroupHeader {
        session: place.session,
        sequence: place.sequence,
        previous_hash: place.previous_hash,
        first_lsn: place.first_lsn,
        record_count: u32::try_from(built.record_count).expect("a group holds few records"),
        header_bytes: u32::try_from(room.header_bytes()).expect("a group is at most a MiB"),
        group_bytes: u32::try_from(group.len()).expect("a group is at most a MiB"),
        segment: place.segment,
        offset_bytes: place.offset_bytes,
    };
    // Replay believes no group of which this does not hold.
    let own = built.records.iter().all(|records| are_own_chunks(&header, records));
    assert!(own, "group {} at {} maps chunks outside itself", place.sequence, place.offset_bytes);
    built.hash = header.seal(key, encoded.as_bytes(), group);
    debug_assert!(
        GroupHeader::open(key, group).is_ok_and(|(read, _, hash)| read == header && hash == built.hash),
        "group {} does not read back as written",
        place.sequence
    );
    built
}

/// Puts a chunk into the group at `at`, which moves on to where the next one begins.
fn place_chunk(
    key: &MediaKey,
    place: GroupPlace,
    chunk: &ChunkDraft,
    group: &mut [u8],
    at: &mut usize,
) -> ChunkHeader {
    let blocks = usize::from(chunk.blocks);
    assert!((1..=CHUNK_BLOCKS_MAX).contains(&blocks), "a chunk of {blocks} blocks");
    assert!(!chunk.payload.is_empty(), "a chunk of {blocks} blocks without payload");
    let start = *at;
    let header = ChunkHeader {
        codec: chunk.codec,
        blocks: chunk.blocks,
        kept: ChunkHeader::all_of(chunk.blocks),
        segment: place.segment,
        offset_bytes: place.offset_bytes + start as u64,
        payload_bytes: u32::try_from(chunk.payload.len()).expect("a chunk is at most 64 KiB"),
        owner_volume: ChunkHeader::owner_hint(chunk.volume),
        owner_block: chunk.block,
    };
    let end = start + header.total_bytes() as usize;
    assert!(end <= group.len(), "chunk from {start} to {end} in a group of {} bytes", group.len());
    group[start + CHUNK_HEADER_BYTES..end].copy_from_slice(&chunk.payload);
    header.seal(key, &mut group[start..end]);
    *at = end.next_multiple_of(PLACE_UNIT_BYTES as usize);
    group[end..*at].fill(0);
    header
}
