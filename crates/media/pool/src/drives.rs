//! The drives of a pool: which may be asked, which are given up, and what is recorded of them.
//!
//! A drive that fails a write lacks what was written: it is out from that moment, and no write that
//! went without it is acknowledged before a durable superblock says so. So no later opening counts on it.

use std::rc::Rc;

use ashlar_drive::{Drive, DriveCounters};
use ashlar_format::layout::StandIn;
use ashlar_format::segment::SegmentState;
use ashlar_format::superblock::{DriveEntry, DriveState, Superblock};
use ashlar_units::{DriveIndex, Fault, SegmentId, planted};

use crate::{Error, ErrorKind, Pool, Result, State};

/// One drive of the pool.
pub(crate) struct KnownDrive {
    /// Drawn when it joined.
    pub(crate) id: u128,
    /// Its number in the pool.
    pub(crate) number: DriveIndex,
    /// The newest superblock that it is known to hold.
    pub(crate) confirmed: u64,
    /// The newest superblock that was found on it at the opening.
    pub(crate) generation: u64,
    /// The path it was opened by; empty when it was not found.
    pub(crate) path: String,
    pub(crate) size_bytes: u64,
    pub(crate) drive: Option<Rc<Drive>>,
    pub(crate) state: DriveState,
    /// Segments below this number are on it as they should be.
    pub(crate) stale_from: u32,
    /// Why it is out.
    pub(crate) reason: Option<String>,
    /// Whether it was out from the opening on.
    pub(crate) away: Option<Away>,
}

/// What kept a drive out of service from the opening on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Away {
    /// It was not there, and would have served.
    Missed,
    /// It was out before, which the superblock says without a reason.
    Before,
}

/// A drive as the pool sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveReport {
    /// Drawn when it joined.
    pub id: u128,
    /// The path it was opened by; empty when it was not found.
    pub path: String,
    /// Its size; what the pool needs of it when it was not found.
    pub size_bytes: u64,
    /// What the pool asks of it.
    pub state: DriveState,
    /// Why it is out of service, as far as this opening knows.
    pub reason: Option<String>,
    /// What kept it out from the opening on; `None` for one that serves, failed since or was taken out.
    pub away: Option<Away>,
    /// It is no more: the others hold what it held, in spare space.
    pub is_in_spare_space: bool,
    /// What was asked of it since it was opened.
    pub counters: DriveCounters,
}

/// A drive is given up when so many of its reads failed, though each was answered by the others, beyond
/// those that writing the place anew has mended: one that goes on like that will not get better, and makes
/// every read wait for its error first.
const READ_ERRORS_MAX: u64 = 256;

impl Pool {
    /// The drives and their states, in the order of the pool's table.
    #[must_use]
    pub fn drive_reports(&self) -> Vec<DriveReport> {
        let is_in_spare_space =
            |index| self.inner.striping.as_ref().is_some_and(|striping| striping.is_in_spare_space(index));
        let status = |(index, known): (usize, &KnownDrive)| DriveReport {
            id: known.id,
            path: known.path.clone(),
            size_bytes: known.size_bytes,
            state: match known.state {
                // Until a superblock says that it is gone and its ring is wiped it is needed.
                DriveState::Gone if known.drive.is_some() => DriveState::Leaving,
                state => state,
            },
            reason: known.reason.clone(),
            away: known.away.filter(|_| known.state == DriveState::Out),
            is_in_spare_space: is_in_spare_space(index),
            counters: known.drive.as_ref().map(|drive| drive.counters()).unwrap_or_default(),
        };
        self.inner.drives.borrow().iter().enumerate().map(status).collect()
    }

    /// What was named at the opening and is no drive of the pool, and why.
    #[must_use]
    pub fn unused_drives(&self) -> Vec<String> {
        self.inner.unused.clone()
    }

    /// Drives that do not hold what they should.
    #[must_use]
    pub fn drives_out(&self) -> usize {
        self.inner.drives.borrow().iter().filter(|known| lacks(known.state)).count()
    }

    /// Whether one more drive may be lost and nothing with it.
    #[must_use]
    pub fn can_lose_more(&self) -> bool {
        self.drives_out() < self.parity_columns()
    }

    /// The drives that are there and must be written, with their numbers.
    pub(crate) fn writable_drives(&self) -> Vec<(usize, Rc<Drive>)> {
        let drives = self.inner.drives.borrow();
        let there = drives
            .iter()
            .enumerate()
            .filter(|(_, known)| !matches!(known.state, DriveState::Out | DriveState::Gone));
        there.filter_map(|(index, known)| Some((index, known.drive.clone()?))).collect()
    }

    /// A request to a drive failed: takes it out of service, unless another has its place by now.
    pub(crate) fn failed(&self, index: usize, drive: &Rc<Drive>, reason: &str) -> Result<()> {
        let is_current = {
            let drives = self.inner.drives.borrow();
            drives[index].drive.as_ref().is_some_and(|current| Rc::ptr_eq(current, drive))
        };
        if is_current { self.give_up(index, reason) } else { Ok(()) }
    }

    /// A read failed, and parity answers for it. A drive that keeps failing is given up while the pool can
    /// do without it. Whoever writes next records that, or the next beat.
    pub(crate) fn read_failed(&self, index: usize, drive: &Rc<Drive>, error: &ashlar_drive::Error) {
        let DriveCounters { errors, mended_blocks, .. } = drive.counters();
        if errors >= READ_ERRORS_MAX + mended_blocks {
            let reason = format!("{errors} requests failed, the last: {}", error.context);
            self.failed_if_spared(index, drive, &reason);
        }
    }

    /// A drive failed where nobody waits for what it should have done: it is given up while the pool can do
    /// without it.
    pub(crate) fn failed_if_spared(&self, index: usize, drive: &Rc<Drive>, reason: &str) {
        if self.can_lose_more() {
            // Within what parity survives nothing is fenced.
            let _within = self.failed(index, drive, reason);
        }
    }

    /// Takes a drive out of service in memory. Whoever writes without it calls
    /// [`Pool::record_drives`] before telling anybody.
    pub(crate) fn give_up(&self, drive: usize, reason: &str) -> Result<()> {
        let stale_from =
            self.inner.state.borrow().settled_below + u32::from(planted(Fault::StaleFromTooHigh));
        {
            let mut drives = self.inner.drives.borrow_mut();
            let known = &mut drives[drive];
            if known.state == DriveState::InService {
                known.stale_from = stale_from;
            }
            if known.state != DriveState::Out {
                known.state = DriveState::Out;
                known.reason = Some(reason.to_string());
                known.away = None;
            }
        }
        self.give_up_moving(reason);
        self.outdate_for_spares(drive);
        let (out, parity) = (self.drives_out(), self.parity_columns());
        if out <= parity {
            return Ok(());
        }
        self.fence();
        Err(Error::new(
            ErrorKind::Medium,
            format!(
                "{out} drives of the pool are out of service and its protection survives {parity}: {reason}"
            ),
        ))
    }

    /// A drive left while another is being restored to spare space, a part of which is on it: who knows how
    /// far that went? It must be restored as a whole.
    fn outdate_for_spares(&self, drive: usize) {
        let Some(striping) = &self.inner.striping else { return };
        let mut drives = self.inner.drives.borrow_mut();
        if is_spare_filling(&drives, &striping.stand_ins()) {
            drives[drive].stale_from = 0;
        }
    }

    /// The drives of these columns that are out of service must restore this segment: what it held when they
    /// left may be judged otherwise now. Returns when that is durable.
    pub(crate) async fn outdate(
        &self,
        segment: SegmentId,
        drives: impl Iterator<Item = usize>,
    ) -> Result<()> {
        for drive in drives {
            let known = &mut self.inner.drives.borrow_mut()[drive];
            if known.state != DriveState::InService {
                known.stale_from = known.stale_from.min(segment.0);
            }
        }
        self.record_drives().await
    }

    /// True when the durable superblock says of every drive what is true now.
    fn are_drives_recorded(&self) -> bool {
        let state = self.inner.state.borrow();
        let drives = self.inner.drives.borrow();
        let is_recorded =
            |(known, entry): (&KnownDrive, &DriveEntry)| known.state == entry.state && known.id == entry.id;
        let is_staleness_recorded = state.superblock.layout.as_ref().is_none_or(|layout| {
            let of_drives = drives.iter().zip(&layout.stale_from);
            let mut away = of_drives.filter(|(known, _)| known.state != DriveState::InService);
            away.all(|(known, recorded)| known.stale_from == *recorded)
        });
        let is_spare_recorded = match (&self.inner.striping, &state.superblock.layout) {
            (Some(striping), Some(layout)) => striping.rows.borrow().stand_ins() == layout.stand_ins,
            _ => true,
        };
        is_spare_recorded
            && is_staleness_recorded
            && drives.iter().zip(&state.superblock.drives).all(is_recorded)
    }

    /// Returns when a durable superblock says of every drive what is true now.
    pub(crate) async fn record_drives(&self) -> Result<()> {
        if self.is_read_only() {
            return Ok(());
        }
        while !self.are_drives_recorded() {
            self.extend_frontier().await?;
        }
        self.check_not_fenced()
    }

    /// Writes the states of the drives into a superblock to be.
    pub(crate) fn note_drives(&self, state: &State, next: &mut Superblock) {
        let drives = self.inner.drives.borrow();
        for (known, entry) in drives.iter().zip(&mut next.drives) {
            entry.id = known.id;
            entry.state = known.state;
            entry.confirmed = known.confirmed;
        }
        if let Some(layout) = &mut next.layout {
            layout.settled_below = state.settled_below;
            layout.stale_from = drives.iter().map(|known| known.stale_from).collect();
        }
        if let (Some(striping), Some(layout)) = (&self.inner.striping, &mut next.layout) {
            layout.stand_ins = striping.stand_ins();
        }
    }
}

/// Whether spare space lacks something of a drive that lives there.
pub(crate) fn is_spare_filling(drives: &[KnownDrive], stand_ins: &[StandIn]) -> bool {
    stand_ins.iter().any(|one| drives[usize::from(one.drive.0)].state == DriveState::Rebuilding)
}

/// Whether a drive in this state does not hold what it should.
pub(crate) fn lacks(state: DriveState) -> bool {
    match state {
        DriveState::Out | DriveState::Rebuilding => true,
        DriveState::InService | DriveState::Leaving | DriveState::Gone => false,
    }
}

/// The least number of the segments that may have writes which no flush has covered yet: those that are
/// open, and those that have a number and will be opened.
pub(crate) fn unsettled_from(state: &State) -> u32 {
    let open = state.table.entries().iter().filter(|entry| entry.state == SegmentState::Open);
    let least = open.map(|entry| entry.segment).chain(state.frontier.unopened()).min();
    least.map_or(state.superblock.segment_next, |segment| segment.0)
}
