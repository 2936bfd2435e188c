//! The simulated world's loop: one seeded step after the other.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

use super::{SimDriver, SimStorage};
use crate::buffer::BufferPool;
use crate::driver::Driver;
use crate::inbox::Inbox;
use crate::random::Random;
use crate::{Instant, Priority, Runtime};

/// Longest virtual time one step of a task takes; the length is drawn, so that events fall between
/// any two steps.
const STEP_NANOS: u64 = 1000;

/// One simulated shard. Dropping it is a crash.
pub struct Simulation {
    runtime: Runtime,
    steps: u64,
}

/// Nothing can happen any more: no task is runnable, no timer armed, no request completes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stalled;

/// Why a run with a limit ended before its future.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Nothing can happen any more.
    Stalled,
    /// The limit of steps is reached.
    Steps,
}

/// How a run of steps ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// More can happen.
    Running,
    /// Nothing can happen any more.
    Stalled,
}

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the simulation is stalled: no runnable task, no timer, no request that completes")
    }
}

impl std::error::Error for Stalled {}

impl Simulation {
    /// A world at virtual time zero; everything in it follows from `seed` and the storage.
    pub fn new(seed: u64, storage: Rc<RefCell<dyn SimStorage>>) -> Simulation {
        let driver = Driver::Sim(SimDriver::new(seed, storage));
        let buffers = Rc::new(BufferPool::simulated());
        let runtime = Runtime::new(driver, Arc::new(Inbox::simulated()), buffers, Random::from_seed(seed));
        Simulation { runtime, steps: 0 }
    }

    /// A handle of the simulated shard.
    #[must_use]
    pub fn runtime(&self) -> Runtime {
        self.runtime.clone()
    }

    /// Virtual time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.driver().now()
    }

    /// Starts the virtual clock later, for instance where an earlier life of the machine ended.
    pub fn advance_clock_to(&mut self, instant: Instant) {
        self.driver().advance_to(instant.as_nanos());
    }

    /// The wall clock jumps: from now on it is so far from what it should say. The monotonic clock goes on.
    pub fn set_unix_offset_nanos(&self, nanos: i128) {
        self.driver().set_unix_offset_nanos(nanos);
    }

    /// Steps made.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// A hash of every decision and request so far; equal seeds give equal digests.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.driver().digest()
    }

    /// Runs until `future` is done.
    pub fn run_until<T: 'static>(&mut self, future: impl Future<Output = T> + 'static) -> Result<T, Stalled> {
        match self.run_until_steps(future, u64::MAX) {
            Ok(value) => Ok(value),
            Err(Stop::Stalled | Stop::Steps) => Err(Stalled),
        }
    }

    /// Runs until `future` is done, at most `limit` steps. A future cut off stays behind as a task.
    pub fn run_until_steps<T: 'static>(
        &mut self,
        future: impl Future<Output = T> + 'static,
        limit: u64,
    ) -> Result<T, Stop> {
        let slot = Rc::new(RefCell::new(None));
        let result = slot.clone();
        let _detached = self.runtime.spawn(Priority::Host, async move {
            let value = future.await;
            *slot.borrow_mut() = Some(value);
        });
        for _ in 0..limit {
            if self.step() == Progress::Stalled {
                return Err(Stop::Stalled);
            }
            if let Some(value) = result.borrow_mut().take() {
                return Ok(value);
            }
        }
        Err(Stop::Steps)
    }

    /// Makes `count` steps, fewer when the world stalls.
    pub fn run_steps(&mut self, count: u64) -> Progress {
        for _ in 0..count {
            if self.step() == Progress::Stalled {
                return Progress::Stalled;
            }
        }
        Progress::Running
    }

    /// Steps while `keep_going` says so; it is asked before every step.
    pub fn run_while(&mut self, keep_going: &mut dyn FnMut(&Simulation) -> bool) -> Progress {
        while keep_going(self) {
            if self.step() == Progress::Stalled {
                return Progress::Stalled;
            }
        }
        Progress::Running
    }

    /// One step: an event that is due, or one poll of a task drawn from the seed.
    pub fn step(&mut self) -> Progress {
        let shard = self.runtime.shard.clone();
        let _entered = shard.executor.enter();
        self.take_inbox();
        self.fire_due();
        let runnable = shard.executor.queues().len();
        if runnable == 0 {
            let Some(next) = self.next_event() else { return Progress::Stalled };
            self.steps += 1;
            self.driver().advance_to(next);
            self.driver().note(next);
            self.fire_due();
            return Progress::Running;
        }
        self.steps += 1;
        let (position, nanos) = {
            let mut scheduler = self.driver().scheduler.borrow_mut();
            (scheduler.below(runnable as u64) as usize, 1 + scheduler.below(STEP_NANOS))
        };
        let task = shard.executor.queues().take_nth(position).expect("the position is below the count");
        self.driver().note(u64::from(task));
        shard.executor.poll_task(task);
        self.driver().advance_to(self.now().as_nanos() + nanos);
        Progress::Running
    }

    fn driver(&self) -> &SimDriver {
        self.runtime.shard.driver.as_sim().expect("a simulation runs the simulated driver")
    }

    fn next_event(&self) -> Option<u64> {
        let timer = self.runtime.shard.timers.borrow().next_deadline().map(Instant::as_nanos);
        match (timer, self.driver().next_due()) {
            (Some(timer), Some(due)) => Some(timer.min(due)),
            (timer, due) => timer.or(due),
        }
    }

    fn fire_due(&self) {
        while self.driver().finish_one() {}
        let now = self.now();
        loop {
            let waker = self.runtime.shard.timers.borrow_mut().pop_due(now);
            match waker {
                Some(waker) => waker.wake(),
                None => return,
            }
        }
    }

    fn take_inbox(&self) {
        let shard = &self.runtime.shard;
        let Some(taken) = shard.executor.inbox().take() else { return };
        for (priority, task) in taken.wakes {
            shard.executor.accept_wake(priority, task);
        }
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        self.driver().crash();
        self.runtime.shard.executor.close();
        drop(self.runtime.shard.timers.borrow_mut().clear());
    }
}
