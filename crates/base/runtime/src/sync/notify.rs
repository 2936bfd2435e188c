//! A bell: tasks wait for it, another rings it.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::waiters::Waiters;

struct State {
    waiters: Waiters<()>,
    has_permit: bool,
    /// Rings for everybody so far; a `notified()` made before the ring sees it even if never polled.
    generation: u64,
}

/// A bell; clones are the same bell.
#[derive(Clone)]
pub struct Notify {
    state: Rc<RefCell<State>>,
}

/// Future of [`Notify::notified`].
pub struct Notified {
    notify: Notify,
    generation: u64,
    ticket: Option<u64>,
}

impl Default for Notify {
    fn default() -> Notify {
        Notify::new()
    }
}

impl Notify {
    /// A silent bell.
    #[must_use]
    pub fn new() -> Notify {
        let state = State { waiters: Waiters::new(), has_permit: false, generation: 0 };
        Notify { state: Rc::new(RefCell::new(state)) }
    }

    /// Wakes the task that waited longest; with nobody waiting, the next `notified()` returns at once.
    pub fn notify_one(&self) {
        let mut state = self.state.borrow_mut();
        match state.waiters.pop() {
            Some(waker) => {
                drop(state);
                waker.wake();
            }
            None => state.has_permit = true,
        }
    }

    /// Wakes every task that waits now, and every `notified()` made but not polled yet.
    pub fn notify_waiters(&self) {
        let mut state = self.state.borrow_mut();
        state.generation += 1;
        let mut waiters = std::mem::replace(&mut state.waiters, Waiters::new());
        // Tickets go on counting, so an old ticket is never mistaken for a new waiter's.
        state.waiters.continue_after(&waiters);
        drop(state);
        while let Some(waker) = waiters.pop() {
            waker.wake();
        }
    }

    /// Waits for a ring.
    pub fn notified(&self) -> Notified {
        Notified { notify: self.clone(), generation: self.state.borrow().generation, ticket: None }
    }
}

impl Future for Notified {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let notify = self.notify.clone();
        let mut state = notify.state.borrow_mut();
        if let Some(ticket) = self.ticket {
            if state.waiters.renew(ticket, context.waker()) {
                return Poll::Pending;
            }
            self.ticket = None;
            return Poll::Ready(());
        }
        if state.generation != self.generation {
            return Poll::Ready(());
        }
        if state.has_permit {
            state.has_permit = false;
            return Poll::Ready(());
        }
        self.ticket = Some(state.waiters.push((), context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Notified {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = self.notify.state.borrow_mut();
        let was_served = !state.waiters.cancel(ticket);
        let was_for_all = state.generation != self.generation;
        drop(state);
        if was_served && !was_for_all {
            // The ring was for one task and this one will not act on it: pass it on.
            self.notify.notify_one();
        }
    }
}
