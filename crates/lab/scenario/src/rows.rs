//! The workload of whole tables: how large the table and the server's own memory are, and what is done.

use std::time::Duration;

use ashlar_units::ByteCount;
use serde::Deserialize;

use crate::database::{Base, DatabaseLoad, Tables};
use crate::error::{Error, Result};
use crate::file::Engine;
use crate::formula::Names;
use crate::scale::{Preset, Scaled};

/// A row with its two indexes; measured.
pub(crate) const ROW_BYTES: u64 = 240;
/// For the server beside its buffers: processes, sorts, and what the kernel caches.
const BESIDE_BUFFERS: u64 = 384 << 20;
/// PostgreSQL starts with less; then its catalogs do not fit beside what is asked for.
const BUFFERS_MIN: u64 = 4 << 20;
/// Of a row in a pass: updated, deleted and filled again, or read twice. Measured on two busy cores.
const CHANGE_TIME: Duration = Duration::from_micros(30);
const READ_TIME: Duration = Duration::from_micros(2);

/// The keys of `kind = "rows"`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rows {
    data: Scaled<ByteCount>,
    /// Shared buffers. The kernel's cache is dropped before each step, so that what is not in them comes from
    /// the target.
    buffers: Scaled<ByteCount>,
    job: RowsJob,
    #[serde(default)]
    call: RowsCall,
    /// Groups of a hundred rows that are selected in each pass.
    groups: Scaled<u64>,
    /// Changes are logged, and commits wait for the log.
    #[serde(default = "yes")]
    durable: bool,
    /// The table is read into the buffers before each pass.
    #[serde(default)]
    prewarm: bool,
}

/// What is done with the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowsJob {
    /// All are updated, some selected, all deleted.
    Change,
    /// All are scanned, some selected.
    Read,
}

/// How the server is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowsCall {
    #[default]
    Statements,
    Procedure,
}

/// What a run does with the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowsWork {
    pub job: RowsJob,
    pub call: RowsCall,
    pub groups: u64,
    pub is_prewarmed: bool,
}

fn yes() -> bool {
    true
}

impl Rows {
    pub(crate) fn at(&self, engine: &Engine, preset: Preset, names: &Names) -> Result<DatabaseLoad> {
        let Engine::Postgres { memory: None, settings } = engine else {
            return Err(Error::file(
                "workload `rows` needs [engine] kind = \"postgres\" without memory: `buffers` says it",
            ));
        };
        let size = self.data.at("data", preset, names)?;
        let tables = Tables::Rows { rows: (size.0 / ROW_BYTES).max(1), is_logged: self.durable };
        let names = Names { data: Some(ByteCount(tables.size_bytes())), ..*names };
        let buffers = self.buffers.at("buffers", preset, &names)?.0.max(BUFFERS_MIN);
        let mut settings = settings.clone();
        settings.insert("shared_buffers".into(), format!("{}kB", buffers >> 10));
        if !self.durable {
            settings.insert("synchronous_commit".into(), "off".into());
        }
        let base = Base { tables, memory: Some(ByteCount(buffers + BESIDE_BUFFERS)), settings };
        let groups = self.groups.at("groups", preset, &names)?.max(1);
        let work = RowsWork { job: self.job, call: self.call, groups, is_prewarmed: self.prewarm };
        Ok(DatabaseLoad {
            base,
            users: 1,
            has_pauses: false,
            has_ranges: false,
            work: Some(work),
            mixed: None,
            processors: None,
            rate: None,
            share: None,
        })
    }
}

impl RowsWork {
    /// A pass over so many rows, whether the measured time is shorter or not.
    pub(crate) fn pass_time(self, rows: u64) -> Duration {
        let each = match self.job {
            RowsJob::Change => CHANGE_TIME,
            RowsJob::Read => READ_TIME,
        };
        each.mul_f64(rows as f64)
    }

    /// In words.
    pub(crate) fn in_words(self) -> &'static str {
        match (self.job, self.call) {
            (RowsJob::Change, RowsCall::Statements) => {
                "all updated, some selected, all deleted, statement by statement"
            }
            (RowsJob::Change, RowsCall::Procedure) => {
                "all updated, some selected, all deleted, by one call of a procedure each"
            }
            (RowsJob::Read, _) => "all scanned, some selected, pass after pass",
        }
    }
}
