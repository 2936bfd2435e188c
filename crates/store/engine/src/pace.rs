//! Pace of work behind the hosts' backs that keeps drives busy: rebuild, scrub and check.
//!
//! A drive serves what it was asked for in its own order, so that priority on the processor is not enough:
//! while hosts are at work, the drives are left to them for a multiple of the time each piece took. While a
//! volume misses its floor they are left to them for longer (see [`precedence`](crate::precedence)), but for
//! work that keeps data safe or makes room.

use std::time::Duration;

use ashlar_runtime::Instant;

use crate::engine::Inner;

/// How long pauses are while hosts are at work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PauseTimes {
    /// So many times as long as the work before them.
    times: u32,
    /// And longer while a volume misses its floor.
    is_stretched: bool,
}

/// A tenth of the drives' time at most.
pub(crate) const PATIENT: PauseTimes = PauseTimes { times: 9, is_stretched: true };
/// Half of it: the cleaner waits.
pub(crate) const AS_LONG: PauseTimes = PauseTimes { times: 1, is_stretched: true };
/// As much, whoever waits: the next drive that is lost would take data along.
pub(crate) const IN_DANGER: PauseTimes = PauseTimes { times: 1, is_stretched: false };

/// The longest pause, before it is stretched. A piece that took longer waited for hosts itself.
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
            let stretch = if times.is_stretched { self.gate.stretch() } else { 1 };
            self.runtime.sleep((took * times.times).min(PAUSE_MAX) * stretch).await;
        }
        self.begin_pace()
    }

    /// The same for work that does not pause by itself: only while a volume misses its floor, and no room is
    /// wanted at once.
    pub(crate) async fn stand_aside(&self, pace: Pace) -> Pace {
        let may_stretch = self.gate.has_floors() && !self.is_room_short();
        let stretch = if may_stretch { self.gate.stretch() } else { 1 };
        if stretch == 1 {
            self.runtime.yield_now().await;
        } else {
            let took = self.runtime.now().duration_since(pace.since);
            self.runtime.sleep((took * stretch).min(PAUSE_MAX)).await;
        }
        self.begin_pace()
    }

    fn host_bytes(&self) -> u64 {
        let counters = self.counters.borrow();
        counters.host_bytes_read + counters.host_bytes_written
    }
}
