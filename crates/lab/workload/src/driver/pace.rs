//! When the next transaction is due.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::random::Random;
use crate::workload::Kind;

use super::plan::Loop;

/// The generator's stream of the arrivals; clients have their numbers.
const ARRIVALS_STREAM: u64 = u64::MAX;

/// Arrivals that all clients share: each is served once, in order.
pub(super) struct Schedule {
    per_second: f64,
    state: Mutex<(Random, Duration)>,
}

impl Schedule {
    /// Of an open loop.
    pub(super) fn of(pace: Loop, seed: u64) -> Option<Schedule> {
        match pace {
            Loop::Closed { .. } => None,
            Loop::Open { per_second } => {
                let state = Mutex::new((Random::new(seed, ARRIVALS_STREAM), Duration::ZERO));
                Some(Schedule { per_second, state })
            }
        }
    }

    /// The next arrival, since the run began.
    pub(super) fn take(&self) -> Duration {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (random, last) = &mut *state;
        *last += Duration::from_secs_f64(random.exponential() / self.per_second);
        *last
    }
}

/// One client's pace.
pub(super) enum Pace<'a> {
    /// It begins when it is ready.
    Closed {
        with_pauses: bool,
        /// When it has thought about the last one; `None` before the first.
        ready: Option<Duration>,
    },
    /// It takes the next arrival.
    Open(&'a Schedule),
}

impl<'a> Pace<'a> {
    pub(super) fn new(pace: Loop, schedule: Option<&'a Schedule>) -> Pace<'a> {
        match (pace, schedule) {
            (Loop::Closed { with_pauses }, _) => Pace::Closed { with_pauses, ready: None },
            (Loop::Open { .. }, Some(schedule)) => Pace::Open(schedule),
            (Loop::Open { .. }, None) => unreachable!("an open loop has a schedule"),
        }
    }

    /// When the next one, of this kind, is due; since the run began.
    pub(super) fn due(&self, kind: &Kind, random: &mut Random, now: Duration) -> Duration {
        match self {
            Pace::Open(schedule) => schedule.take(),
            Pace::Closed { with_pauses: false, ready } => ready.unwrap_or(now),
            // At the beginning all clients would type at the same time.
            Pace::Closed { with_pauses: true, ready } => {
                ready.unwrap_or_else(|| now + random.exponential_cut(kind.think)) + kind.keying
            }
        }
    }

    /// One of this kind ended.
    pub(super) fn ended(&mut self, kind: &Kind, random: &mut Random, now: Duration) {
        if let Pace::Closed { with_pauses, ready } = self {
            let think = if *with_pauses { random.exponential_cut(kind.think) } else { Duration::ZERO };
            *ready = Some(now + think);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_random_and_at_the_rate_asked_for() {
        let schedule = Schedule::of(Loop::Open { per_second: 1000.0 }, 1).unwrap();
        let times: Vec<f64> = (0..50_000).map(|_| schedule.take().as_secs_f64()).collect();
        assert!((49.0..51.0).contains(times.last().unwrap()), "{:?}", times.last());
        // Of a Poisson process, the number in a tenth of a second (100) varies with a variance of 100 too.
        let mut counts = vec![0.0_f64; 480];
        for time in times {
            if let Some(count) = counts.get_mut((time * 10.0) as usize) {
                *count += 1.0;
            }
        }
        let variance = counts.iter().map(|count| (count - 100.0).powi(2)).sum::<f64>() / 480.0;
        assert!((75.0..130.0).contains(&variance), "{variance}");
    }

    #[test]
    fn a_person_types_before_and_thinks_after() {
        let second = Duration::from_secs(1);
        let kind = Kind { name: "x", keying: second * 18, think: second * 12 };
        let mut random = Random::new(1, 0);
        let mut pace = Pace::new(Loop::Closed { with_pauses: true }, None);
        assert!(pace.due(&kind, &mut random, Duration::ZERO) >= second * 18);
        let mut thought = 0.0;
        for _ in 0..10_000 {
            pace.ended(&kind, &mut random, second * 100);
            let due = pace.due(&kind, &mut random, second * 100);
            assert!((118.0..=238.0).contains(&due.as_secs_f64()), "{due:?}");
            thought += due.as_secs_f64() - 118.0;
        }
        assert!((11.6..12.4).contains(&(thought / 10_000.0)), "{thought}");
    }

    #[test]
    fn without_pauses_the_next_one_is_due_when_the_last_one_ended() {
        let kind = Kind { name: "x", keying: Duration::MAX, think: Duration::MAX };
        let mut random = Random::new(1, 0);
        let mut pace = Pace::new(Loop::Closed { with_pauses: false }, None);
        let now = Duration::from_millis(5);
        assert_eq!(pace.due(&kind, &mut random, now), now);
        pace.ended(&kind, &mut random, now * 2);
        assert_eq!(pace.due(&kind, &mut random, now * 3), now * 2);
    }
}
