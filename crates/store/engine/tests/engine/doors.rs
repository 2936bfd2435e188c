//! Parts of blocks and whole blocks written at the same time, as by a file and a network door: every
//! acknowledged byte stays, and what replaces a volume's content is not undone by what was being written.
//!
//! All tasks of a test run on one thread, so that the order in which they begin is the order in which
//! they are spawned. A reopened pool has nothing cached: a partial write then waits for its read, and
//! what is spawned behind it arrives between that read and the write.
#![allow(clippy::unwrap_used)]

use std::rc::Rc;

use crate::support::{bytes_of, on_drive, volume};
use ashlar_block::{BlockDevice, ErrorKind, Result};
use ashlar_engine::{DriveSpec, Engine, PoolSpec, Protection, Settings};
use ashlar_runtime::{Priority, Runtime, Task};

const BLOCK: usize = 4096;
const VOLUME_BYTES: u64 = 1 << 20;

/// Where the partial writes go: bytes that fit neither a block nor a sector.
const PART: std::ops::Range<usize> = 2_047..2_560;

struct Site {
    runtime: Runtime,
    path: String,
    engine: Engine,
}

impl Site {
    async fn new(runtime: Runtime, path: String) -> Site {
        let spec = PoolSpec {
            name: "pool".into(),
            drives: vec![DriveSpec { path: path.clone(), create_size_bytes: Some(64 << 20) }],
            protection: Protection::None,
            segment_bytes: Some(1 << 20),
            width: None,
            spares: 0,
        };
        Engine::create_pool(&runtime, spec).await.unwrap();
        let engine = Engine::open(&runtime, std::slice::from_ref(&path), Settings::default()).await.unwrap();
        engine.volume_create(volume("v", VOLUME_BYTES)).await.unwrap();
        Site { runtime, path, engine }
    }

    /// The same pool with nothing in its caches.
    async fn reopened(self) -> Site {
        let Site { runtime, path, engine } = self;
        engine.close().await.unwrap();
        drop(engine);
        let engine = Engine::open(&runtime, std::slice::from_ref(&path), Settings::default()).await.unwrap();
        Site { runtime, path, engine }
    }

    fn device(&self) -> Rc<dyn BlockDevice> {
        self.engine.device("v").unwrap()
    }

    /// Begins a write when the test waits the next time.
    fn write(&self, offset: usize, data: Vec<u8>) -> Task<Result<()>> {
        let device = self.device();
        self.runtime.spawn(Priority::Host, async move { device.write(offset as u64, &data, false).await })
    }

    fn spawn<T: 'static>(&self, act: impl AsyncFnOnce(Engine) -> T + 'static) -> Task<T> {
        let engine = self.engine.clone();
        self.runtime.spawn(Priority::Host, async move { act(engine).await })
    }

    async fn block(&self, number: usize) -> Vec<u8> {
        let mut bytes = vec![0xee; BLOCK];
        self.device().read((number * BLOCK) as u64, &mut bytes).await.unwrap();
        bytes
    }
}

fn with_part(mut block: Vec<u8>, part: &[u8]) -> Vec<u8> {
    block[PART].copy_from_slice(part);
    block
}

/// The lost update of two doors: a whole block is on its way to the journal when a part of it is written.
/// The part read the block from before, put itself in and wrote all of it behind the acknowledged one.
#[test]
fn a_partial_write_keeps_the_whole_write_that_is_on_its_way() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let site = Site::new(runtime, path).await;
            let part = bytes_of(3, PART.len());
            for round in 0..20 {
                let whole = bytes_of(100 + round, BLOCK);
                let tasks = [site.write(0, whole.clone()), site.write(PART.start, part.clone())];
                for task in tasks {
                    task.await.unwrap();
                }
                assert!(site.block(0).await == with_part(whole, &part), "round {round}");
            }
        })
    });
}

/// The other order: the part has read the block and not written it when the whole block arrives.
#[test]
fn a_whole_write_or_unmap_is_not_undone_by_a_partial_one_that_has_read() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let mut site = Site::new(runtime, path).await;
            for round in 0..4 {
                for block in 0..3 {
                    site.write(block * BLOCK, bytes_of(round, BLOCK)).await.unwrap();
                }
                site = site.reopened().await;
                let whole = bytes_of(100 + round, BLOCK);
                let parts =
                    [0, 1, 2].map(|block| site.write(block * BLOCK + PART.start, bytes_of(3, PART.len())));
                let whole_write = site.write(0, whole.clone());
                let unmap = site.spawn(async |engine| {
                    engine.device("v").unwrap().unmap(BLOCK as u64, BLOCK as u64).await
                });
                let zeroes = site.spawn(async |engine| {
                    engine.device("v").unwrap().write_zeroes(2 * BLOCK as u64, BLOCK as u64, false).await
                });
                for task in parts.into_iter().chain([whole_write, unmap, zeroes]) {
                    task.await.unwrap();
                }
                assert!(site.block(0).await == whole, "round {round}: the acknowledged write is lost");
                assert!(site.block(1).await == [0; BLOCK], "round {round}: what was unmapped is back");
                assert!(site.block(2).await == [0; BLOCK], "round {round}: what was zeroed is back");
            }
        })
    });
}

#[test]
fn parts_of_one_block_written_at_once_are_all_kept() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let site = Site::new(runtime, path).await;
            site.write(0, bytes_of(1, 3 * BLOCK)).await.unwrap();
            let site = site.reopened().await;
            // Pieces of 700 bytes over three blocks; one write after the other covers the ends of its
            // neighbours' blocks.
            let data = bytes_of(2, 3 * BLOCK);
            let pieces = data.chunks(700).enumerate();
            let tasks: Vec<_> =
                pieces.map(|(index, piece)| site.write(index * 700, piece.to_vec())).collect();
            for task in tasks {
                task.await.unwrap();
            }
            for (number, expected) in data.chunks(BLOCK).enumerate() {
                assert!(site.block(number).await == expected, "block {number}");
            }
        })
    });
}

#[test]
fn a_restore_is_not_undone_by_a_partial_write_that_has_read() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let site = Site::new(runtime, path).await;
            let kept = bytes_of(1, BLOCK);
            site.write(0, kept.clone()).await.unwrap();
            site.engine.snapshot_create("monday", &["v".into()]).await.unwrap();
            site.write(0, bytes_of(2, BLOCK)).await.unwrap();
            let site = site.reopened().await;
            let before = site.write(PART.start, bytes_of(3, PART.len()));
            let restore = site.spawn(async |engine| engine.snapshot_restore("monday").await);
            before.await.unwrap();
            restore.await.unwrap();
            assert!(site.block(0).await == kept, "a block from before the restore is back");
            // And one that comes behind the restore is put into what it brought.
            site.write(0, bytes_of(2, BLOCK)).await.unwrap();
            let restore = site.spawn(async |engine| engine.snapshot_restore("monday").await);
            let part = bytes_of(4, PART.len());
            let behind = site.write(PART.start, part.clone());
            restore.await.unwrap();
            behind.await.unwrap();
            assert!(site.block(0).await == with_part(kept, &part));
        })
    });
}

#[test]
fn what_a_shrink_cut_off_does_not_come_back_with_a_partial_write() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let site = Site::new(runtime, path).await;
            let last = VOLUME_BYTES as usize - BLOCK;
            site.write(last, bytes_of(1, BLOCK)).await.unwrap();
            let site = site.reopened().await;
            let part = site.write(last + PART.start, bytes_of(3, PART.len()));
            let resize = site.spawn(async |engine| {
                engine.volume_resize("v", VOLUME_BYTES / 2).await.unwrap();
                engine.volume_resize("v", VOLUME_BYTES).await.unwrap();
            });
            part.await.unwrap();
            resize.await;
            assert!(site.block(last / BLOCK).await == [0; BLOCK], "what was cut off is back");
            // One that waits while the volume becomes too small for it is refused.
            let resize = site.spawn(async |engine| engine.volume_resize("v", VOLUME_BYTES / 2).await);
            let late = site.write(last + PART.start, bytes_of(3, PART.len()));
            resize.await.unwrap();
            assert_eq!(late.await.unwrap_err().kind, ErrorKind::Invalid);
        })
    });
}

/// A deleted volume keeps nobody waiting, and its name's next volume has nothing of it.
#[test]
fn a_partial_write_ends_with_its_volume() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let site = Site::new(runtime, path).await;
            site.write(0, bytes_of(1, BLOCK)).await.unwrap();
            let site = site.reopened().await;
            let delete = site.spawn(async |engine| engine.volume_delete("v").await);
            let parts = [0, 600, 1200].map(|offset| site.write(offset, bytes_of(3, 600)));
            delete.await.unwrap();
            for part in parts {
                // Acknowledged before the delete, or told of it.
                if let Err(error) = part.await {
                    assert_eq!(error.kind, ErrorKind::Gone);
                }
            }
            site.engine.volume_create(volume("v", VOLUME_BYTES)).await.unwrap();
            assert!(site.block(0).await == [0; BLOCK]);
            site.write(PART.start, bytes_of(4, PART.len())).await.unwrap();
            assert!(site.block(0).await == with_part(vec![0; BLOCK], &bytes_of(4, PART.len())));
        })
    });
}

/// A snapshot beside partial writes has each of them wholly or not at all.
#[test]
fn a_snapshot_holds_a_partial_write_wholly_or_not_at_all() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let site = Site::new(runtime, path).await;
            let old = bytes_of(1, BLOCK);
            site.write(0, old.clone()).await.unwrap();
            let site = site.reopened().await;
            let part = bytes_of(3, PART.len());
            let write = site.write(PART.start, part.clone());
            let snapshot = site.spawn(async |engine| engine.snapshot_create("s", &["v".into()]).await);
            write.await.unwrap();
            snapshot.await.unwrap();
            let mut frozen = vec![0; BLOCK];
            site.engine.device("v@s").unwrap().read(0, &mut frozen).await.unwrap();
            let new = with_part(old.clone(), &part);
            assert!(frozen == old || frozen == new);
            assert!(site.block(0).await == new);
        })
    });
}
