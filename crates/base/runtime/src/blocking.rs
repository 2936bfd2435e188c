//! Calls that block, run beside the shards on a few threads that come and go.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::Runtime;
use crate::driver::Driver;
use crate::remote::{RemoteResult, promise};

const MAX_THREADS: usize = 8;
const IDLE: Duration = Duration::from_secs(10);

type Call = Box<dyn FnOnce() + Send>;

struct State {
    calls: VecDeque<Call>,
    threads: usize,
    idle: usize,
}

struct Pool {
    state: Mutex<State>,
    ready: Condvar,
}

/// One pool for the process: blocking calls are rare and hold no shard's state.
static POOL: Pool =
    Pool { state: Mutex::new(State { calls: VecDeque::new(), threads: 0, idle: 0 }), ready: Condvar::new() };

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&'static self, call: Call) {
        let mut state = self.lock();
        state.calls.push_back(call);
        if state.idle >= state.calls.len() || state.threads >= MAX_THREADS {
            drop(state);
            self.ready.notify_one();
            return;
        }
        state.threads += 1;
        drop(state);
        let spawned =
            std::thread::Builder::new().name("ashlar-blocking".to_owned()).spawn(move || self.serve());
        if spawned.is_err() {
            let mut state = self.lock();
            state.threads -= 1;
            // With no thread at all, blocking the caller is the one way left.
            let call = if state.threads == 0 { state.calls.pop_front() } else { None };
            drop(state);
            if let Some(call) = call {
                call();
            }
        }
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(call) = state.calls.pop_front() {
                drop(state);
                // A panicking call drops its promise, which tells the waiting task; the thread lives on.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
                state = self.lock();
                continue;
            }
            state.idle += 1;
            let (woken, waited) =
                self.ready.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if waited.timed_out() && state.calls.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

/// Future of [`Runtime::run_blocking`].
pub struct Blocking<T> {
    result: Result<Option<T>, RemoteResult<T>>,
}

impl<T> Unpin for Blocking<T> {}

impl<T> Future for Blocking<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match &mut self.result {
            Ok(value) => Poll::Ready(value.take().expect("a finished call is not polled again")),
            Err(remote) => match Pin::new(remote).poll(context) {
                Poll::Ready(Ok(value)) => Poll::Ready(value),
                Poll::Ready(Err(_)) => panic!("a blocking call panicked"),
                Poll::Pending => Poll::Pending,
            },
        }
    }
}

impl Runtime {
    /// Runs a call that may block on another thread; it starts at once and runs to its end even if
    /// the future is dropped. The simulator runs it in place.
    pub fn run_blocking<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> Blocking<T> {
        match &self.shard.driver {
            Driver::Sim(_) => Blocking { result: Ok(Some(f())) },
            Driver::Uring(_) | Driver::Threads(_) => {
                let (promise, remote) = promise();
                POOL.run(Box::new(move || promise.keep(f())));
                Blocking { result: Err(remote) }
            }
        }
    }
}
