//! The superblock: who the pool is and where everything starts. One 4 KiB slot of a ring of eight.
//!
//! Slot `generation % 8` of every drive is written; the highest valid generation that a majority of
//! the drives its own drive table names agree on decides; with protection the highest of all. Drives that
//! have left are named so that places keep their numbers, and are not counted.
//! Feature flags follow the usual rule: unknown `compatible` bits are ignored, unknown `read_only` bits
//! allow reading only, unknown `incompatible` bits refuse the pool.

use ashlar_units::{DriveIndex, Lsn, PoolId, SegmentId};

use crate::bytes::{Reader, Writer};
use crate::layout::Layout;
use crate::segment::{Place, Protection};
use crate::{Damage, DamageKind, FORMAT_VERSION, Pointer, checksum};

/// Bytes of a slot.
pub const SUPERBLOCK_BYTES: usize = 4096;
/// Slots of the ring.
pub const SUPERBLOCK_SLOTS: u64 = 8;
/// Where the first cell starts on a drive.
pub const CELLS_START_BYTES: u64 = 1 << 20;
/// Drives of a pool at most: what the drive table of one slot holds.
pub const DRIVES_MAX: usize = 48;
/// Frontier entries at most.
pub const FRONTIER_MAX: usize = 96;

const MAGIC: u64 = 0x4153_484c_4152_5331;
const CHECKSUM_SEED: u64 = 0x7375_7065;

/// The name ends here at the latest; the fixed fields follow.
const NAME_END: usize = 128;

const KNOWN_READ_ONLY: u64 = 0;
/// The pool has a relocation table: who does not know it would take moved data for lost.
pub const INCOMPATIBLE_RELOCATIONS: u64 = 1;
/// Map pages may be written as the difference from an earlier record of theirs.
pub const INCOMPATIBLE_DELTA_PAGES: u64 = 2;

/// The journal may hold records `Share` and `SetPolicy`: who does not know them would take them for
/// the journal's end.
pub const INCOMPATIBLE_SHARES: u64 = 4;

/// Chunks may be trimmed to the blocks that something refers to.
pub const INCOMPATIBLE_TRIMMED_CHUNKS: u64 = 8;

/// Segments are rows of columns with parity, and the superblock says which drives hold them.
pub const INCOMPATIBLE_PARITY: u64 = 16;

/// Rows leave spare cells, in which drives may live that are no more.
pub const INCOMPATIBLE_SPARES: u64 = 32;

/// Drives may be leaving or gone: who does not know that would give out their places, or ask for a drive
/// that is not needed any more.
pub const INCOMPATIBLE_DRIVES_LEAVE: u64 = 64;

const KNOWN_INCOMPATIBLE: u64 = INCOMPATIBLE_RELOCATIONS
    | INCOMPATIBLE_DELTA_PAGES
    | INCOMPATIBLE_SHARES
    | INCOMPATIBLE_TRIMMED_CHUNKS
    | INCOMPATIBLE_PARITY
    | INCOMPATIBLE_SPARES
    | INCOMPATIBLE_DRIVES_LEAVE;

/// Where the root of the relocation table stands: before the checksum. Zero in pools without one.
const RELOCATION_TABLE_AT: usize = SUPERBLOCK_BYTES - 16;

/// One drive of the pool, as the pool knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriveEntry {
    /// Drawn when the drive joined.
    pub id: u128,
    /// Cells it holds.
    pub cells: u32,
    /// What the pool may ask of it.
    pub state: DriveState,
}

/// What a pool may ask of one of its drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriveState {
    /// It holds everything it should.
    InService,
    /// It is gone, or was given up: what it holds is not counted on.
    Out,
    /// It is written again, and what it lacks is being restored: not read yet.
    Rebuilding,
    /// It is to leave: it holds what it should, and gets nothing new.
    Leaving,
    /// It has left. Its cells stay counted, so that places keep their numbers, and hold nothing.
    Gone,
}

impl DriveState {
    fn to_byte(self) -> u8 {
        match self {
            DriveState::InService => 0,
            DriveState::Out => 1,
            DriveState::Rebuilding => 2,
            DriveState::Leaving => 3,
            DriveState::Gone => 4,
        }
    }

    fn from_byte(byte: u8) -> Result<DriveState, Damage> {
        match byte {
            0 => Ok(DriveState::InService),
            1 => Ok(DriveState::Out),
            2 => Ok(DriveState::Rebuilding),
            3 => Ok(DriveState::Leaving),
            4 => Ok(DriveState::Gone),
            _ => Err(Damage::new(DamageKind::Version, "drive state is unknown")),
        }
    }
}

/// A place that may be opened as this segment before the next superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrontierEntry {
    /// The number it will have.
    pub segment: SegmentId,
    /// Where it will be.
    pub place: Place,
}

/// Where replay starts: after the last group the checkpoint contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JournalPosition {
    /// The segment of the next group, if it fits there.
    pub segment: SegmentId,
    /// Its offset.
    pub offset_bytes: u64,
    /// Its sequence number.
    pub sequence: u64,
    /// The hash it must name as the one before.
    pub previous_hash: u64,
}

/// The superblock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Bits a program may ignore.
    pub compatible: u64,
    /// Bits without which a program may only read.
    pub read_only: u64,
    /// Bits without which a program must not open.
    pub incompatible: u64,
    /// The pool.
    pub pool: PoolId,
    /// Its name.
    pub name: String,
    /// Counts superblocks; the highest decides.
    pub generation: u64,
    /// Counts openings; never the same twice.
    pub session: u32,
    /// How the pool survives drives.
    pub protection: Protection,
    /// True when everything is in the checkpoint and nothing needs replay.
    pub is_clean: bool,
    /// Bytes of a segment.
    pub segment_bytes: u32,
    /// Bytes of one drive's part of a segment.
    pub cell_bytes: u32,
    /// Key of fingerprints.
    pub fingerprint_key: u64,
    /// When the pool was made.
    pub created_unix_seconds: u64,
    /// Everything up to here is in the checkpoint.
    pub checkpoint: Lsn,
    /// Where replay starts.
    pub journal: JournalPosition,
    /// Directory of the volume table.
    pub volume_table: Pointer,
    /// Directory of the segment table.
    pub segment_table: Pointer,
    /// Where that directory's segment lives: without the table nothing else could tell.
    pub segment_table_place: Place,
    /// Root of the relocation table; a hole until the cleaner has moved something.
    pub relocation_table: Pointer,
    /// The next segment number to give out.
    pub segment_next: u32,
    /// The next volume identity to give out.
    pub volume_next: u64,
    /// Hash of the superblock before.
    pub previous_hash: u64,
    /// Which drive this copy is on.
    pub drive: DriveIndex,
    /// All drives.
    pub drives: Vec<DriveEntry>,
    /// Places that may be opened before the next superblock.
    pub frontier: Vec<FrontierEntry>,
    /// Where the columns of rows are; only in pools with parity.
    pub layout: Option<Layout>,
}

impl Superblock {
    /// The slot as bytes, and the hash that the next superblock names.
    #[must_use]
    pub fn encode(&self) -> (Vec<u8>, u64) {
        assert!(self.drives.len() <= DRIVES_MAX, "{} drives", self.drives.len());
        assert!(self.frontier.len() <= FRONTIER_MAX, "{} frontier entries", self.frontier.len());
        let mut writer = Writer::new();
        writer.u64(MAGIC).u16(FORMAT_VERSION).u8(self.protection.parity_strips()).u8(u8::from(self.is_clean));
        writer.u32(self.session).u64(self.compatible).u64(self.read_only).u64(self.incompatible);
        writer.u128(self.pool.0).name(&self.name).pad_to(NAME_END);
        writer.u64(self.generation).u32(self.segment_bytes).u32(self.cell_bytes).u64(self.fingerprint_key);
        writer.u64(self.created_unix_seconds).u64(self.checkpoint.0);
        writer.u32(self.journal.segment.0).u32(0).u64(self.journal.offset_bytes);
        writer.u64(self.journal.sequence).u64(self.journal.previous_hash);
        writer.u64(self.volume_table.0).u64(self.segment_table.0);
        writer.u16(self.segment_table_place.drive.0).u16(0).u32(self.segment_table_place.cell);
        writer.u32(self.segment_next).u32(0).u64(self.volume_next).u64(self.previous_hash);
        writer.u16(self.drive.0).u16(self.drives.len() as u16).u32(self.frontier.len() as u32);
        for drive in &self.drives {
            writer.u128(drive.id).u32(drive.cells).u8(drive.state.to_byte()).u8(0).u16(0);
        }
        for entry in &self.frontier {
            writer.u32(entry.segment.0).u16(entry.place.drive.0).u16(0).u32(entry.place.cell);
        }
        if let Some(layout) = &self.layout {
            assert_eq!(layout.stale_from.len(), self.drives.len(), "layout and drive table disagree");
            layout.encode(&mut writer);
        }
        writer.pad_to(RELOCATION_TABLE_AT).u64(self.relocation_table.0);
        let sum = checksum(CHECKSUM_SEED, writer.as_bytes());
        writer.u64(sum);
        (writer.into_bytes(), self.content_hash())
    }

    /// Drives that have not left.
    #[must_use]
    pub fn drive_count(&self) -> usize {
        self.drives.iter().filter(|drive| drive.state != DriveState::Gone).count()
    }

    /// Whether so many of the drives that have not left are more than half of them.
    #[must_use]
    pub fn is_majority(&self, holders: usize) -> bool {
        holders * 2 > self.drive_count()
    }

    /// True for drives that have left. Of drives that this superblock does not know it is not.
    #[must_use]
    pub fn has_left(&self, drive: DriveIndex) -> bool {
        self.drives.get(usize::from(drive.0)).is_some_and(|entry| entry.state == DriveState::Gone)
    }

    /// A hash that is the same on every drive of the pool.
    #[must_use]
    pub fn content_hash(&self) -> u64 {
        checksum(self.generation ^ self.checkpoint.0, &self.pool.0.to_le_bytes())
            ^ checksum(self.volume_table.0, &self.segment_table.0.to_le_bytes())
            ^ checksum(self.journal.sequence, &self.previous_hash.to_le_bytes())
    }

    /// Reads a slot.
    // tidy: long because it names every field once, in the order of the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Superblock, Damage> {
        if bytes.len() != SUPERBLOCK_BYTES {
            return Err(Damage::new(DamageKind::Truncated, "superblock is not 4 KiB"));
        }
        let mut reader = Reader::new(bytes);
        if reader.u64()? != MAGIC {
            return Err(Damage::new(DamageKind::Absent, "no superblock here"));
        }
        let stored = Reader::new(&bytes[SUPERBLOCK_BYTES - 8..]).u64()?;
        if checksum(CHECKSUM_SEED, &bytes[..SUPERBLOCK_BYTES - 8]) != stored {
            return Err(Damage::new(DamageKind::Checksum, "superblock checksum mismatch"));
        }
        if reader.u16()? != FORMAT_VERSION {
            return Err(Damage::new(DamageKind::Version, "pool was written by another format version"));
        }
        let protection = Protection::from_byte(reader.u8()?)?;
        let is_clean = reader.u8()? != 0;
        let session = reader.u32()?;
        let compatible = reader.u64()?;
        let read_only = reader.u64()?;
        let incompatible = reader.u64()?;
        if incompatible & !KNOWN_INCOMPATIBLE != 0 || read_only & !KNOWN_READ_ONLY != 0 {
            return Err(Damage::new(DamageKind::Version, "pool uses features this program does not know"));
        }
        let pool = PoolId(reader.u128()?);
        let name = reader.name()?;
        if reader.position() > NAME_END {
            return Err(Damage::new(DamageKind::Impossible, "pool name is too long"));
        }
        let mut reader = Reader::new(&bytes[NAME_END..]);
        let generation = reader.u64()?;
        let segment_bytes = reader.u32()?;
        let cell_bytes = reader.u32()?;
        let fingerprint_key = reader.u64()?;
        let created_unix_seconds = reader.u64()?;
        let checkpoint = Lsn(reader.u64()?);
        let segment = SegmentId(reader.u32()?);
        reader.u32()?;
        let offset_bytes = reader.u64()?;
        let journal =
            JournalPosition { segment, offset_bytes, sequence: reader.u64()?, previous_hash: reader.u64()? };
        let volume_table = Pointer(reader.u64()?);
        let segment_table = Pointer(reader.u64()?);
        let table_drive = DriveIndex(reader.u16()?);
        reader.u16()?;
        let segment_table_place = Place { drive: table_drive, cell: reader.u32()? };
        let segment_next = reader.u32()?;
        reader.u32()?;
        let volume_next = reader.u64()?;
        let previous_hash = reader.u64()?;
        let drive = DriveIndex(reader.u16()?);
        let (drives, frontier) = decode_tables(&mut reader)?;
        let has_layout = incompatible & INCOMPATIBLE_PARITY != 0;
        if has_layout != (protection != Protection::None) {
            return Err(Damage::new(DamageKind::Impossible, "protection without layout, or the reverse"));
        }
        let layout = has_layout.then(|| Layout::decode(&mut reader, drives.len())).transpose()?;
        if layout.as_ref().is_some_and(|layout| layout.width <= protection.parity_strips()) {
            return Err(Damage::new(DamageKind::Impossible, "rows without a data column"));
        }
        let has_spares =
            layout.as_ref().is_some_and(|layout| layout.bands.iter().any(|band| band.spares > 0));
        if has_spares != (incompatible & INCOMPATIBLE_SPARES != 0) {
            return Err(Damage::new(
                DamageKind::Impossible,
                "spare cells without their feature, or the reverse",
            ));
        }
        let relocation_table = Pointer(Reader::new(&bytes[RELOCATION_TABLE_AT..]).u64()?);
        Ok(Superblock {
            compatible,
            read_only,
            incompatible,
            pool,
            name,
            generation,
            session,
            protection,
            is_clean,
            segment_bytes,
            cell_bytes,
            fingerprint_key,
            created_unix_seconds,
            checkpoint,
            journal,
            volume_table,
            segment_table,
            segment_table_place,
            relocation_table,
            segment_next,
            volume_next,
            previous_hash,
            drive,
            drives,
            frontier,
            layout,
        })
    }
}

fn decode_tables(reader: &mut Reader<'_>) -> Result<(Vec<DriveEntry>, Vec<FrontierEntry>), Damage> {
    let drive_count = usize::from(reader.u16()?);
    let frontier_count = reader.u32()? as usize;
    if drive_count > DRIVES_MAX || frontier_count > FRONTIER_MAX {
        return Err(Damage::new(DamageKind::Impossible, "superblock tables are too long"));
    }
    let mut drives = Vec::with_capacity(drive_count);
    for _ in 0..drive_count {
        let (id, cells) = (reader.u128()?, reader.u32()?);
        let entry = DriveEntry { id, cells, state: DriveState::from_byte(reader.u8()?)? };
        reader.take(3)?;
        drives.push(entry);
    }
    let mut frontier = Vec::with_capacity(frontier_count);
    for _ in 0..frontier_count {
        let segment = SegmentId(reader.u32()?);
        let drive = DriveIndex(reader.u16()?);
        reader.u16()?;
        frontier.push(FrontierEntry { segment, place: Place { drive, cell: reader.u32()? } });
    }
    Ok((drives, frontier))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::layout::{BANDS_MAX, Band, BandDrive, SPARES_MAX, StandIn};

    fn sample(drives: usize, frontier: usize) -> Superblock {
        let place = Place { drive: DriveIndex(1), cell: 7 };
        Superblock {
            compatible: 1,
            read_only: 0,
            incompatible: INCOMPATIBLE_RELOCATIONS | INCOMPATIBLE_DELTA_PAGES,
            pool: PoolId(0xdead_beef << 64),
            name: "p".repeat(63),
            generation: 12,
            session: 4,
            protection: Protection::None,
            is_clean: true,
            segment_bytes: 64 << 20,
            cell_bytes: 64 << 20,
            fingerprint_key: 9,
            created_unix_seconds: 10,
            checkpoint: Lsn(11),
            journal: JournalPosition {
                segment: SegmentId(1),
                offset_bytes: 4096,
                sequence: 3,
                previous_hash: 4,
            },
            volume_table: Pointer::page(SegmentId(2), 4096, 300),
            segment_table: Pointer::page(SegmentId(2), 8192, 300),
            segment_table_place: Place { drive: DriveIndex(1), cell: 3 },
            relocation_table: Pointer::page(SegmentId(2), 12288, 300),
            segment_next: 90,
            volume_next: 91,
            previous_hash: 92,
            drive: DriveIndex(1),
            drives: vec![DriveEntry { id: 1 << 100, cells: 160, state: DriveState::InService }; drives],
            frontier: vec![FrontierEntry { segment: SegmentId(3), place }; frontier],
            layout: None,
        }
    }

    fn sample_with_parity(drives: usize, bands: usize) -> Superblock {
        let of_band = (0..drives as u16).map(|drive| BandDrive { drive: DriveIndex(drive), first_cell: 9 });
        let band = Band { first_row: 4, slices: 5, spares: 0, drives: of_band.collect() };
        let layout = Layout {
            width: 8,
            bands: vec![band; bands],
            settled_below: 2,
            stale_from: vec![6; drives],
            stand_ins: Vec::new(),
        };
        let mut superblock = sample(drives, FRONTIER_MAX);
        superblock.protection = Protection::Dual;
        superblock.incompatible |= INCOMPATIBLE_PARITY;
        superblock.drives[0].state = DriveState::Rebuilding;
        superblock.layout = Some(layout);
        superblock
    }

    fn sample_with_spares(drives: usize) -> Superblock {
        let mut superblock = sample_with_parity(drives, BANDS_MAX);
        superblock.incompatible |= INCOMPATIBLE_SPARES;
        let layout = superblock.layout.as_mut().unwrap();
        layout.bands.iter_mut().for_each(|band| band.spares = SPARES_MAX as u8);
        let stand_in = |spare| StandIn { drive: DriveIndex(u16::from(spare)), spare };
        layout.stand_ins = (0..SPARES_MAX as u8).map(stand_in).collect();
        superblock
    }

    #[test]
    fn spares_are_a_feature() {
        let mut superblock = sample_with_spares(12);
        superblock.incompatible &= !INCOMPATIBLE_SPARES;
        assert_eq!(Superblock::decode(&superblock.encode().0).unwrap_err().kind, DamageKind::Impossible);
    }

    #[test]
    fn the_fullest_superblock_fits_and_survives_the_trip() {
        let full = sample_with_parity(DRIVES_MAX, BANDS_MAX);
        let fullest = [sample(DRIVES_MAX, FRONTIER_MAX), full, sample_with_spares(DRIVES_MAX)];
        for superblock in [sample(1, 0), sample_with_parity(8, 1)].into_iter().chain(fullest) {
            let (bytes, _) = superblock.encode();
            assert_eq!(bytes.len(), SUPERBLOCK_BYTES);
            assert_eq!(Superblock::decode(&bytes).unwrap(), superblock);
        }
    }

    #[test]
    fn drives_that_have_left_are_named_and_not_counted() {
        let mut superblock = sample(4, 2);
        superblock.incompatible |= INCOMPATIBLE_DRIVES_LEAVE;
        superblock.drives[1].state = DriveState::Gone;
        superblock.drives[2].state = DriveState::Leaving;
        assert_eq!(Superblock::decode(&superblock.encode().0).unwrap(), superblock);
        assert_eq!(superblock.drive_count(), 3);
        assert!(superblock.is_majority(2) && !superblock.is_majority(1));
        let left: Vec<bool> = (0..5).map(|drive| superblock.has_left(DriveIndex(drive))).collect();
        assert_eq!(left, [false, true, false, false, false]);
    }

    #[test]
    fn every_flipped_byte_is_noticed() {
        let (bytes, _) = sample(3, 8).encode();
        for index in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[index] ^= 1;
            assert!(Superblock::decode(&damaged).is_err(), "byte {index}");
        }
    }

    #[test]
    fn unknown_features_refuse_the_pool() {
        let mut superblock = sample(1, 0);
        superblock.incompatible = 1 << 40;
        assert_eq!(Superblock::decode(&superblock.encode().0).unwrap_err().kind, DamageKind::Version);
    }

    #[test]
    fn copies_of_one_superblock_share_their_hash() {
        let mut other = sample(2, 1);
        other.drive = DriveIndex(0);
        assert_eq!(other.content_hash(), sample(2, 1).content_hash());
        other.generation += 1;
        assert_ne!(other.content_hash(), sample(2, 1).content_hash());
    }
}
