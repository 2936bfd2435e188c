//! Loads a database with warehouses: rows by COPY side by side, then keys and indexes, then statistics.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ashlar_postgres::{Address, Session};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::fields::Pieces;
use crate::jobs::{self, Job};

use super::origin::{Origin, Size};
use super::rows;
use super::schema::{KEYS, TABLES};

/// What to load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Load {
    /// How many; about 100 MB each at full size.
    pub warehouses: i32,
    /// Rows of each.
    pub size: Size,
    /// Of all that is drawn.
    pub seed: u64,
    /// Sessions side by side: as many as there are processors.
    pub sessions: usize,
    /// No answer within this means that the server is lost. An index of a large table is one statement.
    pub limit: Duration,
}

/// What was loaded.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Loaded {
    /// In the database now.
    pub origin: Origin,
    /// All rows of all tables.
    pub rows: u64,
    /// Tables and indexes, as PostgreSQL counts them.
    pub size_bytes: u64,
    /// Bringing in the rows.
    pub rows_seconds: f64,
    /// Keys and indexes.
    pub indexes_seconds: f64,
    /// VACUUM and ANALYZE.
    pub vacuum_seconds: f64,
}

/// Loads warehouses into the schema `lab_orders` of a database.
///
/// # Errors
/// When it is there already, the server refuses or is lost, or `stop` is set; then the schema is left as it
/// is, without its keys, and [`unload`] drops it.
pub fn load(address: &Address, load: &Load, stop: &AtomicBool) -> Result<Loaded> {
    let origin = Origin::new(load.warehouses, load.size, load.seed)?;
    let mut session = Session::open(address, "ashlar lab load", load.limit)?;
    if has_schema(&mut session)? {
        let shown = address.shown();
        return Err(Error::environment(format!("{shown} has a schema lab_orders already: unload it first")));
    }
    session.run(TABLES)?;
    let do_all = |jobs| {
        let start = Instant::now();
        let rows = jobs::run(address, load.sessions, load.limit, stop, jobs)?;
        Ok::<_, Error>((rows, start.elapsed().as_secs_f64()))
    };
    let (rows, rows_seconds) = do_all(copies(&origin))?;
    let (_, indexes_seconds) = do_all(KEYS.iter().map(key_job).collect())?;
    let (_, vacuum_seconds) = do_all(vacuums())?;
    // Last: what has an origin is whole.
    session.run(&origin.insert_statement())?;
    let size_bytes = size_bytes(&mut session)?;
    Ok(Loaded { origin, rows, size_bytes, rows_seconds, indexes_seconds, vacuum_seconds })
}

/// Whether a database was loaded, to its end.
///
/// # Errors
/// When the server does not answer.
pub fn is_loaded(session: &mut Session) -> Result<bool> {
    Ok(has_schema(session)? && !session.run("SELECT 1 FROM lab_orders.origin")?.is_empty())
}

/// Drops the schema `lab_orders` with all that is in it.
///
/// # Errors
/// When the server refuses or does not answer.
pub fn unload(session: &mut Session) -> Result<()> {
    session.run("DROP SCHEMA IF EXISTS lab_orders CASCADE")?;
    Ok(())
}

fn has_schema(session: &mut Session) -> Result<bool> {
    let rows = session.run("SELECT 1 FROM pg_namespace WHERE nspname = 'lab_orders'")?;
    Ok(!rows.is_empty())
}

/// The largest tables first, so that no session is left alone with one at the end.
fn copies(origin: &Origin) -> Vec<Job> {
    type Make = fn(&Origin, i32) -> Pieces;
    const BY_WAREHOUSE: [(&str, &str, Make); 6] = [
        ("COPY lab_orders.order_line FROM STDIN", "order lines", rows::order_lines),
        ("COPY lab_orders.stock FROM STDIN", "stock", rows::stock),
        ("COPY lab_orders.customer FROM STDIN", "customers", rows::customers),
        ("COPY lab_orders.orders FROM STDIN", "orders", rows::orders),
        ("COPY lab_orders.history FROM STDIN", "history", rows::history),
        ("COPY lab_orders.new_order FROM STDIN", "new orders", rows::new_orders),
    ];
    let mut jobs = Vec::new();
    for warehouse in 1..=origin.warehouses {
        for (statement, what, make) in BY_WAREHOUSE {
            let what = format!("load {what} of warehouse {warehouse}");
            jobs.push(Job::copy(statement, what, make(origin, warehouse)));
        }
    }
    jobs.push(Job::copy("COPY lab_orders.item FROM STDIN", "load items", rows::items(origin)));
    jobs.push(Job::copy("COPY lab_orders.district FROM STDIN", "load districts", rows::districts(origin)));
    jobs.push(Job::copy("COPY lab_orders.warehouse FROM STDIN", "load warehouses", rows::warehouses(origin)));
    jobs
}

fn key_job((table, key, index): &(&str, &str, Option<&str>)) -> Job {
    let mut statements = vec![format!("ALTER TABLE lab_orders.{table} ADD PRIMARY KEY ({key})")];
    statements.extend(index.map(|index| format!("CREATE INDEX ON lab_orders.{table} ({index})")));
    Job::statements(statements)
}

/// Without the first, a run's first reads would write every page back; without the second, plans are guesses.
fn vacuums() -> Vec<Job> {
    let tables = KEYS.iter().map(|(table, ..)| *table).chain(["history"]);
    tables.map(|table| Job::statements(vec![format!("VACUUM (ANALYZE) lab_orders.{table}")])).collect()
}

fn size_bytes(session: &mut Session) -> Result<u64> {
    let rows = session.run(
        "SELECT sum(pg_total_relation_size(oid)) FROM pg_class
         WHERE relkind = 'r' AND relnamespace = 'lab_orders'::regnamespace",
    )?;
    let field = rows.first().and_then(|row| row.first()).and_then(Option::as_deref);
    field
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| Error::content("the size of lab_orders is no number"))
}
