//! A pool that is filled behind random overwrites: writes are told, and go on once something is unmapped.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::support::on_drive;
use ashlar_block::ErrorKind;
use ashlar_engine::{
    Compression, DriveSpec, Engine, NoteBatch, NoteKind, PoolSpec, Profile, Protection, Settings,
    VolumePolicy, VolumeSpec,
};
use ashlar_runtime::{Priority, Runtime};

const POOL_BYTES: u64 = 1 << 30;
const PIECE_BYTES: u64 = 256 << 10;

/// Incompressible, and different for every place and version.
fn content(piece: u64, version: u64, len: u64) -> Vec<u8> {
    let mut state = (piece << 20 ^ version).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = (0..len / 8).flat_map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state ^ state >> 29).to_le_bytes()
    });
    words.collect()
}

async fn create(runtime: &Runtime, path: String, pool_bytes: u64, logical_block_bytes: u32) -> Engine {
    create_waiting(runtime, path, pool_bytes, logical_block_bytes, Duration::ZERO).await
}

/// With writes that wait so long for room.
async fn create_waiting(
    runtime: &Runtime,
    path: String,
    pool_bytes: u64,
    logical_block_bytes: u32,
    no_space_wait: Duration,
) -> Engine {
    let spec = PoolSpec {
        name: "pool".into(),
        drives: vec![DriveSpec { path: path.clone(), create_size_bytes: Some(pool_bytes) }],
        protection: Protection::None,
        segment_bytes: Some(1 << 20),
        width: None,
        spares: 0,
    };
    Engine::create_pool(runtime, spec).await.unwrap();
    let settings = Settings { cache_bytes: 1 << 20, no_space_wait, ..Settings::default() };
    let engine = Engine::open(runtime, &[path], settings).await.unwrap();
    let volume = VolumeSpec {
        name: "data".into(),
        size_bytes: 1 << 30,
        logical_block_bytes,
        profile: Profile::Oltp,
        compression: Compression::Lz4,
        dedupe: false,
    };
    engine.volume_create(volume).await.unwrap();
    engine
}

/// Writes pieces behind the first ones until the pool is full.
async fn fill(engine: &Engine, from_piece: u64) -> u64 {
    let device = engine.device("data").unwrap();
    for piece in from_piece.. {
        let bytes = content(piece, 0, PIECE_BYTES);
        match device.write(piece * PIECE_BYTES, &bytes, false).await {
            Ok(()) => {}
            Err(error) if error.kind == ErrorKind::NoSpace => return piece,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("a pool without an end")
}

/// The same until it stays full: a checkpoint that ends just behind the refusal makes room once more.
async fn fill_for_good(runtime: &Runtime, engine: &Engine) -> u64 {
    let mut pieces = fill(engine, 0).await;
    loop {
        runtime.sleep(Duration::from_millis(200)).await;
        match fill(engine, pieces).await {
            more if more == pieces => return pieces,
            more => pieces = more,
        }
    }
}

/// Cycles that freed what the checkpoints before them had taken counted as progress, for ever.
#[test]
fn writes_to_a_pool_full_behind_random_overwrites_are_told() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let engine = create(&runtime, path, POOL_BYTES, 4096).await;
            let device = engine.device("data").unwrap();
            let pieces = POOL_BYTES * 7 / 10 / PIECE_BYTES;
            for piece in 0..pieces {
                device.write(piece * PIECE_BYTES, &content(piece, 0, PIECE_BYTES), false).await.unwrap();
            }
            for version in 1..POOL_BYTES / 5 / (32 << 10) {
                let half = u64::from_le_bytes(content(0, version, 8).try_into().unwrap()) % (pieces * 2);
                device.write(half * (32 << 10), &content(half, version, 32 << 10), false).await.unwrap();
            }
            let full = Rc::new(Cell::new(None));
            let (filler, told) = (engine.clone(), full.clone());
            let task = runtime.spawn(Priority::Host, async move {
                told.set(Some(fill(&filler, pieces).await));
            });
            for _ in 0..10_000 {
                if full.get().is_some() {
                    break;
                }
                runtime.sleep(Duration::from_millis(10)).await;
            }
            let space = engine.status().space;
            assert!(full.get().is_some(), "nobody was told in 100 s: {space:?}");
            task.await;
            assert!(space.free_bytes < 4 << 20, "{space:?}");

            device.unmap(0, 32 << 20).await.unwrap();
            let first = content(0, 9, PIECE_BYTES);
            device.write(0, &first, false).await.unwrap();
            let mut found = vec![0; PIECE_BYTES as usize];
            device.read(0, &mut found).await.unwrap();
            assert!(found == first);
            assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
            engine.close().await.unwrap();
        })
    });
}

/// A wait that is shorter than the cleaner's work ends all the same: each look at the pool began it anew.
#[test]
fn writes_that_wait_for_less_than_a_cleaning_takes_are_told() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let patience = Duration::from_millis(1);
            let engine = create_waiting(&runtime, path, POOL_BYTES / 16, 4096, patience).await;
            let told = Rc::new(Cell::new(false));
            let (filler, is_told) = (engine.clone(), told.clone());
            let _detached = runtime.spawn(Priority::Host, async move {
                fill(&filler, 0).await;
                is_told.set(true);
            });
            for _ in 0..3_000 {
                if told.get() {
                    break;
                }
                runtime.sleep(Duration::from_millis(10)).await;
            }
            assert!(told.get(), "nobody was told in 30 s");
            engine.close().await.unwrap();
        })
    });
}

/// The parts of blocks at both ends were written first, and refused: nothing was given back by any unmap from
/// an odd sector on.
#[test]
fn an_unmap_between_blocks_gives_back_what_a_full_pool_lacks() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let engine = create(&runtime, path, POOL_BYTES / 16, 512).await;
            let device = engine.device("data").unwrap();
            let pieces = fill_for_good(&runtime, &engine).await;
            assert!(device.write(pieces * PIECE_BYTES, &content(pieces, 1, 4096), false).await.is_err());
            let (start, length) = (3 * 512, (8 << 20) + 2 * 512);
            device.unmap(start, length).await.unwrap();
            let mut found = vec![0; PIECE_BYTES as usize];
            device.read(0, &mut found).await.unwrap();
            assert!(found[..start as usize] == content(0, 0, PIECE_BYTES)[..start as usize]);
            assert!(found[start as usize..].iter().all(|byte| *byte == 0));
            let (end, last) = (start + length, (start + length) / PIECE_BYTES);
            device.read(last * PIECE_BYTES, &mut found).await.unwrap();
            let kept = (end % PIECE_BYTES) as usize;
            assert!(found[..kept].iter().all(|byte| *byte == 0));
            assert!(found[kept..] == content(last, 0, PIECE_BYTES)[kept..]);
            device.write(pieces * PIECE_BYTES, &content(pieces, 1, PIECE_BYTES), false).await.unwrap();
            assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
            engine.close().await.unwrap();
        })
    });
}

/// A write that waits in a full pool goes on when somebody makes room, and reads go on meanwhile.
#[test]
fn a_write_to_a_full_pool_waits_for_room() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let patience = Duration::from_secs(4);
            let engine = create_waiting(&runtime, path, POOL_BYTES / 16, 4096, patience).await;
            let device = engine.device("data").unwrap();
            let started = runtime.now();
            let pieces = fill(&engine, 0).await;
            assert!(runtime.now().duration_since(started) >= patience, "refused without a wait");
            let counters = engine.status().counters;
            assert_eq!((counters.writes_waited_for_room, counters.writes_refused_for_room), (1, 1));

            // What follows a refusal at once is refused at once.
            let asked = runtime.now();
            assert!(device.write(pieces * PIECE_BYTES, &content(pieces, 1, 4096), false).await.is_err());
            assert!(runtime.now().duration_since(asked) < patience, "each write waits for itself");
            runtime.sleep(patience + Duration::from_millis(500)).await;
            let waiting = engine.device("data").unwrap();
            let bytes = content(pieces, 1, PIECE_BYTES);
            let written = bytes.clone();
            let write = runtime.spawn(Priority::Host, async move {
                waiting.write(pieces * PIECE_BYTES, &written, false).await
            });
            runtime.sleep(Duration::from_millis(500)).await;
            let mut found = vec![0; PIECE_BYTES as usize];
            device.read(0, &mut found).await.unwrap();
            assert!(found == content(0, 0, PIECE_BYTES), "a read while a write waits");
            device.unmap(0, 8 << 20).await.unwrap();
            write.await.unwrap();
            device.read(pieces * PIECE_BYTES, &mut found).await.unwrap();
            assert!(found == bytes);
            engine.close().await.unwrap();
        })
    });
}

/// Nobody waits for room in a pool that closes.
#[test]
fn a_pool_closes_under_a_write_that_waits() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let patience = Duration::from_secs(1);
            let engine = create_waiting(&runtime, path, POOL_BYTES / 16, 4096, patience).await;
            let pieces = fill(&engine, 0).await;
            runtime.sleep(patience + Duration::from_millis(500)).await;
            let waiting = engine.device("data").unwrap();
            let write = runtime.spawn(Priority::Host, async move {
                let bytes = content(pieces, 1, PIECE_BYTES);
                waiting.write(pieces * PIECE_BYTES, &bytes, false).await
            });
            runtime.sleep(Duration::from_millis(300)).await;
            let started = runtime.now();
            engine.close().await.unwrap();
            assert!(write.await.is_err());
            assert!(runtime.now().duration_since(started) < Duration::from_secs(5));
        })
    });
}

/// A file system on a full pool needs a little room to replay its log and to delete files.
#[test]
fn a_part_of_the_reserve_can_be_lent_to_a_volume() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let engine = create(&runtime, path, POOL_BYTES / 16, 4096).await;
            let pieces = fill_for_good(&runtime, &engine).await;
            let device = engine.device("data").unwrap();
            let one = content(pieces, 1, 16 << 10);
            assert!(device.write(pieces * PIECE_BYTES, &one, false).await.is_err());
            // An application that comes back with the file system fills that, too: some is left for the next.
            let mut taken = [0, 0];
            for loan in &mut taken {
                engine.lend_reserve("data").unwrap();
                while device.write(pieces * PIECE_BYTES + (*loan << 14), &one, false).await.is_ok() {
                    *loan += 1;
                }
            }
            assert!(taken.iter().all(|loan| (8..=200).contains(loan)), "{taken:?} pieces of 16 KiB");
            device.unmap(0, 8 << 20).await.unwrap();
            device.write(pieces * PIECE_BYTES, &content(pieces, 1, PIECE_BYTES), false).await.unwrap();
            assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
            engine.close().await.unwrap();
        })
    });
}

/// The harm: who filled the pool could not be held back, for want of room for the note that says so.
#[test]
fn in_a_full_pool_limits_rates_and_objectives_are_set_at_once() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let engine = create(&runtime, path.clone(), 64 << 20, 4096).await;
            let id = engine.volumes()[0].id;
            fill_for_good(&runtime, &engine).await;
            let new_note = NoteBatch::new().put(NoteKind::Label, id, 1, 1, vec![1; 100]);
            assert!(engine.notes_put(new_note).await.is_err(), "the pool is not full");
            for round in 10..30 {
                let policy = VolumePolicy {
                    limit_bytes: Some(Some(round << 20)),
                    requests_per_second: Some(Some(round)),
                    bytes_per_second: Some(Some(round << 20)),
                    burst_seconds: Some(Some(30)),
                    ..VolumePolicy::default()
                };
                let info = engine.volume_set("data", policy).await.unwrap();
                assert_eq!(info.rates.requests_per_second, Some(round));
            }
            let too_much = VolumePolicy { reserve_bytes: Some(Some(48 << 20)), ..VolumePolicy::default() };
            assert!(engine.volume_set("data", too_much).await.is_err());
            engine.close().await.unwrap();
            drop(engine);
            let engine = Engine::open(&runtime, &[path], Settings::default()).await.unwrap();
            let info = engine.volumes().remove(0);
            assert_eq!(info.allowance.limit_bytes, Some(29 << 20));
            assert_eq!(info.rates.bytes_per_second, Some(29 << 20));
            assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
            engine.close().await.unwrap();
        })
    });
}
