//! What a disk counted since it was opened.

use std::sync::Mutex;
use std::time::Duration;

use crate::locked;

/// An answer is late that comes so much after its time. The timer and a busy processor alone take some tens
/// of microseconds; a tenth of the fastest drive's mean access is what begins to change a result.
const LATE_MIN: Duration = Duration::from_micros(500);

/// Requests of hosts, and what became of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Flushes, true or not.
    pub flushes: u64,
    /// Reads that the flash in front, the model's flash or memory, or a liar's memory, answered.
    pub cache_hits: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Answers that had a time, given by the model or the limit.
    pub paced: u64,
    /// Those of them that came half a millisecond or more after it.
    pub late: u64,
    /// Of these, whose bytes were not there in time: the file's device was the limit. With the others it was
    /// this machine's processors.
    pub late_by_file: u64,
    /// The most that one came after it.
    pub lateness_max: Duration,
    /// By how much all together came after it: divided by `paced`, the mean error of a latency.
    pub lateness_sum: Duration,
    /// From the arrival here to the answer, of all that had a time: divided by `paced`, the mean latency as
    /// the model has it. What the device's own counters have more is the way through the kernel, which nobody
    /// here sees.
    pub latency_sum: Duration,
    /// Flushes that were answered without being done, and reads that got something old.
    pub lies: u64,
}

impl Counters {
    /// The share of answers with a time that were late. Above 0.01 the machine was the limit, not the model.
    #[must_use]
    pub fn late_share(&self) -> f64 {
        if self.paced == 0 { 0.0 } else { self.late as f64 / self.paced as f64 }
    }
}

/// The counters of a disk that works.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<Counters>);

impl Tally {
    pub(crate) fn read(&self) -> Counters {
        *locked(&self.0)
    }

    pub(crate) fn add(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut locked(&self.0));
    }

    /// An answer came so long after the request, and so much after its time, because of the file or not.
    pub(crate) fn answered(&self, latency: Duration, lateness: Duration, is_by_file: bool) {
        self.add(|counters| {
            counters.paced += 1;
            let is_late = lateness >= LATE_MIN;
            counters.late += u64::from(is_late);
            counters.late_by_file += u64::from(is_late && is_by_file);
            counters.lateness_max = counters.lateness_max.max(lateness);
            counters.lateness_sum += lateness;
            counters.latency_sum += latency;
        });
    }
}
