//! Several databases at once: on one server or on several, each with its own size and users, started one
//! after the other while those before go on. What is told of a run is the sum, and each of them.

use std::collections::BTreeMap;
use std::time::Duration;

use ashlar_units::ByteCount;
use serde::Deserialize;

use crate::database::{Base, TRADE_DAYS, Tables, base_of, broker_tables, written_by};
use crate::error::{Error, Result};
use crate::file::{Engine, is_name};
use crate::formula::Names;
use crate::quantity::{Rate, literal};
use crate::scale::{Preset, Scaled};

/// Arbitrary: a session for each user, and threads for all of them.
const DATABASES_MAX: usize = 32;
/// Start, conditions and stop of each; a guess for the plan alone.
const EACH: Duration = Duration::from_secs(2);
/// What a server has of its own.
const OWN_BYTES: u64 = 512 << 20;

/// The keys of `kind = "databases"`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Several {
    /// Of all that are loaded.
    data: Scaled<ByteCount>,
    /// In the order in which they are started.
    database: Vec<One>,
    /// The first so many of them are loaded.
    loaded: Scaled<u64>,
    /// The first so many of those are started in a run.
    running: Scaled<u64>,
    /// Of each database, divided by this.
    #[serde(default = "undivided")]
    users_by: Scaled<u64>,
    /// Between the start of a database and the next one's.
    stagger: Option<Scaled<Duration>>,
    /// Of each user: transactions come at random, whether those before are done or not.
    rate: Option<Scaled<Rate>>,
    /// Of the servers, where several are installed.
    #[serde(default)]
    version: Version,
}

/// A database as the file has it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct One {
    name: String,
    /// Relative to the others.
    #[serde(deserialize_with = "literal")]
    size: u64,
    #[serde(deserialize_with = "literal")]
    users: u64,
    /// Which server it is on.
    server: String,
}

/// Which of the versions of the engine that are installed: majors differ, or there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Version {
    /// The newest on all servers.
    #[default]
    Any,
    /// The newest on the first server and the one before it on the others, where there are two.
    Each,
    /// The newest of two majors; without a second there is no answer.
    Newer,
    /// The one before it.
    Older,
}

fn undivided() -> Scaled<u64> {
    Scaled::same(1)
}

/// Databases with every value known.
#[derive(Clone, PartialEq, Debug)]
pub struct SeveralLoad {
    pub bases: Servers,
    /// Of each database that is started, in their order.
    pub users: Vec<u64>,
    pub stagger: Duration,
    /// Of each user; then the loops are open.
    pub rate: Option<Rate>,
}

/// What must be loaded before a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Servers {
    /// By their names, in the order in which databases name them.
    pub servers: Vec<(String, Base)>,
    pub databases: Vec<Place>,
    pub version: Version,
}

/// A database on a server.
#[derive(Clone, PartialEq, Debug)]
pub struct Place {
    pub name: String,
    /// Index into the servers.
    pub server: usize,
    pub tables: Tables,
}

impl Several {
    pub(crate) fn at(&self, engine: &Engine, preset: Preset, names: &Names) -> Result<SeveralLoad> {
        let data = self.data.at("data", preset, names)?;
        let loaded = self.loaded.at("loaded", preset, names)? as usize;
        let running = self.running.at("running", preset, names)? as usize;
        let is_known = (1..=self.database.len().min(DATABASES_MAX)).contains(&loaded);
        if !is_known || running > loaded {
            return Err(Error::file(format!(
                "of {} databases {loaded} are loaded and {running} of those run: at most {DATABASES_MAX} can be",
                self.database.len()
            )));
        }
        self.check_names()?;
        let users_by = self.users_by.at("users_by", preset, names)?;
        let stagger = self.stagger.as_ref().map(|time| time.at("stagger", preset, names)).transpose()?;
        let rate = self.rate.as_ref().map(|rate| rate.at("rate", preset, names)).transpose()?;
        let users = self.database[..running].iter().map(|one| (one.users / users_by).max(1)).collect();
        let bases = self.servers(&self.database[..loaded], data, (engine, preset, names))?;
        Ok(SeveralLoad { bases, users, stagger: stagger.unwrap_or_default(), rate })
    }

    fn check_names(&self) -> Result<()> {
        let mut known = BTreeMap::new();
        for One { name, server, .. } in &self.database {
            if !is_name(name) || !is_name(server) || known.insert(name, ()).is_some() {
                let rule = "is used twice, or it or its server is not made of a-z, 0-9 and -";
                return Err(Error::file(format!("database: the name `{name}` {rule}")));
            }
        }
        Ok(())
    }

    /// The databases on their servers, whose memory goes by what each of them has.
    fn servers(
        &self,
        loaded: &[One],
        data: ByteCount,
        (engine, preset, names): (&Engine, Preset, &Names),
    ) -> Result<Servers> {
        let whole: u64 = loaded.iter().map(|one| one.size).sum();
        let mut found: Vec<(String, u64)> = Vec::new();
        let mut databases = Vec::new();
        for One { name, size, server, .. } in loaded {
            let tables = broker_tables(ByteCount((data.0 / whole * size).max(1)), TRADE_DAYS);
            let index = found.iter().position(|(known, _)| known == server).unwrap_or_else(|| {
                found.push((server.clone(), 0));
                found.len() - 1
            });
            found[index].1 += tables.size_bytes();
            databases.push(Place { name: name.clone(), server: index, tables });
        }
        let server = |(name, bytes): (String, u64)| {
            let tables = broker_tables(ByteCount(bytes), TRADE_DAYS);
            Ok((name, base_of(tables, engine, preset, names)?))
        };
        let servers = found.into_iter().map(server).collect::<Result<Vec<_>>>()?;
        Ok(Servers { servers, databases, version: self.version })
    }
}

impl Servers {
    /// Tables of all that are loaded.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.databases.iter().map(|place| place.tables.size_bytes()).sum()
    }

    /// What their place must have: the tables, their logs, and what comes while they run.
    #[must_use]
    pub fn room_bytes(&self) -> u64 {
        3 * self.size_bytes() + (1 << 30) + OWN_BYTES * self.servers.len() as u64
    }
}

impl SeveralLoad {
    /// All that are offered.
    #[must_use]
    pub fn offered(&self) -> Option<f64> {
        let Rate(each) = self.rate?;
        Some(each * self.users.iter().sum::<u64>() as f64)
    }

    pub(crate) fn bytes_written(&self, time: Duration) -> f64 {
        let users: u64 = self.users.iter().sum();
        written_by(users, time + self.stagger * (self.users.len() as u32).saturating_sub(1))
    }

    pub(crate) fn run_overhead(&self) -> Duration {
        let started = self.users.len() as u32;
        EACH * (started + self.bases.servers.len() as u32) + self.stagger * started.saturating_sub(1)
    }

    /// In words.
    #[must_use]
    pub fn in_words(&self) -> String {
        let started = self.users.len();
        let names: Vec<String> = self.bases.databases[..started]
            .iter()
            .zip(&self.users)
            .map(|(place, users)| format!("{} ({users} users)", place.name))
            .collect();
        let servers = self.bases.servers.len();
        let server = if servers == 1 { "one server".to_string() } else { format!("{servers} servers") };
        let pace = match self.rate {
            Some(Rate(rate)) => format!("each user {rate} transactions a second (open loop)"),
            None => "users without pauses".into(),
        };
        let stagger = match self.stagger {
            Duration::ZERO => String::new(),
            time => format!(", started {} s one after the other", time.as_secs_f64()),
        };
        format!(
            "{started} of {} databases on {server}, in the shape of TPC-E and not comparable with its results: \
             {}; {pace}{stagger}",
            self.bases.databases.len(),
            names.join(", ")
        )
    }
}

#[cfg(test)]
mod tests;
