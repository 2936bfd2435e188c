//! The cleaner on real files: a pool that is overwritten at random for ever, with snapshots that come
//! and go, neither fills nor forgets.
#![allow(clippy::unwrap_used)]

use crate::support::on_shard;
use ashlar_engine::{Compression, DriveSpec, Engine, PoolSpec, Profile, Protection, Settings, VolumeSpec};
use ashlar_runtime::{Priority, Runtime};

const POOL_BYTES: u64 = 64 << 20;
const LIVE_BYTES: u64 = 28 << 20;
const BLOCKS: u64 = LIVE_BYTES / 4096;
const WRITERS: u64 = 32;
const WRITES_PER_ROUND: u64 = 150;

/// Incompressible, and different for every block and version.
fn content(block: u64, version: u64) -> Vec<u8> {
    let mut state = (block << 20 ^ version).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..4096)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}

/// Writer `writer` owns every WRITERS-th block: rounds are deterministic though writers run together.
fn blocks_of_round(writer: u64, round: u64) -> impl Iterator<Item = u64> {
    let mut state = writer << 32 | round;
    (0..WRITES_PER_ROUND).map(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99_991);
        (state >> 33) % (BLOCKS / WRITERS) * WRITERS + writer
    })
}

async fn overwrite(runtime: &Runtime, engine: &Engine, round: u64, versions: &mut [u64]) {
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let device = engine.device("data").unwrap();
            let engine = engine.clone();
            runtime.spawn(Priority::Host, async move {
                for block in blocks_of_round(writer, round) {
                    let written = device.write(block * 4096, &content(block, round), false).await;
                    assert!(written.is_ok(), "round {round}: {written:?}, {:?}", engine.status());
                }
            })
        })
        .collect();
    for task in tasks {
        task.await;
    }
    for writer in 0..WRITERS {
        blocks_of_round(writer, round).for_each(|block| versions[block as usize] = round);
    }
}

async fn verify(engine: &Engine, name: &str, versions: &[u64]) {
    let device = engine.device(name).unwrap();
    let mut bytes = vec![0; 4096];
    for (block, version) in versions.iter().enumerate() {
        device.read(block as u64 * 4096, &mut bytes).await.unwrap();
        assert!(bytes == content(block as u64, *version), "{name} block {block}, version {version}");
    }
}

async fn rounds(runtime: Runtime, dir: String) {
    let path = format!("{dir}/drive");
    let spec = PoolSpec {
        name: "pool".into(),
        drives: vec![DriveSpec { path: path.clone(), create_size_bytes: Some(POOL_BYTES) }],
        protection: Protection::None,
        segment_bytes: Some(512 << 10),
        width: None,
        spares: 0,
    };
    Engine::create_pool(&runtime, spec).await.unwrap();
    let settings = Settings { cache_bytes: 1 << 20, ..Settings::default() };
    let mut engine = Engine::open(&runtime, std::slice::from_ref(&path), settings.clone()).await.unwrap();
    let volume = VolumeSpec {
        name: "data".into(),
        size_bytes: LIVE_BYTES,
        logical_block_bytes: 4096,
        profile: Profile::Oltp,
        compression: Compression::Lz4,
        dedupe: false,
    };
    engine.volume_create(volume).await.unwrap();
    let mut versions = vec![0; BLOCKS as usize];
    let device = engine.device("data").unwrap();
    for block in 0..BLOCKS {
        device.write(block * 4096, &content(block, 0), false).await.unwrap();
    }
    drop(device);
    let mut at_snapshot = Vec::new();
    for round in 1..=12 {
        if round % 4 == 2 {
            engine.snapshot_create("kept", &["data".into()]).await.unwrap();
            at_snapshot = versions.clone();
        }
        overwrite(&runtime, &engine, round, &mut versions).await;
        if round % 4 == 3 {
            verify(&engine, "data@kept", &at_snapshot).await;
            engine.snapshot_delete("kept").await.unwrap();
        }
        if round % 5 == 0 {
            engine.close().await.unwrap();
            // It holds the drives until the last reference goes.
            drop(engine);
            engine = Engine::open(&runtime, std::slice::from_ref(&path), settings.clone()).await.unwrap();
            verify(&engine, "data", &versions).await;
        }
    }
    verify(&engine, "data", &versions).await;
    let report = engine.check().await.unwrap();
    assert_eq!(report.errors, Vec::<String>::new());
    let counters = engine.status().counters;
    assert!(counters.segments_emptied > 20 && counters.moved_bytes > 1 << 20, "{counters:?}");
    engine.close().await.unwrap();
}

#[test]
fn a_pool_overwritten_at_random_neither_fills_nor_forgets() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().to_str().unwrap().to_string();
    on_shard(move |runtime| Box::pin(rounds(runtime, path)));
}
