//! A latency histogram of fixed size: linear steps inside powers of two.
//!
//! Values are nanoseconds. Below 16 every value has its own bucket; above, each power of two is cut in
//! 16, so a bucket is at most 1/16 (6.25 %) wide. Recording is an index computation and one add, which
//! is why this is not the `hdrhistogram` crate: that one resizes and cannot live in `Cell`s.

use std::cell::Cell;
use std::time::Duration;

/// log2 of the linear steps in one power of two. Arbitrary: 6 % is finer than run-to-run noise.
const STEP_BITS: u32 = 4;
const STEPS: usize = 1 << STEP_BITS;
/// Values of 2^40 ns (18 minutes) and more share the last bucket; no request may take that long.
const VALUE_BITS_MAX: u32 = 40;
const BUCKETS: usize = STEPS * (VALUE_BITS_MAX - STEP_BITS + 1) as usize;

const fn bucket_of(nanos: u64) -> usize {
    if nanos < STEPS as u64 {
        return nanos as usize;
    }
    let bits = 63 - nanos.leading_zeros();
    if bits >= VALUE_BITS_MAX {
        return BUCKETS - 1;
    }
    let shift = bits - STEP_BITS;
    // The leading one is implied by the power of two, so only the next STEP_BITS bits count.
    (STEPS * (shift as usize + 1)) + ((nanos >> shift) as usize - STEPS)
}

/// The largest value that falls into a bucket.
const fn bucket_last(index: usize) -> u64 {
    if index < STEPS {
        return index as u64;
    }
    let shift = (index / STEPS - 1) as u32;
    let first = ((STEPS + index % STEPS) as u64) << shift;
    first + (1 << shift) - 1
}

const _: () = assert!(bucket_of(u64::MAX) == BUCKETS - 1);
const _: () = assert!(bucket_of((1 << VALUE_BITS_MAX) - 1) == BUCKETS - 1);

/// A histogram that one shard writes.
pub struct Histogram {
    counts: Box<[Cell<u64>; BUCKETS]>,
    sum_nanos: Cell<u64>,
    max_nanos: Cell<u64>,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            counts: Box::new([const { Cell::new(0) }; BUCKETS]),
            sum_nanos: Cell::new(0),
            max_nanos: Cell::new(0),
        }
    }
}

impl Histogram {
    /// Counts one latency.
    pub fn record(&self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let count = &self.counts[bucket_of(nanos)];
        count.set(count.get() + 1);
        self.sum_nanos.set(self.sum_nanos.get().saturating_add(nanos));
        self.max_nanos.set(self.max_nanos.get().max(nanos));
    }

    /// The present counts.
    #[must_use]
    pub fn snapshot(&self) -> HistogramSnapshot {
        // Trailing empty buckets are left out: most histograms end far below 18 minutes.
        let used = self.counts.iter().rposition(|count| count.get() > 0).map_or(0, |last| last + 1);
        let counts: Vec<u64> = self.counts[..used].iter().map(Cell::get).collect();
        HistogramSnapshot {
            count: counts.iter().sum(),
            counts,
            sum_nanos: self.sum_nanos.get(),
            max_nanos: self.max_nanos.get(),
        }
    }
}

/// What a histogram held at one moment.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct HistogramSnapshot {
    counts: Vec<u64>,
    count: u64,
    sum_nanos: u64,
    max_nanos: u64,
}

impl HistogramSnapshot {
    /// How many latencies were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of all latencies.
    #[must_use]
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_nanos)
    }

    /// The largest latency, exact.
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max_nanos)
    }

    /// The latency that `fraction` (0 to 1) of the records do not exceed, rounded up to the end of its
    /// bucket (at most 6.25 % too high). Zero when nothing was recorded.
    #[must_use]
    pub fn quantile(&self, fraction: f64) -> Duration {
        let rank = ((self.count as f64 * fraction.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_nanos(bucket_last(index).min(self.max_nanos));
            }
        }
        self.max()
    }

    /// The buckets that are not empty: the largest value each holds, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(index, count)| (Duration::from_nanos(bucket_last(index)), *count))
    }

    /// What was recorded since an earlier snapshot of the same histogram. Its largest latency is that of the
    /// bucket's end, at most 6.25 % too high.
    #[must_use]
    pub fn since(&self, before: &HistogramSnapshot) -> HistogramSnapshot {
        if before.count > self.count {
            // It began anew in between.
            return self.clone();
        }
        let earlier = before.counts.iter().copied().chain(std::iter::repeat(0));
        let counts: Vec<u64> =
            self.counts.iter().zip(earlier).map(|(now, then)| now.saturating_sub(then)).collect();
        let last = counts.iter().rposition(|count| *count > 0);
        HistogramSnapshot {
            count: counts.iter().sum(),
            sum_nanos: self.sum_nanos.saturating_sub(before.sum_nanos),
            max_nanos: last.map_or(0, |index| bucket_last(index).min(self.max_nanos)),
            counts,
        }
    }

    /// Adds the records of another snapshot.
    pub fn merge(&mut self, other: &HistogramSnapshot) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum_nanos = self.sum_nanos.saturating_add(other.sum_nanos);
        self.max_nanos = self.max_nanos.max(other.max_nanos);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_in_between_is_told_from_what_was_there() {
        let histogram = Histogram::default();
        histogram.record(Duration::from_millis(900));
        let before = histogram.snapshot();
        (0..99).for_each(|_| histogram.record(Duration::from_micros(100)));
        histogram.record(Duration::from_micros(400));
        let between = histogram.snapshot().since(&before);
        assert_eq!(between.count(), 100);
        assert_eq!(between.sum(), Duration::from_micros(99 * 100 + 400));
        let near = |found: Duration, micros: u64| {
            let nanos = found.as_nanos() as f64 / 1000.0;
            (micros as f64..micros as f64 * 1.07).contains(&nanos)
        };
        assert!(near(between.quantile(0.5), 100) && near(between.max(), 400), "{between:?}");
        assert_eq!(histogram.snapshot().since(&histogram.snapshot()).count(), 0);
        let anew = Histogram::default();
        anew.record(Duration::from_micros(7));
        assert_eq!(anew.snapshot().since(&before).max(), anew.snapshot().max(), "it began anew");
    }

    #[test]
    fn every_value_lies_in_the_bucket_whose_end_is_next_above_it() {
        let mut values: Vec<u64> = (0..5000).collect();
        for bits in 4..VALUE_BITS_MAX {
            values.extend([(1 << bits) - 1, 1 << bits, (1 << bits) + 1, (3 << (bits - 1)) + 7]);
        }
        for value in values {
            let index = bucket_of(value);
            assert!(value <= bucket_last(index), "{value} is above the end of bucket {index}");
            assert!(index == 0 || value > bucket_last(index - 1), "{value} belongs below bucket {index}");
            let error = bucket_last(index) - value;
            assert!(error as f64 <= value as f64 / STEPS as f64 + 1.0, "{value} is off by {error}");
        }
    }
}
