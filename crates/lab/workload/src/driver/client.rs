//! One client's thread: draws, waits until it is due, tries, counts.

use ashlar_statistics::latencies::Latencies;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::random::Random;
use crate::workload::{Client, Done};

use super::outcome::{Ending, KindOutcome};
use super::pace::Pace;
use super::plan::Length;
use super::shared::Shared;

/// The first repetition comes at once; the second after up to this, at random, and each further one after up
/// to twice as much. Without it, a transaction that met one whose commit waits for the storage is tried again
/// and again for as long: measured with serializable `orders`, 28 repetitions a transaction.
const PAUSE: Duration = Duration::from_millis(1);
/// Arbitrary: the longest pause is 64 times the first.
const PAUSE_DOUBLINGS_MAX: u32 = 6;

/// What one client counted in the measured phase.
pub(super) struct Tally {
    pub(super) kinds: Vec<KindOutcome>,
    /// Of an open loop: from due to begun.
    pub(super) lag: Latencies,
    /// When its last transaction ended.
    pub(super) last_end: Duration,
}

pub(super) struct Runner<'a, C> {
    shared: &'a Shared<'a>,
    number: usize,
    client: C,
    random: Random,
    tally: Tally,
    /// How many of the measured phase it began.
    measured: u64,
    second: u64,
    second_kinds: Vec<Latencies>,
}

/// How often a transaction was tried again, and how it ended.
type Ended = (u32, Result<Done, Error>);

impl<'a, C: Client> Runner<'a, C> {
    pub(super) fn new(shared: &'a Shared<'a>, number: usize, client: C) -> Runner<'a, C> {
        let named =
            |kind: &crate::workload::Kind| KindOutcome { name: kind.name.into(), ..Default::default() };
        Runner {
            shared,
            number,
            client,
            random: Random::new(shared.plan.seed, number as u64),
            tally: Tally {
                kinds: shared.kinds.iter().map(named).collect(),
                lag: Latencies::default(),
                last_end: Duration::ZERO,
            },
            measured: 0,
            second: 0,
            second_kinds: vec![Latencies::default(); shared.kinds.len()],
        }
    }

    /// Until the run is over.
    pub(super) fn run(mut self) -> Tally {
        let mut pace = Pace::new(self.shared.plan.pace, self.shared.schedule.as_ref());
        while !self.shared.is_over() && !self.is_past_end() {
            let kind = self.client.draw(&mut self.random);
            let due = pace.due(&self.shared.kinds[kind], &mut self.random, self.shared.now());
            if self.is_too_late(due) {
                break;
            }
            self.flush_before(due.max(self.shared.now()));
            if !self.shared.wait_until(due) {
                break;
            }
            let begun = self.shared.now();
            let ended = self.perform();
            let now = self.shared.now();
            pace.ended(&self.shared.kinds[kind], &mut self.random, now);
            if !self.count(kind, [due, begun, now], ended) {
                break;
            }
        }
        self.flush_before(Duration::MAX);
        self.tally
    }

    /// Whatever is due: after the end nothing more begins, or a long queue of arrivals would be worked off.
    fn is_past_end(&self) -> bool {
        self.shared.end_planned().is_some_and(|end| self.shared.now() >= end)
    }

    fn is_too_late(&self, due: Duration) -> bool {
        match self.shared.plan.measure {
            Length::Time(_) => self.shared.end_planned().is_some_and(|end| due >= end),
            Length::TransactionsPerClient(count) => self.measured >= count,
        }
    }

    /// Tries the transaction until it is done, fails, or met others too often.
    fn perform(&mut self) -> Ended {
        for retries in 0.. {
            let error = match self.client.attempt() {
                Ok(done) => return (retries, Ok(done)),
                Err(error) => error,
            };
            if error.kind == ErrorKind::Lost {
                return (retries, Err(error));
            }
            if let Err(lost) = self.client.abandon() {
                // What was tried before is known not to be done; but nothing more can be.
                let kind = ErrorKind::Lost;
                return (retries, Err(Error { kind, context: format!("{error}; then {lost}") }));
            }
            let is_last = retries >= self.shared.plan.retries_max || self.shared.is_over();
            if error.kind != ErrorKind::Conflict || is_last {
                return (retries, Err(error));
            }
            if retries > 0 {
                let longest = PAUSE * (1 << (retries - 1).min(PAUSE_DOUBLINGS_MAX));
                let pause = longest.mul_f64(self.random.share());
                self.shared.wait_until(self.shared.now() + pause);
            }
        }
        unreachable!("the number of retries has a limit")
    }

    /// Counts a transaction that was due, begun and ended at these times; answers whether to go on.
    fn count(&mut self, kind: usize, [due, begun, end]: [Duration; 3], (retries, ended): Ended) -> bool {
        let nanos = |from: Duration| end.saturating_sub(from).as_nanos() as u64;
        let is_measured = due >= self.shared.plan.warm_up;
        if is_measured {
            self.measured += 1;
            self.tally.last_end = end;
            if self.shared.schedule.is_some() {
                self.tally.lag.add(begun.saturating_sub(due).as_nanos() as u64);
            }
            let tally = &mut self.tally.kinds[kind];
            tally.attempted += 1;
            tally.retries += u64::from(retries);
            if ended.is_ok() {
                tally.latency.add(nanos(due));
                tally.service.add(nanos(begun));
            }
            match &ended {
                Ok(Done::Committed) => tally.committed += 1,
                Ok(Done::RolledBack) => tally.rolled_back += 1,
                Err(error) => count_error(tally, error),
            }
        }
        match ended {
            Ok(_) => {
                let second = end.as_secs();
                self.flush_before(end);
                self.second = second;
                self.second_kinds[kind].add(nanos(due));
                self.shared.done.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(error) => self.fail(kind, &error),
        }
    }

    fn fail(&self, kind: usize, error: &Error) -> bool {
        let failed = self.shared.failed.fetch_add(1, Ordering::Relaxed) + 1;
        let sight = || self.shared.sight(self.number, kind, &error.context);
        if error.kind == ErrorKind::Lost {
            self.shared.end(Ending::Lost(sight()));
        } else if failed >= self.shared.plan.errors_max {
            self.shared.end(Ending::Failed(sight()));
        }
        !self.shared.is_over()
    }

    /// Hands in what was finished in an earlier second, so that a client that waits keeps nothing back.
    fn flush_before(&mut self, now: Duration) {
        if now.as_secs() == self.second || self.second_kinds.iter().all(|kind| kind.count() == 0) {
            return;
        }
        let mut timeline = self.shared.timeline.lock().unwrap_or_else(PoisonError::into_inner);
        timeline.add(self.second, &self.second_kinds);
        self.second_kinds.fill(Latencies::default());
    }
}

fn count_error(tally: &mut KindOutcome, error: &Error) {
    match error.kind {
        ErrorKind::Lost => tally.unknown += 1,
        ErrorKind::Conflict => tally.gave_up += 1,
        _ => tally.errors += 1,
    }
    if error.kind != ErrorKind::Conflict {
        tally.first_error.get_or_insert_with(|| error.context.clone());
    }
}
