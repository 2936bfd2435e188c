//! Scrub: everything is checked, then every segment is compared with its parity. One at a time; it may be
//! paused, goes on where it was, and tells how far it is.

use std::cell::Cell;

use ashlar_format::segment::SegmentState;
use ashlar_pool::{ScrubCount, Weigh};
use ashlar_runtime::Instant;
use ashlar_runtime::sync::Notify;
use ashlar_units::SegmentId;

use crate::engine::{Engine, Inner};
use crate::info::{CheckReport, ScrubReport, ScrubStatus};
use crate::pace::PATIENT;
use crate::{Error, ErrorKind, Result};

/// The scrub under way.
#[derive(Default)]
pub(crate) struct Scrubs {
    now: Cell<Option<Running>>,
    is_paused: Cell<bool>,
    is_stopped: Cell<bool>,
    changed: Notify,
}

#[derive(Clone, Copy)]
struct Running {
    since: Instant,
    done: u64,
    /// Segments to compare; none while it checks.
    total: u64,
}

impl Engine {
    /// A check, then every segment against its parity: what is wrong is set right. Runs beside I/O.
    pub async fn scrub(&self) -> Result<ScrubReport> {
        let inner = &self.inner;
        let since = inner.runtime.now();
        inner.scrubs.until_stopped().await;
        if inner.scrubs.now.get().is_some() {
            return Err(inner.is_being_scrubbed());
        }
        inner.scrubs.now.set(Some(Running { since, done: 0, total: 0 }));
        inner.scrubs.is_paused.set(false);
        inner.scrubs.is_stopped.set(false);
        let report = self.scrub_all(since).await;
        inner.scrubs.now.set(None);
        inner.scrubs.changed.notify_waiters();
        report
    }

    /// A check, then every segment compared with its parity; nothing is set right but what reads mend.
    pub async fn check_deep(&self) -> Result<(CheckReport, ScrubCount)> {
        let running = self.inner.checks.begin();
        let check = self.check_in_slices(async |report| running.go_on(report)).await?;
        let mut parity = ScrubCount::default();
        self.inner.compare_all(None, &mut parity, async |_, _| running.go_on(&check)).await?;
        Ok((check, parity))
    }

    async fn scrub_all(&self, since: Instant) -> Result<ScrubReport> {
        let inner = &self.inner;
        let check = self.check_in_slices(async |_| inner.wait_while_paused().await).await?;
        let mut parity = ScrubCount::default();
        let weigh = |segment, offset, piece| inner.weigh(segment, offset, piece);
        let at = async |done, total| {
            inner.scrubs.now.set(Some(Running { since, done, total }));
            inner.wait_while_paused().await
        };
        inner.compare_all(Some(&weigh), &mut parity, at).await?;
        // Whoever paused or stopped it at its last segment was told so.
        inner.wait_while_paused().await?;
        Ok(ScrubReport { check, parity, mended_blocks: inner.pool.mended_blocks() })
    }

    /// How far the scrub under way is.
    #[must_use]
    pub fn scrub_status(&self) -> Option<ScrubStatus> {
        let scrubs = &self.inner.scrubs;
        let running = scrubs.now.get().filter(|_| !scrubs.is_stopped.get())?;
        Some(ScrubStatus {
            done_segments: running.done,
            total_segments: running.total,
            elapsed_millis: self.inner.runtime.now().duration_since(running.since).as_millis() as u64,
            is_paused: self.inner.scrubs.is_paused.get(),
        })
    }

    /// Holds the scrub under way after the segment it is at, or lets it go on.
    pub fn scrub_pause(&self, is_paused: bool) -> Result<()> {
        let scrubs = self.inner.scrub_under_way()?;
        scrubs.is_paused.set(is_paused);
        scrubs.changed.notify_waiters();
        Ok(())
    }

    /// Ends the scrub under way after the segment it is at.
    pub fn scrub_stop(&self) -> Result<()> {
        let scrubs = self.inner.scrub_under_way()?;
        scrubs.is_stopped.set(true);
        scrubs.changed.notify_waiters();
        Ok(())
    }
}

impl Scrubs {
    /// A scrub that was stopped is at its last segment: returns when that is over.
    async fn until_stopped(&self) {
        while self.now.get().is_some() && self.is_stopped.get() {
            self.changed.notified().await;
        }
    }
}

impl Inner {
    /// Every segment that is in use against its parity, leaving the drives to hosts. `at` is told how many
    /// are done of how many, and may take its time.
    async fn compare_all<F: Future<Output = Result<()>>>(
        &self,
        weigh: Option<Weigh<'_>>,
        count: &mut ScrubCount,
        at: impl Fn(u64, u64) -> F,
    ) -> Result<()> {
        let mut segments: Vec<SegmentId> = self.pool.with_table(|table| {
            let used = table.entries().iter().filter(|entry| entry.state != SegmentState::Free);
            used.map(|entry| entry.segment).collect()
        });
        segments.sort_unstable();
        let pace = Cell::new(self.begin_pace());
        for (done, segment) in (0..).zip(&segments) {
            at(done, segments.len() as u64).await?;
            let pause = || async {
                pace.set(self.give_way(pace.get(), PATIENT).await);
                Ok(())
            };
            self.pool.scrub_segment(*segment, weigh, count, pause).await?;
            self.check_not_closing()?;
        }
        Ok(())
    }

    fn scrub_under_way(&self) -> Result<&Scrubs> {
        let running = self.scrubs.now.get().filter(|_| !self.scrubs.is_stopped.get());
        running.map(|_| &self.scrubs).ok_or_else(|| {
            let name = self.pool.superblock().name;
            let what = format!("pool {name} is not being scrubbed");
            Error::new(ErrorKind::Invalid, what).and_do(format!("`ashlar pool scrub {name}` begins"))
        })
    }

    fn is_being_scrubbed(&self) -> Error {
        let name = self.pool.superblock().name;
        let (state, action) = match self.scrubs.is_paused.get() {
            true => (
                ", and the scrub is paused",
                format!("`ashlar pool scrub {name} --resume` lets it go on, `--stop` ends it"),
            ),
            false => ("", format!("`ashlar pool scrub {name} --stop` ends it")),
        };
        let what = format!("pool {name} is being scrubbed{state}");
        Error::new(ErrorKind::Busy, what).and_do(action)
    }

    /// The pool is closing: a scrub that is held must not hold it up.
    pub(crate) fn release_scrub(&self) {
        self.scrubs.changed.notify_waiters();
    }

    async fn wait_while_paused(&self) -> Result<()> {
        loop {
            let changed = self.scrubs.changed.notified();
            self.check_not_closing()?;
            if self.scrubs.is_stopped.get() {
                return Err(Error::new(ErrorKind::Cancelled, "the scrub was ended on request"));
            }
            if !self.scrubs.is_paused.get() {
                return Ok(());
            }
            changed.await;
        }
    }
}
