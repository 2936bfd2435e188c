//! A drive leaves while it still serves: what it holds is copied to spare space, or to the drive that takes
//! its place, and it goes when that is complete. One that is out of service leaves at once, and what it held
//! is restored to spare space.
//!
//! A moving is known to nobody but this opening: until its last step everything is where it was. The last
//! step is one superblock, which says where everything is now and gives the place another identity, so that
//! the drive that left is a stranger from then on.

use std::rc::Rc;

use ashlar_drive::Drive;
use ashlar_format::layout::{Layout, StandIn};
use ashlar_format::superblock::DriveState;
use ashlar_units::DriveIndex;

use crate::homes::Moving;
use crate::rebuild::Rebuild;
use crate::stripes::Striping;
use crate::{Error, ErrorKind, Pool, Result};

impl Pool {
    /// Lets a drive go: what it holds goes to spare space. What is to be done is told by the result; a drive
    /// that serves does so until that is complete.
    pub async fn remove_drive(&self, index: usize) -> Result<Rebuild> {
        if self.drive_moving() == Some(index) {
            let what = format!("drive {index} is being replaced");
            return Err(Error::new(ErrorKind::Invalid, what).and_do("wait for the end of that"));
        }
        let state = self.inner.drives.borrow().get(index).map(|known| known.state);
        match state {
            None | Some(DriveState::Gone) => {
                Err(Error::new(ErrorKind::NotFound, format!("the pool has no drive {index}")))
            }
            Some(DriveState::Out) => self.restore_to_spare_space(index).await,
            Some(DriveState::Rebuilding) => {
                let what = format!("drive {index} is being rebuilt");
                let action = "wait for the end of that, or take it out of service first";
                Err(Error::new(ErrorKind::Invalid, what).and_do(action))
            }
            Some(DriveState::InService | DriveState::Leaving) => {
                let stand_in = self.free_spare(index)?;
                let mut stand_ins = self.striping()?.stand_ins();
                stand_ins.push(stand_in);
                self.begin_moving(index, stand_ins, None)
            }
        }
    }

    /// Puts a new drive in the place of one that serves, or that lives in spare space.
    pub(crate) fn move_to_drive(&self, index: usize, newcomer: Rc<Drive>) -> Result<Rebuild> {
        let mut stand_ins = self.striping()?.stand_ins();
        stand_ins.retain(|one| usize::from(one.drive.0) != index);
        self.begin_moving(index, stand_ins, Some(newcomer))
    }

    fn free_spare(&self, index: usize) -> Result<StandIn> {
        let drive = DriveIndex(index as u16);
        let striping = self.striping()?;
        if striping.is_in_spare_space(index) {
            let what = format!("drive {index} is no more: spare space holds what was on it");
            let name = self.superblock().name;
            let action =
                format!("`ashlar pool replace-drive {name} {index} --with PATH` puts a drive there again");
            return Err(Error::new(ErrorKind::Invalid, what).and_do(action));
        }
        let superblock = self.superblock();
        // What is true now may not be durable yet.
        let now =
            superblock.layout.clone().map(|layout| Layout { stand_ins: striping.stand_ins(), ..layout });
        let free = now.and_then(|layout| layout.free_spare_for(drive));
        free.map(|spare| StandIn { drive, spare }).ok_or_else(|| {
            let what = format!("pool {} has no spare space for what drive {index} holds", superblock.name);
            let action = format!(
                "`ashlar pool replace-drive {} {index} --with PATH` puts another drive in its place",
                superblock.name
            );
            Error::new(ErrorKind::Invalid, what).and_do(action)
        })
    }

    /// What a drive held that is out of service is restored to spare space, which is written from here on.
    async fn restore_to_spare_space(&self, index: usize) -> Result<Rebuild> {
        let stand_in = self.free_spare(index)?;
        let id = self.random_id();
        let rebuild = {
            let striping = self.striping()?;
            let mut drives = self.inner.drives.borrow_mut();
            // No await from here to the line: writes before it go without the spare, writes after it do not.
            let mut stand_ins = striping.stand_ins();
            stand_ins.push(stand_in);
            striping.set_stand_ins(stand_ins);
            // What spare space is on them is not written now.
            let others = drives.iter_mut().filter(|known| known.state == DriveState::Out);
            others.for_each(|known| known.stale_from = 0);
            let known = &mut drives[index];
            known.id = id;
            known.path.clear();
            known.drive = None;
            known.reason = None;
            known.state = DriveState::Rebuilding;
            drop(drives);
            self.draw_rebuild(index, 0)
        };
        self.record_drives().await?;
        Ok(rebuild)
    }

    /// From here on what is written to a drive is written to its next home, too.
    fn begin_moving(
        &self,
        index: usize,
        stand_ins: Vec<StandIn>,
        newcomer: Option<Rc<Drive>>,
    ) -> Result<Rebuild> {
        let striping = self.striping()?;
        if let Some(moving) = &*striping.moving.borrow() {
            let what = format!("drive {} is being moved", moving.drive);
            return Err(Error::new(ErrorKind::Invalid, what).and_do("wait for the end of that"));
        }
        let away = self.inner.drives.borrow().iter().position(|known| known.state != DriveState::InService);
        if let Some(away) = away {
            let what = format!("drive {away} is not in service: nothing can be moved");
            let action = "bring it back, replace it or remove it, and wait until it is rebuilt";
            return Err(Error::new(ErrorKind::Invalid, what).and_do(action));
        }
        let rows = striping.rows.borrow().with_stand_ins(stand_ins);
        let mut rebuild = self.draw_rebuild(index, 0);
        rebuild.is_move = true;
        striping.moving.replace(Some(Moving { drive: index, rows, newcomer, join: rebuild.join }));
        striping.moving_error.take();
        Ok(rebuild)
    }

    /// A moving ends where it is: nothing depends on it yet.
    pub(crate) fn give_up_moving(&self, reason: &str) {
        let Some(striping) = &self.inner.striping else { return };
        if striping.moving.take().is_some() {
            striping.moving_error.replace(Some(reason.to_string()));
        }
    }

    /// A drive that is being moved stays where it is.
    pub fn stop_moving(&self, drive: usize) {
        if self.drive_moving() == Some(drive) {
            self.give_up_moving("it was taken back");
        }
    }

    /// Whether a drive's content is on its way to spare space.
    #[must_use]
    pub fn is_leaving_for_spare_space(&self, drive: usize) -> bool {
        let Some(striping) = &self.inner.striping else { return false };
        let moving = striping.moving.borrow();
        moving.as_ref().is_some_and(|moving| moving.drive == drive && moving.newcomer.is_none())
    }

    /// The drive whose content is on its way elsewhere.
    #[must_use]
    pub fn drive_moving(&self) -> Option<usize> {
        let moving = self.inner.striping.as_ref()?.moving.borrow();
        moving.as_ref().map(|moving| moving.drive)
    }

    /// Refuses to go on with a moving that was given up.
    pub(crate) fn check_moving(&self, striping: &Striping, rebuild: &Rebuild) -> Result<()> {
        if striping.moving.borrow().as_ref().is_some_and(|moving| moving.join == rebuild.join) {
            return Ok(());
        }
        let reason = striping.moving_error.borrow().clone().unwrap_or_default();
        let what = format!("drive {} was not moved: {reason}", rebuild.drive());
        Err(Error::new(ErrorKind::Medium, what).and_do("try again"))
    }

    /// Everything is in both places: the new one counts from here on.
    pub(crate) async fn finish_moving(&self, striping: &Striping, rebuild: &Rebuild) -> Result<()> {
        self.sync_moving(striping, rebuild).await?;
        let id = self.random_id();
        let left = {
            // No await until both are changed.
            let moving = striping.moving.take().expect("checked after the last await");
            striping.rows.replace(moving.rows);
            let mut drives = self.inner.drives.borrow_mut();
            let known = &mut drives[rebuild.drive()];
            known.id = id;
            known.path = moving.newcomer.as_ref().map(|drive| drive.path().to_string()).unwrap_or_default();
            known.size_bytes = moving.newcomer.as_ref().map_or(known.size_bytes, |drive| drive.size_bytes());
            std::mem::replace(&mut known.drive, moving.newcomer)
        };
        self.record_drives().await?;
        if let Some(left) = left {
            // It is a stranger by now: if this fails, whoever uses it next is told what it was.
            let _ignored = left.wipe_ring().await;
        }
        Ok(())
    }

    async fn sync_moving(&self, striping: &Striping, rebuild: &Rebuild) -> Result<()> {
        self.sync().await?;
        self.check_moving(striping, rebuild)
    }

    /// The drive that another is being moved to. Whatever is made durable is made so there, too: what was
    /// written before the last step may only be in its cache then.
    pub(crate) fn newcomer(&self) -> Option<Rc<Drive>> {
        self.inner.striping.as_ref()?.moving.borrow().as_ref()?.newcomer.clone()
    }

    /// A request to a drive failed that another was being moved to when it was made.
    pub(crate) fn newcomer_failed(&self, newcomer: &Rc<Drive>, reason: &str) -> Result<()> {
        let is_it = |drive: &Rc<Drive>| Rc::ptr_eq(drive, newcomer);
        let place =
            self.inner.drives.borrow().iter().position(|known| known.drive.as_ref().is_some_and(is_it));
        if let Some(index) = place {
            // The moving has ended: it is the one that counts.
            return self.failed(index, newcomer, reason);
        }
        self.give_up_moving(reason);
        Ok(())
    }

    pub(crate) fn random_id(&self) -> u128 {
        u128::from(self.runtime().random()) << 64 | u128::from(self.runtime().random())
    }
}

impl Striping {
    fn set_stand_ins(&self, stand_ins: Vec<StandIn>) {
        let next = self.rows.borrow().with_stand_ins(stand_ins);
        self.rows.replace(next);
    }
}
