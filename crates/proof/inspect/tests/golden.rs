//! The golden pools, made by `engine` and kept for ever, told by this reader: what they hold is written in
//! `engine/tests/engine/golden.rs`. They were left without a clean close, with a journal behind the
//! checkpoint that makes a clone, writes and unmaps; it has DELTA pages, and moved and trimmed chunks.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ashlar_format::segment::SegmentHeader;
use ashlar_format::superblock::{SUPERBLOCK_BYTES, Superblock};
use ashlar_inspect::{JournalEnd, Outcome, Pool, SalvageOptions};

const DRIVE_BYTES: usize = 4 << 20;
const DELTAS_AT: u64 = 2 << 30;
const TRIMMED_AT: u64 = 3 << 30;
const TRIMMED_CHUNKS: u32 = 40;
const CHUNK_BYTES: u64 = 16 << 10;
const DUAL_DRIVE_BYTES: usize = 3 << 20;
const SPARE_DRIVE_BYTES: usize = 8 << 20;
/// Before this are superblocks.
const CELLS_AT: u64 = 1 << 20;

fn unpack(name: &str, directory: &Path) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../store/engine/tests/golden");
    let packed = std::fs::read(folder.join(format!("{name}.pool.zst"))).unwrap();
    let mut bytes = vec![0; DRIVE_BYTES];
    assert_eq!(zstd_safe::decompress(&mut bytes[..], &packed).unwrap(), DRIVE_BYTES);
    let path = directory.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn pattern(seed: u32, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    (0..length)
        .map(|at| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if at % 4096 < 2048 { (state >> 24) as u8 } else { seed as u8 }
        })
        .collect()
}

fn leaf(changes: u8) -> Vec<u8> {
    let mut blocks: Vec<u8> = (0..512).flat_map(|block| [(block % 7) as u8 + 1; 4096]).collect();
    for change in 0..changes {
        let at = usize::from(change) * 9 * 4096;
        blocks[at..at + 4096].fill(0x80 + change);
    }
    blocks
}

/// Image, offset, content.
fn contents() -> Vec<(&'static str, u64, Vec<u8>)> {
    let old = pattern(1, 20 * 4096);
    let mut new = old.clone();
    new[512..1024].copy_from_slice(&pattern(2, 512));
    new[5 * 4096..8 * 4096].fill(0);
    let mut copy = old.clone();
    copy[10 * 4096..11 * 4096].copy_from_slice(&pattern(3, 4096));
    let mut contents = vec![
        ("data", 1 << 30, new),
        ("data@before", 1 << 30, old),
        ("copy", 1 << 30, copy),
        ("data", 0, vec![0; 4096]),
    ];
    contents.extend([("data", DELTAS_AT, leaf(15)), ("data@before", DELTAS_AT, leaf(5))]);
    contents.extend((0..TRIMMED_CHUNKS).map(|chunk| {
        let mut left = vec![0; CHUNK_BYTES as usize];
        let whole = pattern(100 + chunk % 3, CHUNK_BYTES as usize);
        left[3 * 4096..].copy_from_slice(&whole[3 * 4096..]);
        ("data", TRIMMED_AT + u64::from(chunk) * CHUNK_BYTES, left)
    }));
    contents
}

fn everything() -> SalvageOptions {
    SalvageOptions { names: Vec::new(), with_snapshots: true }
}

#[test]
fn golden_pools_are_saved_as_the_engine_reads_them() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["format-2"] {
        let pool = Pool::open(&[unpack(name, directory.path())]).unwrap();
        let report = pool.report();
        assert_eq!(report.damage, Vec::<String>::new(), "{name}");
        assert_eq!(report.journal.end, JournalEnd::Plain, "{name}");
        assert!(report.journal.records >= 4, "{name}: {:?}", report.journal);
        let deep = pool.check_deep();
        assert!(deep.is_whole(), "{name}: {deep:?}");
        assert!(deep.relocations > 0, "{name}");

        let target = directory.path().join(format!("{name}-saved"));
        let saved = pool.salvage(&target, &everything()).unwrap();
        assert_eq!(saved.outcome, Outcome::Whole, "{name}");
        assert_eq!(saved.images.len(), 3, "{name}");
        for (image, offset, expected) in contents() {
            let file = std::fs::File::open(target.join(format!("{image}.img"))).unwrap();
            let mut found = vec![0xee; expected.len()];
            file.read_exact_at(&mut found, offset).unwrap();
            assert!(found == expected, "{name}: {image} at {offset}");
        }
        // What is there is never written over.
        assert!(pool.salvage(&target, &everything()).is_err(), "{name}");
    }
}

#[test]
fn a_drive_with_rubbish_gives_nothing_but_what_proves_itself() {
    let directory = tempfile::tempdir().unwrap();
    let name = "format-2";
    let path = unpack(name, directory.path());
    let whole = std::fs::read(&path).unwrap();
    let mut is_plain_seen = false;
    for round in 0..12_u64 {
        let mut bytes = whole.clone();
        // A quarter of the cells, somewhere else every time, one time in three as a smear of single bytes.
        let span = (DRIVE_BYTES as u64 - CELLS_AT) / 4;
        let from = (CELLS_AT + (DRIVE_BYTES as u64 - CELLS_AT - span) * round / 11) as usize;
        let step = if round % 3 == 2 { 1000 } else { 1 };
        bytes[from..from + span as usize].iter_mut().step_by(step).for_each(|byte| *byte ^= 0x55);
        std::fs::write(&path, bytes).unwrap();
        let pool = Pool::open(std::slice::from_ref(&path)).unwrap();
        is_plain_seen |= pool.report().journal.end == JournalEnd::Plain;
        let target = directory.path().join(format!("saved-{round}"));
        let saved = pool.salvage(&target, &everything()).unwrap();
        for (image, offset, expected) in contents() {
            let Some(image) = saved.images.iter().find(|saved| saved.check.name == image) else {
                assert!(!saved.damage.is_empty(), "round {round}: {image} is missing and nobody says so");
                continue;
            };
            let file = std::fs::File::open(&image.file).unwrap();
            let mut found = vec![0xee; expected.len()];
            file.read_exact_at(&mut found, offset).unwrap();
            for (block, (found, expected)) in found.chunks(4096).zip(expected.chunks(4096)).enumerate() {
                let at = offset + block as u64 * 4096;
                let is_gone =
                    image.check.gone.iter().any(|range| {
                        (range.offset_bytes..range.offset_bytes + range.length_bytes).contains(&at)
                    });
                // Writes of the journal may be missing where the report says that it was cut or torn.
                let is_told = saved.journal.end != JournalEnd::Plain;
                assert!(
                    found == expected || is_gone || is_told,
                    "round {round}: {} at {at}",
                    image.check.name
                );
                assert!(!is_gone || found.iter().all(|byte| *byte == 0), "round {round}: bytes of nobody");
            }
        }
    }
    assert!(is_plain_seen, "no round left the journal's end alone: nothing was proved of data");
}

#[test]
fn the_golden_pool_with_parity_is_saved_without_any_one_more_drive() {
    // The fourth drive is out in that pool: it cannot make up for a second one that is gone.
    is_saved_without_any_one_of("format-2-dual.pool.zst", DUAL_DRIVE_BYTES, 3);
}

#[test]
fn the_golden_pool_with_a_drive_in_spare_space_is_saved_without_any_one_more() {
    is_saved_without_any_one_of("format-2-spare.pool.zst", SPARE_DRIVE_BYTES, 4);
}

/// Saves a golden pool of four drives, each time without another of the first ones.
fn is_saved_without_any_one_of(name: &str, drive_bytes: usize, first: usize) {
    let bytes_of = |seed: u64| -> Vec<u8> {
        let mut state = seed | 1;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..64 << 10).map(|at| if at % 8 < 4 { next() } else { seed as u8 }).collect()
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../store/engine/tests/golden");
    let packed = std::fs::read(folder.join(name)).unwrap();
    let mut bytes = vec![0; 4 * drive_bytes];
    assert_eq!(zstd_safe::decompress(&mut bytes[..], &packed).unwrap(), bytes.len());
    let directory = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = (0..4).map(|drive| directory.path().join(format!("drive-{drive}"))).collect();
    for (path, drive) in paths.iter().zip(bytes.chunks_exact(drive_bytes)) {
        std::fs::write(path, drive).unwrap();
    }
    for missing in 0..first {
        let left: Vec<PathBuf> = paths.iter().filter(|path| **path != paths[missing]).cloned().collect();
        let pool = Pool::open(&left).unwrap();
        let target = directory.path().join(format!("saved-{missing}"));
        let saved = pool.salvage(&target, &everything()).unwrap();
        assert!(saved.journal.records > 0, "{:?}", saved.journal);
        let file = std::fs::File::open(target.join("data.img")).unwrap();
        for (piece, seed) in [(0, 1), (1, 3 + 1), (2, 3 + 2)] {
            let mut found = vec![0; 64 << 10];
            file.read_exact_at(&mut found, piece << 16).unwrap();
            assert!(found == bytes_of(seed), "without drive {missing}: piece {piece}");
        }
        assert!(saved.images.iter().all(|image| image.check.gone.is_empty()), "{missing}");
    }
}

/// Spoils what the newest superblock's volume table starts with.
fn spoil_volume_table(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let ring = bytes[..8 * SUPERBLOCK_BYTES].chunks(SUPERBLOCK_BYTES);
    let newest =
        ring.filter_map(|slot| Superblock::decode(slot).ok()).max_by_key(|one| one.generation).unwrap();
    let cells = (CELLS_AT as usize..DRIVE_BYTES).step_by(newest.cell_bytes as usize);
    let is_its_segment = |at: &usize| {
        let header = SegmentHeader::decode(&newest.key, &bytes[*at..]);
        header.is_ok_and(|header| header.segment == newest.volume_table.segment())
    };
    let cell = cells.into_iter().find(is_its_segment).unwrap();
    bytes[cell + newest.volume_table.offset_bytes() as usize + 70] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn without_the_newest_volume_table_an_earlier_one_and_the_journal_tell_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let mut told = Vec::new();
    for name in ["format-2"] {
        let path = unpack(name, directory.path());
        spoil_volume_table(&path);
        let pool = Pool::open(&[path]).unwrap();
        let report = pool.report();
        assert!(report.damage.iter().any(|what| what.contains("volume table")), "{name}: {report:?}");
        let target = directory.path().join(format!("{name}-saved"));
        let saved = pool.salvage(&target, &everything()).unwrap();
        if !saved.damage.iter().any(|what| what.contains("told by the checkpoint")) {
            // None is left: nothing but what the journal made is known, and that is not said to be whole.
            assert_ne!(saved.outcome, Outcome::Whole, "{name}");
            continue;
        }
        told.push(name);
        assert_eq!(saved.journal.end, JournalEnd::Plain, "{name}: {:?}", saved.journal);
        for (image, offset, expected) in contents() {
            let saved = saved.images.iter().find(|saved| saved.check.name == image).unwrap();
            assert_eq!(saved.check.gone, [], "{name}: {image}");
            let mut found = vec![0xee; expected.len()];
            std::fs::File::open(&saved.file).unwrap().read_exact_at(&mut found, offset).unwrap();
            assert!(found == expected, "{name}: {image} at {offset}");
        }
    }
    assert!(!told.is_empty());
}

#[test]
fn what_is_no_pool_is_refused_with_a_way_out() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nothing");
    std::fs::write(&path, vec![0xaa; 2 << 20]).unwrap();
    for paths in [vec![path.clone()], vec![directory.path().join("absent")]] {
        let error = Pool::open(&paths).err().unwrap();
        assert!(error.to_string().contains("name other drives"), "{error}");
    }
}
