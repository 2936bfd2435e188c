//! Chunks of which parts were written over: what nothing refers to any more does not stay in the way.
#![allow(clippy::unwrap_used)]

mod support;

use ashlar_engine::{Compression, DriveSpec, Engine, PoolSpec, Profile, Protection, Settings, VolumeSpec};
use ashlar_runtime::Runtime;
use support::on_drive;

const POOL_BYTES: u64 = 32 << 20;
/// Chunks of eight blocks, compressed to half, that fill the pool to three quarters.
const CHUNKS: u64 = 1440;
const CHUNK_BLOCKS: u64 = 8;
const BLOCK: u64 = 4096;

/// Different for every block and version; half of it compresses. Blocks that do not compress at all are
/// chunks of their own.
fn content(block: u64, version: u64) -> Vec<u8> {
    let mut state = (block << 20 ^ version).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..BLOCK).map(|at| if at % BLOCK < BLOCK / 2 { noise() } else { 7 }).collect()
}

/// The block of a chunk that is never written over: a different one from chunk to chunk.
fn is_left(block: u64) -> bool {
    block % CHUNK_BLOCKS == block / CHUNK_BLOCKS % CHUNK_BLOCKS
}

async fn verify(engine: &Engine, name: &str, version: impl Fn(u64) -> u64) {
    let device = engine.device(name).unwrap();
    let mut bytes = vec![0; BLOCK as usize];
    for block in 0..CHUNKS * CHUNK_BLOCKS {
        device.read(block * BLOCK, &mut bytes).await.unwrap();
        assert!(bytes == content(block, version(block)), "{name} block {block}");
    }
}

async fn overwrite_all_but_one(runtime: Runtime, path: String) {
    let spec = PoolSpec {
        name: "pool".into(),
        drives: vec![DriveSpec { path: path.clone(), create_size_bytes: Some(POOL_BYTES) }],
        protection: Protection::None,
        segment_bytes: Some(256 << 10),
        width: None,
        spares: 0,
    };
    Engine::create_pool(&runtime, spec).await.unwrap();
    let settings = Settings { cache_bytes: 1 << 20, ..Settings::default() };
    let engine = Engine::open(&runtime, std::slice::from_ref(&path), settings.clone()).await.unwrap();
    let volume = VolumeSpec {
        name: "data".into(),
        size_bytes: CHUNKS * CHUNK_BLOCKS * BLOCK,
        logical_block_bytes: 4096,
        profile: Profile::General,
        compression: Compression::Lz4,
        dedupe: false,
    };
    engine.volume_create(volume).await.unwrap();
    let device = engine.device("data").unwrap();
    for chunk in 0..CHUNKS {
        let first = chunk * CHUNK_BLOCKS;
        let bytes: Vec<u8> = (first..first + CHUNK_BLOCKS).flat_map(|block| content(block, 0)).collect();
        device.write(first * BLOCK, &bytes, false).await.unwrap();
    }
    // The last block of each chunk keeps all of it in place, three quarters of the pool, unless chunks
    // are trimmed; and seven eighths of that are written anew, which then do not fit beside it.
    for version in 1..=2 {
        for block in (0..CHUNKS * CHUNK_BLOCKS).filter(|block| !is_left(*block)) {
            let written = device.write(block * BLOCK, &content(block, version), false).await;
            assert!(written.is_ok(), "block {block}: {written:?}, {:?}", engine.status());
        }
    }
    let version = |block| if is_left(block) { 0 } else { 2 };
    verify(&engine, "data", version).await;
    let counters = engine.status().counters;
    assert!(counters.trimmed_blocks > CHUNKS, "{counters:?}");
    assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
    drop(device);
    engine.close().await.unwrap();
    drop(engine);
    let engine = Engine::open(&runtime, &[path], settings).await.unwrap();
    verify(&engine, "data", version).await;
    engine.close().await.unwrap();
}

#[test]
fn a_chunk_with_one_block_alive_takes_the_room_of_one() {
    on_drive(|runtime, path| Box::pin(overwrite_all_but_one(runtime, path)));
}
