//! Who may open a pool, and with which drives: older drives are known for what they are, and one array at
//! a time has the pool.
// The drives are real files.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{bytes_of, in_directory, volume};
use ashlar_engine::{DriveSpec, Engine, Identity, Opening, PoolSpec, Protection, Remembered, Settings};
use ashlar_format::owner::Owner;
use ashlar_format::superblock::{OWNER_START_BYTES, SUPERBLOCK_BYTES, SUPERBLOCK_SLOTS, Superblock};
use ashlar_runtime::Runtime;

const DRIVE_BYTES: u64 = 8 << 20;
const PIECE: usize = 16 << 10;

fn paths(directory: &str, drives: usize) -> Vec<String> {
    (0..drives).map(|drive| format!("{directory}/drive-{drive}")).collect()
}

async fn create(runtime: &Runtime, paths: &[String], protection: Protection) -> Engine {
    let drive = |path: &String| DriveSpec { path: path.clone(), create_size_bytes: Some(DRIVE_BYTES) };
    let drives = paths.iter().map(drive).collect();
    let (name, segment_bytes) = ("pool".to_string(), Some(128 << 10));
    let spec = PoolSpec { name, drives, protection, segment_bytes, width: None, spares: 0 };
    Engine::create_pool(runtime, spec).await.unwrap();
    let engine = Engine::open(runtime, paths, Settings::default()).await.unwrap();
    engine.volume_create(volume("data", 1 << 30)).await.unwrap();
    engine
}

async fn open_with(runtime: &Runtime, paths: &[String], opening: Opening) -> Result<Engine, String> {
    let settings = Settings { opening, ..Settings::default() };
    Engine::open(runtime, paths, settings).await.map_err(|error| error.to_string())
}

fn accepting() -> Opening {
    Opening { is_older_accepted: true, ..Opening::default() }
}

async fn write(engine: &Engine, pieces: std::ops::Range<u64>, seed: u64) {
    let data = engine.device("data").unwrap();
    for piece in pieces {
        data.write(piece * PIECE as u64, &bytes_of(seed + piece, PIECE), false).await.unwrap();
    }
}

async fn verify(engine: &Engine, pieces: std::ops::Range<u64>, seed: u64) {
    let data = engine.device("data").unwrap();
    for piece in pieces {
        let mut found = vec![0; PIECE];
        data.read(piece * PIECE as u64, &mut found).await.unwrap();
        assert!(found == bytes_of(seed + piece, PIECE), "piece {piece}");
    }
}

async fn until_rebuilt(runtime: &Runtime, engine: &Engine) {
    while engine.status().drives.iter().any(|drive| drive.state != "online") {
        runtime.sleep(Duration::from_millis(10)).await;
    }
}

fn newest_superblock(path: &str) -> Superblock {
    let bytes = std::fs::read(path).unwrap();
    let slots = bytes.chunks(SUPERBLOCK_BYTES).take(SUPERBLOCK_SLOTS as usize);
    slots.filter_map(|slot| Superblock::decode(slot).ok()).max_by_key(|one| one.generation).unwrap()
}

/// A copy of a drive from before the last writes took the place of the drive. It was counted as whole, and
/// the loss of another drive then lost acknowledged data.
#[test]
fn an_older_copy_of_a_drive_is_restored_before_it_counts() {
    for (protection, drives, older) in [
        (Protection::Single, 3, vec![0]),
        (Protection::Single, 3, vec![2]),
        (Protection::Dual, 5, vec![1, 3]),
    ] {
        in_directory(async move |runtime, directory| {
            let paths = paths(&directory, drives);
            let engine = create(&runtime, &paths, protection).await;
            write(&engine, 0..40, 1).await;
            engine.close().await.unwrap();
            drop(engine);
            for drive in &older {
                std::fs::copy(&paths[*drive], format!("{directory}/old-{drive}")).unwrap();
            }
            let engine = open_with(&runtime, &paths, Opening::default()).await.unwrap();
            write(&engine, 20..80, 1000).await;
            engine.close().await.unwrap();
            drop(engine);
            for drive in &older {
                std::fs::copy(format!("{directory}/old-{drive}"), &paths[*drive]).unwrap();
            }
            let engine = open_with(&runtime, &paths, Opening::default()).await.unwrap();
            for drive in &older {
                let status = &engine.status().drives[*drive];
                assert_ne!(status.state, "online", "{status:?}");
                assert!(status.reason.as_ref().unwrap().contains("generation"), "{status:?}");
            }
            let other = (0..drives).find(|drive| !older.contains(drive)).unwrap();
            assert!(engine.drive_offline(other).await.is_err(), "nothing can be spared now");
            verify(&engine, 0..20, 1).await;
            verify(&engine, 20..80, 1000).await;
            until_rebuilt(&runtime, &engine).await;
            for other in (0..drives).filter(|drive| !older.contains(drive)).take(older.len()) {
                engine.drive_offline(other).await.unwrap();
            }
            verify(&engine, 0..20, 1).await;
            verify(&engine, 20..80, 1000).await;
            assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
            engine.close().await.unwrap();
        });
    }
}

/// A copy from right before the pool was opened, or made while it was open, lacks little. It was counted as
/// whole, since the pool had written a single superblock since.
#[test]
fn a_copy_that_is_barely_older_is_restored_before_it_counts() {
    for is_made_while_open in [false, true] {
        in_directory(async move |runtime, directory| {
            let paths = paths(&directory, 3);
            let old = format!("{directory}/old");
            let engine = create(&runtime, &paths, Protection::Single).await;
            write(&engine, 0..10, 1).await;
            engine.close().await.unwrap();
            drop(engine);
            if !is_made_while_open {
                std::fs::copy(&paths[0], &old).unwrap();
            }
            let engine = open_with(&runtime, &paths, Opening::default()).await.unwrap();
            if is_made_while_open {
                std::fs::copy(&paths[0], &old).unwrap();
            }
            write(&engine, 5..8, 1000).await;
            if is_made_while_open {
                engine.close().await.unwrap();
                std::fs::copy(&old, &paths[0]).unwrap();
            } else {
                // The machine stops.
                let images = paths.iter().map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>();
                engine.close().await.unwrap();
                std::iter::zip(&paths, images).for_each(|(path, image)| std::fs::write(path, image).unwrap());
                std::fs::copy(&old, &paths[0]).unwrap();
            }
            drop(engine);
            let engine = open_with(&runtime, &paths, Opening::default()).await.unwrap();
            let status = &engine.status().drives[0];
            assert_ne!(status.state, "online", "{status:?}");
            until_rebuilt(&runtime, &engine).await;
            engine.drive_offline(1).await.unwrap();
            verify(&engine, 0..5, 1).await;
            verify(&engine, 5..8, 1000).await;
            engine.close().await.unwrap();
        });
    }
}

/// Where nothing can restore what older drives lack, the pool is refused with all generations.
#[test]
fn older_drives_that_nothing_can_restore_are_refused_by_generation() {
    for (protection, drives, older) in [
        (Protection::None, 3, vec![1]),
        (Protection::None, 3, vec![0, 2]),
        (Protection::Single, 3, vec![0, 1]),
    ] {
        in_directory(async move |runtime, directory| {
            let paths = paths(&directory, drives);
            let engine = create(&runtime, &paths, protection).await;
            write(&engine, 0..40, 1).await;
            engine.close().await.unwrap();
            drop(engine);
            let before = newest_superblock(&paths[0]).generation;
            for drive in &older {
                std::fs::copy(&paths[*drive], format!("{directory}/old-{drive}")).unwrap();
            }
            let engine = open_with(&runtime, &paths, Opening::default()).await.unwrap();
            write(&engine, 0..80, 1000).await;
            engine.close().await.unwrap();
            drop(engine);
            let after = newest_superblock(&paths[0]).generation;
            let names: Vec<String> = (0..drives)
                .map(|drive| match older.contains(&drive) {
                    true => format!("{directory}/old-{drive}"),
                    false => paths[drive].clone(),
                })
                .collect();
            let refused = open_with(&runtime, &names, Opening::default()).await.err().unwrap();
            for part in
                [format!("generation {before}"), format!("generation {after}"), "--accept-older-state".into()]
            {
                assert!(refused.contains(&part), "{part}: {refused}");
            }
            // The right drives are whole.
            let engine = open_with(&runtime, &paths, Opening::default()).await.unwrap();
            verify(&engine, 0..80, 1000).await;
            engine.close().await.unwrap();
        });
    }
}

/// A pool whose only drive went back to an earlier state looks whole: the array that knew it newer notices.
#[test]
fn a_pool_that_is_older_than_it_is_remembered_is_opened_only_when_asked() {
    in_directory(async |runtime, directory| {
        let paths = paths(&directory, 1);
        let engine = create(&runtime, &paths, Protection::None).await;
        write(&engine, 0..10, 1).await;
        engine.close().await.unwrap();
        drop(engine);
        std::fs::copy(&paths[0], format!("{directory}/old")).unwrap();
        let engine = open_with(&runtime, &paths, Opening::default()).await.unwrap();
        write(&engine, 0..10, 1000).await;
        engine.close().await.unwrap();
        drop(engine);
        let Superblock { generation, pool, .. } = newest_superblock(&paths[0]);
        let remembered = vec![Remembered { pool: pool.0, generation }];
        std::fs::copy(format!("{directory}/old"), &paths[0]).unwrap();
        let refused =
            open_with(&runtime, &paths, Opening { remembered: remembered.clone(), ..Opening::default() })
                .await;
        let refused = refused.err().unwrap();
        assert!(refused.contains(&format!("it was at {generation}")), "{refused}");
        let engine = open_with(&runtime, &paths, Opening { remembered, ..accepting() }).await.unwrap();
        verify(&engine, 0..10, 1).await;
        engine.close().await.unwrap();
    });
}

/// Two drives of four were given up, and the pool went on. Those two alone would open as a pool, with what
/// they knew.
#[test]
fn drives_that_were_given_up_do_not_open_as_a_pool() {
    in_directory(async |runtime, directory| {
        let paths = paths(&directory, 4);
        let engine = create(&runtime, &paths, Protection::Dual).await;
        write(&engine, 0..20, 1).await;
        // What two that were lost in one moment hold: a superblock that calls nobody out.
        let lost: Vec<String> = (0..2).map(|drive| format!("{directory}/lost-{drive}")).collect();
        for (path, lost) in paths.iter().zip(&lost) {
            std::fs::copy(path, lost).unwrap();
        }
        engine.drive_offline(0).await.unwrap();
        engine.drive_offline(1).await.unwrap();
        write(&engine, 0..40, 1000).await;
        engine.close().await.unwrap();
        drop(engine);
        let refused = open_with(&runtime, &lost, Opening::default()).await.err().unwrap();
        assert!(refused.contains("only 2 of its 4 drives"), "{refused}");
        let refused = open_with(&runtime, &paths[..2], Opening::default()).await.err().unwrap();
        assert!(refused.contains("survives 2"), "{refused}");
        let engine = open_with(&runtime, &paths[2..], Opening::default()).await.unwrap();
        verify(&engine, 0..40, 1000).await;
        engine.close().await.unwrap();
        drop(engine);
        // After an orderly stop nobody went on: two that are lost then are no reason to refuse.
        for path in &paths[..2] {
            std::fs::remove_file(path).unwrap();
        }
        let engine = open_with(&runtime, &paths[2..], Opening::default()).await.unwrap();
        engine.close().await.unwrap();
    });
}

fn identity(machine: u128, process: u32) -> Identity {
    Identity { machine, boot: 1, machine_name: format!("host-{machine}"), process, process_started: 5 }
}

/// What another array would write to the owner block.
fn beat(path: &str, owner: &Owner) {
    let key = newest_superblock(path).key;
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&owner.encode(&key), OWNER_START_BYTES).unwrap();
    file.sync_all().unwrap();
}

fn owner_of(path: &str) -> Owner {
    let key = newest_superblock(path).key;
    let mut block = vec![0; 4096];
    std::fs::File::open(path).unwrap().read_exact_at(&mut block, OWNER_START_BYTES).unwrap();
    Owner::decode(&key, &block).unwrap()
}

#[test]
fn a_pool_that_another_machine_beats_on_is_refused_and_by_force_taken_over() {
    in_directory(async |runtime, directory| {
        let paths = paths(&directory, 1);
        let engine = create(&runtime, &paths, Protection::None).await;
        write(&engine, 0..10, 1).await;
        engine.close().await.unwrap();
        drop(engine);
        assert!(!owner_of(&paths[0]).is_open, "closed");
        let mut other = Owner {
            machine: 7,
            boot: 7,
            beat: 1,
            is_open: true,
            process: 4711,
            machine_name: "elsewhere".into(),
            interval_millis: 1000,
            ..owner_of(&paths[0])
        };
        other.session += 1;
        beat(&paths[0], &other);
        let (path, beating) = (paths[0].clone(), other.clone());
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut other = beating;
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                other.beat += 1;
                beat(&path, &other);
                std::thread::sleep(Duration::from_millis(300));
            }
        });
        let landing = Duration::from_millis(300);
        let opening = Opening { identity: identity(1, 1), landing: Some(landing), ..Opening::default() };
        let refused = open_with(&runtime, &paths, opening.clone()).await.err().unwrap();
        for part in ["open on elsewhere (process 4711)", "--force"] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        thread.join().unwrap();
        // Whoever does not beat any more is followed.
        let engine = open_with(&runtime, &paths, opening.clone()).await.unwrap();
        verify(&engine, 0..10, 1).await;
        engine.close().await.unwrap();
        drop(engine);
        beat(&paths[0], &Owner { session: owner_of(&paths[0]).session + 1, ..other });
        let begun = runtime.now();
        let forced = Opening { is_forced: true, ..opening };
        let engine = open_with(&runtime, &paths, forced).await.unwrap();
        // Nobody is watched; what the owner before asked of the drives is waited for.
        let waited = runtime.now().duration_since(begun);
        assert!(waited >= landing && waited < Duration::from_millis(2400), "{waited:?}");
        verify(&engine, 0..10, 1).await;
        engine.close().await.unwrap();
    });
}

#[test]
fn a_process_of_this_boot_that_is_gone_is_followed_at_once_and_one_that_is_there_is_watched() {
    in_directory(async |runtime, directory| {
        let paths = paths(&directory, 1);
        let engine = create(&runtime, &paths, Protection::None).await;
        engine.close().await.unwrap();
        drop(engine);
        let owner = Owner {
            machine: 1,
            boot: 1,
            process: 99,
            process_started: 5,
            is_open: true,
            beat: 9,
            ..owner_of(&paths[0])
        };
        for (is_there, is_quick) in [(false, true), (true, false)] {
            let session = owner_of(&paths[0]).session + 1;
            beat(&paths[0], &Owner { session, ..owner.clone() });
            let probe: ashlar_engine::ProcessProbe = Arc::new(move |process, started| {
                assert_eq!((process, started), (99, 5));
                is_there
            });
            let opening =
                Opening { identity: identity(1, 100), is_process_there: Some(probe), ..Opening::default() };
            let begun = runtime.now();
            let engine = open_with(&runtime, &paths, opening).await.unwrap();
            let waited = runtime.now().duration_since(begun);
            assert_eq!(waited < Duration::from_secs(2), is_quick, "{waited:?}");
            engine.close().await.unwrap();
        }
    });
}

#[test]
fn an_array_that_finds_another_opening_stops_at_once() {
    in_directory(async |runtime, directory| {
        let paths = paths(&directory, 1);
        let engine = create(&runtime, &paths, Protection::None).await;
        write(&engine, 0..10, 1).await;
        let own = owner_of(&paths[0]);
        assert!(own.is_open && own.beat > 0, "{own:?}");
        let taken = Owner { machine: 7, session: own.session + 1, machine_name: "elsewhere".into(), ..own };
        beat(&paths[0], &taken);
        // It looks once a second at least.
        runtime.sleep(Duration::from_millis(1600)).await;
        let data = engine.device("data").unwrap();
        let failed = data.write(0, &bytes_of(5, PIECE), false).await.err().unwrap();
        assert!(
            failed.to_string().contains("stopped") || failed.to_string().contains("another array"),
            "{failed}"
        );
        let superblock = newest_superblock(&paths[0]);
        runtime.sleep(Duration::from_millis(1200)).await;
        let _stopped = engine.close().await;
        assert_eq!(owner_of(&paths[0]), taken, "the other's block stays");
        assert_eq!(newest_superblock(&paths[0]), superblock, "and nothing is written");
    });
}
