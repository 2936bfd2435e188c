//! The figures of several databases: of each, and of all together.

use ashlar_fio::Second;
use ashlar_postgres::{ColdStart, Limitation, Server, Statistics};
use ashlar_scenario::{Place, Run, SeveralLoad, Variant};
use ashlar_statistics::histogram::Histogram;
use ashlar_workload::driver::Outcome;
use serde::{Deserialize, Serialize};

use super::Driven;
use crate::database::{self, DatabaseFigures, KindFigures};
use crate::figures::Figures;

/// One of the databases.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct EachFigures {
    pub name: String,
    /// Which server it is on, and its version.
    pub server: String,
    pub version: String,
    pub size_bytes: u64,
    pub users: u64,
    pub transactions_per_second: f64,
    pub trades_per_second: f64,
    pub latency_mean_nanos: Option<f64>,
    pub p50_nanos: Option<u64>,
    pub p99_nanos: Option<u64>,
    /// Offered, and not served as fast as it came.
    pub is_behind: bool,
    /// What was acknowledged, and was looked for and found.
    pub acknowledged: u64,
}

/// What the servers say of the run.
pub(super) struct OfServers<'a> {
    pub(super) servers: &'a [&'a Server],
    pub(super) cold: Vec<ColdStart>,
    pub(super) statistics: Vec<Statistics>,
    pub(super) processor_seconds: Option<f64>,
}

impl EachFigures {
    pub(super) fn of(
        (place, server, version): (&Place, &str, &str),
        users: u64,
        driven: &Driven,
    ) -> EachFigures {
        let outcome = &driven.found.outcome;
        let latencies = latencies([outcome].into_iter());
        EachFigures {
            name: place.name.clone(),
            server: server.to_string(),
            version: version.to_string(),
            size_bytes: place.tables.size_bytes(),
            users,
            transactions_per_second: outcome.per_second(),
            trades_per_second: driven.found.trades_per_second,
            latency_mean_nanos: latencies.mean(),
            p50_nanos: latencies.percentile(0.5),
            p99_nanos: latencies.percentile(0.99),
            is_behind: outcome.arrivals.as_ref().is_some_and(|arrivals| arrivals.fell_behind),
            acknowledged: driven.kept.acknowledged,
        }
    }
}

fn latencies<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Histogram {
    let mut all = Histogram::default();
    outcomes.flat_map(|outcome| &outcome.kinds).for_each(|kind| all.merge(&kind.latency.histogram()));
    all
}

/// All together.
pub(super) fn told(
    (run, variant): (&Run, &Variant),
    load: &SeveralLoad,
    (each, driven): (Vec<EachFigures>, &[Driven]),
    of: OfServers<'_>,
) -> Figures {
    let outcomes = || driven.iter().map(|one| &one.found.outcome);
    let all = latencies(outcomes());
    let measured_seconds = outcomes().map(|outcome| outcome.measured_seconds).fold(0.0, f64::max);
    let per_second: f64 = outcomes().map(Outcome::per_second).sum();
    let named = |(each, driven): (&EachFigures, &Driven)| {
        let told = |what: &String| format!("{}: {what}", each.name);
        driven.kept.offences.iter().map(told).collect::<Vec<_>>()
    };
    let mut versions: Vec<String> =
        of.servers.iter().map(|server| server.installation().version().to_string()).collect();
    versions.dedup();
    let not_limited = of.servers.iter().find_map(|server| match server.limitation() {
        Limitation::NotLimited(why) => Some(why.clone()),
        _ => None,
    });
    let database = DatabaseFigures {
        engine: format!("PostgreSQL {}", versions.join(" and ")),
        trades_per_second: Some(driven.iter().map(|one| one.found.trades_per_second).sum()),
        kinds: kinds(driven),
        offences: Some(each.iter().zip(driven).flat_map(named).collect()),
        acknowledged: Some(each.iter().map(|one| one.acknowledged).sum()),
        not_limited,
        cold: of.cold.into_iter().next(),
        statistics: sum(of.statistics),
        processor_seconds: of.processor_seconds,
        each,
        ..DatabaseFigures::default()
    };
    // All of them run in one process, which each of them asked for its time.
    let cores = outcomes()
        .map(|outcome| outcome.client_processor_seconds.unwrap_or(0.0) / outcome.measured_seconds.max(1e-9))
        .fold(0.0, f64::max);
    Figures {
        measured_unix_millis: outcomes().filter_map(|outcome| outcome.measured_unix_millis).max(),
        measured_seconds,
        requests: (per_second * measured_seconds).round() as u64,
        latency_mean_nanos: all.mean(),
        p50_nanos: all.percentile(0.5),
        p95_nanos: all.percentile(0.95),
        p99_nanos: all.percentile(0.99),
        p999_nanos: all.percentile(0.999),
        max_nanos: all.max(),
        offered_per_second: load.offered(),
        client_cores: cores,
        course: together(outcomes().map(database::course).collect()),
        database: Some(database),
        ..Figures::named(run, variant)
    }
}

/// By the seconds of the measured phase, which began for all at nearly the same time.
fn together(courses: Vec<Vec<Second>>) -> Vec<Second> {
    let length = courses.iter().map(Vec::len).min().unwrap_or(0);
    let second = |index: usize| {
        let of: Vec<&Second> = courses.iter().map(|course| &course[index]).collect();
        let requests: f64 = of.iter().map(|second| second.requests).sum();
        let waited: f64 = of.iter().filter_map(|second| Some(second.latency_nanos? * second.requests)).sum();
        Second {
            at_seconds: index as f64 + 1.0,
            requests,
            latency_nanos: (requests > 0.0).then(|| waited / requests),
        }
    };
    (0..length).map(second).collect()
}

/// By their names, over all databases.
fn kinds(driven: &[Driven]) -> Vec<KindFigures> {
    let Some(first) = driven.first() else { return Vec::new() };
    let kind = |name: &str| {
        let of: Vec<_> = driven.iter().filter_map(|one| one.found.outcome.kind(name)).collect();
        let mut all = Histogram::default();
        of.iter().for_each(|kind| all.merge(&kind.latency.histogram()));
        KindFigures {
            name: name.to_string(),
            committed: of.iter().map(|kind| kind.committed).sum(),
            rolled_back: of.iter().map(|kind| kind.rolled_back).sum(),
            retries: of.iter().map(|kind| kind.retries).sum(),
            errors: of.iter().map(|kind| kind.errors + kind.gave_up).sum(),
            p50_nanos: all.percentile(0.5),
            p99_nanos: all.percentile(0.99),
        }
    };
    first.found.outcome.kinds.iter().map(|of| kind(&of.name)).collect()
}

/// Of the counters that are told.
fn sum(all: Vec<Statistics>) -> Option<Statistics> {
    all.into_iter().reduce(|sum, other| Statistics {
        commits: sum.commits + other.commits,
        rollbacks: sum.rollbacks + other.rollbacks,
        blocks_read: sum.blocks_read + other.blocks_read,
        blocks_hit: sum.blocks_hit + other.blocks_hit,
        wal_bytes: sum.wal_bytes + other.wal_bytes,
        checkpoints_timed: sum.checkpoints_timed + other.checkpoints_timed,
        checkpoints_requested: sum.checkpoints_requested + other.checkpoints_requested,
        ..sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn courses_are_summed_second_by_second_and_waits_by_their_weight() {
        let course = |requests: f64, latency: f64, length: u32| -> Vec<Second> {
            let second =
                |end| Second { at_seconds: f64::from(end) + 0.3, requests, latency_nanos: Some(latency) };
            (1..=length).map(second).collect()
        };
        let sum = together(vec![course(10.0, 100.0, 4), course(30.0, 200.0, 3)]);
        assert_eq!(sum.len(), 3, "as far as all of them go");
        assert_eq!((sum[0].requests, sum[0].latency_nanos), (40.0, Some(175.0)));
        assert_eq!(sum[2].at_seconds, 3.0);
        assert!(together(Vec::new()).is_empty());
    }
}
