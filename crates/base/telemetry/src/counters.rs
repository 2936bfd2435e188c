//! Counts and latencies of the requests of one volume through one door.

use std::cell::Cell;
use std::time::Duration;

use crate::histogram::{Histogram, HistogramSnapshot};
use crate::shape::{Shape, ShapeSnapshot};

/// The kinds of request that are counted apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Operation {
    /// Host reads.
    Read,
    /// Host writes.
    Write,
    /// Flushes.
    Flush,
    /// Unmap, trim, discard.
    Unmap,
    /// Writes of zeroes without a payload.
    WriteZeroes,
    /// Questions about what is allocated.
    Extents,
}

impl Operation {
    /// Every operation, in the order of the variants.
    pub const ALL: [Operation; 6] = [
        Operation::Read,
        Operation::Write,
        Operation::Flush,
        Operation::Unmap,
        Operation::WriteZeroes,
        Operation::Extents,
    ];

    /// The name in metrics and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush => "flush",
            Operation::Unmap => "unmap",
            Operation::WriteZeroes => "write_zeroes",
            Operation::Extents => "extents",
        }
    }
}

#[derive(Default)]
struct OperationCounters {
    completed: Cell<u64>,
    failed: Cell<u64>,
    bytes: Cell<u64>,
    latency: Histogram,
    shape: Shape,
}

/// The live counters that one shard writes.
#[derive(Default)]
pub struct Counters {
    operations: [OperationCounters; Operation::ALL.len()],
}

impl Counters {
    /// New counters, all zero.
    #[must_use]
    pub fn new() -> Counters {
        Counters::default()
    }

    /// Counts a request as it comes: its place and length tell what hosts ask for. Requests that are served
    /// side by side end in any order, so this is called before they are.
    pub fn arrived(&self, operation: Operation, offset: u64, bytes: u64) {
        self.operations[operation as usize].shape.record(offset, bytes);
    }

    /// Counts a request that was done. `bytes` is the length it asked for.
    pub fn completed(&self, operation: Operation, bytes: u64, latency: Duration) {
        let counters = &self.operations[operation as usize];
        counters.completed.set(counters.completed.get() + 1);
        counters.bytes.set(counters.bytes.get().saturating_add(bytes));
        counters.latency.record(latency);
    }

    /// Counts a request that was refused or failed. Its latency is left out: errors are quick or very
    /// slow, and would hide what served requests took.
    pub fn failed(&self, operation: Operation) {
        let counters = &self.operations[operation as usize];
        counters.failed.set(counters.failed.get() + 1);
    }

    /// The present counts.
    #[must_use]
    pub fn snapshot(&self) -> CountersSnapshot {
        CountersSnapshot {
            operations: self
                .operations
                .iter()
                .map(|counters| OperationSnapshot {
                    completed: counters.completed.get(),
                    failed: counters.failed.get(),
                    bytes: counters.bytes.get(),
                    latency: counters.latency.snapshot(),
                    shape: counters.shape.snapshot(),
                })
                .collect(),
        }
    }
}

/// What one operation's counters held at one moment.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct OperationSnapshot {
    /// Requests done.
    pub completed: u64,
    /// Requests refused or failed.
    pub failed: u64,
    /// Bytes of the requests done.
    pub bytes: u64,
    /// How long the requests done took.
    pub latency: HistogramSnapshot,
    /// What the requests that came look like.
    pub shape: ShapeSnapshot,
}

impl OperationSnapshot {
    /// What was counted since an earlier snapshot of the same counters.
    #[must_use]
    pub fn since(&self, before: &OperationSnapshot) -> OperationSnapshot {
        if before.completed > self.completed || before.failed > self.failed {
            // They began anew in between.
            return self.clone();
        }
        OperationSnapshot {
            completed: self.completed - before.completed,
            failed: self.failed - before.failed,
            bytes: self.bytes.saturating_sub(before.bytes),
            latency: self.latency.since(&before.latency),
            shape: self.shape.since(&before.shape),
        }
    }

    fn merge(&mut self, other: &OperationSnapshot) {
        self.completed += other.completed;
        self.failed += other.failed;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.latency.merge(&other.latency);
        self.shape.merge(&other.shape);
    }
}

/// What [`Counters`] held at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CountersSnapshot {
    operations: Vec<OperationSnapshot>,
}

impl Default for CountersSnapshot {
    fn default() -> CountersSnapshot {
        CountersSnapshot { operations: vec![OperationSnapshot::default(); Operation::ALL.len()] }
    }
}

impl CountersSnapshot {
    /// The counts of one operation.
    #[must_use]
    pub fn of(&self, operation: Operation) -> &OperationSnapshot {
        &self.operations[operation as usize]
    }

    /// What was counted since an earlier snapshot of the same counters.
    #[must_use]
    pub fn since(&self, before: &CountersSnapshot) -> CountersSnapshot {
        let pairs = self.operations.iter().zip(&before.operations);
        CountersSnapshot { operations: pairs.map(|(now, then)| now.since(then)).collect() }
    }

    /// Whether nothing was counted at all.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.operations.iter().all(|operation| operation.completed + operation.failed == 0)
    }

    /// Adds the counts of another snapshot.
    pub fn merge(&mut self, other: &CountersSnapshot) {
        for (mine, theirs) in self.operations.iter_mut().zip(&other.operations) {
            mine.merge(theirs);
        }
    }
}
