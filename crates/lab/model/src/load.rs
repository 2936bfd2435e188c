//! Loads in virtual time, and what came of them.
//!
//! Three kinds: users in a closed loop, arrivals by chance in an open one, and a recorded trace. Each runs an
//! array through a warm-up and a measured span, then waits for what is still under way, so that the array can
//! be given the next load: warm caches stay warm.
//!
//! 1. Counted is what is completed within the measured span, with its whole latency.
//! 2. The mean queue is the integral over time, worked out apart from latencies: so that Little's law can be
//!    a check of the two.

pub mod mix;
mod tally;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crate::Request;
use crate::array::Array;
use crate::error::{Error, Result};
use ashlar_statistics::latencies::Latencies;
use ashlar_statistics::random::SplitMix64;
use mix::{Mix, Source};
use tally::Tally;

/// More requests under way than this are no queue any more. Arbitrary: a second's work of a thousand drives,
/// and little memory.
const UNDER_WAY_MAX: usize = 250_000;

/// How long to load before counting, and how long to count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Not counted.
    pub warmup: Duration,
    /// Counted; not zero.
    pub measured: Duration,
}

/// Users who wait for their answer, do something else for a while, and ask again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Users {
    /// How many.
    pub count: u32,
    /// The mean of the time between an answer and the next request; it is exponentially distributed. With
    /// zero there are always `count` requests under way.
    pub other_time: Duration,
}

/// A request and when it was made, from the start of the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timed {
    /// When.
    pub at: Duration,
    /// What.
    pub request: Request,
}

/// What a load came to.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// How long was counted.
    pub measured: Duration,
    /// Requests completed in that time.
    pub requests: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// The mean number of requests under way.
    pub queue_mean: f64,
    /// Latencies of reads.
    pub reads: Latencies,
    /// Latencies of writes.
    pub writes: Latencies,
}

impl Outcome {
    /// Requests per second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.over_time(self.requests)
    }

    /// Bytes per second.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        self.over_time(self.bytes)
    }

    /// Nothing in no time is none per second: the outcome of an empty trace.
    fn over_time(&self, count: u64) -> f64 {
        if count == 0 { 0.0 } else { count as f64 / self.measured.as_secs_f64() }
    }

    /// Latencies of reads and writes together.
    #[must_use]
    pub fn latencies(&self) -> Latencies {
        let mut all = self.reads.clone();
        all.merge(&self.writes);
        all
    }
}

/// Users in a closed loop. The seed is for addresses, kinds and pauses.
pub fn closed_loop(array: &mut Array, mix: &Mix, users: Users, span: Span, seed: u64) -> Result<Outcome> {
    let mut source = Source::new(mix, array.capacity_bytes(), seed)?;
    let mut random = SplitMix64::new(!seed);
    let mut tally = Tally::new(array.now(), span)?;
    // Users begin as they go on: not all at once, but for those who never pause.
    let mut begins: BinaryHeap<_> =
        (0..users.count).map(|_| Reverse(array.now() + random.pause(users.other_time))).collect();
    while let Some(now) = earlier(array.next_event(), begins.peek().map(|begin| begin.0)) {
        if now > tally.end() {
            break;
        }
        for done in array.advance(now) {
            tally.completed(done);
            begins.push(Reverse(done.at + random.pause(users.other_time)));
        }
        while begins.peek().is_some_and(|begin| begin.0 <= now) {
            begins.pop();
            submit(array, &mut tally, now, source.next());
        }
    }
    Ok(finish(array, tally))
}

/// Requests that come by chance, so many per second in the mean, whatever the array does (Poisson).
///
/// After an error of overload the array still has all that is under way, and is of no further use.
pub fn open_loop(array: &mut Array, mix: &Mix, per_second: f64, span: Span, seed: u64) -> Result<Outcome> {
    if !(per_second > 0.0 && per_second < 1e9) {
        return Err(Error::load(format!("{per_second} requests per second: allowed is above 0 to 1e9")));
    }
    let mut source = Source::new(mix, array.capacity_bytes(), seed)?;
    let mut random = SplitMix64::new(!seed);
    let pause = Duration::from_secs_f64(1.0 / per_second);
    let mut next = array.now() + random.pause(pause);
    let arrivals = std::iter::from_fn(move || {
        let at = next;
        next += random.pause(pause);
        Some(Timed { at, request: source.next() })
    });
    let tally = Tally::new(array.now(), span)?;
    run(array, tally, arrivals)
}

/// A recorded trace, whose times are from the array's time on. Everything up to the last answer is counted.
pub fn replay(array: &mut Array, trace: &[Timed]) -> Result<Outcome> {
    let start = array.now();
    let capacity = array.capacity_bytes();
    let fits = |request: &Request| {
        let end = request.offset_bytes.checked_add(request.length_bytes);
        request.length_bytes > 0 && end.is_some_and(|end| end <= capacity)
    };
    if let Some(index) = trace.iter().position(|timed| !fits(&timed.request)) {
        let request = trace[index].request;
        return Err(Error::load(format!("request {index} of the trace is outside the array: {request:?}")));
    }
    if !trace.is_sorted_by_key(|timed| timed.at) {
        return Err(Error::load("the trace is not in order of time"));
    }
    let arrivals = trace.iter().map(|timed| Timed { at: start + timed.at, ..*timed });
    run(array, Tally::unlimited(start), arrivals)
}

fn run(array: &mut Array, mut tally: Tally, arrivals: impl Iterator<Item = Timed>) -> Result<Outcome> {
    for arrival in arrivals {
        if arrival.at > tally.end() {
            break;
        }
        for done in array.advance(arrival.at) {
            tally.completed(done);
        }
        submit(array, &mut tally, arrival.at, arrival.request);
        if array.under_way() > UNDER_WAY_MAX {
            let after = arrival.at.as_secs_f64();
            return Err(Error::overload(format!("{UNDER_WAY_MAX} requests wait after {after:.3} s")));
        }
    }
    Ok(finish(array, tally))
}

fn submit(array: &mut Array, tally: &mut Tally, now: Duration, request: Request) {
    let id = array.submit(now, request);
    tally.submitted(id, now, &request);
}

/// Waits for what is under way.
fn finish(array: &mut Array, mut tally: Tally) -> Outcome {
    while array.under_way() > 0 {
        let next = array.next_event().expect("requests under way have an event");
        for done in array.advance(next) {
            tally.completed(done);
        }
    }
    tally.outcome()
}

fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    [one, other].into_iter().flatten().min()
}

#[cfg(test)]
mod tests;
