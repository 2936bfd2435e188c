//! The body of a superblock: sections, each with its kind and length.
//!
//! ```text
//! section: u16 kind   u16 zero   u32 bytes that follow
//! 1 state:    u8 protection  3 zero  u32 segment bytes  u32 cell bytes  u32 zero
//!             u64 fingerprint key  u64 created  u64 checkpoint  u64 volume table  u64 segment table
//!             u16 drive  u16 zero  u32 cell (place of the segment table)  u64 relocation table
//!             u64 notebook  u64 segment next  u64 volume next  u64 hash of the superblock before
//! 2 journal:  u64 sequence  u64 hash before  u16 lanes (1)  6 zero
//!             each lane: u32 segment  u16 lap  u16 zero  u64 offset
//! 3 drives:   u16 drives  u16 bytes of an entry (64)  u32 zero
//!             each: u128 id  u32 cells  u8 state  3 reserved (class, roles)  u64 confirmed
//!                   32 reserved (enclosure)
//! 4 frontier: u16 entries  u16 bytes of an entry (16)  u32 zero
//!             each: u32 segment  u16 drive  u16 zero  u32 cell  u32 zero
//! 5 layout:   see [`layout`](crate::layout); only in pools with parity
//! ```
//!
//! Sections come in the order of their kinds. Those of other kinds, and bytes at the end of known ones,
//! are carried.

use ashlar_units::{DriveIndex, Lsn, SegmentId};

use super::{DRIVES_MAX, DriveEntry, DriveState, FRONTIER_MAX, FrontierEntry, JournalPosition, Superblock};
use crate::bytes::{Reader, Writer};
use crate::layout::{BandShape, Layout};
use crate::segment::{Place, Protection};
use crate::{Damage, DamageKind, Pointer};

const STATE: u16 = 1;
const JOURNAL: u16 = 2;
const DRIVES: u16 = 3;
const FRONTIER: u16 = 4;
const LAYOUT: u16 = 5;

const DRIVE_BYTES: u16 = 64;
const FRONTIER_BYTES: u16 = 16;

pub(super) fn encode(superblock: &Superblock) -> Vec<u8> {
    let mut sections: Vec<(u16, Writer)> = Vec::new();
    let mut section = |kind: u16, mut content: Writer| {
        let tails = superblock.carried.tails.iter().filter(|(of, _)| *of == kind);
        tails.for_each(|(_, tail)| {
            content.put(tail);
        });
        sections.push((kind, content));
    };
    section(STATE, state(superblock));
    section(JOURNAL, journal(&superblock.journal));
    section(DRIVES, drives(&superblock.drives));
    section(FRONTIER, frontier(&superblock.frontier));
    if let Some(layout) = &superblock.layout {
        assert_eq!(layout.stale_from.len(), superblock.drives.len(), "layout and drive table disagree");
        let mut content = Writer::new();
        layout.encode(shape(superblock), &mut content);
        section(LAYOUT, content);
    }
    for (kind, bytes) in &superblock.carried.sections {
        let mut content = Writer::new();
        content.put(bytes);
        section(*kind, content);
    }
    sections.sort_by_key(|(kind, _)| *kind);
    let mut body = Writer::new();
    for (kind, content) in &sections {
        body.u16(*kind).u16(0).u32(content.len() as u32).put(content.as_bytes());
    }
    body.into_bytes()
}

/// Reads the sections into a superblock of which the root block was read.
pub(super) fn decode(superblock: &mut Superblock, body: &[u8]) -> Result<(), Damage> {
    let mut reader = Reader::new(body);
    let mut read: Vec<u16> = Vec::new();
    while reader.position() < body.len() {
        let kind = reader.u16()?;
        reader.u16()?;
        let length = reader.u32()? as usize;
        let bytes = reader.take(length)?;
        // Later ones are read by what earlier ones say.
        if read.last().is_some_and(|before| *before >= kind) {
            return Err(Damage::new(DamageKind::Impossible, "sections of a superblock are not in order"));
        }
        read.push(kind);
        let mut section = Reader::new(bytes);
        match kind {
            STATE => read_state(superblock, &mut section)?,
            JOURNAL => superblock.journal = read_journal(&mut section)?,
            DRIVES => superblock.drives = read_drives(&mut section)?,
            FRONTIER => superblock.frontier = read_frontier(&mut section)?,
            LAYOUT => {
                let drives = superblock.drives.len();
                superblock.layout = Some(Layout::decode(&mut section, shape(superblock), drives)?);
            }
            _ => {
                superblock.carried.sections.push((kind, bytes.to_vec()));
                continue;
            }
        }
        let tail = &bytes[section.position()..];
        if !tail.is_empty() {
            superblock.carried.tails.push((kind, tail.to_vec()));
        }
    }
    if [STATE, JOURNAL, DRIVES, FRONTIER].iter().any(|kind| !read.contains(kind)) {
        return Err(Damage::new(DamageKind::Truncated, "superblock lacks a section"));
    }
    Ok(())
}

/// What every band of this pool says of itself.
fn shape(superblock: &Superblock) -> BandShape {
    BandShape { parity: superblock.protection.parity_strips(), cell_bytes: superblock.cell_bytes }
}

fn state(superblock: &Superblock) -> Writer {
    let mut writer = Writer::new();
    writer.u8(superblock.protection.parity_strips()).u8(0).u16(0);
    writer.u32(superblock.segment_bytes).u32(superblock.cell_bytes).u32(0);
    writer.u64(superblock.fingerprint_key).u64(superblock.created_unix_seconds);
    writer.u64(superblock.checkpoint.0).u64(superblock.volume_table.0).u64(superblock.segment_table.0);
    let place = superblock.segment_table_place;
    writer.u16(place.drive.0).u16(0).u32(place.cell).u64(superblock.relocation_table.0);
    writer.u64(superblock.notebook.0).u64(u64::from(superblock.segment_next));
    writer.u64(superblock.volume_next).u64(superblock.previous_hash);
    writer
}

fn read_state(superblock: &mut Superblock, reader: &mut Reader<'_>) -> Result<(), Damage> {
    superblock.protection = Protection::from_byte(reader.u8()?)?;
    reader.take(3)?;
    superblock.segment_bytes = reader.u32()?;
    superblock.cell_bytes = reader.u32()?;
    reader.u32()?;
    superblock.fingerprint_key = reader.u64()?;
    superblock.created_unix_seconds = reader.u64()?;
    superblock.checkpoint = Lsn(reader.u64()?);
    superblock.volume_table = read_table(reader)?;
    superblock.segment_table = read_table(reader)?;
    superblock.segment_table_place = read_place(reader)?;
    superblock.relocation_table = read_table(reader)?;
    superblock.notebook = read_table(reader)?;
    let segment_next = u32::try_from(reader.u64()?);
    superblock.segment_next = segment_next.map_err(|_| {
        Damage::new(DamageKind::Version, "segment number of a lap this program does not know")
    })?;
    superblock.volume_next = reader.u64()?;
    superblock.previous_hash = reader.u64()?;
    Ok(())
}

/// A table is a page on a drive, or there is none.
fn read_table(reader: &mut Reader<'_>) -> Result<Pointer, Damage> {
    let pointer = Pointer(reader.u64()?);
    if pointer == Pointer::HOLE || pointer.is_page() && pointer.as_in_memory().is_none() {
        return Ok(pointer);
    }
    Err(Damage::new(DamageKind::Impossible, "superblock names a table that is no page"))
}

fn read_place(reader: &mut Reader<'_>) -> Result<Place, Damage> {
    let drive = DriveIndex(reader.u16()?);
    reader.u16()?;
    Ok(Place { drive, cell: reader.u32()? })
}

fn journal(position: &JournalPosition) -> Writer {
    let mut writer = Writer::new();
    writer.u64(position.sequence).u64(position.previous_hash).u16(1).u16(0).u32(0);
    writer.u32(position.segment.0).u16(0).u16(0).u64(position.offset_bytes);
    writer
}

fn read_journal(reader: &mut Reader<'_>) -> Result<JournalPosition, Damage> {
    let (sequence, previous_hash) = (reader.u64()?, reader.u64()?);
    let lanes = reader.u16()?;
    reader.take(6)?;
    let segment = SegmentId(reader.u32()?);
    if (lanes, reader.u16()?, reader.u16()?) != (1, 0, 0) {
        return Err(Damage::new(DamageKind::Version, "journal is of a kind this program does not know"));
    }
    Ok(JournalPosition { segment, offset_bytes: reader.u64()?, sequence, previous_hash })
}

fn drives(entries: &[DriveEntry]) -> Writer {
    let mut writer = Writer::new();
    writer.u16(entries.len() as u16).u16(DRIVE_BYTES).u32(0);
    for entry in entries {
        writer.u128(entry.id).u32(entry.cells).u8(entry.state.to_byte()).put(&entry.carried[..3]);
        writer.u64(entry.confirmed).put(&entry.carried[3..]);
    }
    writer
}

fn read_drives(reader: &mut Reader<'_>) -> Result<Vec<DriveEntry>, Damage> {
    let count = read_count(reader, DRIVE_BYTES, DRIVES_MAX)?;
    let mut drives = Vec::with_capacity(count);
    for _ in 0..count {
        let (id, cells) = (reader.u128()?, reader.u32()?);
        let state = DriveState::from_byte(reader.u8()?)?;
        let mut carried = [0; 35];
        carried[..3].copy_from_slice(reader.take(3)?);
        let confirmed = reader.u64()?;
        carried[3..].copy_from_slice(reader.take(32)?);
        drives.push(DriveEntry { id, cells, state, confirmed, carried });
    }
    Ok(drives)
}

fn frontier(entries: &[FrontierEntry]) -> Writer {
    let mut writer = Writer::new();
    writer.u16(entries.len() as u16).u16(FRONTIER_BYTES).u32(0);
    for FrontierEntry { segment, place } in entries {
        writer.u32(segment.0).u16(place.drive.0).u16(0).u32(place.cell).u32(0);
    }
    writer
}

fn read_frontier(reader: &mut Reader<'_>) -> Result<Vec<FrontierEntry>, Damage> {
    let count = read_count(reader, FRONTIER_BYTES, FRONTIER_MAX)?;
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        entries.push(FrontierEntry { segment: SegmentId(reader.u32()?), place: read_place(reader)? });
        reader.u32()?;
    }
    Ok(entries)
}

fn read_count(reader: &mut Reader<'_>, entry_bytes: u16, most: usize) -> Result<usize, Damage> {
    let (count, bytes) = (usize::from(reader.u16()?), reader.u16()?);
    reader.u32()?;
    if bytes != entry_bytes {
        return Err(Damage::new(DamageKind::Version, "superblock has entries this program does not know"));
    }
    if count > most {
        return Err(Damage::new(DamageKind::Impossible, "superblock tables are too long"));
    }
    Ok(count)
}
