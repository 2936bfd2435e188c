//! What the requests of a volume look like, from its counters.

use ashlar_api::{IoProfile, RequestProfile, SizeClass};
use ashlar_telemetry::{CountersSnapshot, Operation};

/// What was counted of a volume: in so many seconds, or since the array started.
#[must_use]
pub fn io_profile(volume: &str, counted_seconds: Option<u64>, counted: &CountersSnapshot) -> IoProfile {
    let count = |operation| counted.of(operation).shape.count();
    IoProfile {
        volume: volume.to_string(),
        counted_seconds,
        reads: of_kind(counted, Operation::Read),
        writes: of_kind(counted, Operation::Write),
        unmap_count: count(Operation::Unmap),
        write_zeroes_count: count(Operation::WriteZeroes),
        flush_count: count(Operation::Flush),
    }
}

fn of_kind(counted: &CountersSnapshot, operation: Operation) -> RequestProfile {
    let shape = &counted.of(operation).shape;
    RequestProfile {
        count: shape.count(),
        sequential_count: shape.sequential(),
        sizes: shape.classes().map(|(up_to_bytes, count)| SizeClass { up_to_bytes, count }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use ashlar_telemetry::Counters;

    use super::*;

    #[test]
    fn kinds_are_told_apart_with_their_sizes_and_order() {
        let counters = Counters::new();
        (0..10).for_each(|step| counters.arrived(Operation::Write, 8192 * step, 8192));
        (0..4).for_each(|step| counters.arrived(Operation::Read, 1 << (20 + step), 512));
        counters.arrived(Operation::Read, 0, 12_288);
        counters.arrived(Operation::Unmap, 0, 1 << 40);
        counters.arrived(Operation::Flush, 0, 0);
        let found = io_profile("db", Some(3), &counters.snapshot());
        let class = |up_to_bytes, count| SizeClass { up_to_bytes, count };
        assert_eq!(found.writes.sizes, [class(8192, 10)]);
        assert_eq!((found.writes.count, found.writes.sequential_count), (10, 9));
        assert_eq!(found.reads.sizes, [class(512, 4), class(16_384, 1)]);
        assert_eq!((found.reads.count, found.reads.sequential_count), (5, 0));
        assert_eq!((found.unmap_count, found.write_zeroes_count, found.flush_count), (1, 0, 1));
    }
}
