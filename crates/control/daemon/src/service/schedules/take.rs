//! One snapshot of a schedule, and its proof.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ashlar_api as api;
use ashlar_schedule::{FULL_PERCENT_MAX, Target, has_room, snapshot_name};

use super::super::Service;
use super::super::scrubs::unix_seconds;
use super::records::{Known, own_snapshots};
use crate::error::{Error, Result};

/// From so many seconds between two on each of them is told; more often only that the schedule is there, for
/// they would push out all other events.
const TOLD_SECONDS_MIN: u64 = 60;
/// How long a person waits for the one that is being taken.
const TURN_MAX: Duration = Duration::from_secs(10);
const TURN_POLL: Duration = Duration::from_millis(20);

/// The turn of a schedule. Dropped, others may.
pub(super) struct Alone<'a> {
    service: &'a Service,
    name: String,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.service.schedules.end(&self.name);
    }
}

impl Service {
    /// One at a time takes or deletes for a schedule.
    pub(super) async fn schedule_alone(&self, name: &str) -> Result<Alone<'_>> {
        let end = Instant::now() + TURN_MAX;
        while !self.schedules.begin(name) {
            if self.is_stopping() {
                return Err(self.stopping());
            }
            if Instant::now() > end {
                return Err(Error::new(
                    api::ErrorKind::Busy,
                    format!("schedule `{name}` is taking a snapshot, for more than {} s", TURN_MAX.as_secs()),
                    "wait for that, and look at `ashlar events`",
                ));
            }
            tokio::time::sleep(TURN_POLL).await;
        }
        Ok(Alone { service: self, name: name.to_string() })
    }

    /// Takes one because a person wants it, whatever the clock says.
    pub(crate) async fn schedule_run(self: Arc<Self>, name: &str) -> Result<api::Snapshot> {
        let _alone = self.schedule_alone(name).await?;
        let known = self.schedule_record(name).await?;
        let pools = self.array.pools().await?;
        let pool = pools.iter().find(|pool| pool.name == known.pool);
        if let Some(pool) = pool.filter(|pool| !has_room(pool.full_percent, false)) {
            return Err(Error::new(
                api::ErrorKind::NoSpace,
                format!("schedule `{name}` takes no snapshot: {}", too_full(pool.full_percent)),
                "delete or unmap something; `ashlar snapshot create` takes one all the same",
            ));
        }
        let taken = self.schedule_take(&known).await?;
        self.schedules.with(&known.record, |mind| mind.succeeded(taken.created_unix_seconds));
        self.prove_in_turn(&known, &taken.name).await;
        Ok(taken)
    }

    /// Takes one that is due. The turn is taken, and given back here.
    pub(super) async fn take_due(self: Arc<Self>, known: Known) {
        let (record, object) = (&known.record, format!("schedule {}", known.record.name));
        let taken = self.schedule_take(&known).await;
        match &taken {
            Ok(taken) => {
                let time = taken.created_unix_seconds;
                if self.schedules.with(record, |mind| mind.succeeded(time)) {
                    self.log.info(object, format!("goes on: {} is taken", taken.name));
                }
            }
            Err(_) if self.is_stopping() => {}
            Err(error) => {
                let why = error.to_string();
                if self.schedules.with(record, |mind| mind.failed(why.clone(), Instant::now())) {
                    self.log.error(object, format!("takes no snapshot: {why}; it is tried again"));
                }
            }
        }
        // Not before that is known: the next second may be about to ask.
        self.schedules.end(&record.name);
        if let Ok(taken) = taken {
            self.prove_in_turn(&known, &taken.name).await;
        }
    }

    async fn schedule_take(&self, known: &Known) -> Result<api::Snapshot> {
        let record = &known.record;
        let volumes = self.volumes_of(&record.target).await?;
        let now = unix_seconds();
        let name = {
            let index = &self.known().index;
            snapshot_name(&record.name, now, |name| index.check_snapshot_free(name).is_ok())
        };
        let name = name.ok_or_else(|| {
            Error::new(
                api::ErrorKind::Exists,
                format!("schedule `{}` has too many snapshots of this second", record.name),
                "set the machine's clock right",
            )
        })?;
        let request = api::SnapshotCreate { name, volumes };
        let is_told = record.every.seconds() >= TOLD_SECONDS_MIN;
        match &record.target {
            Target::Databases(databases) => self.snapshot_held(databases, request, is_told).await,
            Target::Volumes(_) => self.snapshot_held(&[], request, is_told).await,
        }
    }

    /// Whether the pool has room for another; where that changes, it is told.
    pub(super) fn has_room_for(&self, known: &Known, full_percent: u8) -> bool {
        let object = format!("schedule {}", known.record.name);
        let (was_stopped, is_stopped) = self.schedules.with(&known.record, |mind| {
            let was_stopped = mind.too_full.is_some();
            mind.too_full = (!has_room(full_percent, was_stopped)).then_some(full_percent);
            (was_stopped, mind.too_full.is_some())
        });
        match (was_stopped, is_stopped) {
            (false, true) => {
                let advice = "`ashlar space` tells what takes it; it goes on by itself when there is room";
                let why = too_full(full_percent);
                self.log
                    .error(object, format!("takes no snapshots, and deletes none early: {why}; {advice}"));
            }
            (true, false) => {
                self.log.info(object, format!("goes on: pool {} is {full_percent} % full", known.pool));
            }
            _ => {}
        }
        !is_stopped
    }

    /// Counts one that was taken, and has it proven when it is its turn.
    async fn prove_in_turn(self: &Arc<Self>, known: &Known, snapshot: &str) {
        let (Some(every), Target::Databases(databases)) = (known.record.prove_every, &known.record.target)
        else {
            return;
        };
        let counted = match self.schedules.with(&known.record, |mind| mind.unproven) {
            Some(counted) => counted.saturating_add(1),
            None => self.count_unproven(known).await,
        };
        let is_turn = self.schedules.with(&known.record, |mind| {
            let is_turn = counted >= every && !mind.is_proving;
            mind.unproven = Some(if is_turn { 0 } else { counted });
            mind.is_proving |= is_turn;
            is_turn
        });
        if is_turn {
            let (service, known, snapshot) = (self.clone(), known.clone(), snapshot.to_string());
            let databases = databases.clone();
            tokio::spawn(async move { service.prove_for(&known, &databases, snapshot).await });
        }
    }

    /// How many of its snapshots are newer than the last that was proven.
    async fn count_unproven(&self, known: &Known) -> u32 {
        let snapshots = self.snapshots().await.unwrap_or_default();
        let own = own_snapshots(known, &snapshots);
        let proof = self.last_proof(known).await.ok().flatten();
        let newer =
            own.iter().rev().take_while(|one| proof.as_ref().is_none_or(|proof| proof.snapshot != one.name));
        newer.count() as u32
    }

    async fn prove_for(&self, known: &Known, databases: &[String], snapshot: String) {
        for database in databases {
            let request = api::DatabaseVerify { snapshot: Some(snapshot.clone()) };
            // What is wrong with it is told by the proof.
            let trouble = match self.database_verify(database, request).await {
                Ok(_) => None,
                Err(_) if self.is_stopping() => break,
                Err(error) => Some(format!("of {database} no proof could be made: {error}")),
            };
            let is_new = self.schedules.with(&known.record, |mind| {
                let is_new = trouble.is_some() && mind.unprovable != trouble;
                mind.unprovable = trouble.clone();
                is_new
            });
            if let Some(trouble) = trouble.filter(|_| is_new) {
                let object = format!("schedule {}", known.record.name);
                self.log.error(object, format!("{trouble}; it is tried with a later snapshot"));
            }
        }
        self.schedules.with(&known.record, |mind| mind.is_proving = false);
    }
}

/// Why none is taken.
pub(super) fn too_full(percent: u8) -> String {
    format!("its pool is {percent} % full, and none is taken from {FULL_PERCENT_MAX} % on")
}
