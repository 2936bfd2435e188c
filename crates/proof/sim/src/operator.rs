//! The operator of a pool: adds drives, and with parity brings those back that are out of service, replaces
//! them, or has spare space take their place, at any time and however the last attempt ended. Drives that
//! serve are replaced and let go, too; without parity some leave, and are taken back on the way.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use ashlar_runtime::Runtime;

use crate::chance::Chance;
use crate::drives::DriveArray;
use crate::record::Record;
use crate::staff::Attendant;
use crate::system::{PoolLayout, SystemUnderTest, Trouble};

struct Shift {
    runtime: Runtime,
    system: Rc<dyn SystemUnderTest>,
    array: Rc<RefCell<DriveArray>>,
    record: Rc<Record>,
    chance: Chance,
    drive_bytes: u64,
    /// Drives that join at a time.
    joining: usize,
    has_parity: bool,
    is_over: Rc<Cell<bool>>,
}

/// Begins an operator's shift.
pub fn start(
    runtime: &Runtime,
    system: Rc<dyn SystemUnderTest>,
    array: Rc<RefCell<DriveArray>>,
    record: Rc<Record>,
    chance: Chance,
    layout: &PoolLayout,
) -> Attendant {
    Attendant::start(runtime, |is_over| {
        let mut shift = Shift {
            runtime: runtime.clone(),
            system,
            array,
            record,
            chance,
            drive_bytes: layout.drive_bytes,
            joining: layout.width.map_or(1, usize::from) + usize::from(layout.spares),
            has_parity: layout.parity > 0,
            is_over,
        };
        async move { shift.work().await }
    })
}

impl Shift {
    async fn work(&mut self) {
        let pause_micros_max = *self.chance.pick(&[500, 5_000, 50_000]);
        while !self.is_over.get() && !self.record.has_failed() {
            self.runtime.sleep(Duration::from_micros(self.chance.between(10, pause_micros_max))).await;
            if !self.is_over.get() && self.chance.one_in(40) {
                self.add_drives().await;
            }
            self.change_leaving().await;
            let drives = self.system.drive_count();
            if !self.is_over.get() && self.has_parity && drives > 0 && self.chance.one_in(40) {
                let number = self.chance.below(drives as u64) as usize;
                self.replace_or_remove(number).await;
            }
            let out = self.system.drives_out();
            let Some((number, path)) = out.first().cloned() else { continue };
            if self.is_over.get() || !self.chance.one_in(3) {
                continue;
            }
            let is_usable = self.array.borrow().is_usable(&path);
            if is_usable && self.chance.one_in(2) {
                self.record.note(|| format!("operator: drive {number}, {path}, returns"));
                let result = self.system.drive_return(number, path).await;
                self.note_result(number, result);
            } else {
                self.replace_or_remove(number).await;
            }
        }
    }

    /// Without parity: a drive is to leave, or one that leaves is taken back.
    async fn change_leaving(&mut self) {
        let (online, leaving) = self.system.drives_to_leave();
        if self.is_over.get() || online.is_empty() || online.len() + usize::from(leaving.is_some()) < 2 {
            return;
        }
        let (number, result) = match leaving {
            Some(number) if self.chance.one_in(40) => {
                self.record.note(|| format!("operator: drive {number} stays"));
                (number, self.system.drive_stay(number).await)
            }
            None if self.chance.one_in(6) => {
                let number = *self.chance.pick(&online);
                self.record.note(|| format!("operator: drive {number} is to leave"));
                self.array.borrow_mut().expect_fewer();
                (number, self.system.drive_remove(number).await)
            }
            Some(_) | None => return,
        };
        self.note_result(number, result);
    }

    async fn replace_or_remove(&mut self, number: usize) {
        let result = if self.chance.one_in(2) {
            let path = self.array.borrow().new_path(number);
            self.record.note(|| format!("operator: drive {number} is replaced by {path}"));
            self.system.drive_replace(number, path, self.drive_bytes).await
        } else {
            self.record.note(|| format!("operator: drive {number} is let go"));
            self.system.drive_remove(number).await
        };
        self.note_result(number, result);
    }

    fn note_result(&self, number: usize, result: Result<(), Trouble>) {
        self.record
            .note(|| format!("operator: drive {number}: {:?}", result.map_err(|trouble| trouble.text)));
    }

    async fn add_drives(&mut self) {
        let paths = self.array.borrow().joining_paths(self.system.drive_count(), self.joining);
        self.record.note(|| format!("operator: {paths:?} are added"));
        let result = self.system.drives_add(paths, self.drive_bytes).await;
        self.record.note(|| format!("operator: added: {:?}", result.map_err(|trouble| trouble.text)));
    }
}
