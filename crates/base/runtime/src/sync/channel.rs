//! A bounded queue between tasks: many senders, one receiver.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::Semaphore;

struct State<T> {
    queue: VecDeque<T>,
    senders: usize,
    has_receiver: bool,
    waker: Option<Waker>,
}

/// The giving end.
pub struct Sender<T> {
    state: Rc<RefCell<State<T>>>,
    room: Semaphore,
}

/// The taking end.
pub struct Receiver<T> {
    state: Rc<RefCell<State<T>>>,
    room: Semaphore,
}

/// The receiver has gone; here is the value back.
#[derive(PartialEq, Eq, Debug)]
pub struct SendError<T>(pub T);

/// Why nothing was sent; the value comes back.
#[derive(PartialEq, Eq, Debug)]
pub enum TrySendError<T> {
    /// No room now.
    Full(T),
    /// The receiver has gone.
    Closed(T),
}

/// Why nothing was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryRecvError {
    /// Nothing in the queue now.
    Empty,
    /// Nothing in the queue and no sender left.
    Closed,
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the receiver has gone")
    }
}

/// A queue that holds at most `capacity` values (at least one).
#[must_use]
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let state = State { queue: VecDeque::new(), senders: 1, has_receiver: true, waker: None };
    let state = Rc::new(RefCell::new(state));
    let room = Semaphore::new(capacity.max(1));
    (Sender { state: state.clone(), room: room.clone() }, Receiver { state, room })
}

impl<T> Sender<T> {
    /// Waits for room, then queues the value.
    pub async fn send(&self, value: T) -> Result<(), SendError<T>> {
        if !self.state.borrow().has_receiver {
            return Err(SendError(value));
        }
        let permit = self.room.acquire(1).await;
        if !self.state.borrow().has_receiver {
            return Err(SendError(value));
        }
        permit.forget();
        self.push(value);
        Ok(())
    }

    /// Queues the value if there is room now.
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        if !self.state.borrow().has_receiver {
            return Err(TrySendError::Closed(value));
        }
        let Some(permit) = self.room.try_acquire(1) else { return Err(TrySendError::Full(value)) };
        permit.forget();
        self.push(value);
        Ok(())
    }

    /// The receiver has gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        !self.state.borrow().has_receiver
    }

    fn push(&self, value: T) {
        let mut state = self.state.borrow_mut();
        state.queue.push_back(value);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.state.borrow_mut().senders += 1;
        Sender { state: self.state.clone(), room: self.room.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.state.borrow_mut();
        state.senders -= 1;
        let waker = if state.senders == 0 { state.waker.take() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Receiver<T> {
    /// The next value; `None` when the queue is empty and no sender is left.
    pub async fn recv(&mut self) -> Option<T> {
        poll_fn(|context| match self.try_recv() {
            Ok(value) => Poll::Ready(Some(value)),
            Err(TryRecvError::Closed) => Poll::Ready(None),
            Err(TryRecvError::Empty) => {
                self.state.borrow_mut().waker = Some(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    /// The next value, if there is one now.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let mut state = self.state.borrow_mut();
        let Some(value) = state.queue.pop_front() else {
            return Err(if state.senders == 0 { TryRecvError::Closed } else { TryRecvError::Empty });
        };
        drop(state);
        self.room.add_permits(1);
        Ok(value)
    }

    /// Values waiting.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.borrow().queue.len()
    }

    /// No value waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.state.borrow_mut();
        state.has_receiver = false;
        let queue = std::mem::take(&mut state.queue);
        drop(state);
        drop(queue);
        self.room.close();
    }
}
