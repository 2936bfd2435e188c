//! Bases: databases that were loaded by an earlier run and are used again, where all that made them is the
//! same.
//!
//! Only whoever asks for it keeps bases and uses them: `ashlar lab run --keep-base`. A base is never worked
//! in; what a run works in is a copy or a clone of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ashlar_postgres::{Installation, Search};
use ashlar_programs::Launcher;
use ashlar_report::{bytes, seconds};
use ashlar_scenario::{Base, Load, Servers, Tables};
use ashlar_target::{Access, KeptBase, Manifest, Shelf};
use serde::{Deserialize, Serialize};

use crate::{Error, Outline, Result, database, jobs, several};

/// How loaders are called: shapes of rows, batches, how content compresses.
const SHAPES: [&str; 7] = [
    include_str!("database.rs"),
    include_str!("database/broker.rs"),
    include_str!("database/facts.rs"),
    include_str!("database/mixed.rs"),
    include_str!("database/orders.rs"),
    include_str!("database/points.rs"),
    include_str!("database/rows.rs"),
];

/// All that makes what is loaded, by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MadeOf {
    kind: &'static str,
    pub(crate) values: BTreeMap<String, String>,
}

/// How a data set came from a base.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// A clone of the array.
    Clone,
    /// Files that share their bytes with those of the base.
    Reflink,
    Copy,
}

/// The base that the data of a run came from.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FromBase {
    pub name: String,
    pub made_unix_seconds: u64,
    /// When it was used.
    pub age_seconds: u64,
    pub way: Way,
    pub bytes: u64,
    /// Until the server could be started.
    pub took_seconds: f64,
}

impl FromBase {
    /// For a page.
    pub(crate) fn in_words(&self) -> String {
        let way = match self.way {
            Way::Clone => "cloned by the array",
            Way::Reflink => "copied, sharing bytes in the file system",
            Way::Copy => "copied",
        };
        format!(
            "a base that was loaded {} before, {way} in {}",
            seconds(self.age_seconds.max(1)),
            ashlar_report::nanos(self.took_seconds * 1e9)
        )
    }
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl MadeOf {
    /// A server with one database.
    pub(crate) fn database(installation: &Installation, base: &Base, (seed, log): (u64, bool)) -> MadeOf {
        let mut made = MadeOf::begin(kind(base.tables), (seed, log));
        made.put("workload", format!("{:?}", base.tables));
        made.server("", installation, base);
        made
    }

    /// Servers with several.
    pub(crate) fn several(
        installations: &[Installation],
        bases: &Servers,
        (seed, log): (u64, bool),
    ) -> MadeOf {
        let mut made = MadeOf::begin("databases", (seed, log));
        let place = |place: &ashlar_scenario::Place| {
            format!("{} on {}: {:?}", place.name, bases.servers[place.server].0, place.tables)
        };
        made.put("workload", bases.databases.iter().map(place).collect::<Vec<_>>().join("; "));
        for ((name, base), installation) in bases.servers.iter().zip(installations) {
            made.server(name, installation, base);
        }
        made
    }

    fn begin(kind: &'static str, (seed, log): (u64, bool)) -> MadeOf {
        let mut made = MadeOf { kind, values: BTreeMap::new() };
        made.put("seed", seed.to_string());
        made.put("log", if log { "apart" } else { "with the data" }.to_string());
        made.put("processor", std::env::consts::ARCH.to_string());
        let loader = ashlar_workload::loaders() + &SHAPES.concat();
        made.put("loader", format!("{:016x}", ashlar_target::digest(loader.as_bytes())));
        made
    }

    fn put(&mut self, name: &str, value: String) {
        self.values.insert(name.to_string(), value);
    }

    fn server(&mut self, name: &str, installation: &Installation, base: &Base) {
        let of = |what: &str| if name.is_empty() { what.to_string() } else { format!("{what} of {name}") };
        let settings = database::settings(base);
        let settings: Vec<String> =
            settings.iter().map(|one| format!("{}={}", one.name, one.value)).collect();
        let memory = base.memory.map_or("not limited".to_string(), |memory| memory.0.to_string());
        self.put(&of("engine"), format!("PostgreSQL {}", installation.version()));
        self.put(&of("settings"), settings.join(", "));
        self.put(&of("memory"), memory);
    }

    /// What a base of it is called.
    pub(crate) fn name(&self) -> String {
        Manifest::name(self.kind, &self.values)
    }
}

fn kind(tables: Tables) -> &'static str {
    match tables {
        Tables::Orders { .. } => "orders",
        Tables::Points { .. } => "points",
        Tables::Broker { .. } => "broker",
        Tables::Facts { .. } => "factload",
        Tables::Mixed { .. } => "mixed",
        Tables::Rows { .. } => "rows",
    }
}

/// What a plan says of bases: which there are, and which will be kept.
///
/// # Errors
/// When a target or PostgreSQL cannot be looked at.
pub fn bases_told(outline: &Outline, access: &Access) -> Result<Vec<String>> {
    let directory = std::env::temp_dir();
    let launcher = Arc::new(Launcher::new(directory.clone(), directory, Arc::default()));
    let mut told = BTreeSet::new();
    for variant in &outline.plan.variants {
        let address = &variant.target.address;
        let of = (jobs::mixed(outline.seed, address), variant.log.is_some());
        let made_of = match &variant.load {
            Load::Database(load) if !variant.target.is_server() => {
                let found = Installation::find(&launcher, &Search::default())?;
                MadeOf::database(&found, &load.base, of)
            }
            Load::Several(load) => {
                MadeOf::several(&several::chosen(&launcher, &load.bases)?, &load.bases, of)
            }
            _ => continue,
        };
        let size = bytes(variant.load.size_bytes());
        told.insert(match kept(address, access, &made_of.name())? {
            Some(base) => format!(
                "{address}: {size} are not loaded: base {} is there, made {} before.",
                base.name,
                seconds(now().saturating_sub(base.made_unix_seconds.unwrap_or_default()).max(1))
            ),
            None => format!(
                "{address}: {size} are loaded, and kept there as base {}, until `ashlar lab bases --delete`.",
                made_of.name()
            ),
        });
    }
    Ok(told.into_iter().collect())
}

fn kept(address: &str, access: &Access, name: &str) -> Result<Option<KeptBase>> {
    let refused = |refusal: ashlar_target::Refusal| Error::environment(refusal.to_string());
    match Shelf::of(address, access).map_err(refused)? {
        Some(shelf) => shelf.find(name).map_err(refused),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_is_of_all_that_made_it() {
        let made = |seed, log| MadeOf::begin("points", (seed, log)).name();
        assert_eq!(made(1, false), made(1, false));
        assert!(made(1, false) != made(2, false) && made(1, false) != made(1, true));
        let found = MadeOf::begin("points", (1, false));
        assert!(found.values.contains_key("loader"), "{found:?}");
    }
}
