//! Changes of volumes that hosts began and that are not over.
//!
//! One may wait long before it is at work: for the rates of its volume, for others that go first, for room.
//! Whoever puts another content into a volume, or takes the volume from its hosts, waits for these here
//! first, so that none of them comes behind.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use ashlar_runtime::sync::Notify;
use ashlar_units::VolumeId;

/// The changes under way in one pool.
#[derive(Default)]
pub(crate) struct UnderWay {
    last: Cell<u64>,
    changes: RefCell<BTreeSet<(VolumeId, u64)>>,
    /// Up to which change those of a volume wait for its rates no more.
    hurried: RefCell<BTreeMap<VolumeId, u64>>,
    ended: Notify,
}

/// A change, until this is dropped.
pub(crate) struct Change<'a> {
    of: &'a UnderWay,
    volume: VolumeId,
    number: u64,
}

impl UnderWay {
    pub(crate) fn begin(&self, volume: VolumeId) -> Change<'_> {
        let number = self.last.get() + 1;
        self.last.set(number);
        self.changes.borrow_mut().insert((volume, number));
        Change { of: self, volume, number }
    }

    /// Waits until the changes of a volume are over that began before; its rates hold these up no more.
    pub(crate) async fn drain(&self, volume: VolumeId) {
        let last = self.last.get();
        self.hurried.borrow_mut().insert(volume, last);
        loop {
            let ended = self.ended.notified();
            if self.changes.borrow().range((volume, 0)..=(volume, last)).next().is_none() {
                break;
            }
            ended.await;
        }
        // Another one may wait for later ones.
        let mut hurried = self.hurried.borrow_mut();
        if hurried.get(&volume) == Some(&last) {
            hurried.remove(&volume);
        }
    }
}

impl Change<'_> {
    /// Somebody waits for it.
    pub(crate) fn is_hurried(&self) -> bool {
        self.of.hurried.borrow().get(&self.volume).is_some_and(|last| self.number <= *last)
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.of.changes.borrow_mut().remove(&(self.volume, self.number));
        if self.is_hurried() {
            self.of.ended.notify_waiters();
        }
    }
}
