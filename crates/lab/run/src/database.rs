//! A run with a database: a server of its own on the target, loaded once, started cold for every run, driven
//! by the workload, checked, and stopped.
//!
//! The database goes on from run to run: what one run wrote is there for the next. Its log of errors and its
//! socket lie outside the target.

mod broker;
mod engine;
mod facts;
mod level;
pub(crate) mod mixed;
mod orders;
mod points;
mod rows;

pub(crate) use ashlar_workload::broker::ledger::Ledger;
pub(crate) use broker::load_broker;
pub(crate) use engine::Engine;
pub(crate) use points::sql as points_sql;
pub(crate) use rows::sql as rows_sql;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ashlar_fio::Second;
use ashlar_postgres::{
    Address, Adoption, ColdStart, Installation, Limits, Places, Server, Settings, Statistics, Value,
};
use ashlar_programs::Launcher;
use ashlar_scenario::{Base, DatabaseLoad, Plan, Rate, Run, Tables, Variant};
use ashlar_statistics::histogram::Histogram;
use ashlar_target::{Copies, Laid, OWN_PREFIX};
use ashlar_workload::driver::{self, Ending, Loop, Observer, Outcome};
use ashlar_workload::orders::conditions::Verdict;
use serde::{Deserialize, Serialize};

use crate::bases::FromBase;
use crate::copies::{self, CopyFigures, Kept, Promises, Taken};
use crate::figures::Figures;
use crate::several::EachFigures;
use crate::{Error, Result, jobs};

pub use level::LevelFigures;
pub use mixed::PartFigures;
pub use rows::StepFigures;

/// Sockets are told apart by their directory.
pub(crate) const PORT: u16 = 5432;
/// No answer of the server within this means that it is lost.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// As pages of real tables compress.
const COMPRESSION: f64 = 2.0;
/// No statement of loading takes longer.
const LOAD_LIMIT: Duration = Duration::from_secs(600);
/// Where no memory is asked for: PostgreSQL's own advice is a quarter of it, and this is little.
const SHARED_BUFFERS_DEFAULT: u64 = 256 << 20;
/// For indexes, within the limit.
const MAINTENANCE_BYTES: u64 = 64 << 20;
/// PostgreSQL does not start with less.
const SHARED_BUFFERS_MIN: u64 = 16 << 20;

/// A server with what a variant needs.
pub(crate) struct Database {
    server: Engine,
    base: Base,
    seed: u64,
    /// Behind the server, which writes there to its end.
    scratch: Scratch,
    /// Of what it lies on; absent where the target has no snapshots.
    copies: Option<Copies>,
    /// It was not loaded.
    from: Option<FromBase>,
}

/// Where the server's socket and log are: outside the target, which may go away.
pub(crate) struct Scratch {
    pub(crate) directory: PathBuf,
    /// Where the log is kept.
    pub(crate) records: PathBuf,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _none = std::fs::copy(self.directory.join("server.log"), self.records.join("server.log"));
        let _absent = std::fs::remove_dir_all(&self.directory);
    }
}

/// What a run with a database measured, beside what every run does.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct DatabaseFigures {
    /// `PostgreSQL 15.18`.
    pub engine: String,
    /// Of `orders`: acknowledged ones.
    pub new_orders_per_minute: Option<f64>,
    /// The same as the districts' numbers tell it.
    pub engine_new_orders_per_minute: Option<f64>,
    /// Of `broker`: results of trades that the server acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trades_per_second: Option<f64>,
    /// Of `factload`: rows of batches that the server acknowledged. Of `rows`: all steps together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_per_second: Option<f64>,
    /// Of `factload`: what was read of the sources and written of facts, as it lies there. Of `mixed`: with
    /// the pages of rows that were read by key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<(f64, f64)>,
    /// Where the server was kept on some processors, and as busy as was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<LevelFigures>,
    /// Of `mixed`: those that ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartFigures>,
    /// Of `rows`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepFigures>,
    /// Of `rows`: that were as they must be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_checked: Option<u64>,
    pub kinds: Vec<KindFigures>,
    /// What did not hold after the run, in sentences; absent where nothing was to be checked.
    pub offences: Option<Vec<String>>,
    /// What was acknowledged, and was looked for and found.
    pub acknowledged: Option<u64>,
    /// Snapshots that were taken meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<CopyFigures>,
    /// Of several databases at once: each of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub each: Vec<EachFigures>,
    /// Of the servers while it was measured; absent where it is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_seconds: Option<f64>,
    /// Why memory is not limited although a limit was asked for.
    pub not_limited: Option<String>,
    /// How it was started, and what of its files was in memory still.
    pub cold: Option<ColdStart>,
    /// What the engine counted meanwhile.
    pub statistics: Option<Statistics>,
    /// What was there before the first run was not loaded, but came from an earlier one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<FromBase>,
}

/// One kind of transaction.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct KindFigures {
    pub name: String,
    pub committed: u64,
    pub rolled_back: u64,
    pub retries: u64,
    pub errors: u64,
    pub p50_nanos: Option<u64>,
    pub p99_nanos: Option<u64>,
}

impl Database {
    /// Makes a server where the target has room for it and loads it, or takes what a base has of it; it is
    /// stopped at the end.
    pub(crate) fn make(
        launcher: &Arc<Launcher>,
        (laid, scratch, copies, from): (&Laid, Scratch, Option<Copies>, Option<FromBase>),
        base: &Base,
        (seed, stop): (u64, &AtomicBool),
    ) -> Result<Database> {
        let installation = Installation::ensure(launcher, &ashlar_postgres::Search::default())?.0;
        let places = Places {
            data: laid.data.join("pgdata"),
            wal: laid.log.as_ref().map(|log| log.join("wal")),
            tablespaces: Vec::new(),
            temporary: None,
            socket: scratch.directory.clone(),
            port: PORT,
        };
        let mut server = Server::new(&installation, places, settings(base));
        if let Some(memory) = base.memory {
            let limits = Limits { memory_bytes: Some(memory.0), ..Limits::default() };
            server.limit(&limits)?;
        }
        if from.is_some() {
            server.adopt(&Adoption::default())?;
            let server = Engine::Own(Box::new(server));
            return Ok(Database { server, base: base.clone(), seed, scratch, copies, from });
        }
        server.initialise()?;
        server.start()?;
        let server = Engine::Own(Box::new(server));
        let mut database = Database { server, base: base.clone(), seed, scratch, copies, from };
        let loaded = database.load(stop);
        database.or_out_of_memory(loaded)?;
        database.server.end()?;
        Ok(database)
    }

    /// Loads a database of a server that was there.
    pub(crate) fn there(
        (address, version): (Address, &str),
        scratch: Scratch,
        base: &Base,
        (seed, stop): (u64, &AtomicBool),
    ) -> Result<Database> {
        let server = Engine::There { address, version: version.to_string() };
        let database = Database { server, base: base.clone(), seed, scratch, copies: None, from: None };
        database.load(stop)?;
        Ok(database)
    }

    pub(crate) fn address(&self) -> Address {
        self.server.address()
    }

    /// What the kernel ended for want of memory looks like a lost connection.
    fn or_out_of_memory<T>(&self, result: Result<T>) -> Result<T> {
        let killed = |usage: ashlar_postgres::Usage| usage.out_of_memory_kill_count > 0;
        match (result, self.base.memory) {
            (Err(error), Some(memory)) if self.server.usage().is_some_and(killed) => {
                Err(Error::command(format!(
                    "{}: the kernel ended processes of the server, whose memory is limited to {}: give it more \
                     in the scenario ([engine] memory)",
                    error.context,
                    ashlar_report::bytes(memory.0)
                )))
            }
            (result, _) => result,
        }
    }

    fn load(&self, stop: &AtomicBool) -> Result<()> {
        let sessions = std::thread::available_parallelism().map_or(1, usize::from);
        let loading = Loading {
            server: &self.server,
            sources: self.sources(),
            seed: self.seed,
            sessions,
            limit: LOAD_LIMIT,
            stop,
        };
        match self.base.tables {
            Tables::Orders { warehouses } => orders::load(&loading, warehouses)?,
            Tables::Points { rows } => points::load(&loading, rows)?,
            Tables::Broker { customers, trade_days } => broker::load(&loading, customers, trade_days)?,
            Tables::Facts { rows_per_source } => facts::load(&loading, rows_per_source)?,
            Tables::Mixed { rows, rows_per_source } => mixed::load(&loading, rows, rows_per_source)?,
            Tables::Rows { rows, is_logged } => rows::load(&loading, rows, is_logged)?,
        }
        match &self.server {
            Engine::Own(server) => server.query("CHECKPOINT").map(drop)?,
            // Not every role may ask for one.
            Engine::There { .. } => drop(self.server.query("CHECKPOINT")),
        }
        Ok(())
    }

    /// Where the sources of facts are that are files: on the target, beside the database.
    fn sources(&self) -> PathBuf {
        match &self.server {
            Engine::Own(server) => server.places().data.with_file_name("sources"),
            Engine::There { .. } => self.scratch.directory.join("sources"),
        }
    }

    /// Starts the server with nothing of its files in memory, drives it, looks at what is there, stops it.
    pub(crate) fn run(
        &mut self,
        (run, variant): (&Run, &Variant),
        load: &DatabaseLoad,
        (plan, seed): (&Plan, u64),
        stop: &AtomicBool,
    ) -> Result<Figures> {
        let memory = self.base.memory.map(|memory| memory.0);
        let confined = match load.processors {
            Some(of) => level::confine(self.server.own_mut()?, memory, of.cores)?,
            None => None,
        };
        let cold = self.server.begin()?;
        let before = self.server.statistics()?;
        let mut asked = driver::Plan::closed(load.users as usize, plan.warmup, plan.measure, seed);
        asked.pace = match load.rate {
            Some(Rate(per_second)) => Loop::Open { per_second },
            None => Loop::Closed { with_pauses: load.has_pauses },
        };
        let driving = Driving {
            server: &self.server,
            sources: self.sources(),
            scratch: &self.scratch.directory,
            seed: self.seed,
            plan: &asked,
            copies: self
                .copies
                .as_ref()
                .map(|copies| (copies, run.id.as_str(), plan.snapshots_at.as_slice())),
            stop,
        };
        let driven = match self.base.tables {
            Tables::Orders { .. } => orders::drive(&driving, load.processors),
            Tables::Points { .. } => points::drive(&driving, load.has_ranges),
            Tables::Broker { .. } => broker::drive(&driving),
            Tables::Facts { .. } => facts::drive(&driving),
            Tables::Mixed { .. } => {
                let work = load.mixed.as_ref().expect("a load of both parts has work");
                mixed::drive(&driving, work)
            }
            Tables::Rows { .. } => {
                let work = load.work.as_ref().expect("a load of rows has work");
                rows::drive(&driving, work)
            }
        };
        let (outcome, mut figures) = self.or_out_of_memory(driven)?;
        let after = self.server.statistics()?;
        figures.statistics = after.since(&before).ok();
        figures.cold = cold;
        figures.engine = format!("PostgreSQL {}", self.server.version());
        figures.not_limited = self.server.not_limited();
        figures.base = self.from.clone();
        if let Some(level) = &mut figures.level {
            level.shared_because = confined;
        }
        figures.kinds = outcome.kinds.iter().map(kind).collect();
        self.server.end()?;
        let found = figures.level.as_ref().map(|level| level.per_second);
        let offered_per_second = load.rate.map(|Rate(rate)| rate).or(found);
        Ok(Figures { offered_per_second, ..told(run, variant, &outcome, figures) })
    }
}

/// What a workload needs to be loaded.
struct Loading<'a> {
    server: &'a Engine,
    sources: PathBuf,
    seed: u64,
    sessions: usize,
    limit: Duration,
    stop: &'a AtomicBool,
}

/// What a workload needs to be driven and checked.
struct Driving<'a> {
    server: &'a Engine,
    sources: PathBuf,
    /// For what is made beside the target.
    scratch: &'a Path,
    seed: u64,
    plan: &'a driver::Plan,
    /// Of what the database lies on, with the run's id and the moments of its snapshots.
    copies: Option<(&'a Copies, &'a str, &'a [f64])>,
    stop: &'a AtomicBool,
}

impl Driving<'_> {
    /// Has it driven while snapshots are taken.
    fn watched<P: Promises, T>(
        &self,
        promises: &P,
        run: impl FnOnce(&mut dyn Observer) -> Result<T>,
    ) -> Result<(T, Vec<Taken<P::Mark>>)> {
        let measured = match self.plan.measure {
            driver::Length::Time(time) => time,
            driver::Length::TransactionsPerClient(_) => Duration::ZERO,
        };
        let (clock, is_over) = (copies::Clock::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let taker = self.copies.map(|(copies, run, shares)| {
                let times: Vec<Duration> = shares.iter().map(|share| measured.mul_f64(*share)).collect();
                // Names of an array have no more than 63 characters.
                let name = format!("{OWN_PREFIX}{}-{:08x}", std::process::id(), jobs::mixed(0, run));
                let (clock, is_over) = (&clock, &is_over);
                scope.spawn(move || copies::take(copies, (&name, &times), promises, (clock, is_over)))
            });
            let found = run(&mut copies::Setting(&clock));
            is_over.store(true, Ordering::SeqCst);
            let taken = taker.map(|taker| taker.join().expect("a panic ends the process"));
            Ok((found?, taken.transpose()?.unwrap_or_default()))
        })
    }

    /// Has it driven, then asks everything of the database and of every snapshot that was taken meanwhile.
    fn kept<P: Promises, T>(
        &self,
        promises: &P,
        run: impl FnOnce(&mut dyn Observer) -> Result<T>,
        outcome: impl Fn(&T) -> &Outcome,
    ) -> Result<(T, DatabaseFigures)> {
        let (found, taken) = self.watched(promises, run)?;
        ended(outcome(&found))?;
        let (now, ()) = promises.mark_while(|| ());
        let Kept { offences, acknowledged } = promises.look(&mut self.server.session()?, now)?;
        let copies = match self.copies {
            Some((copies, ..)) => copies::look(copies, taken, (self.server.own()?, self.scratch), promises)?,
            None => Vec::new(),
        };
        let figures = DatabaseFigures {
            offences: Some(offences),
            acknowledged: Some(acknowledged),
            copies,
            ..DatabaseFigures::default()
        };
        Ok((found, figures))
    }
}

/// The conditions that do not hold, in sentences.
fn broken(verdicts: Vec<Verdict>) -> Vec<String> {
    let offence = |verdict: Verdict| {
        let example = verdict.example.unwrap_or_default();
        format!("condition {} ({}): {example}", verdict.number, verdict.name)
    };
    verdicts.into_iter().filter(|verdict| !verdict.holds).map(offence).collect()
}

/// What was loaded breaks no condition.
fn whole(verdicts: Vec<Verdict>) -> Result<()> {
    match broken(verdicts).first() {
        Some(first) => Err(Error::command(format!("what was loaded is not right: {first}"))),
        None => Ok(()),
    }
}

/// Durability is PostgreSQL's default: every commit waits for its flush.
pub(crate) fn settings(base: &Base) -> Settings {
    let shared = base.memory.map_or(SHARED_BUFFERS_DEFAULT, |memory| (memory.0 / 4).max(SHARED_BUFFERS_MIN));
    let settings = Settings::new()
        .with("listen_addresses", "")
        .with("unix_socket_permissions", "0777")
        .with("shared_buffers", Value::Bytes(shared))
        .with("max_connections", 300)
        .with("maintenance_work_mem", Value::Bytes(MAINTENANCE_BYTES))
        .with("max_wal_size", Value::Bytes(2 << 30));
    base.settings.iter().fold(settings, |settings, (name, value)| settings.with(name, value.as_str()))
}

/// A run that came to its end as planned; otherwise why not.
pub(crate) fn ended(outcome: &Outcome) -> Result<()> {
    match &outcome.ending {
        Ending::Complete => Ok(()),
        Ending::Stopped => Err(Error::interrupted()),
        Ending::Lost(sight) => Err(Error::command(format!(
            "the database was lost after {:.1} s: {}",
            sight.at_seconds, sight.context
        ))),
        Ending::Failed(sight) => Err(Error::command(format!(
            "transactions failed, the first after {:.1} s: {}",
            sight.at_seconds, sight.context
        ))),
    }
}

fn kind(of: &driver::KindOutcome) -> KindFigures {
    let latencies = of.latency.histogram();
    KindFigures {
        name: of.name.clone(),
        committed: of.committed,
        rolled_back: of.rolled_back,
        retries: of.retries,
        errors: of.errors + of.gave_up,
        p50_nanos: latencies.percentile(0.5),
        p99_nanos: latencies.percentile(0.99),
    }
}

fn told(run: &Run, variant: &Variant, outcome: &Outcome, mut database: DatabaseFigures) -> Figures {
    let mut latencies = Histogram::default();
    outcome.kinds.iter().for_each(|kind| latencies.merge(&kind.latency.histogram()));
    let course = course(outcome);
    copies::rates(&mut database.copies, &course);
    let cores = outcome.client_processor_seconds.unwrap_or(0.0) / outcome.measured_seconds.max(1e-9);
    Figures {
        measured_unix_millis: outcome.measured_unix_millis,
        measured_seconds: outcome.measured_seconds,
        requests: (outcome.per_second() * outcome.measured_seconds).round() as u64,
        latency_mean_nanos: latencies.mean(),
        p50_nanos: latencies.percentile(0.5),
        p95_nanos: latencies.percentile(0.95),
        p99_nanos: latencies.percentile(0.99),
        p999_nanos: latencies.percentile(0.999),
        max_nanos: latencies.max(),
        client_cores: cores,
        course,
        bytes: database
            .bytes_per_second
            .map_or(0, |(read, written)| ((read + written) * outcome.measured_seconds) as u64),
        database: Some(database),
        ..Figures::named(run, variant)
    }
}

/// The seconds of the measured phase.
pub(crate) fn course(outcome: &Outcome) -> Vec<Second> {
    let second = |second: &driver::Second| {
        let count: u64 = second.kinds.iter().map(|kind| kind.count).sum();
        let waited: f64 = second
            .kinds
            .iter()
            .filter_map(|kind| kind.mean_nanos.map(|mean| mean as f64 * kind.count as f64))
            .sum();
        Second {
            at_seconds: second.second as f64 + 1.0 - outcome.warm_up_seconds,
            requests: count as f64,
            latency_nanos: (count > 0).then(|| waited / count as f64),
        }
    };
    // Those before the measured time and behind it do not count.
    let warm_up = outcome.warm_up_seconds.ceil() as u64;
    let counted = warm_up..(outcome.warm_up_seconds + outcome.measured_seconds) as u64;
    let seconds = outcome.seconds.iter().filter(|second| counted.contains(&second.second));
    seconds.map(second).collect()
}
