//! The life of a pool's drives: replaced or brought back, and rebuilt behind the hosts' backs.
//!
//! One rebuild runs at a time, in the background: one read of all columns and one write after the other, with
//! pauses while hosts are at work.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use ashlar_format::superblock::DriveState;
use ashlar_pool::{DriveSpec, Rebuild, RebuildProgress};
use ashlar_runtime::{Instant, Priority};

use crate::engine::{Engine, Inner};
use crate::pace::{IN_DANGER, PATIENT};
use crate::{Error, ErrorKind, Result};

/// How long after a rebuild failed it is tried again.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Rebuilds that wait and the one that runs.
#[derive(Default)]
pub(crate) struct Rebuilds {
    waiting: RefCell<VecDeque<Rebuild>>,
    is_running: Cell<bool>,
    now: Cell<Option<Running>>,
    /// Drives taken into service by them since the opening.
    finished: Cell<u64>,
    /// Drives whose content was moved since the opening.
    moved: Cell<u64>,
    /// Drives added since the opening.
    added: Cell<u64>,
    last_error: RefCell<Option<String>>,
}

#[derive(Clone, Copy)]
struct Running {
    drive: usize,
    since: Instant,
    progress: RebuildProgress,
}

/// How long a rebuild runs before its pace is told of, unless it restored a hundredth by then. Arbitrary.
const PACE_MILLIS: u64 = 5000;

/// A rebuild under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RebuildStatus {
    /// The drive, by its number.
    pub drive: usize,
    /// Bytes to write to it.
    pub total_bytes: u64,
    /// Bytes written.
    pub done_bytes: u64,
    /// How long it has taken so far.
    pub elapsed_millis: u64,
}

impl RebuildStatus {
    /// How much longer at the pace so far; `None` before there is one: what the first moments restored says
    /// nothing of the rest.
    #[must_use]
    pub fn remaining_millis(&self) -> Option<u64> {
        remaining_millis(self.total_bytes, self.done_bytes, self.elapsed_millis)
    }
}

/// How much longer work takes at the pace so far, if it has one.
pub(crate) fn remaining_millis(total_bytes: u64, done_bytes: u64, elapsed_millis: u64) -> Option<u64> {
    let has_pace = elapsed_millis >= PACE_MILLIS || done_bytes >= total_bytes / 100;
    if !has_pace {
        return None;
    }
    let left = u128::from(total_bytes - done_bytes);
    let millis = (u128::from(elapsed_millis) * left).checked_div(u128::from(done_bytes))?;
    u64::try_from(millis).ok()
}

impl Engine {
    /// Adds drives: there is more room when it returns, and nothing was moved.
    pub async fn drives_add(&self, drives: &[DriveSpec]) -> Result<()> {
        let inner = &self.inner;
        inner.check_online()?;
        inner.pool.add_drives(drives).await?;
        inner.rebuilds.added.set(inner.rebuilds.added.get() + drives.len() as u64);
        // Writes that wait for room.
        inner.cleaner.finished.notify_waiters();
        Ok(())
    }

    /// Puts a new drive in the place of another. Returns when the pool writes to it; what it lacks is
    /// restored in the background. A drive that serves does so until that is over.
    pub async fn drive_replace(&self, drive: usize, with: &DriveSpec) -> Result<()> {
        let inner = &self.inner;
        inner.check_online()?;
        let rebuild = inner.pool.replace_drive(drive, &with.path, with.create_size_bytes).await?;
        inner.rebuild_later(rebuild);
        Ok(())
    }

    /// Takes a drive back that was out of service: what was written meanwhile is restored in the background.
    pub async fn drive_return(&self, drive: usize, path: &str) -> Result<()> {
        let inner = &self.inner;
        inner.check_online()?;
        let rebuild = inner.pool.return_drive(drive, path).await?;
        inner.rebuild_later(rebuild);
        Ok(())
    }

    /// Takes a drive out of service, as if it had failed.
    pub async fn drive_offline(&self, drive: usize) -> Result<()> {
        self.inner.check_online()?;
        Ok(self.inner.pool.take_out(drive).await?)
    }

    /// The rebuild under way.
    #[must_use]
    pub fn rebuild_status(&self) -> Option<RebuildStatus> {
        let running = self.inner.rebuilds.now.get()?;
        Some(RebuildStatus {
            drive: running.drive,
            total_bytes: running.progress.total_bytes,
            done_bytes: running.progress.done_bytes,
            elapsed_millis: self.inner.runtime.now().duration_since(running.since).as_millis() as u64,
        })
    }

    /// Drives rebuilt since the opening.
    #[must_use]
    pub fn rebuilds_finished(&self) -> u64 {
        self.inner.rebuilds.finished.get()
    }

    /// Drives whose content was moved since the opening.
    #[must_use]
    pub fn drives_moved(&self) -> u64 {
        self.inner.rebuilds.moved.get()
    }

    /// Drives added since the opening.
    #[must_use]
    pub fn drives_added(&self) -> u64 {
        self.inner.rebuilds.added.get()
    }

    /// Why the last rebuild that failed did.
    #[must_use]
    pub fn rebuild_error(&self) -> Option<String> {
        self.inner.rebuilds.last_error.borrow().clone()
    }
}

impl Inner {
    /// Lets a drive of a pool with protection go: its content is on its way to spare space.
    pub(crate) async fn remove_to_spare_space(self: &Rc<Self>, drive: usize) -> Result<()> {
        if !self.pool.is_leaving_for_spare_space(drive) {
            let rebuild = self.pool.remove_drive(drive).await?;
            self.rebuild_later(rebuild);
        }
        Ok(())
    }

    /// Goes on with rebuilds that an earlier opening did not finish.
    pub(crate) fn resume_rebuilds(self: &Rc<Self>) {
        if self.pool.is_read_only() {
            return;
        }
        let reports = self.pool.drive_reports();
        let unfinished =
            reports.iter().enumerate().filter(|(_, drive)| drive.state == DriveState::Rebuilding);
        for (drive, _) in unfinished {
            self.rebuild_later(self.pool.resume_rebuild(drive));
        }
    }

    fn rebuild_later(self: &Rc<Self>, rebuild: Rebuild) {
        self.rebuilds.waiting.borrow_mut().push_back(rebuild);
        if self.rebuilds.is_running.replace(true) {
            return;
        }
        let inner = self.clone();
        self.spawn(Priority::Background, async move {
            loop {
                let next = inner.rebuilds.waiting.borrow_mut().pop_front();
                let Some(rebuild) = next else { break };
                let drive = rebuild.drive();
                let count = if rebuild.is_move() { &inner.rebuilds.moved } else { &inner.rebuilds.finished };
                match inner.rebuild(rebuild).await {
                    Ok(()) => count.set(count.get() + 1),
                    Err(error) if error.kind == ErrorKind::Closed => break,
                    Err(error) => {
                        *inner.rebuilds.last_error.borrow_mut() = Some(error.to_string());
                        inner.rebuild_again(drive);
                    }
                }
                inner.rebuilds.now.set(None);
            }
            inner.rebuilds.is_running.set(false);
        });
    }

    /// A rebuild failed. Unless the drive itself is why, and out by now, it is tried again: what could not
    /// be read of the others may be readable then.
    fn rebuild_again(self: &Rc<Self>, drive: usize) {
        let (weak, runtime) = (Rc::downgrade(self), self.runtime.clone());
        self.runtime.spawn(Priority::Background, async move {
            runtime.sleep(TRY_AGAIN_AFTER).await;
            let Some(inner) = weak.upgrade().filter(|inner| !inner.is_closing()) else { return };
            let is_due = inner.pool.drive_reports()[drive].state == DriveState::Rebuilding;
            let is_running = inner.rebuilds.now.get().is_some_and(|running| running.drive == drive);
            let is_waiting = inner.rebuilds.waiting.borrow().iter().any(|waiting| waiting.drive() == drive);
            if is_due && !is_running && !is_waiting {
                inner.rebuild_later(inner.pool.resume_rebuild(drive));
            }
        });
    }

    async fn rebuild(self: &Rc<Self>, rebuild: Rebuild) -> Result<()> {
        let (drive, since) = (rebuild.drive(), self.runtime.now());
        let pace = Rc::new(Cell::new(self.begin_pace()));
        let report = |progress| {
            self.rebuilds.now.set(Some(Running { drive, since, progress }));
            let (inner, pace) = (self.clone(), pace.clone());
            async move {
                let times = if inner.pool.can_lose_more() { PATIENT } else { IN_DANGER };
                pace.set(inner.give_way(pace.get(), times).await);
                match inner.is_closing() {
                    true => Err(ashlar_pool::Error::new(
                        ashlar_pool::ErrorKind::Closed,
                        "the pool is closing".to_string(),
                    )),
                    false => Ok(()),
                }
            }
        };
        let weigh = |segment, offset, piece| self.weigh(segment, offset, piece);
        self.pool.rebuild(rebuild, &weigh, report).await.map_err(Error::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rebuild_that_has_just_begun_has_no_estimate() {
        let remaining = |done_bytes, elapsed_millis| {
            RebuildStatus { drive: 0, total_bytes: 1 << 30, done_bytes, elapsed_millis }.remaining_millis()
        };
        assert_eq!(remaining(0, 60_000), None);
        assert_eq!(remaining(4096, 1000), None);
        assert_eq!(remaining(1 << 28, 1000), Some(3000));
        assert_eq!(remaining(1 << 20, 10_000), Some(10_230_000));
    }
}
