//! Drives fail while nobody writes, and the machine stops then.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use ashlar_engine::{Compression, DriveSpec, Engine, PoolSpec, Profile, Protection, Settings, VolumeSpec};
use ashlar_runtime::Runtime;
use ashlar_runtime::sim::Simulation;

use crate::drives::{Crash, DriveArray, Pace};

const QUICK: Pace = Pace { usual_micros: (20, 100), slow_per_mille: 0, slow_micros_max: 100 };
const DRIVES: usize = 4;
const PIECE_BYTES: u64 = 16 << 10;
const PIECES: u64 = 100;

fn content(piece: u64) -> Vec<u8> {
    (0..PIECE_BYTES).map(|at| (piece * 31 + at * at / 7) as u8).collect()
}

async fn open(runtime: &Runtime, drives: &[String]) -> Engine {
    // Reads reach the drives.
    let settings = Settings { cache_bytes: 64 << 10, ..Settings::default() };
    Engine::open(runtime, drives, settings).await.unwrap()
}

async fn fill(runtime: &Runtime, drives: &[String]) -> Engine {
    let drive = |path: &String| DriveSpec { path: path.clone(), create_size_bytes: Some(16 << 20) };
    let spec = PoolSpec {
        name: "pool".to_string(),
        drives: drives.iter().map(drive).collect(),
        protection: Protection::Dual,
        segment_bytes: Some(256 << 10),
        width: None,
        spares: 0,
    };
    Engine::create_pool(runtime, spec).await.unwrap();
    let engine = open(runtime, drives).await;
    let volume = VolumeSpec {
        name: "data".into(),
        size_bytes: 1 << 30,
        logical_block_bytes: 4096,
        profile: Profile::Oltp,
        compression: Compression::Off,
        dedupe: false,
    };
    engine.volume_create(volume).await.unwrap();
    let data = engine.device("data").unwrap();
    for piece in 0..PIECES {
        data.write(piece * PIECE_BYTES, &content(piece), false).await.unwrap();
    }
    engine
}

async fn verify(engine: &Engine) {
    let data = engine.device("data").unwrap();
    for piece in 0..PIECES {
        let mut found = vec![0; PIECE_BYTES as usize];
        data.read(piece * PIECE_BYTES, &mut found).await.unwrap();
        assert!(found == content(piece), "piece {piece}");
    }
}

/// Drives of the pool fail one by one, while hosts read or do nothing.
fn lose_and_stop(lost: [usize; 2], has_readers: bool) {
    let drives: Vec<String> = (0..DRIVES).map(|drive| format!("drive-{drive}")).collect();
    let array = Rc::new(RefCell::new(DriveArray::new(1, 4096, QUICK)));
    let mut simulation = Simulation::new(1, array.clone());
    let (runtime, named, there) = (simulation.runtime(), drives.clone(), array.clone());
    let losses = async move {
        let engine = fill(&runtime, &named).await;
        for drive in lost {
            there.borrow_mut().unplug(&named[drive]);
            if has_readers {
                for _ in 0..20 {
                    verify(&engine).await;
                }
            }
            runtime.sleep(Duration::from_secs(3)).await;
        }
        engine
    };
    let engine = simulation.run_until(losses).unwrap();
    let now = simulation.now();
    array.borrow_mut().set_next_crash(Crash::Kill);
    drop(simulation);
    drop(engine);

    let here: Vec<String> = drives.iter().filter(|path| array.borrow().is_usable(path)).cloned().collect();
    assert_eq!(here.len(), DRIVES - lost.len());
    let mut simulation = Simulation::new(2, array);
    simulation.advance_clock_to(now);
    let runtime = simulation.runtime();
    let reopened = async move {
        let engine = open(&runtime, &here).await;
        verify(&engine).await;
        engine.close().await.unwrap();
    };
    simulation.run_until(reopened).unwrap();
}

/// Nobody recorded it, and the drives left were no more than half of those that should be there: the pool did
/// not open.
#[test]
fn a_pool_that_lost_half_of_its_drives_while_idle_opens_again() {
    for has_readers in [false, true] {
        for lost in [[0, 1], [1, 0], [0, 3], [3, 0], [2, 3]] {
            lose_and_stop(lost, has_readers);
        }
    }
}
