//! A pool near its last segment number: hosts are told long before, what is there is read and deleted, and
//! the pool opens again.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use crate::support::{bytes_of, on_drive, volume};
use ashlar_block::ErrorKind;
use ashlar_engine::{DriveSpec, Engine, PoolSpec, Protection, Settings};
use ashlar_pool::{Opening, Pool, SEGMENT_NUMBERS_END};
use ashlar_runtime::Runtime;

const HOST_NUMBERS_END: u32 = SEGMENT_NUMBERS_END - (1 << 20);
const PIECE_BYTES: usize = 256 << 10;

async fn create(runtime: &Runtime, path: &str) {
    let spec = PoolSpec {
        name: "pool".into(),
        drives: vec![DriveSpec { path: path.to_string(), create_size_bytes: Some(64 << 20) }],
        protection: Protection::None,
        segment_bytes: Some(1 << 20),
        width: None,
        spares: 0,
    };
    Engine::create_pool(runtime, spec).await.unwrap();
}

async fn open(runtime: &Runtime, path: &str) -> Engine {
    loop {
        match Engine::open(runtime, &[path.to_string()], Settings::default()).await {
            // Whoever had it lets go of the drive a moment after its last word.
            Err(error) if error.kind == ashlar_engine::ErrorKind::Busy => {
                runtime.sleep(Duration::from_millis(5)).await;
            }
            opened => return opened.unwrap(),
        }
    }
}

/// As after years of writing.
async fn set_number_next(runtime: &Runtime, path: &str, next: u32) {
    let pool = loop {
        match Pool::open(runtime, &[path.to_string()], &Opening::default()).await {
            Err(error) if error.kind == ashlar_pool::ErrorKind::Busy => {
                runtime.sleep(Duration::from_millis(5)).await;
            }
            opened => break opened.unwrap(),
        }
    };
    assert!(pool.segment_number_given_next() < next);
    pool.commit(&[], |superblock| superblock.segment_next = next).await.unwrap();
    pool.settle().await;
}

/// Before, numbers were given out without end, and the first chunk at 2^30 - 1 stopped the process, again
/// after each start.
#[test]
fn hosts_are_refused_long_before_the_last_segment_number() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            create(&runtime, &path).await;
            set_number_next(&runtime, &path, HOST_NUMBERS_END - 60).await;
            let engine = open(&runtime, &path).await;
            assert_eq!(engine.status().segment_numbers_percent, 99);
            engine.volume_create(volume("data", 1 << 30)).await.unwrap();
            let device = engine.device("data").unwrap();
            // Over and over the same megabytes: space is not what runs out.
            let mut versions = [0; 16];
            let refused = 'writing: loop {
                for (piece, written) in versions.iter_mut().enumerate() {
                    let version = *written + 1;
                    let bytes = bytes_of(version * 100 + piece as u64, PIECE_BYTES);
                    match device.write((piece * PIECE_BYTES) as u64, &bytes, false).await {
                        Ok(()) => *written = version,
                        Err(error) => break 'writing error,
                    }
                }
                assert!(versions[0] < 1000, "nobody stops the host");
            };
            assert_eq!(refused.kind, ErrorKind::NoSpace, "{refused}");
            assert!(refused.to_string().contains("segment numbers"), "{refused}");
            assert_eq!(engine.status().segment_numbers_percent, 100);
            // Deletes pass, and the rest is read, now and after another start.
            engine.volume_create(volume("more", 1 << 20)).await.unwrap();
            engine.volume_delete("more").await.unwrap();
            device.unmap(0, PIECE_BYTES as u64).await.unwrap();
            engine.close().await.unwrap();
            drop((device, engine));
            let engine = open(&runtime, &path).await;
            let device = engine.device("data").unwrap();
            for (piece, version) in versions.iter().enumerate().skip(1) {
                let mut found = vec![0; PIECE_BYTES];
                device.read((piece * PIECE_BYTES) as u64, &mut found).await.unwrap();
                assert!(found == bytes_of(version * 100 + piece as u64, PIECE_BYTES), "piece {piece}");
            }
            engine.close().await.unwrap();
        })
    });
}

/// Nothing is changed any more where the numbers for checkpoints begin, and the pool still opens.
#[test]
fn changes_are_refused_before_checkpoints_lack_numbers() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            create(&runtime, &path).await;
            let engine = open(&runtime, &path).await;
            engine.volume_create(volume("data", 1 << 20)).await.unwrap();
            engine.close().await.unwrap();
            drop(engine);
            set_number_next(&runtime, &path, SEGMENT_NUMBERS_END - (1 << 18)).await;
            for _ in 0..3 {
                let engine = open(&runtime, &path).await;
                let refused = engine.volume_delete("data").await.unwrap_err();
                assert!(refused.to_string().contains("segment numbers"), "{refused}");
                let mut found = vec![1; 4096];
                engine.device("data").unwrap().read(0, &mut found).await.unwrap();
                assert!(found.iter().all(|byte| *byte == 0));
                engine.close().await.unwrap();
            }
        })
    });
}

/// The pool itself gives out the last number and none behind it.
#[test]
fn a_pool_gives_out_no_number_that_pointers_cannot_hold() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            create(&runtime, &path).await;
            let pool = Pool::open(&runtime, &[path], &Opening::default()).await.unwrap();
            pool.adopt_frontier().await.unwrap();
            pool.begin_session();
            pool.commit(&[], |superblock| superblock.segment_next = SEGMENT_NUMBERS_END - 3).await.unwrap();
            let mut last = 0;
            let refused = loop {
                match pool.open_segment(ashlar_format::segment::SegmentKind::Metadata, 1).await {
                    Ok(opened) => last = opened.segment.0.max(last),
                    Err(error) => break error,
                }
            };
            assert_eq!(last, SEGMENT_NUMBERS_END - 1);
            assert_eq!(refused.kind, ashlar_pool::ErrorKind::NoSpace);
            assert!(refused.to_string().contains("segment numbers"), "{refused}");
            pool.settle().await;
        })
    });
}
