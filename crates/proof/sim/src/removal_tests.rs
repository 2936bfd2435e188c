//! A drive leaves a pool, and the machine stops at any moment of that.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use ashlar_engine::{Compression, DriveSpec, Engine, PoolSpec, Profile, Protection, Settings, VolumeSpec};
use ashlar_runtime::sim::Simulation;
use ashlar_runtime::{Priority, Runtime};

use crate::drives::{Crash, DriveArray, Pace};

const QUICK: Pace = Pace { usual_micros: (20, 100), slow_per_mille: 0, slow_micros_max: 100 };
const PIECE_BYTES: u64 = 16 << 10;
const PIECES: u64 = 200;

fn paths() -> Vec<String> {
    (0..2).map(|drive| format!("drive-{drive}")).collect()
}

fn content(piece: u64) -> Vec<u8> {
    (0..PIECE_BYTES).map(|at| (piece * 31 + at * at / 7) as u8).collect()
}

async fn open(runtime: &Runtime, drives: &[String]) -> Engine {
    let settings = Settings { cache_bytes: 64 << 10, ..Settings::default() };
    Engine::open(runtime, drives, settings).await.unwrap()
}

async fn fill(runtime: &Runtime) {
    let drive = |path: String| DriveSpec { path, create_size_bytes: Some(16 << 20) };
    let spec = PoolSpec {
        name: "pool".to_string(),
        drives: paths().into_iter().map(drive).collect(),
        protection: Protection::None,
        segment_bytes: Some(256 << 10),
        width: None,
        spares: 0,
    };
    Engine::create_pool(runtime, spec).await.unwrap();
    let engine = open(runtime, &paths()).await;
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
    engine.close().await.unwrap();
}

async fn verify(engine: &Engine) {
    let data = engine.device("data").unwrap();
    for piece in 0..PIECES {
        let mut found = vec![0; PIECE_BYTES as usize];
        data.read(piece * PIECE_BYTES, &mut found).await.unwrap();
        assert!(found == content(piece), "piece {piece}");
    }
    assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
}

async fn until_gone(runtime: &Runtime, engine: &Engine) {
    for _ in 0..1000 {
        if engine.status().drives[1].state == "gone" {
            return;
        }
        runtime.sleep(Duration::from_millis(50)).await;
    }
    panic!("it never left: {:?}", engine.removal_status());
}

/// The machine stops so many steps after the pool was asked; what it had recorded it goes on with.
fn stop_after(steps: u64, how: Crash) -> (bool, bool) {
    let array = Rc::new(RefCell::new(DriveArray::new(steps, 4096, QUICK)));
    let mut simulation = Simulation::new(1, array.clone());
    let runtime = simulation.runtime();
    simulation.run_until(async move { fill(&runtime).await }).unwrap();
    drop(simulation);

    let mut simulation = Simulation::new(2, array.clone());
    let runtime = simulation.runtime();
    let is_asked = Rc::new(RefCell::new(false));
    let asked = is_asked.clone();
    let _detached = simulation.runtime().spawn(Priority::Host, async move {
        let engine = open(&runtime, &paths()).await;
        *asked.borrow_mut() = true;
        engine.drive_remove(1).await.unwrap();
        let data = engine.device("data").unwrap();
        for piece in (0..PIECES).cycle() {
            data.write(piece * PIECE_BYTES, &content(piece), false).await.unwrap();
        }
    });
    let mut end = None;
    simulation.run_while(&mut |simulation| {
        if *is_asked.borrow() && end.is_none() {
            end = Some(simulation.steps() + steps);
        }
        end.is_none_or(|end| simulation.steps() < end)
    });
    array.borrow_mut().set_next_crash(how);
    drop(simulation);

    let mut simulation = Simulation::new(3, array.clone());
    let runtime = simulation.runtime();
    let found = simulation.run_until(async move {
        let engine = open(&runtime, &paths()).await;
        let state = engine.status().drives[1].state.clone();
        verify(&engine).await;
        if state == "online" {
            engine.drive_remove(1).await.unwrap();
        }
        until_gone(&runtime, &engine).await;
        verify(&engine).await;
        engine.close().await.unwrap();
        drop(engine);
        let engine = open(&runtime, &paths()[..1]).await;
        verify(&engine).await;
        engine.close().await.unwrap();
        (state == "leaving", state == "gone")
    });
    found.unwrap()
}

#[test]
fn a_removal_survives_a_stop_at_any_moment() {
    let (mut leaving, mut gone) = (0, 0);
    for round in 0..60_u64 {
        let how = match round % 3 {
            0 => Crash::Kill,
            1 => Crash::Power { survival_per_mille: 0 },
            _ => Crash::Power { survival_per_mille: 500 },
        };
        let (was_leaving, was_gone) = stop_after(round * round * 3, how);
        leaving += u64::from(was_leaving);
        gone += u64::from(was_gone);
    }
    assert!(leaving > 10 && gone > 0, "{leaving} leaving, {gone} gone");
}
