//! Submissions waiting for a group, in order.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use ashlar_runtime::sync::Notify;

use crate::Submission;

/// A local queue whose consumer can look at the front before taking it.
pub(crate) struct Queue<T> {
    waiting: RefCell<VecDeque<Submission<T>>>,
    is_closed: Cell<bool>,
    changed: Notify,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Queue<T> {
        Queue { waiting: RefCell::default(), is_closed: Cell::new(false), changed: Notify::new() }
    }

    pub(crate) fn push(&self, submission: Submission<T>) {
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

    /// Waits until something is queued; false when closed and empty.
    pub(crate) async fn wait(&self) -> bool {
        loop {
            if !self.waiting.borrow().is_empty() {
                return true;
            }
            if self.is_closed.get() {
                return false;
            }
            self.changed.notified().await;
        }
    }

    /// Takes the front if `accept` likes it.
    pub(crate) fn take_if(&self, accept: impl FnOnce(&Submission<T>) -> bool) -> Option<Submission<T>> {
        let mut waiting = self.waiting.borrow_mut();
        let is_wanted = waiting.front().is_some_and(accept);
        if is_wanted { waiting.pop_front() } else { None }
    }

    pub(crate) fn drain(&self) -> Vec<Submission<T>> {
        self.waiting.borrow_mut().drain(..).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.borrow().len()
    }
}
