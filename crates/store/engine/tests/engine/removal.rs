//! Drives that leave a pool without protection: what is on them moves away while hosts write, they are asked
//! for no more, and who must stay stays.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use crate::support::on_shard;
use ashlar_engine::{DriveSpec, Engine, ErrorKind, PoolSpec, Protection, Settings};
use ashlar_runtime::{LocalFuture, Priority, Runtime};

const DRIVE_BYTES: u64 = 24 << 20;
const PIECE_BYTES: u64 = 64 << 10;

/// Incompressible, and different for every piece and version.
fn content(piece: u64, version: u64) -> Vec<u8> {
    let mut state = (piece << 20 ^ version).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..PIECE_BYTES)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}

struct Site {
    runtime: Runtime,
    paths: Vec<String>,
}

impl Site {
    fn spec(path: &str) -> DriveSpec {
        DriveSpec { path: path.to_string(), create_size_bytes: Some(DRIVE_BYTES) }
    }

    async fn create(&self, protection: Protection) -> Engine {
        let spec = PoolSpec {
            name: "pool".into(),
            drives: self.paths.iter().map(|path| Site::spec(path)).collect(),
            protection,
            segment_bytes: Some(256 << 10),
            width: None,
            spares: 0,
        };
        Engine::create_pool(&self.runtime, spec).await.unwrap();
        let engine = self.open(&self.paths).await;
        engine.volume_create(crate::support::volume("data", 1 << 30)).await.unwrap();
        engine
    }

    async fn open(&self, paths: &[String]) -> Engine {
        let settings = Settings { cache_bytes: 1 << 20, ..Settings::default() };
        Engine::open(&self.runtime, paths, settings).await.unwrap()
    }

    async fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        for _ in 0..60_000 {
            if is_so() {
                return;
            }
            self.runtime.sleep(Duration::from_millis(5)).await;
        }
        panic!("{what} never came");
    }

    async fn until_gone(&self, engine: &Engine, drive: usize) {
        self.until("the end of the removal", || {
            assert_accounts(engine);
            engine.status().drives[drive].state == "gone"
        })
        .await;
    }
}

fn assert_accounts(engine: &Engine) {
    let space = engine.status().space;
    let parts = space.free_bytes
        + space.data_bytes
        + space.metadata_bytes
        + space.journal_bytes
        + space.kept_bytes
        + space.reserve_bytes
        + space.superblock_bytes
        + space.unusable_bytes
        + space.freed_bytes;
    assert_eq!(parts, space.physical_bytes, "{space:?}");
}

async fn write(engine: &Engine, pieces: std::ops::Range<u64>, version: u64) {
    let device = engine.device("data").unwrap();
    for piece in pieces {
        device.write(piece * PIECE_BYTES, &content(piece, version), false).await.unwrap();
    }
}

async fn verify(engine: &Engine, name: &str, pieces: std::ops::Range<u64>, version: u64) {
    let device = engine.device(name).unwrap();
    let mut bytes = vec![0; PIECE_BYTES as usize];
    for piece in pieces {
        device.read(piece * PIECE_BYTES, &mut bytes).await.unwrap();
        assert!(bytes == content(piece, version), "{name}, piece {piece}, version {version}");
    }
}

fn states(engine: &Engine) -> Vec<String> {
    engine.status().drives.into_iter().map(|drive| drive.state).collect()
}

fn on_drives(drives: usize, test: impl FnOnce(Site) -> LocalFuture<'static, ()> + Send + 'static) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let root = directory.path().to_str().unwrap().to_string();
    let paths = (0..drives).map(|drive| format!("{root}/drive{drive}")).collect();
    on_shard(move |runtime| test(Site { runtime, paths }));
}

#[test]
fn a_drive_leaves_under_writes_and_is_not_needed_any_more() {
    on_drives(3, |site| {
        Box::pin(async move {
            let engine = site.create(Protection::None).await;
            write(&engine, 0..160, 1).await;
            engine.snapshot_create("kept", &["data".into()]).await.unwrap();
            write(&engine, 40..80, 2).await;
            let physical_bytes = engine.status().space.physical_bytes;
            let writer = engine.clone();
            engine.drive_remove(1).await.unwrap();
            engine.drive_remove(1).await.unwrap();
            let task = site.runtime.spawn(Priority::Host, async move {
                for version in 3..7 {
                    write(&writer, 0..40, version).await;
                }
            });
            site.until_gone(&engine, 1).await;
            task.await;
            assert_eq!(states(&engine), ["online", "gone", "online"]);
            assert_eq!((engine.drives_removed(), engine.removal_status()), (1, None));
            assert_eq!(engine.status().space.physical_bytes, physical_bytes - DRIVE_BYTES);
            verify(&engine, "data", 0..40, 6).await;
            verify(&engine, "data@kept", 0..160, 1).await;
            engine.close().await.unwrap();
            drop(engine);
            // Without the drive, and with it: its ring was wiped.
            let rest = [site.paths[0].clone(), site.paths[2].clone()];
            for paths in [&rest[..], &site.paths[..]] {
                let engine = site.open(paths).await;
                assert_eq!(states(&engine), ["online", "gone", "online"]);
                verify(&engine, "data", 0..40, 6).await;
                verify(&engine, "data", 40..80, 2).await;
                verify(&engine, "data@kept", 0..160, 1).await;
                assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
                assert_accounts(&engine);
                engine.close().await.unwrap();
            }
        })
    });
}

#[test]
fn an_idle_pool_lets_one_drive_after_the_other_go_and_takes_new_ones() {
    on_drives(3, |site| {
        Box::pin(async move {
            let engine = site.create(Protection::None).await;
            write(&engine, 0..60, 1).await;
            for drive in [0, 2] {
                engine.drive_remove(drive).await.unwrap();
                site.until_gone(&engine, drive).await;
            }
            let error = engine.drive_remove(1).await.unwrap_err();
            assert!(error.context.contains("is the last one of pool pool"), "{error}");
            verify(&engine, "data", 0..60, 1).await;
            // It may come back: as another one, with another number.
            let back = DriveSpec { path: site.paths[0].clone(), create_size_bytes: None };
            engine.drives_add(&[back]).await.unwrap();
            assert_eq!(states(&engine), ["gone", "online", "gone", "online"]);
            write(&engine, 60..200, 1).await;
            engine.drive_remove(1).await.unwrap();
            site.until_gone(&engine, 1).await;
            engine.close().await.unwrap();
            drop(engine);
            let engine = site.open(&site.paths[..1]).await;
            assert_eq!(states(&engine), ["gone", "gone", "gone", "online"]);
            verify(&engine, "data", 0..200, 1).await;
            engine.close().await.unwrap();
        })
    });
}

#[test]
fn a_drive_that_is_leaving_stays_when_it_is_taken_back() {
    on_drives(2, |site| {
        Box::pin(async move {
            let engine = site.create(Protection::None).await;
            write(&engine, 0..100, 1).await;
            let free_before = engine.status().space.free_bytes;
            engine.drive_remove(1).await.unwrap();
            assert!(engine.status().space.free_bytes < free_before / 2 + (4 << 20));
            let error = engine.drive_remove(0).await.unwrap_err();
            assert!(error.context.contains("one leaves at a time"), "{error}");
            assert!(engine.removal_status().is_some_and(|removal| removal.drive == 1));
            engine.drive_stay(1).await.unwrap();
            assert_eq!(states(&engine), ["online", "online"]);
            assert_eq!(engine.removal_status(), None);
            write(&engine, 100..400, 1).await;
            assert_accounts(&engine);
            engine.close().await.unwrap();
            drop(engine);
            let engine = site.open(&site.paths).await;
            assert_eq!(states(&engine), ["online", "online"]);
            verify(&engine, "data", 0..400, 1).await;
            engine.close().await.unwrap();
        })
    });
}

#[test]
fn a_removal_goes_on_after_the_pool_was_closed() {
    on_drives(2, |site| {
        Box::pin(async move {
            let engine = site.create(Protection::None).await;
            write(&engine, 0..120, 1).await;
            engine.drive_remove(0).await.unwrap();
            engine.close().await.unwrap();
            drop(engine);
            let engine = site.open(&site.paths).await;
            site.until_gone(&engine, 0).await;
            verify(&engine, "data", 0..120, 1).await;
            engine.close().await.unwrap();
        })
    });
}

#[test]
fn a_drive_does_not_leave_when_the_others_have_no_room_for_what_is_in_use() {
    on_drives(2, |site| {
        Box::pin(async move {
            let engine = site.create(Protection::None).await;
            write(&engine, 0..360, 1).await;
            let error = engine.drive_remove(1).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::NoSpace);
            assert!(error.context.contains("without it there is room for"), "{error}");
            assert_eq!(states(&engine), ["online", "online"]);
            let error = engine.drive_remove(7).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::NotFound);
            engine.close().await.unwrap();
        })
    });
}

/// What fills the rest of the pool stops the removal, not the hosts' deletes; with room it goes on.
#[test]
fn a_removal_that_runs_out_of_room_says_so_and_goes_on_when_there_is_some() {
    on_drives(2, |site| {
        Box::pin(async move {
            let engine = site.create(Protection::None).await;
            write(&engine, 0..240, 1).await;
            engine.drive_remove(1).await.unwrap();
            let device = engine.device("data").unwrap();
            for piece in 240..400 {
                if device.write(piece * PIECE_BYTES, &content(piece, 1), false).await.is_err() {
                    break;
                }
            }
            site.until("the reason", || {
                engine.removal_status().is_some_and(|removal| removal.trouble.is_some())
            })
            .await;
            verify(&engine, "data", 0..240, 1).await;
            device.unmap(100 * PIECE_BYTES, 300 * PIECE_BYTES).await.unwrap();
            site.until_gone(&engine, 1).await;
            verify(&engine, "data", 0..100, 1).await;
            assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
            engine.close().await.unwrap();
        })
    });
}

/// What is free is on the drive that is to leave, the other holds segments that are dead in part: without one
/// to move to, nothing could be freed there.
#[test]
fn a_drive_with_all_that_is_free_leaves_once_the_other_has_room_to_go_on() {
    const BLOCKS: u64 = 3200;
    on_drives(1, |site| {
        Box::pin(async move {
            let engine = site.create(Protection::None).await;
            write(&engine, 0..BLOCKS / 16, 1).await;
            let device = engine.device("data").unwrap();
            let mut newest = vec![0; BLOCKS as usize];
            let overwrite = async |newest: &mut Vec<u64>, versions: std::ops::Range<u64>| {
                for version in versions {
                    let random = content(0, version)[..8].try_into().unwrap();
                    let block = u64::from_le_bytes(random) % BLOCKS;
                    let bytes = &content(block, version)[..4096];
                    device.write(block * 4096, bytes, false).await.unwrap();
                    newest[block as usize] = version;
                }
            };
            overwrite(&mut newest, 1..6000).await;
            let spec = Site::spec(&format!("{}-more", site.paths[0]));
            engine.drives_add(&[spec]).await.unwrap();
            overwrite(&mut newest, 6000..8000).await;
            let again = engine.clone();
            let task = site.runtime.spawn(Priority::Host, async move {
                assert_eq!(again.drive_remove(0).await.unwrap_err().kind, ErrorKind::Busy);
            });
            engine.drive_remove(1).await.unwrap();
            task.await;
            overwrite(&mut newest, 8000..9000).await;
            site.until_gone(&engine, 1).await;
            let mut found = vec![0; 4096];
            for (block, version) in newest.iter().enumerate().filter(|(_, version)| **version > 0) {
                device.read(block as u64 * 4096, &mut found).await.unwrap();
                assert!(found == content(block as u64, *version)[..4096], "block {block}");
            }
            assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
            engine.close().await.unwrap();
        })
    });
}

/// The table of places has a drive only once a superblock names it: asked in between, the pool panicked.
#[test]
fn a_drive_that_is_still_joining_is_not_there_to_leave() {
    on_drives(2, |site| {
        Box::pin(async move {
            let engine = site.create(Protection::None).await;
            let (adder, spec) = (engine.clone(), Site::spec(&format!("{}-more", site.paths[0])));
            let task = site.runtime.spawn(Priority::Host, async move {
                adder.drives_add(&[spec]).await.unwrap();
            });
            while states(&engine).len() == 2 {
                site.runtime.yield_now().await;
            }
            let error = engine.drive_remove(2).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::NotFound);
            task.await;
            engine.drive_remove(2).await.unwrap();
            site.until_gone(&engine, 2).await;
            engine.close().await.unwrap();
        })
    });
}

#[test]
fn a_drive_of_a_pool_with_protection_does_not_leave() {
    on_drives(4, |site| {
        Box::pin(async move {
            let engine = site.create(Protection::Single).await;
            let error = engine.drive_remove(1).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Invalid);
            assert!(error.to_string().contains("replace-drive pool 1"), "{error}");
            engine.close().await.unwrap();
        })
    });
}
