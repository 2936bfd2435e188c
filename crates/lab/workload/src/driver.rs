//! Drives many clients of a workload at the same time, and times what they do.
//!
//! ```text
//!            ┌ client 0: draw ▸ wait until due ▸ try, again after conflicts ▸ count ┐
//!  prepare ──┤ client 1: …                                                          ├── merge ──▶ Outcome
//!            └ client n: …                                                          ┘
//!  this thread:  begin │ warm-up │ measured phase │ wait for the last answers
//! ```
//! The room that runs scenarios calls [`run`]. It knows nothing of what a transaction does.
//!
//! 1. A transaction counts in the phase it was *due* in, and its latency counts from then, however late it
//!    began: a stall is felt by all who had to wait for it.
//! 2. A transaction that was begun is waited for; the session's limit bounds that.
//! 3. When the server is lost the run ends, and all that was counted until then stays.

mod client;
mod outcome;
mod pace;
mod plan;
mod processor;
mod shared;
mod timeline;

pub use ashlar_statistics::latencies::Latencies;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use outcome::{Arrivals, Ending, KindOutcome, Outcome, Second, SecondOfKind, Sight};
pub use plan::{Length, Loop, Plan};

use crate::error::{Error, Result};
use crate::workload::Workload;
use client::{Runner, Tally};
use shared::Shared;

/// How often this thread looks whether somebody asked to stop, or a client ended the run. Arbitrary: not felt
/// by who presses Ctrl-C, and nothing beside what the clients do.
const TICK: Duration = Duration::from_millis(20);

/// What a run is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Not counted.
    WarmUp,
    /// Counted.
    Measured,
    /// Over, but for the last answers.
    Finishing,
}

/// How far a run is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// What it is doing.
    pub phase: Phase,
    /// Since it began.
    pub elapsed: Duration,
    /// Transactions that ended well since then.
    pub done: u64,
    /// Transactions that failed since then.
    pub failed: u64,
}

/// Somebody who looks on. Called by the thread that called [`run`], never by a client's.
pub trait Observer {
    /// A phase began. The clients do not wait for the answer.
    fn began(&mut self, _phase: Phase) {}

    /// About a second passed.
    fn second(&mut self, _progress: &Progress) {}
}

impl Observer for () {}

/// Runs a workload as planned, until it is over, `stop` is set, or the server is lost.
///
/// # Errors
/// When the plan cannot be, or a client cannot get ready. What happens after that is in the outcome.
pub fn run<W: Workload>(
    workload: &W,
    plan: &Plan,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    plan.check()?;
    let shared = Shared::new(plan, workload.kinds());
    std::thread::scope(|scope| {
        let clients = prepare(scope, workload, &shared)?;
        let watched = watch(&shared, &clients, stop, observer);
        let joined = clients.into_iter().map(|client| match client.join() {
            Ok(tally) => tally,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        Ok(outcome(&shared, joined.collect(), &watched))
    })
}

/// A client's thread. It answers nothing when the run did not begin.
type Thread<'scope> = ScopedJoinHandle<'scope, Option<Tally>>;

/// Starts the clients' threads and waits until all are ready.
fn prepare<'scope, W: Workload>(
    scope: &'scope Scope<'scope, '_>,
    workload: &'scope W,
    shared: &'scope Shared<'scope>,
) -> Result<Vec<Thread<'scope>>> {
    let count = shared.plan.clients;
    let (ready, answers) = mpsc::channel();
    let spawn = |number| {
        let ready = ready.clone();
        scope.spawn(move || {
            let client = workload.client(number, count);
            let (client, answer) = match client {
                Ok(client) => (Some(client), Ok(())),
                Err(error) => (None, Err(error.while_doing(&format!("prepare client {number}")))),
            };
            let is_heard = ready.send(answer).is_ok();
            // Or a client that panics would be waited for.
            drop(ready);
            while is_heard && !shared.has_begun() && !shared.is_over() {
                std::thread::park_timeout(TICK);
            }
            client.filter(|_| shared.has_begun()).map(|client| Runner::new(shared, number, client).run())
        })
    };
    let threads: Vec<Thread> = (0..count).map(spawn).collect();
    drop(ready);
    let mut failure = None;
    for _ in 0..count {
        match answers.recv() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => failure = failure.or(Some(error)),
            Err(_gone) => failure = failure.or(Some(Error::environment("a client's thread died"))),
        }
    }
    match failure {
        None => shared.begin(),
        Some(_) => shared.end(Ending::Stopped),
    }
    threads.iter().for_each(|thread| thread.thread().unpark());
    failure.map_or(Ok(threads), Err)
}

/// What this thread saw while the clients worked.
struct Watched {
    /// When all clients had ended.
    end: Duration,
    /// When the measured phase began.
    measured_unix_millis: Option<u64>,
    processor_seconds: Option<f64>,
}

/// Looks on until every client ended: phases, seconds, and whether to stop.
fn watch(shared: &Shared, clients: &[Thread], stop: &AtomicBool, observer: &mut dyn Observer) -> Watched {
    let mut phase = Phase::WarmUp;
    let mut second = 0;
    let mut busy = [None; 2];
    let mut measured_unix_millis = None;
    observer.began(phase);
    loop {
        if stop.load(Ordering::Relaxed) {
            shared.end(Ending::Stopped);
        }
        if shared.is_over() {
            clients.iter().for_each(|client| client.thread().unpark());
        }
        let is_done = clients.iter().all(ScopedJoinHandle::is_finished);
        let now = shared.now();
        let next = phase_at(shared, now, is_done);
        while phase != next {
            // Even the shortest measured phase has a beginning.
            let has_measured = phase == Phase::Measured || now < shared.plan.warm_up;
            phase = if has_measured { next } else { Phase::Measured };
            busy[usize::from(phase == Phase::Finishing)] = processor::seconds();
            if phase == Phase::Measured {
                measured_unix_millis = unix_millis();
            }
            observer.began(phase);
        }
        if now.as_secs() > second {
            second = now.as_secs();
            let counts = [&shared.done, &shared.failed].map(|count| count.load(Ordering::Relaxed));
            observer.second(&Progress { phase, elapsed: now, done: counts[0], failed: counts[1] });
            shared.timeline.lock().unwrap_or_else(PoisonError::into_inner).tidy(second);
        }
        if is_done && phase == Phase::Finishing {
            let processor_seconds = busy[0].zip(busy[1]).map(|(first, last)| last - first);
            return Watched { end: now, processor_seconds, measured_unix_millis };
        }
        std::thread::sleep(until_next(shared, shared.now()));
    }
}

fn unix_millis() -> Option<u64> {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

fn phase_at(shared: &Shared, now: Duration, is_done: bool) -> Phase {
    // Clients with pauses are done before the end when nothing more is due; the phase still is as long as
    // planned.
    if shared.is_over() || shared.end_planned().map_or(is_done, |end| now >= end) {
        Phase::Finishing
    } else if now >= shared.plan.warm_up {
        Phase::Measured
    } else {
        Phase::WarmUp
    }
}

/// A tick, or less when a phase begins before.
fn until_next(shared: &Shared, now: Duration) -> Duration {
    let changes = [Some(shared.plan.warm_up), shared.end_planned()];
    let to_come = changes.into_iter().flatten().filter(|change| *change > now).map(|change| change - now);
    to_come.min().unwrap_or(TICK).min(TICK)
}

fn outcome(shared: &Shared, tallies: Vec<Option<Tally>>, watched: &Watched) -> Outcome {
    let plan = shared.plan;
    let mut kinds: Vec<KindOutcome> = Vec::new();
    let mut lag = Latencies::default();
    let mut last_end = Duration::ZERO;
    for tally in tallies.into_iter().flatten() {
        lag.merge(&tally.lag);
        last_end = last_end.max(tally.last_end);
        if kinds.is_empty() {
            kinds = tally.kinds;
        } else {
            kinds.iter_mut().zip(&tally.kinds).for_each(|(sum, more)| sum.merge(more));
        }
    }
    let early = shared.ended_early();
    let end = match (&early, shared.end_planned()) {
        (Some((_, at)), planned) => planned.map_or(*at, |planned| planned.min(*at)),
        (None, Some(planned)) => planned,
        (None, None) => last_end,
    };
    let timeline = std::mem::take(&mut *shared.timeline.lock().unwrap_or_else(PoisonError::into_inner));
    Outcome {
        pace: plan.pace,
        clients: plan.clients,
        seed: plan.seed,
        warm_up_seconds: plan.warm_up.as_secs_f64(),
        measured_seconds: end.saturating_sub(plan.warm_up).as_secs_f64(),
        ending: early.map_or(Ending::Complete, |(ending, _)| ending),
        kinds,
        measured_unix_millis: watched.measured_unix_millis,
        seconds: timeline.finish(watched.end.as_secs() + 1, shared.kinds.len()),
        arrivals: shared.schedule.as_ref().map(|schedule| arrivals(schedule, lag, plan, end)),
        client_processor_seconds: watched.processor_seconds,
        processors: std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// What was due, and what of it no client was free for.
fn arrivals(schedule: &pace::Schedule, lag: Latencies, plan: &Plan, end: Duration) -> Arrivals {
    let served = lag.count();
    let mut unserved = 0;
    let mut next = schedule.take();
    while next < end {
        unserved += u64::from(next >= plan.warm_up);
        next = schedule.take();
    }
    let due = served + unserved;
    // By chance a few wait at any moment: as many as there are clients, or one in a hundred (arbitrary).
    let fell_behind = unserved > (plan.clients as u64).max(due / 100);
    Arrivals { due, unserved, lag, fell_behind }
}

#[cfg(test)]
mod tests;
