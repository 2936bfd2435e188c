//! The records of schedules, and which snapshots are whose.

use ashlar_api as api;
use ashlar_engine::NoteKind;
use ashlar_schedule::{Record, Target, time_in_name};

use super::super::Service;
use super::super::scrubs::unix_seconds;
use crate::error::{Error, Result};

/// A schedule that a pool remembers.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) pool: String,
    pub(super) number: u64,
    pub(super) record: Record,
}

impl Service {
    /// What the open pools remember.
    pub(super) async fn schedule_records(&self) -> Result<Vec<Known>> {
        let notes = self.array.record_notes(NoteKind::Schedule).await?;
        let known = |note: crate::array::RecordNote| {
            let record = serde_json::from_slice(&note.value).ok()?;
            Some(Known { pool: note.pool, number: note.number, record })
        };
        Ok(notes.into_iter().filter_map(known).collect())
    }

    pub(super) async fn schedule_record(&self, name: &str) -> Result<Known> {
        let all = self.schedule_records().await?;
        let found = all.into_iter().find(|known| known.record.name == name);
        found.ok_or_else(|| self.not_there("schedule", name))
    }

    /// Refuses a name of a snapshot that is one of a schedule's: that would delete it in turn.
    pub(in super::super) async fn check_not_of_schedule(&self, snapshot: &str) -> Result<()> {
        let all = self.schedule_records().await?;
        let owner = all.iter().find(|known| time_in_name(&known.record.name, snapshot).is_some());
        let Some(owner) = owner else { return Ok(()) };
        let schedule = &owner.record.name;
        Err(Error::unfit(
            format!("snapshots of schedule `{schedule}` are called as `{snapshot}` is, and deleted in turn"),
            format!("choose another name, or have it take one: `ashlar schedule run {schedule}`"),
        ))
    }

    /// Writes a record down that is there already.
    pub(super) async fn keep_schedule(&self, known: &Known) -> Result<()> {
        self.note_schedule(known, false).await
    }

    /// Writes down one that is new.
    pub(super) async fn keep_new_schedule(&self, known: &Known) -> Result<()> {
        self.note_schedule(known, true).await
    }

    async fn note_schedule(&self, known: &Known, is_new: bool) -> Result<()> {
        let value = serde_json::to_vec(&known.record).map_err(|error| {
            Error::new(api::ErrorKind::Invalid, format!("record of a schedule: {error}"), "tell the authors")
        })?;
        self.array.record_note_put(NoteKind::Schedule, &known.pool, known.number, value, is_new).await
    }

    pub(super) async fn forget_schedule(&self, known: &Known) -> Result<()> {
        self.array.record_note_delete(NoteKind::Schedule, &known.pool, known.number).await
    }

    /// The volumes that a snapshot would hold now.
    pub(super) async fn volumes_of(&self, target: &Target) -> Result<Vec<String>> {
        match target {
            Target::Databases(databases) => self.volumes_of_databases(databases).await,
            Target::Volumes(volumes) => Ok(volumes.clone()),
        }
    }
}

/// Those of these snapshots, the oldest first, that are the schedule's own.
pub(super) fn own_snapshots<'a>(known: &Known, snapshots: &'a [api::Snapshot]) -> Vec<&'a api::Snapshot> {
    let now = unix_seconds();
    let is_own = |one: &&api::Snapshot| {
        one.pool == known.pool
            && known.record.owns(&one.name, one.created_unix_seconds, now)
            && known.record.is_of(&one.volumes)
    };
    snapshots.iter().filter(is_own).collect()
}
