//! What a trader knows of orders that it sent or whose price it brought about: which wait for their result,
//! and which for their price.

use std::collections::VecDeque;

/// Of each kind; what was known longest is forgotten. Arbitrary: such trades stay as they are until the next
/// run calls them off, so a run with a broken mix neither grows nor stops.
const KNOWN_MAX: usize = 10_000;

/// An order that rests until somebody trades at its price.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Resting {
    pub(super) security: i32,
    pub(super) cents: i64,
}

/// A trader's own orders.
#[derive(Default, Debug)]
pub(super) struct Exchange {
    submitted: VecDeque<i64>,
    resting: VecDeque<Resting>,
}

impl Exchange {
    /// A trade waits for its result.
    pub(super) fn submit(&mut self, trade: i64) {
        keep(&mut self.submitted, trade);
    }

    pub(super) fn rest(&mut self, resting: Resting) {
        keep(&mut self.resting, resting);
    }

    /// The trade that has waited longest for its result.
    pub(super) fn next_submitted(&mut self) -> Option<i64> {
        self.submitted.pop_front()
    }

    pub(super) fn has_submitted(&self) -> bool {
        !self.submitted.is_empty()
    }

    /// Up to so many that have rested longest; they are forgotten here.
    pub(super) fn take_resting(&mut self, count: usize) -> Vec<Resting> {
        self.resting.drain(..count.min(self.resting.len())).collect()
    }
}

fn keep<T>(known: &mut VecDeque<T>, one: T) {
    if known.len() == KNOWN_MAX {
        known.pop_front();
    }
    known.push_back(one);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_first_is_served_first_and_no_more_are_kept_than_may_be() {
        let mut exchange = Exchange::default();
        (0..=KNOWN_MAX as i64).for_each(|trade| exchange.submit(trade));
        assert_eq!(exchange.next_submitted(), Some(1), "the first was forgotten");
        let resting = |security| Resting { security, cents: 5 };
        (1..=3).for_each(|security| exchange.rest(resting(security)));
        assert_eq!(exchange.take_resting(2), [resting(1), resting(2)]);
        assert_eq!(exchange.take_resting(9), [resting(3)]);
        assert!(exchange.has_submitted());
    }
}
