//! Segments on media: the header that opens one, the footer that seals one, the table entry that
//! finds one.

use ashlar_units::{DriveIndex, PoolId, SegmentId};

use crate::bytes::{Reader, Writer};
use crate::{Damage, DamageKind, FORMAT_VERSION, Kind, MediaKey};

/// The header takes one block, so that everything after it can be written aligned.
pub const SEGMENT_HEADER_BYTES: u64 = 4096;
/// Bytes of a segment table entry.
pub const SEGMENT_ENTRY_BYTES: usize = 32;
/// Bytes of a footer entry.
pub const FOOTER_ENTRY_BYTES: u64 = 24;
/// Bytes of a footer entry of a container, which tells the address of birth as well.
pub const MOVED_FOOTER_ENTRY_BYTES: u64 = 32;
/// Bytes of the footer around its entries.
pub const FOOTER_FIXED_BYTES: u64 = 32;

pub(crate) const HEADER_MAGIC: u64 = 0x4153_4547_4844_5231;
/// Where the header's checksum stands: at the end of its block.
const HEADER_CHECKSUM_AT: usize = SEGMENT_HEADER_BYTES as usize - 8;
const FOOTER_MAGIC: u64 = 0x4153_4547_4654_5231;

/// What a segment is written with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentKind {
    /// Journal groups with chunks. Adopted in place as data when protection is `none`.
    Journal,
    /// Page records: maps and tables.
    Metadata,
    /// Chunks and page records that the cleaner moved here; their headers name their old address.
    Moved,
}

impl SegmentKind {
    fn to_byte(self) -> u8 {
        match self {
            SegmentKind::Journal => 1,
            SegmentKind::Metadata => 2,
            SegmentKind::Moved => 3,
        }
    }

    fn from_byte(byte: u8) -> Result<SegmentKind, Damage> {
        match byte {
            1 => Ok(SegmentKind::Journal),
            2 => Ok(SegmentKind::Metadata),
            3 => Ok(SegmentKind::Moved),
            _ => Err(Damage::new(DamageKind::Version, "segment kind is unknown")),
        }
    }
}

/// How a pool survives the loss of drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protection {
    /// Not at all.
    None,
    /// One drive may fail.
    Single,
    /// Two drives may fail.
    Dual,
}

impl Protection {
    /// Drives a segment's parity takes.
    #[must_use]
    pub fn parity_strips(self) -> u8 {
        match self {
            Protection::None => 0,
            Protection::Single => 1,
            Protection::Dual => 2,
        }
    }

    /// The protection of a stored byte.
    pub fn from_byte(byte: u8) -> Result<Protection, Damage> {
        match byte {
            0 => Ok(Protection::None),
            1 => Ok(Protection::Single),
            2 => Ok(Protection::Dual),
            _ => Err(Damage::new(DamageKind::Version, "protection is unknown")),
        }
    }
}

/// Where a segment lives. With protection `none` a cell of one drive; with parity a row, whose cells
/// follow from its number and the layout in the superblock (the drive is then 0).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Place {
    /// The drive.
    pub drive: DriveIndex,
    /// The cell on that drive, or the row.
    pub cell: u32,
}

/// The first block of a segment.
///
/// ```text
///  0 u64 magic   8 u16 version  10 u8 kind  11 u8 lane  12 u32 segment  16 u128 pool  32 u128 media key
/// 48 u16 drive  50 u16 lap      52 u32 cell             56 u32 session  60 u8 stride  61 u8 class  62 u16 0
/// 64 u64 first group                              72 zero           4088 u64 keyed checksum of all before
/// ```
///
/// Lane, lap, stride and class are reserved: zero. The key stands here too, so that a pool whose
/// superblocks are all gone can still be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    /// The pool.
    pub pool: PoolId,
    /// The segment's own number.
    pub segment: SegmentId,
    /// What follows.
    pub kind: SegmentKind,
    /// Where it was written.
    pub place: Place,
    /// The opening of the pool that wrote it.
    pub session: u32,
    /// For a journal: the sequence number of its first group.
    pub first_group: u64,
}

impl SegmentHeader {
    /// The header as one block.
    #[must_use]
    pub fn encode(&self, key: &MediaKey) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u64(HEADER_MAGIC).u16(FORMAT_VERSION).u8(self.kind.to_byte()).u8(0);
        writer.u32(self.segment.0).u128(self.pool.0).u128(key.raw());
        writer.u16(self.place.drive.0).u16(0).u32(self.place.cell).u32(self.session).u32(0);
        writer.u64(self.first_group).pad_to(HEADER_CHECKSUM_AT);
        let sum = key.checksum(Kind::SegmentHeader, writer.as_bytes());
        writer.u64(sum);
        writer.into_bytes()
    }

    /// Reads a header.
    pub fn decode(key: &MediaKey, bytes: &[u8]) -> Result<SegmentHeader, Damage> {
        let mut reader = Reader::new(bytes);
        if reader.u64()? != HEADER_MAGIC {
            return Err(Damage::new(DamageKind::Absent, "no segment header here"));
        }
        if bytes.len() < SEGMENT_HEADER_BYTES as usize {
            return Err(Damage::new(DamageKind::Truncated, "segment header ends early"));
        }
        let stored = Reader::new(&bytes[HEADER_CHECKSUM_AT..]).u64()?;
        if stored != key.checksum(Kind::SegmentHeader, &bytes[..HEADER_CHECKSUM_AT]) {
            return Err(Damage::new(DamageKind::Checksum, "segment header checksum mismatch"));
        }
        if reader.u16()? != FORMAT_VERSION {
            return Err(Damage::new(DamageKind::Version, "segment header version is unknown"));
        }
        let kind = SegmentKind::from_byte(reader.u8()?)?;
        let lane = reader.u8()?;
        let segment = SegmentId(reader.u32()?);
        let pool = PoolId(reader.u128()?);
        reader.u128()?;
        let drive = DriveIndex(reader.u16()?);
        let lap = reader.u16()?;
        let cell = reader.u32()?;
        let session = reader.u32()?;
        if (lane, lap, reader.u32()?) != (0, 0, 0) {
            return Err(Damage::new(DamageKind::Version, "segment header layout is unknown"));
        }
        let first_group = reader.u64()?;
        Ok(SegmentHeader { pool, segment, kind, place: Place { drive, cell }, session, first_group })
    }

    /// The media key that a header of a pool tells, proven by its own checksum: for a pool whose
    /// superblocks are all gone.
    pub fn key_of(bytes: &[u8]) -> Result<MediaKey, Damage> {
        let key = MediaKey::new(Reader::new(bytes.get(32..).unwrap_or_default()).u128()?);
        Self::decode(&key, bytes).map(|_| key)
    }
}

/// One chunk or page record of a sealed segment.
///
/// ```text
/// 0 u32 offset / 64   4 u32 length   8 u64 owner   16 u8 blocks   17 zero
/// 24 u32 birth segment   28 u32 birth offset / 64                 (containers only)
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FooterEntry {
    /// Offset in the segment, in place units of 64 bytes.
    pub offset_units: u32,
    /// Bytes on media.
    pub length_bytes: u32,
    /// Owner hint as in the chunk header.
    pub owner: u64,
    /// Blocks of a chunk that has all of them; 0 when that is not told: of a page record, of a trimmed chunk.
    pub blocks: u8,
    /// Of what was moved here: segment and place units of the address that its header names.
    pub birth: Option<(SegmentId, u32)>,
}

/// Bytes of a footer with `entries` entries of such segments, whole blocks.
#[must_use]
pub fn footer_bytes(kind: SegmentKind, entries: u64) -> u64 {
    footer_bytes_of(entries, entry_bytes(kind))
}

fn entry_bytes(kind: SegmentKind) -> u64 {
    match kind {
        SegmentKind::Journal | SegmentKind::Metadata => FOOTER_ENTRY_BYTES,
        SegmentKind::Moved => MOVED_FOOTER_ENTRY_BYTES,
    }
}

fn footer_bytes_of(entries: u64, entry_bytes: u64) -> u64 {
    (FOOTER_FIXED_BYTES + entries * entry_bytes).next_multiple_of(4096)
}

/// The footer of a sealed segment: its last blocks. The fixed part is at the very end so that a
/// reader finds it without knowing the number of entries.
#[must_use]
pub fn encode_footer(
    key: &MediaKey,
    segment: SegmentId,
    kind: SegmentKind,
    entries: &[FooterEntry],
) -> Vec<u8> {
    let total = footer_bytes(kind, entries.len() as u64) as usize;
    let mut writer = Writer::new();
    for entry in entries {
        assert_eq!(entry.birth.is_some(), kind == SegmentKind::Moved, "{entry:?} of a {kind:?} segment");
        writer.u32(entry.offset_units).u32(entry.length_bytes).u64(entry.owner).u64(u64::from(entry.blocks));
        if let Some((born_in, units)) = entry.birth {
            writer.u32(born_in.0).u32(units);
        }
    }
    writer.pad_to(total - FOOTER_FIXED_BYTES as usize);
    writer
        .u64(FOOTER_MAGIC)
        .u32(segment.0)
        .u32(u32::try_from(entries.len()).expect("a segment has few chunks"));
    writer.u16(FORMAT_VERSION).u16(entry_bytes(kind) as u16).u32(0);
    let sum = key.checksum(Kind::Footer, writer.as_bytes());
    writer.u64(sum);
    writer.into_bytes()
}

/// Bytes of a whole footer, from its fixed part: how much to read from the segment's end. Unverified.
pub fn footer_length(segment: SegmentId, tail: &[u8]) -> Result<u64, Damage> {
    let (count, entry_bytes) = footer_shape(segment, tail)?;
    Ok(footer_bytes_of(count, entry_bytes))
}

/// Entries of a footer and bytes of each.
fn footer_shape(segment: SegmentId, tail: &[u8]) -> Result<(u64, u64), Damage> {
    let fixed = tail.len().checked_sub(FOOTER_FIXED_BYTES as usize);
    let fixed = fixed.ok_or(Damage::new(DamageKind::Truncated, "footer ends early"))?;
    let mut reader = Reader::new(&tail[fixed..]);
    if reader.u64()? != FOOTER_MAGIC {
        return Err(Damage::new(DamageKind::Absent, "no footer here"));
    }
    if reader.u32()? != segment.0 {
        return Err(Damage::new(DamageKind::Misplaced, "footer belongs to another segment"));
    }
    let count = u64::from(reader.u32()?);
    let (version, entry_bytes) = (reader.u16()?, u64::from(reader.u16()?));
    let is_known = [FOOTER_ENTRY_BYTES, MOVED_FOOTER_ENTRY_BYTES].contains(&entry_bytes);
    if version != FORMAT_VERSION || !is_known {
        return Err(Damage::new(DamageKind::Version, "footer is of a kind this program does not know"));
    }
    Ok((count, entry_bytes))
}

/// Reads a whole footer.
pub fn decode_footer(key: &MediaKey, segment: SegmentId, bytes: &[u8]) -> Result<Vec<FooterEntry>, Damage> {
    let (count, entry_bytes) = footer_shape(segment, bytes)?;
    if footer_bytes_of(count, entry_bytes) != bytes.len() as u64 {
        return Err(Damage::new(DamageKind::Truncated, "footer length and entry count disagree"));
    }
    let (covered, stored) = bytes.split_at(bytes.len() - 8);
    if key.checksum(Kind::Footer, covered) != Reader::new(stored).u64()? {
        return Err(Damage::new(DamageKind::Checksum, "footer checksum mismatch"));
    }
    let mut reader = Reader::new(covered);
    let mut entries = Vec::with_capacity(count as usize);
    for _ in 0..count {
        entries.push(FooterEntry {
            offset_units: reader.u32()?,
            length_bytes: reader.u32()?,
            owner: reader.u64()?,
            // The other bytes are zero.
            blocks: reader.u64()? as u8,
            birth: match entry_bytes {
                MOVED_FOOTER_ENTRY_BYTES => Some((SegmentId(reader.u32()?), reader.u32()?)),
                _ => None,
            },
        });
    }
    Ok(entries)
}

/// What the segment table says of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentState {
    /// The place holds nothing.
    Free,
    /// Being written.
    Open,
    /// Written; with or without a footer.
    Sealed,
}

/// One entry of the segment table: 32 bytes, always in memory.
///
/// ```text
///  0 u32 segment   4 u8 state: 0 free, 1 open, 2 sealed, 3 sealed with a footer
///  5 u8 kind       6 u8 protection   7 u8 heat
///  8 u16 drive    10 u16 lap               12 u32 cell
/// 16 u64 birth: journal: first group; metadata: checkpoint LSN
/// 24 u32 used bytes / 64     28 u32 live bytes / 64, an estimate
/// ```
///
/// Heat is reserved and carried while the segment lives. A lap other than zero is of a later program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentEntry {
    /// The segment at this place. Meaningless when free.
    pub segment: SegmentId,
    /// Its state.
    pub state: SegmentState,
    /// Sealed with a footer at its end. Where none was written the place's last tenant may have left
    /// something that passes for one.
    pub has_footer: bool,
    /// What it holds.
    pub kind: SegmentKind,
    /// Its protection.
    pub protection: Protection,
    /// Reserved for how often it is read; carried.
    pub heat: u8,
    /// Where it is.
    pub place: Place,
    /// Journal: sequence number of its first group. Metadata: LSN of its first checkpoint.
    pub birth: u64,
    /// Bytes written, in place units.
    pub used_units: u32,
    /// Bytes alive by the last mark, in place units.
    pub live_units: u32,
}

impl SegmentEntry {
    /// An entry for a free place.
    #[must_use]
    pub fn free(place: Place) -> SegmentEntry {
        SegmentEntry {
            segment: SegmentId(0),
            state: SegmentState::Free,
            has_footer: false,
            kind: SegmentKind::Journal,
            protection: Protection::None,
            heat: 0,
            place,
            birth: 0,
            used_units: 0,
            live_units: 0,
        }
    }

    /// Appends the entry.
    pub fn encode(&self, writer: &mut Writer) {
        let state = match self.state {
            SegmentState::Free => 0,
            SegmentState::Open => 1,
            SegmentState::Sealed if self.has_footer => 3,
            SegmentState::Sealed => 2,
        };
        writer.u32(self.segment.0).u8(state).u8(self.kind.to_byte());
        writer.u8(self.protection.parity_strips()).u8(self.heat);
        writer.u16(self.place.drive.0).u16(0).u32(self.place.cell);
        writer.u64(self.birth).u32(self.used_units).u32(self.live_units);
    }

    /// Reads an entry.
    pub fn decode(reader: &mut Reader<'_>) -> Result<SegmentEntry, Damage> {
        let segment = SegmentId(reader.u32()?);
        let (state, has_footer) = match reader.u8()? {
            0 => (SegmentState::Free, false),
            1 => (SegmentState::Open, false),
            2 => (SegmentState::Sealed, false),
            3 => (SegmentState::Sealed, true),
            _ => return Err(Damage::new(DamageKind::Version, "segment state is unknown")),
        };
        let kind = SegmentKind::from_byte(reader.u8()?)?;
        let protection = Protection::from_byte(reader.u8()?)?;
        let heat = reader.u8()?;
        let drive = DriveIndex(reader.u16()?);
        if reader.u16()? != 0 {
            return Err(Damage::new(DamageKind::Version, "segment is of a lap this program does not know"));
        }
        let cell = reader.u32()?;
        let birth = reader.u64()?;
        let used_units = reader.u32()?;
        let live_units = reader.u32()?;
        let place = Place { drive, cell };
        Ok(SegmentEntry {
            segment,
            state,
            has_footer,
            kind,
            protection,
            heat,
            place,
            birth,
            used_units,
            live_units,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn key() -> MediaKey {
        MediaKey::new(0x1234_5678 << 70)
    }

    #[test]
    fn segment_headers_survive_the_trip_and_notice_damage() {
        let header = SegmentHeader {
            pool: PoolId(0x1234_5678_9abc),
            segment: SegmentId(42),
            kind: SegmentKind::Journal,
            place: Place { drive: DriveIndex(3), cell: 99 },
            session: 7,
            first_group: 1 << 40,
        };
        let bytes = header.encode(&key());
        assert_eq!(bytes.len(), 4096);
        assert_eq!(SegmentHeader::decode(&key(), &bytes).unwrap(), header);
        assert_eq!(SegmentHeader::key_of(&bytes).unwrap(), key());
        for index in (0..bytes.len()).step_by(7) {
            let mut damaged = bytes.clone();
            damaged[index] ^= 4;
            assert!(SegmentHeader::decode(&key(), &damaged).is_err(), "byte {index}");
        }
    }

    #[test]
    fn footers_survive_the_trip_and_notice_damage() {
        for kind in [SegmentKind::Journal, SegmentKind::Metadata, SegmentKind::Moved] {
            for count in [0_u32, 1, 127, 169, 170, 5000] {
                let birth = |index| (kind == SegmentKind::Moved).then_some((SegmentId(index + 3), index * 7));
                let entries: Vec<FooterEntry> = (0..count)
                    .map(|index| FooterEntry {
                        offset_units: index * 65,
                        length_bytes: 4128,
                        owner: u64::from(index),
                        blocks: (index % 17) as u8,
                        birth: birth(index),
                    })
                    .collect();
                let bytes = encode_footer(&key(), SegmentId(8), kind, &entries);
                assert_eq!(bytes.len() as u64, footer_bytes(kind, u64::from(count)));
                assert_eq!(footer_length(SegmentId(8), &bytes).unwrap(), bytes.len() as u64);
                assert_eq!(decode_footer(&key(), SegmentId(8), &bytes).unwrap(), entries);
                let elsewhere = decode_footer(&key(), SegmentId(9), &bytes).unwrap_err();
                assert_eq!(elsewhere.kind, DamageKind::Misplaced);
                let mut damaged = bytes.clone();
                damaged[0] ^= 1;
                assert!(decode_footer(&key(), SegmentId(8), &damaged).is_err());
            }
        }
        assert!(decode_footer(&key(), SegmentId(8), &[]).is_err());
    }

    #[test]
    fn table_entries_are_32_bytes_and_survive_the_trip() {
        let mut entry = SegmentEntry::free(Place { drive: DriveIndex(2), cell: 11 });
        entry.segment = SegmentId(500);
        entry.state = SegmentState::Sealed;
        entry.birth = 77;
        entry.heat = 200;
        entry.used_units = 1 << 20;
        let mut writer = Writer::new();
        entry.encode(&mut writer);
        let bytes = writer.into_bytes();
        assert_eq!(bytes.len(), SEGMENT_ENTRY_BYTES);
        assert_eq!(SegmentEntry::decode(&mut Reader::new(&bytes)).unwrap(), entry);
        let mut writer = Writer::new();
        SegmentEntry { has_footer: true, ..entry }.encode(&mut writer);
        let decoded = SegmentEntry::decode(&mut Reader::new(&writer.into_bytes())).unwrap();
        assert_eq!(decoded, SegmentEntry { has_footer: true, ..entry });
    }
}
