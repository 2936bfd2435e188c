//! The queue of tasks that wait for something, in order of arrival.

use std::collections::BTreeMap;
use std::task::Waker;

/// Waiters by ticket; `T` is what each one asked for.
pub(crate) struct Waiters<T> {
    queue: BTreeMap<u64, (T, Waker)>,
    next_ticket: u64,
}

impl<T> Waiters<T> {
    pub(crate) const fn new() -> Waiters<T> {
        Waiters { queue: BTreeMap::new(), next_ticket: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn push(&mut self, wanted: T, waker: Waker) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.queue.insert(ticket, (wanted, waker));
        ticket
    }

    /// Renews the waker; false when the ticket is no longer in the queue, which means it was served.
    pub(crate) fn renew(&mut self, ticket: u64, waker: &Waker) -> bool {
        match self.queue.get_mut(&ticket) {
            Some((_, old)) => {
                old.clone_from(waker);
                true
            }
            None => false,
        }
    }

    /// Takes a waiter out; false when it had been served.
    pub(crate) fn cancel(&mut self, ticket: u64) -> bool {
        self.queue.remove(&ticket).is_some()
    }

    pub(crate) fn continue_after(&mut self, older: &Waiters<T>) {
        self.next_ticket = older.next_ticket;
    }

    pub(crate) fn first(&self) -> Option<&T> {
        self.queue.values().next().map(|(wanted, _)| wanted)
    }

    pub(crate) fn pop(&mut self) -> Option<Waker> {
        self.queue.pop_first().map(|(_, (_, waker))| waker)
    }
}
