//! Copies inside a pool on real files: next to nothing is written, the bytes are those of the source, and
//! they stay when the source goes.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use ashlar_block::{ErrorKind, Identity};
use ashlar_engine::{
    Compression, DriveSpec, Engine, PoolSpec, Profile, Protection, Settings, VolumePolicy, VolumeSpec,
};
use ashlar_runtime::Runtime;

use crate::support::{bytes_of, on_drive, volume};

const MIB: u64 = 1 << 20;
const PIECE_BYTES: u64 = MIB;
const COPIED_BYTES: u64 = 64 * MIB;
/// Of the copy: not where the source's chunks begin.
const SHIFT_BYTES: u64 = 3 * 4096;

async fn make(runtime: &Runtime, path: &str) -> Engine {
    let spec = PoolSpec {
        name: "pool".into(),
        drives: vec![DriveSpec { path: path.to_string(), create_size_bytes: Some(256 * MIB) }],
        protection: Protection::None,
        segment_bytes: Some(MIB),
        width: None,
        spares: 0,
    };
    Engine::create_pool(runtime, spec).await.unwrap();
    let engine = open(runtime, path).await;
    engine.volume_create(volume("one", 80 * MIB)).await.unwrap();
    // Another profile, another codec, other logical blocks.
    let other = VolumeSpec {
        logical_block_bytes: 512,
        profile: Profile::Oltp,
        compression: Compression::Zstd,
        ..volume("two", 80 * MIB)
    };
    engine.volume_create(other).await.unwrap();
    engine
}

async fn open(runtime: &Runtime, path: &str) -> Engine {
    let settings = Settings { cache_bytes: MIB, ..Settings::default() };
    Engine::open(runtime, &[path.to_string()], settings).await.unwrap()
}

/// What the source has in a piece: data that compress, data that do not, zeroes, and a hole.
fn piece(number: u64) -> Vec<u8> {
    let mut bytes = bytes_of(number + 1, PIECE_BYTES as usize);
    if number % 4 == 1 {
        let mut state = number;
        for byte in &mut bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 56) as u8;
        }
    }
    bytes[100 << 10..300 << 10].fill(0);
    bytes[500 << 10..600 << 10].fill(0);
    bytes
}

async fn fill(engine: &Engine, name: &str) {
    let device = engine.device(name).unwrap();
    for number in 0..COPIED_BYTES / PIECE_BYTES {
        device.write(number * PIECE_BYTES, &piece(number), false).await.unwrap();
        device.unmap(number * PIECE_BYTES + (500 << 10), 100 << 10).await.unwrap();
    }
}

async fn verify(engine: &Engine, name: &str, shift: u64) {
    let device = engine.device(name).unwrap();
    let mut bytes = vec![0xee; PIECE_BYTES as usize];
    for number in 0..COPIED_BYTES / PIECE_BYTES {
        device.read(number * PIECE_BYTES + shift, &mut bytes).await.unwrap();
        assert!(bytes == piece(number), "{name}: piece {number}");
    }
}

fn identity(engine: &Engine, name: &str) -> Identity {
    engine.device(name).unwrap().identity().unwrap()
}

async fn copy(engine: &Engine, source: &str, target: &str, (from, to, length): (u64, u64, u64)) -> bool {
    let target = engine.device(target).unwrap();
    target.copy_from(identity(engine, source), from, to, length).await.unwrap()
}

async fn is_whole(engine: &Engine) {
    assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
}

fn written_bytes(engine: &Engine, name: &str) -> Option<u64> {
    engine.volumes().iter().find(|volume| volume.name == name).unwrap().written_bytes
}

#[test]
fn a_copy_of_64_mib_writes_next_to_no_data_and_is_there_after_a_start() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let engine = make(&runtime, &path).await;
            fill(&engine, "one").await;
            let before = engine.status().counters;
            assert!(copy(&engine, "one", "two", (0, SHIFT_BYTES, COPIED_BYTES)).await);
            let after = engine.status().counters;
            assert_eq!(after.copied_blocks, COPIED_BYTES / 4096);
            assert_eq!(after.stored_bytes, before.stored_bytes, "data were stored");
            assert_eq!(after.host_bytes_read, before.host_bytes_read, "data were read");
            let journalled = after.journal_bytes_written - before.journal_bytes_written;
            assert!(journalled < MIB, "{journalled} bytes to the journal for {COPIED_BYTES}");
            // The drive as a crash leaves it: there the records are applied again.
            let crashed = format!("{path}-crashed");
            std::fs::copy(&path, &crashed).unwrap();
            verify(&engine, "two", SHIFT_BYTES).await;
            assert_eq!(written_bytes(&engine, "one"), written_bytes(&engine, "two"));
            is_whole(&engine).await;
            engine.close().await.unwrap();
            drop(engine);
            let engine = open(&runtime, &crashed).await;
            assert!(engine.status().recovery.records_replayed > 0);
            verify(&engine, "two", SHIFT_BYTES).await;
            is_whole(&engine).await;
            engine.close().await.unwrap();
            drop(engine);
            let engine = open(&runtime, &path).await;
            verify(&engine, "one", 0).await;
            verify(&engine, "two", SHIFT_BYTES).await;
            engine.close().await.unwrap();
        })
    });
}

#[test]
fn a_copy_stays_when_its_source_goes_and_everything_is_moved() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let engine = make(&runtime, &path).await;
            fill(&engine, "one").await;
            assert!(copy(&engine, "one", "two", (0, SHIFT_BYTES, COPIED_BYTES)).await);
            // From a snapshot, and within a volume.
            engine.snapshot_create("kept", &["two".into()]).await.unwrap();
            engine.volume_create(volume("three", 160 * MIB)).await.unwrap();
            assert!(copy(&engine, "two@kept", "three", (SHIFT_BYTES, 0, COPIED_BYTES)).await);
            assert!(copy(&engine, "three", "three", (0, 80 * MIB, COPIED_BYTES)).await);
            engine.snapshot_delete("kept").await.unwrap();
            engine.volume_delete("one").await.unwrap();
            engine.volume_delete("two").await.unwrap();
            // More than the pool holds: what is dead is freed, what is alive is moved.
            engine.volume_create(volume("churn", 32 * MIB)).await.unwrap();
            let churn = engine.device("churn").unwrap();
            for number in 0..400 {
                let at = number * 7 % 32 * MIB;
                churn.write(at, &bytes_of(number + 1000, MIB as usize), false).await.unwrap();
            }
            let counters = engine.status().counters;
            assert!(counters.segments_freed > 100, "{counters:?}");
            verify(&engine, "three", 0).await;
            verify(&engine, "three", 80 * MIB).await;
            is_whole(&engine).await;
            drop(churn);
            engine.close().await.unwrap();
            drop(engine);
            let engine = open(&runtime, &path).await;
            verify(&engine, "three", 80 * MIB).await;
            is_whole(&engine).await;
            engine.close().await.unwrap();
        })
    });
}

#[test]
fn what_differs_after_a_copy_is_told() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let engine = make(&runtime, &path).await;
            fill(&engine, "one").await;
            engine.snapshot_create("before", &["two".into()]).await.unwrap();
            assert!(copy(&engine, "one", "two", (0, 16 * MIB, 64 << 10)).await);
            let patience = std::time::Duration::from_secs(600);
            let told = engine.difference("two", "two@before", 0, 9, patience).await.unwrap();
            assert_eq!(told.runs, vec![4096..4112]);
            engine.close().await.unwrap();
        })
    });
}

#[test]
fn what_cannot_be_copied_by_reference_is_left_to_who_asked() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let engine = make(&runtime, &path).await;
            fill(&engine, "one").await;
            for (from, to, length) in [(512, 0, 4096), (0, 512, 4096), (0, 0, 512)] {
                assert!(!copy(&engine, "one", "two", (from, to, length)).await, "{from} {to} {length}");
            }
            assert!(!copy(&engine, "one", "one", (0, 4096, 8192)).await, "onto itself");
            assert!(
                !copy(&engine, "one", "two", (80 * MIB - 4096, 0, 8192)).await,
                "beyond the source's end"
            );
            let two = engine.device("two").unwrap();
            let one = identity(&engine, "one");
            assert!(!two.copy_from(Identity { pool: one.pool + 1, ..one }, 0, 0, 4096).await.unwrap());
            assert!(!two.copy_from(Identity { image: 999, ..one }, 0, 0, 4096).await.unwrap());
            let beyond = two.copy_from(one, 0, 80 * MIB - 4096, 8192).await.unwrap_err();
            assert_eq!(beyond.kind, ErrorKind::Invalid);
            engine.snapshot_create("kept", &["two".into()]).await.unwrap();
            let kept = engine.device("two@kept").unwrap();
            let refused = kept.copy_from(one, 0, 0, 4096).await.unwrap_err();
            assert_eq!(refused.kind, ErrorKind::ReadOnly);
            assert_eq!(engine.status().counters.copied_blocks, 0);
            let gone = engine.device("one").unwrap();
            engine.volume_delete("one").await.unwrap();
            assert_eq!(gone.identity(), None);
            assert!(!two.copy_from(one, 0, 0, 4096).await.unwrap());
            engine.close().await.unwrap();
        })
    });
}

#[test]
fn a_limit_holds_for_copies() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let engine = make(&runtime, &path).await;
            fill(&engine, "one").await;
            let policy = VolumePolicy { limit_bytes: Some(Some(4 * MIB)), ..VolumePolicy::default() };
            engine.volume_set("two", policy).await.unwrap();
            let (one, two) = (identity(&engine, "one"), engine.device("two").unwrap());
            let refused = two.copy_from(one, 0, 0, COPIED_BYTES).await.unwrap_err();
            assert_eq!(refused.kind, ErrorKind::NoSpace);
            let own = engine.volumes().iter().find(|volume| volume.name == "two").unwrap().own_bytes;
            assert!((MIB..=4 * MIB).contains(&own), "{own}");
            // What is there already may be copied there again.
            assert!(two.copy_from(one, 0, 0, MIB).await.unwrap());
            is_whole(&engine).await;
            engine.close().await.unwrap();
        })
    });
}
