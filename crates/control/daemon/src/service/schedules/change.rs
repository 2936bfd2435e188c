//! Schedules that are changed in place, and those of a database that is deleted.

use ashlar_api as api;
use ashlar_schedule::{Every, Keep, Record, Target};

use super::super::Service;
use super::records::own_snapshots;
use crate::error::{Error, Result};
use crate::metrics;
use crate::tag::Seen;

impl Service {
    /// Takes none, and deletes none, until it is let go on; or goes on.
    pub(crate) async fn schedule_pause(&self, name: &str, is_paused: bool) -> Result<api::Schedule> {
        let change = api::ScheduleChange { is_paused: Some(is_paused), ..api::ScheduleChange::default() };
        self.schedule_change(name, change, &Seen::Unsaid).await
    }

    /// Changes it. Its snapshots stay its own: what a new rule does not keep goes in turn.
    pub(crate) async fn schedule_change(
        &self,
        name: &str,
        change: api::ScheduleChange,
        seen: &Seen,
    ) -> Result<api::Schedule> {
        let wrong = |why: String| Error::invalid(format!("schedule `{name}`: {why}"), "mend that");
        let every = change.every_seconds.map(Every::of_seconds).transpose().map_err(wrong)?;
        let unfit = |why: String| Error::unfit(format!("schedule `{name}`: {why}"), "mend that");
        let keep = change.keep.as_deref().map(Keep::parse).transpose().map_err(unfit)?;
        if every.is_none() && keep.is_none() && change.is_paused.is_none() {
            let what = format!("schedule `{name}`: nothing is named to change");
            return Err(Error::unfit(what, "name how often, what it keeps, or whether it pauses"));
        }
        let turn = self.change().await?;
        let mut known = self.schedule_record(name).await?;
        self.check_schedule_seen(&known, seen).await?;
        let before = known.record.clone();
        let Record { every: old_every, keep: old_keep, is_paused: old_pause, .. } = before.clone();
        known.record.every = every.unwrap_or(old_every);
        known.record.keep = keep.unwrap_or(old_keep);
        known.record.is_paused = change.is_paused.unwrap_or(old_pause);
        if known.record != before {
            self.keep_schedule(&known).await?;
            self.log.info(format!("schedule {name}"), told(&before, &known.record));
        }
        drop(turn);
        self.schedule(name).await
    }

    /// The schedules that take snapshots of a database: of it alone, and of others, too.
    pub(in super::super) async fn schedules_of_database(
        &self,
        database: &str,
    ) -> Result<(Vec<String>, Vec<String>)> {
        let (mut alone, mut with_others) = (Vec::new(), Vec::new());
        for known in self.schedule_records().await? {
            let Target::Databases(databases) = &known.record.target else { continue };
            match (databases.iter().any(|one| one == database), databases.len()) {
                (false, _) => {}
                (true, 1) => alone.push(known.record.name),
                (true, _) => with_others.push(known.record.name),
            }
        }
        Ok((alone, with_others))
    }

    /// Deletes the schedules of a database alone, and takes it out of those of others. Their snapshots stay.
    pub(in super::super) async fn drop_from_schedules(&self, database: &str) -> Result<()> {
        let (alone, with_others) = self.schedules_of_database(database).await?;
        for name in alone {
            self.schedule_delete(&name, false, &Seen::Unsaid).await?;
        }
        for name in with_others {
            let _alone = self.schedule_alone(&name).await?;
            let _turn = self.change().await?;
            let mut known = self.schedule_record(&name).await?;
            if let Target::Databases(databases) = &mut known.record.target {
                databases.retain(|one| one != database);
            }
            self.keep_schedule(&known).await?;
            let what = format!("takes no more snapshots of {database}, which is deleted");
            self.log.info(format!("schedule {name}"), what);
        }
        Ok(())
    }

    /// What the metrics tell of schedules.
    pub(in super::super) async fn schedule_readings(&self) -> Result<Vec<metrics::ScheduleReading>> {
        let all = self.schedule_records().await?;
        if all.is_empty() {
            return Ok(Vec::new());
        }
        let snapshots = self.snapshots().await?;
        let reading = |known: &super::records::Known| {
            let own = own_snapshots(known, &snapshots);
            metrics::ScheduleReading {
                name: known.record.name.clone(),
                pool: known.pool.clone(),
                state: self.schedules.state(&known.record).0,
                snapshot_count: own.len() as u64,
                last_unix_seconds: own.last().map(|one| one.created_unix_seconds),
                failure_count: self.schedules.with(&known.record, |mind| mind.failure_count),
            }
        };
        Ok(all.iter().map(reading).collect())
    }
}

fn told(before: &Record, after: &Record) -> String {
    let mut words = Vec::new();
    if before.every != after.every {
        words.push(format!("every {} instead of {}", after.every, before.every));
    }
    if before.keep != after.keep {
        words.push(format!("keeps {} instead of {}", after.keep, before.keep));
    }
    match (before.is_paused, after.is_paused) {
        (false, true) => words.push("paused".to_string()),
        (true, false) => words.push("goes on".to_string()),
        _ => {}
    }
    words.join(", ")
}
