//! What goes by on the way to the drives tells where the next group will be, and how many segments later a
//! place is used again: a forger who counts its own writes knows as much.

use std::collections::BTreeMap;

use ashlar_format::bytes::Reader;
use ashlar_format::group::GroupHeader;
use ashlar_format::segment::SEGMENT_HEADER_BYTES;

/// Where in a group its hash stands.
const HASH_AT: usize = 56;

/// How many of the last distances are known. Arbitrary.
const DISTANCES_MAX: usize = 8;

/// A longer one is not of a segment, but of a block that a forger wrote.
const DISTANCE_MAX: u32 = 1_000;

/// What was seen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sight {
    /// The opening that wrote the last group.
    pub session: u32,
    /// Its sequence number.
    pub sequence: u64,
    /// Its hash.
    pub hash: u64,
    /// The LSN behind its last record.
    pub next_lsn: u64,
    /// Its segment.
    pub segment: u32,
    /// Where it ends.
    pub end: u64,
    /// From a segment's number to that of its place's next one, lately.
    pub distances: Vec<u32>,
    /// Groups that lie in the payload of another, at the very place that they name.
    pub forged_at_home: u64,
    /// The segment at each place, by drive and address.
    segments: BTreeMap<(u32, u64), u32>,
}

impl Sight {
    /// A write to a drive goes by.
    pub fn see(&mut self, drive: u32, address: u64, data: &[u8]) {
        let Ok(header) = GroupHeader::peek(data) else {
            // The first group of a segment is written with the segment's header.
            if let Some(group) = data.get(SEGMENT_HEADER_BYTES as usize..)
                && let Ok(header) = GroupHeader::peek(group)
            {
                self.see_segment((drive, address), header.segment.0);
                self.take(&header, group);
            }
            return;
        };
        self.take(&header, data);
    }

    fn see_segment(&mut self, place: (u32, u64), segment: u32) {
        let before = self.segments.insert(place, segment);
        if let Some(distance) = before.and_then(|before| segment.checked_sub(before))
            && (1..DISTANCE_MAX).contains(&distance)
        {
            self.distances.push(distance);
            if self.distances.len() > DISTANCES_MAX {
                self.distances.remove(0);
            }
        }
    }

    fn take(&mut self, header: &GroupHeader, bytes: &[u8]) {
        let Some(Ok(hash)) = bytes.get(HASH_AT..).map(|bytes| Reader::new(bytes).u64()) else { return };
        let blocks = bytes.chunks(SEGMENT_HEADER_BYTES as usize).enumerate().skip(1);
        let at_home = blocks.filter(|(index, block)| {
            let offset = header.offset_bytes + *index as u64 * SEGMENT_HEADER_BYTES;
            GroupHeader::peek(block).is_ok_and(|forged| forged.offset_bytes == offset)
        });
        self.forged_at_home += at_home.count() as u64;
        self.session = header.session;
        self.sequence = header.sequence;
        self.hash = hash;
        self.next_lsn = header.first_lsn.0 + u64::from(header.record_count);
        self.segment = header.segment.0;
        self.end = header.offset_bytes + u64::from(header.group_bytes);
    }
}
