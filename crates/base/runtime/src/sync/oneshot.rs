//! One value from one task to another.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

struct State<T> {
    value: Option<T>,
    waker: Option<Waker>,
    is_closed: bool,
}

/// Gives the value.
pub struct OneshotSender<T> {
    state: Rc<RefCell<State<T>>>,
}

/// Future of the value.
pub struct OneshotReceiver<T> {
    state: Rc<RefCell<State<T>>>,
}

/// The sender was dropped without sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the other side has gone")
    }
}

impl std::error::Error for Closed {}

/// A pair that carries one value.
#[must_use]
pub fn oneshot<T>() -> (OneshotSender<T>, OneshotReceiver<T>) {
    let state = Rc::new(RefCell::new(State { value: None, waker: None, is_closed: false }));
    (OneshotSender { state: state.clone() }, OneshotReceiver { state })
}

impl<T> OneshotSender<T> {
    /// Hands the value over, or gives it back when nobody waits for it any more.
    pub fn send(self, value: T) -> Result<(), T> {
        if self.is_closed() {
            return Err(value);
        }
        self.state.borrow_mut().value = Some(value);
        Ok(())
    }

    /// Nobody waits for the value any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        Rc::strong_count(&self.state) == 1
    }
}

impl<T> Drop for OneshotSender<T> {
    fn drop(&mut self) {
        let mut state = self.state.borrow_mut();
        state.is_closed = true;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> OneshotReceiver<T> {
    /// The value, if it is there already.
    pub fn try_recv(&mut self) -> Option<T> {
        self.state.borrow_mut().value.take()
    }
}

impl<T> Future for OneshotReceiver<T> {
    type Output = Result<T, Closed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, Closed>> {
        let mut state = self.state.borrow_mut();
        if let Some(value) = state.value.take() {
            return Poll::Ready(Ok(value));
        }
        if state.is_closed {
            return Poll::Ready(Err(Closed));
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}
