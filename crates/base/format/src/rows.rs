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

use ashlar_units::DriveIndex;

use crate::layout::{BANDS_MAX, Band, BandDrive, Layout, WIDTH_MAX};
use crate::segment::Protection;

/// Columns of a row unless asked otherwise: 14 of data and 2 of parity keep 87.5 %.
pub const WIDTH_DEFAULT: usize = 16;

/// The columns of all rows of a pool.
pub struct Rows {
    width: usize,
    bands: Vec<Pattern>,
}

struct Pattern {
    band: Band,
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

/// Data and parity columns of a pool with these drives, and how its cells become rows. An error says
/// what is missing.
pub fn layout_for(
    protection: Protection,
    cells_per_drive: &[u32],
    width: Option<u8>,
) -> Result<Layout, String> {
    let parity = usize::from(protection.parity_strips());
    let drives = cells_per_drive.len();
    let needed = parity + 2;
    if drives < needed {
        let word = if parity == 1 { "single" } else { "dual" };
        return Err(format!("protection {word} needs at least {needed} drives, not {drives}"));
    }
    let width = width.map_or(drives.min(WIDTH_DEFAULT), usize::from);
    if width < needed || width > drives.min(WIDTH_MAX) {
        let most = drives.min(WIDTH_MAX);
        return Err(format!("a row of {drives} drives is {needed} to {most} columns wide, not {width}"));
    }
    let bands = bands_of(cells_per_drive, width);
    Ok(Layout { width: width as u8, bands, settled_below: 0, stale_from: vec![0; drives] })
}

/// The layout after drives joined, one for each number of cells: they make rows of their own, behind
/// those there are. An error says why they cannot.
pub fn layout_with(layout: &Layout, drives: usize, joining: &[u32]) -> Result<Layout, String> {
    let width = usize::from(layout.width);
    if joining.len() < width {
        return Err(format!(
            "rows of this pool are {width} drives wide: add at least {width} drives at once, not {}",
            joining.len()
        ));
    }
    let mut bands = bands_of(joining, width);
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
fn bands_of(cells_per_drive: &[u32], width: usize) -> Vec<Band> {
    let mut bands: Vec<Band> = Vec::new();
    let (mut first_cell, mut first_row) = (0, 0);
    loop {
        let drives: Vec<BandDrive> = (0..cells_per_drive.len())
            .filter(|drive| cells_per_drive[*drive] > first_cell)
            .map(|drive| BandDrive { drive: DriveIndex(drive as u16), first_cell })
            .collect();
        if drives.len() < width || bands.len() == BANDS_MAX {
            return bands;
        }
        let shortest = drives.iter().map(|drive| cells_per_drive[usize::from(drive.drive.0)]).min();
        let level = shortest.expect("a row has columns");
        let (rows_per_slice, layers) = slice_of(drives.len() as u32, width as u32);
        let slices = (level - first_cell) / layers;
        if slices > 0 {
            bands.push(Band { first_row, slices, drives });
            first_row += slices * rows_per_slice;
        }
        // What is left of the shortest drive below a whole slice stays unused.
        let is_larger_left = cells_per_drive.iter().filter(|cells| **cells > level).count() >= width;
        if !is_larger_left {
            return bands;
        }
        first_cell = level;
    }
}

/// Rows and layers of a slice.
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
            let (rows_per_slice, layers_per_slice) = slice_of(drives, width as u32);
            let orders = (0..ORDERS).flat_map(|number| order_of(drives, number)).collect();
            Pattern { band: band.clone(), rows_per_slice, layers_per_slice, orders }
        };
        Rows { width, bands: layout.bands.iter().map(pattern).collect() }
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
    pub fn cell(&self, row: u32, column: usize) -> CellAt {
        assert!(row < self.count() && column < self.width, "column {column} of row {row}");
        let at = self.bands.partition_point(|pattern| pattern.band.first_row <= row) - 1;
        self.bands[at].cell(row - self.bands[at].band.first_row, column, self.width)
    }
}

impl Pattern {
    fn cell(&self, row: u32, column: usize, width: usize) -> CellAt {
        let drives = self.band.drives.len() as u32;
        let (slice, row) = (row / self.rows_per_slice, row % self.rows_per_slice);
        let position = row * width as u32 + column as u32;
        let (layer, position) = (position / drives, position % drives);
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
        let before = layout_for(Protection::Single, &[40; 4], Some(3)).unwrap();
        let after = layout_with(&before, 4, &[60, 50, 40]).unwrap();
        let (old, new) = (Rows::new(&before), Rows::new(&after));
        assert_eq!(after.stale_from.len(), 7);
        for row in 0..old.count() {
            for column in 0..3 {
                assert_eq!(old.cell(row, column), new.cell(row, column), "row {row}");
            }
        }
        let mut cells = BTreeSet::new();
        for row in old.count()..new.count() {
            let drives: BTreeSet<usize> = (0..3).map(|column| new.cell(row, column).drive).collect();
            assert_eq!(drives, BTreeSet::from([4, 5, 6]), "row {row}");
            assert!((0..3).all(|column| cells.insert(new.cell(row, column))), "row {row}");
        }
        assert_eq!(new.count() - old.count(), 40);
    }

    #[test]
    fn too_few_drives_do_not_join_nor_more_than_the_superblock_tells_of() {
        let layout = layout_for(Protection::Single, &[40; 4], Some(3)).unwrap();
        assert!(layout_with(&layout, 4, &[40; 2]).unwrap_err().contains("at least 3"));
        let twice = layout_with(&layout_with(&layout, 4, &[40; 3]).unwrap(), 7, &[40; 3]).unwrap();
        assert!(layout_with(&twice, 10, &[40; 3]).unwrap_err().contains("grown 2 times"));
    }

    fn rows_of(cells: &[u32], width: Option<u8>) -> Rows {
        Rows::new(&layout_for(Protection::Dual, cells, width).unwrap())
    }

    /// Every cell once, and the columns of a row on drives of their own.
    fn check(cells: &[u32], width: Option<u8>) -> usize {
        let rows = rows_of(cells, width);
        let mut seen = BTreeSet::new();
        for row in 0..rows.count() {
            let columns: Vec<CellAt> = (0..rows.width()).map(|column| rows.cell(row, column)).collect();
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
            let drives: Vec<usize> = (0..8).map(|column| rows.cell(row, column).drive).collect();
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
            (6..8).for_each(|column| parity[rows.cell(row, column).drive] += 1);
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
        assert!(layout_for(Protection::Dual, &[100; 3], None).unwrap_err().contains("at least 4 drives"));
        assert!(layout_for(Protection::Single, &[100; 2], None).unwrap_err().contains("at least 3 drives"));
        assert!(layout_for(Protection::Dual, &[100; 6], Some(7)).unwrap_err().contains("4 to 6 columns"));
        assert!(layout_for(Protection::Dual, &[100; 6], Some(3)).is_err());
    }
}
