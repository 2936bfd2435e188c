//! Latencies counted by class: what heat maps and histograms are drawn of.

use ashlar_telemetry::HistogramSnapshot;

/// Classes end at powers of two nanoseconds, where the counted buckets end exactly: 16 µs to 8.6 s. The last
/// class has no end.
const FIRST_BITS: u32 = 14;
const LAST_BITS: u32 = 33;
const CLASSES: usize = (LAST_BITS - FIRST_BITS) as usize + 2;

/// Where the classes end, in microseconds; the last one has no end and is not named.
#[must_use]
pub fn bounds_micros() -> Vec<f64> {
    (FIRST_BITS..=LAST_BITS).map(|bits| (1_u64 << bits) as f64 / 1000.0).collect()
}

/// Requests by class, from the fastest on. Empty classes at the end are left out.
#[must_use]
pub fn classes(latencies: &HistogramSnapshot) -> Box<[u32]> {
    let mut counts = [0_u32; CLASSES];
    for (end, count) in latencies.buckets() {
        let bits = u64::BITS - (end.as_nanos() as u64).leading_zeros();
        let class = bits.clamp(FIRST_BITS, LAST_BITS + 1) - FIRST_BITS;
        let class = &mut counts[class as usize];
        *class = class.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
    }
    let used = counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    counts[..used].into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ashlar_telemetry::{Counters, Operation};

    use super::*;

    #[test]
    fn each_latency_is_below_the_end_of_its_class_and_not_of_the_one_before() {
        let bounds = bounds_micros();
        assert_eq!((bounds.len(), bounds[0]), (CLASSES - 1, 16.384));
        for micros in [1, 16, 17, 100, 1000, 8191, 8193, 500_000, 8_000_000, 60_000_000] {
            let counters = Counters::new();
            counters.completed(Operation::Read, 4096, Duration::from_micros(micros));
            let counts = classes(&counters.snapshot().of(Operation::Read).latency);
            assert_eq!(counts.iter().sum::<u32>(), 1);
            let class = counts.len() - 1;
            let below = bounds.iter().filter(|bound| **bound <= micros as f64).count();
            assert_eq!(class, below, "{micros} µs: {counts:?}");
        }
        assert!(classes(&HistogramSnapshot::default()).is_empty());
    }
}
