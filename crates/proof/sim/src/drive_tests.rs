//! Drives of pools with parity: a slow one slows nobody who reads, and a rebuild is tried again.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use ashlar_engine::{Compression, DriveSpec, Engine, PoolSpec, Profile, Protection, Settings, VolumeSpec};
use ashlar_runtime::Runtime;
use ashlar_runtime::sim::Simulation;

use crate::drives::{DriveArray, FaultRates, Pace};

const QUICK: Pace = Pace { usual_micros: (20, 100), slow_per_mille: 0, slow_micros_max: 100 };
const PIECE_BYTES: usize = 16 << 10;
const PIECES: u64 = 400;

fn machine_with_a_victim(path: &str) -> (Rc<RefCell<DriveArray>>, Simulation) {
    let mut array = DriveArray::new(1, 4096, QUICK);
    array.limit_faults_to(Some(vec![path.to_string()]));
    let array = Rc::new(RefCell::new(array));
    (array.clone(), Simulation::new(1, array))
}

async fn make(runtime: &Runtime, drives: &[String], protection: Protection) -> Engine {
    let drive = |path: &String| DriveSpec { path: path.clone(), create_size_bytes: Some(16 << 20) };
    let spec = PoolSpec {
        name: "pool".to_string(),
        drives: drives.iter().map(drive).collect(),
        protection,
        segment_bytes: Some(256 << 10),
        width: None,
        spares: 0,
    };
    Engine::create_pool(runtime, spec).await.unwrap();
    let settings = Settings { cache_bytes: 64 << 10, ..Settings::default() };
    let engine = Engine::open(runtime, drives, settings).await.unwrap();
    let volume = VolumeSpec {
        name: "data".into(),
        size_bytes: 1 << 30,
        logical_block_bytes: 4096,
        profile: Profile::Oltp,
        compression: Compression::Off,
        dedupe: false,
    };
    engine.volume_create(volume).await.unwrap();
    engine
}

fn paths(drives: usize) -> Vec<String> {
    (0..drives).map(|drive| format!("drive-{drive}")).collect()
}

fn content(piece: u64) -> Vec<u8> {
    (0..PIECE_BYTES as u64).map(|at| (piece * 31 + at * at / 7) as u8).collect()
}

/// How long each of many reads took, sorted.
async fn read_all(runtime: &Runtime, engine: &Engine) -> Vec<Duration> {
    let data = engine.device("data").unwrap();
    let mut took = Vec::new();
    for piece in (0..3).flat_map(|_| 0..PIECES) {
        let mut found = vec![0; PIECE_BYTES];
        let since = runtime.now();
        data.read(piece * PIECE_BYTES as u64, &mut found).await.unwrap();
        took.push(runtime.now().duration_since(since));
        assert!(found == content(piece), "piece {piece}");
    }
    took.sort_unstable();
    took
}

#[test]
fn readers_do_not_wait_for_a_slow_drive() {
    let (array, mut simulation) = machine_with_a_victim("drive-2");
    let runtime = simulation.runtime();
    let test = async move {
        let drives = paths(6);
        let engine = make(&runtime, &drives, Protection::Dual).await;
        let data = engine.device("data").unwrap();
        for piece in 0..PIECES {
            data.write(piece * PIECE_BYTES as u64, &content(piece), false).await.unwrap();
        }
        let before = read_all(&runtime, &engine).await;
        // From 20 to 100 milliseconds a request.
        array.borrow_mut().arm(FaultRates { slowness: 1000, ..FaultRates::default() });
        let with = read_all(&runtime, &engine).await;
        array.borrow_mut().arm(FaultRates::default());
        read_all(&runtime, &engine).await;
        let steered = engine.status().drives[2].counters.steered_reads;
        let after = read_all(&runtime, &engine).await;
        assert_eq!(engine.status().drives[2].counters.steered_reads, steered, "it is well again");
        engine.close().await.unwrap();
        (before, with, after)
    };
    let (before, with, after) = simulation.run_until(test).unwrap();
    let at = |times: &[Duration], per_mille: usize| times[times.len() * per_mille / 1000];
    assert!(at(&with, 900) < 2 * at(&before, 900), "{:?} {:?}", at(&with, 900), at(&before, 900));
    assert!(*with.last().unwrap() < Duration::from_millis(12), "{:?}", with.last());
    assert!(at(&after, 990) < 2 * at(&before, 990), "{:?} {:?}", at(&after, 990), at(&before, 990));
}

#[test]
fn a_rebuild_that_could_not_read_the_others_is_tried_again() {
    let (array, mut simulation) = machine_with_a_victim("drive-1");
    let runtime = simulation.runtime();
    let test = async move {
        let engine = make(&runtime, &paths(4), Protection::Single).await;
        engine.drive_offline(2).await.unwrap();
        let data = engine.device("data").unwrap();
        for piece in 0..PIECES {
            data.write(piece * PIECE_BYTES as u64, &content(piece), false).await.unwrap();
        }
        // A superblock that is read back while nothing can be read would stop the pool: none is due now.
        engine.check().await.unwrap();
        engine.drive_return(2, "drive-2").await.unwrap();
        array.borrow_mut().arm(FaultRates { read_error: 1_000_000, ..FaultRates::default() });
        while engine.rebuild_error().is_none() {
            runtime.sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(engine.status().drives[2].state, "rebuilding");
        array.borrow_mut().mend();
        runtime.sleep(Duration::from_secs(60)).await;
        let status = engine.status();
        let why = (status.state, engine.rebuild_error());
        assert_eq!(status.drives[2].state, "online", "{why:?}");
        engine.drive_offline(0).await.unwrap();
        read_all(&runtime, &engine).await;
        engine.close().await.unwrap();
    };
    simulation.run_until(test).unwrap();
}
