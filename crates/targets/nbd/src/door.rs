//! What all servers of the NBD door share: one budget of payload bytes, and what a person should hear of.
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
        };
        Door { shared: Rc::new(shared) }
    }

    /// Payload bytes that connections have now.
    #[must_use]
    pub fn payload_bytes_used(&self) -> usize {
        let Shared { small, small_total, large, large_total, .. } = &*self.shared;
        small_total - small.available() + large_total - large.available()
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
        let mut notices = self.shared.notices.borrow_mut();
        if notices.len() < NOTICES_MAX {
            notices.push_back(why);
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
