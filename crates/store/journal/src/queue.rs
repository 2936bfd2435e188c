//! Submissions waiting for a group, in order.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use ashlar_runtime::sync::Notify;

use crate::Submission;

/// A local queue whose consumer can look at the front before taking it.
pub(crate) struct Queue<T> {
    waiting: RefCell<VecDeque<Submission<T>>>,
    /// Bytes the waiting submissions want to store.
    bytes: Cell<usize>,
    is_closed: Cell<bool>,
    changed: Notify,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Queue<T> {
        Queue {
            waiting: RefCell::default(),
            bytes: Cell::new(0),
            is_closed: Cell::new(false),
            changed: Notify::new(),
        }
    }

    pub(crate) fn push(&self, submission: Submission<T>) {
        self.bytes.set(self.bytes.get() + submission.stored_bytes());
        self.waiting.borrow_mut().push_back(submission);
        self.changed.notify_one();
    }

    pub(crate) fn close(&self) {
        self.is_closed.set(true);
        self.changed.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.get()
    }

    /// Waits until something is queued that is worth a group, told by its bytes; false when closed and
    /// empty.
    pub(crate) async fn wait(&self, is_worth: impl Fn(usize) -> bool) -> bool {
        loop {
            let is_empty = self.waiting.borrow().is_empty();
            if !is_empty && is_worth(self.bytes.get()) {
                return true;
            }
            if is_empty && self.is_closed.get() {
                return false;
            }
            self.changed.notified().await;
        }
    }

    /// Has the consumer look again whether what waits is worth a group.
    pub(crate) fn poke(&self) {
        self.changed.notify_one();
    }

    /// Takes the front if `accept` likes it.
    pub(crate) fn take_if(&self, accept: impl FnOnce(&Submission<T>) -> bool) -> Option<Submission<T>> {
        let mut waiting = self.waiting.borrow_mut();
        let is_wanted = waiting.front().is_some_and(accept);
        let taken = if is_wanted { waiting.pop_front() } else { None };
        if let Some(taken) = &taken {
            self.bytes.set(self.bytes.get() - taken.stored_bytes());
        }
        taken
    }

    pub(crate) fn drain(&self) -> Vec<Submission<T>> {
        self.bytes.set(0);
        self.waiting.borrow_mut().drain(..).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.borrow().len()
    }
}
