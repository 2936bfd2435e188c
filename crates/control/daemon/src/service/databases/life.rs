//! Starting, stopping and deleting databases.

use std::time::Instant;

use ashlar_api as api;
use ashlar_database::{Stage, Work};

use super::super::Service;
use super::late::start_limit;
use super::{Known, check_ready, is_given_up};
use crate::error::{Error, Result};
use crate::tag::Seen;

impl Service {
    /// Starts the server of a database.
    pub(crate) async fn database_start(
        &self,
        name: &str,
        request: api::DatabaseStart,
    ) -> Result<api::DatabaseReady> {
        let limit = start_limit(name, request.start_timeout_seconds)?;
        let since = Instant::now();
        let _alone = self.work_alone(name)?;
        let mut known = self.database_record(name).await?;
        let is_reset = is_given_up(&known.record);
        if !is_reset {
            check_ready(&known.record)?;
        }
        let before = known.record.start_timeout_seconds;
        known.record.is_wanted = true;
        known.record.start_timeout_seconds = limit.or(known.record.start_timeout_seconds);
        self.keep_record(&known).await?;
        let started = match is_reset {
            true => self.reset_content(&mut known).await,
            false => {
                let started = self.start_grown(&mut known).await;
                self.started_or_late(&mut known, started).await
            }
        };
        if started.is_err() {
            self.forget_limit(&mut known, before).await?;
        }
        let started = started?;
        self.log.info(format!("database {name}"), "started");
        Ok(self.ready(&known, since, &started).await)
    }

    /// Stops it; it stays stopped.
    pub(crate) async fn database_stop(&self, name: &str) -> Result<api::Database> {
        let _alone = self.work_alone(name)?;
        let mut known = self.database_record(name).await?;
        check_ready(&known.record)?;
        self.work(&self.site(&known.record), Work::Stop).await?;
        known.record.is_wanted = false;
        self.keep_record(&known).await?;
        self.log.info(format!("database {name}"), "stopped");
        Ok(self.view(&known))
    }

    /// Stops a database and deletes it with its volumes.
    pub(crate) async fn database_delete(
        &self,
        name: &str,
        with_schedules: bool,
        seen: &Seen,
    ) -> Result<api::DatabaseDeletion> {
        if seen.is_said() {
            let known = self.database_record(name).await?;
            self.check_database_seen(&known, seen).await?;
        }
        if self.end_import(name).await? {
            let (name, none) = (name.to_string(), Vec::new());
            let clones = Vec::new();
            return Ok(api::DatabaseDeletion {
                name,
                volumes: none,
                recoverable_seconds: 0,
                clones,
                schedules: Vec::new(),
                notes: vec!["it was being made".to_string()],
            });
        }
        let _alone = self.work_alone(name)?;
        let mut known = self.database_record(name).await?;
        self.check_database_seen(&known, seen).await?;
        let (schedules, with_others) = self.schedules_of_database(name).await?;
        if !with_schedules {
            check_unscheduled(name, &schedules, &with_others)?;
        }
        let all = self.database_records().await?;
        let is_clone =
            |other: &&Known| other.record.origin.as_ref().is_some_and(|from| from.database == name);
        let clones = all.iter().filter(is_clone).map(|other| other.record.name.clone()).collect();
        self.set_stage(&mut known, Stage::Deleting).await?;
        let (recoverable_seconds, mut notes) = self.remove_all(&known, false).await?;
        if !with_others.is_empty() {
            notes.push(format!("goes on without it: schedule {}", with_others.join(" ")));
        }
        self.log.info(format!("database {name}"), "deleted");
        let volumes = known.record.volumes();
        let name = name.to_string();
        Ok(api::DatabaseDeletion { name, volumes, recoverable_seconds, clones, schedules, notes })
    }

    /// Ends the server, and removes mounts, volumes, directory and record, as far as they are there. Where
    /// it is not to come back the server need not say goodbye. What is left elsewhere is in the second.
    pub(super) async fn remove_all(&self, known: &Known, is_now: bool) -> Result<(u64, Vec<String>)> {
        let record = &known.record;
        let site = self.site(record);
        let is_away = record.away.is_some();
        if !is_now && !is_away && site.is_running() {
            match self.work(&site, Work::Stop).await {
                // Whoever still uses its volumes is told when they are unmounted.
                Err(error) if record.hooks.is_some() => {
                    self.log.warning(format!("database {}", record.name), error.to_string());
                }
                stopped => drop(stopped?),
            }
        }
        if record.stage == Stage::Deleting {
            self.drop_from_schedules(&record.name).await?;
        }
        match is_away {
            true => self.end_exports(record).await?,
            // Also what an array that was killed had begun.
            false => drop(self.work(&site, Work::End).await?),
        }
        let mut notes: Vec<String> = self.leave_primary(record).await.into_iter().collect();
        notes.extend(record.away.as_ref().map(|away| {
            format!("host {} has its volumes no more: what still ran there has lost them", away.host)
        }));
        self.unmount_parts(record).await?;
        let seconds = self.delete_parts(&record.parts, is_now).await?;
        if let Some(origin) = record.origin.as_ref().filter(|origin| origin.is_own) {
            self.drop_own_snapshot(&origin.snapshot).await;
        }
        for snapshot in &record.outdated {
            self.drop_own_snapshot(snapshot).await;
        }
        self.remove_site(record);
        self.forget_record(known).await?;
        Ok((seconds, notes))
    }
}

/// Refuses what would leave schedules without their database.
fn check_unscheduled(name: &str, alone: &[String], with_others: &[String]) -> Result<()> {
    let all: Vec<&str> = alone.iter().chain(with_others).map(String::as_str).collect();
    if all.is_empty() {
        return Ok(());
    }
    let word = if all.len() == 1 { "schedule" } else { "schedules" };
    Err(Error::new(
        api::ErrorKind::Busy,
        format!("database `{name}` has the {word} {}", all.join(", ")),
        "delete them first, or with it: --with-schedules; their snapshots stay",
    )
    .about(api::ObjectKind::Database, name)
    .because(api::Reason::NotEmpty))
}
