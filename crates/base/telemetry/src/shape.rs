//! What the requests of one kind look like: how long they are, and whether they follow one another.

use std::cell::Cell;

/// Classes end at powers of two: from 512 bytes, the smallest block of a host, to 32 MiB, the longest read or
/// write that a door takes. What is longer, as an unmap may be, is in the last class.
const FIRST_BITS: u32 = 9;
const LAST_BITS: u32 = 25;
const CLASSES: usize = (LAST_BITS - FIRST_BITS) as usize + 1;
/// A request follows another one that ended where it begins, among so many before it. Arbitrary: a few
/// streams side by side are seen, and what is random hardly ever looks like one.
const ENDS: usize = 8;
/// No request begins here.
const NOWHERE: u64 = u64::MAX;

fn class_of(bytes: u64) -> usize {
    let bits = u64::BITS - bytes.saturating_sub(1).leading_zeros();
    (bits.clamp(FIRST_BITS, LAST_BITS) - FIRST_BITS) as usize
}

/// What one shard writes.
pub(crate) struct Shape {
    sizes: [Cell<u64>; CLASSES],
    sequential: Cell<u64>,
    /// Where the last requests ended.
    ends: [Cell<u64>; ENDS],
    /// The place of the oldest of these.
    oldest: Cell<usize>,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            sizes: [const { Cell::new(0) }; CLASSES],
            sequential: Cell::new(0),
            ends: [const { Cell::new(NOWHERE) }; ENDS],
            oldest: Cell::new(0),
        }
    }
}

impl Shape {
    pub(crate) fn record(&self, offset: u64, bytes: u64) {
        let class = &self.sizes[class_of(bytes)];
        class.set(class.get() + 1);
        if self.ends.iter().any(|end| end.get() == offset) {
            self.sequential.set(self.sequential.get() + 1);
        }
        let oldest = self.oldest.get();
        self.ends[oldest].set(offset.saturating_add(bytes));
        self.oldest.set((oldest + 1) % ENDS);
    }

    pub(crate) fn snapshot(&self) -> ShapeSnapshot {
        ShapeSnapshot { sizes: self.sizes.each_ref().map(Cell::get), sequential: self.sequential.get() }
    }
}

/// What requests of one kind looked like at one moment.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ShapeSnapshot {
    sizes: [u64; CLASSES],
    sequential: u64,
}

impl ShapeSnapshot {
    /// Requests that came.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.sizes.iter().sum()
    }

    /// Those that began where one of the eight before them ended. Says nothing of flushes, which have no
    /// place.
    #[must_use]
    pub fn sequential(&self) -> u64 {
        self.sequential
    }

    /// The classes that are not empty, the smallest first: the longest request that each takes, in bytes, and
    /// its count.
    pub fn classes(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let ends = (FIRST_BITS..=LAST_BITS).map(|bits| 1_u64 << bits);
        ends.zip(self.sizes).filter(|(_, count)| *count > 0)
    }

    /// What came since an earlier snapshot.
    pub(crate) fn since(&self, before: &ShapeSnapshot) -> ShapeSnapshot {
        let mut between = self.clone();
        for (now, then) in between.sizes.iter_mut().zip(before.sizes) {
            *now = now.saturating_sub(then);
        }
        between.sequential = between.sequential.saturating_sub(before.sequential);
        between
    }

    pub(crate) fn merge(&mut self, other: &ShapeSnapshot) {
        for (mine, theirs) in self.sizes.iter_mut().zip(other.sizes) {
            *mine += theirs;
        }
        self.sequential += other.sequential;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape_of(requests: impl IntoIterator<Item = (u64, u64)>) -> ShapeSnapshot {
        let shape = Shape::default();
        requests.into_iter().for_each(|(offset, bytes)| shape.record(offset, bytes));
        shape.snapshot()
    }

    #[test]
    fn a_request_is_in_the_smallest_class_that_takes_it() {
        for (bytes, class) in [
            (0, 512),
            (1, 512),
            (512, 512),
            (513, 1024),
            (4096, 4096),
            (4097, 8192),
            (12_288, 16_384),
            (32 << 20, 32 << 20),
            (u64::MAX, 32 << 20),
        ] {
            assert_eq!(shape_of([(0, bytes)]).classes().collect::<Vec<_>>(), [(class, 1)], "{bytes}");
        }
    }

    #[test]
    fn streams_side_by_side_are_sequential_and_jumps_are_not() {
        let stream = |from: u64| (0..100_u64).map(move |step| (from + 4096 * step, 4096));
        assert_eq!(shape_of(stream(0)).sequential(), 99, "the first one follows nobody");
        let streams: Vec<_> = (0..8).map(|number| stream(number << 30).collect::<Vec<_>>()).collect();
        let side_by_side = (0..100_usize).flat_map(|step| streams.iter().map(move |one| one[step]));
        assert_eq!(shape_of(side_by_side).sequential(), 8 * 99);
        let backwards = (0..100_u64).rev().map(|step| (4096 * step, 4096));
        assert_eq!(shape_of(backwards).sequential(), 0);
        let again = (0..100).map(|_| (0, 4096));
        assert_eq!(shape_of(again).sequential(), 0);
        // More streams than are remembered.
        let of_many = |step: u64| (0..9_u64).map(move |number| ((number << 30) + 4096 * step, 4096));
        assert_eq!(shape_of((0..100).flat_map(of_many)).sequential(), 0);
    }

    #[test]
    fn what_came_in_between_is_told_and_shards_add_up() {
        let shape = Shape::default();
        shape.record(0, 8192);
        let before = shape.snapshot();
        shape.record(8192, 8192);
        shape.record(1 << 30, 512);
        let mut between = shape.snapshot().since(&before);
        assert_eq!((between.count(), between.sequential()), (2, 1));
        between.merge(&before);
        assert_eq!(between, shape.snapshot());
    }
}
