//! Notes of the golden pool that `engine` made (`engine/src/notebook/class_tests.rs`), told by this reader:
//! some are in the checkpoint, some changed by the journal behind it, some of kinds that nobody knows.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use ashlar_format::note_kind::NoteKind;
use ashlar_format::segment::SegmentHeader;
use ashlar_format::superblock::{CELLS_START_BYTES, SUPERBLOCK_BYTES, Superblock};
use ashlar_inspect::Pool;

const DRIVE_BYTES: usize = 4 << 20;

fn unpack(directory: &Path) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../store/engine/tests/golden");
    let packed = std::fs::read(folder.join("format-2-notes.pool.zst")).unwrap();
    let mut bytes = vec![0; DRIVE_BYTES];
    assert_eq!(zstd_safe::decompress(&mut bytes[..], &packed).unwrap(), DRIVE_BYTES);
    let path = directory.join("drive");
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn notes_are_told_as_the_engine_tells_them() {
    let directory = tempfile::tempdir().unwrap();
    let pool = Pool::open(&[unpack(directory.path())]).unwrap();
    let report = pool.report();
    assert_eq!(report.damage, Vec::<String>::new());
    let told: Vec<_> =
        pool.noted().map(|note| (note.key.kind, note.key.part, note.version, &note.value[..])).collect();
    let unknown = [8; 2000];
    let (label, event, chap) = (NoteKind::Label.code(), NoteKind::Event.code(), NoteKind::Chap.code());
    let expected = [
        (label, 0, 1, &b"gold"[..]),
        (label, 1, 2, b"silver"),
        (event, 0, 1, b"first"),
        (event, 0, 2, b"second"),
        (0x0ffe, 3, 9, &unknown),
        (chap, 0, 1, b"swordfish"),
        (0x2ffe, 3, 1, b"unknown secret"),
    ];
    assert_eq!(told, expected);
    let counts: Vec<_> = report.notebook.iter().map(|kind| (kind.name, kind.notes, kind.is_secret)).collect();
    let counted = [
        (Some("label"), 2, false),
        (Some("event"), 2, false),
        (None, 1, false),
        (Some("chap"), 1, true),
        (None, 1, true),
    ];
    assert_eq!(counts, counted);
    assert_eq!(report.notebook[3].bytes, 24 + 9);
    // Neither the report nor what is printed of a note says what a secret is.
    let printed = format!("{:?} {:?}", report, pool.noted().collect::<Vec<_>>());
    assert!(printed.contains("9 secret bytes") && printed.contains("14 secret bytes"), "{printed}");
    let secret = format!("{:02x?}", b"swordfish");
    assert!(!printed.contains("swordfish") && !printed.contains(&secret), "{printed}");
}

#[test]
fn a_notebook_that_cannot_be_read_is_told_and_hides_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let path = unpack(directory.path());
    let mut bytes = std::fs::read(&path).unwrap();
    let slots = bytes[..8 * SUPERBLOCK_BYTES].chunks(SUPERBLOCK_BYTES);
    let newest =
        slots.filter_map(|slot| Superblock::decode(slot).ok()).max_by_key(|one| one.generation).unwrap();
    let cells = (CELLS_START_BYTES as usize..DRIVE_BYTES).step_by(newest.cell_bytes as usize);
    let is_its_segment = |at: &usize| {
        let header = SegmentHeader::decode(&newest.key, &bytes[*at..]);
        header.is_ok_and(|header| header.segment == newest.notebook.segment())
    };
    let cell = cells.into_iter().find(is_its_segment).unwrap();
    bytes[cell + newest.notebook.offset_bytes() as usize + 70] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let pool = Pool::open(&[path]).unwrap();
    let report = pool.report();
    let damage: Vec<_> = report.damage.iter().filter(|what| what.contains("notebook")).collect();
    assert_eq!(damage.len(), 1, "{:?}", report.damage);
    assert_eq!(report.images.len(), 1);
    // What the journal notes is known all the same.
    assert!(pool.noted().any(|note| note.value == b"silver"));
    assert!(pool.check_deep().images.iter().all(|image| image.gone.is_empty()));
}
