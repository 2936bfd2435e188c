//! Counts what is completed within the measured span, and the queue over time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Outcome, Span};
use crate::array::{Completion, RequestId};
use crate::error::{Error, Result};
use crate::{Kind, Request};
use ashlar_statistics::latencies::Latencies;

#[derive(Debug)]
pub(crate) struct Tally {
    from: Duration,
    /// `None` counts up to the last answer.
    to: Option<Duration>,
    under_way: BTreeMap<RequestId, (Duration, Kind, u64)>,
    /// Up to when the queue is added up.
    queue_at: Duration,
    /// Requests times nanoseconds.
    queue_sum: u128,
    requests: u64,
    bytes: u64,
    reads: Latencies,
    writes: Latencies,
}

impl Tally {
    pub(crate) fn new(now: Duration, span: Span) -> Result<Tally> {
        if span.measured.is_zero() {
            return Err(Error::load("a measured span of no time"));
        }
        let from = now + span.warmup;
        Ok(Tally { from, to: Some(from + span.measured), ..Tally::unlimited(now) })
    }

    pub(crate) fn unlimited(now: Duration) -> Tally {
        Tally {
            from: now,
            to: None,
            under_way: BTreeMap::new(),
            queue_at: now,
            queue_sum: 0,
            requests: 0,
            bytes: 0,
            reads: Latencies::default(),
            writes: Latencies::default(),
        }
    }

    /// When the measured span ends.
    pub(crate) fn end(&self) -> Duration {
        self.to.unwrap_or(Duration::MAX)
    }

    pub(crate) fn submitted(&mut self, id: RequestId, now: Duration, request: &Request) {
        self.queue_until(now);
        self.under_way.insert(id, (now, request.kind, request.length_bytes));
    }

    pub(crate) fn completed(&mut self, done: Completion) {
        self.queue_until(done.at);
        let (began, kind, bytes) = self.under_way.remove(&done.id).expect("completed once");
        if done.at < self.from || done.at > self.end() {
            return;
        }
        self.requests += 1;
        self.bytes += bytes;
        match kind {
            Kind::Read => self.reads.add(crate::nanos(done.at - began)),
            Kind::Write => self.writes.add(crate::nanos(done.at - began)),
        }
    }

    /// Adds the queue from the last change up to now, as far as that is within the span.
    fn queue_until(&mut self, now: Duration) {
        let (from, to) = (self.queue_at.max(self.from), now.min(self.end()));
        let within = to.saturating_sub(from);
        self.queue_sum += within.as_nanos() * self.under_way.len() as u128;
        self.queue_at = self.queue_at.max(now);
    }

    pub(crate) fn outcome(mut self) -> Outcome {
        self.queue_until(self.to.unwrap_or(self.queue_at));
        let measured = self.to.unwrap_or(self.queue_at) - self.from;
        Outcome {
            measured,
            requests: self.requests,
            bytes: self.bytes,
            queue_mean: self.queue_sum as f64 / measured.as_nanos().max(1) as f64,
            reads: self.reads,
            writes: self.writes,
        }
    }
}
