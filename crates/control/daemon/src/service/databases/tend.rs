//! Databases over the life of an array: what was cut short is finished at its start, servers that are to run
//! are started, and stopped before it stops.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ashlar_database::{Record, Stage, Work};
use tokio::sync::Semaphore;

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

/// How many are put in order at once: a server that replays much log does not hold up all others.
const TENDED_MAX: usize = 4;
/// How long a start may take at first where nobody said so, and at most. Arbitrary: each that is too late
/// doubles it, for a server that replays its log begins anew each time.
const START_SECONDS_MIN: u64 = 180;
const START_SECONDS_MAX: u64 = 3600;

/// What could not be put in order.
struct Failed {
    times: u32,
    late_times: u32,
    again: Instant,
    told: String,
}

type AllFailed = Mutex<BTreeMap<String, Failed>>;

impl Service {
    /// Looks after databases for as long as the array runs.
    pub(crate) async fn tend_databases(self: Arc<Self>) {
        let failed = Arc::new(AllFailed::default());
        let places = Arc::new(Semaphore::new(TENDED_MAX));
        while !self.is_stopping() {
            if !self.may_tend_databases.load(Ordering::Acquire) {
                tokio::time::sleep(LOOK_INTERVAL).await;
                continue;
            }
            for known in self.database_records().await.unwrap_or_default() {
                if !self.needs_tending(&known) {
                    lock(&failed).remove(&known.record.name);
                    self.known().database_troubles.remove(&known.record.name);
                    continue;
                }
                let Ok(place) = places.clone().acquire_owned().await else { return };
                let (service, failed) = (self.clone(), failed.clone());
                tokio::spawn(async move {
                    service.tend_in_turn(&known.record.name, &failed).await;
                    drop(place);
                });
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    fn needs_tending(&self, known: &Known) -> bool {
        let record = &known.record;
        match record.stage {
            Stage::Making | Stage::Deleting => true,
            Stage::Resetting => record.is_wanted,
            Stage::Ready => {
                let site = self.site(record);
                site.is_frozen() || record.is_wanted && !site.is_running()
            }
        }
    }

    async fn tend_in_turn(&self, name: &str, all: &AllFailed) {
        let late_times = match lock(all).get(name) {
            Some(failed) if Instant::now() < failed.again => return,
            failed => failed.map_or(0, |failed| failed.late_times),
        };
        let Ok(_alone) = self.work_alone(name) else { return };
        // Between the look and now somebody may have worked on it.
        let Ok(known) = self.database_record(name).await else { return };
        if !self.may_tend_databases.load(Ordering::Acquire) || !self.needs_tending(&known) {
            return;
        }
        let Err(error) = self.tend(known, late_times).await else {
            lock(all).remove(name);
            self.known().database_troubles.remove(name);
            return;
        };
        let what = format!("not as it is to be: {error}");
        self.known().database_troubles.insert(name.to_string(), error.message.clone());
        let mut all = lock(all);
        let before = all.get(name);
        if before.is_none_or(|before| before.told != what) {
            self.log.error(format!("database {name}"), what.clone());
        }
        let times = before.map_or(1, |before| before.times + 1);
        let again = Instant::now() + (RETRY_STEP * times).min(RETRY_MAX);
        let late_times = late_times + u32::from(error.is_late);
        all.insert(name.to_string(), Failed { times, late_times, again, told: what });
    }

    async fn tend(&self, mut known: Known, late_times: u32) -> Result<()> {
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
            Stage::Ready if self.site(&known.record).is_frozen() => {
                self.work(&self.site(&known.record), Work::Thaw).await?;
                self.log.warning(object, "goes on: a snapshot that it held still for was cut short");
                Ok(())
            }
            Stage::Ready => {
                self.grow_waiting(&mut known).await;
                let limit = patience(known.record.start_timeout_seconds, late_times);
                let patient = Record { start_timeout_seconds: Some(limit), ..known.record.clone() };
                let started = self.start_server(&patient).await?;
                self.log.info(object, format!("its server runs again, after {} ms", started.start_millis));
                Ok(())
            }
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
            // What another machine runs is none of ours, also where that is this one.
            if known.record.away.is_some() || !site.is_running() {
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

fn lock(all: &AllFailed) -> MutexGuard<'_, BTreeMap<String, Failed>> {
    all.lock().expect("no holder of this lock panics")
}

/// How long a start may take after so many that were too late.
fn patience(wanted: Option<u64>, late_times: u32) -> u64 {
    let first = wanted.unwrap_or(START_SECONDS_MIN);
    let doubled = first.saturating_mul(1 << late_times.min(20));
    doubled.min(START_SECONDS_MAX.max(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The harm: a server that needed four minutes to replay its log was ended after three, for ever.
    #[test]
    fn a_start_that_was_too_late_gets_more_time() {
        let limits: Vec<u64> = (0..6).map(|times| patience(None, times)).collect();
        assert_eq!(limits, [180, 360, 720, 1440, 2880, 3600]);
        assert_eq!(patience(Some(10), 0), 10);
        assert_eq!(patience(Some(86_400), 9), 86_400, "never less than what was said");
    }
}
