//! Reads by key and a load of facts: both at the same time, or one of them on the tables of both.
//!
//! ```text
//!  readers  │ ready │ warm-up │ measured │     every row is checked by whoever reads it
//!  loaders  │ ready │ warm-up │ measured │ ──▶ every batch of this run and of those before
//! ```
//! Each part has a driver of its own, and its own figures. What ends one of them ends the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use ashlar_fio::Second;
use ashlar_postgres::Server;
use ashlar_scenario::MixedWork;
use ashlar_statistics::histogram::Histogram;
use ashlar_workload::driver::{self, Ending, Observer, Outcome, Phase, SecondOfKind};
use ashlar_workload::factload::{self, FactLoad};
use ashlar_workload::points::Points;
use serde::{Deserialize, Serialize};

use super::{DatabaseFigures, Driving, Loading, broken, ended, facts, points};
use crate::{Error, Result, jobs};

/// How often to look whether somebody asked to stop.
const LOOK: Duration = Duration::from_millis(20);
/// What parts are called.
pub(crate) const READS: &str = "reads";
pub(crate) const LOAD: &str = "load";

/// One part of a run, or all of it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PartFigures {
    /// `reads` or `load`.
    pub name: String,
    pub users: u64,
    /// Statements that read, or batches.
    pub per_second: f64,
    /// Of the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_per_second: Option<f64>,
    /// Of the pages that hold what was read, and of the sources; of the facts.
    pub read_bytes_per_second: f64,
    pub written_bytes_per_second: f64,
    pub latency_mean_nanos: Option<f64>,
    pub p50_nanos: Option<u64>,
    pub p99_nanos: Option<u64>,
    pub course: Vec<Second>,
}

/// What the two came to; who did not run is absent.
struct Driven {
    reads: Option<Outcome>,
    load: Option<factload::Figures>,
}

pub(super) fn load(loading: &Loading<'_>, rows: u64, rows_per_source: u64) -> Result<()> {
    points::load(loading, rows)?;
    facts::load(loading, rows_per_source)
}

pub(super) fn drive(driving: &Driving<'_>, work: &MixedWork) -> Result<(Outcome, DatabaseFigures)> {
    let reads = (work.readers > 0).then(|| points::open(driving, work.has_ranges)).transpose()?;
    // It knows the facts of runs before this, which are checked whether this one loads or not.
    let facts = facts::open(driving)?;
    let mut watch = Watch { server: driving.server.own()?, seconds: Vec::new() };
    let driven = at_once(driving, work, (reads.as_ref(), &facts), &mut watch)?;
    let offences = broken(facts.check(&mut driving.server.session()?)?);
    let reads = driven.reads.as_ref().map(|outcome| of_reads(outcome, work));
    let load = driven.load.as_ref().map(|figures| of_load(figures, work));
    let parts: Vec<PartFigures> = reads.into_iter().chain(load).collect();
    let sum = |of: fn(&PartFigures) -> f64| parts.iter().map(of).sum::<f64>();
    let figures = DatabaseFigures {
        rows_per_second: driven.load.as_ref().map(|figures| figures.rows_per_second),
        bytes_per_second: Some((
            sum(|part| part.read_bytes_per_second),
            sum(|part| part.written_bytes_per_second),
        )),
        offences: Some(offences),
        acknowledged: Some(facts.acknowledged()),
        processor_seconds: watch.server_seconds(),
        parts,
        ..DatabaseFigures::default()
    };
    let outcomes = driven.reads.into_iter().chain(driven.load.map(|figures| figures.outcome));
    let outcome = outcomes.reduce(together).expect("one of the parts runs");
    Ok((outcome, figures))
}

/// Drives who is there, and stops both when somebody asks for it or one of them ends before its time.
fn at_once(
    driving: &Driving<'_>,
    work: &MixedWork,
    (reads, facts): (Option<&Points>, &FactLoad),
    watch: &mut Watch<'_>,
) -> Result<Driven> {
    let stop = AtomicBool::new(false);
    let plan = |clients: u64, part: &str| driver::Plan {
        clients: clients as usize,
        seed: jobs::mixed(driving.plan.seed, part),
        ..driving.plan.clone()
    };
    let (of_reads, of_load) = (plan(work.readers, READS), plan(work.loaders, LOAD));
    // One of them looks at the server for both.
    let (mut first, mut none) = (Some(watch), ());
    let (reads, load) = std::thread::scope(|scope| {
        let reads = reads.map(|points| {
            let watch = first.take().expect("nobody has it yet");
            let (plan, stop) = (&of_reads, &stop);
            scope.spawn(move || or_stop(driver::run(points, plan, stop, watch), |outcome| outcome, stop))
        });
        let load = (work.loaders > 0).then(|| {
            let watch: &mut (dyn Observer + Send) = match first.take() {
                Some(watch) => watch,
                None => &mut none,
            };
            let (plan, stop) = (&of_load, &stop);
            scope.spawn(move || or_stop(facts.run(plan, stop, watch), |found| &found.outcome, stop))
        });
        let is_done = || is_finished(reads.as_ref()) && is_finished(load.as_ref());
        while !is_done() {
            if driving.stop.load(Ordering::SeqCst) {
                stop.store(true, Ordering::SeqCst);
            }
            std::thread::sleep(LOOK);
        }
        (reads.map(joined), load.map(joined))
    });
    settled(reads, load)
}

fn is_finished<T>(thread: Option<&ScopedJoinHandle<'_, T>>) -> bool {
    thread.is_none_or(ScopedJoinHandle::is_finished)
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().expect("a panic ends the process")
}

/// A part that failed needs no other to go on.
fn or_stop<T>(
    found: ashlar_workload::Result<T>,
    outcome: impl Fn(&T) -> &Outcome,
    stop: &AtomicBool,
) -> Result<T> {
    let is_whole = found.as_ref().is_ok_and(|found| outcome(found).ending == Ending::Complete);
    if !is_whole {
        stop.store(true, Ordering::SeqCst);
    }
    Ok(found?)
}

/// Both to their end; otherwise what ended the one that did not just have to stop.
fn settled(reads: Option<Result<Outcome>>, load: Option<Result<factload::Figures>>) -> Result<Driven> {
    let within = |part: &str, error: Error| Error { context: format!("{part}: {}", error.context), ..error };
    let reads = reads.transpose().map_err(|error| within(READS, error))?;
    let load = load.transpose().map_err(|error| within(LOAD, error))?;
    let parts = [(READS, reads.as_ref()), (LOAD, load.as_ref().map(|figures| &figures.outcome))];
    let is_stopped = |outcome: &Outcome| outcome.ending == Ending::Stopped;
    for (part, outcome) in parts {
        if let Some(outcome) = outcome.filter(|outcome| !is_stopped(outcome)) {
            ended(outcome).map_err(|error| within(part, error))?;
        }
    }
    let is_whole = !parts.into_iter().filter_map(|(_, outcome)| outcome).any(is_stopped);
    if is_whole { Ok(Driven { reads, load }) } else { Err(Error::interrupted()) }
}

fn of_reads(outcome: &Outcome, work: &MixedWork) -> PartFigures {
    let seconds = outcome.measured_seconds.max(1e-9);
    let committed = |kind: &driver::KindOutcome| kind.committed as f64 / seconds;
    let bytes = outcome.kinds.iter().map(|kind| committed(kind) * points::bytes_of(&kind.name) as f64).sum();
    PartFigures { read_bytes_per_second: bytes, ..part(READS, work.readers, outcome) }
}

fn of_load(figures: &factload::Figures, work: &MixedWork) -> PartFigures {
    PartFigures {
        rows_per_second: Some(figures.rows_per_second),
        read_bytes_per_second: figures.bytes_in_per_second,
        written_bytes_per_second: figures.bytes_out_per_second,
        ..part(LOAD, work.loaders, &figures.outcome)
    }
}

fn part(name: &str, users: u64, outcome: &Outcome) -> PartFigures {
    let mut latencies = Histogram::default();
    outcome.kinds.iter().for_each(|kind| latencies.merge(&kind.latency.histogram()));
    PartFigures {
        name: name.into(),
        users,
        per_second: outcome.per_second(),
        latency_mean_nanos: latencies.mean(),
        p50_nanos: latencies.percentile(0.5),
        p99_nanos: latencies.percentile(0.99),
        course: super::course(outcome),
        ..PartFigures::default()
    }
}

/// As one run of all kinds. Both began within some thousandths of a second of each other.
fn together(one: Outcome, other: Outcome) -> Outcome {
    let kinds_of = |outcome: &Outcome, second: usize| -> Vec<SecondOfKind> {
        let none = || vec![SecondOfKind::default(); outcome.kinds.len()];
        outcome.seconds.get(second).map_or_else(none, |second| second.kinds.clone())
    };
    let length = one.seconds.len().max(other.seconds.len());
    let second = |at: usize| driver::Second {
        second: at as u64,
        kinds: [kinds_of(&one, at), kinds_of(&other, at)].concat(),
    };
    Outcome {
        seconds: (0..length).map(second).collect(),
        kinds: [one.kinds.clone(), other.kinds].concat(),
        clients: one.clients + other.clients,
        measured_seconds: one.measured_seconds.max(other.measured_seconds),
        // One process, which each of them asked for its time.
        client_processor_seconds: one
            .client_processor_seconds
            .into_iter()
            .chain(other.client_processor_seconds)
            .reduce(f64::max),
        ..one
    }
}

/// The server's processor time when the measured phase began and ended.
struct Watch<'a> {
    server: &'a Server,
    seconds: Vec<Option<f64>>,
}

impl Observer for Watch<'_> {
    fn began(&mut self, phase: Phase) {
        if phase != Phase::WarmUp {
            let used = self.server.usage().ok().flatten().and_then(|usage| usage.cpu);
            self.seconds.push(used.map(|used| used.as_secs_f64()));
        }
    }
}

impl Watch<'_> {
    /// In between; `None` where it is not counted.
    fn server_seconds(&self) -> Option<f64> {
        match self.seconds[..] {
            [Some(first), Some(last)] => Some(last - first),
            _ => None,
        }
    }
}

impl DatabaseFigures {
    /// Absent where it did not run.
    pub(crate) fn part(&self, name: &str) -> Option<&PartFigures> {
        self.parts.iter().find(|part| part.name == name)
    }
}

#[cfg(test)]
mod tests {
    use ashlar_workload::driver::{KindOutcome, Loop, Sight};

    use super::*;

    fn outcome(kind: &str, counts: &[u64], ending: Ending) -> Outcome {
        let second = |(at, count): (usize, &u64)| driver::Second {
            second: at as u64,
            kinds: vec![SecondOfKind { count: *count, ..SecondOfKind::default() }],
        };
        Outcome {
            pace: Loop::Closed { with_pauses: false },
            clients: 2,
            seed: 1,
            warm_up_seconds: 1.0,
            measured_seconds: 2.0,
            measured_unix_millis: None,
            ending,
            kinds: vec![KindOutcome {
                name: kind.into(),
                committed: counts[1..].iter().sum(),
                ..KindOutcome::default()
            }],
            seconds: counts.iter().enumerate().map(second).collect(),
            arrivals: None,
            client_processor_seconds: Some(counts.len() as f64),
            processors: 2,
        }
    }

    fn figures(outcome: Outcome) -> factload::Figures {
        factload::Figures {
            outcome,
            rows: 0,
            rows_per_second: 0.0,
            bytes_in_per_second: 0.0,
            bytes_out_per_second: 0.0,
        }
    }

    fn lost() -> Ending {
        let sight =
            Sight { client: 0, kind: "range".into(), at_seconds: 0.5, context: "row 7 checksum".into() };
        Ending::Failed(sight)
    }

    #[test]
    fn the_part_that_failed_is_told_and_not_the_one_that_was_stopped_for_it() {
        let (reads, load) = (outcome("range", &[1, 1], lost()), outcome("from_table", &[1], Ending::Stopped));
        let told = settled(Some(Ok(reads)), Some(Ok(figures(load)))).err().unwrap().to_string();
        assert!(told.contains("reads: ") && told.contains("row 7 checksum"), "{told}");
        let (reads, load) = (outcome("keys", &[1, 1], Ending::Stopped), outcome("from_file", &[1], lost()));
        let told = settled(Some(Ok(reads)), Some(Ok(figures(load)))).err().unwrap().to_string();
        assert!(told.contains("load: "), "{told}");
    }

    #[test]
    fn a_part_that_was_stopped_by_a_person_is_no_result() {
        let load = figures(outcome("from_file", &[1, 1], Ending::Stopped));
        let told = settled(None, Some(Ok(load))).err().unwrap();
        assert_eq!(told.kind, Error::interrupted().kind);
        let reads = outcome("keys", &[1, 1], Ending::Complete);
        assert!(settled(Some(Ok(reads)), None).is_ok());
    }

    #[test]
    fn both_make_one_time_line_with_the_kinds_of_both() {
        let (reads, load) = (
            outcome("keys", &[100, 90, 80], Ending::Complete),
            outcome("from_table", &[1, 2, 3, 1], Ending::Complete),
        );
        let all = together(reads, load);
        assert_eq!(all.clients, 4);
        assert_eq!(all.per_second(), (90 + 80 + 2 + 3 + 1) as f64 / 2.0);
        let counts: Vec<[u64; 2]> =
            all.seconds.iter().map(|second| [second.kinds[0].count, second.kinds[1].count]).collect();
        assert_eq!(counts, [[100, 1], [90, 2], [80, 3], [0, 1]]);
        assert_eq!(all.client_processor_seconds, Some(4.0), "the process is one");
    }

    #[test]
    fn reads_count_the_pages_that_hold_them() {
        let work =
            MixedWork { parts: ashlar_scenario::Parts::Reads, readers: 2, loaders: 0, has_ranges: true };
        let part = of_reads(&outcome("keys", &[9, 10, 20], Ending::Complete), &work);
        assert_eq!((part.per_second, part.read_bytes_per_second), (15.0, 15.0 * 8192.0));
        let part = of_reads(&outcome("range", &[9, 1, 1], Ending::Complete), &work);
        assert_eq!((part.read_bytes_per_second, part.written_bytes_per_second), (65536.0, 0.0));
    }
}
