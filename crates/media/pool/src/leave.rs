//! A drive of a pool without protection leaves for good, while the pool serves.
//!
//! ```text
//! in service ──── begin_leaving ───► leaving ──── finish_leaving ───► gone
//!      ▲                                │      nothing is on it
//!      └───────────── stay ─────────────┘
//! ```
//!
//! Each step is a superblock. From the first on no segment is opened on the drive; emptying it is the
//! cleaner's work, not this module's. The last is written twice before the drive's ring is wiped, so that one
//! damaged slot does not lead back to a superblock that needs the drive. A drive that has left keeps its
//! number and its cells theirs: places, and the pages of the segment table that speak of them, stay what
//! they are.

use ashlar_format::segment::{Place, SegmentEntry, SegmentState};
use ashlar_format::superblock::DriveState;
use ashlar_units::SegmentId;

use crate::create::CELLS_MIN;
use crate::drives::KnownDrive;
use crate::{Error, ErrorKind, Pool, Result};

impl Pool {
    /// Takes a drive out of use: nothing new goes onto it. Changes nothing when it is leaving already, and
    /// when fewer than `least` cells could be opened on the others, which is told by `false`: a pool
    /// without any could not even record what was freed.
    pub async fn begin_leaving(&self, drive: usize, least: u64) -> Result<bool> {
        assert!(self.inner.striping.is_none(), "rows need all their drives");
        let _turn = self.inner.superblock_turn.lock().await;
        if self.is_to_leave(drive)? {
            return Ok(true);
        }
        if self.cells_available_without(drive) < least {
            return Ok(false);
        }
        // No await until the superblock is made: it tells of the drive.
        self.set_state(drive, DriveState::Leaving);
        {
            let mut state = self.inner.state.borrow_mut();
            let state = &mut *state;
            state.table.close_drive(drive);
            state.frontier.drop_closed(&mut state.table);
        }
        let next = self.next_superblock(&[], |_| ());
        let decided = self.decide(next).await;
        // Whoever waited for one of the places that were dropped.
        self.inner.prepared.notify_waiters();
        decided.map(|()| true)
    }

    /// Takes a drive that is leaving back: its free places are used again.
    pub async fn stay(&self, drive: usize) -> Result<()> {
        let _turn = self.inner.superblock_turn.lock().await;
        match self.state_of(drive)? {
            DriveState::Leaving => {}
            DriveState::InService => return Ok(()),
            DriveState::Gone | DriveState::Out | DriveState::Rebuilding => {
                let what = format!("drive {drive} has left the pool");
                return Err(Error::new(ErrorKind::Invalid, what)
                    .and_do("`ashlar pool add-drive` adds it as a new one"));
            }
        }
        self.set_state(drive, DriveState::InService);
        let next = self.next_superblock(&[], |_| ());
        self.decide(next).await?;
        self.with_table_mut(|table| table.reopen_drive(drive));
        Ok(())
    }

    /// Lets a drive go that nothing is on. False when something still is, or was in the last superblock.
    pub async fn finish_leaving(&self, drive: usize) -> Result<bool> {
        {
            let _turn = self.inner.superblock_turn.lock().await;
            if self.inner.leaving.get() != Some(drive) || !self.is_vacant(drive) {
                return Ok(false);
            }
            self.set_state(drive, DriveState::Gone);
            let next = self.next_superblock(&[], |_| ());
            self.decide(next).await?;
        }
        self.extend_frontier().await?;
        self.wipe_gone().await?;
        Ok(true)
    }

    /// Wipes the rings of drives that have left and were found again, and lets go of them: a crash came
    /// between the superblock that says so and this.
    pub async fn wipe_gone(&self) -> Result<()> {
        let count = self.inner.drives.borrow().len();
        for drive in 0..count {
            let open = {
                let known = &self.inner.drives.borrow()[drive];
                known.drive.clone().filter(|_| known.state == DriveState::Gone)
            };
            if let Some(open) = open {
                let wiped = open.wipe_ring().await;
                // It is let go of in any case: it is not counted, and the next opening tries again.
                self.inner.drives.borrow_mut()[drive].drive = None;
                wiped?;
            }
        }
        Ok(())
    }

    /// The drive that is leaving.
    #[must_use]
    pub fn drive_leaving(&self) -> Option<usize> {
        self.inner.leaving.get()
    }

    /// Whether a segment is on the drive that is leaving.
    #[must_use]
    pub fn is_leaving(&self, segment: SegmentId) -> bool {
        let is_on = |place: Place| Some(usize::from(place.drive.0)) == self.inner.leaving.get();
        self.inner.leaving.get().is_some()
            && self.with_table(|table| table.find(segment).is_some_and(|entry| is_on(entry.place)))
    }

    /// Segments on a drive.
    #[must_use]
    pub fn segments_on(&self, drive: usize) -> Vec<SegmentEntry> {
        self.with_table(|table| {
            let entries = table.entries_on(drive).iter();
            entries.filter(|entry| entry.state != SegmentState::Free).copied().collect()
        })
    }

    /// Places of a drive that hold a segment, or did by the last superblock.
    #[must_use]
    pub fn cells_taken_on(&self, drive: usize) -> u64 {
        self.with_table(|table| table.taken_on(drive) as u64)
    }

    /// Cells of a drive.
    #[must_use]
    pub fn cells_on(&self, drive: usize) -> u64 {
        self.with_table(|table| table.entries_on(drive).len() as u64)
    }

    /// Nothing is on it, the durable table says so, and the next superblock's frontier names no place of it.
    fn is_vacant(&self, drive: usize) -> bool {
        let state = self.inner.state.borrow();
        state.table.taken_on(drive) == 0 && !state.frontier.lists_drive(drive)
    }

    fn state_of(&self, drive: usize) -> Result<DriveState> {
        let has_places = self.with_table(|table| table.has_drive(drive));
        let state = self.inner.drives.borrow().get(drive).map(|known| known.state).filter(|_| has_places);
        state.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("the pool has no drive {drive}")))
    }

    fn set_state(&self, drive: usize, state: DriveState) {
        self.inner.drives.borrow_mut()[drive].state = state;
        self.inner.leaving.set((state == DriveState::Leaving).then_some(drive));
    }

    /// Whether a drive is leaving already. An error when it may not leave, but for want of room: how much is
    /// needed the pool does not know. One that is joining is none of the pool's yet.
    pub fn is_to_leave(&self, drive: usize) -> Result<bool> {
        let name = self.superblock().name;
        let refuse = |what: String, action: String| Err(Error::new(ErrorKind::Invalid, what).and_do(action));
        match self.state_of(drive)? {
            DriveState::Leaving => return Ok(true),
            DriveState::InService => {}
            DriveState::Gone | DriveState::Out | DriveState::Rebuilding => {
                let what = format!("drive {drive} has left pool {name}");
                return Err(Error::new(ErrorKind::NotFound, what));
            }
        }
        if let Some(other) = self.inner.leaving.get() {
            let what = format!("drive {other} of pool {name} is leaving, and one leaves at a time");
            let action = format!("wait for it, or `ashlar pool online-drive {name} {other}` takes it back");
            return Err(Error::new(ErrorKind::Busy, what).and_do(action));
        }
        let is_there = |known: &&KnownDrive| known.state != DriveState::Gone;
        if self.inner.drives.borrow().iter().filter(is_there).count() == 1 {
            return refuse(
                format!("drive {drive} is the last one of pool {name}"),
                format!("`ashlar pool delete {name}` destroys the pool"),
            );
        }
        let rest = self.with_table(|table| table.open_count() as u64) - self.cells_on(drive);
        if rest < CELLS_MIN {
            return refuse(
                format!(
                    "without drive {drive} pool {name} has {rest} segments; it needs at least {CELLS_MIN}"
                ),
                "add a drive first".to_string(),
            );
        }
        Ok(false)
    }
}
