//! Jobs: how far they are, and ending one.

use std::sync::Arc;
use std::time::Duration;

use ashlar_api as api;
use ashlar_api::JobKind;

use super::Service;
use super::drives::numbered;
use crate::error::{Error, Result};
use crate::jobs::Job;
use crate::places::Caller;

/// How often a rebuild is looked at. Arbitrary: it takes minutes and hours.
const REBUILD_POLL: Duration = Duration::from_secs(1);
/// Looks in a row at a drive to be rebuilt and no rebuild, after which it has failed: between two rebuilds of
/// a pool there is a moment without.
const STALLED_LOOKS: u32 = 30;

impl Service {
    /// The jobs of this start, the oldest first.
    pub(crate) async fn job_views(&self) -> Vec<api::Job> {
        let mut views = Vec::new();
        for job in self.jobs.all() {
            views.push(self.job_view(job).await);
        }
        views
    }

    /// One of them.
    pub(crate) async fn job(&self, id: &str) -> Result<api::Job> {
        let job = self.find_job(id)?;
        Ok(self.job_view(job).await)
    }

    /// What it is called: the number goes with this start alone.
    pub(crate) fn job_id(&self, number: u64) -> String {
        format!("{}-{number}", self.job_ids_begin())
    }

    fn job_ids_begin(&self) -> &str {
        self.boot_id.split('-').next().unwrap_or_default()
    }

    fn find_job(&self, id: &str) -> Result<Job> {
        let number = id.rsplit_once('-').filter(|(begin, _)| *begin == self.job_ids_begin());
        let found = number.and_then(|(_, number)| self.jobs.find(number.parse().ok()?));
        found.ok_or_else(|| Error::not_found("job", id))
    }

    /// Ends a job where that is possible, or forgets one that has come to its end.
    pub(crate) async fn job_cancel(&self, caller: Caller, id: &str) -> Result<api::Job> {
        let job = self.find_job(id)?;
        if job.end.is_some() {
            self.jobs.forget(job.number);
            return Ok(self.job_view(job).await);
        }
        if is_of_owner(job.kind) && caller == Caller::Guest {
            let what = "only root over the socket may end the import of a database";
            let refusal = Error::new(api::ErrorKind::Forbidden, what, "ask on the machine itself, as root");
            return Err(refusal.because(api::Reason::RootOnly));
        }
        self.jobs.set_cancelled(job.number, true);
        let ended = match job.kind {
            JobKind::Scrub => {
                self.pool_scrub_change(&job.object.name, api::ScrubAction::Stop).await.map(drop)
            }
            JobKind::Import | JobKind::Follow => self.end_import(&job.object.name).await.map(drop),
            JobKind::Check => self.array.pool_check_end(&job.object.name).await,
            JobKind::Rebuild | JobKind::Verify => Err(Error::new(
                api::ErrorKind::Busy,
                format!(
                    "job `{id}` cannot be ended before its time: a {} takes what it takes",
                    job.kind.name()
                ),
                format!("wait for its end: `ashlar job show {id}`"),
            )
            .because(api::Reason::NotCancellable)),
        };
        if let Err(error) = ended {
            self.jobs.set_cancelled(job.number, false);
            return Err(error.about(api::ObjectKind::Job, id));
        }
        self.job(id).await
    }

    async fn job_view(&self, job: Job) -> api::Job {
        let state = job.state();
        let is_running = state == api::JobState::Running;
        let progress = if is_running { self.job_progress(job.kind, &job.object.name).await } else { None };
        let id = self.job_id(job.number);
        let (ended_unix_millis, end) = job.end.map_or((None, None), |(at, end)| (Some(at), Some(end)));
        let (result, problem) = match end {
            None => (None, None),
            Some(Ok(result)) => (Some(result), None),
            Some(Err(problem)) => (None, Some(problem)),
        };
        let can_be_ended = !matches!(job.kind, JobKind::Rebuild | JobKind::Verify);
        api::Job {
            id,
            kind: job.kind,
            object: job.object,
            state,
            started_unix_millis: job.started_unix_millis,
            ended_unix_millis,
            progress,
            result,
            problem,
            is_cancellable: is_running && can_be_ended,
        }
    }

    async fn job_progress(&self, kind: JobKind, name: &str) -> Option<api::JobProgress> {
        match kind {
            JobKind::Scrub => self.pool(name).await.ok()?.scrub.map(of_scrub),
            JobKind::Rebuild => {
                let (pool, number) = name.split_once('/')?;
                let rebuild = self.pool(pool).await.ok()?.rebuild?;
                (rebuild.drive_number.to_string() == number).then(|| of_rebuild(&rebuild))
            }
            JobKind::Import | JobKind::Follow => self.database(name).await.ok()?.progress.map(of_import),
            JobKind::Check => self.array.pool_check_progress(name).await.ok()?.map(of_check),
            JobKind::Verify => None,
        }
    }

    /// Follows the rebuild of a drive to its end, as a job; tells its number. Nothing where none is needed.
    pub(crate) fn follow_rebuild(self: &Arc<Self>, pool: &api::Pool, number: u32) -> Result<u64> {
        let name = format!("{}/{number}", pool.name);
        let object = api::ObjectName { kind: api::ObjectKind::Drive, name };
        let running = self.jobs.begin(JobKind::Rebuild, object)?;
        let (job, pool, array) = (running.number(), pool.name.clone(), self.clone());
        drop(tokio::spawn(async move {
            let end = array.rebuilt(&pool, number).await;
            running.end(end.map(|()| api::JobResult::default()).map_err(|error| error.problem()));
        }));
        Ok(job)
    }

    /// Returns when a drive lacks nothing.
    async fn rebuilt(&self, pool: &str, number: u32) -> Result<()> {
        let mut stalled_looks = 0;
        loop {
            if self.is_stopping() {
                return Err(Error::stopping());
            }
            let now = self.pool(pool).await?;
            let drive = numbered(&now, number)?;
            let failed = |why: &str| {
                Err(Error::new(
                    api::ErrorKind::Medium,
                    format!("drive {number} of pool `{pool}` is not rebuilt: {why}"),
                    format!(
                        "`ashlar pool show {pool}` says how it is; take it out and back in to begin anew"
                    ),
                )
                .about(api::ObjectKind::Drive, format!("{pool}/{number}")))
            };
            match drive.state.as_str() {
                "rebuilding" | "moving" => {}
                "out" => return failed("it is out of service"),
                _ => return Ok(()),
            }
            stalled_looks = if now.rebuild.is_some() { 0 } else { stalled_looks + 1 };
            if stalled_looks > STALLED_LOOKS {
                return failed(now.rebuild_error.as_deref().unwrap_or("it does not go on"));
            }
            tokio::time::sleep(REBUILD_POLL).await;
        }
    }
}

/// Whether only root over the socket may begin and end it.
fn is_of_owner(kind: JobKind) -> bool {
    match kind {
        JobKind::Import | JobKind::Follow | JobKind::Verify => true,
        JobKind::Check | JobKind::Scrub | JobKind::Rebuild => false,
    }
}

fn of_scrub(scrub: api::Scrub) -> api::JobProgress {
    let stage = match (scrub.is_paused, scrub.total_segment_count) {
        (true, _) => "is paused",
        (false, 0) => "checks everything",
        (false, _) => "compares segments with their parity",
    };
    api::JobProgress {
        stage: stage.to_string(),
        unit: api::ProgressUnit::Segments,
        done_count: scrub.done_segment_count,
        total_count: scrub.total_segment_count,
    }
}

fn of_check((done_count, total_count): (u64, u64)) -> api::JobProgress {
    let (stage, unit) = ("verifies what is stored".to_string(), api::ProgressUnit::Bytes);
    api::JobProgress { stage, unit, done_count, total_count }
}

fn of_rebuild(rebuild: &api::Rebuild) -> api::JobProgress {
    api::JobProgress {
        stage: "writes what the drive lacks".to_string(),
        unit: api::ProgressUnit::Bytes,
        done_count: rebuild.done_bytes,
        total_count: rebuild.total_bytes,
    }
}

fn of_import(progress: api::DatabaseProgress) -> api::JobProgress {
    let api::DatabaseProgress { stage, done_bytes, total_bytes } = progress;
    api::JobProgress {
        stage,
        unit: api::ProgressUnit::Bytes,
        done_count: done_bytes,
        total_count: total_bytes,
    }
}
