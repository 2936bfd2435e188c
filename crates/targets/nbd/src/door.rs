//! What all servers of the NBD door share: one budget of payload bytes, one limit of clients, and what a
//! person should hear of.
//!
//! Every request that needs memory for its payload or its reply takes a share before the memory is allocated,
//! and gives it back when the payload is written or the reply has left. A connection that waits for its share
//! is not read from, so what its client sends stays in the client's memory.
//!
//! Invariants:
//! 1. The shares of all connections never exceed the budget, so payloads never exhaust the machine's memory.
//! 2. Nobody waits for a share while holding one that only the wait's end could free: a request takes its
//!    share once, whole, and a request larger than the budget takes all of it. So there is no deadlock.
//! 3. Shares are given in order of asking, so a large request is not overtaken for ever.
//! 4. Small requests have a part of the budget of their own, so clients that stall in large ones do not hold
//!    them up.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use ashlar_runtime::Instant;
use ashlar_runtime::sync::{Permit, Semaphore};

/// Payload bytes of all connections together. Eight requests of the largest size; more only wait in the
/// drives' queues.
pub const PAYLOAD_BYTES_MAX_DEFAULT: usize = 256 << 20;
/// Requests up to this size share the smaller part. Kernels send no larger ones unless told to, and 256
/// connections that all stall in one of them do not use it up.
const SMALL_BYTES_MAX: usize = 128 << 10;
/// The part of the budget for small requests.
const SMALL_FRACTION: usize = 4;
/// Notices kept until somebody takes them; later ones are dropped, because the first tell what happens.
const NOTICES_MAX: usize = 64;

/// Clients above the limit that are told so at the same time; more are closed without a word, because each
/// takes a descriptor. Arbitrary.
const REFUSED_MAX: usize = 16;
/// Pause between two notices that clients are refused. Arbitrary: they come back many times a second.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);

/// The state that servers of one door share. Clones are the same door.
#[derive(Clone)]
pub struct Door {
    shared: Rc<Shared>,
}

struct Shared {
    small: Semaphore,
    small_total: usize,
    large: Semaphore,
    large_total: usize,
    notices: RefCell<VecDeque<String>>,
    clients_cut: Cell<u64>,
    clients: Cell<usize>,
    clients_made: Cell<u64>,
    clients_refused: Cell<u64>,
    /// Those of them that are still being told.
    refused_now: Cell<usize>,
    refused_told: Cell<Option<Instant>>,
}

impl Default for Door {
    fn default() -> Door {
        Door::new(PAYLOAD_BYTES_MAX_DEFAULT)
    }
}

impl Door {
    /// A door whose connections have at most so many payload bytes in memory together.
    #[must_use]
    pub fn new(payload_bytes_max: usize) -> Door {
        assert!(
            payload_bytes_max >= SMALL_FRACTION * SMALL_BYTES_MAX,
            "a budget of {payload_bytes_max} bytes"
        );
        let small_total = payload_bytes_max / SMALL_FRACTION;
        let large_total = payload_bytes_max - small_total;
        let shared = Shared {
            small: Semaphore::new(small_total),
            small_total,
            large: Semaphore::new(large_total),
            large_total,
            notices: RefCell::default(),
            clients_cut: Cell::new(0),
            clients: Cell::new(0),
            clients_made: Cell::new(0),
            clients_refused: Cell::new(0),
            refused_now: Cell::new(0),
            refused_told: Cell::new(None),
        };
        Door { shared: Rc::new(shared) }
    }

    /// Payload bytes that connections have now.
    #[must_use]
    pub fn payload_bytes_used(&self) -> usize {
        let Shared { small, small_total, large, large_total, .. } = &*self.shared;
        small_total - small.available() + large_total - large.available()
    }

    /// Clients connected now.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.shared.clients.get()
    }

    /// Clients refused since the start because the limit was reached.
    #[must_use]
    pub fn clients_refused(&self) -> u64 {
        self.shared.clients_refused.get()
    }

    /// A number that no client had: for other doors whose clients are told with those of this one.
    #[must_use]
    pub fn number(&self) -> u64 {
        let made = &self.shared.clients_made;
        made.set(made.get() + 1);
        made.get()
    }

    /// Lets a client in, unless so many are in already.
    pub(crate) fn admit(&self, clients_max: usize, now: Instant) -> Admission {
        let Shared { clients, clients_refused, refused_now, .. } = &*self.shared;
        if clients.get() < clients_max {
            clients.set(clients.get() + 1);
            return Admission::In(Place { door: self.clone(), number: self.number() });
        }
        clients_refused.set(clients_refused.get() + 1);
        let is_time = |told: Instant| now - told >= REFUSED_PAUSE;
        if self.shared.refused_told.get().is_none_or(is_time) {
            self.shared.refused_told.set(Some(now));
            self.note(format!(
                "{clients_max} clients are connected, which is the limit: more are refused; `ashlar client list` \
                 shows them, `ashlar client disconnect` cuts one off, the setting nbd_clients_max raises the limit"
            ));
        }
        if refused_now.get() >= REFUSED_MAX {
            return Admission::Closed;
        }
        refused_now.set(refused_now.get() + 1);
        let why = format!("this array serves {clients_max} NBD clients at most, and so many are connected");
        Admission::Told(why, Told { door: self.clone() })
    }

    /// Clients cut off since the start because they stalled.
    #[must_use]
    pub fn clients_cut(&self) -> u64 {
        self.shared.clients_cut.get()
    }

    /// Takes out what a person should hear of, one line each.
    #[must_use]
    pub fn take_notices(&self) -> Vec<String> {
        self.shared.notices.take().into()
    }

    /// Notes that a client was cut off, and why.
    pub(crate) fn note_cut(&self, why: String) {
        self.shared.clients_cut.set(self.shared.clients_cut.get() + 1);
        self.note(why);
    }

    fn note(&self, what: String) {
        let mut notices = self.shared.notices.borrow_mut();
        if notices.len() < NOTICES_MAX {
            notices.push_back(what);
        }
    }

    /// A share for a request that needs this much memory, or all there is, if it is free and nobody waits.
    pub(crate) fn try_share(&self, bytes: usize) -> Option<Share> {
        if bytes == 0 {
            return Some(Share::default());
        }
        let (part, count) = self.part_of(bytes);
        part.try_acquire(count).map(|permit| Share { permits: vec![permit] })
    }

    /// Waits for such a share.
    pub(crate) async fn share(&self, bytes: usize) -> Share {
        let (part, count) = self.part_of(bytes);
        Share { permits: vec![part.acquire(count).await] }
    }

    /// Whether somebody waits for a share.
    pub(crate) fn is_contended(&self) -> bool {
        self.shared.small.try_acquire(0).is_none() || self.shared.large.try_acquire(0).is_none()
    }

    fn part_of(&self, bytes: usize) -> (&Semaphore, usize) {
        if bytes <= SMALL_BYTES_MAX {
            return (&self.shared.small, bytes);
        }
        (&self.shared.large, bytes.min(self.shared.large_total))
    }
}

/// What becomes of a client that connects.
pub(crate) enum Admission {
    /// It is served.
    In(Place),
    /// It hears this sentence.
    Told(String, Told),
    /// Even of those that hear it there are too many.
    Closed,
}

/// A client's place among those that the door serves; free again when this is dropped.
pub(crate) struct Place {
    door: Door,
    /// No other client of the door ever has this number.
    pub number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let clients = &self.door.shared.clients;
        clients.set(clients.get() - 1);
    }
}

/// The same among those that are told that there is none.
pub(crate) struct Told {
    door: Door,
}

impl Drop for Told {
    fn drop(&mut self) {
        let refused_now = &self.door.shared.refused_now;
        refused_now.set(refused_now.get() - 1);
    }
}

/// Bytes of the budget; they go back when this is dropped.
#[derive(Default)]
pub(crate) struct Share {
    permits: Vec<Permit>,
}

impl Share {
    /// Takes another share along.
    pub(crate) fn absorb(&mut self, other: Share) {
        self.permits.extend(other.permits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn shares_never_exceed_the_budget_and_come_back() {
        let door = Door::new(128 * MIB);
        let mut shares = Vec::new();
        while let Some(share) = door.try_share(32 * MIB) {
            shares.push(share);
        }
        assert_eq!((shares.len(), door.payload_bytes_used()), (3, 96 * MIB));
        // Large requests leave small ones their part.
        while let Some(share) = door.try_share(SMALL_BYTES_MAX) {
            shares.push(share);
        }
        assert_eq!((shares.len(), door.payload_bytes_used()), (3 + 256, 128 * MIB));
        shares.clear();
        assert_eq!(door.payload_bytes_used(), 0);
    }

    #[test]
    fn a_request_larger_than_the_budget_passes_alone() {
        let door = Door::new(4 * MIB);
        let share = door.try_share(32 * MIB).unwrap();
        assert_eq!(door.payload_bytes_used(), 3 * MIB);
        assert!(door.try_share(32 * MIB).is_none());
        drop(share);
        assert!(door.try_share(32 * MIB).is_some());
    }

    #[test]
    fn a_share_that_another_took_along_comes_back_with_it() {
        let door = Door::default();
        let mut kept = Share::default();
        for _ in 0..10 {
            kept.absorb(door.try_share(4096).unwrap());
        }
        assert_eq!(door.payload_bytes_used(), 40960);
        drop(kept);
        assert_eq!(door.payload_bytes_used(), 0);
    }

    #[test]
    fn notices_are_bounded() {
        let door = Door::default();
        (0..1000).for_each(|number| door.note_cut(format!("client {number}")));
        assert_eq!((door.take_notices().len(), door.clients_cut()), (NOTICES_MAX, 1000));
        assert!(door.take_notices().is_empty());
    }
}
