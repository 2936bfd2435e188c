//! Workloads of a database: orders, and reads by key; what must be loaded before, and how many users ask.

use std::collections::BTreeMap;
use std::time::Duration;

use ashlar_units::ByteCount;
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::file::Engine;
use crate::formula::Names;
use crate::mixed::MixedWork;
use crate::offer::{Offer, Share};
use crate::quantity::{Rate, optional, percent_text};
use crate::rows::{self, RowsJob, RowsWork};
use crate::scale::{Preset, Scaled};
use crate::workload::log_room_bytes;

/// A warehouse with its indexes, as loaded; measured.
const WAREHOUSE_BYTES: u64 = 111 << 20;
/// A row of `points` with its key.
const ROW_BYTES: u64 = 1_200;
/// A customer of `broker` with what stays as it is, and with each day of past trades; measured.
const CUSTOMER_BYTES: u64 = 106_900;
const CUSTOMER_DAY_BYTES: u64 = 41_673;
/// A row of a source of `factload`, half of them in tables; measured.
const SOURCE_ROW_BYTES: u64 = 751;
/// Rows of one transaction of `factload`.
const BATCH_ROWS: u64 = 10_000;
/// Sources of `factload`, half of them tables and half of them files.
pub const SOURCES: u64 = 4;
/// Written to load a byte of tables: itself, its log, and what vacuum touches again.
pub(crate) const WRITTEN_PER_BYTE: f64 = 3.0;
/// Days of past trades where nothing is said.
pub(crate) const TRADE_DAYS: u64 = 10;
/// Of a server without tables, and of a file system.
const OTHER_BYTES: u64 = 512 << 20;
/// Written by a user without pauses in a second; a guess for the plan alone.
const WRITTEN_PER_USER: f64 = 2e6;
/// Written by a loader of facts in a second; a guess for the plan alone.
const WRITTEN_PER_LOADER: f64 = 10e6;
/// Start, stop, and checks that read little.
const RUN_OVERHEAD: Duration = Duration::from_secs(8);
/// The same where every pass is checked while it is made.
const ROWS_OVERHEAD: Duration = Duration::from_secs(2);
/// How fast conditions are asked of tables that are in no memory; measured on two processors.
const CHECKED_PER_SECOND: f64 = 50e6;

/// The keys of `kind = "orders"`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Orders {
    warehouses: Scaled<u64>,
    users: Scaled<u64>,
    /// Keying and think times, as in the rules that it derives from.
    #[serde(default)]
    pauses: bool,
    /// Transactions come at random, whether those before are done or not.
    rate: Option<Offer>,
    /// The server is kept on so many processors,
    cores: Option<Scaled<u64>>,
    /// and transactions come at the rate that keeps them so busy.
    #[serde(default, deserialize_with = "optional")]
    busy: Option<f64>,
}

/// The keys of `kind = "points"`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Points {
    data: Scaled<ByteCount>,
    users: Scaled<u64>,
    /// Three of ten bytes in short ranges instead of single rows.
    #[serde(default)]
    ranges: bool,
    /// Reads come at random, whether those before are done or not.
    rate: Option<Offer>,
}

/// The keys of `kind = "broker"`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Broker {
    data: Scaled<ByteCount>,
    users: Scaled<u64>,
    /// Of past trades: more of them is more data that is seldom read.
    #[serde(default = "usual_trade_days")]
    trade_days: Scaled<u64>,
    /// Transactions come at random, whether those before are done or not.
    rate: Option<Offer>,
}

/// The keys of `kind = "factload"`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FactLoad {
    /// Of all sources together.
    data: Scaled<ByteCount>,
    users: Scaled<u64>,
}

fn usual_trade_days() -> Scaled<u64> {
    Scaled::same(TRADE_DAYS)
}

/// What the driver of a database needs to know.
#[derive(Clone, PartialEq, Debug)]
pub struct DatabaseLoad {
    pub base: Base,
    pub users: u64,
    /// Users who key in and think.
    pub has_pauses: bool,
    /// Reads of ranges beside those of rows.
    pub has_ranges: bool,
    /// Of `rows`.
    pub work: Option<RowsWork>,
    /// Of `mixed`.
    pub mixed: Option<MixedWork>,
    /// Of a server that is kept on some of the machine's.
    pub processors: Option<Processors>,
    /// Of all users together; then the loop is open. `None` is a closed loop.
    pub rate: Option<Rate>,
    /// The loop is open, and its rate is known only when the run has ended that this names.
    pub share: Option<Share>,
}

impl DatabaseLoad {
    /// It takes more than a database on some server: files beside it, its memory emptied, or its processors.
    #[must_use]
    pub fn takes_own_server(&self) -> bool {
        let is_plain =
            matches!(self.base.tables, Tables::Orders { .. } | Tables::Points { .. } | Tables::Broker { .. });
        !is_plain || self.processors.is_some() || !self.base.settings.is_empty()
    }
}

/// How many processors a server has, and how busy it is kept.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Processors {
    pub cores: u64,
    /// Of their time.
    pub busy: f64,
}

/// What must be loaded before a run, and the server that has it; runs with equal bases share one.
#[derive(Clone, PartialEq, Debug)]
pub struct Base {
    pub tables: Tables,
    /// Of the server with all its processes and cached pages; `None` is all that the machine has.
    pub memory: Option<ByteCount>,
    /// Names and values as PostgreSQL takes them.
    pub settings: BTreeMap<String, String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tables {
    Orders {
        warehouses: u64,
    },
    Points {
        rows: u64,
    },
    /// Customers in tens.
    Broker {
        customers: u64,
        trade_days: u64,
    },
    /// Of each of the sources.
    Facts {
        rows_per_source: u64,
    },
    /// Those of `Points` and those of `Facts`.
    Mixed {
        rows: u64,
        rows_per_source: u64,
    },
    /// One table that is changed or read as a whole.
    Rows {
        rows: u64,
        is_logged: bool,
    },
}

impl Orders {
    pub(crate) fn at(&self, engine: &Engine, preset: Preset, names: &Names) -> Result<DatabaseLoad> {
        let tables = Tables::Orders { warehouses: self.warehouses.at("warehouses", preset, names)? };
        let (users, has_pauses) = ((&self.users, &self.rate), self.pauses);
        let processors = self.processors(preset, names)?;
        load(tables, users, engine, preset, names).map(|load| DatabaseLoad { has_pauses, processors, ..load })
    }

    fn processors(&self, preset: Preset, names: &Names) -> Result<Option<Processors>> {
        let (Some(cores), Some(busy)) = (&self.cores, self.busy) else {
            return match self.cores.is_some() || self.busy.is_some() {
                true => Err(Error::file("`cores` and `busy` stand together")),
                false => Ok(None),
            };
        };
        let cores = cores.at("cores", preset, names)?;
        if cores == 0 || !(0.05..=0.95).contains(&busy) {
            return Err(Error::file("`cores` is 1 at least, `busy` 5% to 95%"));
        }
        if self.rate.is_some() || self.pauses {
            return Err(Error::file("`busy` finds the rate: leave `rate` and `pauses` out"));
        }
        Ok(Some(Processors { cores, busy }))
    }
}

impl Points {
    pub(crate) fn at(&self, engine: &Engine, preset: Preset, names: &Names) -> Result<DatabaseLoad> {
        let size = self.data.at("data", preset, names)?;
        let tables = Tables::Points { rows: point_rows(size) };
        let (users, has_ranges) = ((&self.users, &self.rate), self.ranges);
        load(tables, users, engine, preset, names).map(|load| DatabaseLoad { has_ranges, ..load })
    }
}

impl Broker {
    pub(crate) fn at(&self, engine: &Engine, preset: Preset, names: &Names) -> Result<DatabaseLoad> {
        let size = self.data.at("data", preset, names)?;
        let trade_days = self.trade_days.at("trade_days", preset, names)?;
        load(broker_tables(size, trade_days), (&self.users, &self.rate), engine, preset, names)
    }
}

impl FactLoad {
    pub(crate) fn at(&self, engine: &Engine, preset: Preset, names: &Names) -> Result<DatabaseLoad> {
        let size = self.data.at("data", preset, names)?;
        let tables = Tables::Facts { rows_per_source: rows_per_source(size) };
        load(tables, (&self.users, &None), engine, preset, names)
    }
}

/// As many rows as come near this size.
pub(crate) fn point_rows(size: ByteCount) -> u64 {
    (size.0 / ROW_BYTES).max(1)
}

/// Whole batches, as many as come near this size in all sources together.
pub(crate) fn rows_per_source(size: ByteCount) -> u64 {
    (size.0 / SOURCE_ROW_BYTES / SOURCES / BATCH_ROWS).max(1) * BATCH_ROWS
}

/// What loaders of facts write.
pub(crate) fn written_by_loaders(loaders: u64, time: Duration) -> f64 {
    loaders as f64 * WRITTEN_PER_LOADER * time.as_secs_f64()
}

fn load(
    tables: Tables,
    (users, rate): (&Scaled<u64>, &Option<Offer>),
    engine: &Engine,
    preset: Preset,
    names: &Names,
) -> Result<DatabaseLoad> {
    let base = base_of(tables, engine, preset, names)?;
    let names = Names { data: Some(ByteCount(tables.size_bytes())), ..*names };
    let users = users.at("users", preset, &names)?.max(1);
    let (rate, share) = match rate {
        Some(offer) => offer.at(preset, &names)?,
        None => (None, None),
    };
    Ok(DatabaseLoad {
        base,
        users,
        has_pauses: false,
        has_ranges: false,
        work: None,
        mixed: None,
        processors: None,
        rate,
        share,
    })
}

/// What users of `broker` write.
pub(crate) fn written_by(users: u64, time: Duration) -> f64 {
    users as f64 * WRITTEN_PER_USER / 10.0 * time.as_secs_f64()
}

/// As many customers as come near this size.
pub(crate) fn broker_tables(size: ByteCount, trade_days: u64) -> Tables {
    let each = CUSTOMER_BYTES + trade_days * CUSTOMER_DAY_BYTES;
    Tables::Broker { customers: (size.0 / each / 10).max(1) * 10, trade_days }
}

/// The server of these tables.
pub(crate) fn base_of(tables: Tables, engine: &Engine, preset: Preset, names: &Names) -> Result<Base> {
    let Engine::Postgres { memory, settings } = engine else {
        return Err(Error::file(
            "this workload is of a database: the file needs [engine] kind = \"postgres\"",
        ));
    };
    let names = Names { data: Some(ByteCount(tables.size_bytes())), ..*names };
    let memory = memory.as_ref().map(|memory| memory.at("memory", preset, &names)).transpose()?;
    Ok(Base { tables, memory, settings: settings.clone() })
}

impl Tables {
    /// As loaded, with indexes.
    #[must_use]
    pub fn size_bytes(self) -> u64 {
        match self {
            Tables::Orders { warehouses } => warehouses * WAREHOUSE_BYTES,
            Tables::Points { rows } => rows * ROW_BYTES,
            Tables::Broker { customers, trade_days } => {
                customers * (CUSTOMER_BYTES + trade_days * CUSTOMER_DAY_BYTES)
            }
            Tables::Facts { rows_per_source } => SOURCES * rows_per_source * SOURCE_ROW_BYTES,
            Tables::Mixed { rows, rows_per_source } => {
                Tables::Points { rows }.size_bytes() + Tables::Facts { rows_per_source }.size_bytes()
            }
            Tables::Rows { rows, .. } => rows * rows::ROW_BYTES,
        }
    }
}

impl DatabaseLoad {
    /// What its place must have: the tables, once more while they are put in order, what comes while it runs,
    /// and their log.
    #[must_use]
    pub fn room_bytes(&self) -> u64 {
        let size = self.base.tables.size_bytes();
        3 * size + log_room_bytes(size) + OTHER_BYTES
    }

    pub(crate) fn bytes_loaded(&self) -> f64 {
        self.base.tables.size_bytes() as f64 * WRITTEN_PER_BYTE
    }

    pub(crate) fn bytes_written(&self, time: Duration) -> f64 {
        match self.base.tables {
            Tables::Orders { .. } if !self.has_pauses => {
                self.users as f64 * WRITTEN_PER_USER * time.as_secs_f64()
            }
            // A tenth of its transactions write; a loader does nothing else.
            Tables::Broker { .. } => written_by(self.users, time),
            Tables::Facts { .. } => written_by_loaders(self.users, time),
            Tables::Mixed { .. } => self.mixed.map_or(0.0, |work| work.bytes_written(time)),
            Tables::Rows { .. } => self.bytes_changed(),
            Tables::Orders { .. } | Tables::Points { .. } => 0.0,
        }
    }

    /// Of a pass over all rows: written anew, removed and filled again, each with its log.
    fn bytes_changed(&self) -> f64 {
        match self.work {
            Some(RowsWork { job: RowsJob::Change, .. }) => 2.0 * self.bytes_loaded(),
            _ => 0.0,
        }
    }

    pub(crate) fn run_overhead(&self) -> Duration {
        match (self.work, self.base.tables) {
            (Some(work), Tables::Rows { rows, .. }) => ROWS_OVERHEAD + work.pass_time(rows),
            (_, Tables::Orders { .. } | Tables::Broker { .. }) => {
                let checked = self.base.tables.size_bytes() as f64 / CHECKED_PER_SECOND;
                RUN_OVERHEAD + Duration::from_secs_f64(checked)
            }
            _ => RUN_OVERHEAD,
        }
    }

    /// In words.
    #[must_use]
    pub fn in_words(&self) -> String {
        let many = |count: u64, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
        let tables = match self.base.tables {
            Tables::Orders { warehouses } => {
                format!(
                    "orders of {}, derived from TPC-C and not comparable with its results",
                    many(warehouses, "warehouse")
                )
            }
            Tables::Broker { customers, trade_days } => format!(
                "a broker's {customers} customers with {trade_days} days of past trades, in the shape of TPC-E and \
                 not comparable with its results"
            ),
            Tables::Facts { rows_per_source } => {
                format!("{SOURCES} sources of {rows_per_source} rows, transformed and loaded into one table")
            }
            Tables::Mixed { rows, rows_per_source } => {
                return self.mixed.map_or_else(String::new, |work| work.in_words(rows, rows_per_source));
            }
            Tables::Points { rows } if self.has_ranges => {
                format!("{rows} rows of 1 KB, read by key and in short ranges")
            }
            Tables::Points { rows } => format!("{rows} rows of 1 KB, read by key"),
            Tables::Rows { rows, is_logged } => {
                let kind = if is_logged { "logged" } else { "not logged" };
                let work = self.work.map_or("", RowsWork::in_words);
                format!("{rows} rows of {} bytes, {kind}: {work}", rows::ROW_BYTES)
            }
        };
        if let Some(Processors { cores, busy }) = self.processors {
            let (cores, busy) = (many(cores, "processor"), percent_text(busy));
            return format!("{tables}, as many as keep {cores} of the server {busy} busy");
        }
        let pauses = if self.has_pauses { "who key in and think" } else { "without pauses" };
        format!("{tables}, {} {pauses}", many(self.users, "user"))
    }
}
