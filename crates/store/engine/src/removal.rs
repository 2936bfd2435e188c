//! A drive leaves the pool: the cleaner empties it in the background, then the pool lets go of it.
//!
//! ```text
//! begin    when the others have free segments: a superblock says that it leaves, nothing new goes onto it
//! vacate   journal, page records and containers go on elsewhere; cycles of the cleaner empty what is there
//! end      a checkpoint has nothing on it: a superblock calls it gone, and its ring is wiped
//! ```
//!
//! What leaves stands on the drives, so a crash anywhere costs a start from what is still there. Only drives
//! without protection leave; one at a time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use ashlar_format::group::Record;
use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_format::segment::{SegmentKind, SegmentState};
use ashlar_format::superblock::DriveState;
use ashlar_journal::Draft;
use ashlar_runtime::sync::Notify;
use ashlar_runtime::{Instant, Priority};
use ashlar_units::ByteCount;

use crate::drives::remaining_millis;
use crate::engine::{Engine, Inner};
use crate::write_path::outcome_of;
use crate::{Error, ErrorKind, Result};

/// Cycles in a row that freed nothing of the drive after which something must be in the way: of one that
/// ends two may pass over what is only being rewritten or finished.
const IDLE_CYCLES_MAX: u32 = 3;

/// Cycles that may win the others the room to go on with before a removal is refused.
const CYCLES_BEFORE: u32 = 4;

/// How long until a removal that something is in the way of is tried again.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// What is in use must fit into this share of the rest of the pool, in per cent: fuller, cleaning would move
/// ten times what it wins.
const FILLED_PERCENT_MAX: u64 = 90;

/// The removal under way.
#[derive(Default)]
pub(crate) struct Removals {
    now: RefCell<Option<Running>>,
    is_running: Cell<bool>,
    /// The drive that will leave when the others have room to go on.
    asked: Cell<Option<usize>>,
    /// Drives that left since the opening.
    finished: Cell<u64>,
    /// Rung when it may be worth a try, and when the pool closes.
    pub(crate) wake: Notify,
}

struct Running {
    drive: usize,
    since: Instant,
    /// Cells that were to be emptied when it began, or when the pool was opened.
    total_cells: u64,
    trouble: Option<String>,
}

/// A removal under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemovalStatus {
    /// The drive, by its number.
    pub drive: usize,
    /// Bytes of segments that were on it when it began, or when the pool was opened.
    pub total_bytes: u64,
    /// Bytes of them that are gone.
    pub done_bytes: u64,
    /// How long it has taken so far, since the opening.
    pub elapsed_millis: u64,
    /// Why it does not go on, if it does not.
    pub trouble: Option<String>,
}

impl RemovalStatus {
    /// How much longer at the pace so far; `None` before there is one.
    #[must_use]
    pub fn remaining_millis(&self) -> Option<u64> {
        remaining_millis(self.total_bytes, self.done_bytes, self.elapsed_millis)
    }
}

/// What became of a step.
enum Step {
    /// The drive has left, or stays: there is nothing more to do.
    Over,
    Further,
    Idle,
}

impl Engine {
    /// Lets a drive leave. Without protection it returns when nothing new goes onto it, and what is on it
    /// moves to the others in the background; with protection it goes to spare space, and a drive that serves
    /// does so until that is over. Changes nothing when it is leaving already.
    pub async fn drive_remove(&self, drive: usize) -> Result<()> {
        let inner = &self.inner;
        inner.check_online()?;
        if inner.pool.parity_columns() > 0 {
            return inner.remove_to_spare_space(drive).await;
        }
        if !inner.pool.is_to_leave(drive)? {
            inner.check_room_without(drive)?;
            inner.begin_leaving(drive).await?;
        }
        inner.remove_later();
        Ok(())
    }

    /// Takes a drive back that is leaving.
    pub async fn drive_stay(&self, drive: usize) -> Result<()> {
        let inner = &self.inner;
        inner.check_online()?;
        if inner.pool.parity_columns() > 0 {
            inner.pool.stop_moving(drive);
            return Ok(());
        }
        inner.pool.stay(drive).await?;
        inner.removals.wake.notify_waiters();
        // Writes that wait for room.
        inner.cleaner.finished.notify_waiters();
        Ok(())
    }

    /// The removal under way.
    #[must_use]
    pub fn removal_status(&self) -> Option<RemovalStatus> {
        let inner = &self.inner;
        let now = inner.removals.now.borrow();
        let running = now.as_ref().filter(|running| inner.pool.drive_leaving() == Some(running.drive))?;
        let left_cells = inner.pool.cells_taken_on(running.drive).min(running.total_cells);
        Some(RemovalStatus {
            drive: running.drive,
            total_bytes: running.total_cells * inner.pool.segment_bytes(),
            done_bytes: (running.total_cells - left_cells) * inner.pool.segment_bytes(),
            elapsed_millis: inner.runtime.now().duration_since(running.since).as_millis() as u64,
            trouble: running.trouble.clone(),
        })
    }

    /// Drives that left since the opening.
    #[must_use]
    pub fn drives_removed(&self) -> u64 {
        self.inner.removals.finished.get()
    }
}

impl Inner {
    /// Refuses a removal when what is in use, as far as the last mark knows what is alive, would leave the
    /// rest of the pool too full.
    fn check_room_without(&self, drive: usize) -> Result<()> {
        let size = self.pool.segment_bytes();
        let total = self.segments_total() - self.pool.cells_on(drive);
        let offered = total.saturating_sub(self.kept_from_vacating(total)) * size;
        let used: u64 = self.pool.with_table(|table| {
            let used = table.entries().iter().filter(|entry| entry.state != SegmentState::Free);
            used.map(|entry| match u64::from(entry.live_units) * PLACE_UNIT_BYTES {
                0 => size,
                alive => alive.min(size),
            })
            .sum()
        });
        if used * 100 <= offered * FILLED_PERCENT_MAX {
            return Ok(());
        }
        let name = self.pool.superblock().name;
        let (used, offered) = (ByteCount(used), ByteCount(offered * FILLED_PERCENT_MAX / 100));
        let what = format!(
            "drive {drive} cannot leave pool {name}: {used} are in use, and without it there is room for {offered}"
        );
        Err(Error::new(ErrorKind::NoSpace, what).and_do("delete or unmap something, or add a drive first"))
    }

    /// Has a drive leave that stays in service until the others have segments to go on with: what is free may
    /// all be on it, and what is dead on the others yet to be freed.
    async fn begin_leaving(&self, drive: usize) -> Result<()> {
        let name = self.pool.superblock().name;
        if let Some(other) = self.removals.asked.get() {
            let what = format!("drive {other} of pool {name} is asked to leave, and one leaves at a time");
            return Err(Error::new(ErrorKind::Busy, what).and_do("wait until that is answered"));
        }
        self.removals.asked.set(Some(drive));
        let has_begun = self.begin_leaving_with_room(drive).await;
        self.removals.asked.set(None);
        if has_begun? {
            return Ok(());
        }
        let free = ByteCount(self.pool.cells_available_without(drive) * self.pool.segment_bytes());
        let least = ByteCount(self.least_without(drive) * self.pool.segment_bytes());
        let what = format!(
            "drive {drive} cannot leave pool {name}: {free} are free on the others, and going on without it \
             takes {least}"
        );
        Err(Error::new(ErrorKind::NoSpace, what).and_do("delete or unmap something, or add a drive first"))
    }

    async fn begin_leaving_with_room(&self, drive: usize) -> Result<bool> {
        for _ in 0..CYCLES_BEFORE {
            if self.pool.begin_leaving(drive, self.least_without(drive)).await? {
                return Ok(true);
            }
            match self.cycle_of_cleaner().await {
                Err(error) if error.kind != ErrorKind::NoSpace => return Err(error),
                _ => {}
            }
        }
        Ok(self.pool.begin_leaving(drive, self.least_without(drive)).await?)
    }

    /// Free segments that the pool needs to go on without a drive.
    fn least_without(&self, drive: usize) -> u64 {
        let total = self.segments_total() - self.pool.cells_on(drive);
        self.kept_from_vacating(total) + self.dirty_segments()
    }

    /// Whether a removal goes on when a cycle of the cleaner has ended.
    pub(crate) fn is_removal_waiting(&self) -> bool {
        self.pool.drive_leaving().is_some() || self.removals.asked.get().is_some()
    }

    /// Free segments, as far as they will be there: not those of a drive that is asked to leave.
    pub(crate) fn lasting_segments(&self) -> u64 {
        match self.removals.asked.get() {
            Some(drive) => self.pool.cells_available_without(drive),
            None => self.pool.cells_available(),
        }
    }

    /// Goes on with a removal that an earlier opening did not finish.
    pub(crate) fn resume_removal(self: &Rc<Self>) {
        if self.pool.is_read_only() {
            return;
        }
        if !self.pool.drive_reports().iter().any(|drive| drive.state == DriveState::Leaving) {
            return;
        }
        let inner = self.clone();
        self.spawn(Priority::Background, async move {
            // One that left is asked for no more: what fails here costs nobody anything.
            let _not_wiped = inner.pool.wipe_gone().await;
            inner.remove_later();
        });
    }

    fn remove_later(self: &Rc<Self>) {
        let Some(drive) = self.pool.drive_leaving() else { return };
        if self.removals.is_running.replace(true) {
            return;
        }
        let total_cells = self.pool.cells_taken_on(drive);
        let running = Running { drive, since: self.runtime.now(), total_cells, trouble: None };
        self.removals.now.replace(Some(running));
        let inner = self.clone();
        self.spawn(Priority::Background, async move {
            inner.remove(drive).await;
            inner.removals.now.replace(None);
            inner.removals.is_running.set(false);
            // It was taken back, and is to leave again, or another is.
            if !inner.is_closing() && inner.check_online().is_ok() {
                inner.remove_later();
            }
        });
    }

    async fn remove(self: &Rc<Self>, drive: usize) {
        let mut idle_cycles = 0;
        loop {
            let step = self.remove_step(drive).await;
            idle_cycles = if matches!(step, Ok(Step::Further)) { 0 } else { idle_cycles + 1 };
            let trouble = match step {
                Ok(Step::Over) => return,
                Ok(Step::Further) => None,
                Ok(Step::Idle) if idle_cycles < IDLE_CYCLES_MAX => continue,
                Ok(Step::Idle) => {
                    let trouble = self.cleaner.mark_trouble().or_else(|| self.cleaner.vacating_trouble());
                    Some(trouble.unwrap_or_else(|| "nothing could be moved".to_string()))
                }
                Err(error) if error.kind == ErrorKind::Closed => return,
                Err(error) => Some(error.to_string()),
            };
            let is_stuck = trouble.is_some();
            if let Some(running) = &mut *self.removals.now.borrow_mut() {
                running.trouble = trouble;
            }
            if self.check_online().is_err() {
                // Only another opening goes on.
                return;
            }
            if is_stuck {
                self.wait_to_try_again().await;
                let segments = self.pool.segments_on(drive);
                self.cleaner.forgive(segments.iter().map(|entry| entry.segment));
            }
        }
    }

    async fn remove_step(self: &Rc<Self>, drive: usize) -> Result<Step> {
        self.check_not_closing()?;
        self.check_online()?;
        if self.pool.drive_leaving() != Some(drive) {
            return Ok(Step::Over);
        }
        let left_before = self.pool.cells_taken_on(drive);
        if left_before == 0 {
            return self.let_go(drive).await;
        }
        self.abandon_open_segments(drive).await?;
        self.cycle_of_cleaner().await?;
        let left = self.pool.cells_taken_on(drive);
        Ok(if left < left_before { Step::Further } else { Step::Idle })
    }

    async fn let_go(&self, drive: usize) -> Result<Step> {
        if !self.pool.finish_leaving(drive).await? {
            // The frontier still lists what was opened there since the last checkpoint but one.
            self.checkpoint_now(false).await?;
            if !self.pool.finish_leaving(drive).await? {
                return Ok(Step::Idle);
            }
        }
        self.removals.finished.set(self.removals.finished.get() + 1);
        Ok(Step::Over)
    }

    /// Segments on the drive that are still written to end here, so that they can be emptied.
    async fn abandon_open_segments(&self, drive: usize) -> Result<()> {
        let segments = self.pool.segments_on(drive);
        let position = self.pool.superblock().journal.segment;
        let is_journal = segments.iter().any(|entry| {
            let is_needed = entry.state == SegmentState::Open || entry.segment == position;
            entry.kind == SegmentKind::Journal && is_needed
        });
        if is_journal {
            // The next group goes elsewhere; without hosts there would be none. It changes nothing.
            let nothing = Record::Delete { images: Vec::new() };
            match outcome_of(self.submit(vec![Draft::Record(nothing)], None).await) {
                Err(error) if error.kind != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.mover.lock().await.abandon_leaving().await?;
        let has_pages = |kind| kind == SegmentKind::Metadata;
        if segments.iter().any(|entry| entry.state == SegmentState::Open && has_pages(entry.kind)) {
            self.checkpoint_now(false).await?;
        }
        Ok(())
    }

    /// Returns when a cycle of the cleaner has passed that began after this was called.
    async fn cycle_of_cleaner(&self) -> Result<()> {
        let begun_before = self.cleaner.begun();
        let mut rings_in_vain = 0;
        while self.cleaner.ended() <= begun_before {
            let finished = self.cleaner.finished.notified();
            self.check_not_closing()?;
            self.check_online()?;
            let ended_before = self.cleaner.ended();
            if self.cleaner.begun() == begun_before {
                self.cleaner.want_mark();
                self.checkpoints.wanted.notify_one();
            }
            finished.await;
            if !self.cleaner.is_running() && self.cleaner.ended() == ended_before {
                rings_in_vain += 1;
            }
            if rings_in_vain == 2 {
                return Err(Error::new(ErrorKind::NoSpace, "there is no room for a checkpoint"));
            }
        }
        Ok(())
    }

    /// Waits a while, or until something happens that may help.
    async fn wait_to_try_again(self: &Rc<Self>) {
        let wake = self.removals.wake.notified();
        if self.is_closing() {
            return;
        }
        // Weak: a closed pool must not stay open until then.
        let (weak, runtime) = (Rc::downgrade(self), self.runtime.clone());
        self.runtime.spawn(Priority::Background, async move {
            runtime.sleep(TRY_AGAIN_AFTER).await;
            if let Some(inner) = weak.upgrade() {
                inner.removals.wake.notify_waiters();
            }
        });
        wake.await;
    }
}
