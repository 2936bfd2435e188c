//! A check beside writes.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::rc::Rc;

use crate::support::{bytes_of, on_drive};
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
