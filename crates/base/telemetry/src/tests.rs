//! What callers rely on: exact counts, honest quantiles, snapshots that add up.

use std::time::Duration;

use crate::{Counters, Histogram, Operation, Registry};

fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

#[test]
fn quantiles_are_within_a_sixteenth_of_the_truth() {
    let histogram = Histogram::default();
    for n in 1..=10_000 {
        histogram.record(micros(n));
    }
    let snapshot = histogram.snapshot();
    assert_eq!(snapshot.count(), 10_000);
    assert_eq!(snapshot.max(), micros(10_000));
    for (fraction, truth) in [(0.5, 5_000), (0.9, 9_000), (0.99, 9_900), (0.999, 9_990)] {
        let found = snapshot.quantile(fraction).as_nanos() as f64 / 1000.0;
        let truth = f64::from(truth);
        assert!(found >= truth && found <= truth * 1.0625, "{fraction}: {found} instead of {truth}");
    }
    assert_eq!(snapshot.quantile(1.0), micros(10_000));
}

#[test]
fn an_empty_histogram_answers_zero() {
    let snapshot = Histogram::default().snapshot();
    assert_eq!(snapshot.quantile(0.99), Duration::ZERO);
    assert_eq!(snapshot.buckets().count(), 0);
}

#[test]
fn merged_histograms_equal_one_that_saw_everything() {
    let (low, high, all) = (Histogram::default(), Histogram::default(), Histogram::default());
    for n in 0..1000 {
        low.record(micros(n));
        high.record(micros(n * 1000));
        all.record(micros(n));
        all.record(micros(n * 1000));
    }
    let mut merged = low.snapshot();
    merged.merge(&high.snapshot());
    assert_eq!(merged, all.snapshot());
}

#[test]
fn operations_are_counted_apart_and_failures_leave_no_latency() {
    let counters = Counters::new();
    counters.completed(Operation::Read, 4096, micros(10));
    counters.completed(Operation::Read, 8192, micros(20));
    counters.failed(Operation::Write);
    let snapshot = counters.snapshot();
    assert_eq!(snapshot.of(Operation::Read).completed, 2);
    assert_eq!(snapshot.of(Operation::Read).bytes, 12_288);
    assert_eq!(snapshot.of(Operation::Write).failed, 1);
    assert_eq!(snapshot.of(Operation::Write).latency.count(), 0);
    assert_eq!(snapshot.of(Operation::Flush).completed, 0);
}

#[test]
fn snapshots_of_two_shards_merge_by_door_and_volume() {
    let (first, second) = (Registry::new(), Registry::new());
    first.counters("nbd", "b").completed(Operation::Write, 1, micros(1));
    first.counters("fuse", "b").completed(Operation::Write, 2, micros(1));
    second.counters("nbd", "a").completed(Operation::Write, 4, micros(1));
    second.counters("nbd", "b").completed(Operation::Write, 8, micros(1));
    let mut merged = first.snapshot();
    merged.merge(&second.snapshot());
    let keys: Vec<_> = merged.entries.iter().map(|e| (e.door.as_str(), e.volume.as_str())).collect();
    assert_eq!(keys, [("fuse", "b"), ("nbd", "a"), ("nbd", "b")]);
    assert_eq!(merged.volume("b").of(Operation::Write).bytes, 11);
    assert_eq!(merged.volume("a").of(Operation::Write).bytes, 4);
}

#[test]
fn a_forgotten_volume_starts_again_at_zero() {
    let registry = Registry::new();
    registry.counters("nbd", "v").completed(Operation::Read, 1, micros(1));
    registry.forget("v");
    assert_eq!(registry.counters("nbd", "v").snapshot().of(Operation::Read).completed, 0);
}
