//! The wear gauge at work: counts on the watch's beat, stores what is counted, asks drives for their health,
//! and tells of those that are nearly worn out.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ashlar_api as api;

use super::Service;
use super::drives::numbered;
use super::scrubs::unix_seconds;
use crate::error::{Error, Result};
use crate::nvme;
use crate::wear::{BYTES_MAX, Ledger};

/// How often drives are asked for their health. Arbitrary: a per cent takes days.
const HEALTH_INTERVAL: Duration = Duration::from_secs(600);

/// The ledger, and who is busy for it.
#[derive(Default)]
pub(super) struct Gauge {
    ledger: Mutex<Ledger>,
    /// One storing at a time, so that an older ledger never replaces a newer one.
    storing: Mutex<()>,
    is_store_failing: AtomicBool,
    is_busy: AtomicBool,
    asked: Mutex<Option<Instant>>,
}

impl Service {
    pub(super) fn wear(&self) -> MutexGuard<'_, Ledger> {
        self.wear.ledger.lock().expect("no holder of this lock panics")
    }

    /// Reads what earlier runs counted. Without it the array serves all the same.
    pub(super) fn load_wear(&self) {
        match self.state().load_wear() {
            Ok(lives) => *self.wear() = Ledger::new(lives),
            Err(error) => {
                self.log.warning("array", format!("what was written to drives counts from now: {error}"));
            }
        }
    }

    /// Counts what was written until now. Whoever calls it holds the turn, or is alone: between reading the
    /// drives' counts and adding them no drive may be opened or closed.
    pub(super) async fn count_wear(&self) -> Result<()> {
        let pools = self.array.pools().await?;
        let mut wear = self.wear();
        for pool in &pools {
            wear.count(&pool.name, &pool.drives, unix_seconds());
        }
        Ok(())
    }

    /// Puts the drives' lives into views fresh from the data shard.
    pub(super) fn fill_wear(&self, pools: &mut [api::Pool]) {
        let now = unix_seconds();
        let wear = self.wear();
        for drive in pools.iter_mut().flat_map(|pool| &mut pool.drives) {
            wear.fill(drive, now);
        }
    }

    /// Closes a pool and counts its last writes.
    pub(super) async fn pool_close(&self, name: &str) -> Result<()> {
        let closed = self.array.pool_close(name).await;
        if let Ok(closed) = &closed {
            self.note_generation(&closed.id, closed.generation);
            self.store_generations();
        }
        let mut wear = self.wear();
        if let Ok(closed) = &closed {
            wear.count(name, &closed.drives, unix_seconds());
        }
        wear.closed(name);
        closed.map(drop)
    }

    /// Lets go of a pool that is to be opened again; what was written to its drives so far is counted.
    pub(super) async fn pool_let_go(&self, name: &str) -> Result<()> {
        self.count_wear().await?;
        let let_go = self.array.pool_let_go(name).await;
        self.wear().closed(name);
        let_go
    }

    /// Destroys a pool; the lives of its drives end with it.
    pub(super) async fn pool_destroy(&self, name: &str) -> Result<()> {
        let destroyed = self.array.pool_destroy(name).await;
        match &destroyed {
            Ok(()) => self.wear().destroyed(name),
            Err(_) => self.wear().closed(name),
        }
        destroyed
    }

    /// Declares what may be written to a drive in its life.
    pub(crate) async fn drive_set(
        &self,
        name: &str,
        number: u32,
        request: api::DriveChange,
    ) -> Result<api::Pool> {
        let endurance_bytes = request.endurance_bytes;
        if endurance_bytes.is_some_and(|bytes| bytes == 0 || bytes > BYTES_MAX) {
            return Err(Error::invalid(
                "an endurance is at least a byte and below 8 EiB",
                "the drive's data sheet tells it as TBW; without one it is cleared",
            ));
        }
        let _turn = self.change().await?;
        self.check_open(name)?;
        let drive = numbered(&self.pool(name).await?, number)?;
        self.count_wear().await?;
        let before = self.wear().set_endurance(&drive.id, endurance_bytes);
        if let Err(error) = self.store_wear() {
            self.wear().set_endurance(&drive.id, before);
            return Err(error);
        }
        let what = match endurance_bytes {
            Some(bytes) => format!("endurance of drive {number}: {}", ashlar_units::ByteCount(bytes)),
            None => format!("endurance of drive {number}: not known"),
        };
        self.log.info(format!("pool {name}"), what);
        self.pool(name).await
    }

    /// Counts, and has done what takes longer on a thread of its own. Called with the turn held.
    pub(super) fn watch_wear(self: &Arc<Self>, pools: &[api::Pool]) {
        let now = unix_seconds();
        let (is_due, lacks_health) = {
            let mut wear = self.wear();
            for pool in pools {
                wear.count(&pool.name, &pool.drives, now);
                for passed in wear.passed(&pool.drives, now) {
                    self.log.warning(
                        format!("pool {}", pool.name),
                        format!(
                            "drive {} ({}) is {} % worn; `ashlar pool show {}` tells when it will be worn out",
                            passed.number, passed.path, passed.worn_percent, pool.name
                        ),
                    );
                }
            }
            (wear.is_due(now), pools.iter().any(|pool| wear.lacks_health(&pool.drives)))
        };
        let is_asking = lacks_health || self.is_time_to_ask();
        if !(is_due || is_asking) || self.wear.is_busy.swap(true, Ordering::AcqRel) {
            return;
        }
        let all = pools.iter().flat_map(|pool| &pool.drives);
        let drives = all.map(|drive| (drive.id.clone(), drive.path.clone())).collect();
        let service = self.clone();
        tokio::task::spawn_blocking(move || {
            if is_due {
                service.store_wear_or_tell();
            }
            if is_asking {
                service.ask_health(drives);
            }
            service.wear.is_busy.store(false, Ordering::Release);
        });
    }

    fn is_time_to_ask(&self) -> bool {
        let asked = self.wear.asked.lock().expect("no holder of this lock panics");
        asked.is_none_or(|asked| asked.elapsed() >= HEALTH_INTERVAL)
    }

    fn ask_health(&self, drives: Vec<(String, String)>) {
        let ask = |(id, path): (String, String)| (id, nvme::health(Path::new(&path)));
        let health: BTreeMap<_, _> = drives.into_iter().map(ask).collect();
        self.wear().set_health(health);
        *self.wear.asked.lock().expect("no holder of this lock panics") = Some(Instant::now());
    }

    /// Stores the ledger.
    fn store_wear(&self) -> Result<()> {
        let _one = self.wear.storing.lock().expect("no holder of this lock panics");
        let lives = self.wear().begin_storing(unix_seconds());
        let stored = self.state().store_wear(lives);
        if stored.is_err() {
            self.wear().not_stored();
        }
        stored
    }

    /// Stores the ledger if there is something new in it, and tells once when that begins to fail.
    pub(super) fn store_wear_or_tell(&self) {
        if !self.wear().has_changed() {
            return;
        }
        let stored = self.store_wear();
        let was_failing = self.wear.is_store_failing.swap(stored.is_err(), Ordering::AcqRel);
        if let (Err(error), false) = (stored, was_failing) {
            self.log.warning("array", format!("what was written to drives is not stored: {error}"));
        }
    }
}
