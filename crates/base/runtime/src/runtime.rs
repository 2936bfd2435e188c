//! The handle every task holds: clock, random, tasks, timers, buffers and the way to I/O.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::buffer::BufferPool;
use crate::driver::Driver;
use crate::executor::Executor;
use crate::inbox::Inbox;
use crate::operation::Operations;
use crate::random::Random;
use crate::sync::{OneshotReceiver, oneshot};
use crate::timer::{TimerKey, Timers};
use crate::{Buf, Instant, Priority, clock};

/// A future that stays on its shard.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Simulated wall clock at virtual time zero: 2026-01-01.
const SIM_UNIX_NANOS: i128 = 1_767_225_600_000_000_000;

/// Everything one shard owns.
pub(crate) struct Shard {
    pub(crate) executor: Executor,
    pub(crate) timers: RefCell<Timers>,
    pub(crate) buffers: Rc<BufferPool>,
    pub(crate) random: RefCell<Random>,
    pub(crate) operations: Operations,
    pub(crate) driver: Driver,
}

/// A handle of the shard we run on. Clones are cheap; it never leaves its thread.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) shard: Rc<Shard>,
}

impl Runtime {
    pub(crate) fn new(driver: Driver, inbox: Arc<Inbox>, buffers: Rc<BufferPool>, random: Random) -> Runtime {
        let shard = Shard {
            executor: Executor::new(inbox),
            timers: RefCell::new(Timers::default()),
            buffers,
            random: RefCell::new(random),
            operations: Operations::new(),
            driver,
        };
        Runtime { shard: Rc::new(shard) }
    }

    /// Now, on the monotonic clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        match &self.shard.driver {
            Driver::Sim(sim) => sim.now(),
            Driver::Uring(_) | Driver::Threads(_) => Instant(clock::monotonic_nanos()),
        }
    }

    /// Wall-clock time as nanoseconds since 1970: 0 before that, and the year 2554 from then on.
    /// It may jump both ways at any time, so it is for people, never for waiting.
    #[must_use]
    pub fn unix_nanos(&self) -> u64 {
        match &self.shard.driver {
            Driver::Sim(sim) => {
                let nanos = SIM_UNIX_NANOS + i128::from(sim.now().as_nanos());
                clock::clamped_nanos(nanos.saturating_add(sim.unix_offset_nanos()))
            }
            Driver::Uring(_) | Driver::Threads(_) => clock::unix_nanos(),
        }
    }

    /// A random number; repeats with the seed in the simulator. Not for secrets.
    #[must_use]
    pub fn random(&self) -> u64 {
        self.shard.random.borrow_mut().next()
    }

    /// Starts a task. Dropping the [`Task`] lets it run on by itself.
    pub fn spawn<T: 'static>(
        &self,
        priority: Priority,
        future: impl Future<Output = T> + 'static,
    ) -> Task<T> {
        let (sender, receiver) = oneshot();
        let task = async move {
            // Nobody waits for the result of a detached task.
            let _ = sender.send(future.await);
        };
        self.shard.executor.spawn(priority, Box::pin(task));
        Task { receiver }
    }

    /// Waits for `duration` to pass.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(self.now() + duration)
    }

    /// Waits until `deadline`.
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep { runtime: self.clone(), deadline, armed: None }
    }

    /// Lets other ready tasks run first.
    pub fn yield_now(&self) -> YieldNow {
        YieldNow { has_yielded: false }
    }

    /// A buffer of `length` bytes with arbitrary content, aligned for drive I/O.
    #[must_use]
    pub fn buffer(&self, length: usize) -> Buf {
        self.shard.buffers.take(length)
    }

    /// A buffer with a copy of `bytes`.
    #[must_use]
    pub fn buffer_from(&self, bytes: &[u8]) -> Buf {
        let mut buf = self.buffer(bytes.len());
        buf.copy_from_slice(bytes);
        buf
    }

    /// Which driver does the I/O: `uring`, `threads` or `sim`.
    #[must_use]
    pub fn driver_name(&self) -> &'static str {
        self.shard.driver.name()
    }
}

/// A started task: a future of its result. It never completes if the shard ends first.
pub struct Task<T> {
    receiver: OneshotReceiver<T>,
}

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match Pin::new(&mut self.receiver).poll(context) {
            Poll::Ready(Ok(value)) => Poll::Ready(value),
            // The task went down with its shard, and so will whoever waits here.
            Poll::Ready(Err(_)) | Poll::Pending => Poll::Pending,
        }
    }
}

/// Future of [`Runtime::sleep`].
pub struct Sleep {
    runtime: Runtime,
    deadline: Instant,
    armed: Option<TimerKey>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let shard = self.runtime.shard.clone();
        let mut timers = shard.timers.borrow_mut();
        if self.runtime.now() >= self.deadline {
            if let Some(key) = self.armed.take() {
                timers.disarm(key);
            }
            return Poll::Ready(());
        }
        match self.armed {
            Some(key) if timers.update(key, context.waker()) => {}
            Some(_) | None => self.armed = Some(timers.arm(self.deadline, context.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.armed {
            self.runtime.shard.timers.borrow_mut().disarm(key);
        }
    }
}

/// Future of [`Runtime::yield_now`].
pub struct YieldNow {
    has_yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.has_yielded {
            return Poll::Ready(());
        }
        self.has_yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
