//! Limits and reserves of volumes: a clone that fills up leaves production its room.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use crate::support::{create_small_pool, on_drive, volume};
use ashlar_block::ErrorKind;
use ashlar_engine::{Allowance, Engine, Settings, VolumePolicy};
use ashlar_runtime::{Priority, Runtime};

const PIECE_BYTES: u64 = 64 << 10;
const MIB: u64 = 1 << 20;

/// Incompressible, and different for every seed.
fn content(seed: u64, length: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = (0..length / 8).flat_map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state ^ state >> 29).to_le_bytes()
    });
    words.collect()
}

fn limit(bytes: u64) -> Allowance {
    Allowance { limit_bytes: Some(bytes), reserve_bytes: None }
}

fn reserve(bytes: u64) -> Allowance {
    Allowance { limit_bytes: None, reserve_bytes: Some(bytes) }
}

async fn open(runtime: &Runtime, path: &str) -> Engine {
    let settings = Settings { cache_bytes: 1 << 20, ..Settings::default() };
    Engine::open(runtime, &[path.to_string()], settings).await.unwrap()
}

async fn write(engine: &Engine, name: &str, pieces: std::ops::Range<u64>, version: u64) {
    let device = engine.device(name).unwrap();
    for piece in pieces {
        let bytes = content(piece << 8 | version, PIECE_BYTES);
        device.write(piece * PIECE_BYTES, &bytes, false).await.unwrap();
    }
}

/// Writes pieces until one is refused: how many were not, and why.
async fn fill(engine: &Engine, name: &str, version: u64) -> (u64, String) {
    let device = engine.device(name).unwrap();
    for piece in 0.. {
        let bytes = content(piece << 8 | version, PIECE_BYTES);
        match device.write(piece * PIECE_BYTES, &bytes, false).await {
            Ok(()) => {}
            Err(error) if error.kind == ErrorKind::NoSpace => return (piece, error.to_string()),
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("a volume without an end")
}

fn own_bytes(engine: &Engine, name: &str) -> u64 {
    engine.volumes().iter().find(|volume| volume.name == name).unwrap().own_bytes
}

fn allowance(engine: &Engine, name: &str) -> Allowance {
    engine.volumes().iter().find(|volume| volume.name == name).unwrap().allowance
}

async fn check(engine: &Engine) {
    assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
}

/// Production with 16 MiB of data in a pool of 64 MiB, and a test clone of it.
async fn with_clone(runtime: &Runtime, path: &str, allowance: Allowance) -> Engine {
    create_small_pool(runtime, path).await;
    let engine = open(runtime, path).await;
    engine.volume_create(volume("prod", 256 * MIB)).await.unwrap();
    write(&engine, "prod", 0..256, 0).await;
    engine.clone_create_on("test", "prod", allowance).await.unwrap();
    engine
}

#[test]
fn a_clone_at_its_limit_is_told_and_production_goes_on() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let engine = with_clone(&runtime, &path, limit(4 * MIB)).await;
            assert_eq!(own_bytes(&engine, "test"), 0);
            let (written, why) = fill(&engine, "test", 1).await;
            assert!(why.contains("volume test is at its limit") && why.contains("4 MiB"), "{why}");
            assert!(why.contains("ashlar volume set test --limit"), "{why}");
            let own = own_bytes(&engine, "test");
            assert!(own <= 4 * MIB && own > 4 * MIB - 2 * PIECE_BYTES, "{own} after {written} pieces");
            assert_eq!(engine.status().volumes_at_limit, ["test"]);
            assert!(engine.status().counters.writes_refused_by_limit > 0);

            // In place it goes on, and production does anyhow.
            write(&engine, "test", 0..written, 2).await;
            assert_eq!(own_bytes(&engine, "test"), own);
            write(&engine, "prod", 0..256, 3).await;

            // Zeroes and unmaps pass, and what they give back may be written.
            let device = engine.device("test").unwrap();
            device.write(0, &vec![0; PIECE_BYTES as usize], false).await.unwrap();
            device.unmap(PIECE_BYTES, 15 * PIECE_BYTES).await.unwrap();
            assert!(engine.status().volumes_at_limit.is_empty());
            write(&engine, "test", 100..116, 4).await;
            let (_, why) = fill(&engine, "test", 5).await;
            assert!(why.contains("at its limit"), "{why}");

            engine
                .volume_set("test", VolumePolicy { limit_bytes: Some(None), ..Default::default() })
                .await
                .unwrap();
            write(&engine, "test", 0..80, 6).await;
            check(&engine).await;
            engine.close().await.unwrap();
        })
    });
}

/// Pages that an unmap drops are not counted; a write that would be refused for that counts them.
#[test]
fn what_a_large_unmap_gives_back_may_be_written_at_once() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let engine = with_clone(&runtime, &path, limit(6 * MIB)).await;
            for version in 1..4 {
                fill(&engine, "test", version).await;
                let (written, _) = fill(&engine, "test", version + 10).await;
                assert!(written * PIECE_BYTES > 5 * MIB, "{written} pieces");
                engine.device("test").unwrap().unmap(0, 256 * MIB - 4096).await.unwrap();
            }
            check(&engine).await;
            engine.close().await.unwrap();
        })
    });
}

#[test]
fn many_writes_at_once_do_not_overshoot_by_more_than_is_in_flight() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let engine = with_clone(&runtime, &path, limit(3 * MIB)).await;
            for version in 1..5 {
                let tasks: Vec<_> = (0..96)
                    .map(|task: u64| {
                        let device = engine.device("test").unwrap();
                        // Three of them at each place.
                        let (at, seed) = (task / 3 * 2 * PIECE_BYTES, task << 8 | version);
                        runtime.spawn(Priority::Host, async move {
                            // Some are refused.
                            let _told = device.write(at, &content(seed, 2 * PIECE_BYTES), false).await;
                        })
                    })
                    .collect();
                for task in tasks {
                    task.await;
                }
                // Credits of a pool with such segments: two of them.
                let own = own_bytes(&engine, "test");
                assert!(own <= 3 * MIB + (512 << 10), "{own}");
                assert!(own > 2 * MIB, "{own}");
            }
            check(&engine).await;
            engine.close().await.unwrap();
        })
    });
}

#[test]
fn a_reserve_is_there_for_its_volume_when_others_filled_the_pool() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            create_small_pool(&runtime, &path).await;
            let engine = open(&runtime, &path).await;
            engine.volume_create_on(volume("prod", 256 * MIB), reserve(16 * MIB)).await.unwrap();
            engine.volume_create(volume("other", 256 * MIB)).await.unwrap();
            let space = engine.status().space;
            assert_eq!(space.kept_bytes, 16 * MIB);
            let parts = engine.space_estimate().await.unwrap().parts;
            assert_eq!((parts.kept_bytes, parts.sum_bytes()), (16 * MIB, parts.physical_bytes));

            let (_, why) = fill(&engine, "other", 1).await;
            assert!(why.contains("kept for other volumes"), "{why}");
            let (written, _) = fill(&engine, "prod", 2).await;
            // Headers, padding and map pages come out of it, too.
            assert!(written * PIECE_BYTES >= 14 * MIB, "{written} pieces");
            assert_eq!(engine.status().space.kept_bytes / (1 << 20), 0);
            check(&engine).await;
            engine.close().await.unwrap();
        })
    });
}

#[test]
fn more_than_is_free_is_not_kept_and_senseless_allowances_are_refused() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            create_small_pool(&runtime, &path).await;
            let engine = open(&runtime, &path).await;
            engine.volume_create(volume("prod", 256 * MIB)).await.unwrap();
            let set = async |limit_bytes, reserve_bytes| {
                let policy = VolumePolicy { limit_bytes, reserve_bytes, ..Default::default() };
                engine.volume_set("prod", policy).await.map(|info| info.allowance)
            };
            let refused = set(None, Some(Some(80 * MIB))).await.unwrap_err().to_string();
            assert!(refused.contains("needs 80 MiB of free space, the pool has"), "{refused}");
            assert!(set(Some(Some(0)), None).await.is_err());
            assert!(set(Some(Some(MIB)), Some(Some(2 * MIB))).await.is_err());
            let both = Allowance { limit_bytes: Some(9 * MIB), reserve_bytes: Some(8 * MIB) };
            assert_eq!(set(Some(both.limit_bytes), Some(both.reserve_bytes)).await.unwrap(), both);
            let refused = engine.volume_create_on(volume("more", 64 * MIB), reserve(55 * MIB)).await;
            assert!(refused.is_err() && !engine.device_names().contains(&"more".to_string()));
            engine.volume_create_on(volume("more", 64 * MIB), reserve(40 * MIB)).await.unwrap();
            assert_eq!(set(Some(None), Some(None)).await.unwrap(), Allowance::default());
            engine.close().await.unwrap();
        })
    });
}

#[test]
fn restore_resize_undelete_close_and_crash_keep_them() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let both = Allowance { limit_bytes: Some(4 * MIB), reserve_bytes: Some(2 * MIB) };
            let engine = with_clone(&runtime, &path, both).await;
            write(&engine, "test", 0..16, 1).await;
            let own = own_bytes(&engine, "test");
            engine.snapshot_create("before", &["test".to_string()]).await.unwrap();
            write(&engine, "test", 16..48, 2).await;
            engine.snapshot_restore("before").await.unwrap();
            assert_eq!(own_bytes(&engine, "test"), own);
            engine.volume_resize("test", 128 * MIB).await.unwrap();
            let deleted = engine.volume_set_aside("test").await.unwrap();
            assert_eq!(engine.status().space.kept_bytes, 0);
            engine.volume_undelete(deleted.info.id, "again").await.unwrap();
            assert_eq!((allowance(&engine, "again"), own_bytes(&engine, "again")), (both, own));
            engine.close().await.unwrap();
            drop(engine);

            let engine = open(&runtime, &path).await;
            assert_eq!((allowance(&engine, "again"), own_bytes(&engine, "again")), (both, own));
            write(&engine, "again", 16..20, 3).await;
            engine.clone_create_on("second", "again", limit(MIB)).await.unwrap();
            write(&engine, "second", 0..8, 4).await;
            let (first, second) = (own_bytes(&engine, "again"), own_bytes(&engine, "second"));
            // The drive as a crash leaves it: what follows the last checkpoint is replayed.
            let crashed = format!("{path}-crashed");
            std::fs::copy(&path, &crashed).unwrap();
            engine.close().await.unwrap();
            drop(engine);

            let engine = open(&runtime, &crashed).await;
            assert_eq!((own_bytes(&engine, "again"), own_bytes(&engine, "second")), (first, second));
            assert_eq!((allowance(&engine, "again"), allowance(&engine, "second")), (both, limit(MIB)));
            let (_, why) = fill(&engine, "second", 5).await;
            assert!(why.contains("volume second is at its limit"), "{why}");
            assert!(own_bytes(&engine, "second") <= MIB);
            check(&engine).await;
            engine.close().await.unwrap();
        })
    });
}
