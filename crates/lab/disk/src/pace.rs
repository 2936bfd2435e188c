//! When a request may be answered: requests and times in, due answers with their times out. No clock.
//!
//! A limit is a bucket that holds some milliseconds of what was not used: without it, whatever an answer came
//! late would be lost for good, and a limit of 1,000 would be 900.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use ashlar_model::array::{Array, Counters, RequestId};
use ashlar_model::{Kind as Operation, Request};

use crate::error::{Error, ErrorKind, Result};
use crate::spec::{Kind, Limit, Spec};

/// How much unused time a limit makes up for: above the 30 ms that a busy machine was late by, and well below
/// the second over which people take rates.
const UNUSED_MAX: Duration = Duration::from_millis(50);

/// What a host asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    Read,
    Write,
    Flush,
}

/// The name of a request that waits.
pub(crate) type Ticket = u64;

/// Decides when.
#[derive(Debug)]
pub(crate) struct Pace {
    machine: Machine,
    ticket_count: u64,
    /// Of the requests that the model has.
    tickets: BTreeMap<RequestId, Ticket>,
    /// Of all others.
    timers: BinaryHeap<Reverse<(Duration, Ticket)>>,
}

#[derive(Debug)]
enum Machine {
    Array(Box<Array>),
    Limit(Limiter),
}

#[derive(Debug)]
struct Limiter {
    limit: Limit,
    /// When the next request may begin.
    free_at: Duration,
}

impl Pace {
    /// None for a disk that is as fast as it is.
    pub(crate) fn new(spec: &Spec) -> Result<Option<Pace>> {
        let machine = match &spec.kind {
            Kind::Plain | Kind::Liar(_) | Kind::Flash(_) => return Ok(None),
            Kind::Limit(limit) => Machine::Limit(Limiter { limit: *limit, free_at: Duration::ZERO }),
            Kind::Model(array) => {
                let array = Array::new((**array).clone(), spec.seed)
                    .map_err(|error| Error::new(ErrorKind::Description, error.to_string()))?;
                Machine::Array(Box::new(array))
            }
        };
        let (tickets, timers) = (BTreeMap::new(), BinaryHeap::new());
        Ok(Some(Pace { machine, ticket_count: 0, tickets, timers }))
    }

    /// A request arrives.
    pub(crate) fn submit(&mut self, now: Duration, asked: Asked, offset: u64, length: u64) -> Ticket {
        let ticket = self.ticket_count;
        self.ticket_count += 1;
        let kind = match asked {
            Asked::Read => Some(Operation::Read),
            Asked::Write => Some(Operation::Write),
            Asked::Flush => None,
        };
        match (&mut self.machine, kind) {
            (Machine::Array(array), Some(kind)) => {
                let request = Request { kind, offset_bytes: offset, length_bytes: length };
                self.tickets.insert(array.submit(now, request), ticket);
            }
            (Machine::Array(array), None) => {
                self.timers.push(Reverse((now + array.spec().overhead, ticket)));
            }
            (Machine::Limit(limiter), kind) => {
                let at = limiter.time_of(now, kind.map(|_| length));
                self.timers.push(Reverse((at, ticket)));
            }
        }
        ticket
    }

    /// When to call [`Pace::advance`] next, if nothing else is submitted.
    pub(crate) fn next(&self) -> Option<Duration> {
        let of_model = match &self.machine {
            Machine::Array(array) => array.next_event(),
            Machine::Limit(_) => None,
        };
        let timer = self.timers.peek().map(|Reverse((at, _))| *at);
        of_model.into_iter().chain(timer).min()
    }

    /// The requests whose time has come by now, each with its time.
    pub(crate) fn advance(&mut self, now: Duration) -> Vec<(Ticket, Duration)> {
        let mut due = Vec::new();
        if let Machine::Array(array) = &mut self.machine {
            for done in array.advance(now) {
                due.extend(self.tickets.remove(&done.id).map(|ticket| (ticket, done.at)));
            }
        }
        while let Some(Reverse((at, ticket))) = self.timers.peek().copied().filter(|timer| timer.0.0 <= now) {
            self.timers.pop();
            due.push((ticket, at));
        }
        due
    }

    /// What the model counted; `None` without one.
    pub(crate) fn of_model(&self) -> Option<Counters> {
        match &self.machine {
            Machine::Array(array) => Some(array.counters()),
            Machine::Limit(_) => None,
        }
    }
}

impl Limiter {
    /// When a request of so many bytes is answered that arrives now; a flush has none and takes no share.
    fn time_of(&mut self, now: Duration, length: Option<u64>) -> Duration {
        let Limit { requests_per_second, bytes_per_second, latency } = self.limit;
        let Some(length) = length else { return now + latency };
        let for_one = requests_per_second.map(|count| Duration::from_secs(1) / count);
        let nanos = |bytes_per_second: u64| u128::from(length) * 1_000_000_000 / u128::from(bytes_per_second);
        let for_bytes = bytes_per_second.map(|rate| Duration::from_nanos(nanos(rate) as u64));
        let cost = for_one.into_iter().chain(for_bytes).max().unwrap_or_default();
        let begin = self.free_at.max(now.saturating_sub(UNUSED_MAX));
        self.free_at = begin + cost;
        begin.max(now) + latency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(address: &str) -> Pace {
        let kind = Kind::parse(address).unwrap();
        Pace::new(&Spec { backing: "x".into(), size_bytes: 1 << 30, kind, seed: 1 }).unwrap().unwrap()
    }

    /// Asks for blocks of 64 KiB, the next always so long after the answer to the one before.
    fn answers(pace: &mut Pace, count: usize, timer_error: Duration) -> Vec<Duration> {
        let mut now = Duration::ZERO;
        let mut times = Vec::new();
        for _ in 0..count {
            let ticket = pace.submit(now, Asked::Read, 0, 64 << 10);
            let at = pace.next().unwrap();
            assert_eq!(pace.advance(at.max(now)), [(ticket, at)]);
            now = at.max(now) + timer_error;
            times.push(at);
        }
        times
    }

    #[test]
    fn a_limit_holds_for_a_host_that_waits_and_makes_up_for_the_timer() {
        for error in [Duration::ZERO, Duration::from_micros(900)] {
            let times = answers(&mut pace("limit:iops=1000"), 2001, error);
            assert!((times[2000].as_secs_f64() - 2.0).abs() < 0.002, "{:?}", times[2000]);
        }
        let times = answers(&mut pace("limit:rate=64MiB/s"), 1025, Duration::ZERO);
        assert!((times[1024].as_secs_f64() - 1.0).abs() < 0.002, "{:?}", times[1024]);
    }

    #[test]
    fn latency_is_added_to_every_request_and_a_flush_takes_no_share_of_the_limit() {
        let mut pace = pace("limit:iops=10,latency=2ms");
        let now = Duration::from_secs(1);
        let flush = pace.submit(now, Asked::Flush, 0, 0);
        let read = pace.submit(now, Asked::Read, 0, 4096);
        let at = now + Duration::from_millis(2);
        assert_eq!(pace.advance(at), [(flush, at), (read, at)]);
        pace.submit(at, Asked::Write, 0, 4096);
        assert_eq!(pace.next(), Some(now - UNUSED_MAX + Duration::from_millis(102)));
    }

    #[test]
    fn a_flush_on_drives_waits_for_the_controller_only() {
        let mut pace = pace("sim-hdd:drives=1,raid=0");
        let read = pace.submit(Duration::ZERO, Asked::Read, 1 << 29, 4096);
        let flush = pace.submit(Duration::ZERO, Asked::Flush, 0, 0);
        let due = pace.advance(Duration::from_micros(70));
        assert_eq!(due, [(flush, Duration::from_micros(70))]);
        assert!(matches!(pace.advance(Duration::from_secs(1))[..], [(ticket, _)] if ticket == read));
        assert_eq!(pace.next(), None);
    }
}
