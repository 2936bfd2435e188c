//! The journal group: a checked header with records, then the chunks they speak of.
//!
//! ```text
//!  0 u32 magic     4 u16 version     6 u8 lane        7 u8 stride
//!  8 u32 session  12 u32 header bytes (fixed part and records)
//! 16 u64 sequence 24 u64 hash of the group before
//! 32 u64 LSN of the first record
//! 40 u32 records  44 u16 blocks of the group   46 u8 address shard   47 u8 flags (bit 0: records sealed)
//! 48 u32 segment  52 u16 offset / 4096         54 u16 lap
//! 56 u64 keyed checksum of bytes 0..56 and the records = this group's hash
//! 64 records
//! ```
//!
//! The hash chain makes a prefix of groups provable: a group counts only if every group before it
//! does. Lane, stride, address shard, flags and lap are reserved: zero.
//!
//! A record begins with its type. From type 16 on a class byte and a u16 length follow, so that programs can
//! skip records that they do not know: class 1 may be skipped, any other class ends the journal for them.
//! Type 16, class 0: changes of [notes](crate::notes). Type 17, class 0: a copy.

use ashlar_units::{Lsn, SegmentId, VolumeId};

use crate::bytes::{Reader, Writer};
use crate::catalogue::{
    CARRIED_BYTES, Compression, NAME_BYTES_MAX, VOLUME_ENTRY_BYTES, VolumeEntry, check_size, without_own,
};
use crate::chunk::CHUNK_BLOCKS_MAX;
use crate::notes::{NoteChange, decode_changes, encode_changes};
use crate::{Damage, DamageKind, FORMAT_VERSION, Kind, MediaKey, Pointer};

/// Groups start on and fill multiples of this many bytes.
pub const GROUP_ALIGN_BYTES: u64 = 4096;
/// Bytes of the fixed part of the header.
pub const GROUP_HEADER_BYTES: usize = 64;
/// A group never exceeds this, header and chunks together.
pub const GROUP_BYTES_MAX: u64 = 1 << 20;

pub(crate) const MAGIC: u32 = 0x414a_4731;
/// Images of one record at most: more than any program asks for, and what bounds memory in replay.
const MEMBERS_MAX: u32 = 4096;
/// Records from this type on tell their class and length.
const FIRST_SKIPPABLE: u8 = 16;
/// The class of records that must be understood.
const CLASS_NEEDED: u8 = 0;
/// The class of records that may be skipped.
const CLASS_SKIPPABLE: u8 = 1;
const NOTES: u8 = 16;
const COPY: u8 = 17;
/// Bytes of a copy behind its length.
const COPY_BYTES: u16 = 1 + 3 * 8;

/// Every change of a pool is one record; its LSN is its place in the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// Blocks of one chunk become the content of a volume's blocks.
    Write {
        /// The volume.
        volume: VolumeId,
        /// The first block.
        block: u64,
        /// How many blocks, all of one chunk.
        blocks: u8,
        /// The chunk's first of these blocks.
        pointer: Pointer,
    },
    /// A range becomes a hole or zeroes.
    Fill {
        /// The volume.
        volume: VolumeId,
        /// The first block.
        block: u64,
        /// How many blocks.
        blocks: u64,
        /// Zeroes, else a hole.
        is_zero: bool,
    },
    /// A new, empty volume.
    CreateVolume(Box<VolumeEntry>),
    /// A new size; what lies beyond becomes a hole.
    ResizeVolume {
        /// The volume.
        volume: VolumeId,
        /// The new size.
        size_bytes: u64,
    },
    /// Volumes or snapshot images go.
    Delete {
        /// Which.
        images: Vec<VolumeId>,
    },
    /// One instant of several volumes.
    Snapshot {
        /// The snapshot's name.
        name: String,
        /// When, for people.
        created_unix_seconds: u64,
        /// Volume and the identity of its image.
        members: Vec<(VolumeId, VolumeId)>,
    },
    /// New volumes from snapshot images; all at once.
    Clone {
        /// The new entry (its root is ignored) and the image it starts from.
        members: Vec<(VolumeEntry, VolumeId)>,
    },
    /// Volumes go back to snapshot images.
    Restore {
        /// Volume and image.
        members: Vec<(VolumeId, VolumeId)>,
    },
    /// Blocks of a volume come to share a chunk with equal content, if they still are what they were
    /// when the contents were compared: all of them, or the record changes nothing.
    Share {
        /// The volume.
        volume: VolumeId,
        /// The first block.
        block: u64,
        /// How many blocks, consecutive in both chunks.
        blocks: u8,
        /// What the first block is mapped to.
        expected: Pointer,
        /// What it is mapped to from now on.
        pointer: Pointer,
    },
    /// Blocks of a volume become blocks of a chunk that is there already, whatever they were.
    Copy {
        /// The volume.
        volume: VolumeId,
        /// The first block.
        block: u64,
        /// How many blocks, all of one chunk.
        blocks: u8,
        /// The chunk's first of these blocks.
        pointer: Pointer,
    },
    /// A volume's name and how it is treated, from now on.
    SetEntry {
        /// The volume.
        volume: VolumeId,
        /// Its name.
        name: String,
        /// How its chunks are compressed.
        compression: Compression,
        /// Whether equal blocks are looked for.
        dedupe: bool,
        /// The rest of its policy.
        carried: [u8; CARRIED_BYTES],
    },
    /// Notes get new values or go, all at once.
    Notes {
        /// What becomes of which note, one after the other.
        changes: Vec<NoteChange>,
    },
    /// A record of a later program that may be skipped.
    Skipped {
        /// Its type, more than 16.
        kind: u8,
        /// What it says.
        bytes: Vec<u8>,
    },
}

impl Record {
    /// Bytes of a `Write`.
    pub const WRITE_BYTES: usize = 26;

    /// Bytes of the encoded record: room in a group is reckoned before the record is encoded.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        const TYPE: usize = 1;
        const COUNT: usize = 4;
        const IDENTITY: usize = 8;
        match self {
            Record::Write { .. } => Record::WRITE_BYTES,
            Record::Fill { .. } => TYPE + 1 + 3 * 8,
            Record::CreateVolume(_) => TYPE + VOLUME_ENTRY_BYTES,
            Record::ResizeVolume { .. } => TYPE + IDENTITY + 8,
            Record::Delete { images } => TYPE + COUNT + images.len() * IDENTITY,
            Record::Snapshot { name, members, .. } => {
                TYPE + 1 + name.len() + 8 + COUNT + members.len() * 2 * IDENTITY
            }
            Record::Clone { members } => TYPE + COUNT + members.len() * (IDENTITY + VOLUME_ENTRY_BYTES),
            Record::Restore { members } => TYPE + COUNT + members.len() * 2 * IDENTITY,
            Record::Share { .. } => TYPE + 1 + 4 * 8,
            Record::Copy { .. } => TYPE + 1 + 2 + usize::from(COPY_BYTES),
            Record::SetEntry { name, .. } => TYPE + 2 + IDENTITY + 1 + name.len() + CARRIED_BYTES,
            Record::Notes { changes } => {
                TYPE + 1 + 2 + changes.iter().map(NoteChange::encoded_bytes).sum::<usize>()
            }
            Record::Skipped { bytes, .. } => TYPE + 1 + 2 + bytes.len(),
        }
    }

    /// Appends the record.
    pub fn encode(&self, writer: &mut Writer) {
        match self {
            Record::Write { volume, block, blocks, pointer } => {
                writer.u8(1).u8(*blocks).u64(volume.0).u64(*block).u64(pointer.0);
            }
            Record::Fill { volume, block, blocks, is_zero } => {
                writer.u8(2).u8(u8::from(*is_zero)).u64(volume.0).u64(*block).u64(*blocks);
            }
            Record::CreateVolume(entry) => entry.encode(writer.u8(3)),
            Record::ResizeVolume { volume, size_bytes } => {
                writer.u8(4).u64(volume.0).u64(*size_bytes);
            }
            Record::Delete { images } => {
                writer.u8(5).u32(count(images.len()));
                images.iter().for_each(|image| {
                    writer.u64(image.0);
                });
            }
            Record::Snapshot { name, created_unix_seconds, members } => {
                writer.u8(6).name(name).u64(*created_unix_seconds);
                encode_pairs(writer, members);
            }
            Record::Clone { members } => {
                writer.u8(7).u32(count(members.len()));
                for (entry, image) in members {
                    entry.encode(writer.u64(image.0));
                }
            }
            Record::Restore { members } => encode_pairs(writer.u8(8), members),
            Record::Share { volume, block, blocks, expected, pointer } => {
                writer.u8(9).u8(*blocks).u64(volume.0).u64(*block).u64(expected.0).u64(pointer.0);
            }
            Record::Copy { volume, block, blocks, pointer } => {
                writer.u8(COPY).u8(CLASS_NEEDED).u16(COPY_BYTES).u8(*blocks);
                writer.u64(volume.0).u64(*block).u64(pointer.0);
            }
            Record::SetEntry { volume, name, compression, dedupe, carried } => {
                writer.u8(10).u8(compression.to_byte()).u8(u8::from(*dedupe)).u64(volume.0);
                writer.name(name).put(carried);
            }
            Record::Notes { changes } => {
                let body = encode_changes(changes);
                let length = u16::try_from(body.len()).expect("checked when it was made");
                writer.u8(NOTES).u8(CLASS_NEEDED).u16(length).put(&body);
            }
            Record::Skipped { kind, bytes } => {
                let length = u16::try_from(bytes.len()).expect("such a record is at most 64 KiB");
                writer.u8(*kind).u8(CLASS_SKIPPABLE).u16(length).put(bytes);
            }
        }
    }

    /// Reads a record.
    // tidy: long because it names every record once.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Record, Damage> {
        let entry = |reader: &mut Reader<'_>| -> Result<VolumeEntry, Damage> {
            VolumeEntry::decode(reader.take(VOLUME_ENTRY_BYTES)?)?
                .ok_or(Damage::new(DamageKind::Impossible, "record with an empty volume entry"))
        };
        Ok(match reader.u8()? {
            1 => {
                let blocks = reader.u8()?;
                let volume = VolumeId(reader.u64()?);
                let block = reader.u64()?;
                let pointer = decode_chunk_pointer(reader, blocks)?;
                Record::Write { volume, block, blocks, pointer }
            }
            2 => {
                let is_zero = reader.u8()? != 0;
                let volume = VolumeId(reader.u64()?);
                Record::Fill { volume, block: reader.u64()?, blocks: reader.u64()?, is_zero }
            }
            3 => Record::CreateVolume(Box::new(entry(reader)?)),
            4 => {
                let volume = VolumeId(reader.u64()?);
                Record::ResizeVolume { volume, size_bytes: check_size(reader.u64()?)? }
            }
            5 => {
                let count = read_count(reader)?;
                let mut images = Vec::new();
                for _ in 0..count {
                    images.push(VolumeId(reader.u64()?));
                }
                Record::Delete { images }
            }
            6 => {
                let name = short_name(reader)?;
                let created_unix_seconds = reader.u64()?;
                Record::Snapshot { name, created_unix_seconds, members: decode_pairs(reader)? }
            }
            7 => {
                let count = read_count(reader)?;
                let mut members = Vec::new();
                for _ in 0..count {
                    let image = VolumeId(reader.u64()?);
                    members.push((entry(reader)?, image));
                }
                Record::Clone { members }
            }
            8 => Record::Restore { members: decode_pairs(reader)? },
            9 => {
                let blocks = reader.u8()?;
                let volume = VolumeId(reader.u64()?);
                let block = reader.u64()?;
                let expected = decode_chunk_pointer(reader, blocks)?;
                let pointer = decode_chunk_pointer(reader, blocks)?;
                Record::Share { volume, block, blocks, expected, pointer }
            }
            10 => {
                let compression = Compression::from_byte(reader.u8()?)?;
                let dedupe = reader.u8()? != 0;
                let volume = VolumeId(reader.u64()?);
                let name = short_name(reader)?;
                let carried = without_own(reader.array()?);
                Record::SetEntry { volume, name, compression, dedupe, carried }
            }
            kind @ FIRST_SKIPPABLE.. => decode_with_class(kind, reader)?,
            _ => return Err(unknown_record()),
        })
    }
}

/// The rest of a record that tells its class and length.
fn decode_with_class(kind: u8, reader: &mut Reader<'_>) -> Result<Record, Damage> {
    let (class, length) = (reader.u8()?, reader.u16()?);
    let bytes = reader.take(usize::from(length))?;
    match (kind, class) {
        (NOTES, CLASS_NEEDED) => Ok(Record::Notes { changes: decode_changes(bytes)? }),
        (COPY, CLASS_NEEDED) => decode_copy(bytes),
        (NOTES | COPY, _) => Err(unknown_record()),
        (_, CLASS_SKIPPABLE) => Ok(Record::Skipped { kind, bytes: bytes.to_vec() }),
        _ => Err(unknown_record()),
    }
}

fn decode_copy(bytes: &[u8]) -> Result<Record, Damage> {
    if bytes.len() != usize::from(COPY_BYTES) {
        return Err(Damage::new(DamageKind::Impossible, "record of a copy has another length"));
    }
    let mut reader = Reader::new(bytes);
    let blocks = reader.u8()?;
    let volume = VolumeId(reader.u64()?);
    let block = reader.u64()?;
    Ok(Record::Copy { volume, block, blocks, pointer: decode_chunk_pointer(&mut reader, blocks)? })
}

fn unknown_record() -> Damage {
    Damage::new(DamageKind::Version, "journal record is unknown")
}

/// A pointer to the first of so many blocks of one chunk.
fn decode_chunk_pointer(reader: &mut Reader<'_>, blocks: u8) -> Result<Pointer, Damage> {
    let pointer = Pointer(reader.u64()?);
    if pointer.is_data() && blocks > 0 && pointer.block_index() + usize::from(blocks) <= CHUNK_BLOCKS_MAX {
        return Ok(pointer);
    }
    Err(Damage::new(DamageKind::Impossible, "record reaches beyond its chunk"))
}

fn short_name(reader: &mut Reader<'_>) -> Result<String, Damage> {
    let name = reader.name()?;
    if name.len() > NAME_BYTES_MAX {
        return Err(Damage::new(DamageKind::Impossible, "name in a record is too long"));
    }
    Ok(name)
}

fn read_count(reader: &mut Reader<'_>) -> Result<u32, Damage> {
    let count = reader.u32()?;
    if count > MEMBERS_MAX {
        return Err(Damage::new(DamageKind::Impossible, "record has too many members"));
    }
    Ok(count)
}

fn count(length: usize) -> u32 {
    u32::try_from(length).expect("a record has few members")
}

fn encode_pairs(writer: &mut Writer, pairs: &[(VolumeId, VolumeId)]) {
    writer.u32(count(pairs.len()));
    for (first, second) in pairs {
        writer.u64(first.0).u64(second.0);
    }
}

fn decode_pairs(reader: &mut Reader<'_>) -> Result<Vec<(VolumeId, VolumeId)>, Damage> {
    let count = read_count(reader)?;
    let mut pairs = Vec::new();
    for _ in 0..count {
        pairs.push((VolumeId(reader.u64()?), VolumeId(reader.u64()?)));
    }
    Ok(pairs)
}

/// A group's fixed header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupHeader {
    /// The opening of the pool that wrote it.
    pub session: u32,
    /// Its place in the chain.
    pub sequence: u64,
    /// The hash of the group before.
    pub previous_hash: u64,
    /// The LSN of its first record.
    pub first_lsn: Lsn,
    /// Records in it.
    pub record_count: u32,
    /// Fixed part and records.
    pub header_bytes: u32,
    /// Header and chunks, whole blocks.
    pub group_bytes: u32,
    /// Where it lives.
    pub segment: SegmentId,
    /// Its offset in the segment.
    pub offset_bytes: u64,
}

impl GroupHeader {
    /// Writes header and records to the start of `group` and returns the group's hash.
    pub fn seal(&self, key: &MediaKey, records: &[u8], group: &mut [u8]) -> u64 {
        assert_eq!(self.header_bytes as usize, GROUP_HEADER_BYTES + records.len(), "header length");
        assert_eq!(self.group_bytes as usize, group.len(), "group length");
        assert!(self.offset_bytes.is_multiple_of(GROUP_ALIGN_BYTES), "group offset {}", self.offset_bytes);
        let mut writer = Writer::new();
        writer.u32(MAGIC).u16(FORMAT_VERSION).u8(0).u8(0).u32(self.session).u32(self.header_bytes);
        writer.u64(self.sequence).u64(self.previous_hash).u64(self.first_lsn.0);
        let blocks =
            |bytes: u64| u16::try_from(bytes / GROUP_ALIGN_BYTES).expect("a segment is at most 64 MiB");
        writer.u32(self.record_count).u16(blocks(u64::from(self.group_bytes))).u16(0);
        writer.u32(self.segment.0).u16(blocks(self.offset_bytes)).u16(0);
        let hash = key.checksum_of(Kind::Group, writer.as_bytes(), records);
        writer.u64(hash);
        group[..GROUP_HEADER_BYTES].copy_from_slice(writer.as_bytes());
        group[GROUP_HEADER_BYTES..self.header_bytes as usize].copy_from_slice(records);
        hash
    }

    /// Reads the fixed part, unverified: only its lengths may be used, to read the rest.
    pub fn peek(bytes: &[u8]) -> Result<GroupHeader, Damage> {
        let mut reader = Reader::new(bytes);
        if reader.u32()? != MAGIC {
            return Err(Damage::new(DamageKind::Absent, "no journal group here"));
        }
        if reader.u16()? != FORMAT_VERSION {
            return Err(Damage::new(DamageKind::Version, "journal group version is unknown"));
        }
        if (reader.u8()?, reader.u8()?) != (0, 0) {
            return Err(Damage::new(DamageKind::Version, "journal group layout is unknown"));
        }
        let session = reader.u32()?;
        let header_bytes = reader.u32()?;
        let sequence = reader.u64()?;
        let previous_hash = reader.u64()?;
        let first_lsn = Lsn(reader.u64()?);
        let record_count = reader.u32()?;
        let group_bytes = u32::from(reader.u16()?) * GROUP_ALIGN_BYTES as u32;
        let is_plain = reader.u16()? == 0;
        let segment = SegmentId(reader.u32()?);
        let offset_bytes = u64::from(reader.u16()?) * GROUP_ALIGN_BYTES;
        if !is_plain || reader.u16()? != 0 {
            return Err(Damage::new(DamageKind::Version, "journal group layout is unknown"));
        }
        let possible = header_bytes as usize >= GROUP_HEADER_BYTES
            && header_bytes <= group_bytes
            && u64::from(group_bytes) <= GROUP_BYTES_MAX;
        if !possible {
            return Err(Damage::new(DamageKind::Impossible, "journal group has impossible lengths"));
        }
        Ok(GroupHeader {
            session,
            sequence,
            previous_hash,
            first_lsn,
            record_count,
            header_bytes,
            group_bytes,
            segment,
            offset_bytes,
        })
    }

    /// Reads and verifies header and records (`bytes` must hold `header_bytes`). Returns the header,
    /// its records and its hash.
    pub fn open(key: &MediaKey, bytes: &[u8]) -> Result<(GroupHeader, Vec<Record>, u64), Damage> {
        let header = Self::peek(bytes)?;
        let mut reader = Reader::new(bytes);
        let fixed = reader.take(GROUP_HEADER_BYTES - 8)?;
        let stored = reader.u64()?;
        let encoded = reader.take(header.header_bytes as usize - GROUP_HEADER_BYTES)?;
        if key.checksum_of(Kind::Group, fixed, encoded) != stored {
            return Err(Damage::new(DamageKind::Checksum, "journal group checksum mismatch"));
        }
        let mut reader = Reader::new(encoded);
        let mut records = Vec::new();
        for _ in 0..header.record_count {
            records.push(Record::decode(&mut reader)?);
        }
        Ok((header, records, stored))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::catalogue::tests::sample;
    use crate::notes::{NOTES_RECORD_BYTES_MAX, NoteKey};

    fn key() -> MediaKey {
        MediaKey::new(0x1234_5678 << 70)
    }

    fn records() -> Vec<Record> {
        let pointer = Pointer::data(SegmentId(4), 8192, 4128);
        let older = Pointer::data(SegmentId(2), 640, 900).with_block_index(3);
        vec![
            Record::Write { volume: VolumeId(1), block: 77, blocks: 2, pointer },
            Record::Fill { volume: VolumeId(1), block: 0, blocks: 1 << 36, is_zero: true },
            Record::CreateVolume(Box::new(sample())),
            Record::ResizeVolume { volume: VolumeId(2), size_bytes: 4096 },
            Record::Delete { images: vec![VolumeId(1), VolumeId(2)] },
            Record::Snapshot {
                name: "monday".into(),
                created_unix_seconds: 5,
                members: vec![(VolumeId(1), VolumeId(7))],
            },
            Record::Clone { members: vec![(sample(), VolumeId(7))] },
            Record::Restore { members: vec![(VolumeId(1), VolumeId(7))] },
            Record::Share { volume: VolumeId(1), block: 77, blocks: 2, expected: pointer, pointer: older },
            Record::Copy { volume: VolumeId(1), block: 78, blocks: 13, pointer: older },
            Record::SetEntry {
                volume: VolumeId(3),
                name: "sales".into(),
                compression: Compression::Lz4,
                dedupe: true,
                carried: without_own([5; CARRIED_BYTES]),
            },
            Record::Notes { changes: note_changes() },
            Record::Skipped { kind: 200, bytes: vec![1, 2, 3] },
        ]
    }

    fn note_changes() -> Vec<NoteChange> {
        let key = NoteKey { kind: 4, subject: 9, part: 1 };
        vec![
            NoteChange { key, value: Some((1, b"gold".to_vec())) },
            NoteChange { key: NoteKey { part: 2, ..key }, value: None },
        ]
    }

    fn group() -> (GroupHeader, Vec<u8>, u64) {
        let mut writer = Writer::new();
        for record in records() {
            record.encode(&mut writer);
        }
        let encoded = writer.into_bytes();
        let header = GroupHeader {
            session: 3,
            sequence: 10,
            previous_hash: 0xabc,
            first_lsn: Lsn(500),
            record_count: 13,
            header_bytes: (GROUP_HEADER_BYTES + encoded.len()) as u32,
            group_bytes: 8192,
            segment: SegmentId(4),
            offset_bytes: 4096,
        };
        let mut bytes = vec![0; 8192];
        let hash = header.seal(&key(), &encoded, &mut bytes);
        (header, bytes, hash)
    }

    #[test]
    fn groups_with_every_record_survive_the_trip() {
        let (header, bytes, hash) = group();
        assert_eq!(GroupHeader::open(&key(), &bytes).unwrap(), (header, records(), hash));
    }

    #[test]
    fn the_length_of_every_record_is_what_encoding_it_takes() {
        for record in records() {
            let mut writer = Writer::new();
            record.encode(&mut writer);
            assert_eq!(record.encoded_bytes(), writer.len(), "{record:?}");
        }
    }

    #[test]
    fn every_flipped_byte_of_header_and_records_is_noticed() {
        let (header, bytes, _) = group();
        for index in 0..header.header_bytes as usize {
            let mut damaged = bytes.clone();
            damaged[index] ^= 0x80;
            assert!(GroupHeader::open(&key(), &damaged).is_err(), "byte {index}");
        }
    }

    #[test]
    fn notes_are_a_record_that_must_be_understood() {
        let mut writer = Writer::new();
        Record::Notes { changes: note_changes() }.encode(&mut writer);
        let mut bytes = writer.into_bytes();
        assert_eq!(bytes[..2], [16, 0]);
        bytes[1] = CLASS_SKIPPABLE;
        let damage = Record::decode(&mut Reader::new(&bytes)).unwrap_err();
        assert_eq!(damage.kind, DamageKind::Version);
        // As long as the length can say.
        let key = note_changes()[0].key;
        let value = |bytes| NoteChange { key, value: Some((1, vec![7; bytes])) };
        let mut changes: Vec<NoteChange> = (0..16).map(|_| value(4000)).collect();
        let used: usize = changes.iter().map(NoteChange::encoded_bytes).sum();
        changes.push(value(NOTES_RECORD_BYTES_MAX - used - 16));
        let mut writer = Writer::new();
        let record = Record::Notes { changes };
        record.encode(&mut writer);
        assert_eq!(writer.len(), 4 + NOTES_RECORD_BYTES_MAX);
        assert_eq!(Record::decode(&mut Reader::new(writer.as_bytes())).unwrap(), record);
    }

    #[test]
    fn a_copy_is_a_record_that_must_be_understood_and_names_a_chunk() {
        let pointer = Pointer::data(SegmentId(4), 8192, 4128).with_block_index(3);
        let encoded = |blocks, pointer| {
            let mut writer = Writer::new();
            Record::Copy { volume: VolumeId(1), block: 0, blocks, pointer }.encode(&mut writer);
            writer.into_bytes()
        };
        let kind = |bytes: &[u8]| Record::decode(&mut Reader::new(bytes)).unwrap_err().kind;
        let good = encoded(13, pointer);
        assert_eq!(good[..4], [17, 0, 25, 0]);
        assert!(Record::decode(&mut Reader::new(&good)).is_ok());
        let mut skippable = good.clone();
        skippable[1] = CLASS_SKIPPABLE;
        assert_eq!(kind(&skippable), DamageKind::Version);
        let mut longer = good.clone();
        longer[2] += 1;
        longer.push(0);
        for impossible in [
            longer,
            encoded(14, pointer),
            encoded(0, pointer),
            encoded(1, Pointer::HOLE),
            encoded(1, Pointer::ZERO),
        ] {
            assert_eq!(kind(&impossible), DamageKind::Impossible);
        }
    }

    #[test]
    fn a_snapshot_name_that_fits_no_entry_is_impossible() {
        for (length, is_good) in [(NAME_BYTES_MAX, true), (NAME_BYTES_MAX + 1, false)] {
            let record = Record::Snapshot {
                name: "n".repeat(length),
                created_unix_seconds: 5,
                members: vec![(VolumeId(1), VolumeId(7))],
            };
            let mut writer = Writer::new();
            record.encode(&mut writer);
            assert_eq!(Record::decode(&mut Reader::new(writer.as_bytes())).is_ok(), is_good, "{length}");
        }
    }

    #[test]
    fn write_records_beyond_their_chunk_are_impossible() {
        let pointer = Pointer::data(SegmentId(4), 8192, 4128).with_block_index(15);
        let mut writer = Writer::new();
        Record::Write { volume: VolumeId(1), block: 0, blocks: 2, pointer }.encode(&mut writer);
        assert_eq!(writer.len(), Record::WRITE_BYTES);
        assert!(Record::decode(&mut Reader::new(writer.as_bytes())).is_err());
    }
}
