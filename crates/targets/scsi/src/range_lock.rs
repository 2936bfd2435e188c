//! Turns for ranges of blocks: writers share a range, COMPARE AND WRITE and ORWRITE have it for themselves.
//! So it is with readers and WRITE ATOMIC.
//!
//! Every claim has a ticket. It is granted when no claim with an earlier ticket that is still there overlaps
//! it and one of the two is exclusive. A task has one claim of a lock at a time, so tickets are an order in
//! which everybody gets on: there is no deadlock, and nobody is overtaken for ever.
//!
//! A claim of everything is a barrier: when it is granted, every write that began before has ended.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ashlar_runtime::sync::Notify;

/// A range in bytes that somebody writes or wants to.
#[derive(Clone, Copy)]
struct Claim {
    ticket: u64,
    start: u64,
    end: u64,
    is_exclusive: bool,
}

impl Claim {
    fn collides(&self, other: &Claim) -> bool {
        (self.is_exclusive || other.is_exclusive) && self.start < other.end && other.start < self.end
    }
}

/// The claims on one unit.
#[derive(Default)]
pub(crate) struct RangeLock {
    /// In the order of tickets. As many as commands in flight, which the transport bounds.
    claims: RefCell<Vec<Claim>>,
    next_ticket: Cell<u64>,
    /// Rings when a claim is gone.
    released: Notify,
}

/// A granted claim; given back when dropped.
pub(crate) struct Turn {
    lock: Rc<RangeLock>,
    ticket: u64,
}

impl RangeLock {
    /// Waits for a turn with others that write.
    pub async fn shared(self: &Rc<RangeLock>, start: u64, length: u64) -> Turn {
        self.claim(start, start.saturating_add(length), false).await
    }

    /// Waits for a turn alone.
    pub async fn exclusive(self: &Rc<RangeLock>, start: u64, length: u64) -> Turn {
        self.claim(start, start.saturating_add(length), true).await
    }

    /// Waits until everything that was claimed before has ended.
    pub async fn barrier(self: &Rc<RangeLock>) -> Turn {
        self.claim(0, u64::MAX, true).await
    }

    async fn claim(self: &Rc<RangeLock>, start: u64, end: u64, is_exclusive: bool) -> Turn {
        let ticket = self.next_ticket.get();
        self.next_ticket.set(ticket + 1);
        let claim = Claim { ticket, start, end, is_exclusive };
        self.claims.borrow_mut().push(claim);
        // Made before the first wait, so that the claim goes even if the task does.
        let turn = Turn { lock: self.clone(), ticket };
        loop {
            let released = self.released.notified();
            let is_free =
                !self.claims.borrow().iter().any(|other| other.ticket < ticket && other.collides(&claim));
            if is_free {
                return turn;
            }
            released.await;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.lock.claims.borrow_mut().retain(|claim| claim.ticket != self.ticket);
        self.lock.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    type Waiting = Pin<Box<dyn Future<Output = Turn>>>;

    fn waiting(future: impl Future<Output = Turn> + 'static) -> Waiting {
        Box::pin(future)
    }

    fn granted(future: &mut Waiting) -> Option<Turn> {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    fn shared(lock: &Rc<RangeLock>, start: u64, length: u64) -> Waiting {
        let lock = lock.clone();
        waiting(async move { lock.shared(start, length).await })
    }

    fn exclusive(lock: &Rc<RangeLock>, start: u64, length: u64) -> Waiting {
        let lock = lock.clone();
        waiting(async move { lock.exclusive(start, length).await })
    }

    #[test]
    fn writers_share_a_range_and_an_exclusive_turn_waits_for_them() {
        let lock = Rc::new(RangeLock::default());
        let first = granted(&mut shared(&lock, 0, 100)).unwrap();
        let second = granted(&mut shared(&lock, 50, 100)).unwrap();
        let mut alone = exclusive(&lock, 90, 20);
        assert!(granted(&mut alone).is_none());
        drop(first);
        assert!(granted(&mut alone).is_none());
        drop(second);
        assert!(granted(&mut alone).is_some());
    }

    #[test]
    fn ranges_that_only_touch_do_not_wait() {
        let lock = Rc::new(RangeLock::default());
        let _first = granted(&mut exclusive(&lock, 0, 100)).unwrap();
        assert!(granted(&mut exclusive(&lock, 100, 1)).is_some());
        assert!(granted(&mut shared(&lock, 99, 1)).is_none());
    }

    #[test]
    fn a_writer_that_comes_later_does_not_overtake_an_exclusive_turn() {
        let lock = Rc::new(RangeLock::default());
        let first = granted(&mut shared(&lock, 0, 10)).unwrap();
        let mut alone = exclusive(&lock, 0, 10);
        assert!(granted(&mut alone).is_none());
        let mut later = shared(&lock, 0, 10);
        assert!(granted(&mut later).is_none(), "it would keep the exclusive turn waiting for ever");
        drop(first);
        let turn = granted(&mut alone).unwrap();
        assert!(granted(&mut later).is_none());
        drop(turn);
        assert!(granted(&mut later).is_some());
    }

    #[test]
    fn a_claim_given_up_while_it_waits_is_in_nobodys_way() {
        let lock = Rc::new(RangeLock::default());
        let first = granted(&mut shared(&lock, 0, 10)).unwrap();
        let mut alone = exclusive(&lock, 0, 10);
        assert!(granted(&mut alone).is_none());
        drop(alone);
        assert!(granted(&mut shared(&lock, 0, 10)).is_some());
        drop(first);
        assert!(lock.claims.borrow().is_empty());
    }
}
