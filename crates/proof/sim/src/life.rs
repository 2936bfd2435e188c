//! One life of the machine: it starts, recovers, is examined, works, and stops in some way.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use ashlar_format::superblock::{DriveEntry, DriveState};
use ashlar_runtime::sim::{Progress, Simulation};
use ashlar_runtime::{Instant, Runtime};

use crate::chance::Chance;
use crate::drives::{Crash, DriveArray, FaultRates, kind_of};
use crate::kernel::Kernel;
use crate::oracle::{Change, Oracle};
use crate::record::{Phase, Record};
use crate::scenario::{Ending, LifeFaults, Scenario, Theme};
use crate::staff::Attendant;
use crate::system::{PoolLayout, SystemMaker, SystemUnderTest, Trouble, TroubleKind};
use crate::wall_clock::WallClock;
use crate::workload::{Surroundings, World, carry_out, check, claims_for_delete, run_workload};
use crate::workload::{verify_differences, verify_everything, verify_notes, verify_plausible};

/// Longest virtual time without any request completing. Far above the slowest drive's slowest request
/// times the longest recovery.
const STALL: Duration = Duration::from_secs(1200);

/// Checkpoints are starved while so many segments are left, one for each that is left beyond them: the
/// journal takes some for each that is refused, and a pool whose last one is gone cannot write any.
/// Arbitrary: more than hosts may take.
const STARVED_ABOVE: u64 = 4;

/// Pairs of images whose difference is looked at behind each start. Arbitrary.
const DIFFERENCES_AT_START: u64 = 2;

/// Steps no life needs; beyond it the system spins.
const STEPS_MAX: u64 = 30_000_000;

/// Tries of a start whose drives report errors, before they are mended.
const START_TRIES: u64 = 3;

/// A kill that waits for a superblock to be on its way waits so many steps: several are written in them.
const SUPERBLOCK_STEPS: u64 = 1 << 13;

/// What outlives a crash.
pub struct Machine {
    /// The drives.
    pub array: Rc<RefCell<DriveArray>>,
    /// The judge.
    pub oracle: Rc<RefCell<Oracle>>,
    /// The notebook.
    pub record: Rc<Record>,
    /// The plan.
    pub scenario: Rc<Scenario>,
    /// Makes and starts the pool.
    pub maker: Rc<dyn SystemMaker>,
    /// What the hosts' kernel keeps while the array is dead.
    pub kernel: Rc<Kernel>,
    /// The wall clock, where it jumps.
    pub wall_clock: Option<WallClock>,
    /// Virtual time.
    pub now: Instant,
    /// Steps of all lives.
    pub steps: u64,
}

/// What a life is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Errand {
    /// Make the pool.
    Create,
    /// Start, examine, work.
    Work,
    /// Start, examine, prove that everything can be deleted and the space comes back.
    Farewell,
}

impl Machine {
    /// Runs one life. True when it came to its planned end, false when the machine was stopped before.
    pub fn live(&mut self, errand: Errand, ending: Ending, faults: LifeFaults, chance: &mut Chance) -> bool {
        let storage: Rc<RefCell<DriveArray>> = self.array.clone();
        let mut simulation = Simulation::new(chance.next(), storage);
        simulation.advance_clock_to(self.now);
        self.record.begin_life(self.now.as_nanos());
        self.record.note(|| format!("life: {errand:?} {ending:?} {faults:?}"));
        let (is_done, running) = (Rc::new(Cell::new(false)), Rc::new(RefCell::new(None)));
        let life = Life {
            runtime: simulation.runtime(),
            array: self.array.clone(),
            oracle: self.oracle.clone(),
            record: self.record.clone(),
            scenario: self.scenario.clone(),
            maker: self.maker.clone(),
            kernel: self.kernel.clone(),
            machine: self.machine_of_life(),
            faults,
            is_closed_at_end: ending == Ending::Close,
            is_endless: matches!(ending, Ending::Crash { is_endless: true, .. }),
            chance: chance.fork(1),
            absent: None,
            running: running.clone(),
        };
        let done = is_done.clone();
        let _detached = simulation.runtime().spawn(ashlar_runtime::Priority::Host, async move {
            life.run(errand).await;
            done.set(true);
        });
        let (mut steps_max, mut in_change, how) = match ending {
            Ending::Close => (STEPS_MAX, None, Crash::Kill),
            Ending::Crash { after_steps, in_change, how, .. } => (after_steps, in_change, how),
        };
        let waits_until = steps_max.saturating_add(self.wait_for_superblock(ending));
        let array = self.array.clone();
        let record = self.record.clone();
        let mut wall_clock = self.wall_clock.as_mut();
        let progress = simulation.run_while(&mut |simulation| {
            wall_clock.iter_mut().for_each(|clock| clock.maybe_jump(simulation));
            let idle = simulation.now().as_nanos().saturating_sub(record.last_progress_nanos());
            if u128::from(idle) > STALL.as_nanos() {
                record.fail(format!("no request completed for {} virtual seconds", STALL.as_secs()));
            }
            if let Some(aim) = in_change
                && record.changes_issued_in_life(aim.kind) >= aim.number
            {
                steps_max = steps_max.min(simulation.steps() + aim.steps);
                in_change = None;
            }
            let is_due = simulation.steps() >= steps_max
                && (simulation.steps() >= waits_until || array.borrow().writes_superblock());
            !is_done.get() && !record.has_failed() && !is_due
        });
        self.judge_end(progress == Progress::Stalled && !is_done.get(), simulation.steps());
        self.now = simulation.now();
        self.steps += simulation.steps();
        self.record.digest_fact(simulation.digest());
        self.record.note(|| format!("the machine stops after {} steps: {how:?}", simulation.steps()));
        self.count_crash(ending);
        if let Some(system) = running.take() {
            self.record.add_probes(&system.probes());
        }
        self.array.borrow_mut().set_next_crash(how);
        drop(simulation);
        self.kernel.outlive(how);
        self.maker.crash();
        self.array.borrow_mut().mend();
        self.oracle.borrow_mut().stop();
        crate::inspection::look(self);
        is_done.get()
    }
}

impl Machine {
    /// Of its own requests a machine knows when they have ended: those that land late are another's.
    fn machine_of_life(&self) -> u128 {
        if self.scenario.has_late_writes { u128::from(self.now.as_nanos()) + 2 } else { 1 }
    }

    fn judge_end(&self, is_stalled: bool, steps: u64) {
        if self.record.has_failed() {
            return;
        }
        if is_stalled {
            self.record.fail("stalled: requests wait for something that cannot happen");
        } else if steps >= STEPS_MAX {
            self.record.fail(format!("no end after {STEPS_MAX} steps"));
        }
    }

    /// So many steps later a machine is killed whose superblock may land late: that is rarely under way, and
    /// no late write does as much.
    fn wait_for_superblock(&self, ending: Ending) -> u64 {
        let is_kill = matches!(ending, Ending::Crash { how: Crash::Kill, in_change: None, .. });
        let waits = is_kill && self.scenario.has_late_writes && Chance::new(self.steps).one_in(2);
        if waits { SUPERBLOCK_STEPS } else { 0 }
    }

    fn count_crash(&self, ending: Ending) {
        if ending == Ending::Close {
            return;
        }
        let is_changing = self.oracle.borrow().is_changing();
        let phase = self.record.phase();
        self.record.count(|counters| {
            counters.crashes += 1;
            counters.crashes_in[phase as usize] += 1;
            counters.crashes_in_change += u64::from(is_changing);
        });
    }
}

struct Life {
    runtime: Runtime,
    array: Rc<RefCell<DriveArray>>,
    oracle: Rc<RefCell<Oracle>>,
    record: Rc<Record>,
    scenario: Rc<Scenario>,
    maker: Rc<dyn SystemMaker>,
    kernel: Rc<Kernel>,
    machine: u128,
    faults: LifeFaults,
    is_closed_at_end: bool,
    /// The workload goes on until the machine is stopped.
    is_endless: bool,
    chance: Chance,
    /// A drive that was pulled.
    absent: Option<String>,
    /// The pool, for the machine to look at when it stops it.
    running: Rc<RefCell<Option<Rc<dyn SystemUnderTest>>>>,
}

impl Life {
    // tidy: long because a life is one story.
    async fn run(mut self, errand: Errand) {
        if errand == Errand::Create {
            if let Err(trouble) = self.maker.create(&self.runtime, &self.scenario.layout).await {
                self.record.fail(format!("creating the pool: {}", trouble.text));
            }
            return;
        }
        let was_damaged = self.array.borrow().is_damaged();
        self.array.borrow_mut().arm(self.faults.while_starting);
        self.provoke_missing_drive().await;
        match self.scenario.theme {
            Some(Theme::Losses | Theme::LossesUnderCleaning | Theme::Copies) => self.exchange_for_older(),
            _ => self.pull_a_drive(),
        }
        let Some(system) = self.start(was_damaged).await else { return };
        *self.running.borrow_mut() = Some(system.clone());
        self.record.enter(Phase::Examining);
        self.array.borrow_mut().arm(self.faults.while_running);
        let chance = self.chance.fork(2);
        let surroundings = Surroundings {
            runtime: self.runtime.clone(),
            oracle: self.oracle.clone(),
            array: self.array.clone(),
            scenario: self.scenario.clone(),
            record: self.record.clone(),
            kernel: self.kernel.clone(),
        };
        let world = World::new(surroundings, system.clone(), chance, self.is_endless);
        // Damage during the start counts, too: in the last groups of the journal it looks like the torn
        // end of a crash (docs/internals/durability.md).
        if self.array.borrow().is_damaged() {
            verify_plausible(&world).await;
            // Its errors are expected; it must neither panic nor hang.
            check(&world).await;
            return;
        }
        self.provoke_second_user().await;
        if let Err(wrong) = self.oracle.borrow_mut().reconcile(&system.listing()) {
            self.record.fail(format!("after the start: {wrong}"));
            return;
        }
        if self.chance.one_in(2) || errand == Errand::Farewell {
            check(&world).await;
        }
        let out = system.drives_out();
        let reads_of = |path: &String| self.array.borrow().reads_of(path);
        let reads: Vec<u64> = out.iter().map(|(_, path)| reads_of(path)).collect();
        verify_everything(&world).await;
        if let Some(((_, path), _)) =
            out.iter().zip(reads).find(|((_, path), reads)| reads_of(path) != *reads)
        {
            self.record.fail(format!("{path} is out of service and was read"));
        }
        if !self.is_judgeable() {
            return;
        }
        verify_differences(&world, DIFFERENCES_AT_START).await;
        self.record.enter(Phase::Working);
        let operator = self.start_operator(&system);
        let puller = self.start_puller(&system);
        let starver = self.start_starver(&system, errand);
        world.is_starved.set(starver.is_some());
        match errand {
            Errand::Create => unreachable!("done above"),
            Errand::Work if self.is_closed_at_end && self.chance.one_in(2) => {
                for attendant in [puller, starver].into_iter().flatten() {
                    attendant.send_home().await;
                }
                self.close_under_load(&world, operator).await;
                return;
            }
            Errand::Work => run_workload(&world).await,
            Errand::Farewell => farewell(&world).await,
        }
        for attendant in [operator, puller, starver].into_iter().flatten() {
            attendant.send_home().await;
        }
        self.record.enter(Phase::Done);
        self.array.borrow_mut().mend();
        if self.record.has_failed() {
            return;
        }
        if self.chance.one_in(3) {
            verify_everything(&world).await;
            verify_notes(&world);
            check(&world).await;
            self.move_faults(&system);
        }
        if self.is_closed_at_end && !self.record.has_failed() {
            self.record.note(|| "close".to_string());
            match system.close().await {
                Ok(()) => self.record.count(|counters| counters.closes += 1),
                Err(trouble) => world.judge("close", &trouble),
            }
        }
    }

    fn start_operator(&mut self, system: &Rc<dyn SystemUnderTest>) -> Option<Attendant> {
        let layout = &self.scenario.layout;
        if self.scenario.theme.is_some() || !self.chance.one_in(2) {
            return None;
        }
        let (array, record) = (self.array.clone(), self.record.clone());
        let chance = self.chance.fork(3);
        Some(crate::operator::start(&self.runtime, system.clone(), array, record, chance, layout))
    }

    /// Checkpoints of a full pool find no room, each in another moment.
    fn start_starver(&mut self, system: &Rc<dyn SystemUnderTest>, errand: Errand) -> Option<Attendant> {
        let is_due = self.scenario.theme == Some(Theme::Full) && errand == Errand::Work;
        if !is_due || self.chance.one_in(2) {
            return None;
        }
        let (runtime, system, mut chance) = (self.runtime.clone(), system.clone(), self.chance.fork(7));
        let work = |is_over: Rc<Cell<bool>>| async move {
            let pause_micros_max = *chance.pick(&[2_000, 20_000, 200_000]);
            while !is_over.get() {
                runtime.sleep(Duration::from_micros(chance.between(100, pause_micros_max))).await;
                let records_max = *chance.pick(&[2, 8, 64]);
                // While none succeeds the journal takes what is left, and without a segment a pool stops.
                let segments = system.room().map_or(0, |room| room.segments);
                let left = segments.saturating_sub(system.segments_in_use().unwrap_or(segments));
                let refusals = match left.checked_sub(STARVED_ABOVE) {
                    Some(beyond) => chance.between(1, 3).min(beyond + 1),
                    None => 0,
                };
                let refusals: Vec<u64> = (0..refusals).map(|_| chance.below(records_max)).collect();
                system.starve_checkpoints(&refusals);
            }
            system.starve_checkpoints(&[]);
        };
        Some(Attendant::start(&self.runtime, work))
    }

    fn start_puller(&mut self, system: &Rc<dyn SystemUnderTest>) -> Option<Attendant> {
        if !self.scenario.theme.is_some_and(Theme::loses_drives) {
            return None;
        }
        let (array, record) = (self.array.clone(), self.record.clone());
        let chance = self.chance.fork(6);
        let has_victims = self.scenario.victims > 0;
        Some(crate::losses::start(&self.runtime, system.clone(), array, record, chance, has_victims))
    }

    /// What was wrong with the drives is mended and scrubbed: from now on others may fail, as many as are
    /// not away.
    fn move_faults(&mut self, system: &Rc<dyn SystemUnderTest>) {
        let is_fine = !self.record.has_failed() && self.scenario.victim_paths().is_some();
        let Some(mut victims) = system.drives_unproven().filter(|_| is_fine) else { return };
        if !self.chance.one_in(2) {
            return;
        }
        victims.iter_mut().for_each(|path| *path = kind_of(path).to_string());
        let mut others = self.scenario.layout.drives.clone();
        others.retain(|path| !victims.contains(path));
        while victims.len() < self.scenario.victims as usize && !others.is_empty() {
            victims.push(others.swap_remove(self.chance.below(others.len() as u64) as usize));
        }
        self.record.note(|| format!("from now on {victims:?} may fail"));
        self.array.borrow_mut().limit_faults_to(Some(victims));
    }

    /// Nothing is wrong, and of no volume is it open which content it has: after a read that failed, new
    /// writes could be judged against neither content of an unfinished restore.
    fn is_judgeable(&self) -> bool {
        !self.record.has_failed() && !self.oracle.borrow().has_forks()
    }

    /// Closes the pool while requests are in flight: each must end, done or refused.
    async fn close_under_load(&mut self, world: &Rc<World>, operator: Option<Attendant>) {
        let workload = {
            let world = world.clone();
            self.runtime.spawn(ashlar_runtime::Priority::Host, async move { run_workload(&world).await })
        };
        let micros_max = *self.chance.pick(&[100, 2_000, 30_000]);
        self.runtime.sleep(Duration::from_micros(self.chance.below(micros_max))).await;
        if let Some(operator) = operator {
            operator.send_home().await;
        }
        world.announce_close();
        self.record.note(|| "close under load".to_string());
        match world.system.close().await {
            Ok(()) => self.record.count(|counters| counters.closes += 1),
            Err(trouble) => world.judge("close", &trouble),
        }
        workload.await;
    }

    /// The drives in any order: the pool knows them by what is on them.
    fn shuffled_layout(&mut self) -> PoolLayout {
        let mut layout = self.scenario.layout.clone();
        // Those that were replaced are still named: the pool knows them, too.
        layout.drives = self.array.borrow().paths();
        layout.machine = self.machine;
        layout.drives.retain(|path| self.absent.as_ref() != Some(path));
        for index in (1..layout.drives.len()).rev() {
            layout.drives.swap(index, self.chance.below(index as u64 + 1) as usize);
        }
        layout
    }

    /// While the pool was down a drive was pulled, and another spoilt: the pool must start without them.
    fn pull_a_drive(&mut self) {
        let mut victims = self.array.borrow().victims_there();
        if victims.is_empty() || self.bring_back_older(&victims[0]) || !self.chance.one_in(6) {
            return;
        }
        let pulled = victims.swap_remove(self.chance.below(victims.len() as u64) as usize);
        self.record.note(|| format!("{pulled} is not there"));
        self.absent = Some(pulled);
        if let Some(spoilt) = victims.first() {
            let blocks = *self.chance.pick(&[0, 20, 200, 1_000]);
            self.record.note(|| format!("{spoilt} is spoilt in {blocks} places"));
            // With half of the drives gone a pool that was not closed is not opened unasked: the others may
            // have gone on.
            let layout = &self.scenario.layout;
            let is_half = layout.drives.len() <= 2 * usize::from(layout.parity);
            let from = if is_half { crate::inspection::CELLS_START_BLOCK } else { 0 };
            self.array.borrow_mut().spoil(spoilt, blocks, from);
        }
    }

    /// While the pool was down somebody made a copy of a drive, or put an earlier copy in its place: the pool
    /// must know it for what it is.
    fn bring_back_older(&mut self, path: &str) -> bool {
        if self.chance.one_in(4) && self.array.borrow_mut().bring_back_copy(path) {
            self.record.note(|| format!("{path} is an older copy of itself"));
            self.record.add_probes(&[("older drives", 1)]);
            return true;
        }
        if self.chance.one_in(3) {
            self.array.borrow_mut().copy_away(path);
        }
        false
    }

    /// While the pool was down, whole, somebody made a copy of a drive, or put an earlier one in its place.
    fn exchange_for_older(&mut self) {
        let mut array = self.array.borrow_mut();
        // By what each drive says: the one that goes may be the only one to tell the latest.
        let is_in_service = |drive: &DriveEntry| drive.state == DriveState::InService;
        let newest = array.newest_superblocks();
        let generations = newest.iter().map(|superblock| superblock.generation);
        let behind = generations.clone().max().unwrap_or(0) - generations.min().unwrap_or(0);
        // One that is older already was not yet noticed where the start was cut short.
        let is_whole =
            behind <= 1 && newest.iter().all(|superblock| superblock.drives.iter().all(is_in_service));
        let candidates = if self.scenario.victims > 0 { array.victims_there() } else { array.paths() };
        if !is_whole || candidates.is_empty() {
            return;
        }
        let drawn = self.chance.pick(&candidates);
        // One copy at a time, made anew now and then: most are from just before the last life.
        let is_for_copies = self.scenario.theme == Some(Theme::Copies);
        let copied = candidates.iter().find(|path| is_for_copies && array.has_copy(path));
        let path = copied.unwrap_or(drawn);
        if self.chance.one_in(2) && array.bring_back_copy(path) {
            self.record.note(|| format!("{path} is an older copy of itself"));
            self.record.add_probes(&[("older drives", 1)]);
        } else if self.chance.one_in(2) {
            array.copy_away(path);
        }
    }

    /// A pool that lacks a drive must not start: what is on it would be missing.
    async fn provoke_missing_drive(&mut self) {
        let mut layout = self.shuffled_layout();
        let missing = usize::from(layout.parity) + 1;
        let were_replaced = layout.drives.len() > self.scenario.layout.drives.len();
        // Of one that lives in spare space the pool needs nothing.
        if layout.drives.len() <= missing
            || layout.spares > 0
            || were_replaced
            || self.array.borrow().has_fewer()
            || !self.maker.is_exclusive()
            || !self.chance.one_in(6)
        {
            return;
        }
        // More than the pool promises to do without.
        layout.drives.truncate(layout.drives.len() - missing);
        if self.maker.open(&self.runtime, &layout).await.is_ok() {
            self.record.fail("the pool starts without one of its drives");
        }
        if self.maker.create(&self.runtime, &layout).await.is_ok() {
            self.record.fail("a pool is made on the drives of another");
        }
    }

    /// A pool in use must not be started or made again by somebody else.
    async fn provoke_second_user(&mut self) {
        if !self.maker.is_exclusive() || !self.chance.one_in(6) {
            return;
        }
        let layout = self.shuffled_layout();
        if self.maker.open(&self.runtime, &layout).await.is_ok() {
            self.record.fail("the pool starts although it runs");
        }
        if self.maker.create(&self.runtime, &layout).await.is_ok() {
            self.record.fail("a pool is made on the drives of another that runs");
        }
    }

    /// Starts the pool; drives that report errors are mended after some tries.
    async fn start(&mut self, was_damaged: bool) -> Option<Rc<dyn SystemUnderTest>> {
        for attempt in 1.. {
            let layout = self.shuffled_layout();
            let landed = self.array.borrow().counters().late_writes;
            match self.maker.open(&self.runtime, &layout).await {
                Ok(system) => {
                    self.record.count(|counters| counters.starts += 1);
                    self.record.progress(self.runtime.now().as_nanos());
                    self.record.note(|| format!("started at try {attempt}"));
                    return Some(system);
                }
                Err(trouble) => {
                    self.record.count(|counters| counters.failed_starts += 1);
                    self.record.note(|| format!("start failed: {}", trouble.text));
                    self.record.progress(self.runtime.now().as_nanos());
                    // A dead owner's beat that lands while an opening watches for one looks like a living
                    // owner. The array tries again, and so does this.
                    let has_landed = self.array.borrow().counters().late_writes > landed;
                    let is_beat_of_dead = trouble.kind == TroubleKind::Gone && has_landed;
                    if !is_beat_of_dead && !self.may_fail_to_start(&trouble, was_damaged) {
                        self.record.fail(format!("the pool does not start: {}", trouble.text));
                        return None;
                    }
                    if attempt >= START_TRIES {
                        if self.faults.while_starting == FaultRates::default() {
                            // Damage that does not go away: the pool is lost, and says so.
                            return None;
                        }
                        self.array.borrow_mut().mend();
                        self.faults.while_starting = FaultRates::default();
                    }
                    self.runtime.sleep(Duration::from_millis(10)).await;
                }
            }
        }
        None
    }

    fn may_fail_to_start(&self, trouble: &Trouble, was_damaged: bool) -> bool {
        let array = self.array.borrow();
        let is_excused = was_damaged || array.is_damaged() || array.errors_in_life() > 0;
        is_excused && matches!(trouble.kind, TroubleKind::Drive | TroubleKind::Gone | TroubleKind::NoSpace)
            || array.is_damaged()
    }
}

/// Deletes everything and proves that the pool takes writes again.
async fn farewell(world: &Rc<World>) {
    let (volumes, deleted, snapshots): (Vec<String>, Vec<String>, Vec<String>) = {
        let oracle = world.oracle.borrow();
        let deleted = oracle.deleted().keys().cloned().collect();
        (oracle.volumes().keys().cloned().collect(), deleted, oracle.snapshots().keys().cloned().collect())
    };
    let deletes = snapshots
        .into_iter()
        .map(|name| Change::SnapshotDelete { name })
        .chain(deleted.into_iter().map(|name| Change::DeletedGiveUp { name }))
        .chain(volumes.into_iter().map(|name| Change::VolumeDelete { name }));
    let mut deletes: Vec<Change> = deletes.collect();
    // In any order.
    for index in (1..deletes.len()).rev() {
        let other = world.draw(|chance| chance.below(index as u64 + 1)) as usize;
        deletes.swap(index, other);
    }
    for change in deletes {
        let claim = claims_for_delete(world, &change);
        carry_out(world, change, claim).await;
        if world.record.has_failed() {
            return;
        }
    }
    crate::workload::prove_progress(world).await;
}
