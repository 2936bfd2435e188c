//! Layouts: every byte has its places, and writes ask of the drives what RAID asks.

use std::collections::BTreeSet;

use super::*;

const CHUNK: u64 = 1000;

fn layout(raid: Raid, drives: usize) -> Layout {
    Layout::new(raid, drives, CHUNK, 12 * CHUNK + 500)
}

fn counts(layout: &Layout, offset: u64, length: u64) -> (usize, usize) {
    let updates = layout.updates(offset, length);
    let sum = |count: fn(&Update) -> usize| updates.iter().map(count).sum();
    (sum(|update| update.reads.len()), sum(|update| update.writes.len()))
}

#[test]
fn every_chunk_has_its_places_and_no_place_is_used_twice() {
    for (raid, drives, copies) in [
        (Raid::Stripes, 1, 1),
        (Raid::Stripes, 5, 1),
        (Raid::Mirror, 3, 3),
        (Raid::StripedMirrors, 6, 2),
        (Raid::StripedMirrors, 7, 2),
        (Raid::Parity, 5, 1),
        (Raid::DoubleParity, 6, 1),
    ] {
        let layout = layout(raid, drives);
        let mut seen = BTreeSet::new();
        for chunk in 0..layout.capacity() / CHUNK {
            let pieces = layout.pieces(chunk * CHUNK, CHUNK);
            assert_eq!((pieces.len(), pieces[0].places.len()), (1, copies));
            let on: BTreeSet<usize> = pieces[0].places.iter().map(|place| place.0).collect();
            assert_eq!(on.len(), copies, "copies are on different drives: {raid:?} {drives}");
            for (drive, offset) in &pieces[0].places {
                assert!(*drive < drives && offset + CHUNK <= 12 * CHUNK);
                assert!(seen.insert((*drive, *offset)), "{raid:?} {drives} chunk {chunk}");
            }
        }
    }
}

#[test]
fn capacity_is_what_copies_and_parity_leave() {
    let chunks = |raid, drives| layout(raid, drives).capacity() / CHUNK;
    assert_eq!(chunks(Raid::Stripes, 5), 60);
    assert_eq!(chunks(Raid::Mirror, 3), 12);
    assert_eq!(chunks(Raid::StripedMirrors, 6), 36);
    assert_eq!(chunks(Raid::StripedMirrors, 7), 42);
    assert_eq!(chunks(Raid::Parity, 5), 48);
    assert_eq!(chunks(Raid::DoubleParity, 6), 48);
}

#[test]
fn small_writes_read_and_write_data_and_parity() {
    assert_eq!(counts(&layout(Raid::Stripes, 5), 100, 50), (0, 1));
    assert_eq!(counts(&layout(Raid::Mirror, 3), 100, 50), (0, 3));
    assert_eq!(counts(&layout(Raid::StripedMirrors, 7), 100, 50), (0, 2));
    assert_eq!(counts(&layout(Raid::Parity, 5), 100, 50), (2, 2));
    assert_eq!(counts(&layout(Raid::DoubleParity, 6), 100, 50), (3, 3));
    // Across the border of two chunks of a row, and of two rows.
    assert_eq!(counts(&layout(Raid::Parity, 5), 950, 100), (3, 3));
    assert_eq!(counts(&layout(Raid::Parity, 5), 3950, 100), (4, 4));
}

#[test]
fn a_parity_update_touches_the_same_bytes_of_every_drive() {
    let layout = layout(Raid::DoubleParity, 6);
    let updates = layout.updates(9100, 50);
    let [Update { reads, writes }] = &updates[..] else { panic!("{updates:?}") };
    // Chunk 9 is the second of row 2, which is at 2000 on every drive.
    assert!(reads.iter().chain(writes).all(|part| (part.offset, part.length) == (2100, 50)));
    let drives: BTreeSet<usize> = writes.iter().map(|part| part.drive).collect();
    assert_eq!(drives.len(), 3, "data and parity are on different drives");
    let read: Vec<_> = reads.iter().map(|part| (part.drive, part.offset)).collect();
    let written: Vec<_> = writes.iter().map(|part| (part.drive, part.offset)).collect();
    assert_eq!(read, written);
}

#[test]
fn whole_rows_are_written_without_reads() {
    let layout = layout(Raid::Parity, 5);
    assert_eq!(counts(&layout, 4000, 4000), (0, 5));
    assert_eq!(counts(&layout, 4000, 12_000), (0, 5), "neighbouring rows are one access to each drive");
    // 3,999 is one byte of row 0, then rows 1 and 2 whole, then one byte of row 3.
    assert_eq!(counts(&layout, 3999, 8002), (4, 9));
    let bytes: u64 = layout.updates(4000, 12_000)[0].writes.iter().map(|part| part.length).sum();
    assert_eq!(bytes, 15_000);
}

#[test]
fn parity_goes_round_and_every_drive_has_its_share() {
    for (raid, drives) in [(Raid::Parity, 5), (Raid::DoubleParity, 6)] {
        let layout = layout(raid, drives);
        let mut of_drive = vec![0; drives];
        for chunk in 0..layout.capacity() / CHUNK {
            of_drive[layout.places(chunk, 0)[0].0] += 1;
        }
        let (min, max) = (of_drive.iter().min().unwrap(), of_drive.iter().max().unwrap());
        assert!(max - min <= 2, "{raid:?}: {of_drive:?}");
    }
}

#[test]
fn neighbours_on_the_same_drives_are_read_as_one() {
    assert_eq!(layout(Raid::Mirror, 2).pieces(500, 5000).len(), 1);
    let striped = layout(Raid::Stripes, 3).pieces(500, 5000);
    assert_eq!(striped.len(), 3, "{striped:?}");
    assert_eq!(striped.iter().map(|piece| piece.length).sum::<u64>(), 5000);
    assert_eq!(layout(Raid::StripedMirrors, 4).pieces(0, 8000).len(), 2);
}
