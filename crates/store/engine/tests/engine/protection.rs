//! Pools with protection on real files: drives full of rubbish, drives that are gone, drives in their place.
//!
//! Also the golden pool with dual protection, `golden/format-2-dual.pool.zst`: its four drives one after the
//! other. Made by `ASHLAR_WRITE_GOLDEN=1 cargo test -p ashlar-engine protection`; never replaced.
// The drives are real files.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::{bytes_of, in_directory};
use ashlar_engine::{
    Compression, DriveSpec, Engine, ErrorKind, PoolSpec, Profile, Protection, Settings, VolumeSpec,
};
use ashlar_runtime::{Priority, Runtime};

const DRIVE_BYTES: u64 = 8 << 20;
const GOLDEN_DRIVE_BYTES: u64 = 3 << 20;
/// Before this are superblocks; rubbish there is another test.
const CELLS_AT: u64 = 1 << 20;

fn paths(directory: &str, drives: usize) -> Vec<String> {
    (0..drives).map(|drive| format!("{directory}/drive-{drive}")).collect()
}

async fn create(runtime: &Runtime, paths: &[String], bytes: u64, protection: Protection) -> Engine {
    let drive = |path: &String| DriveSpec { path: path.clone(), create_size_bytes: Some(bytes) };
    let drives = paths.iter().map(drive).collect();
    let (name, segment_bytes) = ("pool".to_string(), Some(128 << 10));
    let spec = PoolSpec { name, drives, protection, segment_bytes, width: None, spares: 0 };
    Engine::create_pool(runtime, spec).await.unwrap();
    let engine = open(runtime, paths).await;
    let volume = VolumeSpec {
        name: "data".into(),
        size_bytes: 1 << 30,
        logical_block_bytes: 4096,
        profile: Profile::Oltp,
        compression: Compression::Lz4,
        dedupe: false,
    };
    engine.volume_create(volume).await.unwrap();
    engine
}

async fn open(runtime: &Runtime, paths: &[String]) -> Engine {
    Engine::open(runtime, paths, Settings::default()).await.unwrap()
}

async fn close(engine: Engine) {
    // The drives are let go with the last handle.
    engine.close().await.unwrap();
}

async fn write(engine: &Engine, pieces: std::ops::Range<u64>, seed: u64) {
    let data = engine.device("data").unwrap();
    for piece in pieces {
        data.write(piece << 16, &bytes_of(seed + piece, 64 << 10), false).await.unwrap();
    }
}

async fn verify(engine: &Engine, pieces: std::ops::Range<u64>, seed: u64) {
    let data = engine.device("data").unwrap();
    for piece in pieces {
        let mut found = vec![0; 64 << 10];
        data.read(piece << 16, &mut found).await.unwrap();
        assert!(found == bytes_of(seed + piece, 64 << 10), "piece {piece}");
    }
}

fn spoil(path: &str, from: u64, length: usize) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&bytes_of(99, length), from).unwrap();
    // Whoever has it open writes past the page cache, which must not be dirty then.
    file.sync_all().unwrap();
}

fn states(engine: &Engine) -> Vec<String> {
    engine.status().drives.into_iter().map(|drive| drive.state).collect()
}

async fn until_rebuilt(runtime: &Runtime, engine: &Engine) {
    for _ in 0..30_000 {
        if states(engine).iter().all(|state| state == "online") {
            return;
        }
        assert_eq!(engine.rebuild_error(), None);
        runtime.sleep(Duration::from_millis(10)).await;
    }
    panic!("not rebuilt: {:?}, {:?}", states(engine), engine.rebuild_status());
}

#[test]
fn rubbish_on_two_drives_is_mended_and_scrubbed() {
    in_directory(async |runtime, directory| {
        let paths = paths(&directory, 5);
        let engine = create(&runtime, &paths, DRIVE_BYTES, Protection::Dual).await;
        write(&engine, 0..100, 1).await;
        close(engine).await;
        for path in &paths[1..3] {
            spoil(path, CELLS_AT, (DRIVE_BYTES - CELLS_AT) as usize);
        }
        let engine = open(&runtime, &paths).await;
        verify(&engine, 0..100, 1).await;
        assert!(engine.status().counters.mended_blocks > 50, "{:?}", engine.status().counters);
        let first = engine.scrub().await.unwrap();
        assert_eq!(first.check.errors, Vec::<String>::new());
        assert!(first.parity.parity_blocks > 0, "{first:?}");
        let second = engine.scrub().await.unwrap();
        assert_eq!(second.check.errors, Vec::<String>::new());
        assert_eq!((second.parity.data_blocks, second.parity.parity_blocks), (0, 0), "{second:?}");
        close(engine).await;
        // What was mended is mended on the drives: two others may go now.
        for path in &paths[3..5] {
            std::fs::remove_file(path).unwrap();
        }
        let engine = open(&runtime, &paths).await;
        verify(&engine, 0..100, 1).await;
        close(engine).await;
    });
}

/// Whoever paused or stopped a scrub at its last segment was told it is so, and then it was over, all well.
#[test]
fn a_scrub_is_paused_and_stopped_at_every_segment() {
    in_directory(async |runtime, directory| {
        let engine = create(&runtime, &paths(&directory, 5), DRIVE_BYTES, Protection::Dual).await;
        write(&engine, 0..20, 1).await;
        let mut total = 1;
        let mut at = 0;
        while at < total {
            let scrubbed = engine.clone();
            let scrub = runtime.spawn(Priority::Host, async move { scrubbed.scrub().await });
            while engine
                .scrub_status()
                .is_none_or(|status| status.total_segments == 0 || status.done_segments < at)
            {
                runtime.yield_now().await;
            }
            engine.scrub_pause(true).unwrap();
            runtime.sleep(Duration::from_millis(20)).await;
            let held = engine.scrub_status().unwrap();
            assert!(held.is_paused && held.done_segments <= at + 1, "{at}: {held:?}");
            total = held.total_segments;
            engine.scrub_pause(false).unwrap();
            engine.scrub_stop().unwrap();
            let error = scrub.await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Cancelled, "{at}: {error}");
            at += 1;
        }
        assert!(total > 3, "{total}");
        engine.scrub().await.unwrap();
        close(engine).await;
    });
}

/// A drive that cannot read some blocks shows it only when they are needed, and parity is needed last of
/// all: a scrub that passed over what it could not read left a pool that two other losses would break.
#[test]
fn what_a_drive_cannot_read_is_written_anew_by_a_scrub() {
    in_directory(async |runtime, directory| {
        let paths = paths(&directory, 5);
        let engine = create(&runtime, &paths, DRIVE_BYTES, Protection::Dual).await;
        // Few enough that the drive is not given up before their parity is looked at.
        write(&engine, 0..40, 1).await;
        engine.check().await.unwrap();
        // Reads beyond the end fail; the array has the file open.
        std::fs::OpenOptions::new().write(true).open(&paths[1]).unwrap().set_len(CELLS_AT).unwrap();
        let first = engine.scrub().await.unwrap();
        assert_eq!(first.check.errors, Vec::<String>::new());
        assert!(first.parity.parity_blocks > 0, "{first:?}");
        assert_eq!(states(&engine), ["online"; 5], "{:?}", engine.status().drives);
        let second = engine.scrub().await.unwrap();
        assert_eq!((second.parity.data_blocks, second.parity.parity_blocks), (0, 0), "{second:?}");
        // The size that it is known by.
        std::fs::OpenOptions::new().write(true).open(&paths[1]).unwrap().set_len(DRIVE_BYTES).unwrap();
        close(engine).await;
        for path in &paths[3..5] {
            std::fs::remove_file(path).unwrap();
        }
        let engine = open(&runtime, &paths).await;
        verify(&engine, 0..40, 1).await;
        assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
        close(engine).await;
    });
}

/// Chunks share blocks, so readers that come at once mend parts of the same ones. When they did not wait
/// for each other, each undid what another had put right, read back something else than it had written,
/// and a drive that only had rubbish on it was given up for one that loses writes.
#[test]
fn many_readers_of_rubbish_mend_it_and_blame_nobody() {
    in_directory(async |runtime, directory| {
        let paths = paths(&directory, 5);
        let engine = create(&runtime, &paths, DRIVE_BYTES, Protection::Dual).await;
        write(&engine, 0..100, 1).await;
        close(engine).await;
        for path in &paths[1..3] {
            spoil(path, CELLS_AT, (DRIVE_BYTES - CELLS_AT) as usize);
        }
        let engine = open(&runtime, &paths).await;
        let readers: Vec<_> = (0..1600_u64)
            .map(|at| {
                let data = engine.device("data").unwrap();
                runtime.spawn(Priority::Host, async move {
                    let mut found = vec![0; 4096];
                    data.read(at << 12, &mut found).await.unwrap();
                    let piece = bytes_of(1 + at / 16, 64 << 10);
                    assert!(found == piece[(at as usize % 16) << 12..][..4096], "block {at}");
                })
            })
            .collect();
        for reader in readers {
            reader.await;
        }
        assert_eq!(states(&engine), ["online"; 5], "{:?}", engine.status().drives);
        let mended = engine.status().counters.mended_blocks;
        verify(&engine, 0..100, 1).await;
        assert_eq!(engine.status().counters.mended_blocks, mended, "what was mended was undone");
        close(engine).await;
    });
}

/// A pool that opened without a drive and had to mend its segment table recorded the loss in a superblock
/// before it knew which places were in use: it listed taken ones as free, and forgot those that the journal
/// had opened since the last checkpoint. It stopped with "opened twice", or without acknowledged writes.
#[test]
fn a_loss_recorded_while_the_pool_opens_forgets_no_segment() {
    in_directory(async |runtime, directory| {
        let before = paths(&directory, 5);
        let engine = create(&runtime, &before, 2 * DRIVE_BYTES, Protection::Dual).await;
        write(&engine, 0..100, 1).await;
        engine.check().await.unwrap();
        write(&engine, 100..160, 1).await;
        // What a crash leaves.
        let after: Vec<String> = before.iter().map(|path| format!("{path}-after")).collect();
        for (from, to) in before.iter().zip(&after) {
            std::fs::copy(from, to).unwrap();
        }
        close(engine).await;
        std::fs::remove_file(&after[0]).unwrap();
        spoil(&after[1], CELLS_AT, (2 * DRIVE_BYTES - CELLS_AT) as usize);
        let engine = open(&runtime, &after).await;
        verify(&engine, 0..160, 1).await;
        write(&engine, 160..200, 1).await;
        assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
        verify(&engine, 0..200, 1).await;
        close(engine).await;
    });
}

#[test]
fn two_drives_are_lost_replaced_and_rebuilt_and_two_others_lost() {
    in_directory(async |runtime, directory| {
        let paths = paths(&directory, 5);
        let engine = create(&runtime, &paths, DRIVE_BYTES, Protection::Dual).await;
        write(&engine, 0..100, 1).await;
        engine.drive_offline(1).await.unwrap();
        engine.drive_offline(4).await.unwrap();
        assert!(engine.drive_offline(0).await.is_err(), "a third");
        write(&engine, 50..120, 7).await;
        verify(&engine, 0..50, 1).await;
        let with = |name: &str| DriveSpec {
            path: format!("{directory}/{name}"),
            create_size_bytes: Some(DRIVE_BYTES),
        };
        assert!(engine.drive_replace(0, &with("x")).await.is_err(), "one in service");
        engine.drive_replace(1, &with("new-1")).await.unwrap();
        engine.drive_replace(4, &with("new-4")).await.unwrap();
        write(&engine, 60..80, 9).await;
        until_rebuilt(&runtime, &engine).await;
        close(engine).await;
        for path in [&paths[0], &paths[2]] {
            std::fs::remove_file(path).unwrap();
        }
        let now: Vec<String> = paths
            .iter()
            .cloned()
            .chain(["new-1", "new-4"].map(|name| format!("{directory}/{name}")))
            .collect();
        let engine = open(&runtime, &now).await;
        assert_eq!(states(&engine), ["out", "online", "out", "online", "online"]);
        verify(&engine, 0..50, 1).await;
        verify(&engine, 50..60, 7).await;
        verify(&engine, 60..80, 9).await;
        verify(&engine, 80..120, 7).await;
        assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
        close(engine).await;
    });
}

/// A pool of six of which drive 4 is out and drive 2 is full of rubbish.
async fn one_out_and_one_spoilt(runtime: &Runtime, paths: &[String]) -> Engine {
    let engine = create(runtime, paths, DRIVE_BYTES, Protection::Dual).await;
    write(&engine, 0..100, 1).await;
    engine.drive_offline(4).await.unwrap();
    write(&engine, 100..120, 1).await;
    close(engine).await;
    spoil(&paths[2], CELLS_AT, (DRIVE_BYTES - CELLS_AT) as usize);
    open(runtime, paths).await
}

/// A scrub passed over stripes that lacked a column of data, so parity stayed wrong, and what it stood for
/// was lost with the next drive.
#[test]
fn a_scrub_sets_right_what_is_spoilt_while_a_drive_is_out() {
    in_directory(async |runtime, directory| {
        let paths = paths(&directory, 6);
        let engine = one_out_and_one_spoilt(&runtime, &paths).await;
        let (check, parity) = engine.check_deep().await.unwrap();
        assert_eq!((check.errors, parity.unproven_stripes), (Vec::new(), 0));
        assert!(parity.wrong_stripes > 0 && parity.parity_blocks == 0, "{parity:?}");
        let first = engine.scrub().await.unwrap();
        assert_eq!(first.check.errors, Vec::<String>::new());
        assert_eq!(first.parity.unproven_stripes, 0, "{first:?}");
        assert!(first.parity.parity_blocks > 0, "{first:?}");
        let second = engine.scrub().await.unwrap();
        assert_eq!((second.parity.data_blocks, second.parity.parity_blocks), (0, 0), "{second:?}");
        assert_eq!(engine.check_deep().await.unwrap().1.wrong_stripes, 0);
        engine.drive_offline(0).await.unwrap();
        verify(&engine, 0..120, 1).await;
        assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
        engine.drive_return(0, &paths[0]).await.unwrap();
        engine.drive_return(4, &paths[4]).await.unwrap();
        until_rebuilt(&runtime, &engine).await;
        for drive in [1, 2] {
            engine.drive_offline(drive).await.unwrap();
        }
        verify(&engine, 0..120, 1).await;
        close(engine).await;
    });
}

/// Rubbish in the blocks of which `is_spoilt` says so, counted from the first cell.
fn spoil_blocks(path: &str, is_spoilt: impl Fn(u64) -> bool) {
    let mut bytes = std::fs::read(path).unwrap();
    let blocks = bytes[CELLS_AT as usize..].chunks_exact_mut(4096);
    for (number, block) in (0..).zip(blocks).filter(|(number, _)| is_spoilt(*number)) {
        block.copy_from_slice(&bytes_of(number, 4096));
    }
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    file.sync_all().unwrap();
}

/// A scrub took for wrong in one stripe what was wrong in those around it, and wrote rubbish over what was
/// right: with a drive out nothing could tell any more what had been there.
#[test]
fn a_scrub_judges_each_stripe_by_itself() {
    in_directory(async |runtime, directory| {
        let paths = paths(&directory, 6);
        let engine = create(&runtime, &paths, DRIVE_BYTES, Protection::Dual).await;
        write(&engine, 0..100, 1).await;
        engine.drive_offline(4).await.unwrap();
        close(engine).await;
        // So far apart that no record touches both.
        spoil_blocks(&paths[1], |block| [0, 1, 2].contains(&(block % 8)));
        spoil_blocks(&paths[2], |block| block % 8 == 5);
        let engine = open(&runtime, &paths).await;
        let scrubbed = engine.scrub().await.unwrap();
        assert_eq!(scrubbed.check.errors, Vec::<String>::new());
        assert!(scrubbed.parity.parity_blocks > 0, "{scrubbed:?}");
        verify(&engine, 0..100, 1).await;
        close(engine).await;
    });
}

/// A rebuild computed from whatever the other drives held.
#[test]
fn a_rebuild_judges_what_it_computes_from() {
    in_directory(async |runtime, directory| {
        let paths = paths(&directory, 6);
        let engine = one_out_and_one_spoilt(&runtime, &paths).await;
        let path = format!("{directory}/new-4");
        let with = DriveSpec { path, create_size_bytes: Some(DRIVE_BYTES) };
        engine.drive_replace(4, &with).await.unwrap();
        until_rebuilt(&runtime, &engine).await;
        engine.drive_offline(2).await.unwrap();
        engine.drive_offline(0).await.unwrap();
        verify(&engine, 0..120, 1).await;
        assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
        close(engine).await;
    });
}

/// One drive more than promised: what cannot be read meanwhile is there again with the drives. A rebuild
/// wrote what it had computed from rubbish over what they held.
#[test]
fn drives_that_return_keep_what_they_know_better() {
    in_directory(async |runtime, directory| {
        let paths = paths(&directory, 6);
        let engine = create(&runtime, &paths, DRIVE_BYTES, Protection::Dual).await;
        write(&engine, 0..50, 1).await;
        engine.drive_offline(4).await.unwrap();
        engine.drive_offline(0).await.unwrap();
        // Nothing is left to do: who mended while it is spoilt would be undone, and blame the drive.
        engine.check().await.unwrap();
        runtime.sleep(Duration::from_millis(200)).await;
        spoil(&paths[2], CELLS_AT, (DRIVE_BYTES - CELLS_AT) as usize);
        engine.drive_return(0, &paths[0]).await.unwrap();
        engine.drive_return(4, &paths[4]).await.unwrap();
        until_rebuilt(&runtime, &engine).await;
        verify(&engine, 0..50, 1).await;
        close(engine).await;
    });
}

#[test]
fn a_drive_that_was_away_gets_only_what_was_written_meanwhile() {
    in_directory(async |runtime, directory| {
        let paths = paths(&directory, 4);
        let engine = create(&runtime, &paths, 4 * DRIVE_BYTES, Protection::Single).await;
        write(&engine, 0..400, 1).await;
        engine.check().await.unwrap();
        engine.drive_offline(2).await.unwrap();
        write(&engine, 0..10, 5).await;
        engine.drive_return(2, &paths[2]).await.unwrap();
        let started = engine.rebuild_status();
        until_rebuilt(&runtime, &engine).await;
        if let Some(status) = started {
            assert!(status.total_bytes < 2 << 20, "{status:?}");
        }
        close(engine).await;
        std::fs::remove_file(&paths[0]).unwrap();
        let engine = open(&runtime, &paths).await;
        verify(&engine, 0..10, 5).await;
        verify(&engine, 10..400, 1).await;
        close(engine).await;
    });
}

#[test]
fn more_lost_drives_than_promised_are_a_clear_refusal() {
    in_directory(async |runtime, directory| {
        let paths = paths(&directory, 4);
        let engine = create(&runtime, &paths, DRIVE_BYTES, Protection::Single).await;
        write(&engine, 0..10, 1).await;
        close(engine).await;
        std::fs::rename(&paths[0], format!("{directory}/kept")).unwrap();
        std::fs::remove_file(&paths[3]).unwrap();
        let refused = Engine::open(&runtime, &paths, Settings::default()).await.err().unwrap().to_string();
        for part in ["4 drives", "2 cannot serve", "survives 1", "name the missing drives"] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        std::fs::rename(format!("{directory}/kept"), &paths[0]).unwrap();
        let engine = open(&runtime, &paths).await;
        verify(&engine, 0..10, 1).await;
        close(engine).await;
    });
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/format-2-dual.pool.zst")
}

async fn make_golden(runtime: Runtime, directory: String) {
    let paths = paths(&directory, 4);
    let engine = create(&runtime, &paths, GOLDEN_DRIVE_BYTES, Protection::Dual).await;
    write(&engine, 0..2, 1).await;
    engine.check().await.unwrap();
    engine.drive_offline(3).await.unwrap();
    // Behind the checkpoint, and without a clean close.
    write(&engine, 1..3, 3).await;
    let bytes: Vec<u8> = paths.iter().flat_map(|path| std::fs::read(path).unwrap()).collect();
    let mut packed = vec![0; zstd_safe::compress_bound(bytes.len())];
    let length = zstd_safe::compress(&mut packed[..], &bytes, 19).unwrap();
    std::fs::write(golden(), &packed[..length]).unwrap();
    close(engine).await;
}

#[test]
fn the_golden_pool_with_parity_opens_without_any_one_more_drive() {
    if std::env::var_os("ASHLAR_WRITE_GOLDEN").is_some() {
        in_directory(make_golden);
    }
    for missing in 0..3 {
        in_directory(async move |runtime, directory| {
            let packed = std::fs::read(golden()).unwrap();
            let mut bytes = vec![0; 4 * GOLDEN_DRIVE_BYTES as usize];
            assert_eq!(zstd_safe::decompress(&mut bytes[..], &packed).unwrap(), bytes.len());
            let paths = paths(&directory, 4);
            for (path, drive) in paths.iter().zip(bytes.chunks_exact(GOLDEN_DRIVE_BYTES as usize)) {
                std::fs::write(path, drive).unwrap();
            }
            std::fs::remove_file(&paths[missing]).unwrap();
            let engine = open(&runtime, &paths).await;
            assert_eq!(states(&engine).iter().filter(|state| *state == "out").count(), 2);
            assert!(engine.status().recovery.records_replayed > 0);
            verify(&engine, 0..1, 1).await;
            verify(&engine, 1..3, 3).await;
            assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
            close(engine).await;
        });
    }
}
