//! Exclusive block ranges for volumes with 512-byte logical blocks: a write of part of a block reads
//! the rest first, and nobody may change it in between.
//!
//! First come, first served: who waits for a whole volume (a restore) gets it under any load.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ashlar_runtime::sync::Notify;

#[derive(Clone, Default)]
pub(crate) struct RangeLock {
    inner: Rc<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Held or waited for, in the order they came.
    wanted: RefCell<Vec<Wanted>>,
    tickets: Cell<u64>,
    released: Notify,
}

struct Wanted {
    ticket: u64,
    first: u64,
    end: u64,
}

/// Blocks held until dropped.
pub(crate) struct HeldRange {
    lock: RangeLock,
    ticket: u64,
}

impl RangeLock {
    /// Waits until nobody who came before holds or wants any block from `first` up to and without
    /// `end`.
    pub(crate) async fn hold(&self, first: u64, end: u64) -> HeldRange {
        let ticket = self.inner.tickets.get();
        self.inner.tickets.set(ticket + 1);
        self.inner.wanted.borrow_mut().push(Wanted { ticket, first, end });
        let held = HeldRange { lock: self.clone(), ticket };
        loop {
            let waiting = self.inner.released.notified();
            let must_wait = {
                let wanted = self.inner.wanted.borrow();
                let mut before = wanted.iter().take_while(|other| other.ticket < ticket);
                before.any(|other| other.first < end && first < other.end)
            };
            if !must_wait {
                return held;
            }
            waiting.await;
        }
    }

    /// The same for all blocks.
    pub(crate) async fn hold_all(&self) -> HeldRange {
        self.hold(0, u64::MAX).await
    }
}

impl Drop for HeldRange {
    fn drop(&mut self) {
        let mut wanted = self.lock.inner.wanted.borrow_mut();
        wanted.retain(|other| other.ticket != self.ticket);
        drop(wanted);
        self.lock.inner.released.notify_waiters();
    }
}
