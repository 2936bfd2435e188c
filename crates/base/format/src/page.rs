//! The page record: a 64-byte checked header before one map or table page.
//!
//! ```text
//!  0 u32 magic   4 u16 version   6 u8 encoding   7 u8 level
//!  8 u8 content  9 u8 codec     10 u16 payload bytes
//! 12 u32 session
//! 16 u64 tree (the volume it was written for, a hint)   24 u64 index (position at its level)
//! 32 u64 birth LSN              40 u64 base pointer (DELTA only)
//! 48 u32 segment               52 u32 offset / 64
//! 56 u64 keyed checksum of bytes 0..56 and the payload
//! ```
//!
//! Encoding FULL carries the whole 4 KiB page. DELTA, for pages of maps only, carries the slots in which
//! the page differs from its base ([`overrides`](crate::overrides)): a FULL record of the same identity.
//! The base of a DELTA is never a DELTA, so a page is read with two reads at most.

use ashlar_units::{Lsn, SegmentId};

use crate::bytes::{Reader, Writer};
use crate::chunk::Codec;
use crate::pointer::PLACE_UNIT_BYTES;
use crate::{Damage, DamageKind, FORMAT_VERSION, Kind, MediaKey, Pointer};

/// Bytes of the header.
pub const PAGE_HEADER_BYTES: usize = 64;
/// Bytes of a page in memory and decoded.
pub const PAGE_BYTES: usize = 4096;
/// Pointers in a page.
pub const PAGE_POINTERS: usize = PAGE_BYTES / 8;

pub(crate) const MAGIC: u32 = 0x4150_4731;
const ENCODING_FULL: u8 = 1;
const ENCODING_DELTA: u8 = 2;

/// What a page holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageContent {
    /// Pointers of a volume's map.
    Map,
    /// Volume entries.
    VolumeTable,
    /// Segment entries.
    SegmentTable,
    /// Pointers to the pages of a table.
    Directory,
    /// Where the survivors of emptied segments are.
    Relocations,
    /// Notes of the notebook.
    Notebook,
}

impl PageContent {
    fn to_byte(self) -> u8 {
        match self {
            PageContent::Map => 1,
            PageContent::VolumeTable => 2,
            PageContent::SegmentTable => 3,
            PageContent::Directory => 4,
            PageContent::Relocations => 5,
            PageContent::Notebook => 6,
        }
    }

    fn from_byte(byte: u8) -> Result<PageContent, Damage> {
        match byte {
            1 => Ok(PageContent::Map),
            2 => Ok(PageContent::VolumeTable),
            3 => Ok(PageContent::SegmentTable),
            4 => Ok(PageContent::Directory),
            5 => Ok(PageContent::Relocations),
            6 => Ok(PageContent::Notebook),
            _ => Err(Damage::new(DamageKind::Version, "page content is unknown")),
        }
    }
}

/// Who a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageIdentity {
    /// What it holds.
    pub content: PageContent,
    /// 0 for leaves.
    pub level: u8,
    /// The tree it was written for: clones share pages, so a hint.
    pub tree: u64,
    /// Its position among the pages of its level.
    pub index: u64,
}

/// A page record's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageHeader {
    /// Who it is.
    pub identity: PageIdentity,
    /// The record of the page that the payload overrides; `None` when the payload is the whole page.
    pub base: Option<Pointer>,
    /// How the payload is stored.
    pub codec: Codec,
    /// The opening of the pool that wrote it.
    pub session: u32,
    /// The checkpoint it was written for.
    pub birth: Lsn,
    /// Where it lives.
    pub segment: SegmentId,
    /// Its offset in the segment.
    pub offset_bytes: u64,
}

impl PageHeader {
    /// The whole record: header and payload (the page, compressed by `codec` or as it is; or overrides).
    #[must_use]
    pub fn seal(&self, key: &MediaKey, payload: &[u8]) -> Vec<u8> {
        let mut writer = Writer::new();
        let length = u16::try_from(payload.len()).expect("a page is 4 KiB");
        let encoding = if self.base.is_some() { ENCODING_DELTA } else { ENCODING_FULL };
        writer.u32(MAGIC).u16(FORMAT_VERSION).u8(encoding).u8(self.identity.level);
        let codec = match self.codec {
            Codec::None => 0,
            Codec::Lz4 => 1,
            Codec::Zstd => 2,
        };
        writer.u8(self.identity.content.to_byte()).u8(codec).u16(length).u32(self.session);
        writer.u64(self.identity.tree).u64(self.identity.index).u64(self.birth.0);
        writer.u64(self.base.map_or(0, |base| base.0));
        writer.u32(self.segment.0);
        writer.u32(u32::try_from(self.offset_bytes / PLACE_UNIT_BYTES).expect("a segment is at most 64 MiB"));
        let mut record = writer.into_bytes();
        let sum = key.checksum_of(Kind::Page, &record, payload);
        record.extend_from_slice(&sum.to_le_bytes());
        record.extend_from_slice(payload);
        record
    }

    /// Reads and verifies the record that `pointer` leads to.
    pub fn open<'a>(
        key: &MediaKey,
        pointer: Pointer,
        bytes: &'a [u8],
    ) -> Result<(PageHeader, &'a [u8]), Damage> {
        let (header, payload) = Self::open_any(key, bytes)?;
        if header.segment != pointer.segment() || header.offset_bytes != pointer.offset_bytes() {
            return Err(Damage::new(DamageKind::Misplaced, "page record belongs to another place"));
        }
        Ok((header, payload))
    }

    /// Reads and verifies a record wherever it says it lives.
    pub fn open_any<'a>(key: &MediaKey, bytes: &'a [u8]) -> Result<(PageHeader, &'a [u8]), Damage> {
        let mut reader = Reader::new(bytes);
        if reader.u32()? != MAGIC {
            return Err(Damage::new(DamageKind::Absent, "no page record here"));
        }
        let version = reader.u16()?;
        let encoding = reader.u8()?;
        let level = reader.u8()?;
        let content = reader.u8()?;
        let codec = reader.u8()?;
        let length = usize::from(reader.u16()?);
        let session = reader.u32()?;
        let tree = reader.u64()?;
        let index = reader.u64()?;
        let birth = Lsn(reader.u64()?);
        let base = Pointer(reader.u64()?);
        let segment = SegmentId(reader.u32()?);
        let offset_bytes = u64::from(reader.u32()?) * PLACE_UNIT_BYTES;
        let stored = reader.u64()?;
        let payload = reader.take(length)?;
        if key.checksum_of(Kind::Page, &bytes[..56], payload) != stored {
            return Err(Damage::new(DamageKind::Checksum, "page record checksum mismatch"));
        }
        if version != FORMAT_VERSION {
            return Err(Damage::new(DamageKind::Version, "page record version is unknown"));
        }
        let identity = PageIdentity { content: PageContent::from_byte(content)?, level, tree, index };
        let codec = Codec::from_byte(codec)?;
        let base = match encoding {
            ENCODING_FULL => None,
            ENCODING_DELTA => Some(check_base(base, identity, codec)?),
            _ => return Err(Damage::new(DamageKind::Version, "page record encoding is unknown")),
        };
        Ok((PageHeader { identity, base, codec, session, birth, segment, offset_bytes }, payload))
    }
}

fn check_base(base: Pointer, identity: PageIdentity, codec: Codec) -> Result<Pointer, Damage> {
    let is_possible = base.is_page() && base.as_in_memory().is_none();
    if !is_possible || identity.content != PageContent::Map || codec != Codec::None {
        return Err(Damage::new(DamageKind::Impossible, "page record cannot have this base"));
    }
    Ok(base)
}

/// A page of pointers as bytes.
#[must_use]
pub fn pointers_to_bytes(pointers: &[Pointer; PAGE_POINTERS]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PAGE_BYTES);
    for pointer in pointers {
        bytes.extend_from_slice(&pointer.0.to_le_bytes());
    }
    bytes
}

/// Bytes as a page of pointers. Pointers to memory pages never come from a drive.
pub fn pointers_from_bytes(bytes: &[u8]) -> Result<Box<[Pointer; PAGE_POINTERS]>, Damage> {
    if bytes.len() != PAGE_BYTES {
        return Err(Damage::new(DamageKind::Truncated, "page is not 4 KiB"));
    }
    let mut page = Box::new([Pointer::HOLE; PAGE_POINTERS]);
    for (slot, chunk) in page.iter_mut().zip(bytes.chunks_exact(8)) {
        let mut raw = [0; 8];
        raw.copy_from_slice(chunk);
        let pointer = Pointer(u64::from_le_bytes(raw));
        if pointer.as_in_memory().is_some() {
            return Err(Damage::new(DamageKind::Impossible, "page on a drive points into memory"));
        }
        *slot = pointer;
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn key() -> MediaKey {
        MediaKey::new(0x1234_5678 << 70)
    }

    fn sample() -> (PageHeader, Vec<u8>) {
        let identity = PageIdentity { content: PageContent::Map, level: 2, tree: 9, index: 4 };
        let header = PageHeader {
            identity,
            base: None,
            codec: Codec::Lz4,
            session: 3,
            birth: Lsn(1000),
            segment: SegmentId(12),
            offset_bytes: 4096 + 64,
        };
        (header, header.seal(&key(), &[7; 333]))
    }

    fn delta_sample() -> (PageHeader, Vec<u8>) {
        let base = Some(Pointer::page(SegmentId(11), 128, 900));
        let header = PageHeader { base, codec: Codec::None, ..sample().0 };
        (header, header.seal(&key(), &[7; 33]))
    }

    #[test]
    fn a_sealed_record_opens_at_its_own_place_only() {
        let (header, bytes) = sample();
        assert_eq!(bytes.len(), PAGE_HEADER_BYTES + 333);
        let pointer = Pointer::page(SegmentId(12), 4096 + 64, bytes.len() as u64);
        assert_eq!(PageHeader::open(&key(), pointer, &bytes).unwrap(), (header, &[7; 333][..]));
        let other = Pointer::page(SegmentId(12), 4096, bytes.len() as u64);
        assert_eq!(PageHeader::open(&key(), other, &bytes).unwrap_err().kind, DamageKind::Misplaced);
    }

    #[test]
    fn a_delta_names_its_base() {
        let (header, bytes) = delta_sample();
        let pointer = Pointer::page(header.segment, header.offset_bytes, bytes.len() as u64);
        assert_eq!(PageHeader::open(&key(), pointer, &bytes).unwrap(), (header, &[7; 33][..]));
        assert_eq!(bytes[40..48], header.base.unwrap().0.to_le_bytes());
    }

    #[test]
    fn an_impossible_base_is_damage() {
        let (header, _) = delta_sample();
        let table = PageIdentity { content: PageContent::VolumeTable, ..header.identity };
        let refused = [
            PageHeader { base: Some(Pointer::in_memory(3)), ..header },
            PageHeader { base: Some(Pointer::data(SegmentId(11), 128, 900)), ..header },
            PageHeader { base: Some(Pointer::HOLE), ..header },
            PageHeader { identity: table, ..header },
            PageHeader { codec: Codec::Lz4, ..header },
        ];
        for header in refused {
            let bytes = header.seal(&key(), &[7; 33]);
            let damage = PageHeader::open_any(&key(), &bytes).unwrap_err();
            assert_eq!(damage.kind, DamageKind::Impossible, "{header:?}");
        }
    }

    #[test]
    fn every_flipped_byte_is_noticed() {
        for (header, bytes) in [sample(), delta_sample()] {
            let pointer = Pointer::page(header.segment, header.offset_bytes, bytes.len() as u64);
            for index in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[index] ^= 0x10;
                assert!(PageHeader::open(&key(), pointer, &damaged).is_err(), "byte {index}");
            }
        }
    }

    #[test]
    fn pages_of_pointers_survive_the_trip() {
        let mut page = [Pointer::HOLE; PAGE_POINTERS];
        page[3] = Pointer::data(SegmentId(1), 4096, 5000);
        page[511] = Pointer::ZERO;
        assert_eq!(*pointers_from_bytes(&pointers_to_bytes(&page)).unwrap(), page);
        page[4] = Pointer::in_memory(8);
        assert!(pointers_from_bytes(&pointers_to_bytes(&page)).is_err());
    }
}
