//! Latencies as counts in bins, 64 to each doubling: of any run length, and within 0.8 %.

use std::time::Duration;

/// A bin is as wide as 1/64 of its octave's start, so its middle is within 0.8 % of what is in it.
const BINS_PER_OCTAVE_BITS: u32 = 6;
const BINS_PER_OCTAVE: u64 = 1 << BINS_PER_OCTAVE_BITS;

/// How often latencies were seen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Latencies {
    counts: Vec<u64>,
    count: u64,
    sum_nanos: u128,
    max_nanos: u64,
}

impl Latencies {
    pub(crate) fn add(&mut self, latency: Duration) {
        let nanos = crate::nanos(latency);
        let bin = bin_of(nanos);
        if self.counts.len() <= bin {
            self.counts.resize(bin + 1, 0);
        }
        self.counts[bin] += 1;
        self.count += 1;
        self.sum_nanos += u128::from(nanos);
        self.max_nanos = self.max_nanos.max(nanos);
    }

    pub(crate) fn merge(&mut self, other: &Latencies) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.sum_nanos += other.sum_nanos;
        self.max_nanos = self.max_nanos.max(other.max_nanos);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The exact mean; `None` of no latencies.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        let mean = self.sum_nanos.checked_div(u128::from(self.count))?;
        Some(Duration::from_nanos(u64::try_from(mean).expect("a mean is at most the maximum")))
    }

    /// The exact maximum; `None` of no latencies.
    #[must_use]
    pub fn max(&self) -> Option<Duration> {
        (self.count > 0).then(|| Duration::from_nanos(self.max_nanos))
    }

    /// The latency that a share `p` of all does not exceed (0.99 for p99), within 0.8 %. `None` of no
    /// latencies, and for a `p` that is no share. Whether they are enough to tell it is the caller's to say.
    #[must_use]
    pub fn percentile(&self, p: f64) -> Option<Duration> {
        if self.count == 0 || !(0.0..=1.0).contains(&p) {
            return None;
        }
        let rank = ((self.count as f64 * p).ceil() as u64).clamp(1, self.count);
        let mut seen = 0;
        let is_reached = |count: &u64| {
            seen += count;
            seen >= rank
        };
        let bin = self.counts.iter().position(is_reached)?;
        Some(Duration::from_nanos(middle_of(bin).min(self.max_nanos)))
    }

    /// The bins that are not empty, as pairs of a middle in nanoseconds and a count: the form of fio's bins.
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let pairs = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        pairs.map(|(bin, count)| (middle_of(bin), *count))
    }
}

/// Below two octaves' worth of bins a bin is one nanosecond.
fn bin_of(nanos: u64) -> usize {
    if nanos < BINS_PER_OCTAVE {
        return nanos as usize;
    }
    let shift = nanos.ilog2() - BINS_PER_OCTAVE_BITS;
    let bin = u64::from(shift) * BINS_PER_OCTAVE + (nanos >> shift);
    bin as usize
}

fn middle_of(bin: usize) -> u64 {
    let bin = bin as u64;
    if bin < 2 * BINS_PER_OCTAVE {
        return bin;
    }
    let shift = bin / BINS_PER_OCTAVE - 1;
    let start = (bin - shift * BINS_PER_OCTAVE) << shift;
    start + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bin_s_middle_is_near_everything_in_it() {
        for nanos in (0..5000).chain([1 << 20, 123_456_789, 987_654_321_012, (1 << 50) - 1]) {
            let middle = middle_of(bin_of(nanos));
            assert!(middle.abs_diff(nanos) * 128 <= nanos, "{nanos} {middle}");
            assert!(nanos == 0 || bin_of(nanos - 1) <= bin_of(nanos));
        }
    }

    #[test]
    fn percentiles_count_from_the_shortest() {
        let mut latencies = Latencies::default();
        (1..=100).for_each(|nanos| latencies.add(Duration::from_nanos(nanos)));
        let percentile = |p| latencies.percentile(p).map(|latency| latency.as_nanos());
        assert_eq!([0.0, 0.5, 0.95, 0.99, 1.0].map(percentile), [1, 50, 95, 99, 100].map(Some));
        assert_eq!((latencies.count(), latencies.mean()), (100, Some(Duration::from_nanos(50))));
        assert_eq!([-0.1, 1.1, f64::NAN].map(percentile), [None; 3]);
        assert_eq!(Latencies::default().mean(), None);
        assert_eq!(Latencies::default().percentile(0.5), None);
        let mut twice = latencies.clone();
        twice.merge(&latencies);
        assert_eq!(twice.bins().map(|(_, count)| count).sum::<u64>(), 200);
        assert_eq!(twice.max(), latencies.max());
    }
}
