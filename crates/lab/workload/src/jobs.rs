//! Work that needs no order, done by several sessions at the same time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ashlar_postgres::{Address, Session};

use crate::error::{Error, Result};

type Work = dyn FnOnce(&mut Session) -> Result<u64> + Send;

/// One piece of it; answers how many rows it made.
pub(crate) struct Job {
    what: String,
    work: Box<Work>,
}

impl Job {
    pub(crate) fn new(
        what: impl Into<String>,
        work: impl FnOnce(&mut Session) -> Result<u64> + Send + 'static,
    ) -> Job {
        Job { what: what.into(), work: Box::new(work) }
    }

    /// Rows by COPY.
    pub(crate) fn copy(
        statement: &'static str,
        what: impl Into<String>,
        mut pieces: impl FnMut() -> Option<Vec<u8>> + Send + 'static,
    ) -> Job {
        Job::new(what, move |session| Ok(session.copy(statement, &mut pieces)?))
    }

    /// Statements as they stand, each on its own (VACUUM cannot be in a transaction).
    pub(crate) fn statements(statements: Vec<String>) -> Job {
        Job::new("run statements", move |session| {
            for statement in &statements {
                session.run(statement)?;
            }
            Ok(0)
        })
    }
}

/// Does all jobs with so many sessions; answers the sum of their rows.
///
/// # Errors
/// The first error of any; what is in work is finished, the rest is left. Asked to stop, the same.
pub(crate) fn run(
    address: &Address,
    sessions: usize,
    limit: Duration,
    stop: &AtomicBool,
    jobs: Vec<Job>,
) -> Result<u64> {
    let sessions = sessions.clamp(1, jobs.len().max(1));
    let jobs = Mutex::new(VecDeque::from(jobs));
    let has_failed = AtomicBool::new(false);
    let work = || -> Result<u64> {
        let mut session = Session::open(address, "ashlar lab load", limit)?;
        let mut rows = 0;
        while !has_failed.load(Ordering::Relaxed) {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::interrupted("load"));
            }
            // The lock must not be held while the job is done.
            let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(job) = next else { break };
            rows += (job.work)(&mut session).map_err(|error| error.while_doing(&job.what))?;
        }
        Ok(rows)
    };
    let worker = || work().inspect_err(|_| has_failed.store(true, Ordering::Relaxed));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..sessions).map(|_| scope.spawn(worker)).collect();
        let answers = workers.into_iter().map(|worker| match worker.join() {
            Ok(answer) => answer,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        answers.collect::<Vec<_>>().into_iter().sum()
    })
}
