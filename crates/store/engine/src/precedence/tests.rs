//! The gate alone, in simulated time.

#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use ashlar_runtime::sim::{SimDriveId, SimOperation, SimStorage, SimTicket, Simulation};
use ashlar_runtime::{Instant, OpenDrive, Priority, Runtime};
use ashlar_units::Lsn;

use super::*;

/// There are no drives.
struct NoDrives;

impl SimStorage for NoDrives {
    fn open(&mut self, _: &str, _: &OpenDrive) -> io::Result<(SimDriveId, u64)> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn start(&mut self, _: Instant, _: SimTicket, _: &SimOperation) -> u64 {
        u64::MAX
    }

    fn finish(&mut self, _: Instant, _: SimTicket, _: &mut SimOperation) -> io::Result<()> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn crash(&mut self, _: Instant, _: Vec<(SimTicket, SimOperation)>) {}
}

const PROTECTED: VolumeId = VolumeId(1);
const LOW_ONE: VolumeId = VolumeId(2);
const PLAIN: VolumeId = VolumeId(3);
const OTHER: VolumeId = VolumeId(4);

fn floor(millis: u64) -> Precedence {
    Precedence { floor: Some(Duration::from_millis(millis)), class: Class::Normal }
}

fn low() -> Precedence {
    Precedence { floor: None, class: Class::Low }
}

fn simulated(test: impl AsyncFnOnce(Runtime) + 'static) {
    let mut simulation = Simulation::new(1, Rc::new(RefCell::new(NoDrives)));
    let runtime = simulation.runtime();
    simulation.run_until(async move { test(runtime).await }).unwrap();
}

fn gate(runtime: &Runtime, members: &[(VolumeId, Precedence)]) -> Gate {
    let gate = Gate::new(runtime);
    gate.follow(Lsn(1), members.iter().copied().collect());
    gate
}

/// Requests of a volume, each of which takes so long in the engine.
fn host(runtime: &Runtime, gate: &Gate, id: VolumeId, took: Duration) -> Rc<Cell<u64>> {
    let done = Rc::new(Cell::new(0));
    let (count, own, gate) = (done.clone(), runtime.clone(), gate.clone());
    let _detached = runtime.spawn(Priority::Host, async move {
        loop {
            let place = match gate.enter(id) {
                Some(Entry::Free(place)) => Some(place),
                Some(Entry::Waiting(waiting)) => waiting.await.ok(),
                None => None,
            };
            own.sleep(took).await;
            place.iter().for_each(Place::judge);
            drop(place);
            count.set(count.get() + 1);
        }
    });
    done
}

const MILLI: Duration = Duration::from_millis(1);

#[test]
fn without_floors_and_classes_there_is_no_gate() {
    simulated(async |runtime| {
        assert!(gate(&runtime, &[]).enter(PLAIN).is_none());
        assert!(gate(&runtime, &[(LOW_ONE, low())]).enter(PLAIN).is_some());
    });
}

#[test]
fn volumes_that_are_held_back_take_turns_whatever_each_asks() {
    simulated(async |runtime| {
        let gate = gate(&runtime, &[(PROTECTED, floor(1))]);
        // It never meets its floor, so the others come to one request every four milliseconds.
        host(&runtime, &gate, PROTECTED, 3 * MILLI);
        let greedy: Vec<_> = (0..32).map(|_| host(&runtime, &gate, PLAIN, MILLI)).collect();
        let meek = host(&runtime, &gate, OTHER, MILLI);
        runtime.sleep(Duration::from_secs(2)).await;
        assert_eq!(gate.status(PROTECTED).unwrap().depth, Some(1));
        greedy.iter().chain([&meek]).for_each(|host| host.set(0));
        runtime.sleep(Duration::from_secs(4)).await;
        let many: u64 = greedy.iter().map(|host| host.get()).sum();
        assert!((950..1_050).contains(&(many + meek.get())), "{many} and {}", meek.get());
        assert!(meek.get() * 10 >= many * 9, "{many} and {}", meek.get());
        let least = greedy.iter().map(|host| host.get()).min().unwrap();
        assert!(least + 3 >= many / 32, "each of {many} has its turn: {least}");
    });
}

#[test]
fn who_waits_begins_forty_a_second_though_nobody_ends() {
    simulated(async |runtime| {
        let gate = gate(&runtime, &[(PROTECTED, floor(1))]);
        host(&runtime, &gate, PROTECTED, 3 * MILLI);
        (0..8).for_each(|_| drop(host(&runtime, &gate, PLAIN, MILLI)));
        runtime.sleep(Duration::from_secs(2)).await;
        assert_eq!(gate.status(PROTECTED).unwrap().depth, Some(1));
        // These stay in the engine, as writes do in a pool that is full.
        let hour = Duration::from_secs(3600);
        (0..16).for_each(|_| drop(host(&runtime, &gate, PLAIN, hour)));
        runtime.sleep(Duration::from_secs(2)).await;
        let quick = host(&runtime, &gate, OTHER, Duration::ZERO);
        runtime.sleep(Duration::from_secs(2)).await;
        assert!((80..=101).contains(&quick.get()), "{}", quick.get());
    });
}

#[test]
fn class_low_has_two_requests_while_others_are_at_work_and_all_otherwise() {
    simulated(async |runtime| {
        let gate = gate(&runtime, &[(LOW_ONE, low())]);
        let hosts: Vec<_> = (0..8).map(|_| host(&runtime, &gate, LOW_ONE, MILLI)).collect();
        let done = || hosts.iter().map(|host| host.take()).sum::<u64>();
        runtime.sleep(Duration::from_millis(200)).await;
        done();
        runtime.sleep(Duration::from_secs(1)).await;
        let alone = done();
        assert!(alone > 7_000, "{alone}");
        host(&runtime, &gate, PLAIN, 50 * MILLI);
        runtime.sleep(Duration::from_secs(1)).await;
        let beside = done();
        assert!((1_800..2_300).contains(&beside), "{beside}");
    });
}

#[test]
fn a_longer_floor_gives_way_to_a_shorter_one_and_not_the_other_way_round() {
    simulated(async |runtime| {
        let gate = gate(&runtime, &[(PROTECTED, floor(1)), (OTHER, floor(20))]);
        host(&runtime, &gate, PROTECTED, 3 * MILLI);
        let longer: Vec<_> = (0..8).map(|_| host(&runtime, &gate, OTHER, MILLI)).collect();
        runtime.sleep(Duration::from_secs(2)).await;
        let done = longer.iter().map(|host| host.take()).sum::<u64>();
        assert!(done < 4_500, "{done}");
        assert_eq!(gate.status(PROTECTED).unwrap().depth, Some(1));
        let shorter = gate.status(PROTECTED).unwrap().requests;
        assert!(shorter > 600, "{shorter}: nobody goes before it");
    });
}

#[test]
fn who_waits_goes_on_when_the_pool_closes_or_the_floor_is_taken_away() {
    simulated(async |runtime| {
        for way in 0..2 {
            let gate = gate(&runtime, &[(PROTECTED, floor(1))]);
            host(&runtime, &gate, PROTECTED, 3 * MILLI);
            let hosts: Vec<_> = (0..8).map(|_| host(&runtime, &gate, PLAIN, 50 * MILLI)).collect();
            runtime.sleep(Duration::from_secs(2)).await;
            hosts.iter().for_each(|host| host.set(0));
            match way {
                0 => gate.open(),
                _ => gate.follow(Lsn(2), BTreeMap::new()),
            }
            runtime.sleep(Duration::from_millis(120)).await;
            let done: u64 = hosts.iter().map(|host| host.get()).sum();
            assert!(done >= 16, "{done}, way {way}");
        }
    });
}

#[test]
fn who_went_away_while_it_waited_leaves_no_place_taken() {
    simulated(async |runtime| {
        let gate = gate(&runtime, &[(LOW_ONE, low())]);
        host(&runtime, &gate, PLAIN, MILLI);
        runtime.sleep(5 * MILLI).await;
        let places: Vec<_> = (0..6).filter_map(|_| gate.enter(LOW_ONE)).collect();
        let waiting = places.iter().filter(|entry| matches!(entry, Entry::Waiting(_))).count();
        assert_eq!(waiting, 4);
        // One goes before it was given a place, the others with it.
        runtime.sleep(Duration::from_millis(30)).await;
        drop(places);
        let again: Vec<_> = (0..6).filter_map(|_| gate.enter(LOW_ONE)).collect();
        let free = again.iter().filter(|entry| matches!(entry, Entry::Free(_))).count();
        assert_eq!(free, 2);
    });
}

#[test]
fn what_cannot_be_is_refused() {
    assert!(floor(2).check("log").is_ok() && low().check("log").is_ok());
    let wrong = [
        Precedence { floor: Some(Duration::from_micros(99)), class: Class::Normal },
        Precedence { class: Class::Low, ..floor(2) },
        floor(1001),
    ];
    wrong.into_iter().for_each(|wrong| assert!(wrong.check("log").is_err(), "{wrong:?}"));
}
