//! The figures of one run, from what fio left.

use std::time::Duration;

use ashlar_fio::{Cell, Kept, Offered, Outcome, Pattern, Second, Side, Spread};
use ashlar_scenario::{IoLoad, Measured, Operation, Pattern as Order, Rate, Run, Variant};
use ashlar_target::{Counters, PoolCounters};
use serde::{Deserialize, Serialize};

use crate::bill::BillFigures;
use crate::database::{DatabaseFigures, PartFigures, mixed};
use crate::meanwhile::Meanwhile;
use crate::restored::RestoreFigures;
use crate::space::SpaceFigures;

/// Bytes are held against requests only where chance and those at the edges move them by less than this.
const CHANCE_MAX: f64 = 0.01;
/// Beyond so many standard errors nobody calls it chance.
const ERRORS: f64 = 4.0;

/// An open loop that misses its rate by more has fallen behind.
const BEHIND_SHARE: f64 = 0.05;

/// What one run measured.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    pub id: String,
    pub repetition: u64,
    pub variant: String,
    pub target: String,
    /// No drive did it: a model told how long drives like these take.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_simulated: bool,
    pub begun_unix_seconds: u64,
    /// When the measured time began, in milliseconds since 1970; absent where the run is measured as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_unix_millis: Option<u64>,
    pub measured_seconds: f64,
    pub requests: u64,
    pub bytes: u64,
    /// Latencies in nanoseconds; absent where too few requests were made to tell.
    pub latency_mean_nanos: Option<f64>,
    pub p50_nanos: Option<u64>,
    pub p95_nanos: Option<u64>,
    pub p99_nanos: Option<u64>,
    pub p999_nanos: Option<u64>,
    pub max_nanos: Option<u64>,
    /// Of an open loop.
    pub offered_per_second: Option<f64>,
    /// Of an open loop: the share of requests that were sent while many were under way (64, or all that may).
    pub depth_used_up: f64,
    /// Requests at a time, of a closed loop.
    pub outstanding: Option<u64>,
    /// What the requests should have moved; absent where chance decides it.
    pub bytes_expected: Option<f64>,
    /// Processor time of fio, in cores, and of its busiest thread.
    pub client_cores: f64,
    pub client_busiest: f64,
    pub mix: Vec<Share>,
    /// Second by second.
    pub course: Vec<Second>,
    /// What the device of the target counted, from before the warm-up to the end; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Counters>,
    /// The same of the one that a log apart lies on; absent where it is none of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_device: Option<Counters>,
    /// With a database: what it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<DatabaseFigures>,
    /// What the array counted, from before the warm-up to the end; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolCounters>,
    /// Of databases that were made for the room they take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<SpaceFigures>,
    /// What servers and machine did meanwhile; absent where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meanwhile: Option<Meanwhile>,
    /// Of content that was brought back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<RestoreFigures>,
    /// Nothing was run: it was worked out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bill: Option<BillFigures>,
}

/// A kind of request in the mix.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Share {
    /// `random reads`.
    pub kind: String,
    pub asked: f64,
    pub measured: f64,
}

impl Figures {
    /// Which run it is, and nothing measured yet.
    pub(crate) fn named(run: &Run, variant: &Variant) -> Figures {
        Figures {
            id: run.id.clone(),
            repetition: run.repetition,
            variant: variant.name.clone(),
            target: variant.target.id.clone(),
            is_simulated: variant.target.is_simulated(),
            ..Figures::default()
        }
    }

    pub(crate) fn of(
        run: &Run,
        variant: &Variant,
        load: &IoLoad,
        cell: &Cell<Spread>,
        kept: &Kept,
    ) -> Figures {
        let outcomes = &kept.outcomes;
        let mut both = Side::default();
        outcomes.iter().for_each(|outcome| both.add(&outcome.both()));
        let time = outcomes.iter().map(|outcome| outcome.time).max().unwrap_or(Duration::ZERO);
        let used_up = outcomes.iter().map(|outcome| outcome.both().requests as f64 * outcome.depth_used_up);
        let latencies = &both.latencies;
        Figures {
            measured_unix_millis: outcomes
                .first()
                .and_then(|outcome| outcome.ended_unix_millis?.checked_sub(millis(outcome.time))),
            measured_seconds: time.as_secs_f64(),
            requests: both.requests,
            bytes: both.bytes,
            latency_mean_nanos: latencies.mean(),
            p50_nanos: latencies.percentile(0.5),
            p95_nanos: latencies.percentile(0.95),
            p99_nanos: latencies.percentile(0.99),
            p999_nanos: latencies.percentile(0.999),
            max_nanos: latencies.max(),
            offered_per_second: load.rate.map(|Rate(rate)| rate),
            depth_used_up: match load.rate {
                Some(_) => used_up.sum::<f64>() / both.requests.max(1) as f64,
                None => 0.0,
            },
            outstanding: outstanding(cell),
            bytes_expected: bytes_expected(cell, outcomes),
            client_cores: outcomes.iter().map(|outcome| outcome.client_cores).sum(),
            client_busiest: outcomes.iter().map(|outcome| outcome.client_busiest).fold(0.0, f64::max),
            mix: shares(load, cell, outcomes),
            course: ashlar_fio::together(&kept.seconds),
            ..Figures::named(run, variant)
        }
    }

    pub fn per_second(&self) -> f64 {
        self.requests as f64 / self.measured_seconds.max(1e-9)
    }

    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.measured_seconds.max(1e-9)
    }

    /// An open loop that made less than was offered, and than chance explains: what waited before it was sent
    /// is in no latency.
    pub fn is_behind(&self) -> bool {
        let chance = |offered: f64| ERRORS / (offered * self.measured_seconds).max(1.0).sqrt();
        self.offered_per_second
            .is_some_and(|offered| self.per_second() < offered * (1.0 - BEHIND_SHARE - chance(offered)))
    }

    /// Those of `mixed`.
    fn reads(&self) -> Option<&PartFigures> {
        self.database.as_ref()?.part(mixed::READS)
    }

    /// In the unit of the metric.
    pub(crate) fn value(&self, measured: Measured) -> Option<f64> {
        match measured {
            Measured::Bill(amount, per) => self.bill.as_ref()?.value(amount, per),
            // Without a second there is no rate.
            Measured::Restored(returned) => self.restored.as_ref()?.value(returned),
            _ if self.bill.is_some() || self.restored.is_some() => None,
            Measured::Iops => Some(self.per_second()),
            Measured::MegabytesPerSecond => Some(self.bytes_per_second() / 1e6),
            Measured::TransactionsPerSecond => self.database.as_ref().map(|_| self.per_second()),
            Measured::NewOrdersPerMinute => self.database.as_ref()?.new_orders_per_minute,
            Measured::TradesPerSecond => self.database.as_ref()?.trades_per_second,
            Measured::RowsPerSecond => self.database.as_ref()?.rows_per_second,
            Measured::ReadsPerSecond => Some(self.reads()?.per_second),
            Measured::ReadLatencyMillis => Some(self.reads()?.latency_mean_nanos? / 1e6),
            Measured::ReadLatencyP99Millis => Some(self.reads()?.p99_nanos? as f64 / 1e6),
            Measured::UpdatedRowsPerSecond => self.database.as_ref()?.step_rows_per_second("update"),
            Measured::SelectedRowsPerSecond => self.database.as_ref()?.step_rows_per_second("select"),
            Measured::DeletedRowsPerSecond => self.database.as_ref()?.step_rows_per_second("delete"),
            Measured::ScannedRowsPerSecond => self.database.as_ref()?.step_rows_per_second("scan"),
            Measured::DriveBytesPerHostByte => {
                let pool = self.pool.filter(|pool| pool.host_written_bytes > 0)?;
                Some(pool.drive_written_bytes as f64 / pool.host_written_bytes as f64)
            }
            Measured::LatencyMillis => self.latency_mean_nanos.map(|nanos| nanos / 1e6),
            Measured::LatencyP99Millis => self.p99_nanos.map(|nanos| nanos as f64 / 1e6),
            Measured::DeviceMillis => self.device.as_ref()?.mean_millis(),
            Measured::TransactionsPerProcessorSecond => {
                let seconds = self.database.as_ref()?.processor_seconds.filter(|seconds| *seconds > 0.0)?;
                Some(self.requests as f64 / seconds)
            }
            Measured::Space(taken) => self.space.as_ref()?.value(taken),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// `None` of an open loop.
fn outstanding(cell: &Cell<Spread>) -> Option<u64> {
    cell.jobs
        .iter()
        .map(|spread| match spread.job.offered {
            Offered::Depth(depth) => Some(u64::from(depth) * u64::from(spread.threads)),
            Offered::PerSecond(_) | Offered::Open { .. } => None,
        })
        .sum()
}

fn bytes_expected(cell: &Cell<Spread>, outcomes: &[Outcome]) -> Option<f64> {
    cell.jobs
        .iter()
        .zip(outcomes)
        .map(|(spread, outcome)| {
            let (mean, deviation) = spread.job.request_bytes();
            let requests = outcome.both().requests as f64;
            let chance = ERRORS * deviation / mean / requests.max(1.0).sqrt();
            // Those under way when counting begins or ends are counted on one side alone.
            let depth = match spread.job.offered {
                Offered::Depth(depth) | Offered::Open { depth, .. } => depth,
                Offered::PerSecond(_) => 1,
            };
            let edge = f64::from(spread.threads * depth) / requests.max(1.0);
            (chance.max(edge) < CHANCE_MAX).then_some(requests * mean)
        })
        .sum()
}

/// The mix that was asked for, and the one that was measured.
fn shares(load: &IoLoad, cell: &Cell<Spread>, outcomes: &[Outcome]) -> Vec<Share> {
    let all: u64 = outcomes.iter().map(|outcome| outcome.both().requests).sum();
    let mut shares = Vec::new();
    for (order, pattern) in [(Order::Random, Pattern::Random), (Order::Sequential, Pattern::Sequential)] {
        for operation in [Operation::Read, Operation::Write] {
            let parts = load.mix.iter().filter(|part| (part.pattern, part.operation) == (order, operation));
            let asked: f64 = parts.map(|part| part.share).sum();
            let jobs = cell.jobs.iter().zip(outcomes).filter(|(spread, _)| spread.job.pattern == pattern);
            let made: u64 = jobs
                .map(|(_, outcome)| match operation {
                    Operation::Read => outcome.reads.requests,
                    Operation::Write => outcome.writes.requests,
                })
                .sum();
            if asked > 0.0 {
                let measured = made as f64 / all.max(1) as f64;
                shares.push(Share { kind: kind(order, operation), asked, measured });
            }
        }
    }
    shares
}

/// A kind of request in words.
pub(crate) fn kind(order: Order, operation: Operation) -> String {
    let order = match order {
        Order::Random => "random",
        Order::Sequential => "sequential",
    };
    let operation = match operation {
        Operation::Read => "reads",
        Operation::Write => "writes",
    };
    format!("{order} {operation}")
}
