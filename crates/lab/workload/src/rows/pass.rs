//! Passes over the table until the measured time is over, with what each step took and left behind.

use std::sync::atomic::AtomicBool;

use ashlar_statistics::latencies::Latencies;

use super::load::refill;
use super::step::Timed;
use super::{Job, Rows};
use crate::driver::{Ending, KindOutcome, Loop, Outcome};
use crate::error::{Error, Result};
use crate::random::Random;

/// One step, of all passes together.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Step {
    pub name: &'static str,
    /// Of the pass that warms caches: told apart, and in no rate.
    pub is_warming: bool,
    pub passes: u64,
    pub rows: u64,
    pub seconds: f64,
    /// Of the server's log.
    pub wal_bytes: u64,
    /// Of statements.
    pub latency: Latencies,
}

impl Step {
    /// While it was under way.
    #[must_use]
    pub fn rows_per_second(&self) -> f64 {
        self.rows as f64 / self.seconds.max(1e-9)
    }
}

/// What a run found.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    pub steps: Vec<Step>,
    /// What was not right, in sentences.
    pub offences: Vec<String>,
    /// Rows whose content, or whose part in sums, was as it must be.
    pub rows_checked: u64,
    pub seed: u64,
}

/// What is made known or done before each step, such as dropping pages from the machine's memory.
pub type Before<'a> = &'a mut dyn FnMut() -> Result<()>;

impl Rows {
    /// Makes passes until steps took the measured time together. Before each step everything is written down.
    ///
    /// # Errors
    /// When the server refuses or is lost, or `stop` is set.
    pub fn run(&mut self, before: Before<'_>, stop: &AtomicBool) -> Result<Found> {
        let seed = self.settings.seed;
        let mut found = Found { steps: Vec::new(), offences: Vec::new(), rows_checked: 0, seed };
        let mut random = Random::new(seed, 0);
        if let Some(what) = self.look("before the run", 0)? {
            found.offences.push(what);
            refill(&mut self.session, self.rows)?;
        }
        let mut is_warming = self.settings.job == Job::Read;
        loop {
            if self.settings.is_prewarmed {
                self.session.run(PREWARM)?;
            }
            match self.settings.job {
                Job::Change => self.change(&mut found, (&mut *before, &mut random), stop)?,
                Job::Read => self.read(&mut found, is_warming, (&mut *before, &mut random), stop)?,
            }
            if !is_warming && found.seconds() >= self.settings.measure.as_secs_f64() {
                return Ok(found);
            }
            is_warming = false;
        }
    }

    fn change(
        &mut self,
        found: &mut Found,
        (before, random): (Before<'_>, &mut Random),
        stop: &AtomicBool,
    ) -> Result<()> {
        self.step(found, ("update", false), before, |rows| rows.update_all(stop))?;
        let after = self.look("after update", 1)?;
        found.note(after, self.rows);
        self.step(found, ("select", false), before, |rows| rows.select(1, random, stop))?;
        self.step(found, ("delete", false), before, |rows| rows.delete_all(stop))?;
        let after = self.look_empty()?;
        found.note(after, self.rows);
        refill(&mut self.session, self.rows)
    }

    fn read(
        &mut self,
        found: &mut Found,
        is_warming: bool,
        (before, random): (Before<'_>, &mut Random),
        stop: &AtomicBool,
    ) -> Result<()> {
        self.step(found, ("scan", is_warming), before, |rows| rows.scan(stop))?;
        self.step(found, ("select", is_warming), before, |rows| rows.select(0, random, stop))
    }

    fn step(
        &mut self,
        found: &mut Found,
        (name, is_warming): (&'static str, bool),
        before: Before<'_>,
        work: impl FnOnce(&mut Rows) -> Result<Timed>,
    ) -> Result<()> {
        self.session.run("CHECKPOINT")?;
        before()?;
        let wal_before = self.wal_bytes()?;
        let timed = work(self)?;
        let wal = self.wal_bytes()?.saturating_sub(wal_before);
        let known = found.steps.iter().position(|step| (step.name, step.is_warming) == (name, is_warming));
        let index = known.unwrap_or_else(|| {
            found.steps.push(Step { name, is_warming, ..Step::default() });
            found.steps.len() - 1
        });
        let step = &mut found.steps[index];
        step.passes += 1;
        step.rows += timed.rows;
        step.seconds += timed.seconds;
        step.wal_bytes += wal;
        step.latency.merge(&timed.latency);
        // What changes is looked at behind the step.
        let looked_at = if matches!(name, "select" | "scan") { timed.rows } else { 0 };
        found.note(timed.wrong, looked_at as i64);
        Ok(())
    }

    fn wal_bytes(&mut self) -> Result<u64> {
        let answered = self.session.run("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")?;
        let place = answered.first().and_then(|row| row.first()?.as_deref()?.parse().ok());
        place.ok_or_else(|| Error::content("the server does not say how long its log is"))
    }
}

/// Table and indexes into the server's buffers.
const PREWARM: &str = "SELECT sum(pg_prewarm(oid::regclass)) FROM pg_class \
     WHERE relnamespace = 'lab_rows'::regnamespace AND relkind IN ('r', 'i')";

impl Found {
    fn note(&mut self, wrong: Option<String>, rows: i64) {
        match wrong {
            Some(what) => self.offences.push(what),
            None => self.rows_checked += rows as u64,
        }
    }

    fn measured(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| !step.is_warming)
    }

    /// Of the measured steps.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.measured().map(|step| step.seconds).sum()
    }

    /// Of the measured steps together.
    #[must_use]
    pub fn rows_per_second(&self) -> f64 {
        self.measured().map(|step| step.rows).sum::<u64>() as f64 / self.seconds().max(1e-9)
    }

    /// As the driver of many clients tells a run: a statement is a transaction.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let kind = |step: &Step| KindOutcome {
            name: step.name.into(),
            attempted: step.latency.count(),
            committed: step.latency.count(),
            latency: step.latency.clone(),
            service: step.latency.clone(),
            ..KindOutcome::default()
        };
        Outcome {
            pace: Loop::Closed { with_pauses: false },
            clients: 1,
            seed: self.seed,
            warm_up_seconds: 0.0,
            measured_seconds: self.seconds(),
            measured_unix_millis: None,
            ending: Ending::Complete,
            kinds: self.measured().map(kind).collect(),
            seconds: Vec::new(),
            arrivals: None,
            client_processor_seconds: None,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}
