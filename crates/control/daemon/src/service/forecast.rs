//! When a pool will be full at the speed of the last hour.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The time that tells the speed.
const SPAN: Duration = Duration::from_hours(1);
/// Less tells nothing: a restore or a load is over by then.
const SPAN_MIN: Duration = Duration::from_mins(10);
/// Between two readings that are kept.
const STEP: Duration = Duration::from_mins(1);
/// So long before the end it is worth a word.
const WORTH_A_WORD: Duration = Duration::from_hours(24);
/// And again once it was this far off.
const FAR_OFF: Duration = Duration::from_hours(36);

/// Readings of what is alive in a pool, and whether its end was told.
#[derive(Clone, PartialEq, Eq, Default)]
pub(super) struct Forecast {
    readings: VecDeque<(Instant, u64)>,
    is_told: bool,
}

impl Forecast {
    /// Takes a reading; how long it is until the pool is full, when that is worth a word.
    pub(super) fn look(&mut self, now: Instant, alive_bytes: u64, usable_bytes: u64) -> Option<Duration> {
        let is_due = self.readings.back().is_none_or(|(last, _)| now.duration_since(*last) >= STEP);
        if !is_due {
            return None;
        }
        self.readings.push_back((now, alive_bytes));
        while self.readings.front().is_some_and(|(first, _)| now.duration_since(*first) > SPAN) {
            self.readings.pop_front();
        }
        let left = self.left(usable_bytes);
        let was_told = self.is_told;
        self.is_told = match left {
            Some(left) if left <= WORTH_A_WORD => true,
            Some(left) if left <= FAR_OFF => was_told,
            _ => false,
        };
        left.filter(|_| self.is_told && !was_told)
    }

    fn left(&self, usable_bytes: u64) -> Option<Duration> {
        let ((first, before), (last, alive)) = (self.readings.front()?, self.readings.back()?);
        let span = last.duration_since(*first);
        if span < SPAN_MIN || alive <= before {
            return None;
        }
        let speed = (alive - before) as f64 / span.as_secs_f64();
        let seconds = usable_bytes.saturating_sub(*alive) as f64 / speed;
        Some(Duration::from_secs_f64(seconds.min(SPAN.as_secs_f64() * 1e6)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn the_end_is_told_once_a_day_before_it() {
        let (start, mut forecast) = (Instant::now(), Forecast::default());
        let mut told = Vec::new();
        // A GiB an hour into a pool of 100, of which 70 are taken.
        for minute in 0..60 * 20 {
            let now = start + Duration::from_mins(minute);
            let alive = 70 * GIB + GIB * minute / 60;
            told.extend(forecast.look(now, alive, 100 * GIB).map(|left| (minute, left)));
        }
        let [(minute, left)] = told[..] else { panic!("told {told:?}") };
        assert_eq!((minute / 60, left.as_secs() / 3600), (6, 24 - u64::from(left < WORTH_A_WORD)));
    }

    #[test]
    fn a_pool_that_stands_still_or_empties_has_no_end() {
        let (start, mut forecast) = (Instant::now(), Forecast::default());
        for minute in 0..120 {
            let now = start + Duration::from_mins(minute);
            assert_eq!(forecast.look(now, 99 * GIB - GIB * (minute / 60), 100 * GIB), None);
        }
    }

    #[test]
    fn a_load_of_a_few_minutes_tells_nothing() {
        let (start, mut forecast) = (Instant::now(), Forecast::default());
        for minute in 0..9 {
            let now = start + Duration::from_mins(minute);
            assert_eq!(forecast.look(now, GIB * 8 * minute, 100 * GIB), None);
        }
    }
}
