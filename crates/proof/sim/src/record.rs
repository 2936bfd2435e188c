//! What a run leaves behind: its verdict, counters, and the last operations for a failure's report.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};

use crate::chance::mix;
use crate::oracle::CHANGE_KINDS;

/// Beside the kinds of changes: a drive has everything again.
pub const DRIVE_RESTORED: usize = CHANGE_KINDS;

/// Lines kept for a failure's report. Arbitrary: a screenful or three.
const TRACE_LINES_MAX: usize = 150;

/// Where a life is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    /// The pool starts, recovers.
    #[default]
    Starting,
    /// Everything is read and checked.
    Examining,
    /// The workload runs.
    Working,
    /// The workload is done.
    Done,
}

/// What a seed did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    pub requests: u64,
    /// Writes among them that forge structures of the pool.
    pub forged: u64,
    /// Groups they hold at the very places that these name.
    pub forged_at_home: u64,
    pub changes: u64,
    pub no_space: u64,
    /// Writes among them of which it was judged whether the pool could be full.
    pub refusals_judged: u64,
    pub drive_troubles: u64,
    pub crashes: u64,
    /// Crashes by [`Phase`].
    pub crashes_in: [u64; 4],
    /// Crashes with a change of metadata in flight.
    pub crashes_in_change: u64,
    pub closes: u64,
    pub starts: u64,
    pub failed_starts: u64,
    pub images_verified: u64,
    pub bytes_verified: u64,
    pub checks: u64,
    pub note_batches: u64,
    /// Pairs of images whose difference was compared with their bytes.
    pub differences: u64,
    /// Blocks that were told to differ.
    pub blocks_told: u64,
    /// Of these, blocks whose bytes are equal.
    pub blocks_told_equal: u64,
}

impl Counters {
    /// Adds another run's.
    pub fn add(&mut self, other: &Counters) {
        self.requests += other.requests;
        self.forged += other.forged;
        self.forged_at_home += other.forged_at_home;
        self.changes += other.changes;
        self.no_space += other.no_space;
        self.refusals_judged += other.refusals_judged;
        self.drive_troubles += other.drive_troubles;
        self.crashes += other.crashes;
        self.closes += other.closes;
        self.crashes_in_change += other.crashes_in_change;
        for (mine, other) in self.crashes_in.iter_mut().zip(other.crashes_in) {
            *mine += other;
        }
        self.starts += other.starts;
        self.failed_starts += other.failed_starts;
        self.images_verified += other.images_verified;
        self.bytes_verified += other.bytes_verified;
        self.checks += other.checks;
        self.note_batches += other.note_batches;
        self.differences += other.differences;
        self.blocks_told += other.blocks_told;
        self.blocks_told_equal += other.blocks_told_equal;
    }
}

/// The run's notebook. Lives outside the simulated machine.
pub struct Record {
    verdict: RefCell<Option<String>>,
    trace: RefCell<VecDeque<String>>,
    is_tracing: bool,
    counters: Cell<Counters>,
    digest: Cell<u64>,
    last_progress_nanos: Cell<u64>,
    phase: Cell<Phase>,
    probes: RefCell<BTreeMap<&'static str, u64>>,
    changes_issued_in_life: Cell<[u64; CHANGE_KINDS + 1]>,
}

impl Record {
    /// An empty notebook; lines are kept with `is_tracing` only, because making them costs time.
    #[must_use]
    pub fn new(is_tracing: bool) -> Record {
        Record {
            verdict: RefCell::new(None),
            trace: RefCell::new(VecDeque::new()),
            is_tracing,
            counters: Cell::new(Counters::default()),
            digest: Cell::new(0),
            last_progress_nanos: Cell::new(0),
            phase: Cell::default(),
            probes: RefCell::default(),
            changes_issued_in_life: Cell::default(),
        }
    }

    /// The run is wrong; the first reason counts.
    pub fn fail(&self, what: impl Into<String>) {
        let what = what.into();
        self.note(|| format!("FAILED: {what}"));
        self.verdict.borrow_mut().get_or_insert(what);
    }

    /// Why the run is wrong, if it is.
    #[must_use]
    pub fn verdict(&self) -> Option<String> {
        self.verdict.borrow().clone()
    }

    /// True when the run is wrong.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.verdict.borrow().is_some()
    }

    /// Keeps a line for the report.
    pub fn note(&self, line: impl FnOnce() -> String) {
        if !self.is_tracing {
            return;
        }
        let mut trace = self.trace.borrow_mut();
        if trace.len() == TRACE_LINES_MAX {
            trace.pop_front();
        }
        trace.push_back(line());
    }

    /// The lines kept.
    #[must_use]
    pub fn trace(&self) -> Vec<String> {
        self.trace.borrow().iter().cloned().collect()
    }

    /// Changes the counters.
    pub fn count(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters.get()
    }

    /// Mixes a fact into the digest of the run.
    pub fn digest_fact(&self, fact: u64) {
        self.digest.set(mix(self.digest.get().rotate_left(7) ^ fact));
    }

    /// Hash of everything that happened; equal for equal seeds.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest.get()
    }

    /// A life begins.
    pub fn begin_life(&self, now_nanos: u64) {
        self.changes_issued_in_life.set(Default::default());
        self.enter(Phase::Starting);
        self.progress(now_nanos);
    }

    /// The life enters a phase.
    pub fn enter(&self, phase: Phase) {
        self.phase.set(phase);
    }

    /// Where the life is.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Adds to the rare events.
    pub fn add_probes(&self, probes: &[(&'static str, u64)]) {
        for (name, count) in probes {
            *self.probes.borrow_mut().entry(name).or_default() += count;
        }
    }

    /// The rare events.
    #[must_use]
    pub fn probes(&self) -> BTreeMap<&'static str, u64> {
        self.probes.borrow().clone()
    }

    /// A change of metadata of this kind is issued, or a drive has been restored.
    pub fn change_issued(&self, kind: usize) {
        let mut counts = self.changes_issued_in_life.get();
        counts[kind] += 1;
        self.changes_issued_in_life.set(counts);
    }

    /// Changes of metadata of a kind, or of all, issued in this life.
    #[must_use]
    pub fn changes_issued_in_life(&self, kind: Option<usize>) -> u64 {
        let counts = self.changes_issued_in_life.get();
        kind.map_or(counts.iter().sum(), |kind| counts[kind])
    }

    /// Some request completed now.
    pub fn progress(&self, now_nanos: u64) {
        self.last_progress_nanos.set(now_nanos);
    }

    /// When the last request completed.
    #[must_use]
    pub fn last_progress_nanos(&self) -> u64 {
        self.last_progress_nanos.get()
    }
}
