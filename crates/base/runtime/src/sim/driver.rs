//! Requests in flight inside the simulator, virtual time, and the digest of the run.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::{SimDriveId, SimOperation, SimStorage, SimTicket};
use crate::random::Random;
use crate::{Durability, Instant, OpenDrive, Runtime};

enum Flight {
    Waiting { operation: SimOperation, waker: Option<Waker>, is_abandoned: bool },
    Done { operation: SimOperation, result: io::Result<()> },
}

pub(crate) struct SimDriver {
    storage: Rc<RefCell<dyn SimStorage>>,
    now: Cell<u64>,
    /// How far the wall clock is from what it should say.
    unix_offset_nanos: Cell<i128>,
    digest: Cell<u64>,
    /// Draws for scheduling only, so that the tasks' own draws do not disturb it.
    pub(super) scheduler: RefCell<Random>,
    flights: RefCell<BTreeMap<SimTicket, Flight>>,
    due: RefCell<BTreeSet<(u64, SimTicket)>>,
    next_ticket: Cell<u64>,
    has_crashed: Cell<bool>,
}

impl SimDriver {
    pub(super) fn new(seed: u64, storage: Rc<RefCell<dyn SimStorage>>) -> SimDriver {
        SimDriver {
            storage,
            now: Cell::new(0),
            unix_offset_nanos: Cell::new(0),
            digest: Cell::new(seed),
            scheduler: RefCell::new(Random::from_seed(seed ^ 0x5C4E_D01E)),
            flights: RefCell::new(BTreeMap::new()),
            due: RefCell::new(BTreeSet::new()),
            next_ticket: Cell::new(1),
            has_crashed: Cell::new(false),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        Instant(self.now.get())
    }

    pub(crate) fn unix_offset_nanos(&self) -> i128 {
        self.unix_offset_nanos.get()
    }

    pub(super) fn set_unix_offset_nanos(&self, nanos: i128) {
        self.unix_offset_nanos.set(nanos);
    }

    pub(super) fn advance_to(&self, nanos: u64) {
        self.now.set(self.now.get().max(nanos));
    }

    pub(super) fn digest(&self) -> u64 {
        self.digest.get()
    }

    /// Mixes a fact into the digest of the run.
    pub(super) fn note(&self, fact: u64) {
        let mixed = (self.digest.get().rotate_left(5) ^ fact).wrapping_mul(0x517C_C1B7_2722_0A95);
        self.digest.set(mixed ^ (mixed >> 29));
    }

    /// Four words at a time, each into a hash of its own: one hash would wait for itself.
    fn note_bytes(&self, bytes: &[u8]) {
        let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x517C_C1B7_2722_0A95);
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let mut hashes = [bytes.len() as u64; 4];
        let mut blocks = bytes.chunks_exact(32);
        for block in &mut blocks {
            for (hash, bytes) in hashes.iter_mut().zip(block.chunks_exact(8)) {
                *hash = mix(*hash, word(bytes));
            }
        }
        for byte in blocks.remainder() {
            hashes[0] = mix(hashes[0], u64::from(*byte));
        }
        self.note(hashes.into_iter().fold(0, mix));
    }

    fn note_operation(&self, operation: &SimOperation) {
        self.note(u64::from(operation.drive().0));
        match operation {
            SimOperation::Read { offset, into, .. } => {
                self.note(1);
                self.note(*offset);
                self.note(into.len() as u64);
            }
            SimOperation::Write { offset, data, durability, .. } => {
                self.note(if *durability == Durability::Durable { 2 } else { 3 });
                self.note(*offset);
                self.note_bytes(data);
            }
            SimOperation::Sync { .. } => self.note(4),
            SimOperation::Discard { offset, len, .. } => {
                self.note(5);
                self.note(*offset);
                self.note(*len);
            }
        }
    }

    pub(crate) fn open(&self, path: &str, options: &OpenDrive) -> io::Result<(SimDriveId, u64)> {
        self.note_bytes(path.as_bytes());
        self.storage.borrow_mut().open(path, options)
    }

    pub(crate) fn is_first_write_slow(&self, drive: SimDriveId) -> bool {
        self.storage.borrow().is_first_write_slow(drive)
    }

    pub(crate) fn close(&self, drive: SimDriveId) {
        if !self.has_crashed.get() {
            self.storage.borrow_mut().close(drive);
        }
    }

    fn start(&self, operation: SimOperation) -> SimTicket {
        let ticket = SimTicket(self.next_ticket.get());
        self.next_ticket.set(ticket.0 + 1);
        self.note_operation(&operation);
        if !self.has_crashed.get() {
            let due = self.storage.borrow_mut().start(self.now(), ticket, &operation);
            self.note(due);
            if due != u64::MAX {
                self.due.borrow_mut().insert((due.max(self.now.get()), ticket));
            }
        }
        let flight = Flight::Waiting { operation, waker: None, is_abandoned: false };
        self.flights.borrow_mut().insert(ticket, flight);
        ticket
    }

    pub(super) fn next_due(&self) -> Option<u64> {
        self.due.borrow().first().map(|(due, _)| *due)
    }

    /// Completes the first request due by now; false when there is none.
    pub(super) fn finish_one(&self) -> bool {
        let mut due = self.due.borrow_mut();
        let Some((when, ticket)) = due.first().copied() else { return false };
        if when > self.now.get() {
            return false;
        }
        due.pop_first();
        drop(due);
        let flight = self.flights.borrow_mut().remove(&ticket);
        let Some(Flight::Waiting { mut operation, waker, is_abandoned }) = flight else { return true };
        let result = self.storage.borrow_mut().finish(self.now(), ticket, &mut operation);
        self.note(ticket.0);
        self.note(u64::from(result.is_err()));
        if let SimOperation::Read { into, .. } = &operation {
            self.note_bytes(into);
        }
        if !is_abandoned {
            self.flights.borrow_mut().insert(ticket, Flight::Done { operation, result });
            if let Some(waker) = waker {
                waker.wake();
            }
        }
        true
    }

    /// Stops the machine under whatever runs.
    pub(super) fn crash(&self) {
        if self.has_crashed.replace(true) {
            return;
        }
        self.due.borrow_mut().clear();
        let flights = std::mem::take(&mut *self.flights.borrow_mut());
        let in_flight = flights
            .into_iter()
            .filter_map(|(ticket, flight)| match flight {
                Flight::Waiting { operation, .. } => Some((ticket, operation)),
                Flight::Done { .. } => None,
            })
            .collect();
        // After a panic the model may be in the middle of something, and a second panic would hide
        // the first.
        if std::thread::panicking() {
            return;
        }
        self.storage.borrow_mut().crash(self.now(), in_flight);
    }
}

/// Future of one simulated drive request.
pub(crate) struct SimIo {
    runtime: Runtime,
    ticket: SimTicket,
}

impl SimIo {
    pub(crate) fn start(runtime: &Runtime, driver: &SimDriver, operation: SimOperation) -> SimIo {
        SimIo { runtime: runtime.clone(), ticket: driver.start(operation) }
    }

    fn driver(runtime: &Runtime) -> &SimDriver {
        runtime.shard.driver.as_sim().expect("a simulated request belongs to a simulated shard")
    }
}

impl Future for SimIo {
    type Output = (io::Result<()>, SimOperation);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut flights = SimIo::driver(&self.runtime).flights.borrow_mut();
        if let Some(Flight::Waiting { waker, .. }) = flights.get_mut(&self.ticket) {
            *waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        match flights.remove(&self.ticket) {
            Some(Flight::Done { operation, result }) => Poll::Ready((result, operation)),
            // Taken by the crash.
            Some(Flight::Waiting { .. }) | None => Poll::Pending,
        }
    }
}

impl Drop for SimIo {
    fn drop(&mut self) {
        let mut flights = SimIo::driver(&self.runtime).flights.borrow_mut();
        match flights.get_mut(&self.ticket) {
            // The drive goes on with a request nobody waits for.
            Some(Flight::Waiting { is_abandoned, waker, .. }) => {
                *is_abandoned = true;
                *waker = None;
            }
            Some(Flight::Done { .. }) => {
                flights.remove(&self.ticket);
            }
            None => {}
        }
    }
}
