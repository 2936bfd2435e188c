//! Who does the I/O: io_uring, a few threads, or the simulator; chosen when the shard starts.

mod refusal;
mod threads;
mod uring;

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

use crate::buffer::BufferPool;
use crate::inbox::Inbox;
use crate::operation::Operation;
use crate::runtime::Shard;
use crate::sim::SimDriver;
use crate::{DriverChoice, Instant};

pub(crate) use threads::ThreadsDriver;
pub(crate) use uring::UringDriver;

// There is one per shard: a box would cost a step on every request and save nothing.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Driver {
    Uring(UringDriver),
    Threads(ThreadsDriver),
    Sim(SimDriver),
}

/// Whether a turn may sleep.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    /// There is other work: look and return.
    No,
    /// Until something completes or the inbox fills.
    Forever,
    /// The same, but not past this instant.
    Until(Instant),
}

impl Driver {
    /// The driver asked for, or the best there is, and the line that says which and why.
    pub(crate) fn start(
        choice: DriverChoice,
        inbox: &Arc<Inbox>,
        buffers: &BufferPool,
    ) -> io::Result<(Driver, String)> {
        match choice {
            DriverChoice::Uring => {
                let (driver, line) = UringDriver::start(inbox, buffers)?;
                Ok((Driver::Uring(driver), line))
            }
            DriverChoice::Threads => {
                Ok((Driver::Threads(ThreadsDriver::start(inbox)?), "io: threads (as set)".to_owned()))
            }
            DriverChoice::Auto => match UringDriver::start(inbox, buffers) {
                Ok((driver, line)) => Ok((Driver::Uring(driver), line)),
                Err(error) => {
                    let line = format!("io: threads (io_uring denied: {error})");
                    Ok((Driver::Threads(ThreadsDriver::start(inbox)?), line))
                }
            },
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Driver::Uring(_) => "uring",
            Driver::Threads(_) => "threads",
            Driver::Sim(_) => "sim",
        }
    }

    pub(crate) fn as_sim(&self) -> Option<&SimDriver> {
        match self {
            Driver::Sim(sim) => Some(sim),
            Driver::Uring(_) | Driver::Threads(_) => None,
        }
    }

    /// Takes a request on; its result comes to `Operations::complete` in a later turn.
    pub(crate) fn submit(&self, key: u32, operation: &mut Operation) {
        match self {
            Driver::Uring(uring) => uring.submit(key, operation),
            Driver::Threads(threads) => threads.submit(key, operation),
            Driver::Sim(_) => unreachable!("simulated requests take their own way"),
        }
    }

    /// Asks for an early end of a request whose future is gone.
    pub(crate) fn cancel(&self, key: u32, operation: &Operation) {
        match self {
            Driver::Uring(uring) => uring.cancel(key),
            Driver::Threads(threads) => threads.cancel(key, operation),
            Driver::Sim(_) => {}
        }
    }

    /// Puts a drive's file into the ring's table, if there is a place.
    pub(crate) fn adopt_file(&self, fd: RawFd) -> Option<u32> {
        match self {
            Driver::Uring(uring) => uring.adopt_file(fd),
            Driver::Threads(_) | Driver::Sim(_) => None,
        }
    }

    pub(crate) fn release_file(&self, slot: u32) {
        match self {
            Driver::Uring(uring) => uring.release_file(slot),
            Driver::Threads(_) | Driver::Sim(_) => {}
        }
    }

    /// Submits, reaps, and sleeps when allowed.
    pub(crate) fn turn(&self, shard: &Shard, wait: Wait) {
        match self {
            Driver::Uring(uring) => uring.turn(shard, wait),
            Driver::Threads(threads) => threads.turn(shard, wait),
            Driver::Sim(_) => unreachable!("the simulation has its own loop"),
        }
    }
}
