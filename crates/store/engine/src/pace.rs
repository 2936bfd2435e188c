//! Pace of work behind the hosts' backs that keeps drives busy: rebuild, scrub and check.
//!
//! A drive serves what it was asked for in its own order, so that priority on the processor is not enough:
//! while hosts are at work, the drives are left to them for a multiple of the time each piece took.

use std::time::Duration;

use ashlar_runtime::Instant;

use crate::engine::Inner;

/// How long pauses are while hosts are at work: so many times as long as the work before them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PauseTimes(u32);

/// A tenth of the drives' time at most.
pub(crate) const PATIENT: PauseTimes = PauseTimes(9);
/// Half of it: the cleaner waits.
pub(crate) const AS_LONG: PauseTimes = PauseTimes(1);
/// As much: the next drive that is lost would take data along.
pub(crate) const IN_DANGER: PauseTimes = AS_LONG;

/// The longest pause. A piece that took longer waited for hosts itself.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Since when a piece of work goes on, and what hosts had moved by then.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    since: Instant,
    host_bytes: u64,
}

impl Inner {
    /// Work begins.
    pub(crate) fn begin_pace(&self) -> Pace {
        Pace { since: self.runtime.now(), host_bytes: self.host_bytes() }
    }

    /// Between two pieces of work: gives way to hosts, if there are any.
    pub(crate) async fn give_way(&self, pace: Pace, times: PauseTimes) -> Pace {
        let took = self.runtime.now().duration_since(pace.since);
        if self.host_bytes() == pace.host_bytes {
            self.runtime.yield_now().await;
        } else {
            self.runtime.sleep((took * times.0).min(PAUSE_MAX)).await;
        }
        self.begin_pace()
    }

    fn host_bytes(&self) -> u64 {
        let counters = self.counters.borrow();
        counters.host_bytes_read + counters.host_bytes_written
    }
}
