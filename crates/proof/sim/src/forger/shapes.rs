//! What is forged: every structure that the pool looks for on its drives, one function for each.

use ashlar_format::bytes::Writer;
use ashlar_format::chunk::{CHUNK_HEADER_BYTES, ChunkHeader, Codec};
use ashlar_format::group::{GROUP_HEADER_BYTES, GroupHeader, Record};
use ashlar_format::owner::Owner;
use ashlar_format::page::{PAGE_BYTES, PageContent, PageHeader, PageIdentity};
use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_format::segment::{FooterEntry, Place, SegmentHeader, SegmentKind, encode_footer};
use ashlar_format::superblock::Superblock;
use ashlar_format::{MediaKey, Pointer};
use ashlar_units::{BLOCK_BYTES, BLOCK_BYTES_USIZE, DriveIndex, Lsn, SegmentId, VolumeId};

use super::{Aim, Focus, Sight};
use crate::chance::Chance;

/// Numbers ahead of the newest segment that are claimed at most. Arbitrary: what hosts of a small pool
/// write over a few times.
const SEGMENTS_AHEAD_MAX: u64 = 300;

/// A sequence number that no pool reaches.
const SEQUENCE_FAR: u64 = 1 << 62;

/// Where a line of the cleaner's mark begins.
const LINE_BYTES: u64 = 1024;

/// What a chunk header begins with: the only byte of the next chunk that a forger must know.
const CHUNK_FIRST_BYTE: u8 = 0xa5;

/// Makes shapes for one write.
pub(super) struct Forge<'a> {
    pub(super) chance: &'a mut Chance,
    pub(super) key: &'a MediaKey,
    pub(super) superblock: &'a Superblock,
    pub(super) sight: &'a Sight,
    pub(super) focus: Focus,
}

impl Forge<'_> {
    /// Puts something at the front of `rest`, which will lie at this offset; returns how many bytes it took,
    /// or what was left alone.
    pub(super) fn shape(&mut self, segment: u32, offset: u64, rest: &mut [u8]) -> usize {
        let shape = if offset.is_multiple_of(BLOCK_BYTES) {
            match self.chance.below(12) {
                _ if self.focus == Focus::Journal => Some(self.group(segment, offset)),
                0..6 => Some(self.group(segment, offset)),
                6 => Some(self.segment_header(segment)),
                7 => Some(self.superblock()),
                8 => Some(self.owner()),
                9 => Some(self.footer(segment)),
                10 => Some(self.page(segment, offset)),
                _ => self.chunk(segment, offset, rest),
            }
        } else {
            match self.chance.below(12) {
                0 => self.chunk(segment, offset, rest),
                1 => Some(self.page(segment, offset)),
                2 => Some(self.group(segment, offset / BLOCK_BYTES * BLOCK_BYTES)),
                _ => None,
            }
        };
        let Some(shape) = shape else { return PLACE_UNIT_BYTES as usize };
        put(rest, &shape)
    }

    /// Puts a bare group there, for any block that it may come to lie at.
    pub(super) fn spray(&mut self, segment: u32, offset: u64, rest: &mut [u8]) -> usize {
        let block = (offset / BLOCK_BYTES + self.chance.below(2)) * BLOCK_BYTES;
        let (segment, sequence, session) = self.claim(segment);
        let shape = self.bare_group(segment, block, sequence, session, &[]);
        put(rest, &shape)
    }

    /// Chunk headers before the end of `bytes`, one for each guess of where that will lie, that claim
    /// everything up to the first byte of the chunk behind it: whoever steps from chunk to chunk steps over
    /// that one.
    pub(super) fn swallow_next(&mut self, aims: &[Aim], bytes: &mut [u8]) {
        let mut room = bytes.len();
        for aim in aims {
            let next = (aim.offset + bytes.len() as u64).next_multiple_of(PLACE_UNIT_BYTES);
            let line = next / LINE_BYTES * LINE_BYTES;
            let Some(last) = (aim.offset + room as u64).checked_sub(CHUNK_HEADER_BYTES as u64) else {
                return;
            };
            let at = last / PLACE_UNIT_BYTES * PLACE_UNIT_BYTES;
            // Whoever looks for the chunk behind begins at its line.
            if at < line.max(aim.offset) {
                continue;
            }
            let index = (at - aim.offset) as usize;
            let mut chunk = bytes[index..].to_vec();
            chunk.resize((next - at) as usize, 0);
            chunk.push(CHUNK_FIRST_BYTE);
            self.seal_chunk(aim.segment, at, &mut chunk);
            let length = bytes.len() - index;
            bytes[index..].copy_from_slice(&chunk[..length]);
            room = index;
        }
    }

    fn seal_chunk(&mut self, segment: u32, offset: u64, chunk: &mut [u8]) {
        let blocks = self.chance.between(1, 4) as u8;
        let is_trimmed = blocks > 1 && self.chance.one_in(3);
        let all = ChunkHeader::all_of(blocks);
        let header = ChunkHeader {
            // Of what is compressed nobody knows the length beforehand.
            codec: *self.chance.pick(&[Codec::None, Codec::Lz4, Codec::Lz4, Codec::Zstd]),
            blocks,
            kept: if is_trimmed { all & !1 } else { all },
            segment: SegmentId(segment),
            offset_bytes: offset,
            payload_bytes: (chunk.len() - CHUNK_HEADER_BYTES) as u32,
            owner_volume: ChunkHeader::owner_hint(self.volume()),
            owner_block: self.chance.below(256),
        };
        header.seal(self.key, chunk);
    }

    /// A chunk of its own place, of the place's next tenant, or of any other place: such lie in containers.
    fn chunk(&mut self, segment: u32, offset: u64, rest: &[u8]) -> Option<Vec<u8>> {
        let wanted = match self.chance.below(3) {
            0 => CHUNK_HEADER_BYTES + BLOCK_BYTES_USIZE,
            _ => CHUNK_HEADER_BYTES + self.chance.between(1, 600) as usize,
        };
        let mut chunk = rest.get(..wanted)?.to_vec();
        let (segment, offset) = match self.chance.below(4) {
            0 => (self.segment_ahead(segment), offset),
            1 => (self.segment_behind(), self.chance.below(self.places()) * PLACE_UNIT_BYTES),
            _ => (segment, offset),
        };
        self.seal_chunk(segment, offset, &mut chunk);
        Some(chunk)
    }

    /// A group with or without records.
    fn group(&mut self, segment: u32, offset: u64) -> Vec<u8> {
        let (segment, sequence, session) = self.claim(segment);
        let count = self.chance.below(4);
        let records: Vec<Record> = (0..count).map(|_| self.record(segment, offset)).collect();
        self.bare_group(segment, offset, sequence, session, &records)
    }

    /// Which segment, sequence number and session a group claims: exactly the next, one that would be beyond
    /// the end, or one of the place's next tenant.
    fn claim(&mut self, segment: u32) -> (u32, u64, u32) {
        let Sight { sequence, session, .. } = *self.sight;
        let any_session = self.chance.between(1, u64::from(session) + 4) as u32;
        let sequence_ahead = match self.chance.below(4) {
            0 => SEQUENCE_FAR,
            1 => sequence + self.chance.between(1, 4),
            _ => sequence + self.chance.between(8, 2_000),
        };
        let soon = session + self.chance.below(2) as u32;
        match self.chance.below(4) {
            0..2 if self.focus == Focus::Journal => (segment, sequence_ahead, session),
            _ if self.focus == Focus::Journal => (self.segment_ahead(segment), SEQUENCE_FAR, soon),
            0 => (segment, sequence + self.chance.between(1, 2), session),
            1 => (segment, sequence_ahead, soon),
            _ => (self.segment_ahead(segment), sequence_ahead, any_session),
        }
    }

    /// Header and records of a group.
    fn bare_group(
        &mut self,
        segment: u32,
        offset_bytes: u64,
        sequence: u64,
        session: u32,
        records: &[Record],
    ) -> Vec<u8> {
        let mut encoded = Writer::new();
        records.iter().for_each(|record| record.encode(&mut encoded));
        let room = u64::from(self.superblock.segment_bytes).saturating_sub(offset_bytes) / BLOCK_BYTES;
        let blocks = self.chance.between(1, 4).min(room).max(1);
        let header = GroupHeader {
            session,
            sequence,
            previous_hash: self.sight.hash,
            first_lsn: Lsn(self.sight.next_lsn),
            record_count: records.len() as u32,
            header_bytes: (GROUP_HEADER_BYTES + encoded.len()) as u32,
            group_bytes: (blocks * BLOCK_BYTES) as u32,
            segment: SegmentId(segment),
            offset_bytes,
        };
        let mut group = vec![0; (blocks * BLOCK_BYTES) as usize];
        header.seal(self.key, encoded.as_bytes(), &mut group);
        group.truncate(header.header_bytes as usize);
        group
    }

    fn record(&mut self, segment: u32, offset: u64) -> Record {
        let (volume, block) = (self.volume(), self.chance.below(64));
        let own = Pointer::data(SegmentId(segment), offset + 128, 4128);
        let any_offset = self.chance.below(self.places()) * PLACE_UNIT_BYTES;
        let other = Pointer::data(SegmentId(self.segment_behind()), any_offset, 4128);
        match self.chance.below(4) {
            0 => Record::Write { volume, block, blocks: 1, pointer: own },
            1 => Record::Fill { volume, block, blocks: 64, is_zero: self.chance.one_in(2) },
            2 => Record::Share { volume, block, blocks: 1, expected: own, pointer: other },
            _ => Record::Delete { images: vec![volume, self.volume()] },
        }
    }

    fn page(&mut self, segment: u32, offset_bytes: u64) -> Vec<u8> {
        let content = *self.chance.pick(&[
            PageContent::Map,
            PageContent::VolumeTable,
            PageContent::SegmentTable,
            PageContent::Directory,
            PageContent::Relocations,
        ]);
        let identity = PageIdentity {
            content,
            level: self.chance.below(3) as u8,
            tree: self.volume().0,
            index: self.chance.below(8),
        };
        let is_own = self.chance.one_in(3);
        let header = PageHeader {
            identity,
            base: None,
            codec: Codec::None,
            session: self.chance.between(1, u64::from(self.sight.session) + 4) as u32,
            birth: Lsn(self.sight.next_lsn),
            segment: SegmentId(if is_own { segment } else { self.segment_ahead(segment) }),
            offset_bytes,
        };
        let length = *self.chance.pick(&[0, 16, 200, PAGE_BYTES]);
        let payload: Vec<u8> = (0..length).map(|_| self.chance.next() as u8).collect();
        header.seal(self.key, &payload)
    }

    fn footer(&mut self, segment: u32) -> Vec<u8> {
        let is_container = self.chance.one_in(2);
        let kind = if is_container { SegmentKind::Moved } else { SegmentKind::Journal };
        let entries: Vec<FooterEntry> = (0..self.chance.below(12))
            .map(|_| FooterEntry {
                offset_units: self.chance.below(self.places()) as u32,
                length_bytes: self.chance.between(33, 5_000) as u32,
                owner: self.chance.next(),
                blocks: self.chance.below(17) as u8,
                birth: is_container.then(|| (SegmentId(segment), self.chance.below(self.places()) as u32)),
            })
            .collect();
        let segment = if self.chance.one_in(2) { segment } else { self.segment_ahead(segment) };
        encode_footer(self.key, SegmentId(segment), kind, &entries)
    }

    fn segment_header(&mut self, segment: u32) -> Vec<u8> {
        let drive = DriveIndex(self.chance.below(self.superblock.drives.len() as u64) as u16);
        let header = SegmentHeader {
            pool: self.superblock.pool,
            segment: SegmentId(self.segment_ahead(segment)),
            kind: *self.chance.pick(&[SegmentKind::Journal, SegmentKind::Metadata, SegmentKind::Moved]),
            place: Place { drive, cell: self.chance.below(96) as u32 },
            session: self.sight.session + self.chance.below(4) as u32,
            first_group: self.sight.sequence + self.chance.below(64),
        };
        header.encode(self.key)
    }

    /// One that would win over every other.
    fn superblock(&mut self) -> Vec<u8> {
        let generation = self.superblock.generation + 1000;
        Superblock { generation, key: self.key.clone(), ..self.superblock.clone() }.encode()
    }

    fn owner(&mut self) -> Vec<u8> {
        let owner = Owner {
            pool: self.superblock.pool,
            copy: self.superblock.copy,
            session: self.sight.session + 1,
            beat: self.chance.below(1_000),
            is_open: true,
            machine_name: "forger".to_string(),
            ..Owner::default()
        };
        owner.encode(self.key)
    }

    /// A number that the place of a segment may have next: about as far ahead as it was for other places, or
    /// any that the pool soon gets to.
    fn segment_ahead(&mut self, segment: u32) -> u32 {
        if !self.sight.distances.is_empty() && !self.chance.one_in(4) {
            let distance = *self.chance.pick(&self.sight.distances);
            return segment + (distance + self.chance.below(4) as u32).saturating_sub(2);
        }
        self.superblock.segment_next + self.chance.below(SEGMENTS_AHEAD_MAX + 1) as u32
    }

    fn segment_behind(&mut self) -> u32 {
        self.chance.below(u64::from(self.superblock.segment_next)) as u32
    }

    fn volume(&mut self) -> VolumeId {
        VolumeId(self.chance.below(self.superblock.volume_next.max(1)))
    }

    fn places(&self) -> u64 {
        u64::from(self.superblock.segment_bytes) / PLACE_UNIT_BYTES
    }
}

/// Puts as much of a shape as there is room for; returns how much.
fn put(rest: &mut [u8], shape: &[u8]) -> usize {
    let length = shape.len().min(rest.len());
    rest[..length].copy_from_slice(&shape[..length]);
    length
}
