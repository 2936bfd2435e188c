//! Long work that requests asked for, as it is remembered: a bounded table, in memory alone.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use ashlar_api as api;

use crate::error::{Error, Result};
use crate::service::unix_millis;

/// Jobs that are remembered. Those that run are never forgotten: with so many of them another one is refused.
const JOBS_MAX: usize = 256;

/// The table.
#[derive(Clone, Default)]
pub(crate) struct Jobs(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    last: u64,
    /// The oldest first.
    jobs: VecDeque<Job>,
}

/// What is remembered of a job.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) number: u64,
    pub(crate) kind: api::JobKind,
    pub(crate) object: api::ObjectName,
    pub(crate) started_unix_millis: u64,
    /// When it came to its end, and how.
    pub(crate) end: Option<(u64, std::result::Result<api::JobResult, api::Problem>)>,
    /// Somebody ended it.
    pub(crate) is_cancelled: bool,
}

impl Job {
    pub(crate) fn state(&self) -> api::JobState {
        match &self.end {
            None => api::JobState::Running,
            // One that was over before it was ended is done.
            Some((_, Ok(_))) => api::JobState::Done,
            Some((_, Err(problem))) if self.is_cancelled || problem.kind == api::ErrorKind::Cancelled => {
                api::JobState::Cancelled
            }
            Some((_, Err(_))) => api::JobState::Failed,
        }
    }
}

/// A job that runs. Dropped without an end it is cut short.
pub(crate) struct Running {
    jobs: Jobs,
    number: u64,
    is_ended: bool,
}

impl Jobs {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// Remembers a job that begins.
    pub(crate) fn begin(&self, kind: api::JobKind, object: api::ObjectName) -> Result<Running> {
        let mut table = self.table();
        if table.jobs.len() >= JOBS_MAX {
            let oldest = table.jobs.iter().position(|job| job.end.is_some()).ok_or_else(Error::overloaded)?;
            table.jobs.remove(oldest);
        }
        table.last += 1;
        let number = table.last;
        let started_unix_millis = unix_millis();
        table.jobs.push_back(Job {
            number,
            kind,
            object,
            started_unix_millis,
            end: None,
            is_cancelled: false,
        });
        Ok(Running { jobs: self.clone(), number, is_ended: false })
    }

    /// All, the oldest first.
    pub(crate) fn all(&self) -> Vec<Job> {
        self.table().jobs.iter().cloned().collect()
    }

    pub(crate) fn find(&self, number: u64) -> Option<Job> {
        self.table().jobs.iter().find(|job| job.number == number).cloned()
    }

    /// Notes that somebody ends it, or could not.
    pub(crate) fn set_cancelled(&self, number: u64, is_cancelled: bool) {
        if let Some(job) = self.table().jobs.iter_mut().find(|job| job.number == number) {
            job.is_cancelled = is_cancelled;
        }
    }

    /// Forgets one that has come to its end.
    pub(crate) fn forget(&self, number: u64) {
        self.table().jobs.retain(|job| job.number != number || job.end.is_none());
    }

    fn end(&self, number: u64, end: std::result::Result<api::JobResult, api::Problem>) {
        if let Some(job) = self.table().jobs.iter_mut().find(|job| job.number == number) {
            job.end = Some((unix_millis(), end));
        }
    }
}

impl Running {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// It came to its end.
    pub(crate) fn end(mut self, end: std::result::Result<api::JobResult, api::Problem>) {
        self.is_ended = true;
        self.jobs.end(self.number, end);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_ended {
            self.jobs.end(self.number, Err(Error::stopping().problem()));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn object() -> api::ObjectName {
        api::ObjectName { kind: api::ObjectKind::Pool, name: "main".to_string() }
    }

    #[test]
    fn the_oldest_that_is_over_gives_way_and_what_runs_stays() {
        let jobs = Jobs::default();
        let first = jobs.begin(api::JobKind::Scrub, object()).unwrap();
        for _ in 1..JOBS_MAX {
            jobs.begin(api::JobKind::Check, object()).unwrap().end(Ok(api::JobResult::default()));
        }
        jobs.begin(api::JobKind::Check, object()).unwrap().end(Ok(api::JobResult::default()));
        assert_eq!(jobs.all().len(), JOBS_MAX);
        assert!(jobs.find(first.number()).is_some() && jobs.find(first.number() + 1).is_none());
        for _ in 1..JOBS_MAX {
            std::mem::forget(jobs.begin(api::JobKind::Check, object()).unwrap());
        }
        let refused = jobs.begin(api::JobKind::Check, object()).err().unwrap();
        assert_eq!(refused.reason, Some(api::Reason::Overloaded));
        first.end(Ok(api::JobResult::default()));
        jobs.begin(api::JobKind::Check, object()).unwrap();
    }

    #[test]
    fn a_job_tells_how_it_ended() {
        let jobs = Jobs::default();
        let state = |number| jobs.find(number).unwrap().state();
        let job = jobs.begin(api::JobKind::Check, object()).unwrap();
        let number = job.number();
        assert_eq!(state(number), api::JobState::Running);
        jobs.forget(number);
        drop(job);
        assert_eq!(state(number), api::JobState::Failed);
        jobs.set_cancelled(number, true);
        assert_eq!(state(number), api::JobState::Cancelled);
        jobs.forget(number);
        assert!(jobs.find(number).is_none());
        let job = jobs.begin(api::JobKind::Scrub, object()).unwrap();
        let number = job.number();
        jobs.set_cancelled(number, true);
        job.end(Ok(api::JobResult::default()));
        assert_eq!(state(number), api::JobState::Done);
    }
}
