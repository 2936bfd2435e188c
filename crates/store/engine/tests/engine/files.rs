//! The engine on real files through the real drivers: what is written is read, and is there after a
//! reopening, with and without a clean close.
#![allow(clippy::unwrap_used)]

use crate::support::on_shard_with;
use ashlar_engine::{Compression, DriveSpec, Engine, PoolSpec, Profile, Protection, Settings, VolumeSpec};
use ashlar_runtime::{DriverChoice, LocalFuture, Runtime, ShardSettings};

fn on_driver(driver: DriverChoice, test: impl FnOnce(Runtime) -> LocalFuture<'static, ()> + Send + 'static) {
    on_shard_with(ShardSettings { name: "test".into(), driver, ..ShardSettings::default() }, test);
}

fn spec(dir: &str) -> PoolSpec {
    let drive =
        |index: u32| DriveSpec { path: format!("{dir}/drive{index}"), create_size_bytes: Some(64 << 20) };
    PoolSpec {
        name: "pool".into(),
        drives: vec![drive(0), drive(1)],
        protection: Protection::None,
        segment_bytes: Some(1 << 20),
        width: None,
        spares: 0,
    }
}

fn volume(name: &str) -> VolumeSpec {
    VolumeSpec {
        name: name.into(),
        size_bytes: 1 << 40,
        logical_block_bytes: 512,
        profile: Profile::Oltp,
        compression: Compression::Lz4,
        dedupe: false,
    }
}

fn pattern(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (at / 7 * (seed + 3) + seed) as u8).collect()
}

async fn read(engine: &Engine, name: &str, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0xee; length];
    engine.device(name).unwrap().read(offset, &mut bytes).await.unwrap();
    bytes
}

async fn life_of_a_pool(runtime: Runtime, dir: String) {
    Engine::create_pool(&runtime, spec(&dir)).await.unwrap();
    let drives: Vec<String> = spec(&dir).drives.iter().map(|drive| drive.path.clone()).collect();
    let engine = Engine::open(&runtime, &drives, Settings::default()).await.unwrap();
    engine.volume_create(volume("data")).await.unwrap();
    let device = engine.device("data").unwrap();
    device.write(4096 * 1000, &pattern(1, 300_000 / 512 * 512), true).await.unwrap();
    device.write(512 * 3, &pattern(2, 512 * 20), false).await.unwrap();
    engine.snapshot_create("monday", &["data".into()]).await.unwrap();
    device.write(512 * 5, &pattern(3, 512), false).await.unwrap();
    device.unmap(4096 * 1000, 4096 * 10).await.unwrap();
    engine.clone_create("copy", "monday").await.unwrap();
    let check = async |engine: &Engine| {
        let mut expected = pattern(2, 512 * 20);
        assert_eq!(read(engine, "data@monday", 512 * 3, 512 * 20).await, expected);
        assert_eq!(read(engine, "copy", 512 * 3, 512 * 20).await, expected);
        expected[1024..1536].copy_from_slice(&pattern(3, 512));
        assert_eq!(read(engine, "data", 512 * 3, 512 * 20).await, expected);
        let old = pattern(1, 300_000 / 512 * 512);
        assert_eq!(read(engine, "copy", 4096 * 1000, old.len()).await, old);
        assert_eq!(read(engine, "data", 4096 * 1000, 40960).await, vec![0; 40960]);
        assert_eq!(read(engine, "data", 4096 * 1010, old.len() - 40960).await, old[40960..]);
        let report = engine.check().await.unwrap();
        assert_eq!(report.errors, Vec::<String>::new());
        assert!(report.chunks > 10, "{report:?}");
    };
    check(&engine).await;
    // The clone shares everything with the snapshot; what it writes is its own.
    assert_eq!(engine.unique_bytes("copy").await.unwrap(), Some(0));
    engine.device("copy").unwrap().write(0, &pattern(9, 4096), false).await.unwrap();
    let unique = engine.unique_bytes("copy").await.unwrap().unwrap();
    assert!((64..=4352).contains(&unique), "{unique}");
    engine.volume_delete("copy").await.unwrap();
    engine.clone_create("copy", "monday").await.unwrap();
    engine.close().await.unwrap();
    drop((device, engine));
    for _ in 0..3 {
        let engine = Engine::open(&runtime, &drives, Settings::default()).await.unwrap();
        check(&engine).await;
        engine.close().await.unwrap();
    }
    // More than the pool holds, in overwrites: segments with no live data come back.
    let engine = Engine::open(&runtime, &drives, Settings::default()).await.unwrap();
    engine.volume_delete("copy").await.unwrap();
    engine.snapshot_delete("monday").await.unwrap();
    let device = engine.device("data").unwrap();
    let block: Vec<u8> = (0..1_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for round in 0..400_u64 {
        device.write((round % 20) << 20, &block, false).await.unwrap();
    }
    assert_eq!(read(&engine, "data", 5 << 20, 1 << 20).await, block);
    let status = engine.status();
    let space = status.space;
    let parts = space.free_bytes + space.data_bytes + space.metadata_bytes + space.journal_bytes;
    let parts = parts + space.reserve_bytes + space.superblock_bytes + space.freed_bytes;
    let parts = parts + space.unusable_bytes;
    assert_eq!(parts, space.physical_bytes, "{space:?}");
    assert!(status.counters.segments_freed > 40, "{:?}", status.counters);
    engine.close().await.unwrap();
}

fn run(driver: DriverChoice) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().to_str().unwrap().to_string();
    on_driver(driver, move |runtime| Box::pin(life_of_a_pool(runtime, path)));
}

#[test]
fn a_pool_lives_on_files_through_io_uring() {
    run(DriverChoice::Auto);
}

#[test]
fn a_pool_lives_on_files_through_threads() {
    run(DriverChoice::Threads);
}
