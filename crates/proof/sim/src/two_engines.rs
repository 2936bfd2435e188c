//! Two engines over one set of drives: a second path to them, a second machine, a process that was
//! only paused.
//!
//! Each has a simulation of its own; both reach the same [`DriveArray`] through ports that know no lock. The
//! story: the first works, the second is refused while the first beats; the first is frozen, the second takes
//! over and works; the first wakes up and must stop at once. What the second acknowledged, and what the first
//! had acknowledged before, is there in the end.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use ashlar_block::BlockDevice;
use ashlar_runtime::sim::{Progress, SimDriveId, SimOperation, SimStorage, SimTicket, Simulation};
use ashlar_runtime::{Instant, OpenDrive, Priority, Runtime};
use ashlar_units::BLOCK_BYTES;

use crate::chance::Chance;
use crate::content::{Texture, Value};
use crate::drives::{DriveArray, Pace};
use crate::engine_system::{Opener, create_pool, open_as};
use crate::oracle::Change;
use crate::system::{PoolLayout, SystemUnderTest, TroubleKind};
use crate::wall_clock::WallClock;

const VOLUME: &str = "v";
const BLOCKS: u64 = 96;
const STEPS_MAX: u64 = 3_000_000;

/// So many seeds have one with such a story among them. Arbitrary.
const ONE_IN: u64 = 10;
const SALT: u64 = 0x2e26_14e5;

/// The drives as one of several machines reaches them: nothing tells it that others do, too.
struct Port {
    array: Rc<RefCell<DriveArray>>,
    number: u64,
}

impl Port {
    fn ticket(&self, ticket: SimTicket) -> SimTicket {
        SimTicket(self.number << 48 | ticket.0)
    }
}

impl SimStorage for Port {
    fn open(&mut self, path: &str, options: &OpenDrive) -> io::Result<(SimDriveId, u64)> {
        self.array.borrow_mut().open_unlocked(path, options)
    }

    fn start(&mut self, now: Instant, ticket: SimTicket, operation: &SimOperation) -> u64 {
        self.array.borrow_mut().start(now, self.ticket(ticket), operation)
    }

    fn finish(&mut self, now: Instant, ticket: SimTicket, operation: &mut SimOperation) -> io::Result<()> {
        self.array.borrow_mut().finish(now, self.ticket(ticket), operation)
    }

    fn crash(&mut self, now: Instant, in_flight: Vec<(SimTicket, SimOperation)>) {
        let ours = in_flight.into_iter().map(|(ticket, operation)| (self.ticket(ticket), operation));
        let ours = ours.collect();
        self.array.borrow_mut().crash(now, ours);
    }
}

/// Old bytes that somebody was given.
type Stale = Rc<RefCell<Option<String>>>;

/// What one engine was told to write, and what it acknowledged.
#[derive(Default)]
struct Ledger {
    /// Number of the write that a block holds.
    acknowledged: RefCell<BTreeMap<u64, u32>>,
    /// Issued and not answered: it may be there.
    pending: Cell<Option<(u64, u32)>>,
    next: Cell<u32>,
    count: Cell<u64>,
}

impl Ledger {
    /// Every block is one of those that it may be, and is that from now on.
    fn judge(&self, block: u64, bytes: &[u8]) -> Result<(), String> {
        let known = self.acknowledged.borrow().get(&block).copied();
        let pending = self.pending.get().filter(|(of, _)| *of == block).map(|(_, number)| number);
        let sector = block * (BLOCK_BYTES / 512);
        let value = |number: Option<u32>| {
            number.map_or(Value::ZERO, |number| Value::of_write(number, Texture::Random))
        };
        if value(known).matches(sector, bytes) {
            return Ok(());
        }
        match pending.filter(|number| value(Some(*number)).matches(sector, bytes)) {
            Some(number) => {
                self.acknowledged.borrow_mut().insert(block, number);
                Ok(())
            }
            None => Err(format!("block {block} is not what was written last: {known:?}, maybe {pending:?}")),
        }
    }
}

/// A machine with an engine of its own.
struct Machine {
    simulation: Simulation,
    opener: Opener,
    /// Writes go on while this is true.
    is_working: Rc<Cell<bool>>,
}

impl Machine {
    fn new(array: &Rc<RefCell<DriveArray>>, seed: u64, number: u64, now: Instant) -> Machine {
        let port = Rc::new(RefCell::new(Port { array: array.clone(), number }));
        let mut simulation = Simulation::new(seed ^ number, port);
        simulation.advance_clock_to(now);
        let opener = Opener { machine: u128::from(number), boot: 1, process: 7, is_forced: false };
        Machine { simulation, opener, is_working: Rc::default() }
    }

    fn runtime(&self) -> Runtime {
        self.simulation.runtime()
    }

    fn finish<T: 'static>(&mut self, future: impl Future<Output = T> + 'static) -> Result<T, String> {
        self.simulation.run_until_steps(future, STEPS_MAX).map_err(|stop| format!("no end: {stop:?}"))
    }

    /// A host that writes one block after the other until it is told to stop or the engine refuses.
    fn work(&self, system: &Rc<dyn SystemUnderTest>, ledger: &Rc<Ledger>, mut chance: Chance) {
        let (runtime, ledger, is_working) = (self.runtime(), ledger.clone(), self.is_working.clone());
        let device = system.device(VOLUME);
        is_working.set(true);
        let _detached = self.runtime().spawn(Priority::Host, async move {
            let Some(device) = device else { return };
            while is_working.get() {
                let (block, number) = (chance.below(BLOCKS), ledger.next.get() + 1);
                ledger.next.set(number);
                ledger.pending.set(Some((block, number)));
                let mut data = vec![0; BLOCK_BYTES as usize];
                Value::of_write(number, Texture::Random).fill(block * (BLOCK_BYTES / 512), &mut data);
                if device.write(block * BLOCK_BYTES, &data, false).await.is_err() {
                    return;
                }
                ledger.acknowledged.borrow_mut().insert(block, number);
                ledger.pending.set(None);
                ledger.count.set(ledger.count.get() + 1);
                runtime.sleep(Duration::from_micros(chance.below(500))).await;
            }
        });
    }
}

/// A host of the one that lost the pool reads on: what it gets is never older than what the other told.
fn read_on(
    machine: &Machine,
    system: &Rc<dyn SystemUnderTest>,
    heirs: &Rc<Ledger>,
    mut chance: Chance,
) -> Stale {
    let stale = Stale::default();
    let (runtime, heirs, told) = (machine.runtime(), heirs.clone(), stale.clone());
    let device = system.device(VOLUME);
    let _detached = machine.runtime().spawn(Priority::Host, async move {
        let Some(device) = device else { return };
        loop {
            let block = chance.below(BLOCKS);
            let known = heirs.acknowledged.borrow().get(&block).copied();
            let mut bytes = vec![0; BLOCK_BYTES as usize];
            let is_read = device.read(block * BLOCK_BYTES, &mut bytes).await.is_ok();
            if let Some(known) = known.filter(|_| is_read) {
                let now = heirs.acknowledged.borrow().get(&block).copied();
                let pending = heirs.pending.get().filter(|(of, _)| *of == block).map(|(_, number)| number);
                let sector = block * (BLOCK_BYTES / 512);
                let is_it = |number: u32| Value::of_write(number, Texture::Random).matches(sector, &bytes);
                if ![Some(known), now, pending].into_iter().flatten().any(is_it) {
                    told.replace(Some(format!("block {block} is read as it was before write {known}")));
                    return;
                }
            }
            runtime.sleep(Duration::from_micros(chance.below(500))).await;
        }
    });
    stale
}

/// Lets two machines run, each by its own clock, until `is_done`.
fn side_by_side(one: &mut Machine, other: &mut Machine, is_done: &dyn Fn() -> bool) -> Result<(), String> {
    for _ in 0..STEPS_MAX {
        if is_done() {
            return Ok(());
        }
        let (ahead, behind) = match one.simulation.now() <= other.simulation.now() {
            true => (&mut other.simulation, &mut one.simulation),
            false => (&mut one.simulation, &mut other.simulation),
        };
        if behind.step() == Progress::Stalled && ahead.step() == Progress::Stalled {
            return Err("both are stalled".to_string());
        }
    }
    Err("no end".to_string())
}

async fn verify(device: Rc<dyn BlockDevice>, ledgers: Vec<Rc<Ledger>>) -> Result<(), String> {
    for block in 0..BLOCKS {
        let mut bytes = vec![0xa5; BLOCK_BYTES as usize];
        let read = device.read(block * BLOCK_BYTES, &mut bytes).await;
        read.map_err(|error| format!("block {block}: {}", error.context))?;
        // The newest one that wrote the block decides.
        let wrote = |ledger: &&Rc<Ledger>| {
            ledger.acknowledged.borrow().contains_key(&block)
                || ledger.pending.get().is_some_and(|(of, _)| of == block)
        };
        let ledger = ledgers.iter().rev().find(wrote).unwrap_or(&ledgers[0]);
        ledger.judge(block, &bytes)?;
    }
    Ok(())
}

async fn verify_all(system: Rc<dyn SystemUnderTest>, ledgers: Vec<Rc<Ledger>>) -> Result<(), String> {
    let device = system.device(VOLUME).ok_or("the volume is gone")?;
    verify(device, ledgers).await?;
    let errors = system.check().await.map_err(|trouble| trouble.text)?;
    errors.first().map_or(Ok(()), |first| Err(format!("check: {first}")))
}

fn layout(chance: &mut Chance) -> PoolLayout {
    let parity = *chance.pick(&[0_u8, 0, 1]);
    let drives = if parity == 0 { chance.between(1, 2) } else { 3 };
    PoolLayout {
        machine: 0,
        drives: (0..drives).map(|index| format!("drive-{index}")).collect(),
        drive_bytes: 24 << 20,
        segment_bytes: 512 << 10,
        parity,
        width: (parity > 0).then_some(3),
        spares: 0,
        cache_bytes: 64 << 10,
        map_cache_bytes: 128 << 10,
        checkpoint_interval_millis: *chance.pick(&[5, 50]),
        free_percent_wanted: 50,
        dedupe_index_bytes: 0,
        dedupe_run_blocks_min: 1,
        dedupe_sample_shift: 0,
        no_space_wait_millis: 0,
    }
}

/// What is wrong with the story of a seed, if it has one and anything is.
pub fn verdict_of(seed: u64) -> Option<String> {
    let is_told = Chance::new(seed ^ SALT).one_in(ONE_IN);
    is_told.then(|| run(seed).err()).flatten().map(|wrong| format!("two engines: {wrong}"))
}

/// The whole story of a seed.
fn run(seed: u64) -> Result<(), String> {
    let mut chance = Chance::new(seed);
    let pace = Pace { usual_micros: (20, 200), slow_per_mille: 5, slow_micros_max: 2_000 };
    let array = Rc::new(RefCell::new(DriveArray::new(chance.next(), 4096, pace)));
    let layout = layout(&mut chance);
    let text = |trouble: crate::system::Trouble| trouble.text;

    let mut first = Machine::new(&array, seed, 1, Instant::default());
    first.finish(create_pool(&first.runtime(), &layout))?.map_err(text)?;
    let opened = open_as(&first.runtime(), &layout, &first.opener);
    let system = first.finish(opened)?.map_err(text)?;
    let create =
        Change::VolumeCreate { name: VOLUME.to_string(), size_bytes: BLOCKS * BLOCK_BYTES, unit_bytes: 4096 };
    first.finish(system.change(create))?.map_err(text)?;
    let old = Rc::new(Ledger::default());
    first.work(&system, &old, chance.fork(1));
    first.simulation.run_steps(chance.between(500, 20_000));

    let mut second = Machine::new(&array, seed, 2, first.simulation.now());
    refused_while_it_beats(&mut first, &mut second, &layout)?;

    // Frozen between two requests: what a guest that is frozen with its queue writes later nobody waits for.
    let mut steps = chance.below(2_000);
    first.simulation.run_while(&mut |_| {
        steps = steps.saturating_sub(1);
        steps > 0 || array.borrow().has_in_flight()
    });
    second.simulation.advance_clock_to(first.simulation.now());
    second.opener.is_forced = chance.one_in(2);
    let opened = open_as(&second.runtime(), &layout, &second.opener);
    let heir = second.finish(opened)?.map_err(text)?;
    second.finish(verify_all(heir.clone(), vec![old.clone()]))??;
    let new = Rc::new(Ledger::default());
    new.next.set(1 << 20);
    second.work(&heir, &new, chance.fork(2));
    second.simulation.run_steps(chance.between(500, 20_000));

    // The first wakes up, in the middle of what it did, and somebody sets its clock.
    let (acknowledged, until) = (old.count.get(), new.count.get() + 200);
    first.simulation.advance_clock_to(second.simulation.now());
    WallClock::new(seed).jump(&first.simulation);
    let stale = read_on(&first, &system, &new, chance.fork(3));
    side_by_side(&mut first, &mut second, &|| new.count.get() >= until)?;
    second.is_working.set(false);
    let mut patience = STEPS_MAX;
    second.simulation.run_while(&mut |_| {
        patience = patience.saturating_sub(1);
        patience > 0 && new.pending.get().is_some()
    });
    if let Some(stale) = stale.take() {
        return Err(format!("one that lost its pool gives old bytes: {stale}"));
    }
    // The one write that was done when the first was frozen it may still tell of: it is there, as all that
    // is acknowledged, which is looked at below. By force nobody waited until the first was overdue.
    if old.count.get() > acknowledged + 1 && !second.opener.is_forced {
        return Err(format!(
            "{} writes acknowledged by one that lost its pool",
            old.count.get() - acknowledged
        ));
    }
    let both = vec![old, new];
    second.finish(verify_all(heir.clone(), both.clone()))??;
    second.finish(heir.close())?.map_err(text)?;
    drop((first, second));
    let mut third = Machine::new(&array, seed, 3, Instant::default());
    let opened = open_as(&third.runtime(), &layout, &third.opener);
    let system = third.finish(opened)?.map_err(text)?;
    third.finish(verify_all(system, both))?
}

/// The second tries while the first runs.
fn refused_while_it_beats(
    first: &mut Machine,
    second: &mut Machine,
    layout: &PoolLayout,
) -> Result<(), String> {
    let answer = Rc::new(RefCell::new(None));
    let told = answer.clone();
    let opening = open_as(&second.runtime(), layout, &second.opener);
    let _detached = second.runtime().spawn(Priority::Host, async move {
        let kind = opening.await.map(drop).map_err(|trouble| trouble.kind);
        *told.borrow_mut() = Some(kind);
    });
    side_by_side(first, second, &|| answer.borrow().is_some())?;
    match answer.take() {
        Some(Err(TroubleKind::Gone)) => Ok(()),
        other => Err(format!("opened beside one that beats: {other:?}")),
    }
}

#[test]
fn a_second_engine_waits_for_the_first_and_the_first_stops_for_the_second() {
    for seed in 0..20 {
        if let Err(what) = run(seed) {
            panic!("seed {seed}: {what}");
        }
    }
}
