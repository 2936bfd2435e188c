//! The relocation table: where the survivors of emptied segments are now.
//!
//! The cleaner copies what is alive in a segment into containers (segments of kind `moved`) and frees
//! the segment. Pointers keep naming the old address, and so do the moved headers; this table maps it
//! to the new one. An entry lives as long as something refers to the old address.
//!
//! ```text
//! page (level 0):      0 u32 old segment   4 u32 entries   8 u16 lap, 6 zero   16 entries of 12 bytes
//!   entry:             0 u32 old offset / 64   4 u32 container
//!                      8 u32 (new offset / 64) + (bytes rounded up to 256, / 256 - 1) << 20
//! directory (level 1): entries of 16 bytes: u64 pointer to a page (0: none)
//!                      u32 old segment   u32 first old offset / 64
//! root (level 2):      u64 pointers to directories
//! ```

use ashlar_units::SegmentId;

use crate::bytes::{Reader, Writer};
use crate::page::PAGE_BYTES;
use crate::pointer::{LENGTH_UNIT_BYTES, PLACE_UNIT_BYTES};
use crate::{Damage, DamageKind, Pointer};

/// Entries of a page.
pub const RELOCATIONS_PER_PAGE: usize = (PAGE_BYTES - 16) / 12;
/// Pages of a directory.
pub const RELOCATION_PAGES_PER_DIRECTORY: usize = PAGE_BYTES / 16;
/// Directories of the root.
pub const RELOCATION_DIRECTORIES_MAX: usize = PAGE_BYTES / 8;

const OFFSET_BITS: u32 = 20;

/// One survivor: where in its old segment it was, and where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Relocation {
    /// Its offset in the old segment, in place units of 64 bytes.
    pub old_units: u32,
    /// The segment it is in now.
    pub container: SegmentId,
    /// Its offset there, in bytes.
    pub offset_bytes: u64,
    /// How many bytes to read at most, rounded up to 256.
    pub length_bytes_max: u64,
}

/// Writes a page: the survivors of one segment, sorted by old offset.
#[must_use]
pub fn encode_page(segment: SegmentId, entries: &[Relocation]) -> Vec<u8> {
    assert!(entries.len() <= RELOCATIONS_PER_PAGE, "{} relocations in a page", entries.len());
    let mut writer = Writer::new();
    writer.u32(segment.0).u32(entries.len() as u32).u64(0);
    for entry in entries {
        let class = (entry.length_bytes_max / LENGTH_UNIT_BYTES - 1) as u32;
        let units = (entry.offset_bytes / PLACE_UNIT_BYTES) as u32;
        assert!(units >> OFFSET_BITS == 0 && class < 256, "relocation {entry:?} does not fit its fields");
        writer.u32(entry.old_units).u32(entry.container.0).u32(class << OFFSET_BITS | units);
    }
    writer.pad_to(PAGE_BYTES);
    writer.into_bytes()
}

/// Reads a page.
pub fn decode_page(bytes: &[u8]) -> Result<(SegmentId, Vec<Relocation>), Damage> {
    let mut reader = Reader::new(bytes);
    let segment = SegmentId(reader.u32()?);
    let count = reader.u32()? as usize;
    reader.u64()?;
    if count > RELOCATIONS_PER_PAGE {
        return Err(Damage::new(DamageKind::Impossible, "relocation page has too many entries"));
    }
    let mut entries: Vec<Relocation> = Vec::with_capacity(count);
    for _ in 0..count {
        let old_units = reader.u32()?;
        let container = SegmentId(reader.u32()?);
        let packed = reader.u32()?;
        if entries.last().is_some_and(|last| last.old_units >= old_units) {
            return Err(Damage::new(DamageKind::Impossible, "relocation page is not sorted"));
        }
        entries.push(Relocation {
            old_units,
            container,
            offset_bytes: u64::from(packed & ((1 << OFFSET_BITS) - 1)) * PLACE_UNIT_BYTES,
            length_bytes_max: (u64::from(packed >> OFFSET_BITS & 0xff) + 1) * LENGTH_UNIT_BYTES,
        });
    }
    Ok((segment, entries))
}

/// One entry of a directory: a page, and the first address it speaks of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RelocationPage {
    /// Where the page is; a hole when the entry is unused.
    pub pointer: Pointer,
    /// The old segment.
    pub segment: SegmentId,
    /// The first old offset in the page, in place units.
    pub first_units: u32,
}

impl RelocationPage {
    /// An unused entry.
    pub const NONE: RelocationPage =
        RelocationPage { pointer: Pointer::HOLE, segment: SegmentId(0), first_units: 0 };
}

/// Writes a directory.
#[must_use]
pub fn encode_directory(pages: &[RelocationPage]) -> Vec<u8> {
    assert!(pages.len() <= RELOCATION_PAGES_PER_DIRECTORY, "{} pages in a directory", pages.len());
    let mut writer = Writer::new();
    for page in pages {
        writer.u64(page.pointer.0).u32(page.segment.0).u32(page.first_units);
    }
    writer.pad_to(PAGE_BYTES);
    writer.into_bytes()
}

/// Reads a directory: all its entries, unused ones included.
pub fn decode_directory(bytes: &[u8]) -> Result<Vec<RelocationPage>, Damage> {
    let mut reader = Reader::new(bytes);
    (0..RELOCATION_PAGES_PER_DIRECTORY)
        .map(|_| {
            let pointer = Pointer(reader.u64()?);
            let page =
                RelocationPage { pointer, segment: SegmentId(reader.u32()?), first_units: reader.u32()? };
            if pointer.as_in_memory().is_some() || pointer.is_data() {
                return Err(Damage::new(DamageKind::Impossible, "relocation directory names no page"));
            }
            Ok(if pointer.is_page() { page } else { RelocationPage::NONE })
        })
        .collect()
}

/// Writes the root.
#[must_use]
pub fn encode_root(directories: &[Pointer]) -> Vec<u8> {
    assert!(directories.len() <= RELOCATION_DIRECTORIES_MAX, "{} directories", directories.len());
    let mut writer = Writer::new();
    directories.iter().for_each(|pointer| {
        writer.u64(pointer.0);
    });
    writer.pad_to(PAGE_BYTES);
    writer.into_bytes()
}

/// Reads the root: its directories, trailing unused ones cut.
pub fn decode_root(bytes: &[u8]) -> Result<Vec<Pointer>, Damage> {
    let mut reader = Reader::new(bytes);
    let mut directories = Vec::with_capacity(RELOCATION_DIRECTORIES_MAX);
    for _ in 0..RELOCATION_DIRECTORIES_MAX {
        let pointer = Pointer(reader.u64()?);
        if pointer.as_in_memory().is_some() || pointer.is_data() {
            return Err(Damage::new(DamageKind::Impossible, "relocation root names no directory"));
        }
        directories.push(pointer);
    }
    while directories.last().is_some_and(|pointer| !pointer.is_page()) {
        directories.pop();
    }
    Ok(directories)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn entry(number: u32) -> Relocation {
        Relocation {
            old_units: number * 65,
            container: SegmentId(7 + number),
            offset_bytes: u64::from(0xf_ffff - number) * 64,
            length_bytes_max: 256 * (1 + u64::from(number % 256)),
        }
    }

    #[test]
    fn the_fullest_page_fits_and_survives_the_trip() {
        let entries: Vec<Relocation> = (0..RELOCATIONS_PER_PAGE as u32).map(entry).collect();
        let bytes = encode_page(SegmentId(9), &entries);
        assert_eq!(bytes.len(), PAGE_BYTES);
        assert_eq!(decode_page(&bytes).unwrap(), (SegmentId(9), entries));
    }

    #[test]
    fn rubbish_is_refused() {
        let mut unsorted = encode_page(SegmentId(9), &[entry(1), entry(2)]);
        unsorted[16..20].copy_from_slice(&9999_u32.to_le_bytes());
        assert_eq!(decode_page(&unsorted).unwrap_err().kind, DamageKind::Impossible);
        assert!(decode_page(&[0xff; PAGE_BYTES]).is_err());
        assert!(decode_page(&[0; 20]).is_ok_and(|(_, entries)| entries.is_empty()));
        assert!(decode_directory(&[0xff; PAGE_BYTES]).is_err());
        assert!(decode_directory(&[0; 100]).is_err());
        assert!(decode_root(&[0xff; PAGE_BYTES]).is_err());
    }

    #[test]
    fn directories_and_roots_survive_the_trip() {
        let pointer = Pointer::page(SegmentId(3), 4096, 300);
        let page = RelocationPage { pointer, segment: SegmentId(1), first_units: 77 };
        let mut pages = vec![page; 3];
        pages[1] = RelocationPage::NONE;
        let decoded = decode_directory(&encode_directory(&pages)).unwrap();
        assert_eq!(decoded[..3], pages);
        assert!(decoded[3..].iter().all(|page| *page == RelocationPage::NONE));
        assert_eq!(decode_root(&encode_root(&[pointer; 5])).unwrap(), vec![pointer; 5]);
    }
}
