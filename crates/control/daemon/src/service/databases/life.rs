//! Starting, stopping and deleting databases.

use std::time::Instant;

use ashlar_api as api;
use ashlar_database::{Stage, Work};

use super::super::Service;
use super::{Known, check_ready};
use crate::error::Result;

impl Service {
    /// Starts the server of a database.
    pub(crate) async fn database_start(&self, name: &str) -> Result<api::DatabaseReady> {
        let since = Instant::now();
        let _alone = self.work_alone(name)?;
        let mut known = self.database_record(name).await?;
        check_ready(&known.record)?;
        known.record.is_wanted = true;
        self.keep_record(&known).await?;
        let started = self.start_server(&known.record).await?;
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
    pub(crate) async fn database_delete(&self, name: &str) -> Result<api::DatabaseDeletion> {
        if self.end_import(name).await? {
            let (name, none) = (name.to_string(), Vec::new());
            let clones = Vec::new();
            return Ok(api::DatabaseDeletion {
                name,
                volumes: none,
                recoverable_seconds: 0,
                clones,
                notes: vec!["it was being made".to_string()],
            });
        }
        let _alone = self.work_alone(name)?;
        let mut known = self.database_record(name).await?;
        let all = self.database_records().await?;
        let is_clone =
            |other: &&Known| other.record.origin.as_ref().is_some_and(|from| from.database == name);
        let clones = all.iter().filter(is_clone).map(|other| other.record.name.clone()).collect();
        self.set_stage(&mut known, Stage::Deleting).await?;
        let (recoverable_seconds, notes) = self.remove_all(&known, false).await?;
        self.log.info(format!("database {name}"), "deleted");
        let volumes = known.record.volumes();
        Ok(api::DatabaseDeletion { name: name.to_string(), volumes, recoverable_seconds, clones, notes })
    }

    /// Ends the server, and removes mounts, volumes, directory and record, as far as they are there. Where
    /// it is not to come back the server need not say goodbye. What is left elsewhere is in the second.
    pub(super) async fn remove_all(&self, known: &Known, is_now: bool) -> Result<(u64, Vec<String>)> {
        let record = &known.record;
        let site = self.site(record);
        if !is_now && site.is_running() {
            self.work(&site, Work::Stop).await?;
        }
        // Also what an array that was killed had begun.
        self.work(&site, Work::End).await?;
        let notes = self.leave_primary(record).await.into_iter().collect();
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
