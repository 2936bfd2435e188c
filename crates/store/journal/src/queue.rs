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
    /// The most that waited at once.
    len_max: Cell<usize>,
    is_closed: Cell<bool>,
    changed: Notify,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Queue<T> {
        Queue {
            waiting: RefCell::default(),
            bytes: Cell::new(0),
            len_max: Cell::new(0),
            is_closed: Cell::new(false),
            changed: Notify::new(),
        }
    }

    pub(crate) fn push(&self, submission: Submission<T>) {
        assert!(!submission.drafts.is_empty(), "a submission that changes nothing would never be answered");
        assert!(!self.is_closed.get(), "nobody takes out what is queued after the end");
        self.bytes.set(self.bytes.get() + submission.stored_bytes());
        let mut waiting = self.waiting.borrow_mut();
        waiting.push_back(submission);
        self.len_max.set(self.len_max.get().max(waiting.len()));
        drop(waiting);
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
            let (bytes, taken) = (self.bytes.get(), taken.stored_bytes());
            assert!(taken <= bytes, "{taken} of {bytes} queued bytes are taken out");
            self.bytes.set(bytes - taken);
        }
        taken
    }

    pub(crate) fn drain(&self) -> Vec<Submission<T>> {
        self.bytes.set(0);
        self.waiting.borrow_mut().drain(..).collect()
    }

    /// The most submissions that waited at once.
    pub(crate) fn len_max(&self) -> usize {
        self.len_max.get()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.borrow().len()
    }
}

#[cfg(test)]
mod tests {
    use ashlar_format::group::Record;
    use ashlar_runtime::sync::oneshot;
    use ashlar_units::VolumeId;

    use super::*;
    use crate::Draft;

    /// Before, records counted nothing: a queue of any length waited until few groups were being written.
    #[test]
    fn many_small_changes_are_worth_a_group() {
        let queue: Queue<()> = Queue::new();
        for block in 0..4096 {
            let record = Record::Fill { volume: VolumeId(1), block, blocks: 1, is_zero: false };
            let (done, _pending) = oneshot();
            queue.push(Submission { drafts: vec![Draft::Record(record)], credits: Vec::new(), done });
        }
        assert_eq!((queue.bytes.get(), queue.len_max()), (4096 * 26, 4096));
        for left in (0..4096).rev() {
            assert!(queue.take_if(|_| true).is_some());
            assert_eq!(queue.bytes.get(), left * 26);
        }
        assert_eq!((queue.len(), queue.len_max()), (0, 4096));
    }
}
