//! Exclusive block ranges for volumes with 512-byte logical blocks: a write of part of a block reads
//! the rest first, and nobody may change it in between.

use std::cell::RefCell;
use std::rc::Rc;

use ashlar_runtime::sync::Notify;

#[derive(Clone, Default)]
pub(crate) struct RangeLock {
    inner: Rc<Inner>,
}

#[derive(Default)]
struct Inner {
    held: RefCell<Vec<(u64, u64)>>,
    released: Notify,
}

/// Blocks held until dropped.
pub(crate) struct HeldRange {
    lock: RangeLock,
    range: (u64, u64),
}

impl RangeLock {
    /// Waits until nobody holds any block from `first` up to and without `end`.
    pub(crate) async fn hold(&self, first: u64, end: u64) -> HeldRange {
        loop {
            let waiting = self.inner.released.notified();
            let overlaps = self.inner.held.borrow().iter().any(|held| held.0 < end && first < held.1);
            if !overlaps {
                self.inner.held.borrow_mut().push((first, end));
                return HeldRange { lock: self.clone(), range: (first, end) };
            }
            waiting.await;
        }
    }
}

impl Drop for HeldRange {
    fn drop(&mut self) {
        let mut held = self.lock.inner.held.borrow_mut();
        if let Some(at) = held.iter().position(|range| *range == self.range) {
            held.swap_remove(at);
        }
        drop(held);
        self.lock.inner.released.notify_waiters();
    }
}
