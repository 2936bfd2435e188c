//! What the clients of a run share: when it began, whether it is over, and the sums.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::outcome::{Ending, Sight};
use super::pace::Schedule;
use super::plan::{Length, Plan};
use super::timeline::Timeline;
use crate::workload::Kind;

pub(super) struct Shared<'a> {
    pub(super) plan: &'a Plan,
    pub(super) kinds: Vec<Kind>,
    pub(super) schedule: Option<Schedule>,
    pub(super) timeline: Mutex<Timeline>,
    /// Transactions that ended well, in all phases.
    pub(super) done: AtomicU64,
    /// Transactions that failed, in all phases.
    pub(super) failed: AtomicU64,
    /// Set once, when every client is ready.
    start: OnceLock<Instant>,
    is_over: AtomicBool,
    ending: Mutex<Option<(Ending, Duration)>>,
}

impl<'a> Shared<'a> {
    pub(super) fn new(plan: &'a Plan, kinds: Vec<Kind>) -> Shared<'a> {
        Shared {
            plan,
            kinds,
            schedule: Schedule::of(plan.pace, plan.seed),
            timeline: Mutex::default(),
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            start: OnceLock::new(),
            is_over: AtomicBool::new(false),
            ending: Mutex::new(None),
        }
    }

    /// Lets the clients begin; whoever waits must be unparked.
    pub(super) fn begin(&self) {
        assert!(self.start.set(Instant::now()).is_ok(), "a run begins once");
    }

    /// Since the run began.
    pub(super) fn now(&self) -> Duration {
        self.start.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    pub(super) fn has_begun(&self) -> bool {
        self.start.get().is_some()
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Ends the run; the first to say why is the one that counts.
    pub(super) fn end(&self, ending: Ending) {
        let mut first = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert((ending, self.now()));
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Why it ended before its time, and when.
    pub(super) fn ended_early(&self) -> Option<(Ending, Duration)> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn sight(&self, client: usize, kind: usize, context: &str) -> Sight {
        Sight {
            client,
            kind: self.kinds[kind].name.to_string(),
            at_seconds: self.now().as_secs_f64(),
            context: context.to_string(),
        }
    }

    /// When the measured phase ends; `None` where the clients count.
    pub(super) fn end_planned(&self) -> Option<Duration> {
        match self.plan.measure {
            Length::Time(time) => Some(self.plan.warm_up + time),
            Length::TransactionsPerClient(_) => None,
        }
    }

    /// Waits until then, but not longer than the run; answers whether it is still on. Whoever ends the run
    /// unparks the threads that wait.
    pub(super) fn wait_until(&self, due: Duration) -> bool {
        loop {
            let now = self.now();
            if self.is_over() {
                return false;
            }
            if now >= due {
                return true;
            }
            std::thread::park_timeout(due - now);
        }
    }
}
