//! The workload: hosts that read and write, an administrator who makes, copies and deletes.
//!
//! Requests run concurrently. [`claims`] keeps apart only what nobody may do at the same time
//! (writing to a volume while it is deleted); snapshots are taken under writes on purpose.

mod changes;
mod claims;
mod copies;
mod data;
mod difference;
mod forging;
mod handover;
mod notes;
mod progress;
mod refusal;
mod verify;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use ashlar_block::BlockDevice;
use ashlar_runtime::{Priority, Runtime};

pub use changes::{carry_out, check};
pub use claims::Claims;
pub use difference::verify_differences;
pub use notes::verify_notes;
pub use progress::{claims_for_delete, prove_progress};
pub use verify::{verify_everything, verify_plausible};

use crate::chance::Chance;
use crate::content::Value;
use crate::drives::DriveArray;
use crate::forger::Forger;
use crate::fuse_door::{FuseDoor, Opening};
use crate::kernel::Kernel;
use crate::nbd_door::NbdDoor;
use crate::oracle::{Oracle, Run};
use crate::record::Record;
use crate::scenario::{DoorKind, Scenario};
use crate::system::{SystemUnderTest, Trouble, TroubleKind};

/// Requests that still go to a pool after a drive failed it.
const REQUESTS_AFTER_TROUBLE: u64 = 40;

/// What a life finds: the machine and those who watch it.
#[derive(Clone)]
pub struct Surroundings {
    /// The simulated shard.
    pub runtime: Runtime,
    /// The judge.
    pub oracle: Rc<RefCell<Oracle>>,
    /// The drives.
    pub array: Rc<RefCell<DriveArray>>,
    /// The plan.
    pub scenario: Rc<Scenario>,
    /// The notebook.
    pub record: Rc<Record>,
    /// What the hosts' kernel keeps.
    pub kernel: Rc<Kernel>,
}

enum Door {
    Nbd(Rc<NbdDoor>),
    Fuse(Rc<FuseDoor>),
}

/// Everything a task of the workload needs. One per life of the machine.
pub struct World {
    /// The simulated shard.
    pub runtime: Runtime,
    /// The pool.
    pub system: Rc<dyn SystemUnderTest>,
    /// The judge.
    pub oracle: Rc<RefCell<Oracle>>,
    /// The drives.
    pub array: Rc<RefCell<DriveArray>>,
    /// The plan.
    pub scenario: Rc<Scenario>,
    /// The notebook.
    pub record: Rc<Record>,
    /// What the hosts' kernel keeps.
    pub kernel: Rc<Kernel>,
    /// What the next write carries, for who has to repeat it.
    pub carries: Rc<Cell<Value>>,
    /// Who does what to which object.
    pub claims: Claims,
    /// The tenant that forges structures of the pool, if there is one.
    forger: RefCell<Option<Forger>>,
    chance: RefCell<Chance>,
    requests_left: Cell<u64>,
    changes_left: Cell<u64>,
    pressure: Cell<u64>,
    refused: Cell<u64>,
    is_closing: Cell<bool>,
    /// Checkpoints find no room, whatever there is: refusals are not judged.
    pub is_starved: Cell<bool>,
    /// Connections by volume name and kind, each with the volume's incarnation.
    doors: RefCell<BTreeMap<(String, DoorKind), (u32, Door)>>,
}

impl World {
    /// The world around a pool that has just started.
    #[must_use]
    pub fn new(
        surroundings: Surroundings,
        system: Rc<dyn SystemUnderTest>,
        chance: Chance,
        is_endless: bool,
    ) -> Rc<World> {
        let Surroundings { runtime, oracle, array, scenario, record, kernel } = surroundings;
        let requests_left = Cell::new(if is_endless { u64::MAX } else { scenario.requests });
        let forger = scenario.forger.map(|known| Forger::new(known, chance.clone().fork(4)));
        let changes_left = Cell::new(if is_endless { u64::MAX } else { scenario.changes_max });
        Rc::new(World {
            runtime,
            system,
            oracle,
            array,
            scenario,
            record,
            kernel,
            carries: Rc::default(),
            claims: Claims::default(),
            forger: RefCell::new(forger),
            chance: RefCell::new(chance),
            requests_left,
            changes_left,
            pressure: Cell::new(0),
            refused: Cell::new(0),
            is_closing: Cell::new(false),
            is_starved: Cell::new(false),
            doors: RefCell::default(),
        })
    }

    /// One draw.
    pub fn draw<T>(&self, draw: impl FnOnce(&mut Chance) -> T) -> T {
        draw(&mut self.chance.borrow_mut())
    }

    /// How a host reaches a volume: as it is, or over a connection that is made when the volume or its size
    /// is new, and when it came back after a delete: whoever had it before has it no more.
    pub fn door(&self, name: &str, incarnation: u32) -> Option<Rc<dyn BlockDevice>> {
        let device = self.system.device(name)?;
        let kind = match self.scenario.door {
            DoorKind::Both => self.draw(|chance| *chance.pick(&[DoorKind::Nbd, DoorKind::Fuse])),
            kind => kind,
        };
        let mut doors = self.doors.borrow_mut();
        let key = (name.to_string(), kind);
        match doors.get(&key).filter(|(known, _)| *known == incarnation) {
            Some((_, Door::Nbd(door)))
                if door.size_bytes() == device.geometry().size_bytes && !door.is_cut_off() =>
            {
                return Some(door.clone());
            }
            Some((_, Door::Fuse(door))) if !door.is_cut_off() => return Some(door.clone()),
            Some(_) | None => {}
        }
        let chance = self.draw(|chance| chance.fork(3));
        let (runtime, record) = (&self.runtime, self.record.clone());
        match kind {
            DoorKind::Both => unreachable!("one of the two was drawn"),
            DoorKind::Direct => Some(device),
            DoorKind::Nbd => {
                let door = Rc::new(NbdDoor::connect(runtime, record, name, device, chance));
                doors.insert(key, (incarnation, Door::Nbd(door.clone())));
                Some(door)
            }
            DoorKind::Fuse => {
                let opening = self.opening((name.to_string(), incarnation), device);
                let door = Rc::new(FuseDoor::open(opening, chance));
                self.kernel.mount(name, door.mounted());
                doors.insert(key, (incarnation, Door::Fuse(door.clone())));
                Some(door)
            }
        }
    }

    fn opening(&self, volume: (String, u32), device: Rc<dyn BlockDevice>) -> Opening {
        let (runtime, record) = (self.runtime.clone(), self.record.clone());
        Opening { runtime, record, volume, device, carries: self.carries.clone() }
    }

    /// A request completed.
    pub fn progress(&self) {
        self.record.progress(self.runtime.now().as_nanos());
    }

    /// Judges a reported failure: is the system entitled to it?
    pub fn judge(&self, what: &str, trouble: &Trouble) {
        self.record.note(|| format!("  {what}: {}", trouble.text));
        let array = self.array.borrow();
        match trouble.kind {
            TroubleKind::NoSpace => {
                self.record.count(|counters| counters.no_space += 1);
                self.pressure.set(self.pressure.get() + 1);
                self.refused.set(self.refused.get() + 1);
                if self.refused.get() >= self.scenario.refusals_max {
                    self.requests_left.set(self.requests_left.get().min(REQUESTS_AFTER_TROUBLE));
                }
            }
            TroubleKind::Drive | TroubleKind::Gone
                if array.errors_in_life() > 0 || array.is_damaged() || self.has_starved(trouble) =>
            {
                self.record.count(|counters| counters.drive_troubles += 1);
                // The pool may have stopped; not much is left to learn from this life.
                self.requests_left.set(self.requests_left.get().min(REQUESTS_AFTER_TROUBLE));
                self.changes_left.set(self.changes_left.get().min(REQUESTS_AFTER_TROUBLE));
            }
            TroubleKind::Drive => {
                self.record.fail(format!("{what}: an error without a cause: {}", trouble.text));
            }
            TroubleKind::Gone if self.is_closing.get() => {}
            TroubleKind::Invalid if array.is_damaged() => {}
            TroubleKind::Gone | TroubleKind::Invalid => {
                self.record.fail(format!("{what}: refused: {}", trouble.text));
            }
        }
    }

    /// A pool whose checkpoints are starved for long has not even a segment for its journal in the end, and
    /// stops.
    fn has_starved(&self, trouble: &Trouble) -> bool {
        let why = ["no free segment is left in the pool", "pool stopped: its superblock or a segment"];
        self.is_starved.get() && why.iter().any(|why| trouble.text.contains(why))
    }

    /// Judges a failure of a request for a run: a volume that a restore makes smaller meanwhile may say so.
    pub fn judge_run(&self, what: &str, (volume, incarnation): (&str, u32), run: Run, trouble: &Trouble) {
        if trouble.kind != TroubleKind::Invalid || !self.oracle.borrow().may_be_out_of_range(volume, run) {
            self.judge_data(what, volume, incarnation, trouble);
        }
    }

    /// Judges a failure of a data request: a volume that is deleted meanwhile may say so.
    pub fn judge_data(&self, what: &str, volume: &str, incarnation: u32, trouble: &Trouble) {
        let is_vanishing = {
            let oracle = self.oracle.borrow();
            !oracle.is_alive(volume, incarnation) || oracle.is_being_deleted(volume)
        };
        if trouble.kind != TroubleKind::Gone || !is_vanishing {
            self.judge(what, trouble);
        }
    }

    /// The pool is about to be closed: no new requests, and those in flight may be told so.
    pub fn announce_close(&self) {
        self.is_closing.set(true);
        self.requests_left.set(0);
        self.changes_left.set(0);
    }

    fn is_closing(&self) -> bool {
        self.is_closing.get()
    }

    /// True while the pool said it is full and nothing was deleted since.
    fn is_under_pressure(&self) -> bool {
        self.pressure.get() > 0
    }

    fn relieve(&self) {
        self.pressure.set(self.pressure.get() / 2);
    }

    fn take_request(&self) -> bool {
        let left = self.requests_left.get();
        self.requests_left.set(left.saturating_sub(1));
        left > 0
    }

    fn take_change(&self) -> bool {
        let left = self.changes_left.get();
        self.changes_left.set(left.saturating_sub(1));
        left > 0
    }

    async fn pause(&self, micros_max: u64) {
        let micros = self.draw(|chance| chance.below(micros_max + 1));
        self.runtime.sleep(Duration::from_micros(micros)).await;
    }
}

/// Runs the workload of a life to its end.
pub async fn run_workload(world: &Rc<World>) {
    changes::ensure_a_volume(world).await;
    let mut tasks = handover::resume(world);
    for _ in 0..world.scenario.depth {
        tasks.push(world.runtime.spawn(Priority::Host, data::work(world.clone())));
    }
    if world.scenario.forger.is_some() {
        tasks.push(world.runtime.spawn(Priority::Host, forging::work(world.clone())));
    }
    for _ in 0..world.scenario.change_depth {
        tasks.push(world.runtime.spawn(Priority::Host, changes::work(world.clone())));
    }
    for task in tasks {
        task.await;
    }
    let doors = std::mem::take(&mut *world.doors.borrow_mut());
    let is_settled = |door: &Door| match door {
        Door::Nbd(door) => door.is_settled(),
        Door::Fuse(_) => true,
    };
    if !doors.values().all(|(_, door)| is_settled(door)) {
        world.record.fail("NBD: bytes are left over after the last reply");
    }
}
