//! A pool "from the future": a later program left there what this one does not know. What may be carried is
//! carried, what allows reading only is only read, what must be known refuses the pool by its name.
// The drive is a real file.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use ashlar_format::catalogue::CARRIED_BYTES;
use ashlar_format::group::Record;
use ashlar_format::notes::{NoteChange, NoteKey};
use ashlar_format::segment::Protection;
use ashlar_format::superblock::{Feature, FeatureClass, SUPERBLOCK_BYTES, SUPERBLOCK_SLOTS, Superblock};
use ashlar_pool::{DriveSpec, PoolSpec};
use ashlar_runtime::{Runtime, ShardSettings, start_shard};
use ashlar_units::VolumeId;

use crate::{Compression, Engine, Profile, Result, Settings, VolumeSpec};

/// Left without a clean close: records that may be skipped stand in the journal behind the checkpoint. Made
/// by `ASHLAR_WRITE_GOLDEN=1 cargo test -p ashlar-engine future`.
const GOLDEN: &str = "tests/golden/format-2-future.pool.zst";
const DRIVE_BYTES: usize = 4 << 20;
const NOTE: NoteKey = NoteKey { kind: 0x0ffe, subject: 77, part: 3 };

async fn open(runtime: &Runtime, path: &str) -> Result<Engine> {
    Engine::open(runtime, &[path.to_string()], Settings::default()).await
}

fn on_drive(test: impl AsyncFnOnce(Runtime, String) + Send + 'static) {
    let directory = tempfile::tempdir().unwrap();
    let path = format!("{}/drive", directory.path().to_str().unwrap());
    let (done, finished) = std::sync::mpsc::channel();
    let shard = start_shard(ShardSettings::default(), move |runtime| {
        Box::pin(async move {
            test(runtime, path).await;
            done.send(()).unwrap();
        })
    });
    shard.unwrap().join();
    finished.recv().expect("the test ran to its end");
}

fn golden_path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(GOLDEN)
}

fn newest(path: &str) -> Superblock {
    let bytes = std::fs::read(path).unwrap();
    let slots = bytes.chunks(SUPERBLOCK_BYTES).take(SUPERBLOCK_SLOTS as usize);
    slots.filter_map(|slot| Superblock::decode(slot).ok()).max_by_key(|one| one.generation).unwrap()
}

/// Writes another superblock, as a later program would.
fn rewrite(path: &str, change: impl FnOnce(&mut Superblock)) {
    let mut superblock = newest(path);
    superblock.generation += 1;
    change(&mut superblock);
    let at = superblock.generation % SUPERBLOCK_SLOTS * SUPERBLOCK_BYTES as u64;
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&superblock.encode(), at).unwrap();
}

fn name(superblock: &mut Superblock, class: FeatureClass, bit: u8, name: &str) {
    superblock.features.push(Feature { class, bit, name: name.to_string() });
}

/// Everything of a later program that may be carried.
fn add_future(superblock: &mut Superblock) {
    superblock.compatible |= 1 << 50;
    name(superblock, FeatureClass::Compatible, 50, "warm-greeting");
    superblock.allowed |= 1 << 9;
    superblock.carried.root = (1..=200).collect();
    superblock.carried.sections = vec![(77, vec![7; 300])];
    superblock.carried.tails = vec![(1, vec![1; 9]), (3, vec![3; 5])];
    superblock.drives[0].carried = [6; 35];
}

fn carried_entry() -> [u8; CARRIED_BYTES] {
    let mut carried = [5; CARRIED_BYTES];
    carried[1] = 0;
    // What a volume has of its own is counted.
    carried[27..43].fill(0);
    carried
}

async fn make(runtime: &Runtime, path: &str) {
    let spec = PoolSpec {
        name: "future".into(),
        drives: vec![DriveSpec { path: path.to_string(), create_size_bytes: Some(DRIVE_BYTES as u64) }],
        protection: Protection::None,
        segment_bytes: Some(128 << 10),
        width: None,
        spares: 0,
    };
    Engine::create_pool(runtime, spec).await.unwrap();
    let engine = open(runtime, path).await.unwrap();
    let volume = VolumeSpec {
        name: "data".into(),
        size_bytes: 1 << 20,
        logical_block_bytes: 4096,
        profile: Profile::Oltp,
        compression: Compression::Off,
        dedupe: false,
    };
    let id = engine.volume_create(volume).await.unwrap().id;
    engine.device("data").unwrap().write(0, &[9; 8192], false).await.unwrap();
    let note = NoteChange { key: NOTE, value: Some((2, vec![4; 500])) };
    let entry = Record::SetEntry {
        volume: VolumeId(id),
        name: "data".into(),
        compression: Compression::Off,
        dedupe: false,
        carried: carried_entry(),
    };
    for record in
        [Record::Notes { changes: vec![note] }, Record::Skipped { kind: 200, bytes: vec![3; 90] }, entry]
    {
        engine.inner.change(record).await.unwrap();
    }
    // As it is after a crash.
    let copy = format!("{path}-copy");
    std::fs::copy(path, &copy).unwrap();
    engine.close().await.unwrap();
    rewrite(&copy, add_future);
    let bytes = std::fs::read(&copy).unwrap();
    let mut packed = vec![0; zstd_safe::compress_bound(bytes.len())];
    let length = zstd_safe::compress(&mut packed[..], &bytes, 19).unwrap();
    std::fs::write(golden_path(), &packed[..length]).unwrap();
}

fn unpack(path: &str) {
    let packed = std::fs::read(golden_path()).unwrap();
    let mut bytes = vec![0; DRIVE_BYTES];
    zstd_safe::decompress(&mut bytes[..], &packed).unwrap();
    std::fs::write(path, bytes).unwrap();
}

async fn check_content(engine: &Engine) {
    let mut found = vec![0; 8192];
    engine.device("data").unwrap().read(0, &mut found).await.unwrap();
    assert!(found == [9; 8192]);
    let tree = engine.inner.tree.borrow();
    assert_eq!(tree.catalogue.volume("data").unwrap().carried, carried_entry());
    assert_eq!(tree.notebook.get(NOTE).unwrap().value, vec![4; 500]);
}

#[test]
fn what_a_later_program_left_is_carried_through_writes_and_checkpoints() {
    if std::env::var_os("ASHLAR_WRITE_GOLDEN").is_some() {
        on_drive(async |runtime, path| make(&runtime, &path).await);
    }
    on_drive(async |runtime, path| {
        unpack(&path);
        let expected = newest(&path);
        for life in 0..2 {
            let engine = open(&runtime, &path).await.unwrap();
            check_content(&engine).await;
            engine.device("data").unwrap().write(1 << 16, &[life; 4096], false).await.unwrap();
            assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
            engine.close().await.unwrap();
            let now = newest(&path);
            assert!(now.generation > expected.generation);
            assert_eq!((now.compatible, now.allowed), (expected.compatible, expected.allowed));
            assert_eq!((&now.features, &now.carried), (&expected.features, &expected.carried));
            assert_eq!(now.drives[0].carried, expected.drives[0].carried);
        }
    });
}

#[test]
fn features_that_allow_reading_only_are_obeyed() {
    on_drive(async |runtime, path| {
        unpack(&path);
        rewrite(&path, |superblock| {
            superblock.read_only |= 1 << 3;
            name(superblock, FeatureClass::ReadOnly, 3, "sealed-ledger");
        });
        let whole = std::fs::read(&path).unwrap();
        let engine = open(&runtime, &path).await.unwrap();
        let state = engine.status().state;
        assert!(state.starts_with("read-only") && state.contains("sealed-ledger"), "{state}");
        check_content(&engine).await;
        let data = engine.device("data").unwrap();
        assert!(data.write(0, &[1; 4096], false).await.is_err());
        assert!(engine.snapshot_create("s", &["data".into()]).await.is_err());
        engine.close().await.unwrap();
        assert!(std::fs::read(&path).unwrap() == whole, "nothing was written");
    });
}

#[test]
fn features_that_must_be_known_refuse_the_pool_by_name() {
    on_drive(async |runtime, path| {
        unpack(&path);
        // Each slot: an older superblock without the feature must not open the pool either.
        for _ in 0..SUPERBLOCK_SLOTS {
            rewrite(&path, |_| ());
        }
        rewrite(&path, |superblock| {
            superblock.incompatible |= 1 << 33;
            name(superblock, FeatureClass::Incompatible, 33, "folded-space");
        });
        let whole = std::fs::read(&path).unwrap();
        let refused = open(&runtime, &path).await.err().unwrap().to_string();
        assert!(refused.contains("folded-space"), "{refused}");
        assert!(std::fs::read(&path).unwrap() == whole, "nothing was written");
    });
}
