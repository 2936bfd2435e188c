//! Schedules: records in the pool, snapshots taken by themselves, and deleted in turn.
//!
//! ```text
//!  tend, every second ──► due? ──► room? ──► take, a task of its own for each schedule ──► prove, one of n
//!                    └──► every few seconds: sweep, what the rule does not keep is deleted in batches
//! ```
//!
//! A record is written when a person changes it and never otherwise: when the last snapshot was taken is read
//! from the snapshots. What was told, and what is under way, is in memory alone.

mod change;
mod live;
mod records;
mod sweep;
mod take;
mod tend;

use ashlar_api as api;
use ashlar_schedule::{Every, Keep, NAME_BYTES_MAX, Record, Target, time_in_name};

use super::Service;
use super::scrubs::unix_seconds;
use crate::error::{Error, Result};
use crate::names;
use crate::tag::Seen;
pub(super) use live::Live;
use records::{Known, own_snapshots};

/// The engine takes no snapshot of more.
const VOLUMES_MAX: usize = 64;

impl Service {
    /// All schedules, by name.
    pub(crate) async fn schedules(&self) -> Result<Vec<api::Schedule>> {
        let snapshots = self.snapshots().await?;
        let mut all = Vec::new();
        for known in self.schedule_records().await? {
            all.push(self.schedule_view(&known, &snapshots).await?);
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// One schedule.
    pub(crate) async fn schedule(&self, name: &str) -> Result<api::Schedule> {
        let known = self.schedule_record(name).await?;
        self.schedule_view(&known, &self.snapshots().await?).await
    }

    /// Makes a schedule.
    pub(crate) async fn schedule_create(&self, request: api::ScheduleCreate) -> Result<api::Schedule> {
        let record = checked(request)?;
        let turn = self.change().await?;
        let all = self.schedule_records().await?;
        if let Some(other) = all.iter().find(|known| known.record.name == record.name) {
            return Err(Error::exists("schedule", &record.name, &other.pool));
        }
        let volumes = self.volumes_of(&record.target).await?;
        if volumes.len() > VOLUMES_MAX {
            return Err(Error::unfit(
                format!(
                    "schedule `{}`: a snapshot of {} volumes is not possible",
                    record.name,
                    volumes.len()
                ),
                format!("name databases or volumes that have at most {VOLUMES_MAX} together"),
            ));
        }
        let pool = self.pool_of_group(&api::SnapshotCreate { name: String::new(), volumes })?;
        let number = all.iter().map(|known| known.number).max().unwrap_or(0) + 1;
        let known = Known { pool, number, record };
        self.keep_new_schedule(&known).await?;
        drop(turn);
        let Record { name, every, keep, .. } = &known.record;
        self.log.info(format!("schedule {name}"), format!("created: every {every}, keeps {keep}"));
        self.schedule(name).await
    }

    /// Deletes a schedule, with its snapshots if wanted: those that are held or used stay.
    pub(crate) async fn schedule_delete(
        &self,
        name: &str,
        with_snapshots: bool,
        seen: &Seen,
    ) -> Result<api::ScheduleDeletion> {
        let _alone = self.schedule_alone(name).await?;
        let mut known = self.schedule_record(name).await?;
        self.check_schedule_seen(&known, seen).await?;
        let snapshots = self.snapshots().await?;
        let own = own_snapshots(&known, &snapshots);
        let mut deleted_count = 0;
        if with_snapshots {
            // Cut short it is there, takes none, and can be deleted again.
            known.record.is_paused = true;
            self.keep_schedule(&known).await?;
            let free = own.iter().filter(|one| one.hold.is_none()).map(|one| one.name.clone()).collect();
            deleted_count = self.delete_unused(&known, free, true).await?;
        }
        self.forget_schedule(&known).await?;
        let left_count = own.len() - deleted_count;
        let what = format!("deleted, with {deleted_count} of its snapshots; {left_count} stay");
        self.log.info(format!("schedule {name}"), what);
        Ok(api::ScheduleDeletion { name: name.to_string(), deleted_count, left_count })
    }

    /// Refuses a schedule that is not as somebody saw it.
    async fn check_schedule_seen(&self, known: &Known, seen: &Seen) -> Result<()> {
        if seen.is_said() {
            seen.check(&self.schedule_view(known, &self.snapshots().await?).await?)?;
        }
        Ok(())
    }

    async fn schedule_view(&self, known: &Known, snapshots: &[api::Snapshot]) -> Result<api::Schedule> {
        let Known { pool, record, .. } = known;
        let own = own_snapshots(known, snapshots);
        let (state, reason) = self.schedules.state(record);
        let (databases, volumes) = match &record.target {
            Target::Databases(databases) => (databases.clone(), Vec::new()),
            Target::Volumes(volumes) => (Vec::new(), volumes.clone()),
        };
        let last_proof = self.last_proof(known).await?;
        Ok(api::Schedule {
            name: record.name.clone(),
            pool: pool.clone(),
            databases,
            volumes,
            every_seconds: record.every.seconds(),
            keep: record.keep.to_string(),
            prove_every_count: record.prove_every,
            state,
            reason,
            snapshot_count: own.len(),
            held_count: own.iter().filter(|one| one.hold.is_some()).count(),
            last_snapshot: own.last().map(|one| one.name.clone()),
            last_unix_seconds: own.last().map(|one| one.created_unix_seconds),
            next_unix_seconds: (!record.is_paused).then(|| record.every.next(unix_seconds())),
            last_proof,
            created_unix_seconds: record.created_unix_seconds,
        })
    }

    /// The newest proof of one of its snapshots that are there.
    async fn last_proof(&self, known: &Known) -> Result<Option<api::ScheduleProof>> {
        let Target::Databases(databases) = &known.record.target else { return Ok(None) };
        let mut found: Option<api::ScheduleProof> = None;
        for database in databases {
            // One that is gone has no proofs.
            let Ok(proofs) = self.proofs_of_database(database).await else { continue };
            let is_own =
                |proof: &api::DatabaseProof| time_in_name(&known.record.name, &proof.snapshot).is_some();
            let Some(proof) = proofs.into_iter().find(is_own) else { continue };
            let is_newer =
                found.as_ref().is_none_or(|found| found.proven_unix_seconds < proof.proven_unix_seconds);
            if is_newer {
                found = Some(api::ScheduleProof {
                    database: database.clone(),
                    snapshot: proof.snapshot,
                    is_proven: proof.findings.is_empty(),
                    proven_unix_seconds: proof.proven_unix_seconds,
                });
            }
        }
        Ok(found)
    }
}

/// The record that a request asks for.
fn checked(request: api::ScheduleCreate) -> Result<Record> {
    let api::ScheduleCreate { name, databases, volumes, every_seconds, keep, prove_every_count } = request;
    names::check("schedule", &name)?;
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::invalid(
            format!("`{name}` is too long for a schedule: its snapshots' names carry the time behind it"),
            format!("use at most {NAME_BYTES_MAX} bytes"),
        ));
    }
    let object = format!("schedule `{name}`");
    let unfit = |what: &str, action: &str| Error::unfit(format!("{object}: {what}"), action);
    let target = match (databases.is_empty(), volumes.is_empty()) {
        (false, true) => Target::Databases(databases),
        (true, false) => Target::Volumes(volumes),
        (true, true) => {
            return Err(unfit("nothing is named to take snapshots of", "name databases or volumes"));
        }
        (false, false) => {
            return Err(unfit("databases and volumes are named", "make a schedule for each"));
        }
    };
    if prove_every_count == Some(0) {
        return Err(unfit(
            "one of 0 snapshots cannot be proven",
            "say 1 for every snapshot, or leave it out",
        ));
    }
    if prove_every_count.is_some() && matches!(target, Target::Volumes(_)) {
        return Err(unfit("snapshots of volumes cannot be proven", "name the databases on them instead"));
    }
    let every = Every::of_seconds(every_seconds)
        .map_err(|why| Error::invalid(format!("{object}: {why}"), "mend that"))?;
    let keep = Keep::parse(&keep).map_err(|why| unfit(&why, "mend that"))?;
    Ok(Record {
        name,
        target,
        every,
        keep,
        prove_every: prove_every_count,
        is_paused: false,
        created_unix_seconds: unix_seconds(),
    })
}
