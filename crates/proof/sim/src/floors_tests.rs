//! Floors and classes: a volume that is protected stays quick, and those held back go on.

#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use ashlar_engine::{
    Class, Compression, DriveSpec, Engine, PoolSpec, Precedence, Profile, Protection, Settings, VolumePolicy,
    VolumeSpec,
};
use ashlar_runtime::sim::Simulation;
use ashlar_runtime::{Priority, Runtime};

use crate::drives::{Crash, DriveArray, Pace};

/// As drives of a cloud: slow enough for a second to be simulated in little more.
const PACE: Pace = Pace { usual_micros: (80, 240), slow_per_mille: 0, slow_micros_max: 240 };
const BLOCK: u64 = 4096;
const PIECE: u64 = 64 << 10;
const MIB: u64 = 1 << 20;
const DATA_BYTES: u64 = 12 * MIB;
const LOG_BYTES: u64 = 2 * MIB;
const DRIVE_BYTES: u64 = 64 * MIB;
const SECOND: Duration = Duration::from_secs(1);

fn machine() -> (Rc<RefCell<DriveArray>>, Simulation) {
    let mut array = DriveArray::new(1, 4096, PACE);
    array.have_lanes(2);
    let array = Rc::new(RefCell::new(array));
    (array.clone(), Simulation::new(1, array))
}

fn simulated(test: impl AsyncFnOnce(Runtime) + 'static) {
    let (_, mut simulation) = machine();
    let runtime = simulation.runtime();
    simulation.run_until(async move { test(runtime).await }).unwrap();
}

fn paths(protection: Protection) -> Vec<String> {
    let drives = match protection {
        Protection::None => 2,
        Protection::Single => 4,
        Protection::Dual => 6,
    };
    (0..drives).map(|drive| format!("drive-{drive}")).collect()
}

async fn open(runtime: &Runtime, protection: Protection) -> Engine {
    let settings = Settings { cache_bytes: 64 << 10, ..Settings::default() };
    Engine::open(runtime, &paths(protection), settings).await.unwrap()
}

fn size_of(volume: &str) -> u64 {
    if volume == "log" { LOG_BYTES } else { DATA_BYTES }
}

async fn create(runtime: &Runtime, protection: Protection) -> Engine {
    create_sized(runtime, protection, DRIVE_BYTES).await
}

async fn create_sized(runtime: &Runtime, protection: Protection, drive_bytes: u64) -> Engine {
    let drive = |path: String| DriveSpec { path, create_size_bytes: Some(drive_bytes) };
    let spec = PoolSpec {
        name: "pool".to_string(),
        drives: paths(protection).into_iter().map(drive).collect(),
        protection,
        segment_bytes: Some(256 << 10),
        width: None,
        spares: 0,
    };
    Engine::create_pool(runtime, spec).await.unwrap();
    let engine = open(runtime, protection).await;
    for name in ["log", "data", "other"] {
        let volume = VolumeSpec {
            name: name.to_string(),
            size_bytes: size_of(name),
            logical_block_bytes: 4096,
            profile: Profile::Oltp,
            compression: Compression::Off,
            dedupe: false,
        };
        engine.volume_create(volume).await.unwrap();
    }
    engine
}

fn floor(floor: Duration) -> VolumePolicy {
    VolumePolicy { floor: Some(Some(floor)), ..VolumePolicy::default() }
}

fn class(class: Class) -> VolumePolicy {
    VolumePolicy { class: Some(class), ..VolumePolicy::default() }
}

fn precedence(engine: &Engine, name: &str) -> Precedence {
    engine.volumes().into_iter().find(|volume| volume.name == name).unwrap().precedence
}

/// Hosts of a volume: what they got done, and how long each request took.
#[derive(Clone, Default)]
struct Hosts {
    took: Rc<RefCell<Vec<Duration>>>,
    are_stopped: Rc<Cell<bool>>,
}

impl Hosts {
    /// Keeps so many writes of a length waiting, each with a pause after it.
    fn of(
        runtime: &Runtime,
        engine: &Engine,
        name: &str,
        (depth, bytes, pause): (u64, u64, Duration),
    ) -> Hosts {
        let (hosts, size) = (Hosts::default(), size_of(name));
        for number in 0..depth {
            let (host, own, device) = (hosts.clone(), runtime.clone(), engine.device(name).unwrap());
            let _detached = runtime.spawn(Priority::Host, async move {
                let mut at = number;
                while !host.are_stopped.get() {
                    let begin = own.now();
                    let data = vec![1 + at as u8 % 200; bytes as usize];
                    let offset = at * 7919 % (size / bytes) * bytes;
                    if device.write(offset, &data, false).await.is_err() {
                        return;
                    }
                    host.took.borrow_mut().push(own.now().duration_since(begin));
                    own.sleep(pause).await;
                    at += depth;
                }
            });
        }
        hosts
    }

    /// A log: one small write after the other.
    fn log(runtime: &Runtime, engine: &Engine) -> Hosts {
        Hosts::of(runtime, engine, "log", (1, BLOCK, Duration::from_micros(500)))
    }

    /// As much as the pool takes.
    fn flood(runtime: &Runtime, engine: &Engine, name: &str) -> Hosts {
        Hosts::of(runtime, engine, name, (64, PIECE, Duration::ZERO))
    }

    fn stop(&self) {
        self.are_stopped.set(true);
    }

    fn count(&self) -> usize {
        self.took.borrow().len()
    }

    /// Forgets what was.
    fn begin(&self) {
        self.took.borrow_mut().clear();
    }

    fn p99(&self) -> Duration {
        let mut took = self.took.borrow().clone();
        took.sort_unstable();
        took[took.len() * 99 / 100]
    }
}

/// Of these hosts what they got done in a time, and of the log how long a request took.
async fn measure(
    runtime: &Runtime,
    time: Duration,
    log: &Hosts,
    others: &[&Hosts],
) -> (Duration, Vec<usize>) {
    log.begin();
    others.iter().for_each(|hosts| hosts.begin());
    runtime.sleep(time).await;
    (log.p99(), others.iter().map(|hosts| hosts.count()).collect())
}

#[test]
fn a_log_with_a_floor_stays_quick_while_others_write_and_the_pool_rebuilds_and_cleans() {
    simulated(async |runtime| {
        let engine = create(&runtime, Protection::Dual).await;
        let log = Hosts::log(&runtime, &engine);
        let (idle, _) = measure(&runtime, SECOND, &log, &[]).await;

        engine.drive_offline(2).await.unwrap();
        let data = Hosts::flood(&runtime, &engine, "data");
        runtime.sleep(SECOND).await;
        engine.drive_return(2, "drive-2").await.unwrap();
        let (without, _) = measure(&runtime, SECOND, &log, &[&data]).await;
        assert!(without > idle * 4, "{without:?} is no load, idle {idle:?}");

        engine.volume_set("log", floor(idle * 3 / 2)).await.unwrap();
        runtime.sleep(2 * SECOND).await;
        let segments = engine.status().counters.segments_freed;
        let (with, done) = measure(&runtime, 5 * SECOND, &log, &[&data]).await;
        let status = engine.floor_status("log").unwrap();
        assert!(with < idle * 2, "{with:?}, idle {idle:?}: {status:?}");
        assert!(done[0] > 200, "{} requests of the others in five seconds", done[0]);
        let freed = engine.status().counters.segments_freed - segments;
        assert!(freed > 10, "{freed} segments freed");
        log.stop();
        data.stop();
        runtime.sleep(SECOND).await;
        engine.close().await.unwrap();
    });
}

#[test]
fn nobody_starves_behind_a_floor_that_cannot_be_met_and_all_who_wait_have_their_turn() {
    simulated(async |runtime| {
        let engine = create(&runtime, Protection::None).await;
        engine.volume_set("log", floor(Duration::from_micros(100))).await.unwrap();
        let log = Hosts::log(&runtime, &engine);
        let greedy = Hosts::flood(&runtime, &engine, "data");
        let meek = Hosts::of(&runtime, &engine, "other", (1, PIECE, Duration::ZERO));
        runtime.sleep(2 * SECOND).await;
        assert_eq!(engine.floor_status("log").unwrap().depth, Some(1));

        let (_, done) = measure(&runtime, 3 * SECOND, &log, &[&greedy, &meek]).await;
        assert!(done.iter().all(|done| *done >= 3 * 40), "{done:?} in three seconds");
        let (one, sixty_four) = (done[1], done[0]);
        assert!(one * 10 >= sixty_four * 8, "{one} of one host, {sixty_four} of sixty-four");
        // None of the sixty-four is forgotten.
        let longest = greedy.took.borrow().iter().max().copied().unwrap();
        assert!(longest < 70 * greedy.p99() / 64 + 64 * Duration::from_millis(25), "{longest:?}");
        let status = engine.status();
        assert!(status.counters.requests_gave_precedence > 200, "{:?}", status.counters);
        // What waited for it shows where the time went.
        let waited = engine.stages().writes.stages[ashlar_engine::Stage::Precedence as usize].count();
        assert!(waited > 200, "{waited}");

        // Without the floor they are let go at once.
        engine
            .volume_set("log", VolumePolicy { floor: Some(None), ..VolumePolicy::default() })
            .await
            .unwrap();
        let (_, free) = measure(&runtime, SECOND, &log, &[&greedy]).await;
        assert!(free[0] > done[0], "{} in a second, {} in three before", free[0], done[0]);
        engine.close().await.unwrap();
    });
}

#[test]
fn an_idle_volume_with_a_floor_costs_nothing() {
    simulated(async |runtime| {
        let engine = create(&runtime, Protection::None).await;
        let data = Hosts::flood(&runtime, &engine, "data");
        let done = async || {
            runtime.sleep(2 * SECOND).await;
            data.begin();
            runtime.sleep(2 * SECOND).await;
            data.count()
        };
        let without = done().await;
        engine.volume_set("log", floor(Duration::from_micros(100))).await.unwrap();
        let with = done().await;
        assert!(with * 100 >= without * 97, "{with} with it, {without} without");
        // It was at work, and held the others back.
        let log = Hosts::log(&runtime, &engine);
        let meanwhile = done().await;
        assert!(meanwhile * 2 < without, "{meanwhile} meanwhile, {without} without");
        log.stop();
        let behind = done().await;
        assert!(behind * 100 >= without * 90, "{behind} behind it, {without} without");
        engine.close().await.unwrap();
    });
}

#[test]
fn what_a_volume_waits_by_its_own_rates_is_no_miss() {
    simulated(async |runtime| {
        let engine = create(&runtime, Protection::None).await;
        let slow = VolumePolicy { requests_per_second: Some(Some(20)), ..floor(Duration::from_millis(5)) };
        engine.volume_set("log", slow).await.unwrap();
        let log = Hosts::log(&runtime, &engine);
        let (p99, _) = measure(&runtime, 3 * SECOND, &log, &[]).await;
        assert!(p99 > Duration::from_millis(40), "{p99:?}: it waits for its turn");
        let status = engine.floor_status("log").unwrap();
        assert!(status.requests > 50 && status.misses == 0, "{status:?}");
        engine.close().await.unwrap();
    });
}

#[test]
fn class_low_gives_way_to_class_normal_and_has_all_when_that_is_idle() {
    simulated(async |runtime| {
        let engine = create(&runtime, Protection::None).await;
        let normal = Hosts::of(&runtime, &engine, "log", (4, BLOCK, Duration::from_micros(200)));
        let (alone, _) = measure(&runtime, SECOND, &normal, &[]).await;
        let rate_alone = normal.count();
        let low = Hosts::flood(&runtime, &engine, "data");
        runtime.sleep(SECOND).await;
        let (beside_normal, both) = measure(&runtime, SECOND, &normal, &[&low]).await;
        let rate_beside_normal = normal.count();

        engine.volume_set("data", class(Class::Low)).await.unwrap();
        runtime.sleep(SECOND).await;
        let (beside_low, held) = measure(&runtime, SECOND, &normal, &[&low]).await;
        let rate_beside_low = normal.count();
        let all = (alone, beside_normal, beside_low, rate_alone, rate_beside_normal, rate_beside_low);
        assert!(beside_low * 2 < beside_normal, "{all:?}");
        assert!(rate_beside_low * 2 > rate_alone && rate_beside_low > rate_beside_normal, "{all:?}");
        assert!(held[0] >= 40 && held[0] * 5 < both[0] * 4, "{held:?}, {both:?}");

        normal.stop();
        runtime.sleep(SECOND).await;
        low.begin();
        runtime.sleep(SECOND).await;
        assert!(low.count() > both[0], "{} alone, {both:?}", low.count());
        engine.close().await.unwrap();
    });
}

#[test]
fn a_crash_and_an_opening_keep_floor_and_class() {
    for how in [Crash::Kill, Crash::Power { survival_per_mille: 0 }] {
        let (array, mut simulation) = machine();
        let runtime = simulation.runtime();
        let set = simulation.run_until(async move {
            let engine = create(&runtime, Protection::None).await;
            engine.volume_set("log", floor(Duration::from_micros(2500))).await.unwrap();
            engine.volume_set("data", class(Class::Low)).await.unwrap();
            engine.volume_set("other", class(Class::Low)).await.unwrap();
            engine.volume_set("other", class(Class::Normal)).await.unwrap();
            ["log", "data", "other"].map(|name| precedence(&engine, name))
        });
        let set = set.unwrap();
        assert_eq!(set[0].floor, Some(Duration::from_micros(2500)));
        assert_eq!((set[1].class, set[2]), (Class::Low, Precedence::default()));
        array.borrow_mut().set_next_crash(how);
        drop(simulation);

        let mut simulation = Simulation::new(2, array);
        let runtime = simulation.runtime();
        let test = async move {
            let engine = open(&runtime, Protection::None).await;
            assert_eq!(["log", "data", "other"].map(|name| precedence(&engine, name)), set);
            assert!(engine.floor_status("log").is_some() && engine.floor_status("data").is_none());
            // And they are kept to.
            let other = Hosts::of(&runtime, &engine, "other", (1, BLOCK, Duration::from_millis(5)));
            let low = Hosts::flood(&runtime, &engine, "data");
            let (_, held) = measure(&runtime, SECOND, &other, &[&low]).await;
            engine.volume_set("data", class(Class::Normal)).await.unwrap();
            let (_, free) = measure(&runtime, SECOND, &other, &[&low]).await;
            assert!(held[0] * 5 < free[0] * 4, "{held:?} of class low, {free:?} of class normal");
            engine.volume_set("data", class(Class::Low)).await.unwrap();
            let refused = engine.volume_set("data", floor(SECOND)).await;
            assert!(refused.is_err(), "class low has no floor");
            assert!(engine.volume_set("log", floor(Duration::from_micros(99))).await.is_err());
            engine.close().await.unwrap();
        };
        simulation.run_until(test).unwrap();
    }
}

/// The cleaner that makes room for writes is not held back, whatever the floor: safety goes first.
#[test]
fn a_pool_that_is_nearly_full_goes_on_behind_a_floor_that_cannot_be_met() {
    simulated(async |runtime| {
        let engine = create_sized(&runtime, Protection::None, 17 * MIB).await;
        engine.volume_set("log", floor(Duration::from_micros(100))).await.unwrap();
        let log = Hosts::log(&runtime, &engine);
        let device = engine.device("data").unwrap();
        // Two volumes of twelve MiB in a pool of thirty-four, each written over and over.
        let other = Hosts::of(&runtime, &engine, "other", (4, PIECE, Duration::ZERO));
        let begin = runtime.now();
        for at in 0..12 * DATA_BYTES / PIECE {
            let offset = at * 7919 % (DATA_BYTES / PIECE) * PIECE;
            device.write(offset, &vec![1 + at as u8 % 200; PIECE as usize], false).await.unwrap();
        }
        let took = runtime.now().duration_since(begin);
        let counters = engine.status().counters;
        assert_eq!(counters.writes_refused_for_room, 0);
        assert!(counters.segments_emptied > 10, "{counters:?}");
        assert!(took < Duration::from_secs(60), "{took:?}");
        log.stop();
        other.stop();
        runtime.sleep(SECOND).await;
        assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
        engine.close().await.unwrap();
    });
}

/// How long a rebuild takes beside a log that is never quick enough.
async fn rebuild_time(runtime: &Runtime, protection: Protection, has_floor: bool) -> Duration {
    let engine = create(runtime, protection).await;
    for name in ["data", "other"] {
        let device = engine.device(name).unwrap();
        for at in 0..DATA_BYTES / PIECE {
            device.write(at * PIECE, &vec![1 + at as u8 % 200; PIECE as usize], false).await.unwrap();
        }
    }
    engine.drive_offline(1).await.unwrap();
    if has_floor {
        engine.volume_set("log", floor(Duration::from_micros(100))).await.unwrap();
    }
    let log = Hosts::log(runtime, &engine);
    runtime.sleep(SECOND).await;
    let device = engine.device("data").unwrap();
    for at in 0..DATA_BYTES / PIECE {
        device.write(at * PIECE, &vec![7; PIECE as usize], false).await.unwrap();
    }
    let begin = runtime.now();
    engine.drive_return(1, "drive-1").await.unwrap();
    while engine.status().drives[1].state != "online" {
        runtime.sleep(Duration::from_millis(1)).await;
    }
    let took = runtime.now().duration_since(begin);
    log.stop();
    runtime.sleep(SECOND).await;
    engine.close().await.unwrap();
    took
}

#[test]
fn a_rebuild_gives_way_to_a_floor_unless_the_next_loss_would_take_data_along() {
    let times = |protection| {
        let found = Rc::new(Cell::new((Duration::ZERO, Duration::ZERO)));
        for has_floor in [false, true] {
            let found = found.clone();
            simulated(async move |runtime| {
                let took = rebuild_time(&runtime, protection, has_floor).await;
                let (without, _) = found.get();
                found.set(if has_floor { (without, took) } else { (took, took) });
            });
        }
        found.get()
    };
    let (without, with) = times(Protection::Dual);
    assert!(with > without * 2, "{with:?} behind a floor, {without:?} without");
    assert!(with < without * 12, "{with:?} behind a floor, {without:?} without");
    let (without, with) = times(Protection::Single);
    assert!(with < without * 13 / 10, "in danger: {with:?} behind a floor, {without:?} without");
}
