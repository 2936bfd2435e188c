//! Chunks of which parts were written over: what nothing refers to any more does not stay in the way.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use crate::support::on_drive;
use ashlar_engine::{DriveSpec, Engine, PoolSpec, Protection, Settings, SpaceParts};
use ashlar_format::chunk::Codec;
use ashlar_runtime::Runtime;

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

async fn open_new(runtime: &Runtime, path: &str, settings: &Settings, size_bytes: u64) -> Engine {
    let spec = PoolSpec {
        name: "pool".into(),
        drives: vec![DriveSpec { path: path.into(), create_size_bytes: Some(POOL_BYTES) }],
        protection: Protection::None,
        segment_bytes: Some(256 << 10),
        width: None,
        spares: 0,
    };
    Engine::create_pool(runtime, spec).await.unwrap();
    let engine = Engine::open(runtime, &[path.to_string()], settings.clone()).await.unwrap();
    engine.volume_create(crate::support::volume("data", size_bytes)).await.unwrap();
    engine
}

/// The blocks of a chunk as they were written first.
fn chunk_content(chunk: u64) -> Vec<u8> {
    let first = chunk * CHUNK_BLOCKS;
    (first..first + CHUNK_BLOCKS).flat_map(|block| content(block, 0)).collect()
}

async fn overwrite_all_but_one(runtime: Runtime, path: String) {
    let settings = Settings { cache_bytes: 1 << 20, ..Settings::default() };
    let engine = open_new(&runtime, &path, &settings, CHUNKS * CHUNK_BLOCKS * BLOCK).await;
    let device = engine.device("data").unwrap();
    for chunk in 0..CHUNKS {
        device.write(chunk * CHUNK_BLOCKS * BLOCK, &chunk_content(chunk), false).await.unwrap();
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

/// Chunks of the test below: a fifth of the pool.
const FEW_CHUNKS: u64 = 400;
/// Behind its blocks: where nothing is ever written.
const SCRATCH_BYTES: u64 = 1 << 20;
/// More than any count here takes.
const PATIENCE: Duration = Duration::from_secs(600);

/// What a chunk of this content takes on a drive.
fn stored_bytes(content: &[u8]) -> u64 {
    let payload = ashlar_reduction::compress(Codec::Lz4, content, &mut vec![0; content.len()]);
    (32 + payload.expect("half of it compresses") as u64).next_multiple_of(64)
}

/// Of chunk `chunk` so many blocks, the first ones, are written over.
fn overwritten_blocks(chunk: u64) -> u64 {
    chunk % CHUNK_BLOCKS
}

async fn parts(engine: &Engine) -> SpaceParts {
    let parts = engine.space_report(PATIENCE).await.unwrap().parts;
    assert_eq!((parts.sum_bytes(), parts.physical_bytes), (POOL_BYTES, POOL_BYTES), "{parts:?}");
    parts
}

/// Writes chunks, then some blocks of each anew; returns the bytes stranded and alive, computed by hand.
async fn strand(engine: &Engine) -> (u64, u64) {
    let device = engine.device("data").unwrap();
    let (mut stranded, mut alive) = (0, 0);
    for chunk in 0..FEW_CHUNKS {
        let whole = chunk_content(chunk);
        device.write(chunk * CHUNK_BLOCKS * BLOCK, &whole, false).await.unwrap();
        let share = stored_bytes(&whole) * overwritten_blocks(chunk) / CHUNK_BLOCKS;
        stranded += share;
        alive += stored_bytes(&whole) - share;
    }
    for chunk in 0..FEW_CHUNKS {
        for block in (chunk * CHUNK_BLOCKS..).take(overwritten_blocks(chunk) as usize) {
            device.write(block * BLOCK, &content(block, 1), false).await.unwrap();
            alive += stored_bytes(&content(block, 1));
        }
    }
    (stranded, alive)
}

async fn count_stranded(runtime: Runtime, path: String) {
    let size_bytes = FEW_CHUNKS * CHUNK_BLOCKS * BLOCK + SCRATCH_BYTES;
    let settings = Settings { cache_bytes: 1 << 20, free_percent_wanted: 0, ..Settings::default() };
    let engine = open_new(&runtime, &path, &settings, size_bytes).await;
    let (stranded, alive) = strand(&engine).await;
    let counted = parts(&engine).await;
    assert_eq!((counted.stranded_bytes, counted.data_alive_bytes), (Some(stranded), alive));
    let estimate = engine.space_estimate().await.unwrap().parts;
    assert_eq!((estimate.stranded_bytes, estimate.sum_bytes()), (None, POOL_BYTES));
    assert_eq!(engine.status().counters.trimmed_blocks, 0);
    // A snapshot that goes on showing what a restart finds keeps it, and nothing else changes.
    engine.snapshot_create("kept", &["data".into()]).await.unwrap();
    engine.close().await.unwrap();
    drop(engine);
    let settings = Settings { free_percent_wanted: 100, ..settings };
    let engine = Engine::open(&runtime, &[path], settings).await.unwrap();
    let mut counted = parts(&engine).await;
    let device = engine.device("data").unwrap();
    for _ in 0..1000 {
        if counted.stranded_bytes < Some(stranded / 2) {
            break;
        }
        // What is given back has the cleaner look for more at the checkpoint that each count takes.
        device.unmap(size_bytes - SCRATCH_BYTES, SCRATCH_BYTES).await.unwrap();
        counted = parts(&engine).await;
    }
    assert!(counted.stranded_bytes < Some(stranded / 2), "{counted:?}, {:?}", engine.status().counters);
    assert!(engine.status().counters.trimmed_blocks > 0);
    // The blocks that were left in their chunks are alive as before, only closer together.
    assert!(
        counted.data_alive_bytes > alive / 10 * 9 && counted.data_alive_bytes < alive / 10 * 11,
        "{counted:?}"
    );
    assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
    engine.close().await.unwrap();
}

#[test]
fn what_is_stranded_is_counted_and_goes_when_chunks_move() {
    on_drive(|runtime, path| Box::pin(count_stranded(runtime, path)));
}
