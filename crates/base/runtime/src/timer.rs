//! Timers in deadline order; a dropped sleep leaves nothing behind.

use std::collections::BTreeMap;
use std::task::Waker;

use crate::Instant;

/// Names one timer: its deadline, then the order of arming.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct TimerKey {
    deadline: Instant,
    sequence: u64,
}

#[derive(Default)]
pub(crate) struct Timers {
    armed: BTreeMap<TimerKey, Waker>,
    next_sequence: u64,
}

impl Timers {
    pub(crate) fn arm(&mut self, deadline: Instant, waker: Waker) -> TimerKey {
        let key = TimerKey { deadline, sequence: self.next_sequence };
        self.next_sequence += 1;
        self.armed.insert(key, waker);
        key
    }

    /// Replaces the waker; false when the timer has fired.
    pub(crate) fn update(&mut self, key: TimerKey, waker: &Waker) -> bool {
        match self.armed.get_mut(&key) {
            Some(old) => {
                old.clone_from(waker);
                true
            }
            None => false,
        }
    }

    pub(crate) fn disarm(&mut self, key: TimerKey) -> Option<Waker> {
        self.armed.remove(&key)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.armed.is_empty()
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.armed.keys().next().map(|key| key.deadline)
    }

    /// Takes the first timer due at `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Waker> {
        let entry = self.armed.first_entry()?;
        if entry.key().deadline > now {
            return None;
        }
        Some(entry.remove())
    }

    pub(crate) fn clear(&mut self) -> BTreeMap<TimerKey, Waker> {
        std::mem::take(&mut self.armed)
    }
}
