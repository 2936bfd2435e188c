//! Drives that are away for a while, on real files.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod support;

use ashlar_format::segment::{SEGMENT_HEADER_BYTES, SegmentKind};
use support::{begin, on_shard, pool_of, weigh_nothing};

/// Segments are numbered before they are opened. When none was open as a checkpoint began, those that had
/// a number were taken for settled: a drive that left before one of them was opened did not get it back.
#[test]
fn a_drive_gets_segments_that_were_numbered_before_it_left() {
    on_shard(async |runtime, directory| {
        let paths: Vec<String> = (0..4).map(|drive| format!("{directory}/drive-{drive}")).collect();
        let pool = pool_of(&runtime, &paths, 0).await;
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

/// What is freed in memory is in use again after a crash before the next checkpoint: a rebuild that left it
/// out made a drive count that lacked it.
#[test]
fn a_rebuild_restores_what_is_freed_and_not_yet_for_good() {
    on_shard(async |runtime, directory| {
        let paths: Vec<String> = (0..4).map(|drive| format!("{directory}/drive-{drive}")).collect();
        let pool = pool_of(&runtime, &paths, 0).await;
        pool.take_out(2).await.unwrap();
        let mut segments = Vec::new();
        for number in [1, 2] {
            let opened = pool.open_segment(SegmentKind::Metadata, number).await.unwrap();
            begin(&pool, &opened, number as u8).await;
            pool.with_table_mut(|table| table.seal(opened.segment));
            segments.push(opened.segment);
        }
        let mark = pool.opened_mark();
        pool.commit(&mark, |_| ()).await.unwrap();
        // The one before the rebuild begins, the other while it is on its way.
        pool.with_table_mut(|table| table.free(segments[0]));
        let rebuild = pool.return_drive(2, &paths[2]).await.unwrap();
        pool.with_table_mut(|table| table.free(segments[1]));
        pool.rebuild(rebuild, &weigh_nothing, |_| async { Ok(()) }).await.unwrap();
        let written = |drive: usize| -> Vec<bool> {
            let bytes = std::fs::read(&paths[drive]).unwrap();
            bytes[1 << 20..].chunks(4096).map(|block| block.iter().any(|byte| *byte != 0)).collect()
        };
        let blocks = written(0);
        assert!(blocks.iter().filter(|is_written| **is_written).count() >= 2);
        assert!(blocks == written(2), "a stripe of a freed segment lacks a column");
        pool.settle().await;
    });
}
