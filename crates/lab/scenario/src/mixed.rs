//! Reads by key beside a load of facts: one server has the tables of both, and a run has one of them or both.
//!
//! A half of the data are rows to be read, and a half are sources to be loaded from. Runs of either part
//! alone are on the same server, with the same memory and the same data, so that what the other part costs is
//! all that differs.

use std::time::Duration;

use ashlar_units::ByteCount;
use serde::Deserialize;

use crate::database::{self, Base, DatabaseLoad, Tables, base_of};
use crate::error::Result;
use crate::file::Engine;
use crate::formula::Names;
use crate::scale::{Preset, Scaled};

/// The keys of `kind = "mixed"`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mixed {
    /// Of both parts together.
    data: Scaled<ByteCount>,
    readers: Scaled<u64>,
    loaders: Scaled<u64>,
    /// Three of ten bytes are read in short ranges instead of single rows.
    #[serde(default)]
    ranges: bool,
    /// Of the two; both where nothing is said.
    #[serde(default)]
    works: Parts,
}

/// What a run has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Parts {
    Reads,
    Load,
    #[default]
    Both,
}

/// What a run does with both parts' tables; who is not there has nobody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MixedWork {
    pub parts: Parts,
    pub readers: u64,
    pub loaders: u64,
    pub has_ranges: bool,
}

impl Mixed {
    pub(crate) fn at(&self, engine: &Engine, preset: Preset, names: &Names) -> Result<DatabaseLoad> {
        let half = ByteCount(self.data.at("data", preset, names)?.0 / 2);
        let (rows, rows_per_source) = (database::point_rows(half), database::rows_per_source(half));
        let base: Base = base_of(Tables::Mixed { rows, rows_per_source }, engine, preset, names)?;
        let names = Names { data: Some(ByteCount(base.tables.size_bytes())), ..*names };
        let readers = self.readers.at("readers", preset, &names)?.max(1);
        let loaders = self.loaders.at("loaders", preset, &names)?.max(1);
        let (readers, loaders) = match self.works {
            Parts::Reads => (readers, 0),
            Parts::Load => (0, loaders),
            Parts::Both => (readers, loaders),
        };
        let mixed = MixedWork { parts: self.works, readers, loaders, has_ranges: self.ranges };
        Ok(DatabaseLoad {
            base,
            users: readers + loaders,
            has_pauses: false,
            has_ranges: self.ranges,
            work: None,
            mixed: Some(mixed),
            processors: None,
            rate: None,
            share: None,
        })
    }
}

impl MixedWork {
    pub(crate) fn bytes_written(self, time: Duration) -> f64 {
        database::written_by_loaders(self.loaders, time)
    }

    /// In words, of tables of this size.
    pub(crate) fn in_words(self, rows: u64, rows_per_source: u64) -> String {
        let many = |count: u64, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
        let ranges = if self.has_ranges { " and in short ranges" } else { "" };
        let reads = format!("read by key{ranges} by {}", many(self.readers, "user"));
        let load = format!("loaded into one table by {}", many(self.loaders, "user"));
        let (reads, load) = match self.parts {
            Parts::Both => (reads, format!("{load} at the same time")),
            Parts::Reads => (reads, "not loaded".into()),
            Parts::Load => ("not read".into(), load),
        };
        let sources = database::SOURCES;
        format!("{rows} rows of 1 KB, {reads}; {sources} sources of {rows_per_source} rows, {load}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Load, Machine, Request, Scenario, Target, plan};

    const MACHINE: Machine =
        Machine { cores: 4, memory: ByteCount(8 << 30), bytes_per_second: ByteCount(200_000_000) };

    fn loads(id: &str) -> Vec<(String, DatabaseLoad)> {
        let scenario = Scenario::parse(crate::text(id).unwrap()).unwrap();
        let targets = [Target::any()];
        let request = Request { preset: Preset::S, seed: 1, targets: &targets, machine: MACHINE };
        let of = |variant: crate::Variant| match variant.load {
            Load::Database(load) => (variant.entries.join("-"), load),
            other => panic!("a database, not {other:?}"),
        };
        plan(&scenario, &request).unwrap().variants.into_iter().map(of).collect()
    }

    #[test]
    fn parts_alone_are_on_the_same_data_with_the_same_users() {
        let loads = loads("kaminario/mixed");
        let names: Vec<&str> = loads.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["reads", "load", "both"]);
        assert!(loads.iter().all(|(_, load)| load.base == loads[0].1.base), "one data set for all");
        let work: Vec<MixedWork> = loads.iter().map(|(_, load)| load.mixed.unwrap()).collect();
        assert_eq!((work[0].readers, work[0].loaders), (work[2].readers, 0));
        assert_eq!((work[1].readers, work[1].loaders), (0, work[2].loaders));
        assert_eq!(loads[2].1.users, work[2].readers + work[2].loaders);
    }

    #[test]
    fn reads_write_nothing_and_the_load_writes_the_same_beside_them() {
        let written = |load: &DatabaseLoad| load.bytes_written(Duration::from_secs(10));
        let loads = loads("kaminario/mixed");
        let [reads, load, both] = [0, 1, 2].map(|at: usize| written(&loads[at].1));
        assert_eq!(reads, 0.0);
        assert!(load > 0.0 && load == both);
    }

    #[test]
    fn words_say_which_part_runs() {
        let words: Vec<String> = loads("kaminario/mixed").iter().map(|(_, load)| load.in_words()).collect();
        assert!(words[0].contains("not loaded") && !words[0].contains("not read"), "{}", words[0]);
        assert!(words[1].contains("not read") && !words[1].contains("not loaded"), "{}", words[1]);
        assert!(words[2].contains("at the same time"), "{}", words[2]);
    }
}
