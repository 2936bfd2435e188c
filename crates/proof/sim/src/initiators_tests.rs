//! Initiators on one volume: they count by COMPARE AND WRITE, fence each other off, reset the unit, lose
//! their nexus, and the machine stops at any moment of that.
//!
//! What must hold: each count that was acknowledged is there once; nobody who was fenced off changes anything
//! behind the answer of who fenced him off; a reset is answered when every write before it has ended; what
//! PERSISTENT RESERVE IN shows is there after the next start.

#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use ashlar_block::{Error, ErrorKind, Identity, LocalFuture};
use ashlar_engine::{
    Compression, DriveSpec, Engine, NoteBatch, NoteKind, PoolSpec, Profile, Protection, Settings, VolumeSpec,
};
use ashlar_runtime::sim::Simulation;
use ashlar_runtime::{Priority, Runtime};
use ashlar_scsi::reservation::{Held, ReservationKind};
use ashlar_scsi::{
    Answer, Begun, Limits, Nexus, Port, ReservationStore, Saved, Status, Target, Unit, UnitAddress,
    UnitSettings,
};

use crate::chance::Chance;
use crate::drives::{Crash, DriveArray, Pace};

const QUICK: Pace = Pace { usual_micros: (20, 100), slow_per_mille: 20, slow_micros_max: 5_000 };
const DRIVE: &str = "drive-0";
const HOSTS: usize = 3;
const BLOCK: usize = 512;
/// Each host's own block is so far behind the one that all count in. Some share a block of the store.
const OWN: u32 = 6;
const LIVES: u64 = 4;
const SEEDS: u64 = 24;

/// Reservations in the notebook, as an array keeps them.
struct Notes {
    engine: Engine,
    volume: u64,
}

impl ReservationStore for Notes {
    fn save<'a>(&'a self, saved: &'a Saved) -> LocalFuture<'a, ashlar_block::Result<()>> {
        Box::pin(async move {
            let batch =
                NoteBatch::new().put(NoteKind::Reservation, self.volume, 0, 1, text(saved).into_bytes());
            let kept = self.engine.notes_put(batch.from_reserve()).await;
            kept.map(drop).map_err(|error| Error::new(ErrorKind::Gone, error.to_string()))
        })
    }
}

/// The holder and the registrations, a line each.
fn text(saved: &Saved) -> String {
    let held = saved.held.as_ref().map_or("-".to_string(), |held| {
        let by = held.by.as_ref().map_or("", |nexus| nexus.initiator.as_str());
        format!("{} {by}", held.kind as u8)
    });
    let mut lines = vec![held];
    lines.extend(saved.registrations.iter().map(|(nexus, key)| format!("{key} {}", nexus.initiator)));
    lines.join("\n")
}

fn saved(text: &str) -> Saved {
    let nexus = |name: &str| Nexus { initiator: name.to_string(), port: 1 };
    let mut lines = text.lines();
    let held = lines.next().and_then(|line| line.split_once(' ')).map(|(kind, by)| Held {
        kind: ReservationKind::from_wire(kind.parse().unwrap()).unwrap(),
        by: (!by.is_empty()).then(|| nexus(by)),
    });
    let registration = |line: &str| {
        let (key, name) = line.split_once(' ').unwrap();
        (nexus(name), key.parse().unwrap())
    };
    Saved { registrations: lines.map(registration).collect(), held }
}

/// What is known of the hosts beyond what the array holds. Outlives the machine.
#[derive(Default)]
struct World {
    counted: Cell<u64>,
    /// COMPARE AND WRITEs without an answer.
    counting: Cell<u64>,
    /// Of each host's own block: the number that was acknowledged last, and the one sent last.
    written: [Cell<u64>; HOSTS],
    sent: [Cell<u64>; HOSTS],
    /// How often each registered, which makes its key.
    registrations: [Cell<u64>; HOSTS],
    /// Hosts that were fenced off: their registration then, and what their block held.
    fenced: [Cell<Option<(u64, u64)>>; HOSTS],
    /// PERSISTENT RESERVE OUTs without an answer.
    reserving: Cell<u64>,
    /// What PERSISTENT RESERVE IN said last, without its generation.
    shown: RefCell<Vec<u8>>,
    /// What happened, so that a run that tests nothing is seen.
    fences: Cell<u64>,
    conflicts: Cell<u64>,
    lost_races: Cell<u64>,
    resets: Cell<u64>,
}

fn add(cell: &Cell<u64>, more: i64) {
    cell.set(cell.get().wrapping_add_signed(more));
}

fn key(host: usize, registration: u64) -> u64 {
    (host as u64 + 1) << 32 | registration
}

/// The hosts and the target in one life of the machine.
struct Life {
    runtime: Runtime,
    target: Rc<Target>,
    unit: Rc<Unit>,
    world: Rc<World>,
    kind: u8,
    /// Writes under way: the number of each.
    writing: RefCell<Vec<u64>>,
    next_write: Cell<u64>,
    sent: Cell<u64>,
}

fn nexus(host: usize) -> Nexus {
    Nexus { initiator: format!("iqn.2026-11.io.example:h{host},i,0x00023d000001"), port: 1 }
}

impl Life {
    /// Sends until it is not told that something happened meanwhile.
    async fn send(&self, host: usize, cdb: &[u8], data: &[u8]) -> Answer {
        loop {
            let begun = self.target.begin(&nexus(host), UnitAddress::new(0), cdb, data.len() as u64);
            let answer = match begun {
                Begun::Answered(answer) => answer,
                Begun::Work(work) => {
                    if !data.is_empty() {
                        self.data_comes().await;
                    }
                    let token = self.next_write.get();
                    self.next_write.set(token + 1);
                    if [0x2a, 0x89].contains(&cdb[0]) {
                        self.writing.borrow_mut().push(token);
                    }
                    let answer = work.run(data).await;
                    self.writing.borrow_mut().retain(|one| *one != token);
                    answer
                }
            };
            let is_attention = answer.status == Status::CheckCondition && answer.sense[2] & 15 == 6;
            if !is_attention {
                return answer;
            }
        }
    }

    /// A command begins before its data have come: what happens meanwhile counts for it.
    async fn data_comes(&self) {
        self.sent.set(self.sent.get() + 1);
        self.runtime.sleep(Duration::from_micros(self.sent.get() * 37 % 120)).await;
    }

    async fn read(&self, host: usize, block: u32) -> Option<u64> {
        let answer = self.send(host, &ten(0x28, block), &[]).await;
        match answer.status {
            Status::Good => Some(number_of(answer.data.as_slice())),
            Status::ReservationConflict => None,
            _ => panic!("read of block {block}: {:x?}", answer.sense),
        }
    }

    /// One more, if nobody else was faster.
    async fn count(&self, host: usize) {
        let Some(found) = self.read(host, 0).await else { return };
        let mut cdb = [0; 16];
        (cdb[0], cdb[13]) = (0x89, 1);
        add(&self.world.counting, 1);
        let answer = self.send(host, &cdb, &[block_of(found), block_of(found + 1)].concat()).await;
        add(&self.world.counting, -1);
        match answer.status {
            Status::Good => add(&self.world.counted, 1),
            Status::ReservationConflict => add(&self.world.conflicts, 1),
            Status::CheckCondition if answer.sense[2] & 15 == 0xe => add(&self.world.lost_races, 1),
            _ => panic!("host {host} counts: {:?} {:x?}", answer.status, answer.sense),
        }
    }

    async fn write(&self, host: usize) {
        let number = self.world.sent[host].get() + 1;
        self.world.sent[host].set(number);
        let answer = self.send(host, &ten(0x2a, OWN + host as u32), &block_of(number)).await;
        match answer.status {
            Status::Good => self.world.written[host].set(number),
            Status::ReservationConflict => add(&self.world.conflicts, 1),
            _ => panic!("host {host} writes: {:?} {:x?}", answer.status, answer.sense),
        }
    }

    async fn reserve_out(&self, host: usize, action: u8, own: u64, subject: u64) -> Status {
        let cdb = [0x5f, action, self.kind, 0, 0, 0, 0, 0, 24, 0];
        let mut list = [own.to_be_bytes(), subject.to_be_bytes(), [0; 8]].concat();
        list[20] = 1;
        add(&self.world.reserving, 1);
        let status = self.send(host, &cdb, &list).await.status;
        add(&self.world.reserving, -1);
        self.world.shown.replace(self.shown().await);
        status
    }

    /// Keys and reservation as everybody sees them.
    async fn shown(&self) -> Vec<u8> {
        let mut shown = Vec::new();
        for action in [0, 1] {
            let answer = self.send(0, &[0x5e, action, 0, 0, 0, 0, 0, 16, 0, 0], &[]).await;
            assert_eq!(answer.status, Status::Good);
            // PRGENERATION begins anew with the power (SPC-4 6.13.2).
            shown.extend_from_slice(&answer.data.as_slice()[4..]);
        }
        shown
    }

    async fn register(&self, host: usize) {
        add(&self.world.registrations[host], 1);
        let own = key(host, self.world.registrations[host].get());
        assert_eq!(self.reserve_out(host, 6, 0, own).await, Status::Good);
        // Refused where somebody has it, which is as good.
        self.reserve_out(host, 1, own, 0).await;
    }

    /// Takes another's registration away. From the answer on it changes nothing.
    async fn fence(&self, host: usize, other: usize) {
        let registration = self.world.registrations[other].get();
        let own = key(host, self.world.registrations[host].get());
        let status = self.reserve_out(host, 5, own, key(other, registration)).await;
        if status != Status::Good || self.world.registrations[other].get() != registration {
            return;
        }
        let Some(found) = self.read(host, OWN + other as u32).await else { return };
        if self.world.registrations[other].get() == registration {
            self.world.fenced[other].set(Some((registration, found)));
            add(&self.world.fences, 1);
        }
    }

    /// Looks whether anybody who is fenced off changed anything.
    async fn look(&self, host: usize) {
        for other in 0..HOSTS {
            let Some((registration, expected)) = self.world.fenced[other].get() else { continue };
            let Some(found) = self.read(host, OWN + other as u32).await else { return };
            if self.world.registrations[other].get() == registration {
                assert_eq!(found, expected, "host {other} was fenced off and wrote");
            }
        }
    }

    async fn reset(&self) {
        let before = self.writing.borrow().clone();
        self.unit.reset().await;
        let left: Vec<u64> =
            self.writing.borrow().iter().copied().filter(|one| before.contains(one)).collect();
        assert!(left.is_empty(), "writes {left:?} are under way behind a reset");
        add(&self.world.resets, 1);
    }

    async fn act(&self, host: usize, chance: &mut Chance) {
        match chance.below(24) {
            0..8 => self.count(host).await,
            8..16 => self.write(host).await,
            16..18 => self.fence(host, (host + 1 + chance.below(2) as usize) % HOSTS).await,
            18 => self.reset().await,
            19 => {
                self.target.detach(&nexus(host));
                self.target.attach(&nexus(host));
            }
            20..22 => self.register(host).await,
            _ => self.look(host).await,
        }
        // A command that is refused takes no time, and time must go on.
        self.runtime.sleep(Duration::from_micros(chance.between(1, 50))).await;
    }
}

fn ten(opcode: u8, block: u32) -> [u8; 10] {
    let at = block.to_be_bytes();
    [opcode, 0, at[0], at[1], at[2], at[3], 0, 0, 1, 0]
}

fn block_of(number: u64) -> Vec<u8> {
    number.to_be_bytes().repeat(BLOCK / 8)
}

fn number_of(block: &[u8]) -> u64 {
    assert_eq!(block.len(), BLOCK);
    let number = u64::from_be_bytes(block[..8].try_into().unwrap());
    assert!(block == block_of(number), "a torn block: {block:x?}");
    number
}

async fn create(runtime: &Runtime) {
    let spec = PoolSpec {
        name: "pool".to_string(),
        drives: vec![DriveSpec { path: DRIVE.to_string(), create_size_bytes: Some(32 << 20) }],
        protection: Protection::None,
        segment_bytes: Some(256 << 10),
        width: None,
        spares: 0,
    };
    Engine::create_pool(runtime, spec).await.unwrap();
    let engine = Engine::open(runtime, &[DRIVE.to_string()], Settings::default()).await.unwrap();
    let volume = VolumeSpec {
        name: "data".to_string(),
        size_bytes: 1 << 20,
        logical_block_bytes: 4096,
        profile: Profile::Oltp,
        compression: Compression::Off,
        dedupe: false,
    };
    engine.volume_create(volume).await.unwrap();
    engine.close().await.unwrap();
}

async fn begin(runtime: &Runtime, world: &Rc<World>, kind: u8) -> Rc<Life> {
    let engine = Engine::open(runtime, &[DRIVE.to_string()], Settings::default()).await.unwrap();
    let volume = engine.volumes()[0].id;
    let notes = engine.notes_range(NoteKind::Reservation, volume);
    let kept = notes.first().map(|note| saved(std::str::from_utf8(&note.value).unwrap()));
    let allocating = runtime.clone();
    let settings = UnitSettings {
        identity: Identity { pool: 1, image: volume },
        block_bytes: BLOCK as u32,
        revision: "1".to_string(),
        limits: Limits::default(),
        saved: kept.unwrap_or_default(),
        allocate: Rc::new(move |length| allocating.buffer(length)),
        store: Some(Rc::new(Notes { engine: engine.clone(), volume })),
    };
    let unit = Rc::new(Unit::new(engine.device("data").unwrap(), settings));
    let name = "iqn.2026-11.io.ashlar:pool".to_string();
    let target = Target::new(Port { relative_id: 1, group: 1, name: name.clone(), device_name: name });
    assert!(target.add(UnitAddress::new(0).unwrap(), unit.clone()));
    (0..HOSTS).for_each(|host| target.attach(&nexus(host)));
    let life = Rc::new(Life {
        runtime: runtime.clone(),
        target,
        unit,
        world: world.clone(),
        kind,
        writing: RefCell::default(),
        next_write: Cell::new(0),
        sent: Cell::new(0),
    });
    life.found(world).await;
    life
}

impl Life {
    /// Compares what is there with what was acknowledged, and goes on from it.
    async fn found(&self, world: &World) {
        let shown = self.shown().await;
        if world.reserving.get() == 0 && !world.shown.borrow().is_empty() {
            assert_eq!(shown, *world.shown.borrow(), "reservations changed over a stop");
        }
        world.shown.replace(shown);
        world.reserving.set(0);
        // Who may not read is let in by registering anew.
        let counted = self.read(0, 0).await.unwrap();
        let permitted = world.counted.get()..=world.counted.get() + world.counting.get();
        assert!(permitted.contains(&counted), "counted {counted}, permitted {permitted:?}");
        world.counted.set(counted);
        world.counting.set(0);
        for host in 0..HOSTS {
            let found = self.read(0, OWN + host as u32).await.unwrap();
            let permitted = world.written[host].get()..=world.sent[host].get();
            assert!(permitted.contains(&found), "host {host}: block holds {found}, permitted {permitted:?}");
            if let Some((_, expected)) = world.fenced[host].get() {
                let is_fenced =
                    world.fenced[host].get().is_some_and(|(one, _)| one == world.registrations[host].get());
                assert!(
                    !is_fenced || found == expected,
                    "host {host} was fenced off, and its write came back"
                );
            }
            world.written[host].set(found);
        }
    }
}

fn run(seed: u64) -> Rc<World> {
    let mut chance = Chance::new(seed);
    let array = Rc::new(RefCell::new(DriveArray::new(seed, 4096, QUICK)));
    let mut simulation = Simulation::new(seed, array.clone());
    let runtime = simulation.runtime();
    simulation.run_until(async move { create(&runtime).await }).unwrap();
    drop(simulation);
    let world = Rc::new(World::default());
    // Others may read under all of these.
    let kind = *chance.pick(&[5, 7]);
    for life in 0..LIVES {
        let mut simulation = Simulation::new(seed << 8 | life, array.clone());
        let (runtime, living) = (simulation.runtime(), world.clone());
        let has_begun = Rc::new(Cell::new(false));
        let beginning = has_begun.clone();
        let mut forks: Vec<Chance> = (0..HOSTS as u64).map(|host| chance.fork(host)).collect();
        let _detached = simulation.runtime().spawn(Priority::Host, async move {
            let life = begin(&runtime, &living, kind).await;
            for host in 0..HOSTS {
                life.register(host).await;
            }
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
    simulation.run_until(async move { drop(begin(&runtime, &living, kind).await) }).unwrap();
    world
}

#[test]
fn initiators_count_exactly_and_who_is_fenced_off_changes_nothing_also_over_stops() {
    let worlds: Vec<Rc<World>> = (1..=SEEDS).map(run).collect();
    let sum = |of: fn(&World) -> u64| worlds.iter().map(|world| of(world)).sum::<u64>();
    for (name, seen) in [
        ("counts", sum(|world| world.counted.get())),
        ("lost races", sum(|world| world.lost_races.get())),
        ("fences", sum(|world| world.fences.get())),
        ("conflicts", sum(|world| world.conflicts.get())),
        ("resets", sum(|world| world.resets.get())),
    ] {
        assert!(seen >= 100, "{name}: {seen}");
    }
}
