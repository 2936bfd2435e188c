//! Databases that are made for the room they take: how many, how they come to be, and what is kept of them.
//!
//! A run makes a volume for each database, copies the database onto it, reads the accounts of the pool, and
//! takes everything away again. The databases to copy from are loaded once, beside the target.

use std::time::Duration;

use ashlar_units::ByteCount;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use crate::database::{Base, TRADE_DAYS, Tables, base_of, broker_tables};
use crate::error::{Error, Result};
use crate::file::Engine;
use crate::formula::Names;
use crate::quantity::{literal, optional};
use crate::scale::{Preset, Scaled};

/// Arbitrary: a volume and a mount each.
const DATABASES_MAX: usize = 64;
/// Arbitrary: an array has a limit of its own.
const SNAPSHOTS_MAX: u64 = 100;
/// What a database has beside its tables: its own catalogue and its log.
const OWN_BYTES: u64 = 64 << 20;
/// What a file system takes of a volume, and leaves free.
const FILE_SYSTEM_BYTES: u64 = 128 << 20;
/// Volume, file system, mount, check, and to take it away again; a guess for the plan alone.
const EACH_DATABASE: Duration = Duration::from_secs(2);
/// To read the accounts of a pool that has come to rest, three times; a guess for the plan alone.
const ACCOUNTS: Duration = Duration::from_secs(4);
/// Copies are written so fast; a guess for the plan alone.
const COPIED_PER_SECOND: u64 = 100 << 20;

/// The keys of `kind = "space"`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Space {
    /// Of all databases together, as loaded.
    data: Scaled<ByteCount>,
    /// Relative to each other.
    #[serde(default = "one", deserialize_with = "sizes")]
    sizes: Vec<u64>,
    /// How often there is a database of each size.
    #[serde(default = "once", deserialize_with = "literal")]
    twins: u64,
    #[serde(default)]
    made: Origin,
    /// Of the rows of a twin that are changed behind the copy.
    #[serde(default, deserialize_with = "optional")]
    change: Option<f64>,
    /// A volume is so many times as large as it has to be.
    #[serde(default = "exactly", deserialize_with = "literal")]
    provisioned: f64,
    /// Of the tables: a log that is written full of zeroes before.
    #[serde(default, deserialize_with = "optional")]
    log: Option<f64>,
    /// Of all volumes, taken when everything is there.
    #[serde(default, deserialize_with = "optional")]
    snapshots: Option<u64>,
    /// Volumes look for equal blocks.
    #[serde(default)]
    dedupe: bool,
}

/// How the twin of a database comes to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Loaded on its own, with other customers.
    #[default]
    Apart,
    /// A copy of the files.
    Copied,
    /// A copy of the files, of which a share of the rows is changed.
    Changed,
}

fn one() -> Vec<u64> {
    vec![1]
}

fn once() -> u64 {
    1
}

fn exactly() -> f64 {
    1.0
}

/// Whole numbers, at least one.
fn sizes<'de, D: Deserializer<'de>>(form: D) -> std::result::Result<Vec<u64>, D::Error> {
    let sizes = Vec::<u64>::deserialize(form)?;
    match sizes.is_empty() || sizes.contains(&0) {
        true => Err(D::Error::custom("sizes are whole numbers from 1, as in [3, 2, 4]")),
        false => Ok(sizes),
    }
}

/// Databases with every value known.
#[derive(Clone, PartialEq, Debug)]
pub struct SpaceLoad {
    pub bases: Bases,
    pub origin: Origin,
    /// Of the rows of a twin.
    pub change: f64,
    /// Of what a volume has to have.
    pub provisioned: f64,
    /// Of the tables.
    pub log: f64,
    pub snapshots: u64,
    pub has_dedupe: bool,
}

/// What must be loaded before a run, and is copied by it.
#[derive(Clone, PartialEq, Debug)]
pub struct Bases {
    /// One of each size, in the order of the file.
    pub databases: Vec<Base>,
    /// How often each is loaded, with other customers.
    pub twins: u64,
}

impl Space {
    pub(crate) fn at(&self, engine: &Engine, preset: Preset, names: &Names) -> Result<SpaceLoad> {
        let size = self.data.at("data", preset, names)?;
        if self.change.is_some() != (self.made == Origin::Changed) {
            return Err(Error::file("`change` belongs to made = \"changed\", which needs it"));
        }
        let change = self.change.unwrap_or(0.0);
        let snapshots = self.snapshots.unwrap_or(0);
        if change > 1.0 || self.provisioned < 1.0 || snapshots > SNAPSHOTS_MAX {
            return Err(Error::file(format!(
                "change is at most 100%, provisioned at least 1, and there are at most {SNAPSHOTS_MAX} snapshots"
            )));
        }
        if self.made != Origin::Apart && self.twins < 2 {
            return Err(Error::file("what is copied is a twin: give `twins = 2`"));
        }
        if self.sizes.len() * self.twins as usize > DATABASES_MAX {
            return Err(Error::file(format!("at most {DATABASES_MAX} databases")));
        }
        let whole = self.sizes.iter().sum::<u64>() * self.twins;
        let tables = |part: &u64| broker_tables(ByteCount((size.0 / whole * part).max(1)), TRADE_DAYS);
        let base = |part: &u64| base_of(tables(part), engine, preset, names);
        let databases = self.sizes.iter().map(base).collect::<Result<Vec<Base>>>()?;
        Ok(SpaceLoad {
            bases: Bases { databases, twins: self.twins },
            origin: self.made,
            change,
            provisioned: self.provisioned,
            log: self.log.unwrap_or(0.0),
            snapshots,
            has_dedupe: self.dedupe,
        })
    }
}

impl Bases {
    /// Tables of all that are loaded.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.twins * self.databases.iter().map(|base| base.tables.size_bytes()).sum::<u64>()
    }

    /// What the place must have where they are loaded: tables with the log of loading them.
    #[must_use]
    pub fn room_bytes(&self) -> u64 {
        let each = |base: &Base| 2 * base.tables.size_bytes() + 4 * OWN_BYTES;
        self.twins * self.databases.iter().map(each).sum::<u64>()
    }
}

impl SpaceLoad {
    /// What a volume for these tables is told to be.
    #[must_use]
    pub fn volume_bytes(&self, tables: Tables) -> u64 {
        let tables = tables.size_bytes() as f64;
        let needed = tables * (1.25 + self.change + self.log) + (OWN_BYTES + FILE_SYSTEM_BYTES) as f64;
        (needed * self.provisioned) as u64
    }

    /// Of zeroes, for these tables.
    #[must_use]
    pub fn log_bytes(&self, tables: Tables) -> u64 {
        (tables.size_bytes() as f64 * self.log) as u64
    }

    /// How many there are.
    #[must_use]
    pub fn databases(&self) -> usize {
        self.bases.databases.len() * self.bases.twins as usize
    }

    /// What the pool must have for all of them, if nothing of it could be reduced.
    #[must_use]
    pub fn room_bytes(&self) -> u64 {
        let own = OWN_BYTES * self.databases() as u64;
        (self.bases.size_bytes() as f64 * (1.25 + self.change)) as u64 + own
    }

    pub(crate) fn bytes_written(&self) -> f64 {
        self.bases.size_bytes() as f64 * (1.0 + self.change + self.log)
    }

    pub(crate) fn run_overhead(&self) -> Duration {
        let copied = Duration::from_secs_f64(self.bytes_written() / COPIED_PER_SECOND as f64);
        ACCOUNTS + EACH_DATABASE * self.databases() as u32 + copied
    }

    /// In words.
    #[must_use]
    pub fn in_words(&self) -> String {
        let made = match self.origin {
            Origin::Apart if self.bases.twins == 1 => "each loaded on its own".to_string(),
            Origin::Apart => "twins of each size loaded on their own".to_string(),
            Origin::Copied => "twins are copies of files".to_string(),
            Origin::Changed => {
                format!("twins are copies of files with {:.0} % of the trades changed", 100.0 * self.change)
            }
        };
        let log = match self.log {
            log if log > 0.0 => format!(", a log of {:.0} % full of zeroes", 100.0 * log),
            _ => String::new(),
        };
        let snapshots = match self.snapshots {
            0 => String::new(),
            count => format!(", {count} snapshots"),
        };
        let dedupe = if self.has_dedupe { ", equal blocks are looked for" } else { "" };
        format!(
            "{} databases in the shape of TPC-E, {made}, on volumes {} times as large as they have to be{log}\
             {snapshots}{dedupe}",
            self.databases(),
            self.provisioned
        )
    }
}

#[cfg(test)]
mod tests;
