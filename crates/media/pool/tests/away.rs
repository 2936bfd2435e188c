//! Drives that are away for a while, on real files.
// The drives are real files.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::mpsc;

use ashlar_format::segment::{Protection, SEGMENT_HEADER_BYTES, SegmentKind};

use ashlar_pool::{DriveSpec, OpenedSegment, Pool, PoolSpec, Weight};
use ashlar_runtime::{Durability, LocalFuture, Runtime, ShardSettings, start_shard};
use ashlar_units::SegmentId;

const DRIVE_BYTES: u64 = 8 << 20;

fn on_shard(test: impl AsyncFnOnce(Runtime, String) + Send + 'static) {
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

async fn pool_of(runtime: &Runtime, paths: &[String]) -> Pool {
    let drive = |path: &String| DriveSpec { path: path.clone(), create_size_bytes: Some(DRIVE_BYTES) };
    let drives = paths.iter().map(drive).collect();
    let (name, segment_bytes) = ("pool".to_string(), Some(128 << 10));
    let spec =
        PoolSpec { name, drives, protection: Protection::Single, segment_bytes, width: None, spares: 0 };
    Pool::create(runtime, &spec).await.unwrap();
    let pool = Pool::open(runtime, paths).await.unwrap();
    pool.adopt_frontier().await.unwrap();
    pool.begin_session();
    pool
}

/// Writes the first stripe of a segment.
async fn begin(pool: &Pool, opened: &OpenedSegment, seed: u8) {
    let mut buffer = pool.runtime().buffer(pool.stripe_bytes() as usize);
    buffer.fill(seed);
    buffer[..SEGMENT_HEADER_BYTES as usize].copy_from_slice(&opened.header_block());
    pool.write(opened.segment, 0, buffer, Durability::Durable).await.unwrap();
}

fn weigh_nothing(_: SegmentId, _: u64, _: Vec<u8>) -> LocalFuture<'static, Weight> {
    Box::pin(async { Weight::default() })
}

/// Segments are numbered before they are opened. When none was open as a checkpoint began, those that had
/// a number were taken for settled: a drive that left before one of them was opened did not get it back.
#[test]
fn a_drive_gets_segments_that_were_numbered_before_it_left() {
    on_shard(async |runtime, directory| {
        let paths: Vec<String> = (0..4).map(|drive| format!("{directory}/drive-{drive}")).collect();
        let pool = pool_of(&runtime, &paths).await;
        let first = pool.open_segment(SegmentKind::Metadata, 1).await.unwrap();
        begin(&pool, &first, 1).await;
        pool.with_table_mut(|table| table.seal(first.segment));
        let mark = pool.opened_mark();
        pool.sync().await.unwrap();
        pool.commit(&mark, |_| ()).await.unwrap();
        pool.take_out(2).await.unwrap();
        let second = pool.open_segment(SegmentKind::Metadata, 2).await.unwrap();
        begin(&pool, &second, 2).await;
        let rebuild = pool.return_drive(2, &paths[2]).await.unwrap();
        pool.rebuild(rebuild, &weigh_nothing, |_| async { Ok(()) }).await.unwrap();
        for drive in [0, 1, 3] {
            pool.take_out(drive).await.unwrap();
            let length = pool.stripe_bytes() - SEGMENT_HEADER_BYTES;
            let (content, skip) = pool.read(second.segment, SEGMENT_HEADER_BYTES, length).await.unwrap();
            assert!(content[skip..].iter().all(|byte| *byte == 2), "without drive {drive}");
            let rebuild = pool.return_drive(drive, &paths[drive]).await.unwrap();
            pool.rebuild(rebuild, &weigh_nothing, |_| async { Ok(()) }).await.unwrap();
        }
        pool.settle().await;
    });
}
