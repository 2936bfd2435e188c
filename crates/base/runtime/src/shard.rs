//! A shard's thread and the loop it runs.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use crate::buffer::BufferPool;
use crate::driver::{Driver, Wait};
use crate::inbox::Inbox;
use crate::random::Random;
use crate::runtime::Shard;
use crate::{Instant, LocalFuture, Priority, Remote, Runtime, clock};

/// Which driver does the I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DriverChoice {
    /// io_uring when the kernel allows it, threads otherwise.
    #[default]
    Auto,
    /// io_uring or an error.
    Uring,
    /// Threads.
    Threads,
}

/// How to start a shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardSettings {
    /// Name of the thread.
    pub name: String,
    /// Which driver does the I/O.
    pub driver: DriverChoice,
    /// Size of the region of registered buffers; whole 4 MiB.
    pub buffer_pool_bytes: usize,
    /// Pin the thread to this processor.
    pub cpu: Option<usize>,
}

impl Default for ShardSettings {
    fn default() -> ShardSettings {
        let name = "ashlar-shard".to_owned();
        ShardSettings { name, driver: DriverChoice::Auto, buffer_pool_bytes: 64 << 20, cpu: None }
    }
}

/// A running shard. Dropping this lets it run on.
pub struct ShardThread {
    remote: Remote,
    driver_line: String,
    thread: JoinHandle<()>,
}

impl ShardThread {
    /// The way to the shard for other threads.
    #[must_use]
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// Waits for the shard's main future to end.
    ///
    /// # Panics
    /// When the shard panicked.
    pub fn join(self) {
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
    }

    /// One line that says which driver does the I/O and why.
    #[must_use]
    pub fn driver_line(&self) -> String {
        self.driver_line.clone()
    }
}

/// Starts a thread that runs `main` and every task spawned there, until `main` ends. Tasks left then
/// are dropped.
pub fn start_shard(
    settings: ShardSettings,
    main: impl FnOnce(Runtime) -> LocalFuture<'static, ()> + Send + 'static,
) -> io::Result<ShardThread> {
    let inbox = Arc::new(Inbox::new()?);
    let remote = Remote::new(inbox.clone());
    let (report, reported) = mpsc::channel();
    let thread = std::thread::Builder::new().name(settings.name.clone()).spawn(move || {
        // The ring belongs to the thread that makes it, so it is made here.
        let buffers = Rc::new(BufferPool::new(settings.buffer_pool_bytes));
        let started = Driver::start(settings.driver, &inbox, &buffers);
        let driver = match started {
            Ok((driver, line)) => {
                // The starter waits for exactly this message.
                let _ = report.send(Ok(line));
                driver
            }
            Err(error) => {
                let _ = report.send(Err(error));
                return;
            }
        };
        if let Some(cpu) = settings.cpu {
            pin_to(cpu);
        }
        let runtime = Runtime::new(driver, inbox, buffers, Random::from_system());
        live(runtime, main);
    })?;
    match reported.recv() {
        Ok(Ok(driver_line)) => Ok(ShardThread { remote, driver_line, thread }),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(io::Error::other("the shard's thread ended while starting")),
    }
}

/// A hint: a machine that refuses it runs the shard just as well.
fn pin_to(cpu: usize) {
    // SAFETY: the set is plain bits, zeroed, and `CPU_SET` stays inside it for any valid processor.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if cpu < libc::CPU_SETSIZE as usize {
            libc::CPU_SET(cpu, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
        }
    }
}

fn live(runtime: Runtime, main: impl FnOnce(Runtime) -> LocalFuture<'static, ()>) {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let is_done = Rc::new(Cell::new(false));
        let future = main(runtime.clone());
        let flag = is_done.clone();
        let _detached = runtime.spawn(Priority::Host, async move {
            future.await;
            flag.set(true);
        });
        run_loop(&runtime, &is_done);
        end(&runtime);
    }));
    if let Err(panic) = result {
        drop(runtime.shard.executor.inbox().close());
        // The kernel may be writing into the shard's memory: it must stay mapped.
        std::mem::forget(runtime);
        std::panic::resume_unwind(panic);
    }
}

fn run_loop(runtime: &Runtime, is_done: &Cell<bool>) {
    let shard = &runtime.shard;
    let _entered = shard.executor.enter();
    loop {
        take_inbox(runtime);
        fire_timers(shard);
        shard.executor.run_turn();
        if is_done.get() {
            return;
        }
        shard.driver.turn(shard, next_wait(shard));
    }
}

fn next_wait(shard: &Shard) -> Wait {
    if !shard.executor.queues().is_empty() {
        return Wait::No;
    }
    match shard.timers.borrow().next_deadline() {
        Some(deadline) => Wait::Until(deadline),
        None => Wait::Forever,
    }
}

fn fire_timers(shard: &Shard) {
    if shard.timers.borrow().is_empty() {
        return;
    }
    let now = Instant(clock::monotonic_nanos());
    loop {
        let waker = shard.timers.borrow_mut().pop_due(now);
        match waker {
            Some(waker) => waker.wake(),
            None => return,
        }
    }
}

fn take_inbox(runtime: &Runtime) {
    let shard = &runtime.shard;
    let Some(taken) = shard.executor.inbox().take() else { return };
    for (key, result) in taken.completions {
        shard.operations.complete(key, result);
    }
    for (priority, task) in taken.wakes {
        shard.executor.accept_wake(priority, task);
    }
    for message in taken.messages {
        message(runtime.clone());
    }
}

/// Drops what is left and waits until nobody uses the shard's memory.
fn end(runtime: &Runtime) {
    let shard = &runtime.shard;
    let refused = shard.executor.inbox().close();
    shard.executor.close();
    drop(refused);
    drop(shard.timers.borrow_mut().clear());
    while shard.operations.in_flight() > 0 {
        take_inbox(runtime);
        if shard.operations.in_flight() > 0 {
            shard.driver.turn(shard, Wait::Forever);
        }
    }
}
