//! What tests from outside cannot reach: a census in many rounds, and what ends a count early.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use ashlar_format::catalogue::{Compression, Profile};
use ashlar_format::segment::Protection;
use ashlar_pool::{DriveSpec, PoolSpec};
use ashlar_runtime::{LocalFuture, Runtime, ShardSettings, start_shard};

use super::census::{count, count_keeping};
use super::frozen::Frozen;
use super::info::ReclaimReport;
use super::report::walked;
use super::sharing::Role;
use super::turn::Turn;
use crate::{Engine, ErrorKind, Settings, VolumeSpec};

const PATIENCE: Duration = Duration::from_secs(600);

fn on_shard(test: impl FnOnce(Runtime) -> LocalFuture<'static, ()> + Send + 'static) {
    let (done, finished) = std::sync::mpsc::channel();
    let shard = start_shard(ShardSettings::default(), move |runtime| {
        Box::pin(async move {
            test(runtime).await;
            done.send(()).unwrap();
        })
    });
    shard.unwrap().join();
    finished.recv().expect("the test ran to its end");
}

/// A pool with 3000 chunks over a dozen segments, half of them in a snapshot too.
async fn engine(runtime: &Runtime, path: &str) -> Engine {
    let spec = PoolSpec {
        name: "pool".into(),
        drives: vec![DriveSpec { path: path.into(), create_size_bytes: Some(48 << 20) }],
        protection: Protection::None,
        segment_bytes: Some(1 << 20),
        width: None,
        spares: 0,
    };
    Engine::create_pool(runtime, spec).await.unwrap();
    let engine = Engine::open(runtime, &[path.to_string()], Settings::default()).await.unwrap();
    let volume = VolumeSpec {
        name: "data".into(),
        size_bytes: 64 << 20,
        logical_block_bytes: 4096,
        profile: Profile::Oltp,
        compression: Compression::Off,
        dedupe: false,
    };
    engine.volume_create(volume).await.unwrap();
    let device = engine.device("data").unwrap();
    for block in 0..30 {
        device.write(block * 100 * 4096, &[block as u8 + 1; 100 * 4096], false).await.unwrap();
        if block == 14 {
            engine.snapshot_create("half", &["data".into()]).await.unwrap();
        }
    }
    engine
}

#[test]
fn a_census_in_many_rounds_tells_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("drive").to_str().unwrap().to_string();
    on_shard(move |runtime| {
        Box::pin(async move {
            let engine = engine(&runtime, &path).await;
            let turn = Turn::begin(&engine.inner, PATIENCE).await.unwrap();
            let frozen = Frozen::take(&engine.inner).await.unwrap();
            let roots = [(frozen.images[0].root, Role::Target), (frozen.images[1].root, Role::other(1))];
            let mut expected = ReclaimReport::default();
            count(&turn, &roots, &mut expected).await.unwrap();
            assert_eq!(expected.chunk_count, 1500);
            assert_eq!((expected.chunk_bytes, expected.kept_bytes), (1500 * 4160, 1500 * 4160));
            for chunks_max in [2999, 700, 300] {
                let mut report = ReclaimReport::default();
                count_keeping(chunks_max, &turn, &roots, None, &mut report).await.unwrap();
                assert_eq!(report, expected, "{chunks_max} at a time");
            }
            drop(turn);
            engine.close().await.unwrap();
        })
    });
}

#[test]
fn a_closing_pool_does_not_wait_for_a_count() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("drive").to_str().unwrap().to_string();
    on_shard(move |runtime| {
        Box::pin(async move {
            let engine = engine(&runtime, &path).await;
            // The count waits for its turn; by the time it has it, the pool is closing.
            let turn = Turn::begin(&engine.inner, PATIENCE).await.unwrap();
            let counting = engine.clone();
            let counted = runtime.spawn(ashlar_runtime::Priority::Background, async move {
                counting.space_report(PATIENCE).await
            });
            runtime.yield_now().await;
            let closing = engine.clone();
            let closed = runtime.spawn(ashlar_runtime::Priority::Host, async move { closing.close().await });
            while !engine.inner.is_closing() {
                runtime.yield_now().await;
            }
            drop(turn);
            assert_eq!(counted.await.unwrap_err().kind, ErrorKind::Closed);
            closed.await.unwrap();
        })
    });
}

#[test]
fn a_count_gives_way_when_writes_wait_for_the_cleaner() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("drive").to_str().unwrap().to_string();
    on_shard(move |runtime| {
        Box::pin(async move {
            let engine = engine(&runtime, &path).await;
            let device = engine.device("data").unwrap();
            let noise: Vec<u8> =
                (0..1_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
            let mut offset = 0;
            while device.write(offset, &noise, false).await.is_ok() {
                offset += noise.len() as u64;
            }
            let mut turn = Turn::begin(&engine.inner, PATIENCE).await.unwrap();
            turn.give_way_after = Duration::ZERO;
            // Something to find for the cleaner: until then a full pool may be counted at leisure.
            device.unmap(0, 8 << 20).await.unwrap();
            let error = turn.step().await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Busy);
            assert!(error.context.contains("gave way"), "{error}");
            turn.give_way_after = PATIENCE;
            turn.step().await.unwrap();
            drop(turn);
            engine.close().await.unwrap();
        })
    });
}

/// The parts were once taken of the drives at the end of a count: of a pool that a drive had left
/// meanwhile they came out below zero, which stopped it.
#[test]
fn a_count_speaks_of_the_drives_that_its_checkpoint_had() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("drive").to_str().unwrap().to_string();
    on_shard(move |runtime| {
        Box::pin(async move {
            let engine = engine(&runtime, &path).await;
            let turn = Turn::begin(&engine.inner, PATIENCE).await.unwrap();
            let frozen = Frozen::take(&engine.inner).await.unwrap();
            let before = walked(&turn, &frozen).await.unwrap();
            let joining = DriveSpec { path: format!("{path}-2"), create_size_bytes: Some(48 << 20) };
            engine.drives_add(&[joining]).await.unwrap();
            let after = walked(&turn, &frozen).await.unwrap();
            assert_eq!(before.parts.physical_bytes, 48 << 20);
            assert_eq!(after.parts, before.parts);
            drop(turn);
            engine.close().await.unwrap();
        })
    });
}
