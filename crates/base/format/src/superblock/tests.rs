//! The superblock survives the trip, notices damage, and carries what it does not know.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::layout::{BANDS_MAX, Band, BandDrive, SPARES_MAX, StandIn};
use crate::segment::Protection;

fn sample(drives: usize, frontier: usize) -> Superblock {
    let place = Place { drive: DriveIndex(1), cell: 7 };
    Superblock {
        compatible: 1,
        read_only: 0,
        incompatible: 0,
        allowed: 6,
        features: vec![Feature { class: FeatureClass::Compatible, bit: 0, name: "early-bird".into() }],
        copy: 5 << 100,
        key: MediaKey::new(0xfeed << 64),
        writer: "0.1.0".into(),
        opener: Opener { machine: 1 << 127, boot: 2, opened_unix_seconds: 3 },
        notebook: Pointer::page(SegmentId(2), 16384, 300),
        carried: Carried::default(),
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
        journal: JournalPosition { segment: SegmentId(1), offset_bytes: 4096, sequence: 3, previous_hash: 4 },
        volume_table: Pointer::page(SegmentId(2), 4096, 300),
        segment_table: Pointer::page(SegmentId(2), 8192, 300),
        segment_table_place: Place { drive: DriveIndex(1), cell: 3 },
        relocation_table: Pointer::page(SegmentId(2), 12288, 300),
        segment_next: 90,
        volume_next: 91,
        previous_hash: 92,
        drive: DriveIndex(0),
        drives: vec![DriveEntry::new(1 << 100, 160, DriveState::InService); drives],
        frontier: vec![FrontierEntry { segment: SegmentId(3), place }; frontier],
        layout: None,
    }
}

fn sample_with_parity(drives: usize, bands: usize) -> Superblock {
    let of_band = (0..drives as u16).map(|drive| BandDrive { drive: DriveIndex(drive), first_cell: 9 });
    let band = Band { first_row: 4, slices: 5, spares: 0, drives: of_band.collect(), carried: [0; 12] };
    let layout = Layout {
        width: 8,
        bands: vec![band; bands],
        settled_below: 2,
        stale_from: vec![6; drives],
        stand_ins: Vec::new(),
    };
    let mut superblock = sample(drives, FRONTIER_MAX);
    superblock.protection = Protection::Dual;
    superblock.drives[0].state = DriveState::Rebuilding;
    superblock.layout = Some(layout);
    superblock
}

fn sample_with_spares(drives: usize) -> Superblock {
    let mut superblock = sample_with_parity(drives, BANDS_MAX);
    let layout = superblock.layout.as_mut().unwrap();
    layout.bands.iter_mut().for_each(|band| band.spares = SPARES_MAX as u8);
    let stand_in = |spare| StandIn { drive: DriveIndex(u16::from(spare)), spare };
    layout.stand_ins = (0..SPARES_MAX as u8).map(stand_in).collect();
    superblock
}

#[test]
fn the_fullest_superblock_fits_and_survives_the_trip() {
    let full = sample_with_parity(DRIVES_MAX, BANDS_MAX);
    let fullest = [sample(DRIVES_MAX, FRONTIER_MAX), full, sample_with_spares(DRIVES_MAX)];
    for superblock in [sample(1, 0), sample_with_parity(8, 1)].into_iter().chain(fullest) {
        let bytes = superblock.encode();
        assert!(bytes.len() <= SUPERBLOCK_BYTES / 2, "{} bytes", bytes.len());
        assert_eq!(Superblock::decode(&bytes).unwrap(), superblock);
    }
}

#[test]
fn drives_that_have_left_are_named_and_not_counted() {
    let mut superblock = sample(4, 2);
    superblock.drives[1].state = DriveState::Gone;
    superblock.drives[2].state = DriveState::Leaving;
    assert_eq!(Superblock::decode(&superblock.encode()).unwrap(), superblock);
    assert_eq!(superblock.drive_count(), 3);
    assert!(superblock.is_majority(2) && !superblock.is_majority(1));
    let left: Vec<bool> = (0..5).map(|drive| superblock.has_left(DriveIndex(drive))).collect();
    assert_eq!(left, [false, true, false, false, false]);
}

#[test]
fn every_flipped_byte_is_noticed() {
    let superblock = sample(3, 8);
    let bytes = superblock.encode();
    let used = ROOT_BYTES + body::encode(&superblock).len();
    for index in 0..used {
        let mut damaged = bytes.clone();
        damaged[index] ^= 1;
        assert!(Superblock::decode(&damaged).is_err(), "byte {index}");
    }
}

#[test]
fn version_1_reads_another_version() {
    // What version 1 looked at: the magic, its checksum at the end of 4 KiB, then the version.
    let bytes = sample(2, 2).encode();
    let sum = crate::checksum(0x7375_7065, &bytes[..ROOT_BYTES - 8]);
    assert_eq!(bytes[ROOT_BYTES - 8..ROOT_BYTES], sum.to_le_bytes());
    assert_eq!(bytes[8..10], 2_u16.to_le_bytes());
    let mut old = bytes;
    old[8] = 1;
    let sum = crate::checksum(0x7375_7065, &old[..ROOT_BYTES - 8]);
    old[ROOT_BYTES - 8..ROOT_BYTES].copy_from_slice(&sum.to_le_bytes());
    let damage = Superblock::decode(&old).unwrap_err();
    assert_eq!(damage.kind, DamageKind::Version);
    assert!(damage.to_string().contains("format version 1"), "{damage}");
}

#[test]
fn what_is_not_known_is_written_again_as_it_was() {
    let mut superblock = sample_with_parity(8, 2);
    superblock.compatible = 1 | 1 << 50;
    superblock.read_only = 1 << 7;
    superblock.drives[3].carried = [9; 35];
    superblock.layout.as_mut().unwrap().bands[1].carried = [8; 12];
    superblock.carried.root = vec![7; 3064];
    superblock.carried.sections = vec![(0, vec![8; 2]), (99, vec![6; 5]), (100, Vec::new())];
    superblock.carried.tails = vec![(1, vec![5; 3]), (4, vec![4; 9]), (5, vec![3])];
    let read = Superblock::decode(&superblock.encode()).unwrap();
    assert_eq!(read, superblock);
    assert_eq!(read.encode(), superblock.encode());
    assert!(read.is_read_only());
}

#[test]
fn unknown_features_refuse_the_pool_by_name() {
    let mut superblock = sample(1, 0);
    superblock.incompatible = 1 << 40 | 1 << 41;
    let (class, name) = (FeatureClass::Incompatible, "time-travel".to_string());
    superblock.features.push(Feature { class, bit: 40, name });
    let damage = Superblock::decode(&superblock.encode()).unwrap_err();
    assert_eq!(damage.kind, DamageKind::Version);
    assert!(damage.to_string().ends_with("time-travel, bit 41"), "{damage}");
}

#[test]
fn copies_of_one_superblock_share_their_hash() {
    let mut other = sample(2, 1);
    other.drive = DriveIndex(1);
    assert_eq!(other.content_hash(), sample(2, 1).content_hash());
    other.generation += 1;
    assert_ne!(other.content_hash(), sample(2, 1).content_hash());
}
