//! What the pool remembers of a schedule.

use serde::{Deserialize, Serialize};

use crate::every::Every;
use crate::keep::Keep;
use crate::name::time_in_name;

/// How far the time in a snapshot's name may be from when it was taken. Arbitrary: the name is given right
/// before, and what a person named so by hand has another time in it.
const NAME_SECONDS_MAX: u64 = 60;

/// A schedule. When it took the last snapshot is not in it: the snapshots say that.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Unique over all pools.
    pub name: String,
    /// What snapshots are taken of.
    pub target: Target,
    /// How often.
    pub every: Every,
    /// Which of them stay.
    pub keep: Keep,
    /// One of so many is proven.
    #[serde(default)]
    pub prove_every: Option<u32>,
    /// Somebody wants none for now.
    #[serde(default)]
    pub is_paused: bool,
    /// When it was made.
    pub created_unix_seconds: u64,
}

/// What snapshots are taken of, all of it at one instant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Databases, with the volumes that they have then.
    Databases(Vec<String>),
    /// Volumes.
    Volumes(Vec<String>),
}

impl Record {
    /// Whether a snapshot that was taken `created` is one of its own: called as it calls them, at the time in
    /// the name, since the schedule was made. What another of the same name left is not.
    #[must_use]
    pub fn owns(&self, snapshot: &str, created: u64, now: u64) -> bool {
        // A schedule that was made while the clock was ahead would own nothing for long.
        let since = if self.created_unix_seconds > now { 0 } else { self.created_unix_seconds };
        time_in_name(&self.name, snapshot)
            .is_some_and(|named| named.abs_diff(created) <= NAME_SECONDS_MAX && created >= since)
    }

    /// Whether a snapshot of these volumes is one of what it takes snapshots of. A database that was deleted
    /// since may be in it beside those that are left.
    #[must_use]
    pub fn is_of(&self, volumes: &[String]) -> bool {
        match &self.target {
            Target::Volumes(own) => {
                own.len() == volumes.len() && own.iter().all(|volume| volumes.contains(volume))
            }
            Target::Databases(own) => {
                own.iter().any(|database| volumes.contains(&format!("{database}-data")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::name::snapshot_name;

    fn record(created_unix_seconds: u64) -> Record {
        Record {
            name: "nightly".to_string(),
            target: Target::Databases(vec!["prod".to_string()]),
            every: Every::parse("1d").unwrap(),
            keep: Keep::parse("daily=7").unwrap(),
            prove_every: Some(7),
            is_paused: false,
            created_unix_seconds,
        }
    }

    #[test]
    fn only_its_own_snapshots_are_its_own() {
        let (record, now) = (record(1_000_000), 2_000_000);
        let named = |time: u64| snapshot_name("nightly", time, |_| true).unwrap();
        assert!(record.owns(&named(1_500_000), 1_500_001, now));
        assert!(!record.owns("nightly.by-hand", 1_500_000, now));
        assert!(!record.owns(&named(1_500_000), 1_900_000, now), "named so by hand");
        assert!(!record.owns(&named(999_999), 999_999, now), "of a schedule before it");
        let ahead = Record { created_unix_seconds: 9_000_000, ..record };
        assert!(ahead.owns(&named(1_500_000), 1_500_000, now), "made while the clock was ahead");
    }

    /// A snapshot by hand of another volume went with the schedule's own.
    #[test]
    fn what_it_takes_snapshots_of_is_in_its_own() {
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_string()).collect::<Vec<_>>();
        let of_database = record(7);
        assert!(of_database.is_of(&names(&["prod-data", "prod-log"])));
        assert!(of_database.is_of(&names(&["gone-data", "prod-data"])), "with one that is deleted");
        assert!(!of_database.is_of(&names(&["dev-data"])) && !of_database.is_of(&names(&["prod-log"])));
        let target = Target::Volumes(names(&["a", "b"]));
        let of_volumes = Record { target, ..record(7) };
        assert!(of_volumes.is_of(&names(&["b", "a"])));
        assert!(!of_volumes.is_of(&names(&["a"])) && !of_volumes.is_of(&names(&["a", "b", "c"])));
    }

    #[test]
    fn a_record_is_read_again_and_missing_keys_have_defaults() {
        let text = serde_json::to_string(&record(7)).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record(7));
        let short =
            r#"{"name":"a","target":{"volumes":["v"]},"every":900,"keep":"last=1","created_unix_seconds":1}"#;
        let read: Record = serde_json::from_str(short).unwrap();
        assert_eq!((read.prove_every, read.is_paused, read.every.seconds()), (None, false, 900));
    }
}
