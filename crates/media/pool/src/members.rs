//! The drives of a pool as its members: which may be asked, which are given up, and what is recorded.
//!
//! A drive that fails a write lacks what was written: it is out from that moment, and no write that
//! went without it is acknowledged before a durable superblock says so. So no later opening counts on it.

use std::rc::Rc;

use ashlar_drive::Drive;
use ashlar_format::segment::SegmentState;
use ashlar_format::superblock::{DriveEntry, DriveState, Superblock};

use crate::{Error, ErrorKind, Pool, Result, State};

/// One drive of the pool.
pub(crate) struct Member {
    /// Drawn when it joined.
    pub(crate) id: u128,
    /// The path it was opened by; empty when it was not found.
    pub(crate) path: String,
    pub(crate) size_bytes: u64,
    pub(crate) drive: Option<Rc<Drive>>,
    pub(crate) state: DriveState,
    /// Segments below this number are on it as they should be.
    pub(crate) stale_from: u32,
    /// Why it is out.
    pub(crate) reason: Option<String>,
}

/// A drive as the pool sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberStatus {
    /// The path it was opened by; empty when it was not found.
    pub path: String,
    /// Its size; what the pool needs of it when it was not found.
    pub size_bytes: u64,
    /// What the pool asks of it.
    pub state: DriveState,
    /// Why it is out of service, as far as this opening knows.
    pub reason: Option<String>,
}

impl Pool {
    /// The drives and their states, in the order of the pool's table.
    #[must_use]
    pub fn members(&self) -> Vec<MemberStatus> {
        let status = |member: &Member| MemberStatus {
            path: member.path.clone(),
            size_bytes: member.size_bytes,
            state: member.state,
            reason: member.reason.clone(),
        };
        self.inner.members.borrow().iter().map(status).collect()
    }

    /// Drives that do not hold what they should.
    #[must_use]
    pub fn drives_out(&self) -> usize {
        let members = self.inner.members.borrow();
        members.iter().filter(|member| member.state != DriveState::InService).count()
    }

    /// A drive that may be read.
    pub(crate) fn readable(&self, drive: usize) -> Option<Rc<Drive>> {
        let members = self.inner.members.borrow();
        let member = &members[drive];
        member.drive.clone().filter(|_| member.state == DriveState::InService)
    }

    /// A drive that must be written.
    pub(crate) fn writable(&self, drive: usize) -> Option<Rc<Drive>> {
        let members = self.inner.members.borrow();
        let member = &members[drive];
        member.drive.clone().filter(|_| member.state != DriveState::Out)
    }

    /// The drives that must be written, with their numbers.
    pub(crate) fn writable_drives(&self) -> Vec<(usize, Rc<Drive>)> {
        let count = self.inner.members.borrow().len();
        (0..count).filter_map(|drive| self.writable(drive).map(|open| (drive, open))).collect()
    }

    /// A request to a drive failed: takes it out of service, unless another has its place by now.
    pub(crate) fn failed(&self, index: usize, drive: &Rc<Drive>, reason: &str) -> Result<()> {
        let is_current = {
            let members = self.inner.members.borrow();
            members[index].drive.as_ref().is_some_and(|current| Rc::ptr_eq(current, drive))
        };
        if is_current { self.give_up(index, reason) } else { Ok(()) }
    }

    /// Takes a drive out of service in memory. Whoever writes without it calls
    /// [`Pool::record_members`] before telling anybody.
    pub(crate) fn give_up(&self, drive: usize, reason: &str) -> Result<()> {
        let stale_from = self.inner.state.borrow().settled_below;
        {
            let mut members = self.inner.members.borrow_mut();
            let member = &mut members[drive];
            if member.state == DriveState::InService {
                member.stale_from = stale_from;
            }
            if member.state != DriveState::Out {
                member.state = DriveState::Out;
                member.reason = Some(reason.to_string());
            }
        }
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

    /// True when the durable superblock says of every drive what is true now.
    fn are_members_recorded(&self) -> bool {
        let state = self.inner.state.borrow();
        let members = self.inner.members.borrow();
        let is_recorded =
            |(member, entry): (&Member, &DriveEntry)| member.state == entry.state && member.id == entry.id;
        members.iter().zip(&state.superblock.drives).all(is_recorded)
    }

    /// Returns when a durable superblock says of every drive what is true now.
    pub(crate) async fn record_members(&self) -> Result<()> {
        while !self.are_members_recorded() {
            self.extend_frontier().await?;
        }
        self.check_not_fenced()
    }

    /// Writes the states of the drives into a superblock to be.
    pub(crate) fn note_members(&self, state: &State, next: &mut Superblock) {
        let members = self.inner.members.borrow();
        for (member, entry) in members.iter().zip(&mut next.drives) {
            entry.id = member.id;
            entry.state = member.state;
        }
        if let Some(layout) = &mut next.layout {
            layout.settled_below = state.settled_below;
            layout.stale_from = members.iter().map(|member| member.stale_from).collect();
        }
    }
}

/// The least number of the segments that may have writes which no flush has covered yet.
pub(crate) fn unsettled_from(state: &State) -> u32 {
    let open = state.table.entries().iter().filter(|entry| entry.state == SegmentState::Open);
    let least = open.map(|entry| entry.segment.0).min();
    least.unwrap_or(state.superblock.segment_next)
}
