//! Atomic writes while the machine stops at any moment: nobody ever sees a part of one.
//!
//! Hosts write and read the same places by WRITE ATOMIC and READ, each write filled with a number of its own.
//! The places lie across the ends of chunk regions and of map pages, and the map's cache is so small that
//! pages are missing when records are applied. What must hold: every read, and whatever is there after a
//! stop, is the number of one write, and of none that another had replaced.

#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use ashlar_block::Identity;
use ashlar_engine::{Compression, DriveSpec, Engine, PoolSpec, Profile, Protection, Settings, VolumeSpec};
use ashlar_runtime::sim::Simulation;
use ashlar_runtime::{Priority, Runtime};
use ashlar_scsi::{
    Answer, Begun, Limits, Nexus, Port, Saved, Status, Target, Unit, UnitAddress, UnitSettings,
};

use crate::chance::Chance;
use crate::drives::{Crash, DriveArray, Pace};

const QUICK: Pace = Pace { usual_micros: (20, 100), slow_per_mille: 20, slow_micros_max: 5_000 };
const DRIVE: &str = "drive-0";
const HOSTS: usize = 3;
const BLOCK: usize = 4096;
/// Where places lie and how many blocks they have: up to what the Block Limits page allows, before and behind
/// multiples of 512, where map pages end.
const PLACES: [(u64, usize); 4] = [(505, 16), (2047, 2), (4090, 32), (8179, 31)];
/// A place for plain writes of a MiB, to see that a part of a write can be seen here.
const PLAIN: (u64, usize) = (20_360, 256);
const LIVES: u64 = 4;
const SEEDS: u64 = 16;

/// A write of a place.
#[derive(Clone, Copy)]
struct Write {
    number: u64,
    sent_at: u64,
    acknowledged_at: Option<u64>,
}

/// What is known of the places. Outlives the machine.
#[derive(Default)]
struct World {
    /// Counts what happens, as time does.
    now: Cell<u64>,
    writes: RefCell<[Vec<Write>; PLACES.len()]>,
    /// What happened, so that a run that tests nothing is seen.
    written: Cell<u64>,
    read: Cell<u64>,
    plain_torn: Cell<u64>,
}

impl World {
    fn tick(&self) -> u64 {
        self.now.set(self.now.get() + 1);
        self.now.get()
    }

    /// Whether a place may hold this number for who began to look at a moment: nothing that began behind the
    /// end of its write had ended by then.
    fn may_hold(&self, place: usize, number: u64, since: u64) -> bool {
        let all = &self.writes.borrow()[place];
        let ended = match all.iter().find(|one| one.number == number) {
            // What was there before the first write.
            None if number == 0 => 0,
            None => return false,
            Some(one) => one.acknowledged_at.unwrap_or(u64::MAX),
        };
        let replaces = |other: &Write| {
            other.sent_at > ended && other.acknowledged_at.is_some_and(|acknowledged| acknowledged < since)
        };
        !all.iter().any(replaces)
    }
}

struct Life {
    runtime: Runtime,
    target: Rc<Target>,
    world: Rc<World>,
}

fn nexus(host: usize) -> Nexus {
    Nexus { initiator: format!("iqn.2026-11.io.example:h{host},i,0x00023d000001"), port: 1 }
}

/// WRITE ATOMIC(16) has its length where others have the low half of theirs.
fn sixteen(opcode: u8, (block, blocks): (u64, usize)) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[2..10].copy_from_slice(&block.to_be_bytes());
    cdb[10..14].copy_from_slice(&(blocks as u32).to_be_bytes());
    cdb
}

impl Life {
    async fn send(&self, host: usize, cdb: &[u8], data: &[u8]) -> Answer {
        loop {
            let begun = self.target.begin(&nexus(host), UnitAddress::new(0), cdb, data.len() as u64);
            let answer = match begun {
                Begun::Answered(answer) => answer,
                Begun::Work(work) => work.run(data).await,
            };
            let is_attention = answer.status == Status::CheckCondition && answer.sense[2] & 15 == 6;
            if !is_attention {
                assert_eq!(answer.status, Status::Good, "{cdb:x?}: {:x?}", answer.sense);
                return answer;
            }
        }
    }

    async fn write(&self, host: usize, place: usize) {
        let sent_at = self.world.tick();
        // The time of its begin is a number that no other write has.
        let number = sent_at;
        self.world.writes.borrow_mut()[place].push(Write { number, sent_at, acknowledged_at: None });
        let (_, blocks) = PLACES[place];
        self.send(host, &sixteen(0x9c, PLACES[place]), &content(number, blocks)).await;
        let acknowledged_at = Some(self.world.tick());
        let mut writes = self.world.writes.borrow_mut();
        let write = writes[place].iter_mut().find(|one| one.number == number).unwrap();
        write.acknowledged_at = acknowledged_at;
        self.world.written.set(self.world.written.get() + 1);
    }

    async fn read(&self, host: usize, place: usize) -> u64 {
        let since = self.world.tick();
        let answer = self.send(host, &sixteen(0x88, PLACES[place]), &[]).await;
        let found = numbers(answer.data.as_slice());
        assert_eq!(found.len(), 1, "place {place} holds parts of writes {found:?}");
        assert!(self.world.may_hold(place, found[0], since), "place {place} holds {} again", found[0]);
        self.world.read.set(self.world.read.get() + 1);
        found[0]
    }

    /// A plain write, and what is seen of it meanwhile.
    async fn plain(&self, host: usize, is_write: bool) {
        if is_write {
            let number = self.world.tick();
            self.send(host, &sixteen(0x8a, PLAIN), &content(number, PLAIN.1)).await;
            return;
        }
        let answer = self.send(host, &sixteen(0x88, PLAIN), &[]).await;
        let is_torn = numbers(answer.data.as_slice()).len() > 1;
        self.world.plain_torn.set(self.world.plain_torn.get() + u64::from(is_torn));
    }

    async fn act(&self, host: usize, chance: &mut Chance) {
        let place = chance.below(PLACES.len() as u64) as usize;
        match chance.below(16) {
            0..7 => self.write(host, place).await,
            7..14 => drop(self.read(host, place).await),
            other => self.plain(host, other == 14).await,
        }
        self.runtime.sleep(Duration::from_micros(chance.between(1, 50))).await;
    }

    /// Looks at what is there behind a stop, and goes on from it.
    async fn found(&self) {
        for place in 0..PLACES.len() {
            let number = self.read(0, place).await;
            let write = Write { number, sent_at: 0, acknowledged_at: Some(0) };
            self.world.writes.borrow_mut()[place] = vec![write];
        }
    }
}

fn content(number: u64, blocks: usize) -> Vec<u8> {
    number.to_be_bytes().repeat(blocks * BLOCK / 8)
}

/// The numbers that bytes are made of, in order, each as often as it begins anew.
fn numbers(bytes: &[u8]) -> Vec<u64> {
    let mut numbers: Vec<u64> =
        bytes.chunks_exact(8).map(|number| u64::from_be_bytes(number.try_into().unwrap())).collect();
    numbers.dedup();
    numbers
}

async fn create(runtime: &Runtime) {
    let spec = PoolSpec {
        name: "pool".to_string(),
        drives: vec![DriveSpec { path: DRIVE.to_string(), create_size_bytes: Some(256 << 20) }],
        protection: Protection::None,
        // The least with which submissions have their usual size.
        segment_bytes: Some(8 << 20),
        width: None,
        spares: 0,
    };
    Engine::create_pool(runtime, spec).await.unwrap();
    let engine = Engine::open(runtime, &[DRIVE.to_string()], Settings::default()).await.unwrap();
    let volume = VolumeSpec {
        name: "data".to_string(),
        size_bytes: 1 << 30,
        logical_block_bytes: 4096,
        profile: Profile::Oltp,
        compression: Compression::Off,
        dedupe: false,
    };
    engine.volume_create(volume).await.unwrap();
    engine.close().await.unwrap();
}

async fn begin(runtime: &Runtime, world: &Rc<World>) -> Rc<Life> {
    let settings = Settings { map_cache_bytes: 16 << 10, ..Settings::default() };
    let engine = Engine::open(runtime, &[DRIVE.to_string()], settings).await.unwrap();
    let allocating = runtime.clone();
    let settings = UnitSettings {
        identity: Identity { pool: 1, image: 1 },
        block_bytes: BLOCK as u32,
        revision: "1".to_string(),
        limits: Limits::default(),
        saved: Saved::default(),
        allocate: Rc::new(move |length| allocating.buffer(length)),
        store: None,
    };
    let unit = Rc::new(Unit::new(engine.device("data").unwrap(), settings));
    let name = "iqn.2026-11.io.ashlar:pool".to_string();
    let target = Target::new(Port { relative_id: 1, group: 1, name: name.clone(), device_name: name });
    assert!(target.add(UnitAddress::new(0).unwrap(), unit));
    (0..HOSTS).for_each(|host| target.attach(&nexus(host)));
    let life = Rc::new(Life { runtime: runtime.clone(), target, world: world.clone() });
    life.found().await;
    life
}

fn run(seed: u64) -> Rc<World> {
    let mut chance = Chance::new(seed);
    let array = Rc::new(RefCell::new(DriveArray::new(seed, 4096, QUICK)));
    let mut simulation = Simulation::new(seed, array.clone());
    let runtime = simulation.runtime();
    simulation.run_until(async move { create(&runtime).await }).unwrap();
    drop(simulation);
    let world = Rc::new(World::default());
    for life in 0..LIVES {
        let mut simulation = Simulation::new(seed << 8 | life, array.clone());
        let (runtime, living) = (simulation.runtime(), world.clone());
        let has_begun = Rc::new(Cell::new(false));
        let beginning = has_begun.clone();
        let mut forks: Vec<Chance> = (0..HOSTS as u64).map(|host| chance.fork(host)).collect();
        let _detached = simulation.runtime().spawn(Priority::Host, async move {
            let life = begin(&runtime, &living).await;
            beginning.set(true);
            for host in 0..HOSTS {
                let (life, mut chance) = (life.clone(), forks.remove(0));
                let _detached = runtime.spawn(Priority::Host, async move {
                    loop {
                        life.act(host, &mut chance).await;
                    }
                });
            }
        });
        let steps = chance.between(200, 6_000);
        let mut end = None;
        simulation.run_while(&mut |simulation| {
            if has_begun.get() && end.is_none() {
                end = Some(simulation.steps() + steps);
            }
            end.is_none_or(|end| simulation.steps() < end)
        });
        assert!(has_begun.get(), "seed {seed}: life {life} did not begin");
        let how = *chance.pick(&[
            Crash::Kill,
            Crash::Power { survival_per_mille: 0 },
            Crash::Power { survival_per_mille: 500 },
        ]);
        array.borrow_mut().set_next_crash(how);
    }
    let mut simulation = Simulation::new(seed << 8 | LIVES, array);
    let (runtime, living) = (simulation.runtime(), world.clone());
    simulation.run_until(async move { drop(begin(&runtime, &living).await) }).unwrap();
    world
}

/// The loss would be a page of a database that is half old and half new, which no log repairs.
#[test]
fn atomic_writes_are_seen_as_a_whole_or_not_at_all_also_over_stops() {
    let worlds: Vec<Rc<World>> = (1..=SEEDS).map(run).collect();
    let sum = |of: fn(&World) -> u64| worlds.iter().map(|world| of(world)).sum::<u64>();
    for (name, seen, least) in [
        ("atomic writes", sum(|world| world.written.get()), 500),
        ("reads", sum(|world| world.read.get()), 500),
        // So a part of a write is seen here where nobody promised that it is not.
        ("plain writes seen in part", sum(|world| world.plain_torn.get()), 1),
    ] {
        println!("{name}: {seen}");
        assert!(seen >= least, "{name}: {seen}");
    }
}
