//! Reaching a shard from other threads.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::inbox::{Inbox, WORKS_MAX};
use crate::{LocalFuture, Priority, Runtime};

/// Why work sent to a shard has no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotDone {
    /// The shard ended before the work was done.
    ShardGone,
    /// The shard has [`WORKS_MAX`] works under way: this one was not begun. Send it again later.
    ShardFull,
}

impl fmt::Display for NotDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotDone::ShardGone => f.write_str("the shard has ended"),
            NotDone::ShardFull => write!(f, "the shard has {WORKS_MAX} works of other threads under way"),
        }
    }
}

impl std::error::Error for NotDone {}

enum State<T> {
    Waiting(Option<Waker>),
    Done(T),
    /// There is no result, or it was taken.
    NotDone(NotDone),
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the result; `Err` while there is none.
    fn take(state: &mut State<T>) -> Option<Result<T, NotDone>> {
        if let State::Waiting(_) = state {
            return None;
        }
        match std::mem::replace(state, State::NotDone(NotDone::ShardGone)) {
            State::Done(value) => Some(Ok(value)),
            State::NotDone(why) => Some(Err(why)),
            State::Waiting(_) => Some(Err(NotDone::ShardGone)),
        }
    }
}

/// The giving end of a result that crosses threads; dropped without a value, it says so.
pub(crate) struct Promise<T> {
    shared: Arc<Shared<T>>,
    is_kept: bool,
}

/// A result from another thread: a future for any executor, or [`RemoteResult::wait`].
pub struct RemoteResult<T> {
    shared: Arc<Shared<T>>,
}

pub(crate) fn promise<T>() -> (Promise<T>, RemoteResult<T>) {
    let shared = Arc::new(Shared { state: Mutex::new(State::Waiting(None)), changed: Condvar::new() });
    (Promise { shared: shared.clone(), is_kept: false }, RemoteResult { shared })
}

impl<T> Promise<T> {
    pub(crate) fn keep(mut self, value: T) {
        self.is_kept = true;
        self.settle(State::Done(value));
    }

    fn refuse(mut self, why: NotDone) {
        self.is_kept = true;
        self.settle(State::NotDone(why));
    }

    fn settle(&self, state: State<T>) {
        let previous = std::mem::replace(&mut *self.shared.lock(), state);
        self.shared.changed.notify_all();
        if let State::Waiting(Some(waker)) = previous {
            waker.wake();
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.settle(State::NotDone(NotDone::ShardGone));
        }
    }
}

impl<T> RemoteResult<T> {
    /// Blocks this thread until the result is there. Never call it on a shard.
    pub fn wait(self) -> Result<T, NotDone> {
        let mut state = self.shared.lock();
        loop {
            if let Some(result) = Shared::take(&mut state) {
                return result;
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Future for RemoteResult<T> {
    type Output = Result<T, NotDone>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.shared.lock();
        if let Some(result) = Shared::take(&mut state) {
            return Poll::Ready(result);
        }
        *state = State::Waiting(Some(context.waker().clone()));
        Poll::Pending
    }
}

/// Sends work to a shard; usable from any thread.
#[derive(Clone)]
pub struct Remote {
    inbox: Arc<Inbox>,
}

impl Remote {
    pub(crate) fn new(inbox: Arc<Inbox>) -> Remote {
        Remote { inbox }
    }

    /// Runs `f` on the shard as a task of its own and brings the result back. The work goes on when
    /// the [`RemoteResult`] is dropped. Refused when the shard has too much of this under way.
    pub fn run<T: Send + 'static>(
        &self,
        f: impl FnOnce(Runtime) -> LocalFuture<'static, T> + Send + 'static,
    ) -> RemoteResult<T> {
        let (promise, result) = promise();
        let Some(work) = Inbox::begin_work(&self.inbox) else {
            promise.refuse(NotDone::ShardFull);
            return result;
        };
        let message = Box::new(move |runtime: Runtime| {
            let future = f(runtime.clone());
            let _detached = runtime.spawn(Priority::Host, async move {
                let value = future.await;
                // Before the answer: who waits for it may send the next.
                drop(work);
                promise.keep(value);
            });
        });
        // Refused by an ended shard, the message drops here and with it the promise.
        drop(self.inbox.send(message));
        result
    }
}
