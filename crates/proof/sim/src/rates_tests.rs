//! Volumes whose rates are limited, beside one whose rates are not: nobody starves, and nobody else waits.

#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use ashlar_engine::{
    Compression, DriveSpec, Engine, PoolSpec, Profile, Protection, Rates, Settings, VolumePolicy, VolumeSpec,
};
use ashlar_runtime::sim::Simulation;
use ashlar_runtime::{Priority, Runtime};

use crate::drives::{DriveArray, Pace};

const QUICK: Pace = Pace { usual_micros: (20, 100), slow_per_mille: 0, slow_micros_max: 100 };
const BLOCK: u64 = 4096;
const SECONDS: u64 = 5;
const DRIVE: &str = "drive-0";

fn volume(name: &str) -> VolumeSpec {
    VolumeSpec {
        name: name.to_string(),
        size_bytes: 4 << 20,
        logical_block_bytes: 4096,
        profile: Profile::Oltp,
        compression: Compression::Off,
        dedupe: false,
    }
}

async fn open(runtime: &Runtime) -> Engine {
    Engine::open(runtime, &[DRIVE.to_string()], Settings::default()).await.unwrap()
}

async fn create(runtime: &Runtime) -> Engine {
    let spec = PoolSpec {
        name: "pool".to_string(),
        drives: vec![DriveSpec { path: DRIVE.to_string(), create_size_bytes: Some(64 << 20) }],
        protection: Protection::None,
        segment_bytes: Some(256 << 10),
        width: None,
        spares: 0,
    };
    Engine::create_pool(runtime, spec).await.unwrap();
    let engine = open(runtime).await;
    for name in ["limited", "free"] {
        engine.volume_create(volume(name)).await.unwrap();
    }
    engine
}

fn requests(most: u64) -> VolumePolicy {
    VolumePolicy { requests_per_second: Some(Some(most)), ..VolumePolicy::default() }
}

/// What a host got done, and its longest wait.
#[derive(Clone, Default)]
struct Host {
    done: Rc<Cell<u64>>,
    longest: Rc<Cell<Duration>>,
}

impl Host {
    /// Keeps one request waiting: a write, or what else `number` makes of it.
    fn begin(&self, runtime: &Runtime, engine: &Engine, name: &str, number: u64) {
        let (host, own, device) = (self.clone(), runtime.clone(), engine.device(name).unwrap());
        let _detached = runtime.spawn(Priority::Host, async move {
            let mut block = vec![number as u8; BLOCK as usize];
            loop {
                let begin = own.now();
                let at = number % 100 * BLOCK;
                let result = match number % 4 {
                    0 => device.read(at, &mut block).await,
                    1 => device.unmap(at, BLOCK).await,
                    _ => device.write(at, &block, false).await,
                };
                if result.is_err() {
                    return;
                }
                // A read of what was never written takes no time, and time must go on.
                own.sleep(Duration::from_micros(1)).await;
                host.done.set(host.done.get() + 1);
                host.longest.set(host.longest.get().max(own.now().duration_since(begin)));
            }
        });
    }
}

fn simulated(test: impl AsyncFnOnce(Runtime) + 'static) {
    let array = Rc::new(RefCell::new(DriveArray::new(1, 4096, QUICK)));
    let mut simulation = Simulation::new(1, array);
    let runtime = simulation.runtime();
    simulation.run_until(async move { test(runtime).await }).unwrap();
}

#[test]
fn hosts_of_a_limited_volume_share_it_fairly_and_nobody_else_waits() {
    simulated(async |runtime| {
        let engine = create(&runtime).await;
        let alone = Host::default();
        alone.begin(&runtime, &engine, "free", 2);
        runtime.sleep(Duration::from_secs(2)).await;
        let (alone_done, alone_longest) = (alone.done.get(), alone.longest.get());

        engine.volume_set("limited", requests(400)).await.unwrap();
        // One host with a single request at a time, another with thirty-two.
        let (meek, greedy) = (Host::default(), Host::default());
        meek.begin(&runtime, &engine, "limited", 3);
        (0..32).for_each(|number| greedy.begin(&runtime, &engine, "limited", number));
        alone.done.set(0);
        alone.longest.set(Duration::ZERO);
        runtime.sleep(Duration::from_secs(SECONDS)).await;

        let (one, many) = (meek.done.get(), greedy.done.get());
        let all = one + many;
        assert!((400 * SECONDS - 33..=400 * SECONDS + 5).contains(&all), "{all} requests");
        // Each of the thirty-three requests has its turn.
        let share = 400 * SECONDS / 33;
        assert!((share - 3..=share + 3).contains(&one), "{one} of {share}");
        assert!(meek.longest.get() < Duration::from_millis(90), "{:?}", meek.longest.get());
        // The volume beside it does not notice.
        let beside = alone.done.get() * 2 / SECONDS;
        assert!(beside * 100 >= alone_done * 95, "{beside} requests in two seconds, {alone_done} alone");
        assert!(alone.longest.get() < alone_longest * 3, "{:?}, {alone_longest:?}", alone.longest.get());
        let held_back = engine.status().counters.requests_held_back;
        assert!(held_back + 40 >= all, "{held_back}");
        engine.close().await.unwrap();
    });
}

#[test]
fn a_change_of_the_rate_a_close_and_an_opening_are_followed_at_once() {
    simulated(async |runtime| {
        let engine = create(&runtime).await;
        let slow = VolumePolicy { bytes_per_second: Some(Some(1 << 20)), ..requests(10) };
        let set = engine.volume_set("limited", slow).await.unwrap();
        let rates =
            Rates { requests_per_second: Some(10), bytes_per_second: Some(1 << 20), burst_seconds: None };
        assert_eq!(set.rates, rates);
        let host = Host::default();
        (0..50).for_each(|_| host.begin(&runtime, &engine, "limited", 2));
        runtime.sleep(Duration::from_secs(2)).await;
        assert!((19..=22).contains(&host.done.get()), "{}", host.done.get());

        // Those that wait for seconds to come are let go.
        let none = VolumePolicy { bytes_per_second: Some(None), requests_per_second: Some(None), ..slow };
        engine.volume_set("limited", none).await.unwrap();
        runtime.sleep(Duration::from_millis(100)).await;
        assert!(host.done.get() > 100, "{}", host.done.get());

        engine.volume_set("limited", slow).await.unwrap();
        runtime.sleep(Duration::from_millis(500)).await;
        let begin = runtime.now();
        engine.close().await.unwrap();
        let took = runtime.now().duration_since(begin);
        assert!(took < Duration::from_secs(1), "a close waits for no rate: {took:?}");
        drop(engine);

        let engine = open(&runtime).await;
        let kept = engine.volumes().into_iter().find(|volume| volume.name == "limited").unwrap();
        assert_eq!(kept.rates, rates);
        let host = Host::default();
        (0..5).for_each(|_| host.begin(&runtime, &engine, "limited", 2));
        runtime.sleep(Duration::from_secs(3)).await;
        assert!((28..=32).contains(&host.done.get()), "{}", host.done.get());
        assert!(engine.volume_set("limited", requests(9)).await.is_err());
        engine.close().await.unwrap();
    });
}

#[test]
fn an_idle_volume_has_its_burst() {
    simulated(async |runtime| {
        let engine = create(&runtime).await;
        let policy = VolumePolicy { burst_seconds: Some(Some(5)), ..requests(100) };
        engine.volume_set("limited", policy).await.unwrap();
        runtime.sleep(Duration::from_secs(10)).await;
        let host = Host::default();
        host.begin(&runtime, &engine, "limited", 2);
        runtime.sleep(Duration::from_secs(1)).await;
        assert!((595..=605).contains(&host.done.get()), "{}", host.done.get());
        runtime.sleep(Duration::from_secs(1)).await;
        assert!((695..=705).contains(&host.done.get()), "{}", host.done.get());
        engine.close().await.unwrap();
    });
}

/// Writes these blocks, and counts how it ended.
fn write_late(runtime: &Runtime, engine: &Engine, blocks: u64, byte: u8) -> [Rc<Cell<u64>>; 2] {
    let ended = [Rc::new(Cell::new(0)), Rc::new(Cell::new(0))];
    for block in 0..blocks {
        let (device, [good, bad]) = (engine.device("limited").unwrap(), ended.clone());
        let _detached = runtime.spawn(Priority::Host, async move {
            let written = device.write(block * BLOCK, &[byte; BLOCK as usize], false).await;
            let count = if written.is_ok() { good } else { bad };
            count.set(count.get() + 1);
        });
    }
    ended
}

async fn holds(engine: &Engine, blocks: u64, byte: u8) -> bool {
    let mut found = vec![0; (blocks * BLOCK) as usize];
    engine.device("limited").unwrap().read(0, &mut found).await.unwrap();
    found.iter().all(|one| *one == byte)
}

/// The loss would be a restored volume with bytes of a host that had left before.
#[test]
fn what_waits_for_its_turn_does_not_come_behind_a_restore_or_an_undelete() {
    const BLOCKS: u64 = 60;
    let low = VolumePolicy { class: Some(ashlar_engine::Class::Low), ..VolumePolicy::default() };
    for how in [requests(10), low] {
        simulated(async move |runtime| {
            let engine = create(&runtime).await;
            let device = engine.device("limited").unwrap();
            device.write(0, &vec![1; (BLOCKS * BLOCK) as usize], false).await.unwrap();
            engine.snapshot_create("noon", &["limited".into()]).await.unwrap();
            engine.volume_set("limited", how).await.unwrap();
            let beside = Host::default();
            beside.begin(&runtime, &engine, "free", 2);
            let moment = Duration::from_micros(100);
            runtime.sleep(100 * moment).await;

            let [good, bad] = write_late(&runtime, &engine, BLOCKS, 2);
            runtime.sleep(moment).await;
            assert!(good.get() < BLOCKS, "nothing waits");
            engine.snapshot_restore("noon").await.unwrap();
            assert_eq!((good.get(), bad.get()), (BLOCKS, 0));
            assert!(holds(&engine, BLOCKS, 1).await);

            // What is deleted takes no writes, whenever they began.
            let [good, bad] = write_late(&runtime, &engine, BLOCKS, 3);
            runtime.sleep(moment).await;
            let id = engine.volume_set_aside("limited").await.unwrap().info.id;
            engine.volume_undelete(id, "limited").await.unwrap();
            assert_eq!(good.get() + bad.get(), BLOCKS);
            assert!(bad.get() > 0);
            let written = good.get();
            let mut found = vec![0; (BLOCKS * BLOCK) as usize];
            engine.device("limited").unwrap().read(0, &mut found).await.unwrap();
            let new = found.chunks(BLOCK as usize).filter(|block| block[0] == 3).count() as u64;
            assert_eq!(new, written);
            engine.close().await.unwrap();
        });
    }
}

#[test]
fn an_array_that_stops_does_not_wait_for_rates() {
    simulated(async |runtime| {
        let engine = create(&runtime).await;
        engine.volume_set("limited", requests(10)).await.unwrap();
        let [good, bad] = write_late(&runtime, &engine, 100, 2);
        runtime.sleep(Duration::from_millis(1)).await;
        engine.hurry();
        runtime.sleep(Duration::from_millis(500)).await;
        assert_eq!((good.get(), bad.get()), (100, 0));
        engine.close().await.unwrap();
    });
}
