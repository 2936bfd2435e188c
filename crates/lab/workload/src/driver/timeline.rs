//! The seconds of a run, put together from what all clients finished in them.

use ashlar_statistics::latencies::Latencies;
use std::collections::BTreeMap;

use super::outcome::{Second, SecondOfKind};

/// Percentiles of a second are worked out when it is this old, and its bins let go: a run of many hours must
/// not keep them all. Arbitrary, but longer than any answer is waited for; what comes in later still counts,
/// but no longer in the percentile.
const OPEN_SECONDS: u64 = 300;

/// All seconds so far.
#[derive(Default)]
pub(super) struct Timeline {
    open: BTreeMap<u64, Vec<Latencies>>,
    closed: BTreeMap<u64, Vec<SecondOfKind>>,
}

impl Timeline {
    /// Adds what a client finished in a second, by kind.
    pub(super) fn add(&mut self, second: u64, kinds: &[Latencies]) {
        if let Some(closed) = self.closed.get_mut(&second) {
            for (figures, late) in closed.iter_mut().zip(kinds) {
                figures.add_late(late);
            }
            return;
        }
        let open = self.open.entry(second).or_insert_with(|| vec![Latencies::default(); kinds.len()]);
        for (sum, more) in open.iter_mut().zip(kinds) {
            sum.merge(more);
        }
    }

    /// Lets go what is old.
    pub(super) fn tidy(&mut self, now_second: u64) {
        while let Some(entry) = self.open.first_entry()
            && entry.key() + OPEN_SECONDS < now_second
        {
            let (second, kinds) = entry.remove_entry();
            self.closed.insert(second, kinds.iter().map(SecondOfKind::of).collect());
        }
    }

    /// Every second up to `count`, also those in which nothing ended.
    pub(super) fn finish(mut self, count: u64, kind_count: usize) -> Vec<Second> {
        self.tidy(u64::MAX);
        let last = self.closed.keys().next_back().map_or(0, |second| second + 1);
        let figures = |second| {
            let nothing = || vec![SecondOfKind::default(); kind_count];
            Second { second, kinds: self.closed.remove(&second).unwrap_or_else(nothing) }
        };
        (0..count.max(last)).map(figures).collect()
    }
}

impl SecondOfKind {
    fn of(latencies: &Latencies) -> SecondOfKind {
        SecondOfKind {
            count: latencies.count(),
            mean_nanos: latencies.mean_nanos().map(|mean| mean.round() as u64),
            p99_nanos: latencies.histogram().percentile(0.99),
            max_nanos: latencies.max_nanos(),
        }
    }

    fn add_late(&mut self, late: &Latencies) {
        let Some(late_mean) = late.mean_nanos() else { return };
        let sum = self.mean_nanos.unwrap_or(0) as f64 * self.count as f64 + late_mean * late.count() as f64;
        self.count += late.count();
        self.mean_nanos = Some((sum / self.count as f64).round() as u64);
        self.max_nanos = self.max_nanos.max(late.max_nanos());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nanos: &[u64]) -> Latencies {
        let mut latencies = Latencies::default();
        nanos.iter().for_each(|nanos| latencies.add(*nanos));
        latencies
    }

    #[test]
    fn a_second_in_which_nothing_ended_is_there_and_empty() {
        let mut timeline = Timeline::default();
        timeline.add(0, &[of(&[10, 20])]);
        timeline.add(2, &[of(&[30])]);
        timeline.add(2, &[of(&[50])]);
        let seconds = timeline.finish(4, 1);
        assert_eq!(seconds.iter().map(|second| second.kinds[0].count).collect::<Vec<_>>(), [2, 0, 2, 0]);
        assert_eq!(seconds[2].kinds[0].mean_nanos, Some(40));
        assert_eq!(seconds[1].kinds[0], SecondOfKind::default());
    }

    #[test]
    fn what_comes_late_still_counts() {
        let mut timeline = Timeline::default();
        timeline.add(5, &[of(&vec![100; 1000])]);
        timeline.tidy(5 + OPEN_SECONDS + 1);
        assert!(timeline.open.is_empty());
        timeline.add(5, &[of(&[100_100])]);
        let figures = timeline.finish(0, 1)[5].kinds[0];
        assert_eq!((figures.count, figures.p99_nanos, figures.max_nanos), (1001, Some(100), Some(100_100)));
        assert!(figures.mean_nanos == Some(200));
    }
}
