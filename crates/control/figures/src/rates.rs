//! Figures of one interval.

use std::collections::BTreeMap;
use std::time::Duration;

use ashlar_api::{Latency, Rates, StageTime};
use ashlar_telemetry::{CountersSnapshot, HistogramSnapshot, Operation, Snapshot};

/// Counters of each volume, over all doors.
pub type ByVolume = BTreeMap<String, CountersSnapshot>;

/// Adds up the doors of each volume.
#[must_use]
pub fn by_volume(snapshot: &Snapshot) -> ByVolume {
    let mut volumes = ByVolume::new();
    for entry in &snapshot.entries {
        match volumes.get_mut(&entry.volume) {
            Some(counters) => counters.merge(&entry.counters),
            None => drop(volumes.insert(entry.volume.clone(), entry.counters.clone())),
        }
    }
    volumes
}

/// Adds up volumes.
#[must_use]
pub fn sum<'a>(volumes: impl Iterator<Item = &'a CountersSnapshot>) -> CountersSnapshot {
    let mut all = CountersSnapshot::default();
    volumes.for_each(|counters| all.merge(counters));
    all
}

/// What was counted in an interval, for each second of it.
#[must_use]
pub fn rates(counted: &CountersSnapshot, interval: Duration) -> Rates {
    let seconds = interval.as_secs_f64().max(f64::MIN_POSITIVE);
    let each_second = |count: u64| count as f64 / seconds;
    let (reads, writes) = (counted.of(Operation::Read), counted.of(Operation::Write));
    let others = [Operation::Flush, Operation::Unmap, Operation::WriteZeroes];
    Rates {
        reads_per_second: each_second(reads.completed),
        writes_per_second: each_second(writes.completed),
        others_per_second: each_second(others.iter().map(|other| counted.of(*other).completed).sum()),
        errors_per_second: each_second(Operation::ALL.iter().map(|one| counted.of(*one).failed).sum()),
        read_bytes_per_second: each_second(reads.bytes),
        write_bytes_per_second: each_second(writes.bytes),
        read_latency_micros: latency(&reads.latency),
        write_latency_micros: latency(&writes.latency),
    }
}

/// A stage's name, and what it took: at the beginning of an interval and at its end.
pub type StagePair<'a> = (&'a str, &'a HistogramSnapshot, &'a HistogramSnapshot);

/// What stages took in an interval, of so many requests.
#[must_use]
pub fn stage_times<'a>(requests: u64, stages: impl Iterator<Item = StagePair<'a>>) -> Vec<StageTime> {
    if requests == 0 {
        return Vec::new();
    }
    let of_stage = |(stage, before, now): StagePair<'a>| {
        let between = now.since(before);
        StageTime {
            stage: stage.to_string(),
            mean_micros: between.sum().as_nanos() as f64 / 1000.0 / requests as f64,
            p99_micros: micros(between.quantile(0.99)),
        }
    };
    stages.map(of_stage).collect()
}

fn micros(time: Duration) -> u64 {
    time.as_nanos().div_ceil(1000) as u64
}

pub(crate) fn latency(counted: &HistogramSnapshot) -> Option<Latency> {
    (counted.count() > 0).then(|| Latency {
        p50: micros(counted.quantile(0.5)),
        p99: micros(counted.quantile(0.99)),
        max: micros(counted.max()),
    })
}

#[cfg(test)]
mod tests {
    use ashlar_telemetry::Counters;

    use super::*;

    #[test]
    fn figures_are_those_of_the_interval_alone() {
        let counters = Counters::new();
        counters.completed(Operation::Read, 4096, Duration::from_millis(50));
        let before = counters.snapshot();
        for _ in 0..20 {
            counters.completed(Operation::Write, 8192, Duration::from_micros(200));
        }
        counters.completed(Operation::Flush, 0, Duration::from_micros(1));
        counters.failed(Operation::Unmap);
        let found = rates(&counters.snapshot().since(&before), Duration::from_secs(2));
        assert_eq!((found.reads_per_second, found.writes_per_second), (0.0, 10.0));
        assert_eq!((found.others_per_second, found.errors_per_second), (0.5, 0.5));
        assert_eq!((found.read_bytes_per_second, found.write_bytes_per_second), (0.0, 81920.0));
        assert_eq!(found.read_latency_micros, None, "the read came before");
        let latency = found.write_latency_micros.expect("there were writes");
        assert!((200..=213).contains(&latency.p50) && latency.max == latency.p99, "{latency:?}");
    }
}
