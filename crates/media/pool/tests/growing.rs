//! Drives are added while others leave, on real files.
#![allow(clippy::unwrap_used)]

mod support;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use ashlar_format::segment::{SEGMENT_HEADER_BYTES, SegmentKind};
use ashlar_pool::{DriveSpec, ErrorKind, Pool};
use ashlar_runtime::{Priority, Runtime};
use ashlar_units::SegmentId;
use support::{begin, on_shard, pool_of, specs_of, weigh_nothing};

/// Six drives with room for one in spare space, and a segment on each of its first rows.
struct Rig {
    pool: Pool,
    segments: Vec<SegmentId>,
    newcomers: Vec<DriveSpec>,
}

impl Rig {
    async fn new(runtime: &Runtime, prefix: &str) -> Rig {
        let paths: Vec<String> = (0..12).map(|drive| format!("{prefix}-{drive}")).collect();
        let pool = pool_of(runtime, &paths[..6], 1).await;
        let mut rig = Rig { pool, segments: Vec::new(), newcomers: specs_of(&paths[6..]) };
        rig.fill(20).await;
        rig
    }

    /// Writes so many segments more.
    async fn fill(&mut self, segments: usize) {
        for _ in 0..segments {
            let opened = self.pool.open_segment(SegmentKind::Metadata, 1).await.unwrap();
            begin(&self.pool, &opened, self.segments.len() as u8).await;
            self.pool.with_table_mut(|table| table.seal(opened.segment));
            self.segments.push(opened.segment);
            self.pool.commit(&self.pool.opened_mark(), |_| ()).await.unwrap();
        }
    }

    /// Drives join as soon as the pool lets them.
    async fn grow(pool: Pool, newcomers: Vec<DriveSpec>) {
        while let Err(error) = pool.add_drives(&newcomers).await {
            assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
        }
    }

    /// The drive lives in spare space, and nothing is missing.
    async fn prove(&self, gone: usize) {
        let Rig { pool, segments, .. } = self;
        assert!(pool.drive_reports()[gone].is_in_spare_space);
        assert_eq!((pool.drives_out(), pool.drive_reports().len()), (0, 12));
        for (seed, segment) in segments.iter().enumerate() {
            let length = pool.stripe_bytes() - SEGMENT_HEADER_BYTES;
            let read = pool.read_compared(*segment, SEGMENT_HEADER_BYTES, length);
            let (content, skip, is_borne_out) = read.await.unwrap();
            assert!(is_borne_out && content[skip..].iter().all(|byte| *byte == seed as u8), "{segment:?}");
        }
    }
}

/// A superblock was being written as the last of a drive was moved, and drives that were to be added waited
/// for it: the pool forgot that the drive lives in spare space, and with it what was there.
#[test]
fn a_drive_moved_to_spare_space_stays_there_when_drives_join_at_that_moment() {
    on_shard(async |runtime, directory| {
        for round in 0..10 {
            let rig = Rig::new(&runtime, &format!("{directory}/{round}")).await;
            let is_over = Rc::new(Cell::new(false));
            let (pool, over) = (rig.pool.clone(), is_over.clone());
            let superblocks = runtime.spawn(Priority::Host, async move {
                while !over.get() {
                    pool.commit(&[], |_| ()).await.unwrap();
                }
            });
            let rebuild = rig.pool.remove_drive(2).await.unwrap();
            let growing = runtime.spawn(Priority::Host, Rig::grow(rig.pool.clone(), rig.newcomers.clone()));
            rig.pool.rebuild(rebuild, &weigh_nothing, |_| async { Ok(()) }).await.unwrap();
            growing.await;
            is_over.set(true);
            superblocks.await;
            rig.prove(2).await;
            rig.pool.settle().await;
        }
    });
}

/// A drive began to leave as the superblock that names new ones was written: when it was gone, so were they.
#[test]
fn rows_of_drives_that_joined_stay_when_a_drive_left_meanwhile() {
    on_shard(async |runtime, directory| {
        let mut rig = Rig::new(&runtime, &format!("{directory}/drive")).await;
        let room = rig.pool.with_table(|table| table.free_count());
        let growing = runtime.spawn(Priority::Host, Rig::grow(rig.pool.clone(), rig.newcomers.clone()));
        while rig.pool.drive_reports().len() == 6 {
            runtime.sleep(Duration::from_micros(10)).await;
        }
        assert!(rig.pool.with_table(|table| table.free_count()) <= room, "they have joined already");
        let rebuild = rig.pool.remove_drive(2).await.unwrap();
        growing.await;
        rig.pool.rebuild(rebuild, &weigh_nothing, |_| async { Ok(()) }).await.unwrap();
        rig.fill(room + 20).await;
        rig.prove(2).await;
        rig.pool.settle().await;
    });
}
