//! Counted permits, given strictly in order of asking.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::waiters::Waiters;

struct State {
    permits: usize,
    waiters: Waiters<usize>,
    is_closed: bool,
}

/// A handle to a counter of permits; clones share the counter.
#[derive(Clone)]
pub struct Semaphore {
    state: Rc<RefCell<State>>,
}

/// Permits held; they go back when this is dropped.
pub struct Permit {
    semaphore: Semaphore,
    count: usize,
}

/// Future of [`Semaphore::acquire`].
pub struct Acquire {
    semaphore: Semaphore,
    count: usize,
    ticket: Option<u64>,
}

impl Semaphore {
    /// A semaphore with `permits` to give.
    #[must_use]
    pub fn new(permits: usize) -> Semaphore {
        let state = State { permits, waiters: Waiters::new(), is_closed: false };
        Semaphore { state: Rc::new(RefCell::new(state)) }
    }

    /// Waits for `count` permits. A big request at the front holds later small ones back.
    pub fn acquire(&self, count: usize) -> Acquire {
        Acquire { semaphore: self.clone(), count, ticket: None }
    }

    /// Takes `count` permits if they are free and nobody waits.
    #[must_use]
    pub fn try_acquire(&self, count: usize) -> Option<Permit> {
        let mut state = self.state.borrow_mut();
        if !state.waiters.is_empty() || state.permits < count {
            return None;
        }
        state.permits -= count;
        drop(state);
        Some(Permit { semaphore: self.clone(), count })
    }

    /// Permits free now.
    #[must_use]
    pub fn available(&self) -> usize {
        self.state.borrow().permits
    }

    /// Adds permits and serves the waiters they suffice for.
    pub fn add_permits(&self, count: usize) {
        self.state.borrow_mut().permits += count;
        self.serve();
    }

    /// Lets every waiter, present and future, through at once with a permit of nothing.
    pub(super) fn close(&self) {
        self.state.borrow_mut().is_closed = true;
        loop {
            let waker = self.state.borrow_mut().waiters.pop();
            match waker {
                Some(waker) => waker.wake(),
                None => return,
            }
        }
    }

    fn serve(&self) {
        loop {
            let mut state = self.state.borrow_mut();
            let Some(&wanted) = state.waiters.first() else { return };
            if wanted > state.permits {
                return;
            }
            // The permits are taken here, on the waiter's behalf, so nobody can overtake it.
            state.permits -= wanted;
            let waker = state.waiters.pop();
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl Future for Acquire {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit> {
        let semaphore = self.semaphore.clone();
        let mut state = semaphore.state.borrow_mut();
        if let Some(ticket) = self.ticket {
            if state.waiters.renew(ticket, context.waker()) {
                return Poll::Pending;
            }
            self.ticket = None;
            let count = if state.is_closed { 0 } else { self.count };
            drop(state);
            return Poll::Ready(Permit { semaphore, count });
        }
        if state.is_closed {
            drop(state);
            return Poll::Ready(Permit { semaphore, count: 0 });
        }
        if state.waiters.is_empty() && state.permits >= self.count {
            state.permits -= self.count;
            drop(state);
            let count = self.count;
            return Poll::Ready(Permit { semaphore, count });
        }
        let ticket = state.waiters.push(self.count, context.waker().clone());
        self.ticket = Some(ticket);
        Poll::Pending
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = self.semaphore.state.borrow_mut();
        if state.waiters.cancel(ticket) {
            drop(state);
            // A big request at the front may have held back smaller ones.
            self.semaphore.serve();
        } else if !state.is_closed {
            state.permits += self.count;
            drop(state);
            self.semaphore.serve();
        }
    }
}

impl Permit {
    /// Permits held.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Keeps the permits from going back.
    pub fn forget(mut self) {
        self.count = 0;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.count > 0 {
            self.semaphore.add_permits(self.count);
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permit({})", self.count)
    }
}
