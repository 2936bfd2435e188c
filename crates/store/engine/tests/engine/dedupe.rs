//! Dedupe on real files: the same content written twice takes the space of one, reads back as it was,
//! and is left alone where nobody asked for it.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use crate::support::on_drive;
use ashlar_engine::{
    Compression, DedupeStatus, DriveSpec, Engine, PoolSpec, Profile, Protection, Settings, VolumePolicy,
    VolumeSpec,
};
use ashlar_runtime::Runtime;

const POOL_BYTES: u64 = 128 << 20;
const VOLUME_BYTES: u64 = 16 << 20;
const BLOCK: u64 = 4096;
/// Of each volume's 4096 blocks.
const BLOCKS: u64 = 2048;
const WRITE_BLOCKS: u64 = 32;
/// More than any count here takes.
const PATIENCE: Duration = Duration::from_secs(600);

/// Half noise: two to one for a compressor. Different for every block and kind.
fn content(block: u64, kind: u64) -> Vec<u8> {
    let mut state = (block << 20 ^ kind).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = vec![0; BLOCK as usize];
    for byte in &mut bytes[..2048] {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *byte = (state >> 56) as u8;
    }
    bytes
}

fn contents(blocks: std::ops::Range<u64>, kind: u64) -> Vec<u8> {
    blocks.flat_map(|block| content(block, kind)).collect()
}

async fn make_pool(runtime: &Runtime, path: &str) -> Engine {
    let spec = PoolSpec {
        name: "pool".into(),
        drives: vec![DriveSpec { path: path.to_string(), create_size_bytes: Some(POOL_BYTES) }],
        protection: Protection::None,
        segment_bytes: Some(1 << 20),
        width: None,
        spares: 0,
    };
    Engine::create_pool(runtime, spec).await.unwrap();
    open(runtime, path).await
}

async fn open(runtime: &Runtime, path: &str) -> Engine {
    let settings = Settings { cache_bytes: 1 << 20, ..Settings::default() };
    Engine::open(runtime, &[path.to_string()], settings).await.unwrap()
}

async fn make_volume(engine: &Engine, name: &str, dedupe: bool) {
    let spec = VolumeSpec {
        name: name.into(),
        size_bytes: VOLUME_BYTES,
        logical_block_bytes: 4096,
        profile: Profile::General,
        compression: Compression::Lz4,
        dedupe,
    };
    engine.volume_create(spec).await.unwrap();
}

async fn write(engine: &Engine, name: &str, at: u64, kind: u64) {
    let device = engine.device(name).unwrap();
    for first in (0..BLOCKS).step_by(WRITE_BLOCKS as usize) {
        let data = contents(first..first + WRITE_BLOCKS, kind);
        device.write((at + first) * BLOCK, &data, false).await.unwrap();
    }
}

async fn verify(engine: &Engine, name: &str, at: u64, kind: u64) {
    let device = engine.device(name).unwrap();
    let mut bytes = vec![0; (WRITE_BLOCKS * BLOCK) as usize];
    for first in (0..BLOCKS).step_by(WRITE_BLOCKS as usize) {
        device.read((at + first) * BLOCK, &mut bytes).await.unwrap();
        assert!(bytes == contents(first..first + WRITE_BLOCKS, kind), "{name} block {first}");
    }
}

/// Waits until everything queued was looked at.
async fn settle(runtime: &Runtime, engine: &Engine) -> DedupeStatus {
    let mut before = engine.status().dedupe;
    loop {
        runtime.sleep(Duration::from_millis(30)).await;
        let now = engine.status().dedupe;
        if now == before && now.queued_blocks == 0 && now.rebuild_percent.is_none() {
            return now;
        }
        before = now;
    }
}

async fn chunk_bytes(engine: &Engine) -> u64 {
    let report = engine.space_report(PATIENCE).await.unwrap();
    assert_eq!(report.parts.sum_bytes(), report.parts.physical_bytes);
    report.parts.data_alive_bytes + report.parts.stranded_bytes.unwrap()
}

async fn check(engine: &Engine) {
    assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
}

#[test]
fn the_same_content_in_two_volumes_takes_the_space_of_one() {
    on_drive(|runtime, path| Box::pin(two_volumes(runtime, path)));
}

async fn two_volumes(runtime: Runtime, path: String) {
    let engine = make_pool(&runtime, &path).await;
    for name in ["one", "two"] {
        make_volume(&engine, name, true).await;
    }
    write(&engine, "one", 0, 7).await;
    settle(&runtime, &engine).await;
    let single = chunk_bytes(&engine).await;
    // Elsewhere in the volume: addresses do not matter.
    write(&engine, "two", 16, 7).await;
    let status = settle(&runtime, &engine).await;
    assert_eq!(status.counters.shared, BLOCKS, "{status:?}");
    assert!(status.counters.extended > BLOCKS / 2, "{status:?}");
    assert_eq!(chunk_bytes(&engine).await, single);
    for name in ["one", "two"] {
        let info = engine.volumes().into_iter().find(|info| info.name == name).unwrap();
        assert_eq!(info.written_bytes, Some(BLOCKS * BLOCK));
    }
    check(&engine).await;
    engine.close().await.unwrap();
    drop(engine);

    let engine = open(&runtime, &path).await;
    verify(&engine, "one", 0, 7).await;
    verify(&engine, "two", 16, 7).await;
    // Nobody loses what the other gives up.
    engine.volume_delete("one").await.unwrap();
    check(&engine).await;
    assert_eq!(chunk_bytes(&engine).await, single);
    verify(&engine, "two", 16, 7).await;
    engine.close().await.unwrap();
}

#[test]
fn volumes_without_dedupe_cost_nothing_and_are_found_when_it_is_switched_on() {
    on_drive(|runtime, path| Box::pin(switched(runtime, path)));
}

async fn switched(runtime: Runtime, path: String) {
    let engine = make_pool(&runtime, &path).await;
    for name in ["one", "two"] {
        make_volume(&engine, name, false).await;
        write(&engine, name, 0, 3).await;
    }
    let status = settle(&runtime, &engine).await;
    let nothing = DedupeStatus { index_bytes_max: status.index_bytes_max, ..DedupeStatus::default() };
    assert_eq!(status, nothing);
    let double = chunk_bytes(&engine).await;
    for name in ["one", "two"] {
        let policy = VolumePolicy { dedupe: Some(true), ..VolumePolicy::default() };
        assert!(engine.volume_set(name, policy).await.unwrap().dedupe);
    }
    engine.dedupe_rebuild().unwrap();
    let status = settle(&runtime, &engine).await;
    assert_eq!(status.counters.shared, BLOCKS, "{status:?}");
    assert_eq!(chunk_bytes(&engine).await, double / 2);
    // A second pass finds nothing more to do.
    engine.dedupe_rebuild().unwrap();
    assert_eq!(settle(&runtime, &engine).await.counters.shared, BLOCKS);
    verify(&engine, "one", 0, 3).await;
    verify(&engine, "two", 0, 3).await;

    // Dropped: no memory, no lookups until there is something to look up.
    assert_eq!(engine.dedupe_drop().index_bytes, 0);
    assert!(engine.dedupe_resize(100).is_err());
    let status = engine.dedupe_resize(1 << 20).unwrap();
    assert_eq!(status.index_bytes_max, 1 << 20);
    let status = settle(&runtime, &engine).await;
    assert!(status.index_entries >= BLOCKS && status.index_bytes <= 1 << 20, "{status:?}");
    assert_eq!(engine.dedupe_resize(0).unwrap().index_bytes, 0);
    write(&engine, "one", 2048, 3).await;
    assert_eq!(settle(&runtime, &engine).await.index_entries, 0);
    engine.close().await.unwrap();
    drop(engine);

    // The switch is journalled, and the index comes back by itself.
    let engine = open(&runtime, &path).await;
    assert!(engine.volumes().iter().all(|info| info.dedupe));
    let status = settle(&runtime, &engine).await;
    assert_eq!(status.counters.shared, BLOCKS, "what was written while it was off: {status:?}");
    verify(&engine, "one", 2048, 3).await;
    check(&engine).await;
    engine.close().await.unwrap();
}

#[test]
fn snapshots_small_writes_and_overwrites_keep_what_they_had() {
    on_drive(|runtime, path| Box::pin(mixed(runtime, path)));
}

async fn mixed(runtime: Runtime, path: String) {
    let engine = make_pool(&runtime, &path).await;
    make_volume(&engine, "one", true).await;
    make_volume(&engine, "two", true).await;
    write(&engine, "one", 0, 1).await;
    write(&engine, "two", 0, 2).await;
    engine.snapshot_create("before", &["one".into(), "two".into()]).await.unwrap();
    // Block by block, as a copy with small requests does: runs are found all the same.
    let device = engine.device("two").unwrap();
    for block in 0..BLOCKS {
        device.write(block * BLOCK, &content(block, 1), false).await.unwrap();
    }
    let status = settle(&runtime, &engine).await;
    assert!(status.counters.shared > BLOCKS * 9 / 10, "{status:?}");
    // The target is written over; the sharer keeps it.
    write(&engine, "one", 0, 9).await;
    settle(&runtime, &engine).await;
    verify(&engine, "one", 0, 9).await;
    verify(&engine, "two", 0, 1).await;
    verify(&engine, "one@before", 0, 1).await;
    verify(&engine, "two@before", 0, 2).await;
    engine.snapshot_restore("before").await.unwrap();
    verify(&engine, "two", 0, 2).await;
    check(&engine).await;
    engine.close().await.unwrap();
}

/// Of what is shared, by snapshots and clones, and by equal content; in blocks.
async fn shared(engine: &Engine) -> (u64, u64) {
    let report = engine.space_report(PATIENCE).await.unwrap();
    let walked = report.walked.unwrap();
    let written: u64 = report.images.iter().map(|image| image.written_bytes.unwrap()).sum();
    let saved = walked.sharing_saved_bytes.cast_signed() + walked.compression_saved_bytes;
    assert_eq!(written.cast_signed() - saved, report.parts.data_alive_bytes.cast_signed());
    let by_clone = walked.sharing_saved_bytes - walked.content_saved_bytes;
    (by_clone / BLOCK, walked.content_saved_bytes / BLOCK)
}

#[test]
fn what_content_shares_is_told_from_what_clones_share() {
    on_drive(|runtime, path| Box::pin(told_apart(runtime, path)));
}

async fn told_apart(runtime: Runtime, path: String) {
    let engine = make_pool(&runtime, &path).await;
    make_volume(&engine, "one", true).await;
    write(&engine, "one", 0, 1).await;
    settle(&runtime, &engine).await;
    assert_eq!(shared(&engine).await, (0, 0));
    engine.snapshot_create("first", &["one".into()]).await.unwrap();
    engine.clone_create("clone", "first").await.unwrap();
    assert_eq!(shared(&engine).await, (2 * BLOCKS, 0));
    // The same content at the same address of a stranger.
    make_volume(&engine, "two", true).await;
    write(&engine, "two", 0, 1).await;
    settle(&runtime, &engine).await;
    assert_eq!(shared(&engine).await, (2 * BLOCKS, BLOCKS));
    // Once more in the same volume, at another address.
    write(&engine, "two", 2048, 1).await;
    settle(&runtime, &engine).await;
    assert_eq!(shared(&engine).await, (2 * BLOCKS, 2 * BLOCKS));
    engine.clone_create("second", "two").await.unwrap();
    assert_eq!(shared(&engine).await, (4 * BLOCKS, 2 * BLOCKS));
    // Relatives are known by the pages they share when what was between them is gone.
    engine.snapshot_delete("first").await.unwrap();
    assert_eq!(shared(&engine).await, (3 * BLOCKS, 2 * BLOCKS));
    engine.volume_delete("one").await.unwrap();
    engine.volume_delete("two").await.unwrap();
    assert_eq!(shared(&engine).await, (0, 2 * BLOCKS));
    verify(&engine, "clone", 0, 1).await;
    verify(&engine, "second", 2048, 1).await;
    engine.close().await.unwrap();
}

struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[test]
fn what_is_predicted_for_a_delete_is_what_it_gives_with_dedupe_too() {
    on_drive(|runtime, path| Box::pin(predicted(runtime, path)));
}

async fn predicted(runtime: Runtime, path: String) {
    let engine = make_pool(&runtime, &path).await;
    let mut chance = Chance(77);
    let mut names: Vec<String> = (0..4).map(|number| format!("v{number}")).collect();
    for name in &names {
        make_volume(&engine, name, true).await;
    }
    for round in 0..240 {
        let device = engine.device(&format!("v{}", chance.below(4))).unwrap();
        let (first, from) = (chance.below(1000), chance.below(300));
        let blocks = 1 + chance.below(40);
        device.write(first * BLOCK, &contents(from..from + blocks, 5), false).await.unwrap();
        if round % 40 == 20 {
            let (name, volume) = (format!("s{round}"), format!("v{}", chance.below(4)));
            engine.snapshot_create(&name, &[volume]).await.unwrap();
            engine.clone_create(&format!("c{round}"), &name).await.unwrap();
            names.extend([name, format!("c{round}")]);
        }
    }
    assert!(settle(&runtime, &engine).await.counters.shared > 1000);
    check(&engine).await;
    while !names.is_empty() {
        let count = (1 + chance.below(3)).min(names.len() as u64);
        let set: Vec<String> =
            (0..count).map(|_| names.swap_remove(chance.below(names.len() as u64) as usize)).collect();
        let before = chunk_bytes(&engine).await;
        let predicted = engine.reclaim(&set, PATIENCE).await.unwrap();
        for name in &set {
            if name.starts_with('s') {
                engine.snapshot_delete(name).await.unwrap();
            } else {
                engine.volume_delete(name).await.unwrap();
            }
        }
        assert_eq!(before - chunk_bytes(&engine).await, predicted.chunk_bytes, "{set:?}");
        check(&engine).await;
    }
    assert_eq!(chunk_bytes(&engine).await, 0);
    engine.close().await.unwrap();
}
