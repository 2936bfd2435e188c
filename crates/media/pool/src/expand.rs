//! A pool grows: drives join, and what is on the others stays where it is.
//!
//! A drive that joins brings free places behind those there are. Nothing is rewritten: the cleaner and new
//! writes fill them. It counts from the superblock on that names it, which it holds first.

use std::rc::Rc;

use ashlar_drive::Drive;
use ashlar_format::layout::Layout;
use ashlar_format::rows::{Rows, layout_with};
use ashlar_format::superblock::{CELLS_START_BYTES, DRIVES_MAX, DriveEntry, DriveState};
use ashlar_units::DriveIndex;

use crate::drives::KnownDrive;
use crate::newcomer::{check_size, check_unclaimed};
use crate::stripes::Striping;
use crate::{DriveSpec, Error, ErrorKind, Pool, Result};

/// A drive about to join.
struct Joining {
    drive: Drive,
    entry: DriveEntry,
}

impl Pool {
    /// Adds drives. With protection they make rows of their own: as many drives as a row is wide, at
    /// least.
    pub async fn add_drives(&self, specs: &[DriveSpec]) -> Result<()> {
        let mut joining = Vec::with_capacity(specs.len());
        for spec in specs {
            joining.push(self.open_joining(spec).await?);
        }
        let cells: Vec<u32> = joining.iter().map(|joining| joining.entry.cells).collect();
        self.grown_layout(&cells)?;
        for Joining { drive, .. } in &joining {
            drive.wipe().await?;
        }
        let _turn = self.inner.superblock_turn.lock().await;
        // Again: wiping may have taken long.
        let layout = self.grown_layout(&cells)?;
        let before = self.inner.drives.borrow().len();
        // No await from here until the superblock that names them is made: another must not tell of them.
        let entries: Vec<DriveEntry> = joining.iter().map(|joining| joining.entry).collect();
        self.inner
            .drives
            .borrow_mut()
            .extend(joining.into_iter().enumerate().map(|(index, joining)| known(joining, before + index)));
        let grown = layout.as_ref().map(Rows::new);
        let next = self.next_superblock(&[], |superblock| {
            superblock.drives.extend(entries);
            superblock.layout = layout;
        });
        self.decide(next).await?;
        self.with_table_mut(|table| match (&self.inner.striping, grown) {
            (Some(striping), Some(grown)) => {
                striping.grow(&grown);
                table.grow_rows(grown.count());
            }
            _ => cells.iter().for_each(|cells| table.add_drive(*cells)),
        });
        Ok(())
    }

    /// The layout with drives of so many cells more; none without protection. Refuses what cannot be added.
    fn grown_layout(&self, cells: &[u32]) -> Result<Option<Layout>> {
        if let Some(moving) = self.drive_moving() {
            return invalid(format!("drive {moving} is being moved: wait for the end of that"));
        }
        let before = self.inner.drives.borrow().len();
        if before + cells.len() > DRIVES_MAX {
            return invalid(format!("a pool has at most {DRIVES_MAX} drives; this one has {before}"));
        }
        let layout = self.inner.state.borrow().superblock.layout.clone();
        layout.map(|layout| layout_with(&layout, before, cells)).transpose().or_else(invalid)
    }

    async fn open_joining(&self, spec: &DriveSpec) -> Result<Joining> {
        let drive = Drive::open(self.runtime(), &spec.path, spec.create_size_bytes).await?;
        let superblock = self.superblock();
        let ring = drive.read_ring().await?;
        check_unclaimed(&spec.path, &ring, Some(&superblock))?;
        let cell_bytes = u64::from(superblock.cell_bytes);
        check_size(&drive, CELLS_START_BYTES + cell_bytes)?;
        let cells = (drive.size_bytes() - CELLS_START_BYTES) / cell_bytes;
        let id = self.random_id();
        let cells = u32::try_from(cells).unwrap_or(u32::MAX);
        let entry = DriveEntry::new(id, cells, DriveState::InService);
        Ok(Joining { drive, entry })
    }
}

impl Striping {
    /// There are more rows. Who lives in spare space, or moves, may have changed since they were made.
    fn grow(&self, grown: &Rows) {
        let stand_ins = self.stand_ins();
        self.rows.replace(grown.with_stand_ins(stand_ins));
        if let Some(moving) = &mut *self.moving.borrow_mut() {
            moving.rows = grown.with_stand_ins(moving.rows.stand_ins().to_vec());
        }
    }
}

fn known(joining: Joining, number: usize) -> KnownDrive {
    let Joining { drive, entry } = joining;
    KnownDrive {
        id: entry.id,
        number: DriveIndex(number as u16),
        confirmed: 0,
        generation: 0,
        path: drive.path().to_string(),
        size_bytes: drive.size_bytes(),
        drive: Some(Rc::new(drive)),
        state: DriveState::InService,
        stale_from: 0,
        reason: None,
        away: None,
    }
}

fn invalid<T>(context: String) -> Result<T> {
    Err(Error::new(ErrorKind::Invalid, context))
}
