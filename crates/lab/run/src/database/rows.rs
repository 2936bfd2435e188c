//! Whole tables: loaded, changed or read pass by pass, and held against what each step must leave behind.

use std::time::Duration;

use ashlar_scenario::{RowsCall, RowsJob, RowsWork};
use ashlar_workload::Listed;
use ashlar_workload::driver::{Length, Outcome};
use ashlar_workload::rows::{self, Call, Job, Rows};
use serde::{Deserialize, Serialize};

use super::{DatabaseFigures, Driving, Loading};
use crate::Result;

/// One step of a run, all passes together.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct StepFigures {
    /// `update`, `select`, `delete` or `scan`.
    pub name: String,
    /// Of the pass that warms caches: in no rate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_warming: bool,
    pub passes: u64,
    pub rows: u64,
    pub seconds: f64,
    pub rows_per_second: f64,
    /// Of the server's log.
    pub wal_bytes: u64,
}

pub(super) fn load(loading: &Loading<'_>, rows: u64, is_logged: bool) -> Result<()> {
    let load = rows::Load { rows: rows as i64, is_logged, limit: loading.limit };
    rows::load(&loading.server.address(), &load)?;
    Ok(())
}

fn job(work: &RowsWork) -> Job {
    match work.job {
        RowsJob::Change => Job::Change,
        RowsJob::Read => Job::Read,
    }
}

fn call(work: &RowsWork) -> Call {
    match work.call {
        RowsCall::Statements => Call::Statements,
        RowsCall::Procedure => Call::Procedure,
    }
}

/// What the steps ask of the server.
pub(crate) fn sql(work: RowsWork, rows: u64) -> Vec<Listed> {
    rows::statements(job(&work), call(&work), rows as i64)
}

/// Before each step the machine forgets what it has of the server's files, so that what is not in the
/// server's own memory comes from the target.
pub(super) fn drive(driving: &Driving<'_>, work: &RowsWork) -> Result<(Outcome, DatabaseFigures)> {
    let settings = rows::Settings {
        job: job(work),
        call: call(work),
        groups: work.groups,
        is_prewarmed: work.is_prewarmed,
        measure: match driving.plan.measure {
            Length::Time(time) => time,
            Length::TransactionsPerClient(_) => Duration::ZERO,
        },
        seed: driving.plan.seed,
    };
    let server = driving.server.own()?;
    let mut forget = || Ok(server.forget_pages()?);
    let found = Rows::open(&driving.server.address(), settings)?.run(&mut forget, driving.stop)?;
    let step = |step: &rows::Step| StepFigures {
        name: step.name.to_string(),
        is_warming: step.is_warming,
        passes: step.passes,
        rows: step.rows,
        seconds: step.seconds,
        rows_per_second: step.rows_per_second(),
        wal_bytes: step.wal_bytes,
    };
    let figures = DatabaseFigures {
        rows_per_second: Some(found.rows_per_second()),
        steps: found.steps.iter().map(step).collect(),
        rows_checked: Some(found.rows_checked),
        offences: Some(found.offences.clone()),
        ..DatabaseFigures::default()
    };
    Ok((found.outcome(), figures))
}

impl DatabaseFigures {
    /// Of a step, without the pass that warms.
    pub(crate) fn step_rows_per_second(&self, name: &str) -> Option<f64> {
        let step = self.steps.iter().find(|step| step.name == name && !step.is_warming)?;
        Some(step.rows_per_second)
    }
}
