//! One seed from the first drive to the farewell.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use ashlar_runtime::Instant;

use crate::chance::Chance;
use crate::content::forget_forged;
use crate::drives::{Crash, DriveArray, DriveCounters, FaultRates};
use crate::life::{Errand, Machine};
use crate::oracle::Oracle;
use crate::record::{Counters, Record};
use crate::scenario::{Ending, LifeFaults, Scenario};
use crate::system::SystemMaker;
use crate::two_engines;
use crate::wall_clock::WallClock;

/// What a seed did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeedReport {
    /// Hash of everything that happened.
    pub digest: u64,
    /// Steps of the scheduler.
    pub steps: u64,
    /// Rare events and how often they happened.
    pub probes: BTreeMap<&'static str, u64>,
    /// What was done.
    pub counters: Counters,
    /// What the drives did.
    pub drives: DriveCounters,
    /// Why it is wrong, if it is.
    pub verdict: Option<String>,
    /// The life in which that showed.
    pub life: u64,
    /// The last operations, when they were recorded.
    pub trace: Vec<String>,
}

const NO_FAULTS: FaultRates = FaultRates {
    read_error: 0,
    write_error: 0,
    write_timeout: 0,
    sync_error: 0,
    sync_error_of_block: 0,
    superblock_error: 0,
    no_space: 0,
    sticky_per_mille: 0,
    lost_write: 0,
    misdirected_write: 0,
    bit_rot: 0,
    death: 0,
    slowness: 0,
};

/// Runs one seed against the system that `maker` makes.
#[must_use]
pub fn run_seed(seed: u64, maker: Rc<dyn SystemMaker>, is_tracing: bool) -> SeedReport {
    forget_forged();
    let mut chance = Chance::new(seed);
    let scenario = Rc::new(Scenario::of_seed(seed, &mut chance));
    let mut array = DriveArray::new(chance.next(), scenario.sector_bytes, scenario.pace);
    array.be_block_devices(scenario.has_block_devices);
    array.limit_faults_to(scenario.victim_paths());
    if scenario.forger.is_some() {
        array.watch();
    }
    if scenario.has_late_writes {
        array.let_writes_be_late(seed);
    }
    let record = Rc::new(Record::new(is_tracing));
    record.note(|| format!("{scenario:?}"));
    let mut machine = Machine {
        array: Rc::new(RefCell::new(array)),
        oracle: Rc::new(RefCell::new(Oracle::new(scenario.unit_bytes_max()))),
        record: record.clone(),
        scenario: scenario.clone(),
        maker,
        kernel: Rc::default(),
        wall_clock: scenario.has_clock_jumps.then(|| WallClock::new(seed)),
        now: Instant::default(),
        steps: 0,
    };
    let life = live_all(&mut machine, &scenario, &mut chance);
    if !record.has_failed() && machine.maker.is_on_drives() {
        two_engines::verdict_of(seed).into_iter().for_each(|wrong| record.fail(wrong));
    }
    let at_home = machine.array.borrow().sight().map_or(0, |sight| sight.forged_at_home);
    record.count(|counters| counters.forged_at_home = at_home);
    let drives = machine.array.borrow().counters();
    SeedReport {
        digest: record.digest(),
        steps: machine.steps,
        probes: record.probes(),
        counters: record.counters(),
        drives,
        verdict: record.verdict(),
        life,
        trace: record.trace(),
    }
}

/// Runs the lives; returns the last one's number.
fn live_all(machine: &mut Machine, scenario: &Scenario, chance: &mut Chance) -> u64 {
    let quiet = LifeFaults { while_starting: NO_FAULTS, while_running: NO_FAULTS };
    // What creation promised must survive the hardest loss of power.
    let how = Crash::Power { survival_per_mille: 0 };
    let hard = Ending::Crash { after_steps: u64::MAX, in_change: None, is_endless: false, how };
    machine.live(Errand::Create, hard, quiet, chance);
    for life in 1..=scenario.lives {
        if machine.record.has_failed() {
            return life - 1;
        }
        let faults = scenario.draw_faults(chance);
        let ending = scenario.draw_ending(chance);
        let was_damaged = machine.array.borrow().is_damaged();
        machine.live(Errand::Work, ending, faults, chance);
        if was_damaged {
            // The oracle knows no more than what was ever written; nothing is left to learn.
            return life;
        }
    }
    if machine.record.has_failed() {
        return scenario.lives;
    }
    if !machine.array.borrow().is_damaged() {
        machine.live(Errand::Farewell, Ending::Close, quiet, chance);
        if !machine.record.has_failed() {
            machine.live(Errand::Farewell, Ending::Close, quiet, chance);
        }
    }
    scenario.lives + 1
}
