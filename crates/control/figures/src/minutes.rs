//! How slow one of a hundred requests was, minute by minute of a week: what objectives are judged by.

use std::collections::VecDeque;

use ashlar_api::HistoryRange;
use ashlar_telemetry::{CountersSnapshot, HistogramSnapshot, Operation};

use crate::rates::latency;

pub(crate) const MINUTE_MILLIS: u64 = 60_000;
/// As far back as the longest series goes.
pub(crate) const MINUTES_MAX: usize = (HistoryRange::Week.seconds() / 60) as usize;

/// A minute in which the array ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Minute {
    /// Counted since 1970.
    pub(crate) number: u64,
    /// The 99th percentile of its reads; 0 without any.
    pub(crate) reads_micros: u32,
    /// The 99th percentile of its writes; 0 without any.
    pub(crate) writes_micros: u32,
}

/// The minutes of an object, the oldest first, each once.
#[derive(Default)]
pub(crate) struct Minutes {
    minutes: VecDeque<Minute>,
    /// What was counted in the running minute so far.
    counted: CountersSnapshot,
    /// `None`: nothing was counted in this life.
    begun_millis: Option<u64>,
}

impl Minutes {
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Minute> {
        self.minutes.iter()
    }

    /// Adds what was counted between two moments. A minute ends with the first of these that reaches behind
    /// its end.
    pub(crate) fn add(&mut self, from_millis: u64, to_millis: u64, counted: &CountersSnapshot) {
        self.counted.merge(counted);
        let begun_millis = *self.begun_millis.get_or_insert(from_millis);
        let (number, now) = (begun_millis / MINUTE_MILLIS, to_millis / MINUTE_MILLIS);
        // A clock that was set back begins a minute anew.
        if number == now && to_millis >= begun_millis {
            return;
        }
        let counted = std::mem::take(&mut self.counted);
        self.begun_millis = Some(to_millis);
        while self.minutes.back().is_some_and(|last| last.number >= number.min(now)) {
            self.minutes.pop_back();
        }
        if now > number {
            let p99 = |operation| p99_micros(&counted.of(operation).latency);
            let (reads_micros, writes_micros) = (p99(Operation::Read), p99(Operation::Write));
            self.minutes.push_back(Minute { number, reads_micros, writes_micros });
        }
        while self.minutes.front().is_some_and(|first| first.number + (MINUTES_MAX as u64) < now) {
            self.minutes.pop_front();
        }
    }

    /// Takes in what was kept. Minutes of this life stay.
    pub(crate) fn put_before(&mut self, older: Vec<Minute>) {
        let first = self.minutes.front().map_or(u64::MAX, |minute| minute.number);
        let older = older.into_iter().filter(|minute| minute.number < first);
        self.minutes = older.chain(std::mem::take(&mut self.minutes)).collect();
    }
}

fn p99_micros(counted: &HistogramSnapshot) -> u32 {
    latency(counted).map_or(0, |found| u32::try_from(found.p99).unwrap_or(u32::MAX).max(1))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ashlar_telemetry::Counters;

    use super::*;

    const START: u64 = 28_000_000 * MINUTE_MILLIS;

    /// Reads that took so long.
    fn reads(micros: u64) -> CountersSnapshot {
        let counters = Counters::new();
        counters.completed(Operation::Read, 4096, Duration::from_micros(micros));
        counters.snapshot()
    }

    fn numbers(minutes: &Minutes) -> Vec<u64> {
        minutes.iter().map(|minute| minute.number - START / MINUTE_MILLIS).collect()
    }

    #[test]
    fn each_minute_is_of_its_own_requests_and_idle_ones_are_there() {
        let mut minutes = Minutes::default();
        for step in 0..18 {
            let from = START + step * 10_000;
            let counted = if step == 7 { reads(5000) } else { CountersSnapshot::default() };
            minutes.add(from, from + 10_000, &counted);
        }
        let found: Vec<(bool, u32)> =
            minutes.iter().map(|minute| (minute.reads_micros >= 5000, minute.writes_micros)).collect();
        assert_eq!(found, [(false, 0), (true, 0), (false, 0)]);
        assert_eq!(numbers(&minutes), [0, 1, 2]);
    }

    #[test]
    fn a_clock_that_is_set_back_leaves_each_minute_once_and_in_order() {
        let mut minutes = Minutes::default();
        let mut write = |from: u64, to: u64| minutes.add(START + from, START + to, &reads(100));
        write(0, 60_000);
        write(60_000, 120_000);
        write(120_000, 180_000);
        write(180_000, 65_000);
        write(65_000, 130_000);
        assert_eq!(numbers(&minutes), [0, 1]);
        for minute in 2..MINUTES_MAX as u64 + 100 {
            minutes.add(START + minute * MINUTE_MILLIS, START + (minute + 1) * MINUTE_MILLIS, &reads(1));
        }
        assert_eq!(minutes.iter().len(), MINUTES_MAX);
    }

    #[test]
    fn what_was_kept_comes_before_what_is_new() {
        let kept =
            |number| Minute { number: START / MINUTE_MILLIS + number, reads_micros: 7, writes_micros: 0 };
        let mut minutes = Minutes::default();
        minutes.add(START + 2 * MINUTE_MILLIS, START + 3 * MINUTE_MILLIS, &reads(100));
        minutes.put_before((0..4).map(kept).collect());
        assert_eq!(numbers(&minutes), [0, 1, 2]);
        assert!(minutes.iter().last().is_some_and(|last| last.reads_micros >= 100));
        minutes.put_before((0..4).map(kept).collect());
        assert_eq!(numbers(&minutes), [0, 1, 2]);
    }
}
