//! Somebody who takes the pool at its word: while it says that it can do without drives he pulls these out,
//! other ones each time, and plugs them in again. Each is returned at once.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use ashlar_runtime::Runtime;

use crate::chance::Chance;
use crate::drives::DriveArray;
use crate::record::{DRIVE_RESTORED, Record};
use crate::staff::Attendant;
use crate::system::SystemUnderTest;

/// From one look at the drives to the next.
const LOOK: Duration = Duration::from_micros(200);

/// Longer than any request to a drive takes here: what failed while a drive was out is known to have failed.
const SETTLED: Duration = Duration::from_millis(50);

struct Shift {
    runtime: Runtime,
    system: Rc<dyn SystemUnderTest>,
    array: Rc<RefCell<DriveArray>>,
    record: Rc<Record>,
    chance: Chance,
    /// Drives fail by themselves: he only returns them.
    has_victims: bool,
    is_over: Rc<Cell<bool>>,
}

/// Begins a shift.
pub fn start(
    runtime: &Runtime,
    system: Rc<dyn SystemUnderTest>,
    array: Rc<RefCell<DriveArray>>,
    record: Rc<Record>,
    chance: Chance,
    has_victims: bool,
) -> Attendant {
    Attendant::start(runtime, |is_over| {
        let mut shift =
            Shift { runtime: runtime.clone(), system, array, record, chance, has_victims, is_over };
        async move { shift.work().await }
    })
}

impl Shift {
    async fn work(&mut self) {
        let pause_micros_max = *self.chance.pick(&[500, 5_000, 20_000]);
        while self.is_at_work() {
            self.return_drives().await;
            self.pause(pause_micros_max).await;
            if !self.has_victims && self.is_at_work() {
                self.pull();
                self.pause(pause_micros_max).await;
            }
        }
        self.array.borrow_mut().plug_in();
    }

    fn is_at_work(&self) -> bool {
        !self.is_over.get() && !self.record.has_failed()
    }

    async fn pause(&mut self, micros_max: u64) {
        self.runtime.sleep(Duration::from_micros(self.chance.between(10, micros_max))).await;
    }

    fn pull(&mut self) {
        let (mut serving, count) = self.system.drives_to_lose();
        for _ in 0..count.min(serving.len()) {
            let path = serving.swap_remove(self.chance.below(serving.len() as u64) as usize);
            self.record.note(|| format!("{path} is pulled out"));
            self.array.borrow_mut().unplug(&path);
        }
    }

    /// Until nothing is out of service. A drive that was pulled out for so short that nobody noticed is none
    /// that is out.
    async fn return_drives(&mut self) {
        self.array.borrow_mut().plug_in();
        self.runtime.sleep(SETTLED).await;
        let mut was_out = false;
        while self.is_at_work() {
            let out = self.system.drives_out();
            was_out |= !out.is_empty();
            for (number, path) in out {
                let result = self.system.drive_return(number, path.clone()).await;
                self.record.note(|| format!("{path} returns: {:?}", result.map_err(|trouble| trouble.text)));
            }
            let (serving, _) = self.system.drives_to_lose();
            if serving.len() == self.system.drive_count() {
                break;
            }
            self.runtime.sleep(LOOK).await;
        }
        if was_out {
            self.record.change_issued(DRIVE_RESTORED);
            self.record.add_probes(&[("pulled drives restored", 1)]);
        }
    }
}
