//! What map pages cost: metadata written by each checkpoint under random overwrites, and kept by each
//! of many snapshots. Run it on memory:
//!
//! `TMPDIR=/dev/shm cargo run --release -p ashlar-engine --example metadata_bytes`
// A program of its own, over a real file.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods)]

use std::time::Duration;

use ashlar_engine::{Compression, DriveSpec, Engine, PoolSpec, Profile, Protection, Settings, VolumeSpec};
use ashlar_runtime::{Priority, Runtime, ShardSettings, start_shard};

const BLOCK: u64 = 4096;
const WRITERS: u64 = 32;
const PATIENCE: Duration = Duration::from_secs(600);

struct Load {
    random: u64,
    blocks: u64,
}

impl Load {
    fn next(&mut self) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % self.blocks
    }
}

/// A block that compresses to next to nothing and is not zero: a write costs its map entry.
fn content(number: u64) -> Vec<u8> {
    let mut block = vec![7; BLOCK as usize];
    block[..8].copy_from_slice(&number.to_le_bytes());
    block
}

async fn open(runtime: &Runtime, volume_bytes: u64) -> Engine {
    let dir = std::env::temp_dir().join(format!("ashlar-metadata-bytes-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("drive").to_str().unwrap().to_string();
    let _ = std::fs::remove_file(&path);
    let spec = PoolSpec {
        name: "pool".into(),
        drives: vec![DriveSpec { path: path.clone(), create_size_bytes: Some(6 << 30) }],
        protection: Protection::None,
        segment_bytes: None,
        width: None,
        spares: 0,
    };
    Engine::create_pool(runtime, spec).await.unwrap();
    let settings = Settings { map_cache_bytes: 256 << 20, ..Settings::default() };
    let engine = Engine::open(runtime, &[path], settings).await.unwrap();
    let volume = VolumeSpec {
        name: "data".into(),
        size_bytes: volume_bytes,
        logical_block_bytes: 4096,
        profile: Profile::Oltp,
        compression: Compression::Lz4,
        dedupe: false,
    };
    engine.volume_create(volume).await.unwrap();
    let device = engine.device("data").unwrap();
    let piece: Vec<u8> = (0..256).flat_map(content).collect();
    for offset in (0..volume_bytes).step_by(piece.len()) {
        device.write(offset, &piece, false).await.unwrap();
    }
    checkpoint(&engine).await;
    engine
}

/// The report counts from a checkpoint that it writes.
async fn checkpoint(engine: &Engine) {
    engine.space_estimate().await.unwrap();
}

async fn overwrite(runtime: &Runtime, engine: &Engine, load: &mut Load, writes: u64) {
    let mut tasks = Vec::new();
    for writer in 0..WRITERS {
        let blocks: Vec<u64> = (0..writes / WRITERS).map(|_| load.next()).collect();
        let device = engine.device("data").unwrap();
        tasks.push(runtime.spawn(Priority::Host, async move {
            for (number, block) in blocks.into_iter().enumerate() {
                device.write(block * BLOCK, &content(writer << 32 | number as u64), false).await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await;
    }
}

async fn checkpoints(runtime: &Runtime, volume_bytes: u64, writes: u64, rounds: u64) {
    let engine = open(runtime, volume_bytes).await;
    let mut load = Load { random: 1, blocks: volume_bytes / BLOCK };
    // A volume overwritten for a while already: the records of fresh, sequential leaves compress well.
    for _ in 0..rounds {
        overwrite(runtime, &engine, &mut load, writes).await;
        checkpoint(&engine).await;
    }
    let before = engine.status().counters;
    for _ in 0..rounds {
        overwrite(runtime, &engine, &mut load, writes).await;
        checkpoint(&engine).await;
    }
    let after = engine.status().counters;
    let bytes = after.metadata_bytes_written - before.metadata_bytes_written;
    let pages = after.pages_written - before.pages_written;
    let checkpoints = after.checkpoints - before.checkpoints;
    println!(
        "{} GiB, {writes} overwrites between checkpoints: {} bytes a checkpoint, {:.1} a write ({pages} pages in \
         {checkpoints} checkpoints)",
        volume_bytes >> 30,
        bytes / rounds,
        bytes as f64 / (writes * rounds) as f64,
    );
    engine.close().await.unwrap();
}

async fn snapshots(runtime: &Runtime, volume_bytes: u64, count: u64, share: u64) {
    let engine = open(runtime, volume_bytes).await;
    let blocks = volume_bytes / BLOCK;
    let mut load = Load { random: 1, blocks };
    let alive = async || {
        let report = engine.space_report(PATIENCE).await.unwrap();
        report.parts.metadata_alive_bytes
    };
    let before = alive().await;
    for number in 0..count {
        engine.snapshot_create(&format!("s{number}"), &["data".into()]).await.unwrap();
        overwrite(runtime, &engine, &mut load, blocks / share).await;
        checkpoint(&engine).await;
    }
    let grown = alive().await - before;
    println!(
        "{} GiB, {count} snapshots, 1/{share} overwritten between: {} bytes of metadata a snapshot, {:.1} a write",
        volume_bytes >> 30,
        grown / count,
        grown as f64 / (count * (blocks / share)) as f64,
    );
    engine.close().await.unwrap();
}

fn main() {
    let shard = start_shard(ShardSettings::default(), |runtime| {
        Box::pin(async move {
            // Rounds enough for every leaf to go through whole and short records several times.
            for (writes, rounds) in [(1_000, 140), (4_000, 80), (20_000, 20), (100_000, 6)] {
                checkpoints(&runtime, 4 << 30, writes, rounds).await;
            }
            for share in [1000, 100] {
                snapshots(&runtime, 1 << 30, 100, share).await;
            }
        })
    });
    shard.unwrap().join();
    let dir = std::env::temp_dir().join(format!("ashlar-metadata-bytes-{}", std::process::id()));
    std::fs::remove_dir_all(dir).unwrap();
}
