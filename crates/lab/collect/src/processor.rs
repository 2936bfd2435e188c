//! What watching costs.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Processor time of this thread so far.
pub(crate) fn of_this_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Processor time of another process so far, in the first field of its schedstat (kernel, sched-stats); none
/// where it has gone or does not lie on this machine.
pub(crate) fn of_process(pid: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|field| field.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}
