//! One drive: its queue, its head, and when the request it works on is done.
//!
//! The array calls it. A drive does one thing at a time; whenever it is free it takes, of the oldest
//! requests that wait, the one its discipline prefers. It never looks at the clock: `now` comes in.
//!
//! 1. A drive that has requests waiting is never idle.
//! 2. No request is passed over more than [`PASSED_OVER_MAX`] times.

pub mod discipline;
pub(crate) mod geometry;
pub(crate) mod head;
pub mod preset;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::Kind;
use discipline::{Discipline, PASSED_OVER_MAX};
use geometry::Geometry;
use head::{Head, Plan};

/// A request to one drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Access {
    /// The array's name for what waits for it.
    pub(crate) step: usize,
    pub(crate) kind: Kind,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl Access {
    /// The byte behind the last.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.length
    }
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    access: Access,
    passed_over: u32,
}

#[derive(Debug)]
pub(crate) struct Drive {
    head: Head,
    /// The oldest first.
    waiting: VecDeque<Waiting>,
    active: Option<Access>,
    busy_nanos: u64,
}

impl Drive {
    /// `phase` is where the platter stands at the start: spindles do not turn in step.
    pub(crate) fn new(phase: u64) -> Drive {
        Drive { head: Head::new(phase), waiting: VecDeque::new(), active: None, busy_nanos: 0 }
    }

    /// Requests it has, the one under way among them.
    pub(crate) fn queue(&self) -> usize {
        self.waiting.len() + usize::from(self.active.is_some())
    }

    /// How long it has been at work.
    pub(crate) fn busy_nanos(&self) -> u64 {
        self.busy_nanos
    }

    pub(crate) fn push(&mut self, access: Access) {
        assert!(access.length > 0, "an access of no bytes");
        self.waiting.push_back(Waiting { access, passed_over: 0 });
    }

    /// Takes the next request if it is free; answers when that will be done.
    pub(crate) fn start(
        &mut self,
        geometry: &Geometry,
        discipline: Discipline,
        window: usize,
        now: u64,
    ) -> Option<u64> {
        if self.active.is_some() || self.waiting.is_empty() {
            return None;
        }
        let (index, plan) = self.choose(geometry, discipline, window, now);
        for passed in self.waiting.range_mut(..index) {
            passed.passed_over += 1;
        }
        let taken = self.waiting.remove(index).expect("chosen among those that wait");
        assert!(plan.finish > now, "an access that takes no time, at {now}");
        self.busy_nanos += plan.finish - now;
        self.head.follow(&plan);
        self.active = Some(taken.access);
        Some(plan.finish)
    }

    /// The request under way is done.
    pub(crate) fn finish(&mut self) -> Access {
        self.active.take().expect("a drive finishes what it has begun")
    }

    fn choose(&self, geometry: &Geometry, discipline: Discipline, window: usize, now: u64) -> (usize, Plan) {
        let plan_of = |index: usize| self.head.plan(geometry, now, &self.waiting[index].access);
        let candidates = 0..self.waiting.len().min(window);
        if candidates.len() == 1 || self.waiting[0].passed_over >= PASSED_OVER_MAX {
            return (0, plan_of(0));
        }
        match discipline {
            Discipline::Fcfs => (0, plan_of(0)),
            Discipline::CScan => {
                let ahead = |index: &usize| {
                    let offset = self.waiting[*index].access.offset;
                    (offset < self.head.position(), offset)
                };
                let index = candidates.min_by_key(ahead).expect("somebody waits");
                (index, plan_of(index))
            }
            Discipline::Sptf => {
                let plans = candidates.map(|index| (index, plan_of(index)));
                plans.min_by_key(|(_, plan)| plan.begin).expect("somebody waits")
            }
        }
    }
}
