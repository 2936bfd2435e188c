//! The layout of a pool with parity: which drives hold the columns of a row. Part of the superblock.
//!
//! A row is the home of one segment: one cell on each of `width` drives, its columns. The first columns
//! hold data, the last one or two parity. Rows follow from bands by arithmetic, so that everything can be
//! found from the superblock alone, and so that any number of drives shares the work of a lost one.
//!
//! ```text
//! 0 u8 width   1 u8 bands   2 u16 stand-ins   4 u32 zero   8 u64 settled below
//!   each band, 32 bytes: u32 first row   u32 slices   u8 spares   u8 drives   u8 width   u8 parity
//!     u8 state   u8 zero   u16 zero   u32 bytes of a cell   12 reserved
//!     each drive, 16 bytes: u16 drive   u16 zero   u32 first cell   u64 where its cells start
//!   each drive of the pool: u64 stale from
//!   each stand-in: u16 drive   u8 spare   u8 zero
//! ```
//!
//! Width, parity and cells of a band are those of the pool, its state is 0 (in use), and cells start where
//! they do on every drive: other values are of later programs.

use ashlar_units::DriveIndex;

use crate::bytes::{Reader, Writer};
use crate::superblock::CELLS_START_BYTES;
use crate::{Damage, DamageKind};

/// Columns of a row at most: 22 of data and two of parity.
pub const WIDTH_MAX: usize = 24;

/// Bands of a pool at most: with all drives in each they fill less than half of a superblock.
pub const BANDS_MAX: usize = 16;

/// Spares of a band at most.
pub const SPARES_MAX: usize = 4;

/// Drives at most that live in spare space at a time: each band has room for so many as it has spares.
pub const STAND_INS_MAX: usize = SPARES_MAX * BANDS_MAX;

/// A drive that lives in spare space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StandIn {
    /// The drive that is no more.
    pub drive: DriveIndex,
    /// Which of the spare cells of each slice hold what was on it.
    pub spare: u8,
}

/// One drive's part of a band.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BandDrive {
    /// The drive.
    pub drive: DriveIndex,
    /// Its first cell that belongs to the band.
    pub first_cell: u32,
}

/// Cells of some drives, shared out to rows in one way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Band {
    /// Its first row's number.
    pub first_row: u32,
    /// How often the pattern repeats. Its length follows from the number of drives and the width.
    pub slices: u32,
    /// Cells of each layer that belong to no row: room for so many drives.
    pub spares: u8,
    /// Its drives.
    pub drives: Vec<BandDrive>,
    /// Reserved bytes, as they were read.
    pub carried: [u8; 12],
}

/// The layout of a pool with parity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Columns of a row.
    pub width: u8,
    /// Its bands, by first row.
    pub bands: Vec<Band>,
    /// Every write to segments below this number was durable before the superblock was written.
    pub settled_below: u32,
    /// For each drive that is not in service: segments below this number are on it as they should be.
    pub stale_from: Vec<u32>,
    /// The drives that live in spare space.
    pub stand_ins: Vec<StandIn>,
}

/// What every band of a pool says of itself.
#[derive(Clone, Copy)]
pub(crate) struct BandShape {
    pub(crate) parity: u8,
    pub(crate) cell_bytes: u32,
}

/// Segment numbers have room for laps of later programs.
fn segment_number(stored: u64) -> Result<u32, Damage> {
    u32::try_from(stored)
        .map_err(|_| Damage::new(DamageKind::Version, "segment number of a lap this program does not know"))
}

impl Layout {
    /// The spare in which a drive lives.
    #[must_use]
    pub fn spare_of(&self, drive: DriveIndex) -> Option<u8> {
        self.stand_ins.iter().find(|one| one.drive == drive).map(|one| one.spare)
    }

    pub(crate) fn encode(&self, shape: BandShape, writer: &mut Writer) {
        assert!(self.stand_ins.len() <= STAND_INS_MAX, "{} stand-ins", self.stand_ins.len());
        writer.u8(self.width).u8(self.bands.len() as u8).u16(self.stand_ins.len() as u16);
        writer.u32(0).u64(u64::from(self.settled_below));
        for band in &self.bands {
            writer.u32(band.first_row).u32(band.slices).u8(band.spares).u8(band.drives.len() as u8);
            writer.u8(self.width).u8(shape.parity).u32(0).u32(shape.cell_bytes).put(&band.carried);
            for drive in &band.drives {
                writer.u16(drive.drive.0).u16(0).u32(drive.first_cell).u64(CELLS_START_BYTES);
            }
        }
        for stale_from in &self.stale_from {
            writer.u64(u64::from(*stale_from));
        }
        for one in &self.stand_ins {
            writer.u16(one.drive.0).u8(one.spare).u8(0);
        }
    }

    pub(crate) fn decode(
        reader: &mut Reader<'_>,
        shape: BandShape,
        drives_of_pool: usize,
    ) -> Result<Layout, Damage> {
        let impossible = |what| Err(Damage::new(DamageKind::Impossible, what));
        let width = reader.u8()?;
        let band_count = usize::from(reader.u8()?);
        let stand_in_count = usize::from(reader.u16()?);
        reader.u32()?;
        let settled_below = segment_number(reader.u64()?)?;
        if usize::from(width) > WIDTH_MAX || band_count > BANDS_MAX || stand_in_count > STAND_INS_MAX {
            return impossible("layout is too wide or has too many bands or stand-ins");
        }
        let mut bands = Vec::with_capacity(band_count);
        for _ in 0..band_count {
            let (first_row, slices) = (reader.u32()?, reader.u32()?);
            let spares = reader.u8()?;
            let drive_count = usize::from(reader.u8()?);
            let own = (reader.u8()?, reader.u8()?, reader.u32()?, reader.u32()?);
            if own != (width, shape.parity, 0, shape.cell_bytes) {
                return Err(Damage::new(
                    DamageKind::Version,
                    "a band is of a kind this program does not know",
                ));
            }
            let carried = reader.array()?;
            let is_wide_enough = drive_count >= usize::from(width) + usize::from(spares);
            if !is_wide_enough || drive_count > drives_of_pool || usize::from(spares) > SPARES_MAX {
                return impossible("a band has fewer drives than columns and spares or more than the pool");
            }
            let mut drives = Vec::with_capacity(drive_count);
            for _ in 0..drive_count {
                let drive = DriveIndex(reader.u16()?);
                reader.u16()?;
                if usize::from(drive.0) >= drives_of_pool {
                    return impossible("a band names a drive that the pool does not have");
                }
                drives.push(BandDrive { drive, first_cell: reader.u32()? });
                if reader.u64()? != CELLS_START_BYTES {
                    let what = "cells start where this program does not look for them";
                    return Err(Damage::new(DamageKind::Version, what));
                }
            }
            bands.push(Band { first_row, slices, spares, drives, carried });
        }
        let mut stale_from = Vec::with_capacity(drives_of_pool);
        for _ in 0..drives_of_pool {
            stale_from.push(segment_number(reader.u64()?)?);
        }
        let layout = Layout { width, bands, settled_below, stale_from, stand_ins: Vec::new() };
        layout.with_stand_ins(reader, stand_in_count)
    }

    fn with_stand_ins(mut self, reader: &mut Reader<'_>, count: usize) -> Result<Layout, Damage> {
        for _ in 0..count {
            let one = StandIn { drive: DriveIndex(reader.u16()?), spare: reader.u8()? };
            reader.u8()?;
            if !self.has_room_for(one) {
                let what = "a drive lives in spare space that there is not or that another lives in";
                return Err(Damage::new(DamageKind::Impossible, what));
            }
            self.stand_ins.push(one);
        }
        Ok(self)
    }

    /// A spare in which a drive could live; `None` when there is none, or it does already.
    #[must_use]
    pub fn free_spare_for(&self, drive: DriveIndex) -> Option<u8> {
        (0..SPARES_MAX as u8).find(|spare| self.has_room_for(StandIn { drive, spare: *spare }))
    }

    /// Whether all bands of a drive have this spare, and no drive that shares one of them lives in it.
    fn has_room_for(&self, one: StandIn) -> bool {
        let is_of = |band: &&Band, drive: DriveIndex| band.drives.iter().any(|own| own.drive == drive);
        let own_bands: Vec<&Band> = self.bands.iter().filter(|band| is_of(band, one.drive)).collect();
        let is_taken = |other: &StandIn| {
            other.drive == one.drive
                || other.spare == one.spare && own_bands.iter().any(|band| is_of(band, other.drive))
        };
        !own_bands.is_empty()
            && own_bands.iter().all(|band| one.spare < band.spares)
            && !self.stand_ins.iter().any(is_taken)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SHAPE: BandShape = BandShape { parity: 2, cell_bytes: 1 << 20 };

    fn sample() -> Layout {
        let drives = (0..9).map(|drive| BandDrive { drive: DriveIndex(drive), first_cell: 7 }).collect();
        Layout {
            width: 8,
            bands: vec![Band { first_row: 3, slices: 40, spares: 1, drives, carried: [3; 12] }],
            settled_below: 4,
            stale_from: vec![5; 9],
            stand_ins: vec![StandIn { drive: DriveIndex(3), spare: 0 }],
        }
    }

    #[test]
    fn a_layout_survives_the_trip() {
        let mut writer = Writer::new();
        sample().encode(SHAPE, &mut writer);
        assert_eq!(writer.len(), 16 + (32 + 9 * 16) + 9 * 8 + 4);
        assert_eq!(Layout::decode(&mut Reader::new(writer.as_bytes()), SHAPE, 9).unwrap(), sample());
    }

    #[test]
    fn one_spare_holds_one_drive() {
        let mut layout = sample();
        assert_eq!(layout.spare_of(DriveIndex(3)), Some(0));
        assert_eq!(layout.free_spare_for(DriveIndex(4)), None, "taken");
        layout.bands[0].spares = 2;
        assert_eq!(layout.free_spare_for(DriveIndex(4)), Some(1));
        assert_eq!(layout.free_spare_for(DriveIndex(3)), None, "it lives in one");
        assert_eq!(layout.free_spare_for(DriveIndex(9)), None, "of no band");
        layout.stand_ins = vec![StandIn { drive: DriveIndex(3), spare: 1 }; 2];
        let mut writer = Writer::new();
        layout.encode(SHAPE, &mut writer);
        assert!(Layout::decode(&mut Reader::new(writer.as_bytes()), SHAPE, 9).is_err());
    }

    #[test]
    fn drives_the_pool_does_not_have_are_refused() {
        let mut writer = Writer::new();
        sample().encode(SHAPE, &mut writer);
        let damage = Layout::decode(&mut Reader::new(writer.as_bytes()), SHAPE, 8).unwrap_err();
        assert_eq!(damage.kind, DamageKind::Impossible);
    }
}
