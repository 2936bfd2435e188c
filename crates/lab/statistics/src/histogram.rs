//! Latencies as counts: merged as counts, so that no percentile is ever an average of percentiles.
//!
//! Made from the bins of fio's json+ output. fio names a bin by its middle, which is within 0.8 % of every
//! latency in it; so are the answers here. The exact maximum stands beside the bins in fio's output.

use std::collections::BTreeMap;

/// So many latencies must lie above a percentile before it is told: with fewer, chance decides it.
/// From the design, 5.4: n >= 10 / (1 - p).
const COUNT_ABOVE_MIN: u128 = 10;

/// Percentiles are counted in whole parts of this, because 0.9 as a float is not nine tenths: a hundred
/// latencies would then be too few for p90. Nine digits are more than any run has latencies for.
const PARTS: u128 = 1_000_000_000;

/// How often each latency was seen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Histogram {
    /// Count by latency in nanoseconds. No count is zero.
    counts: BTreeMap<u64, u64>,
}

impl Histogram {
    /// From pairs of a latency in nanoseconds and its count. A latency may come more than once.
    #[must_use]
    pub fn from_bins(bins: impl IntoIterator<Item = (u64, u64)>) -> Histogram {
        let mut histogram = Histogram::default();
        for (latency_nanos, count) in bins {
            histogram.add(latency_nanos, count);
        }
        histogram
    }

    /// Adds `count` latencies of `latency_nanos` nanoseconds each.
    pub fn add(&mut self, latency_nanos: u64, count: u64) {
        if count > 0 {
            let sum = self.counts.entry(latency_nanos).or_default();
            *sum = sum.saturating_add(count);
        }
    }

    /// Adds all latencies of another one, as those of another job or run.
    pub fn merge(&mut self, other: &Histogram) {
        for (latency_nanos, count) in &other.counts {
            self.add(*latency_nanos, *count);
        }
    }

    /// How many latencies there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The mean in nanoseconds; `None` of no latencies.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let sum: f64 = self.counts.iter().map(|(latency, count)| *latency as f64 * *count as f64).sum();
        (!self.counts.is_empty()).then(|| sum / self.count() as f64)
    }

    /// The longest latency in nanoseconds; `None` of no latencies.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        self.counts.keys().next_back().copied()
    }

    /// The smallest latency in nanoseconds that a share `p` of all latencies does not exceed (0.999 for
    /// p99.9), as fio counts it. `None` when fewer than 10 / (1 - p) were seen, and for a `p` outside 0..1.
    #[must_use]
    pub fn percentile(&self, p: f64) -> Option<u64> {
        if !(0.0..1.0).contains(&p) {
            return None;
        }
        let parts = (p * PARTS as f64).round() as u128;
        let count: u128 = self.counts.values().map(|count| u128::from(*count)).sum();
        if count * (PARTS - parts) < COUNT_ABOVE_MIN * PARTS {
            return None;
        }
        let rank = (count * parts).div_ceil(PARTS);
        let mut seen = 0;
        let is_reached = |(_, count): &(&u64, &u64)| {
            seen += u128::from(**count);
            seen >= rank
        };
        self.counts.iter().find(is_reached).map(|(latency, _)| *latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The latencies 1 to `last`, each once.
    fn one_to(last: u64) -> Histogram {
        Histogram::from_bins((1..=last).map(|latency| (latency, 1)))
    }

    #[test]
    fn percentiles_are_those_that_fio_prints_for_its_bins() {
        // fio 3.33, null engine, 1,000 reads: p50 30, p90 40, p99 41. Its mean 43.845 and maximum 11922 are
        // of the latencies themselves; the mean of the bins' middles is 43.891.
        let bins = [(20, 10), (29, 65), (30, 619), (31, 108), (40, 176), (41, 20), (60, 1), (11968, 1)];
        let histogram = Histogram::from_bins(bins);
        let percentiles = [0.5, 0.9, 0.99, 0.999].map(|p| histogram.percentile(p));
        assert_eq!(percentiles, [Some(30), Some(40), Some(41), None]);
        assert_eq!((histogram.count(), histogram.max()), (1000, Some(11968)));
        assert_eq!(histogram.mean(), Some(43.891));
    }

    #[test]
    fn a_percentile_is_told_only_with_ten_latencies_above_it() {
        for (p, count, rank) in [(0.5, 20, 10), (0.9, 100, 90), (0.99, 1000, 990), (0.999, 10_000, 9990)] {
            assert_eq!(one_to(count).percentile(p), Some(rank), "p {p}");
            assert_eq!(one_to(count - 1).percentile(p), None, "p {p} of one too few");
        }
    }

    #[test]
    fn what_is_no_share_has_no_percentile() {
        for p in [-0.1, 1.0, 0.999_999_999_9, 1.5, f64::NAN, f64::INFINITY] {
            assert_eq!(one_to(1000).percentile(p), None, "{p}");
        }
        assert_eq!(one_to(1000).percentile(0.0), Some(1));
    }

    #[test]
    fn merged_histograms_answer_as_one_of_all_latencies() {
        // 990 of 10 ns and 10 of 1,000 ns: p99 is 10 ns. The average of the two's percentiles would be 505.
        let mut merged = Histogram::from_bins([(10, 990)]);
        merged.merge(&Histogram::from_bins([(1000, 6), (1000, 4)]));
        assert_eq!(merged, Histogram::from_bins([(10, 990), (1000, 10)]));
        assert_eq!((merged.percentile(0.99), merged.mean()), (Some(10), Some(19.9)));
    }

    #[test]
    fn nothing_and_counts_of_zero_have_no_answers_and_huge_counts_do_not_overflow() {
        let empty = Histogram::from_bins([(5, 0)]);
        assert_eq!((empty.count(), empty.mean(), empty.max(), empty.percentile(0.5)), (0, None, None, None));
        let huge = Histogram::from_bins([(u64::MAX, u64::MAX), (0, u64::MAX), (0, 1)]);
        assert_eq!((huge.count(), huge.percentile(0.5)), (u64::MAX, Some(0)));
        assert!(huge.mean().is_some_and(f64::is_finite));
        assert_eq!(Histogram::from_bins([(0, 100)]).mean(), Some(0.0));
    }
}
