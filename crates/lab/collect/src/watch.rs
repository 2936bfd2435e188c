//! The thread that looks while somebody works.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ashlar_postgres::Address;
use ashlar_target::{Counters, PoolCounters};

use crate::machine;
use crate::processor;
use crate::sample::{Reading, Sample};
use crate::server::{self, Watching};

/// A run that is longer is looked at less often.
const LONG: Duration = Duration::from_secs(3600);
const INTERVAL: Duration = Duration::from_secs(1);
const INTERVAL_LONG: Duration = Duration::from_secs(5);

/// How often a run of this length is looked at.
#[must_use]
pub fn interval(length: Duration) -> Duration {
    if length > LONG { INTERVAL_LONG } else { INTERVAL }
}

/// Where to look, beside the machine.
#[derive(Default)]
pub struct Sources<'a> {
    /// Name of the target's block device.
    pub disk: Option<&'a str>,
    /// Of the one that a database's log lies on, where it is another.
    pub log_disk: Option<&'a str>,
    /// They need not run yet.
    pub servers: Vec<Address>,
    /// What the pool counted so far.
    pub array: Option<&'a (dyn Fn() -> Option<PoolCounters> + Sync)>,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    pub samples: Vec<Sample>,
    /// Processor time of looking: of the thread, and of the sessions that answered it.
    pub processor_time: Duration,
    pub elapsed: Duration,
}

/// Has something done, and looks on.
pub fn during<T>(sources: &Sources<'_>, interval: Duration, work: impl FnOnce() -> T) -> (T, Watched) {
    let (over, is_over) = channel::<()>();
    std::thread::scope(|scope| {
        let watcher = scope.spawn(move || watch(sources, interval, &is_over));
        let done = work();
        drop(over);
        (done, watcher.join().expect("a panic ends the process"))
    })
}

/// Until the other end of the channel goes.
fn watch(sources: &Sources<'_>, interval: Duration, is_over: &Receiver<()>) -> Watched {
    let begun = Instant::now();
    let mut servers: Vec<Watching<'_>> = sources.servers.iter().map(Watching::new).collect();
    let mut before = look(sources, &mut servers);
    let mut samples = Vec::new();
    let mut due = begun + interval;
    loop {
        let wait = due.saturating_duration_since(Instant::now());
        let is_last = is_over.recv_timeout(wait) != Err(RecvTimeoutError::Timeout);
        if is_last {
            break;
        }
        let now = look(sources, &mut servers);
        samples.push(now.since(&before));
        before = now;
        // What came late is not made up for.
        while due <= Instant::now() {
            due += interval;
        }
    }
    let of_servers: Duration = servers.iter().map(Watching::processor_time).sum();
    let processor_time = processor::of_this_thread() + of_servers;
    Watched { samples, processor_time, elapsed: begun.elapsed() }
}

fn look(sources: &Sources<'_>, servers: &mut [Watching<'_>]) -> Reading {
    let found: Vec<server::Reading> = servers.iter_mut().filter_map(Watching::look).collect();
    Reading {
        at: Instant::now(),
        unix_millis: unix_millis(),
        machine: machine::Reading::now(),
        disk: sources.disk.and_then(Counters::of),
        log_disk: sources.log_disk.and_then(Counters::of),
        server: found.into_iter().reduce(server::Reading::and),
        array: sources.array.and_then(|counted| counted()),
    }
}

fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
