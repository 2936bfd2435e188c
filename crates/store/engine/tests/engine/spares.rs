//! Drives leave pools that have spare space, and others take their place, while hosts read and write.
//!
//! Also the golden pool with a drive in spare space, `golden/format-2-spare.pool.zst`: the four other drives
//! one after the other. Made by `ASHLAR_WRITE_GOLDEN=1 cargo test -p ashlar-engine spares`; never
//! replaced.
// The drives are real files.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::{bytes_of, in_directory};
use ashlar_engine::{Compression, DriveSpec, Engine, PoolSpec, Profile, Protection, Settings, VolumeSpec};
use ashlar_runtime::Runtime;

const DRIVE_BYTES: u64 = 8 << 20;
const CELLS_AT: u64 = 1 << 20;
const PIECES: u64 = 100;

/// A pool on files, and what was written to it.
struct Rig {
    runtime: Runtime,
    directory: String,
    paths: Vec<String>,
    engine: Engine,
    /// Of each piece.
    seeds: Vec<u64>,
}

impl Rig {
    async fn new(
        runtime: Runtime,
        directory: String,
        drives: usize,
        protection: Protection,
        spares: u8,
    ) -> Rig {
        let mut rig = Rig::empty(runtime, directory, drives, protection, spares).await;
        rig.write(0..PIECES, 1).await;
        rig
    }

    async fn empty(
        runtime: Runtime,
        directory: String,
        drives: usize,
        protection: Protection,
        spares: u8,
    ) -> Rig {
        let paths: Vec<String> = (0..drives).map(|drive| format!("{directory}/drive-{drive}")).collect();
        let drive = |path: &String| DriveSpec { path: path.clone(), create_size_bytes: Some(DRIVE_BYTES) };
        let drives = paths.iter().map(drive).collect();
        let (name, segment_bytes) = ("pool".to_string(), Some(128 << 10));
        let spec = PoolSpec { name, drives, protection, segment_bytes, width: None, spares };
        Engine::create_pool(&runtime, spec).await.unwrap();
        let engine = Engine::open(&runtime, &paths, Settings::default()).await.unwrap();
        let volume = VolumeSpec {
            name: "data".into(),
            size_bytes: 1 << 30,
            logical_block_bytes: 4096,
            profile: Profile::Oltp,
            compression: Compression::Lz4,
            dedupe: false,
        };
        engine.volume_create(volume).await.unwrap();
        Rig { runtime, directory, paths, engine, seeds: vec![0; PIECES as usize] }
    }

    async fn write(&mut self, pieces: std::ops::Range<u64>, seed: u64) {
        let data = self.engine.device("data").unwrap();
        for piece in pieces {
            data.write(piece << 16, &bytes_of(seed + piece, 64 << 10), false).await.unwrap();
            self.seeds[piece as usize] = seed + piece;
        }
    }

    async fn verify(&self) {
        let data = self.engine.device("data").unwrap();
        for (piece, seed) in self.seeds.iter().enumerate() {
            let mut found = vec![0; 64 << 10];
            data.read((piece as u64) << 16, &mut found).await.unwrap();
            assert!(found == bytes_of(*seed, 64 << 10), "piece {piece}");
        }
    }

    /// Everything is right, in data, parity and accounts.
    async fn prove(&self) {
        self.verify().await;
        let (check, parity) = self.engine.check_deep().await.unwrap();
        assert_eq!(check.errors, Vec::<String>::new());
        assert_eq!((parity.wrong_stripes, parity.unproven_stripes), (0, 0), "{parity:?}");
        let parts = self.engine.space_report(Duration::from_secs(60)).await.unwrap().parts;
        assert_eq!(parts.sum_bytes(), parts.physical_bytes);
    }

    async fn reopen(self) -> Rig {
        let Rig { runtime, directory, paths, engine, seeds } = self;
        engine.close().await.unwrap();
        drop(engine);
        let engine = Engine::open(&runtime, &paths, Settings::default()).await.unwrap();
        Rig { runtime, directory, paths, engine, seeds }
    }

    /// What a crash leaves is opened, in a directory of its own.
    async fn until_wiped(&self, drive: usize) {
        for _ in 0..500 {
            let left = std::fs::read(&self.paths[drive]).unwrap();
            if left[..CELLS_AT as usize].iter().all(|byte| *byte == 0) {
                return;
            }
            self.runtime.sleep(Duration::from_millis(20)).await;
        }
        panic!("the ring of drive {drive} is there");
    }

    async fn crash(self) -> Rig {
        let Rig { runtime, directory, paths, engine, seeds } = self;
        let directory = format!("{directory}/after");
        std::fs::create_dir(&directory).unwrap();
        let mut after = Vec::new();
        for path in &paths {
            let name = std::path::Path::new(path).file_name().unwrap().to_str().unwrap();
            let copy = format!("{directory}/{name}");
            std::fs::copy(path, &copy).unwrap();
            after.push(copy);
        }
        engine.close().await.unwrap();
        drop(engine);
        let engine = Engine::open(&runtime, &after, Settings::default()).await.unwrap();
        Rig { runtime, directory, paths: after, engine, seeds }
    }

    fn states(&self) -> Vec<String> {
        self.engine.status().drives.into_iter().map(|drive| drive.state).collect()
    }

    async fn until(&self, wanted: &[&str]) {
        for _ in 0..60_000 {
            if self.states() == wanted {
                return;
            }
            assert_eq!(self.engine.rebuild_error(), None);
            self.runtime.sleep(Duration::from_millis(5)).await;
        }
        panic!("{wanted:?} wanted: {:?}, {:?}", self.states(), self.engine.rebuild_status());
    }

    async fn refused(&self, drive: usize) -> String {
        self.engine.drive_remove(drive).await.unwrap_err().to_string()
    }

    fn newcomer(&mut self, name: &str) -> DriveSpec {
        let path = format!("{}/{name}", self.directory);
        self.paths.push(path.clone());
        DriveSpec { path, create_size_bytes: Some(DRIVE_BYTES) }
    }
}

#[test]
fn a_lost_drive_is_restored_to_spare_space_and_two_more_may_be_lost() {
    in_directory(async |runtime, directory| {
        let mut rig = Rig::new(runtime, directory, 7, Protection::Dual, 1).await;
        rig.engine.drive_offline(2).await.unwrap();
        rig.write(30..60, 1000).await;
        rig.engine.drive_remove(2).await.unwrap();
        rig.write(50..70, 2000).await;
        rig.until(&["online", "online", "spare", "online", "online", "online", "online"]).await;
        rig.prove().await;
        assert!(rig.refused(3).await.contains("no spare space"));
        // The drive that was lost is a stranger now, wherever it is.
        let rig = rig.reopen().await;
        assert_eq!(rig.engine.status().unused_drives.len(), 1, "{:?}", rig.engine.status().unused_drives);
        rig.engine.drive_offline(0).await.unwrap();
        rig.engine.drive_offline(6).await.unwrap();
        rig.verify().await;
        rig.engine.close().await.unwrap();
    });
}

#[test]
fn a_drive_that_serves_leaves_when_all_it_holds_is_elsewhere() {
    in_directory(async |runtime, directory| {
        let mut rig = Rig::new(runtime, directory, 6, Protection::Single, 1).await;
        rig.engine.drive_remove(4).await.unwrap();
        assert_eq!(rig.states()[4], "moving");
        rig.write(10..90, 500).await;
        rig.until(&["online", "online", "online", "online", "spare", "online"]).await;
        rig.prove().await;
        // Its superblocks are gone, and what else was on it does not matter.
        rig.until_wiped(4).await;
        std::fs::remove_file(&rig.paths[4]).unwrap();
        rig.paths.remove(4);
        rig.write(0..20, 900).await;
        let rig = rig.crash().await;
        rig.prove().await;
        // Single protection still survives a drive.
        rig.engine.drive_offline(1).await.unwrap();
        rig.verify().await;
        rig.engine.close().await.unwrap();
    });
}

#[test]
fn a_new_drive_takes_over_from_spare_space_and_from_one_that_serves() {
    in_directory(async |runtime, directory| {
        let mut rig = Rig::new(runtime, directory, 6, Protection::Dual, 1).await;
        rig.engine.drive_remove(0).await.unwrap();
        rig.until(&["spare", "online", "online", "online", "online", "online"]).await;
        let with = rig.newcomer("new-0");
        rig.engine.drive_replace(0, &with).await.unwrap();
        rig.write(0..50, 3000).await;
        rig.until(&["online"; 6]).await;
        rig.prove().await;
        let with = rig.newcomer("new-5");
        rig.engine.drive_replace(5, &with).await.unwrap();
        assert_eq!(rig.states()[5], "moving");
        assert!(rig.refused(5).await.contains("is being replaced"));
        rig.write(50..100, 4000).await;
        rig.until(&["online"; 6]).await;
        // Spare space is free again.
        rig.engine.drive_remove(3).await.unwrap();
        rig.until(&["online", "online", "online", "spare", "online", "online"]).await;
        // The superblock that says so comes before that.
        rig.until_wiped(3).await;
        let rig = rig.crash().await;
        rig.prove().await;
        let paths: Vec<String> = rig.engine.status().drives.into_iter().map(|drive| drive.path).collect();
        assert!(
            paths[0].ends_with("new-0") && paths[5].ends_with("new-5") && paths[3].is_empty(),
            "{paths:?}"
        );
        rig.engine.close().await.unwrap();
    });
}

#[test]
fn a_moving_that_is_cut_short_leaves_everything_where_it_was() {
    in_directory(async |runtime, directory| {
        let mut rig = Rig::new(runtime, directory, 7, Protection::Dual, 1).await;
        rig.engine.drive_remove(1).await.unwrap();
        let rig_states = rig.states();
        assert_eq!(rig_states[1], "moving");
        assert!(rig.refused(2).await.contains("drive 1 is being moved"));
        rig.engine.drive_offline(5).await.unwrap();
        assert_eq!(rig.states()[1], "online", "nothing is moved while a drive is away");
        assert!(rig.refused(1).await.contains("drive 5 is not in service"));
        rig.write(0..40, 6000).await;
        let mut rig = rig.crash().await;
        let path = rig.paths[5].clone();
        rig.engine.drive_return(5, &path).await.unwrap();
        rig.until(&["online"; 7]).await;
        rig.prove().await;
        rig.engine.drive_remove(1).await.unwrap();
        rig.write(40..60, 7000).await;
        let rig = rig.crash().await;
        rig.prove().await;
        rig.engine.close().await.unwrap();
    });
}

/// Spare space of a drive is on all others: one of them that was away while it was filled lacks a part of
/// it that is older than its absence.
#[test]
fn a_drive_that_was_away_while_spare_space_was_filled_is_restored_as_a_whole() {
    in_directory(async |runtime, directory| {
        let mut rig = Rig::new(runtime, directory, 7, Protection::Dual, 1).await;
        rig.engine.check().await.unwrap();
        rig.engine.drive_offline(2).await.unwrap();
        rig.engine.drive_offline(4).await.unwrap();
        rig.engine.drive_remove(2).await.unwrap();
        rig.until(&["online", "online", "spare", "online", "out", "online", "online"]).await;
        let path = rig.paths[4].clone();
        rig.engine.drive_return(4, &path).await.unwrap();
        rig.until(&["online", "online", "spare", "online", "online", "online", "online"]).await;
        rig.prove().await;
        rig.engine.drive_offline(0).await.unwrap();
        rig.engine.drive_offline(1).await.unwrap();
        rig.verify().await;
        rig.write(0..10, 8000).await;
        let rig = rig.crash().await;
        rig.verify().await;
        rig.engine.close().await.unwrap();
    });
}

#[test]
fn both_spares_are_filled_and_rot_on_them_is_mended() {
    in_directory(async |runtime, directory| {
        let mut rig = Rig::new(runtime, directory, 8, Protection::Dual, 2).await;
        rig.engine.drive_offline(3).await.unwrap();
        rig.engine.drive_offline(7).await.unwrap();
        rig.engine.drive_remove(3).await.unwrap();
        rig.engine.drive_remove(7).await.unwrap();
        rig.write(0..30, 9000).await;
        let wanted = ["online", "online", "online", "spare", "online", "online", "online", "spare"];
        rig.until(&wanted).await;
        rig.prove().await;
        let path = rig.paths[0].clone();
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(&bytes_of(5, (DRIVE_BYTES - CELLS_AT) as usize), CELLS_AT).unwrap();
        file.sync_all().unwrap();
        rig.verify().await;
        let report = rig.engine.scrub().await.unwrap();
        assert!(report.parity.wrong_stripes > 0 && report.check.errors.is_empty(), "{report:?}");
        rig.prove().await;
        let with = rig.newcomer("new-7");
        rig.engine.drive_replace(7, &with).await.unwrap();
        rig.until(&["online", "online", "online", "spare", "online", "online", "online", "online"]).await;
        let rig = rig.reopen().await;
        // What was not written yet when rot came is compared from now on: nothing in use is in it.
        rig.engine.scrub().await.unwrap();
        rig.prove().await;
        rig.engine.close().await.unwrap();
    });
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/format-2-spare.pool.zst")
}

async fn make_golden(runtime: Runtime, directory: String) {
    let mut rig = Rig::empty(runtime, directory, 5, Protection::Single, 1).await;
    rig.write(0..2, 1).await;
    rig.engine.drive_remove(2).await.unwrap();
    rig.until(&["online", "online", "spare", "online", "online"]).await;
    rig.engine.check().await.unwrap();
    // Behind the checkpoint, and without a clean close.
    rig.write(1..3, 3).await;
    rig.paths.remove(2);
    let bytes: Vec<u8> = rig.paths.iter().flat_map(|path| std::fs::read(path).unwrap()).collect();
    let mut packed = vec![0; zstd_safe::compress_bound(bytes.len())];
    let length = zstd_safe::compress(&mut packed[..], &bytes, 19).unwrap();
    std::fs::write(golden(), &packed[..length]).unwrap();
    rig.engine.close().await.unwrap();
}

#[test]
fn the_golden_pool_with_a_drive_in_spare_space_opens_without_any_one_more() {
    if std::env::var_os("ASHLAR_WRITE_GOLDEN").is_some() {
        in_directory(make_golden);
    }
    for missing in 0..4 {
        in_directory(async move |runtime, directory| {
            let packed = std::fs::read(golden()).unwrap();
            let mut bytes = vec![0; 4 * DRIVE_BYTES as usize];
            assert_eq!(zstd_safe::decompress(&mut bytes[..], &packed).unwrap(), bytes.len());
            let paths: Vec<String> = (0..4).map(|drive| format!("{directory}/drive-{drive}")).collect();
            for (path, drive) in paths.iter().zip(bytes.chunks_exact(DRIVE_BYTES as usize)) {
                std::fs::write(path, drive).unwrap();
            }
            std::fs::remove_file(&paths[missing]).unwrap();
            let engine = Engine::open(&runtime, &paths, Settings::default()).await.unwrap();
            let data = engine.device("data").unwrap();
            for (piece, seed) in [(0_u64, 1), (1, 3 + 1), (2, 3 + 2)] {
                let mut found = vec![0; 64 << 10];
                data.read(piece << 16, &mut found).await.unwrap();
                assert!(found == bytes_of(seed, 64 << 10), "without drive {missing}: piece {piece}");
            }
            assert!(engine.status().recovery.records_replayed > 0);
            assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
            engine.close().await.unwrap();
        });
    }
}
