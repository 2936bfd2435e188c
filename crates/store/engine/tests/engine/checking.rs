//! A check beside writes.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::rc::Rc;

use crate::support::{bytes_of, on_drive, volume};
use ashlar_engine::{Compression, DriveSpec, Engine, PoolSpec, Profile, Protection, Settings, VolumeSpec};
use ashlar_runtime::{Priority, Runtime};

const POOL_BYTES: u64 = 128 << 20;
const BLOCKS: u64 = 4096;

async fn open_new(runtime: &Runtime, path: &str) -> Engine {
    let spec = PoolSpec {
        name: "pool".into(),
        drives: vec![DriveSpec { path: path.into(), create_size_bytes: Some(POOL_BYTES) }],
        protection: Protection::None,
        segment_bytes: Some(512 << 10),
        width: None,
        spares: 0,
    };
    Engine::create_pool(runtime, spec).await.unwrap();
    let engine = Engine::open(runtime, &[path.to_string()], Settings::default()).await.unwrap();
    let volume = VolumeSpec {
        name: "busy".into(),
        size_bytes: BLOCKS * 4096,
        logical_block_bytes: 4096,
        profile: Profile::Oltp,
        compression: Compression::Off,
        dedupe: false,
    };
    engine.volume_create(volume).await.unwrap();
    engine
}

#[test]
fn a_volume_that_is_written_meanwhile_is_checked_too() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let engine = open_new(&runtime, &path).await;
            let device = engine.device("busy").unwrap();
            for block in 0..BLOCKS {
                device.write(block * 4096, &bytes_of(block, 4096), false).await.unwrap();
            }
            let is_checked = Rc::new(Cell::new(false));
            let writer = {
                let (device, is_checked) = (engine.device("busy").unwrap(), Rc::clone(&is_checked));
                runtime.spawn(Priority::Host, async move {
                    let mut written = 0;
                    while !is_checked.get() {
                        device.write(written % BLOCKS * 4096, &bytes_of(written, 4096), false).await.unwrap();
                        written += 1;
                    }
                    written
                })
            };
            for _ in 0..5 {
                let report = engine.check().await.unwrap();
                assert_eq!(report.errors, Vec::<String>::new());
                assert!(report.chunks >= BLOCKS, "{report:?}");
            }
            is_checked.set(true);
            assert!(writer.await > 100);
            engine.close().await.unwrap();
        })
    });
}

/// Clones that differ in every leaf share most chunks all the same: a check of ninety clones took as long as
/// one of ninety volumes.
#[test]
fn what_clones_share_is_read_once_and_what_only_one_has_is_read_too() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let engine = open_new(&runtime, &path).await;
            write_all(&engine, "busy").await;
            for clone in 0..4 {
                let name = format!("clone{clone}");
                engine.clone_create(&name, "busy").await.unwrap();
                let device = engine.device(&name).unwrap();
                // One block of each leaf.
                for leaf in 0..BLOCKS / 512 {
                    device
                        .write(leaf * 512 * 4096, &bytes_of(clone << 20 | leaf, 4096), false)
                        .await
                        .unwrap();
                }
            }
            let report = engine.check().await.unwrap();
            assert_eq!((report.errors, report.chunks), (Vec::new(), BLOCKS + 4 * BLOCKS / 512));
            engine.close().await.unwrap();
        })
    });
}

#[test]
fn a_check_tells_how_far_it_is_and_ends_when_it_is_told_to() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let engine = open_new(&runtime, &path).await;
            engine.volume_create(volume("other", BLOCKS * 4096)).await.unwrap();
            write_all(&engine, "busy").await;
            write_all(&engine, "other").await;
            assert_eq!(engine.check_progress(), None);
            let checking = {
                let engine = engine.clone();
                runtime.spawn(Priority::Host, async move { engine.check().await })
            };
            let mut seen = Vec::new();
            while seen.last().is_none_or(|(done, _)| *done == 0) {
                seen.extend(engine.check_progress());
                runtime.yield_now().await;
            }
            let (done, total) = seen[seen.len() - 1];
            assert!(done < total && total >= BLOCKS * 4096, "{done} of {total}");
            engine.check_end();
            let error = checking.await.unwrap_err();
            assert_eq!(error.kind, ashlar_engine::ErrorKind::Cancelled, "{error}");
            assert_eq!(engine.check_progress(), None);
            // The next one is not concerned.
            assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
            engine.close().await.unwrap();
        })
    });
}

async fn write_all(engine: &Engine, name: &str) {
    let device = engine.device(name).unwrap();
    for block in 0..BLOCKS {
        device.write(block * 4096, &bytes_of(block, 4096), false).await.unwrap();
    }
}
