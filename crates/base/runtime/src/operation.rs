//! Requests in the hands of the kernel: the table that owns their buffers until they complete.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::drive::FileHandle;
use crate::slots::Slots;
use crate::{Buf, Durability, Runtime};

/// One request, with everything it needs until completion.
pub(crate) enum Operation {
    Read {
        file: Rc<FileHandle>,
        offset: u64,
        buf: Buf,
        start: usize,
    },
    Write {
        file: Rc<FileHandle>,
        offset: u64,
        buf: Buf,
        start: usize,
        durability: Durability,
    },
    Sync {
        file: Rc<FileHandle>,
    },
    Discard {
        file: Rc<FileHandle>,
        offset: u64,
        len: u64,
    },
    Accept {
        socket: Rc<OwnedFd>,
    },
    Receive {
        socket: Rc<OwnedFd>,
        buf: Buf,
        start: usize,
        is_whole: bool,
    },
    Send {
        socket: Rc<OwnedFd>,
        buf: Buf,
        start: usize,
    },
    ReadFd {
        fd: RawFd,
        buf: Buf,
    },
    WriteFd {
        fd: RawFd,
        buf: Buf,
    },
    /// Boxed: it is large and rare, the others are small and many.
    Command {
        command: Box<UringCommand>,
    },
}

/// A device's own command, as `IORING_OP_URING_CMD` takes it.
pub(crate) struct UringCommand {
    pub(crate) fd: RawFd,
    pub(crate) code: u32,
    pub(crate) area: [u8; 80],
    pub(crate) address: u64,
    pub(crate) length: u32,
}

impl Operation {
    /// The buffer of a request that has one.
    pub(crate) fn into_buf(self) -> Option<Buf> {
        match self {
            Operation::Read { buf, .. }
            | Operation::Write { buf, .. }
            | Operation::Receive { buf, .. }
            | Operation::Send { buf, .. }
            | Operation::ReadFd { buf, .. }
            | Operation::WriteFd { buf, .. } => Some(buf),
            Operation::Sync { .. }
            | Operation::Discard { .. }
            | Operation::Accept { .. }
            | Operation::Command { .. } => None,
        }
    }

    /// May wait for another party without end, so it is worth cancelling.
    fn is_open_ended(&self) -> bool {
        match self {
            Operation::Accept { .. }
            | Operation::Receive { .. }
            | Operation::Send { .. }
            | Operation::ReadFd { .. }
            | Operation::WriteFd { .. }
            | Operation::Command { .. } => true,
            Operation::Read { .. }
            | Operation::Write { .. }
            | Operation::Sync { .. }
            | Operation::Discard { .. } => false,
        }
    }

    fn is_command(&self) -> bool {
        matches!(self, Operation::Command { .. })
    }
}

enum State {
    Waiting(Option<Waker>),
    Done(i32),
    Abandoned,
}

struct Slot {
    operation: Operation,
    state: State,
}

/// All requests of a shard that the kernel or a worker has, or whose result waits to be taken.
pub(crate) struct Operations {
    slots: RefCell<Slots<Slot>>,
    /// Requests not completed that use our memory.
    in_flight: Cell<usize>,
}

impl Operations {
    pub(crate) fn new() -> Operations {
        Operations { slots: RefCell::new(Slots::new()), in_flight: Cell::new(0) }
    }

    /// Requests that must complete before the shard's memory may go.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.get()
    }

    /// Lets `act` see a request that has not completed.
    pub(crate) fn with<R>(&self, key: u32, act: impl FnOnce(&mut Operation) -> R) -> Option<R> {
        self.slots.borrow_mut().get_mut(key).map(|slot| act(&mut slot.operation))
    }

    /// Records a result and wakes whoever waits for it.
    pub(crate) fn complete(&self, key: u32, result: i32) {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(key) else { return };
        if !slot.operation.is_command() {
            self.in_flight.set(self.in_flight.get() - 1);
        }
        match &mut slot.state {
            State::Waiting(waker) => {
                let waker = waker.take();
                slot.state = State::Done(result);
                drop(slots);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            State::Abandoned => {
                let slot = slots.remove(key);
                drop(slots);
                if let Some(Slot { operation: Operation::Accept { .. }, .. }) = &slot {
                    close_abandoned(result);
                }
                drop(slot);
            }
            State::Done(_) => {}
        }
    }
}

/// Closes a connection that was accepted for a future dropped meanwhile.
fn close_abandoned(result: i32) {
    if result >= 0 {
        // SAFETY: the kernel just made this descriptor for us; nobody else knows it.
        drop(unsafe { OwnedFd::from_raw_fd(result) });
    }
}

/// Future of one request: the kernel's result (negative: error number) and the request back.
pub(crate) struct Submitted {
    runtime: Runtime,
    key: Option<u32>,
}

impl Submitted {
    /// Hands the request to the driver at once.
    pub(crate) fn new(runtime: &Runtime, operation: Operation) -> Submitted {
        let shard = &runtime.shard;
        let operations = &shard.operations;
        if !operation.is_command() {
            operations.in_flight.set(operations.in_flight.get() + 1);
        }
        let mut slots = operations.slots.borrow_mut();
        let key = slots.insert(Slot { operation, state: State::Waiting(None) });
        let slot = slots.get_mut(key).expect("inserted just now");
        shard.driver.submit(key, &mut slot.operation);
        Submitted { runtime: runtime.clone(), key: Some(key) }
    }
}

impl Future for Submitted {
    type Output = (i32, Operation);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let key = self.key.expect("a completed request is not polled again");
        let mut slots = self.runtime.shard.operations.slots.borrow_mut();
        let slot = slots.get_mut(key).expect("a request stays until its future takes it");
        if let State::Waiting(waker) = &mut slot.state {
            match waker {
                Some(waker) => waker.clone_from(context.waker()),
                None => *waker = Some(context.waker().clone()),
            }
            return Poll::Pending;
        }
        let slot = slots.remove(key).expect("looked at just now");
        drop(slots);
        self.key = None;
        let State::Done(result) = slot.state else { unreachable!("an abandoned request has no future") };
        Poll::Ready((result, slot.operation))
    }
}

impl Drop for Submitted {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let shard = &self.runtime.shard;
        let mut slots = shard.operations.slots.borrow_mut();
        let Some(slot) = slots.get_mut(key) else { return };
        match &slot.state {
            State::Done(result) => {
                let result = *result;
                let slot = slots.remove(key);
                drop(slots);
                if let Some(Slot { operation: Operation::Accept { .. }, .. }) = &slot {
                    close_abandoned(result);
                }
            }
            State::Waiting(_) => {
                // The kernel may still write to the buffer: the table keeps it until completion.
                slot.state = State::Abandoned;
                if slot.operation.is_open_ended() {
                    shard.driver.cancel(key, &slot.operation);
                }
            }
            State::Abandoned => {}
        }
    }
}

/// A kernel result as a count.
pub(crate) fn count(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

/// The request should simply be sent again.
pub(crate) fn is_transient(result: i32) -> bool {
    result == -libc::EINTR || result == -libc::EAGAIN
}

/// The descriptor of whatever the request is about.
pub(crate) fn descriptor(operation: &Operation) -> RawFd {
    match operation {
        Operation::Read { file, .. }
        | Operation::Write { file, .. }
        | Operation::Sync { file }
        | Operation::Discard { file, .. } => file.fd(),
        Operation::Accept { socket } | Operation::Receive { socket, .. } | Operation::Send { socket, .. } => {
            socket.as_raw_fd()
        }
        Operation::ReadFd { fd, .. } | Operation::WriteFd { fd, .. } => *fd,
        Operation::Command { command } => command.fd,
    }
}
