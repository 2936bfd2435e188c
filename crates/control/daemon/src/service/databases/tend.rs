//! Databases over the life of an array: what was cut short is finished at its start, servers that are to run
//! are started, and stopped before it stops.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ashlar_database::{Stage, Work};

use super::super::Service;
use super::Known;
use crate::error::Result;

/// How often somebody looks whether a server is gone. Arbitrary.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// How long after a failure it is tried again: so much longer after each, and then no longer. Arbitrary: a
/// start that fails may take minutes of work.
const RETRY_STEP: Duration = Duration::from_secs(2);
const RETRY_MAX: Duration = Duration::from_secs(60);
const BUSY_POLL: Duration = Duration::from_millis(20);

/// What could not be put in order.
struct Failed {
    times: u32,
    again: Instant,
    told: String,
}

impl Service {
    /// Looks after databases for as long as the array runs.
    pub(crate) async fn tend_databases(self: Arc<Self>) {
        let mut failed: BTreeMap<String, Failed> = BTreeMap::new();
        while !self.is_stopping() {
            if !self.may_tend_databases.load(Ordering::Acquire) {
                tokio::time::sleep(LOOK_INTERVAL).await;
                continue;
            }
            for known in self.database_records().await.unwrap_or_default() {
                let name = known.record.name.clone();
                if failed.get(&name).is_some_and(|failed| Instant::now() < failed.again) {
                    continue;
                }
                let Ok(_alone) = self.work_alone(&name) else { continue };
                // Between the look and now somebody may have worked on it.
                let Ok(known) = self.database_record(&name).await else { continue };
                match self.tend(known).await {
                    Ok(()) => {
                        failed.remove(&name);
                    }
                    Err(error) => {
                        let what = format!("not as it is to be: {error}");
                        let before = failed.get(&name);
                        if before.is_none_or(|before| before.told != what) {
                            self.log.error(format!("database {name}"), what.clone());
                        }
                        let times = before.map_or(1, |before| before.times + 1);
                        let again = Instant::now() + (RETRY_STEP * times).min(RETRY_MAX);
                        failed.insert(name, Failed { times, again, told: what });
                    }
                }
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    async fn tend(&self, mut known: Known) -> Result<()> {
        let object = format!("database {}", known.record.name);
        match known.record.stage {
            Stage::Making => self.remove_all(&known, true).await.map(|_| {
                self.log.warning(object, "its making was cut short: what there was of it is removed");
            }),
            Stage::Deleting => self.remove_all(&known, false).await.map(|_| {
                self.log.info(object, "deleted");
            }),
            Stage::Resetting => self.reset_content(&mut known).await.map(|_| {
                self.log.info(object, "reset, which was cut short before");
            }),
            Stage::Ready if known.record.is_wanted && !self.site(&known.record).is_running() => {
                let started = self.start_server(&known.record).await?;
                self.log.info(object, format!("its server runs again, after {} ms", started.start_millis));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Waits until nobody works on a database.
    pub(in super::super) async fn finish_databases(&self) {
        self.end_imports().await;
        while !self.known().busy_databases.is_empty() {
            tokio::time::sleep(BUSY_POLL).await;
        }
    }

    /// Stops all servers, which run again after the next start.
    pub(crate) async fn stop_databases(&self) {
        for known in self.database_records().await.unwrap_or_default() {
            let site = self.site(&known.record);
            if !site.is_running() {
                continue;
            }
            let object = format!("database {}", known.record.name);
            match self.work(&site, Work::Stop).await {
                Ok(_) => self.log.info(object, "stopped until the array starts again"),
                Err(error) => self.log.warning(object, format!("still runs: {error}")),
            }
        }
    }
}
