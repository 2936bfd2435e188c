//! Which snapshot of a database is meant: its name, or a time.

use ashlar_api as api;
use ashlar_database::Part;
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
        let holds_all = |one: &api::Snapshot| parts.iter().all(|part| one.volumes.contains(&part.volume));
        let all: Vec<api::Snapshot> = self.snapshots().await?.into_iter().filter(holds_all).collect();
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

    /// The same where nothing need be named.
    pub(super) async fn snapshot_meant_if_any(
        &self,
        text: Option<String>,
        database: &str,
        parts: &[Part],
    ) -> Result<Option<String>> {
        match text {
            Some(text) => self.snapshot_meant(&text, database, parts).await.map(Some),
            None => Ok(None),
        }
    }
}
