//! Which pages of two files may differ by where they lie, and which of those do.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::extents::Extent;
use crate::error::Result;
use crate::postgres::failed;
use crate::progress::Teller;

/// PostgreSQL's pages, as every distribution builds it.
pub(crate) const PAGE_BYTES: u64 = 8192;
/// Read of each file at a time. Arbitrary; whole pages.
const PIECE_BYTES: u64 = 1 << 20;

/// The bytes of two files that may differ, as whole pages: those that do not lie at the same place of both
/// volumes, and those that lie where the volumes differ. Of files the first `length` bytes are looked at.
pub(super) fn suspects(a: &[Extent], b: &[Extent], length: u64, changed: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut suspects: Vec<Range<u64>> = Vec::new();
    let mut suspect = |range: Range<u64>| {
        let start = range.start / PAGE_BYTES * PAGE_BYTES;
        let end = range.end.next_multiple_of(PAGE_BYTES).min(length);
        match suspects.last_mut() {
            Some(last) if start <= last.end => last.end = last.end.max(end),
            _ => suspects.push(start..end),
        }
    };
    let mut at = 0;
    while at < length {
        let (of_a, of_b) = (piece_at(a, at), piece_at(b, at));
        let end = of_a.end.min(of_b.end).min(length);
        match (of_a.place, of_b.place) {
            (Place::Hole, Place::Hole) => {}
            (Place::At(place), Place::At(other)) if place == other => {
                let first = changed.partition_point(|range| range.end <= place);
                let within = changed[first..].iter().take_while(|range| range.start < place + (end - at));
                for range in within {
                    let start = at + range.start.saturating_sub(place);
                    suspect(start..(at + (range.end - place)).min(end));
                }
            }
            _ => suspect(at..end),
        }
        assert!(end > at, "a comparison stands still at byte {at}");
        at = end;
    }
    suspects
}

/// How a piece of a file is there.
enum Place {
    /// It reads as zeroes.
    Hole,
    /// From this byte of the volume on.
    At(u64),
    /// Somewhere.
    Unknown,
}

struct Piece {
    place: Place,
    end: u64,
}

fn piece_at(extents: &[Extent], at: u64) -> Piece {
    let next = extents.partition_point(|extent| extent.range.end <= at);
    match extents.get(next) {
        None => Piece { place: Place::Hole, end: u64::MAX },
        Some(extent) if extent.range.start > at => Piece { place: Place::Hole, end: extent.range.start },
        Some(extent) => {
            let place =
                extent.place.map_or(Place::Unknown, |place| Place::At(place + (at - extent.range.start)));
            Piece { place, end: extent.range.end }
        }
    }
}

/// Reads what may differ; how many pages do.
pub(super) fn compare_pages(a: &File, b: &File, suspects: &[Range<u64>], teller: &mut Teller) -> Result<u64> {
    let mut pages = 0;
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    for range in suspects {
        for start in (range.start..range.end).step_by(PIECE_BYTES as usize) {
            let length = PIECE_BYTES.min(range.end - start);
            read(a, &mut of_a, start, length)?;
            read(b, &mut of_b, start, length)?;
            let page = PAGE_BYTES as usize;
            pages +=
                of_a.chunks(page).zip(of_b.chunks(page)).filter(|(one, other)| one != other).count() as u64;
            teller.done(length)?;
        }
    }
    Ok(pages)
}

fn read(file: &File, into: &mut Vec<u8>, start: u64, length: u64) -> Result<()> {
    into.resize(length as usize, 0);
    let read: io::Result<()> = file.read_exact_at(into, start);
    read.map_err(|error| failed("read a file of", Path::new("the database"), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(range: Range<u64>, place: u64) -> Extent {
        Extent { range: range.start * 4096..range.end * 4096, place: Some(place * 4096) }
    }

    fn pages(a: &[Extent], b: &[Extent], blocks: u64, changed: &[Range<u64>]) -> Vec<Range<u64>> {
        let changed: Vec<Range<u64>> = changed.iter().map(|one| one.start * 4096..one.end * 4096).collect();
        let found = suspects(a, b, blocks * 4096, &changed);
        found.iter().map(|range| range.start / 8192..range.end.div_ceil(8192)).collect()
    }

    #[test]
    fn at_one_place_only_what_the_volumes_say_is_suspect() {
        let file = [extent(0..8, 100), extent(8..20, 300)];
        assert_eq!(pages(&file, &file, 20, &[]), []);
        assert_eq!(pages(&file, &file, 20, &[0..100, 108..300, 320..400]), []);
        assert_eq!(pages(&file, &file, 20, &[99..101, 107..109]), [0..1, 3..4]);
        // The end of the one extent and the beginning of the next.
        assert_eq!(pages(&file, &file, 20, &[106..301, 311..312]), [3..5, 9..10]);
        assert_eq!(pages(&file, &file, 20, &[0..1000]), [0..10]);
    }

    #[test]
    fn at_different_places_everything_is_suspect_and_holes_are_equal() {
        let (a, b) = ([extent(0..8, 100)], [extent(0..4, 100), extent(4..8, 200)]);
        assert_eq!(pages(&a, &b, 8, &[]), [2..4]);
        assert_eq!(pages(&a, &b, 12, &[0..1000]), [0..4]);
        assert_eq!(pages(&[], &[extent(6..8, 9)], 8, &[]), [3..4]);
        assert_eq!(pages(&[], &[], 8, &[0..1000]), []);
        let unknown = [Extent { range: 0..8192, place: None }];
        assert_eq!(pages(&unknown, &unknown, 4, &[]), [0..1]);
    }

    #[test]
    fn a_block_makes_its_page_suspect() {
        // A block of each of two pages, whose extents begin in the middle of one.
        let (a, b) = ([extent(0..1, 10), extent(1..4, 50)], [extent(0..1, 10), extent(1..4, 50)]);
        assert_eq!(pages(&a, &b, 4, &[50..51]), [0..1]);
        assert_eq!(pages(&a, &b, 4, &[51..52]), [1..2]);
        let odd = suspects(&[], &[extent(0..4, 9)], 9000, &[]);
        assert_eq!(odd, [0..9000]);
    }
}
