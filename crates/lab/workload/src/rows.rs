//! Whole tables: every row changed, found by a value, read, and removed, and each step held against what it
//! must leave behind.
//!
//! ```text
//!  change: update all ─▶ select by value ─▶ delete all ─▶ fill again (not measured)
//!  read:   scan all   ─▶ select by value                  (the first pass warms caches, and is told apart)
//! ```
//! `lab_rows.item (id, grp, number, filler)` has about 240 bytes a row with its two indexes. The rows of a
//! group lie as far from each other as can be, so a select by group reads a page for each.

mod load;
mod pass;
mod step;

use std::time::Duration;

use ashlar_postgres::{Address, Session};

pub use load::{Load, load, unload};
pub use pass::{Found, Step};

use crate::error::{Error, Result};
use crate::prepare::Listed;

/// So many rows are changed or removed by one statement, in a transaction of its own. Arbitrary: a statement
/// costs more than its way to the server, and the way is seen still.
pub const ROWS_PER_STATEMENT: i64 = 100;
/// So many rows have the same value, and are found by it.
pub const ROWS_PER_GROUP: i64 = 100;

/// What is done with the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Job {
    Change,
    Read,
}

/// How the server is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// Statement by statement, each planned anew.
    Statements,
    /// One call for all: the server has the loop and keeps its plans. It commits as often.
    Procedure,
}

/// How a run goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    pub job: Job,
    pub call: Call,
    /// So many groups are selected in each pass.
    pub groups: u64,
    /// Table and indexes are read into the server's own memory before each pass.
    pub is_prewarmed: bool,
    /// Passes are made until steps took so long together: one at least.
    pub measure: Duration,
    /// Of all random numbers.
    pub seed: u64,
}

/// What the steps ask of a server, each with its first rows.
#[must_use]
pub fn statements(job: Job, call: Call, rows: i64) -> Vec<Listed> {
    step::listed(job, call, rows)
}

/// The workload on a loaded database.
pub struct Rows {
    session: Session,
    rows: i64,
    settings: Settings,
}

impl Rows {
    /// On a database that was loaded.
    ///
    /// # Errors
    /// When nothing is loaded there, or the server does not answer.
    pub fn open(address: &Address, settings: Settings) -> Result<Rows> {
        let mut session = Session::open(address, "ashlar lab rows", Duration::from_secs(60))?;
        let rows = load::rows(&mut session)?;
        // A call may be for the whole table. Far above what a drive that seeks for every row takes.
        let limit =
            Duration::from_secs(600) + Duration::from_millis(20) * u32::try_from(rows).unwrap_or(u32::MAX);
        let mut session = Session::open(address, "ashlar lab rows", limit)?;
        session.run("SET max_parallel_workers_per_gather = 0")?;
        if settings.is_prewarmed {
            session.run("CREATE EXTENSION IF NOT EXISTS pg_prewarm").map_err(|error| {
                Error::environment(format!(
                    "pg_prewarm: {error}: install the modules that come with PostgreSQL (contrib)"
                ))
            })?;
        }
        Ok(Rows { session, rows, settings })
    }

    fn groups(&self) -> i64 {
        groups(self.rows)
    }
}

/// How many groups so many rows have.
fn groups(rows: i64) -> i64 {
    (rows / ROWS_PER_GROUP).max(1)
}
