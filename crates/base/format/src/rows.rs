//! Rows: which cell of which drive holds a column. Arithmetic only.
//!
//! Called by `pool`, and by `inspect`, which must find what `pool` wrote without asking it.
//!
//! A band shares the cells of its drives out in slices. A slice of `n` drives is `w / gcd(n, w)` cells
//! deep and holds `n / gcd(n, w)` rows of `w` columns: positions are counted through its cells, layer by
//! layer, and each row takes the next `w` of them. Each slice goes through the drives in an order of its
//! own, so that parity does not stay on some drives and what a lost drive held is restored from all others
//! alike (declustering; Holland and Gibson, 1992). The orders are 256 shuffles, drawn by SplitMix64 from the
//! number of drives and the number of the shuffle: they are part of the format.
//!
//! A band may keep spares: each layer's last positions belong to no row, and `n` above is without them. A
//! drive that is no more can live there: each of its cells in the spare cell of the same layer. As the order
//! changes from slice to slice, so does the drive that has it: all share the work and the room. If that drive
//! lives in spare space itself, its spare has it, and so on. Two columns of a row never meet on a drive: each
//! step leads from one drive to one other, and no two lead to the same.

use ashlar_units::DriveIndex;

use crate::layout::{BANDS_MAX, Band, BandDrive, Layout, SPARES_MAX, StandIn, WIDTH_MAX};
use crate::segment::Protection;

/// Columns of a row unless asked otherwise: 14 of data and 2 of parity keep 87.5 %.
pub const WIDTH_DEFAULT: usize = 16;

/// The columns of all rows of a pool.
#[derive(Clone)]
pub struct Rows {
    width: usize,
    bands: Vec<Pattern>,
    stand_ins: Vec<StandIn>,
}

#[derive(Clone)]
struct Pattern {
    band: Band,
    /// Drives without spares.
    active: u32,
    rows_per_slice: u32,
    layers_per_slice: u32,
    /// One order of the drives after the other.
    orders: Vec<u8>,
}

/// Orders in which slices go through the drives.
const ORDERS: u32 = 256;

/// A cell of a drive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CellAt {
    /// The drive's number in the pool.
    pub drive: usize,
    /// The cell on it.
    pub cell: u32,
}

/// Where a column is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Home {
    /// The cell that holds it.
    pub at: CellAt,
    /// The drives that answer for it, one bit each: its own, and those in whose stead others are asked.
    drives: u64,
}

impl Home {
    fn new(at: CellAt) -> Home {
        Home { at, drives: 1 << at.drive }
    }

    fn through(self, next: CellAt) -> Home {
        Home { at: next, drives: self.drives | 1 << next.drive }
    }

    /// The drives that answer for it: what it holds is right when it is on all of them.
    pub fn drives(self) -> impl Iterator<Item = usize> {
        let mut left = self.drives;
        std::iter::from_fn(move || {
            let drive = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(drive)
        })
    }

    /// Whether a drive answers for it.
    #[must_use]
    pub fn is_of(self, drive: usize) -> bool {
        self.drives >> drive & 1 == 1
    }
}

/// A cell of a slice, told by the order in which the slice goes through its drives.
#[derive(Clone, Copy)]
struct Spot {
    slice: u32,
    layer: u32,
    position: u32,
}

/// Data and parity columns of a pool with these drives, and how its cells become rows. An error says
/// what is missing.
pub fn layout_for(
    protection: Protection,
    cells_per_drive: &[u32],
    width: Option<u8>,
    spares: u8,
) -> Result<Layout, String> {
    let parity = usize::from(protection.parity_strips());
    let drives = cells_per_drive.len();
    let needed = parity + 2;
    if usize::from(spares) > SPARES_MAX {
        return Err(format!("a pool keeps spare space for at most {SPARES_MAX} drives, not {spares}"));
    }
    let active = drives.saturating_sub(usize::from(spares));
    if active < needed {
        let word = if parity == 1 { "single" } else { "dual" };
        let beside = if spares > 0 { format!(" beside {spares} of spare space") } else { String::new() };
        return Err(format!("protection {word} needs at least {needed} drives{beside}, not {active}"));
    }
    let width = width.map_or(active.min(WIDTH_DEFAULT), usize::from);
    if width < needed || width > active.min(WIDTH_MAX) {
        let most = active.min(WIDTH_MAX);
        return Err(format!("a row of {active} drives is {needed} to {most} columns wide, not {width}"));
    }
    let bands = bands_of(cells_per_drive, width, spares);
    let stale_from = vec![0; drives];
    Ok(Layout { width: width as u8, bands, settled_below: 0, stale_from, stand_ins: Vec::new() })
}

/// The layout after drives joined, one for each number of cells: they make rows of their own, behind
/// those there are. An error says why they cannot.
pub fn layout_with(layout: &Layout, drives: usize, joining: &[u32]) -> Result<Layout, String> {
    let width = usize::from(layout.width);
    let spares = layout.bands.iter().map(|band| band.spares).max().unwrap_or(0);
    let needed = width + usize::from(spares);
    if joining.len() < needed {
        let beside =
            if spares > 0 { format!(", with spare space for {spares} beside") } else { String::new() };
        return Err(format!(
            "rows of this pool are {width} drives wide{beside}: add at least {needed} drives at once, not {}",
            joining.len()
        ));
    }
    let mut bands = bands_of(joining, width, spares);
    bands.truncate(BANDS_MAX.saturating_sub(layout.bands.len()));
    if bands.is_empty() {
        return Err(format!("this pool cannot grow any more: it has grown {} times", layout.bands.len() - 1));
    }
    let first_row = Rows::new(layout).count();
    for band in &mut bands {
        band.first_row += first_row;
        band.drives.iter_mut().for_each(|own| own.drive.0 += drives as u16);
    }
    let mut next = layout.clone();
    next.bands.extend(bands);
    next.stale_from.resize(drives + joining.len(), 0);
    Ok(next)
}

/// Drives of different sizes: the cells that all have make one band, those that the larger ones have
/// beyond make another, while as many drives as a row is wide are left.
fn bands_of(cells_per_drive: &[u32], width: usize, spares: u8) -> Vec<Band> {
    let needed = width + usize::from(spares);
    let mut bands: Vec<Band> = Vec::new();
    let (mut first_cell, mut first_row) = (0, 0);
    loop {
        let drives: Vec<BandDrive> = (0..cells_per_drive.len())
            .filter(|drive| cells_per_drive[*drive] > first_cell)
            .map(|drive| BandDrive { drive: DriveIndex(drive as u16), first_cell })
            .collect();
        if drives.len() < needed || bands.len() == BANDS_MAX {
            return bands;
        }
        let shortest = drives.iter().map(|drive| cells_per_drive[usize::from(drive.drive.0)]).min();
        let level = shortest.expect("a row has columns");
        let (rows_per_slice, layers) = slice_of(drives.len() as u32 - u32::from(spares), width as u32);
        let slices = (level - first_cell) / layers;
        if slices > 0 {
            bands.push(Band { first_row, slices, spares, drives, carried: [0; 12] });
            first_row += slices * rows_per_slice;
        }
        // What is left of the shortest drive below a whole slice stays unused.
        let is_larger_left = cells_per_drive.iter().filter(|cells| **cells > level).count() >= needed;
        if !is_larger_left {
            return bands;
        }
        first_cell = level;
    }
}

/// Rows and layers of a slice of these drives, spares not counted.
fn slice_of(drives: u32, width: u32) -> (u32, u32) {
    let common = gcd(drives, width);
    (drives / common, width / common)
}

/// A shuffle of the numbers below `drives` (Fisher and Yates).
fn order_of(drives: u32, number: u32) -> Vec<u8> {
    let mut state = u64::from(drives) << 32 | u64::from(number);
    let mut order: Vec<u8> = (0..drives as u8).collect();
    for index in (1..order.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut draw = state;
        draw = (draw ^ draw >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        draw = (draw ^ draw >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        draw ^= draw >> 31;
        order.swap(index, (draw % (index as u64 + 1)) as usize);
    }
    order
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Rows {
    /// The rows of a layout.
    #[must_use]
    pub fn new(layout: &Layout) -> Rows {
        let width = usize::from(layout.width);
        let pattern = |band: &Band| {
            let drives = band.drives.len() as u32;
            let active = drives - u32::from(band.spares);
            let (rows_per_slice, layers_per_slice) = slice_of(active, width as u32);
            let orders = (0..ORDERS).flat_map(|number| order_of(drives, number)).collect();
            Pattern { band: band.clone(), active, rows_per_slice, layers_per_slice, orders }
        };
        let bands = layout.bands.iter().map(pattern).collect();
        Rows { width, bands, stand_ins: layout.stand_ins.clone() }
    }

    /// The same rows while these drives live in spare space.
    #[must_use]
    pub fn with_stand_ins(&self, stand_ins: Vec<StandIn>) -> Rows {
        Rows { stand_ins, ..self.clone() }
    }

    /// The drives that live in spare space.
    #[must_use]
    pub fn stand_ins(&self) -> &[StandIn] {
        &self.stand_ins
    }

    /// Spare cells that no drive lives in.
    #[must_use]
    pub fn spare_cells(&self) -> u64 {
        let of_band = |pattern: &Pattern| {
            let layers = u64::from(pattern.band.slices) * u64::from(pattern.layers_per_slice);
            let is_of = |one: &&StandIn| pattern.band.drives.iter().any(|own| own.drive == one.drive);
            let taken = self.stand_ins.iter().filter(is_of).count() as u64;
            layers * (u64::from(pattern.band.spares) - taken)
        };
        self.bands.iter().map(of_band).sum()
    }

    /// Rows of the pool.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.bands.last().map_or(0, |last| last.band.first_row + last.band.slices * last.rows_per_slice)
    }

    /// Columns of a row, parity included.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Where a column of a row is.
    #[must_use]
    pub fn home(&self, row: u32, column: usize) -> Home {
        assert!(row < self.count() && column < self.width, "column {column} of row {row}");
        let at = self.bands.partition_point(|pattern| pattern.band.first_row <= row) - 1;
        let pattern = &self.bands[at];
        let spot = pattern.spot(row - pattern.band.first_row, column, self.width);
        let mut home = Home::new(pattern.cell(spot));
        while let Some(spare) = self.spare_of(home.at.drive) {
            let spot = Spot { position: pattern.active + u32::from(spare), ..spot };
            home = home.through(pattern.cell(spot));
        }
        home
    }

    fn spare_of(&self, drive: usize) -> Option<u8> {
        self.stand_ins.iter().find(|one| usize::from(one.drive.0) == drive).map(|one| one.spare)
    }
}

impl Pattern {
    fn spot(&self, row: u32, column: usize, width: usize) -> Spot {
        let (slice, row) = (row / self.rows_per_slice, row % self.rows_per_slice);
        let position = row * width as u32 + column as u32;
        Spot { slice, layer: position / self.active, position: position % self.active }
    }

    fn cell(&self, spot: Spot) -> CellAt {
        let drives = self.band.drives.len() as u32;
        let Spot { slice, layer, position } = spot;
        // Each order is gone through from every start, then comes the next.
        let order = slice / drives % ORDERS;
        let drive = self.orders[(order * drives + (position + slice) % drives) as usize];
        let drive = &self.band.drives[usize::from(drive)];
        let cell = drive.first_cell + slice * self.layers_per_slice + layer;
        CellAt { drive: usize::from(drive.drive.0), cell }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn drives_that_join_make_rows_of_their_own_behind_the_others() {
        let before = layout_for(Protection::Single, &[40; 4], Some(3), 0).unwrap();
        let after = layout_with(&before, 4, &[60, 50, 40]).unwrap();
        let (old, new) = (Rows::new(&before), Rows::new(&after));
        assert_eq!(after.stale_from.len(), 7);
        for row in 0..old.count() {
            for column in 0..3 {
                assert_eq!(old.home(row, column).at, new.home(row, column).at, "row {row}");
            }
        }
        let mut cells = BTreeSet::new();
        for row in old.count()..new.count() {
            let drives: BTreeSet<usize> = (0..3).map(|column| new.home(row, column).at.drive).collect();
            assert_eq!(drives, BTreeSet::from([4, 5, 6]), "row {row}");
            assert!((0..3).all(|column| cells.insert(new.home(row, column).at)), "row {row}");
        }
        assert_eq!(new.count() - old.count(), 40);
    }

    #[test]
    fn too_few_drives_do_not_join_nor_more_than_the_superblock_tells_of() {
        let layout = layout_for(Protection::Single, &[40; 4], Some(3), 0).unwrap();
        assert!(layout_with(&layout, 4, &[40; 2]).unwrap_err().contains("at least 3"));
        let mut grown = layout;
        for times in 0..BANDS_MAX - 1 {
            grown = layout_with(&grown, 4 + 3 * times, &[40; 3]).unwrap();
        }
        let drives = 4 + 3 * (BANDS_MAX - 1);
        assert!(layout_with(&grown, drives, &[40; 3]).unwrap_err().contains("grown 15 times"));
    }

    fn rows_of(cells: &[u32], width: Option<u8>) -> Rows {
        Rows::new(&layout_for(Protection::Dual, cells, width, 0).unwrap())
    }

    /// Every cell once, and the columns of a row on drives of their own.
    fn check(cells: &[u32], width: Option<u8>) -> usize {
        let rows = rows_of(cells, width);
        let mut seen = BTreeSet::new();
        for row in 0..rows.count() {
            let columns: Vec<CellAt> = (0..rows.width()).map(|column| rows.home(row, column).at).collect();
            let drives: BTreeSet<usize> = columns.iter().map(|at| at.drive).collect();
            assert_eq!(drives.len(), rows.width(), "row {row} of {cells:?}: {columns:?}");
            for at in columns {
                assert!(at.cell < cells[at.drive], "row {row}: {at:?} of {cells:?}");
                assert!(seen.insert(at), "{at:?} twice in {cells:?}");
            }
        }
        seen.len()
    }

    #[test]
    fn no_cell_is_in_two_rows_and_no_drive_twice_in_a_row() {
        for drives in 4..=48_usize {
            for width in 4..=drives.min(WIDTH_MAX) {
                let used = check(&vec![60; drives], Some(width as u8));
                // What no row fits any more is less than a slice.
                assert!(used + width * drives > 60 * drives, "{used} of {drives} drives, width {width}");
            }
        }
    }

    /// Lets these drives live in spare space, one after the other.
    fn settle(layout: &mut Layout, drives: &[u16]) {
        for drive in drives {
            let drive = DriveIndex(*drive);
            let spare = layout.free_spare_for(drive).unwrap();
            layout.stand_ins.push(StandIn { drive, spare });
        }
    }

    #[test]
    fn drives_live_in_spare_space_beside_the_rows() {
        for drives in 5..=20_usize {
            for spares in 1..=SPARES_MAX.min(drives - 4) {
                for first in 0..drives {
                    let mut layout =
                        layout_for(Protection::Dual, &vec![48; drives], Some(4), spares as u8).unwrap();
                    let before = Rows::new(&layout);
                    let gone: Vec<u16> =
                        (0..spares).map(|next| ((first + next * 3) % drives) as u16).collect();
                    let gone: BTreeSet<u16> = gone.into_iter().collect();
                    settle(&mut layout, &gone.iter().copied().collect::<Vec<_>>());
                    let rows = Rows::new(&layout);
                    let mut seen = BTreeSet::new();
                    for row in 0..rows.count() {
                        let homes: Vec<Home> = (0..4).map(|column| rows.home(row, column)).collect();
                        let on: BTreeSet<usize> = homes.iter().map(|home| home.at.drive).collect();
                        assert_eq!(on.len(), 4, "row {row} of {drives} drives without {gone:?}: {homes:?}");
                        for (column, home) in homes.into_iter().enumerate() {
                            assert!(!gone.contains(&(home.at.drive as u16)), "row {row}");
                            assert!(seen.insert(home.at), "{:?} twice", home.at);
                            let own = before.home(row, column).at.drive;
                            assert!(home.is_of(own) && home.is_of(home.at.drive));
                            assert_eq!(home.drives().count() == 1, !gone.contains(&(own as u16)));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_lives_in_spare_space_is_on_all_others_alike() {
        let mut layout = layout_for(Protection::Dual, &[960; 12], Some(8), 2).unwrap();
        settle(&mut layout, &[4]);
        let rows = Rows::new(&layout);
        let mut held = vec![0_u32; 12];
        for row in 0..rows.count() {
            for home in (0..8).map(|column| rows.home(row, column)).filter(|home| home.is_of(4)) {
                held[home.at.drive] += 1;
            }
        }
        let others = held.iter().enumerate().filter(|(drive, _)| *drive != 4).map(|(_, held)| *held);
        let (least, most) = (others.clone().min().unwrap(), others.max().unwrap());
        assert!(held[4] == 0 && most * 4 <= least * 5, "{held:?}");
    }

    #[test]
    fn spare_space_takes_drives_beyond_those_of_a_row() {
        assert!(layout_for(Protection::Dual, &[100; 6], Some(6), 1).unwrap_err().contains("4 to 5 columns"));
        assert!(layout_for(Protection::Dual, &[100; 4], None, 1).unwrap_err().contains("spare space"));
        let layout = layout_for(Protection::Dual, &[100; 6], None, 1).unwrap();
        assert_eq!((layout.width, Rows::new(&layout).spare_cells()), (5, 100));
        assert!(layout_with(&layout, 6, &[100; 5]).unwrap_err().contains("at least 6"));
    }

    #[test]
    fn drives_of_different_sizes_are_used_as_far_as_rows_fit() {
        let equal = check(&[100; 8], Some(4));
        assert_eq!(equal, 800);
        assert!(check(&[100, 100, 100, 100, 200, 200, 200, 200], Some(4)) >= 1190);
        // Two larger drives have nobody to share a row with.
        assert_eq!(check(&[100, 100, 100, 100, 100, 100, 200, 200], Some(4)), 800);
    }

    #[test]
    fn a_lost_drive_is_restored_from_all_others_alike() {
        let rows = rows_of(&[960; 12], Some(8));
        let mut shared = vec![0_u32; 12];
        for row in 0..rows.count() {
            let drives: Vec<usize> = (0..8).map(|column| rows.home(row, column).at.drive).collect();
            if drives.contains(&0) {
                drives.iter().for_each(|drive| shared[*drive] += 1);
            }
        }
        let (least, most) = (shared[1..].iter().min().unwrap(), shared[1..].iter().max().unwrap());
        assert!(most * 4 <= least * 5, "{shared:?}");
    }

    #[test]
    fn parity_is_on_all_drives_alike() {
        let rows = rows_of(&[960; 8], None);
        let mut parity = vec![0_u32; 8];
        for row in 0..rows.count() {
            (6..8).for_each(|column| parity[rows.home(row, column).at.drive] += 1);
        }
        let (least, most) = (parity.iter().min().unwrap(), parity.iter().max().unwrap());
        assert!(most - least <= 2, "{parity:?}");
    }

    #[test]
    fn the_orders_are_part_of_the_format() {
        assert_eq!(order_of(6, 0), [0, 1, 2, 5, 3, 4]);
        assert_eq!(order_of(48, 255)[..6], [8, 1, 46, 45, 40, 11]);
    }

    #[test]
    fn too_few_drives_and_impossible_widths_are_refused() {
        assert!(layout_for(Protection::Dual, &[100; 3], None, 0).unwrap_err().contains("at least 4 drives"));
        assert!(
            layout_for(Protection::Single, &[100; 2], None, 0).unwrap_err().contains("at least 3 drives")
        );
        assert!(layout_for(Protection::Dual, &[100; 6], Some(7), 0).unwrap_err().contains("4 to 6 columns"));
        assert!(layout_for(Protection::Dual, &[100; 6], Some(3), 0).is_err());
    }
}
