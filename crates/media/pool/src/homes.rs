//! Where columns are: on their own drive, in spare space, and for a while in two places at once.
//!
//! A column is read from its home when all drives that answer for it are in service. It is written there,
//! and, while a drive's content moves, to where it will be, too. So what is moved is complete at any moment
//! as far as it went, and until the moving is over nobody depends on it.

use std::rc::Rc;

use ashlar_drive::Drive;
use ashlar_format::layout::StandIn;
use ashlar_format::rows::{Home, Rows};
use ashlar_format::superblock::DriveState;
use ashlar_runtime::{Buf, Durability, Priority};
use ashlar_units::{BLOCK_BYTES, Fault, planted};

use crate::stripes::Striping;
use crate::{Pool, Result};

/// A drive's content on its way elsewhere.
pub(crate) struct Moving {
    /// The drive that is left.
    pub(crate) drive: usize,
    /// Where everything is when it is over.
    pub(crate) rows: Rows,
    /// The drive that takes its place; none when its content goes to spare space.
    pub(crate) newcomer: Option<Rc<Drive>>,
    /// Which joining this is.
    pub(crate) join: u64,
}

impl Moving {
    /// Where a column goes, if it moves.
    fn home(&self, now: Home, row: u32, column: usize) -> Option<Home> {
        let then = self.rows.home(row, column);
        let is_other = then.at != now.at || self.is_for_newcomer(then);
        (now.is_of(self.drive) && is_other).then_some(then)
    }

    fn is_for_newcomer(&self, home: Home) -> bool {
        self.newcomer.is_some() && home.at.drive == self.drive
    }
}

/// A drive to write to, and where.
#[derive(Clone)]
pub(crate) struct Target {
    drive: Rc<Drive>,
    address: u64,
    /// Whose failure it is when it fails.
    role: Role,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A drive of the pool, by its number.
    Member(usize),
    /// A drive that is none yet.
    Newcomer,
}

impl Striping {
    /// Where a column of a row is.
    pub(crate) fn home(&self, row: u32, column: usize) -> Home {
        self.rows.borrow().home(row, column)
    }

    /// The column of a row that a drive answers for, if there is one.
    pub(crate) fn column_of(&self, row: u32, drive: usize) -> Option<usize> {
        (0..self.width()).find(|column| self.home(row, *column).is_of(drive))
    }

    /// The drives that live in spare space.
    pub(crate) fn stand_ins(&self) -> Vec<StandIn> {
        self.rows.borrow().stand_ins().to_vec()
    }

    /// Whether a drive lives in spare space.
    pub(crate) fn is_in_spare_space(&self, drive: usize) -> bool {
        self.rows.borrow().stand_ins().iter().any(|one| usize::from(one.drive.0) == drive)
    }
}

impl Pool {
    /// Where a column is, and where a stripe's block of it is on the drive there.
    pub(crate) fn column_address(
        &self,
        striping: &Striping,
        row: u32,
        column: usize,
        stripe: u64,
    ) -> (Home, u64) {
        let home = striping.home(row, column);
        (home, self.cell_address(home.at.cell, striping.cell_bytes) + stripe * BLOCK_BYTES)
    }

    /// The drive from which a column may be read.
    pub(crate) fn readable(&self, home: Home) -> Option<Rc<Drive>> {
        let drives = self.inner.drives.borrow();
        let is_served = home.drives().all(|drive| drives[drive].state == DriveState::InService);
        drives[home.at.drive].drive.clone().filter(|_| is_served || planted(Fault::OutDriveRead))
    }

    /// The drive to which a column must be written.
    pub(crate) fn writable(&self, home: Home) -> Option<Rc<Drive>> {
        let drives = self.inner.drives.borrow();
        let is_there = home.drives().all(|drive| drives[drive].state != DriveState::Out);
        drives[home.at.drive].drive.clone().filter(|_| is_there)
    }

    /// Everywhere a column must be written: its home first.
    pub(crate) fn targets(&self, striping: &Striping, row: u32, column: usize, stripe: u64) -> Vec<Target> {
        let (home, address) = self.column_address(striping, row, column, stripe);
        let role = Role::Member(home.at.drive);
        let mut targets: Vec<Target> =
            self.writable(home).map(|drive| Target { drive, address, role }).into_iter().collect();
        targets.extend(self.target_of_moving(striping, row, column, stripe));
        targets
    }

    /// Where else a column must be written, because it moves there.
    pub(crate) fn target_of_moving(
        &self,
        striping: &Striping,
        row: u32,
        column: usize,
        stripe: u64,
    ) -> Option<Target> {
        let moving = striping.moving.borrow();
        let moving = moving.as_ref()?;
        let home = moving.home(striping.home(row, column), row, column)?;
        let address = self.cell_address(home.at.cell, striping.cell_bytes) + stripe * BLOCK_BYTES;
        if moving.is_for_newcomer(home) {
            return moving.newcomer.clone().map(|drive| Target { drive, address, role: Role::Newcomer });
        }
        let drive = self.inner.drives.borrow()[home.at.drive].drive.clone()?;
        Some(Target { drive, address, role: Role::Member(home.at.drive) })
    }

    /// Writes to all of these at once. A drive that fails is given up: the error is that the pool cannot do
    /// without it. Whoever tells of the write calls [`Pool::record_drives`] first.
    pub(crate) async fn write_to(
        &self,
        targets: impl IntoIterator<Item = (Target, Buf)>,
        durability: Durability,
    ) -> Result<()> {
        if self.is_read_only() {
            return Ok(());
        }
        let begin = |(target, buffer): (Target, Buf)| {
            let Target { drive, address, .. } = target.clone();
            let write = async move { drive.write(address, buffer, durability).await };
            (target, self.runtime().spawn(Priority::Journal, write))
        };
        let writes: Vec<_> = targets.into_iter().map(begin).collect();
        let mut result = Ok(());
        for (target, write) in writes {
            if let Err(error) = write.await {
                result = result.and(self.target_failed(&target, &error.context));
            }
        }
        result
    }

    /// A write to a target failed.
    pub(crate) fn target_failed(&self, target: &Target, reason: &str) -> Result<()> {
        match target.role {
            Role::Member(index) => self.failed(index, &target.drive, reason),
            Role::Newcomer => self.newcomer_failed(&target.drive, reason),
        }
    }
}

impl Target {
    pub(crate) fn drive(&self) -> &Rc<Drive> {
        &self.drive
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}
