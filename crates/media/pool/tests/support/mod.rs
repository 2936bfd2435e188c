//! Pools on real files.
// The drives are real files.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::mpsc;

use ashlar_format::segment::{Protection, SEGMENT_HEADER_BYTES};
use ashlar_pool::{DriveSpec, OpenedSegment, Opening, Pool, PoolSpec, Weight};
use ashlar_runtime::{Durability, LocalFuture, Runtime, ShardSettings, start_shard};
use ashlar_units::SegmentId;

const DRIVE_BYTES: u64 = 8 << 20;

pub fn on_shard(test: impl AsyncFnOnce(Runtime, String) + Send + 'static) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().to_str().unwrap().to_string();
    let (done, finished) = mpsc::channel();
    let shard = start_shard(ShardSettings::default(), move |runtime| {
        Box::pin(async move {
            test(runtime, path).await;
            done.send(()).unwrap();
        })
    });
    shard.unwrap().join();
    finished.recv().expect("the test ran to its end");
}

/// Drives to be made by these paths.
pub fn specs_of(paths: &[String]) -> Vec<DriveSpec> {
    let drive = |path: &String| DriveSpec { path: path.clone(), create_size_bytes: Some(DRIVE_BYTES) };
    paths.iter().map(drive).collect()
}

/// A pool that survives the loss of one drive.
pub async fn pool_of(runtime: &Runtime, paths: &[String], spares: u8) -> Pool {
    let (name, segment_bytes) = ("pool".to_string(), Some(128 << 10));
    let (drives, protection) = (specs_of(paths), Protection::Single);
    let spec = PoolSpec { name, drives, protection, segment_bytes, width: None, spares };
    Pool::create(runtime, &spec).await.unwrap();
    let pool = Pool::open(runtime, paths, &Opening::default()).await.unwrap();
    pool.adopt_frontier().await.unwrap();
    pool.begin_session();
    pool
}

/// Writes the first stripe of a segment.
pub async fn begin(pool: &Pool, opened: &OpenedSegment, seed: u8) {
    let mut buffer = pool.runtime().buffer(pool.stripe_bytes() as usize);
    buffer.fill(seed);
    buffer[..SEGMENT_HEADER_BYTES as usize].copy_from_slice(&opened.header_block(pool.key()));
    pool.write(opened.segment, 0, buffer, Durability::Durable).await.unwrap();
}

pub fn weigh_nothing(_: SegmentId, _: u64, _: Vec<u8>) -> LocalFuture<'static, Weight> {
    Box::pin(async { Weight::default() })
}
