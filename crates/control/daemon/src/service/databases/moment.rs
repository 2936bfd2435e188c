//! Which snapshot of a database is meant: its name, or a time.

use std::collections::BTreeSet;

use ashlar_api as api;
use ashlar_database::{Part, Record};
use ashlar_schedule::{moment, told};

use super::super::Service;
use super::make::unix_seconds;
use crate::error::{Error, Result};

impl Service {
    /// The snapshot of this name or, where that is a time, the newest that holds all these volumes and was
    /// taken at or before it. Times of snapshots are whole seconds, those in which they were ordered: one of
    /// 13:05:07 was taken within that second, or right behind it.
    pub(super) async fn snapshot_meant(&self, text: &str, database: &str, parts: &[Part]) -> Result<String> {
        if self.known().index.snapshot(text).is_ok() {
            return Ok(text.to_string());
        }
        let wrong = |why: String| {
            let action = "`ashlar snapshot list` shows the snapshots there are, with their times";
            Error::invalid(format!("database `{database}`: {why}"), action)
        };
        // A name of a snapshot that is not there is told by whoever needs it.
        let Some(time) = moment(text, unix_seconds()).map_err(wrong)? else { return Ok(text.to_string()) };
        let all = self.snapshots_of_database(database, parts).await?;
        // Of several in one second the last that was taken.
        let until = all.iter().filter(|one| one.created_unix_seconds <= time);
        if let Some(found) = until.max_by_key(|one| one.created_unix_seconds) {
            return Ok(found.name.clone());
        }
        let named = |one: &api::Snapshot| format!("{} ({})", one.name, told(one.created_unix_seconds));
        let message = format!("database `{database}` has no snapshot of {} or before", told(time));
        let by_time = |one: &&api::Snapshot| one.created_unix_seconds;
        Err(match (all.iter().min_by_key(by_time), all.iter().max_by_key(by_time)) {
            (Some(oldest), Some(newest)) => Error::new(
                api::ErrorKind::NotFound,
                format!("{message}: the oldest is {}, the newest {}", named(oldest), named(newest)),
                "name one of these, or a later time",
            ),
            _ => Error::new(
                api::ErrorKind::NotFound,
                format!("{message}: it has none at all"),
                format!(
                    "`ashlar schedule create {database} --of {database} --every 1m --keep hourly=24` takes some"
                ),
            ),
        })
    }

    /// The same where nothing need be named. One of a former database of this name is refused.
    pub(super) async fn snapshot_meant_if_any(
        &self,
        text: Option<String>,
        database: &str,
        parts: &[Part],
    ) -> Result<Option<String>> {
        let Some(text) = text else { return Ok(None) };
        let meant = self.snapshot_meant(&text, database, parts).await?;
        if meant != text {
            return Ok(Some(meant));
        }
        // One that is not there, or does not hold all of this, is told by whoever needs it.
        let named = self.known().index.snapshot(&meant).ok();
        let is_named_so =
            named.is_some_and(|group| parts.iter().all(|part| group.volumes.contains(&part.volume)));
        let own = self.snapshots_of_database(database, parts).await?;
        if !is_named_so || own.iter().any(|one| one.name == meant) {
            return Ok(Some(meant));
        }
        let volume = parts.first().map_or("", |part| &part.volume);
        Err(Error::invalid(
            format!("snapshot `{meant}` is one of a former database `{database}`, of other volumes"),
            format!("`ashlar clone create NAME --from {volume}@{meant}` makes a volume of what it holds"),
        ))
    }

    /// The snapshots of a database: those that hold volumes of these names, and not those of a former
    /// database of the same name.
    async fn snapshots_of_database(&self, database: &str, parts: &[Part]) -> Result<Vec<api::Snapshot>> {
        let holds_all = |one: &api::Snapshot| parts.iter().all(|part| one.volumes.contains(&part.volume));
        let mut all: Vec<api::Snapshot> = self.snapshots().await?.into_iter().filter(holds_all).collect();
        let there = self.database_records().await?.into_iter().find(|known| known.record.name == database);
        // Of one that is gone nothing but names is left to go by.
        if let Some(known) = there {
            let volumes = parts.iter().map(|part| part.volume.clone()).collect();
            let held = self.array.snapshots_holding(&known.pool, volumes).await?;
            all.retain(|one| is_of(&known.record, one, &held));
        }
        Ok(all)
    }
}

/// Whether a snapshot is one of this database, where these hold the volumes that it has now. A clone has
/// others after each reset: what was taken since it was made is its own.
fn is_of(record: &Record, snapshot: &api::Snapshot, held: &BTreeSet<String>) -> bool {
    let is_since = snapshot.created_unix_seconds >= record.created_unix_seconds;
    held.contains(&snapshot.name) || (record.origin.is_some() && is_since)
}

#[cfg(test)]
mod tests {
    use ashlar_database::Origin;

    use super::*;

    fn taken(name: &str, created_unix_seconds: u64) -> api::Snapshot {
        let (name, pool) = (name.to_string(), "main".to_string());
        let volumes = vec!["nm-data".to_string()];
        api::Snapshot { name, pool, volumes, created_unix_seconds, size_bytes: 0, hold: None }
    }

    /// Deleted and made again, a clone of it had the content of the former one.
    #[test]
    fn snapshots_of_a_former_database_are_none_of_its_own() {
        let mut record = Record::beginning("nm", 7000, Vec::new(), 1_000);
        let held = BTreeSet::from(["own".to_string()]);
        assert!(is_of(&record, &taken("own", 1_500), &held));
        assert!(!is_of(&record, &taken("former", 500), &held));
        assert!(!is_of(&record, &taken("former", 1_500), &held), "the clock was set back meanwhile");
        record.origin = Some(Origin {
            database: "prod".to_string(),
            snapshot: "nm.origin".to_string(),
            is_own: true,
            volumes: Vec::new(),
        });
        assert!(is_of(&record, &taken("before-reset", 1_500), &held), "a reset gave it other volumes");
        assert!(!is_of(&record, &taken("former", 500), &held));
    }
}
