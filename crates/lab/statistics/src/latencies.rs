//! Latencies as they are recorded and kept: counts by latency, narrow enough that nothing is lost.

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;

/// Each doubling of the latency has so many bins: a bin's middle is within 0.4 % of all in it.
const BINS_PER_DOUBLING_BITS: u32 = 7;

/// Counts by latency. Merged as counts, so that no percentile is ever made of percentiles.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Latencies {
    /// The middle of a bin in nanoseconds, and how many latencies fell into it; in order.
    bins: Vec<(u64, u64)>,
    /// Of the latencies themselves, for an exact mean.
    sum_nanos: u64,
    /// The longest itself.
    max_nanos: u64,
}

impl Latencies {
    /// Adds one.
    pub fn add(&mut self, nanos: u64) {
        self.add_bin(middle(nanos), 1);
        self.sum_nanos = self.sum_nanos.saturating_add(nanos);
        self.max_nanos = self.max_nanos.max(nanos);
    }

    /// Adds all of another one.
    pub fn merge(&mut self, other: &Latencies) {
        for (bin, count) in &other.bins {
            self.add_bin(*bin, *count);
        }
        self.sum_nanos = self.sum_nanos.saturating_add(other.sum_nanos);
        self.max_nanos = self.max_nanos.max(other.max_nanos);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.bins.iter().map(|(_, count)| count).sum()
    }

    /// The exact mean in nanoseconds; `None` of none.
    #[must_use]
    pub fn mean_nanos(&self) -> Option<f64> {
        (!self.bins.is_empty()).then(|| self.sum_nanos as f64 / self.count() as f64)
    }

    /// The longest in nanoseconds; `None` of none.
    #[must_use]
    pub fn max_nanos(&self) -> Option<u64> {
        (!self.bins.is_empty()).then_some(self.max_nanos)
    }

    /// The middles of bins in nanoseconds with their counts, in order.
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.bins.iter().copied()
    }

    /// For percentiles: see [`Histogram::percentile`], which refuses what too few latencies cannot tell.
    #[must_use]
    pub fn histogram(&self) -> Histogram {
        Histogram::from_bins(self.bins.iter().copied())
    }

    fn add_bin(&mut self, bin: u64, count: u64) {
        match self.bins.binary_search_by_key(&bin, |(middle, _)| *middle) {
            Ok(index) => self.bins[index].1 += count,
            Err(index) => self.bins.insert(index, (bin, count)),
        }
    }
}

/// The middle of the bin of a latency.
fn middle(nanos: u64) -> u64 {
    let bits = u64::BITS - nanos.leading_zeros();
    let shift = bits.saturating_sub(BINS_PER_DOUBLING_BITS + 1);
    ((nanos >> shift) << shift) + ((1 << shift) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bin_is_within_a_half_percent_of_what_is_in_it() {
        let mut nanos = 1_u64;
        while nanos < 1 << 60 {
            for near in [nanos - 1, nanos, nanos + nanos / 3] {
                let off = middle(near).abs_diff(near) as f64;
                assert!(off <= near as f64 * 0.004, "{near} in {}", middle(near));
            }
            nanos *= 2;
        }
        assert_eq!([0, 1, 100, 255].map(middle), [0, 1, 100, 255]);
    }

    #[test]
    fn merged_latencies_are_as_if_recorded_together() {
        let (mut odd, mut even, mut all) = (Latencies::default(), Latencies::default(), Latencies::default());
        for nanos in (0..100_000_u64).map(|number| number * 37) {
            if nanos % 2 == 1 {
                odd.add(nanos)
            } else {
                even.add(nanos)
            }
            all.add(nanos);
        }
        odd.merge(&even);
        assert_eq!(odd, all);
        assert_eq!((all.count(), all.max_nanos()), (100_000, Some(99_999 * 37)));
        assert_eq!(all.mean_nanos(), Some(99_999.0 * 37.0 / 2.0));
        let p99 = all.histogram().percentile(0.99).unwrap() as f64;
        assert!((p99 / (99_000.0 * 37.0) - 1.0).abs() < 0.005, "{p99}");
    }

    #[test]
    fn none_have_no_answers() {
        let none = Latencies::default();
        assert_eq!((none.count(), none.mean_nanos(), none.max_nanos()), (0, None, None));
    }
}
