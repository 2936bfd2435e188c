//! Loads a database with customers: rows by COPY side by side, then keys and indexes, then statistics.

use std::ops::RangeInclusive;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ashlar_postgres::{Address, Session};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::fields::Pieces;
use crate::jobs::{self, Job};

use super::origin::{Origin, Size};
use super::rows::{fixed, growing, market, people};
use super::schema::{Class, FIXED, GROWING, KEYS, Key, SCALING, SCHEMA};

/// What to load.
#[derive(Clone, PartialEq, Debug)]
pub struct Load {
    /// How many: a multiple of ten.
    pub customers: i32,
    /// How much history.
    pub size: Size,
    /// Of all that is drawn.
    pub seed: u64,
    /// Where the tables lie.
    pub spaces: Spaces,
    /// Sessions side by side: as many as there are processors.
    pub sessions: usize,
    /// No answer within this means that the server is lost. An index of a large table is one statement.
    pub limit: Duration,
}

/// The tablespaces of the three classes of tables, with their indexes; `None` is the database's own.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Spaces {
    /// A few megabytes, whatever the number of customers.
    pub fixed: Option<String>,
    /// Customers, accounts, securities, prices: changed, never added to.
    pub scaling: Option<String>,
    /// Trades and what follows from them.
    pub growing: Option<String>,
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

/// One COPY has about so many rows. Arbitrary: seconds of work, so that a stop is heard.
const ROWS_PER_JOB: i64 = 50_000;
/// A table is loaded by no more of them, or their list would be long.
const JOBS_PER_TABLE_MAX: i64 = 2000;

/// Loads customers into the schema `lab_broker` of a database.
///
/// # Errors
/// When it is there already, the server refuses or is lost, or `stop` is set; then the schema is left as it
/// is, without its keys, and [`unload`] drops it.
pub fn load(address: &Address, load: &Load, stop: &AtomicBool) -> Result<Loaded> {
    let origin = Origin::new(load.customers, load.size, load.seed)?;
    let mut session = Session::open(address, "ashlar lab load", load.limit)?;
    if has_schema(&mut session)? {
        let shown = address.shown();
        return Err(Error::environment(format!("{shown} has a schema lab_broker already: unload it first")));
    }
    session.run(SCHEMA)?;
    for (class, tables) in [(Class::Fixed, FIXED), (Class::Scaling, SCALING), (Class::Growing, GROWING)] {
        session.run(&format!("{};{tables}", load.spaces.choose(class)))?;
    }
    let do_all = |jobs| {
        let start = Instant::now();
        let rows = jobs::run(address, load.sessions, load.limit, stop, jobs)?;
        Ok::<_, Error>((rows, start.elapsed().as_secs_f64()))
    };
    let (rows, rows_seconds) = do_all(copies(&origin))?;
    let (_, indexes_seconds) = do_all(KEYS.iter().map(|key| key_job(key, &load.spaces)).collect())?;
    let (_, vacuum_seconds) = do_all(KEYS.iter().map(vacuum_job).collect())?;
    session.run(&format!("SELECT setval('lab_broker.trade_id', {})", origin.trades()))?;
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
    Ok(has_schema(session)? && !session.run("SELECT 1 FROM lab_broker.origin")?.is_empty())
}

/// Drops the schema `lab_broker` with all that is in it.
///
/// # Errors
/// When the server refuses or does not answer.
pub fn unload(session: &mut Session) -> Result<()> {
    session.run("DROP SCHEMA IF EXISTS lab_broker CASCADE")?;
    Ok(())
}

fn has_schema(session: &mut Session) -> Result<bool> {
    let rows = session.run("SELECT 1 FROM pg_namespace WHERE nspname = 'lab_broker'")?;
    Ok(!rows.is_empty())
}

impl Spaces {
    /// The statement after which new tables and indexes lie where those of a class belong.
    fn choose(&self, class: Class) -> String {
        let space = match class {
            Class::Fixed => &self.fixed,
            Class::Scaling => &self.scaling,
            Class::Growing => &self.growing,
        };
        let quoted = space.as_deref().unwrap_or_default().replace('\'', "''");
        format!("SET default_tablespace = '{quoted}'")
    }
}

/// Numbers in parts, so that each part has about [`ROWS_PER_JOB`] rows.
fn parts(count: i64, rows_each: i64) -> impl Iterator<Item = RangeInclusive<i64>> {
    let step = (ROWS_PER_JOB / rows_each.max(1)).max(count / JOBS_PER_TABLE_MAX).max(1);
    (1..=count).step_by(step as usize).map(move |first| first..=(first + step - 1).min(count))
}

/// The same of numbers that are small.
fn small_parts(count: i32, rows_each: i64) -> impl Iterator<Item = RangeInclusive<i32>> {
    parts(count.into(), rows_each).map(|part| *part.start() as i32..=*part.end() as i32)
}

/// The trades first: they are by far the most, and no session is left alone with them at the end.
fn copies(origin: &Origin) -> Vec<Job> {
    let mut jobs = trade_copies(origin);
    jobs.extend(customer_copies(origin));
    let first_day = market::first_market_day(origin) - 1;
    for days in small_parts(origin.size.market_days, origin.securities().into()) {
        let days = first_day + days.start()..=first_day + days.end();
        let rows = market::daily_market(origin, days);
        jobs.push(Job::copy("COPY lab_broker.daily_market FROM STDIN", "load prices", rows));
    }
    // A text is as much work as a hundred other rows.
    for companies in small_parts(origin.companies(), 200) {
        let rows = market::news(origin, companies);
        jobs.push(Job::copy("COPY lab_broker.news FROM STDIN", "load news", rows));
    }
    for broker in 1..=origin.brokers() {
        let rows = people::brokers(origin, broker);
        jobs.push(Job::copy("COPY lab_broker.broker FROM STDIN", format!("load broker {broker}"), rows));
    }
    jobs.extend(whole_copies(origin));
    jobs
}

fn trade_copies(origin: &Origin) -> Vec<Job> {
    type Make = fn(&Origin, growing::Ids) -> Pieces;
    const BY_TRADE: [(&str, &str, Make); 5] = [
        ("COPY lab_broker.trade FROM STDIN", "trades", growing::trades),
        ("COPY lab_broker.trade_history FROM STDIN", "history", growing::trade_history),
        ("COPY lab_broker.settlement FROM STDIN", "settlements", growing::settlements),
        ("COPY lab_broker.cash_transaction FROM STDIN", "cash transactions", growing::cash_transactions),
        ("COPY lab_broker.holding_history FROM STDIN", "history of holdings", growing::holding_history),
    ];
    let parts = parts(origin.trades(), 1);
    let jobs = parts.flat_map(|ids| {
        BY_TRADE.iter().map(move |(statement, what, make)| {
            let what = format!("load {what} {} to {}", ids.start(), ids.end());
            Job::copy(statement, what, make(origin, ids.clone()))
        })
    });
    jobs.collect()
}

fn customer_copies(origin: &Origin) -> Vec<Job> {
    type Make = fn(&Origin, people::Customers) -> Pieces;
    const BY_CUSTOMER: [(&str, &str, Make); 7] = [
        ("COPY lab_broker.account FROM STDIN", "accounts", people::accounts),
        ("COPY lab_broker.watch_item FROM STDIN", "watch items", people::watch_items),
        ("COPY lab_broker.holding FROM STDIN", "holdings", growing::holdings),
        ("COPY lab_broker.holding_summary FROM STDIN", "sums of holdings", growing::holding_summaries),
        ("COPY lab_broker.customer FROM STDIN", "customers", people::customers),
        ("COPY lab_broker.customer_tax FROM STDIN", "taxes of customers", people::customer_taxes),
        ("COPY lab_broker.permission FROM STDIN", "permissions", people::permissions),
    ];
    let jobs = small_parts(origin.customers, 100).flat_map(|customers| {
        BY_CUSTOMER.iter().map(move |(statement, what, make)| {
            let what = format!("load {what} of customers {} to {}", customers.start(), customers.end());
            Job::copy(statement, what, make(origin, customers.clone()))
        })
    });
    jobs.collect()
}

/// Tables that are small enough to be loaded at once.
fn whole_copies(origin: &Origin) -> Vec<Job> {
    type Make = fn(&Origin) -> Pieces;
    const WHOLE: [(&str, &str, Make); 11] = [
        ("COPY lab_broker.financial FROM STDIN", "financials", market::financials),
        ("COPY lab_broker.security FROM STDIN", "securities", market::securities),
        ("COPY lab_broker.last_trade FROM STDIN", "last trades", market::last_trades),
        ("COPY lab_broker.company FROM STDIN", "companies", market::companies),
        ("COPY lab_broker.competitor FROM STDIN", "competitors", market::competitors),
        ("COPY lab_broker.place FROM STDIN", "places", fixed::places),
        ("COPY lab_broker.tax FROM STDIN", "taxes", fixed::taxes),
        ("COPY lab_broker.industry FROM STDIN", "industries", fixed::industries),
        ("COPY lab_broker.rate FROM STDIN", "rates", fixed::rates),
        ("COPY lab_broker.sector FROM STDIN", "sectors", fixed::sectors),
        ("COPY lab_broker.exchange FROM STDIN", "exchanges", fixed::exchanges),
    ];
    let jobs = WHOLE
        .iter()
        .map(|(statement, what, make)| Job::copy(statement, format!("load {what}"), make(origin)));
    jobs.collect()
}

fn key_job((class, table, key, indexes): &Key, spaces: &Spaces) -> Job {
    let mut statements =
        vec![spaces.choose(*class), format!("ALTER TABLE lab_broker.{table} ADD PRIMARY KEY ({key})")];
    statements.extend(indexes.iter().map(|index| format!("CREATE INDEX ON lab_broker.{table} ({index})")));
    Job::statements(statements)
}

/// Without the first, a run's first reads would write every page back; without the second, plans are guesses.
fn vacuum_job((_, table, ..): &Key) -> Job {
    Job::statements(vec![format!("VACUUM (ANALYZE) lab_broker.{table}")])
}

fn size_bytes(session: &mut Session) -> Result<u64> {
    let rows = session.run(
        "SELECT sum(pg_total_relation_size(oid)) FROM pg_class
         WHERE relkind = 'r' AND relnamespace = 'lab_broker'::regnamespace",
    )?;
    let field = rows.first().and_then(|row| row.first()).and_then(Option::as_deref);
    field
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| Error::content("the size of lab_broker is no number"))
}
