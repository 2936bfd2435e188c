//! A batch of notes, and a volume with its notes, and the machine stops at every moment of that.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::rc::Rc;

use ashlar_engine::{
    Compression, DriveSpec, Engine, NoteBatch, NoteKind, PoolSpec, Profile, Protection, Settings, VolumeSpec,
};
use ashlar_runtime::sim::Simulation;
use ashlar_runtime::{Priority, Runtime};

use crate::drives::{Crash, DriveArray, Pace};

const QUICK: Pace = Pace { usual_micros: (20, 100), slow_per_mille: 0, slow_micros_max: 100 };
const PARTS: u16 = 12;
/// Rounds that a life gets through; then it closes the pool.
const ROUNDS: u16 = 2;

fn drives() -> Vec<String> {
    (0..2).map(|drive| format!("drive-{drive}")).collect()
}

async fn open(runtime: &Runtime) -> Engine {
    Engine::open(runtime, &drives(), Settings::default()).await.unwrap()
}

fn volume(name: &str) -> VolumeSpec {
    VolumeSpec {
        name: name.to_string(),
        size_bytes: 1 << 20,
        logical_block_bytes: 4096,
        profile: Profile::Oltp,
        compression: Compression::Off,
        dedupe: false,
    }
}

async fn create(runtime: &Runtime) {
    let drive = |path: String| DriveSpec { path, create_size_bytes: Some(16 << 20) };
    let spec = PoolSpec {
        name: "pool".to_string(),
        drives: drives().into_iter().map(drive).collect(),
        protection: Protection::None,
        segment_bytes: Some(256 << 10),
        width: None,
        spares: 0,
    };
    Engine::create_pool(runtime, spec).await.unwrap();
    let engine = open(runtime).await;
    engine.volume_create(volume("data")).await.unwrap();
    put(&engine, 0).await;
    engine.close().await.unwrap();
}

/// All parts say the round; as many as the round are missing.
async fn put(engine: &Engine, round: u16) {
    let id = engine.volumes()[0].id;
    let batch = (0..PARTS).fold(NoteBatch::new(), |batch, part| match part < round {
        true => batch.delete(NoteKind::Label, id, part),
        false => batch.put(NoteKind::Label, id, part, round, vec![round as u8; 3000]),
    });
    engine.notes_put(batch).await.unwrap();
}

/// The round that all notes tell of.
fn round_of(engine: &Engine) -> u16 {
    let id = engine.volumes().iter().find(|info| info.name == "data").unwrap().id;
    let notes = engine.notes_range(NoteKind::Label, id);
    let round = notes[0].version;
    assert_eq!(notes.len(), usize::from(PARTS - round), "round {round}");
    for (note, part) in notes.iter().zip(round..) {
        assert_eq!((note.key.part, note.version), (part, round));
        assert_eq!(note.value, vec![round as u8; 3000]);
    }
    round
}

/// What the machine was told before it stopped so many steps after it began, and what it then found: rounds
/// of notes, and volumes with notes.
fn stop_after(steps: u64, how: Crash) -> [u16; 4] {
    let array = Rc::new(RefCell::new(DriveArray::new(1, 4096, QUICK)));
    let mut simulation = Simulation::new(1, array.clone());
    let runtime = simulation.runtime();
    simulation.run_until(async move { create(&runtime).await }).unwrap();
    drop(simulation);

    let mut simulation = Simulation::new(2, array.clone());
    let runtime = simulation.runtime();
    let told = Rc::new(RefCell::new(None));
    let telling = told.clone();
    let _detached = simulation.runtime().spawn(Priority::Host, async move {
        let engine = open(&runtime).await;
        *telling.borrow_mut() = Some((0, 0));
        for round in 1..=ROUNDS {
            put(&engine, round).await;
            *telling.borrow_mut() = Some((round, round - 1));
            let name = format!("v{round}");
            let noted = engine.volume_create_noted(volume(&name), |id| {
                NoteBatch::new().put(NoteKind::Limit, id.0, 0, round, vec![1]).event(1, vec![2])
            });
            noted.await.unwrap();
            *telling.borrow_mut() = Some((round, round));
        }
        engine.close().await.unwrap();
    });
    let mut end = None;
    simulation.run_while(&mut |simulation| {
        if told.borrow().is_some() && end.is_none() {
            end = Some(simulation.steps() + steps);
        }
        end.is_none_or(|end| simulation.steps() < end)
    });
    array.borrow_mut().set_next_crash(how);
    drop(simulation);

    let mut simulation = Simulation::new(3, array);
    let runtime = simulation.runtime();
    let (rounds, volumes) = told.borrow().unwrap();
    let found = simulation.run_until(async move {
        let engine = open(&runtime).await;
        let noted = engine.notes_of(NoteKind::Limit);
        let made = engine.volumes().into_iter().filter(|info| info.name != "data").map(|info| info.id);
        let with_notes = noted.iter().map(|note| note.key.subject);
        assert_eq!(with_notes.collect::<Vec<_>>(), made.collect::<Vec<_>>());
        assert_eq!(engine.notes_of(NoteKind::Event).len(), noted.len());
        assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
        let found = [rounds, round_of(&engine), volumes, noted.len() as u16];
        // It goes on from there.
        put(&engine, found[1] + 1).await;
        engine.close().await.unwrap();
        drop(engine);
        let engine = open(&runtime).await;
        assert_eq!(round_of(&engine), found[1] + 1);
        engine.close().await.unwrap();
        found
    });
    found.unwrap()
}

#[test]
fn notes_survive_a_stop_at_any_moment_all_of_a_batch_or_none() {
    let mut seen = std::collections::BTreeSet::new();
    let mut is_over = false;
    for steps in 0..2_000_u64 {
        let how = match steps % 3 {
            0 => Crash::Kill,
            1 => Crash::Power { survival_per_mille: 0 },
            _ => Crash::Power { survival_per_mille: 500 },
        };
        let [told, found, told_volumes, found_volumes] = stop_after(steps, how);
        assert!(found == told || found == told + 1, "{steps} steps: told {told}, found {found}");
        let is_right = found_volumes == told_volumes || found_volumes == told_volumes + 1;
        assert!(is_right, "{steps} steps: told of {told_volumes} volumes, found {found_volumes}");
        seen.insert((found, found_volumes));
        // Closed, and some more steps of that.
        if told_volumes == ROUNDS && steps > 300 {
            is_over = true;
            break;
        }
    }
    assert!(is_over, "{seen:?}");
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [(0, 0), (1, 0), (1, 1), (2, 1), (2, 2)]);
}
