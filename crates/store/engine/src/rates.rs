//! How much hosts may ask of a volume in a second: notes about it, and the turns its requests take.
//!
//! A request goes on when the time that it takes by the volume's rates has room on the volume's clock. This
//! is the virtual scheduling form of the generic cell rate algorithm (ITU-T I.371, annex A): a clock for
//! requests and one for bytes, each moved on by what a request takes. A clock that lags behind by less than
//! the burst holds nobody up.
//!
//! Invariants:
//! 1. In any time no more begins than the rate allows for that time and the burst, and one request.
//! 2. Requests of a volume go on in the order in which they came, by whatever door. So none starves.
//! 3. A request waits for its own volume only.
//! 4. Flushes are not held back: what was written before is already late enough.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use ashlar_format::allowance::{ALLOWANCE_VERSION, decode, encode};
use ashlar_format::note_kind::NoteKind;
use ashlar_format::notes::NoteKey;
use ashlar_runtime::Instant;
use ashlar_units::{Lsn, VolumeId};

use crate::engine::Inner;
use crate::notebook::{NoteBatch, Notebook};
use crate::stages::{Course, Stage};
use crate::under_way::Change;
use crate::{Error, ErrorKind, Result};

/// Parts of a volume's note of its limits; part 0 is of bytes on the drives.
const REQUESTS: u16 = 1;
const BYTES: u16 = 2;
const BURST: u16 = 3;

/// Fewer would hold a host's request up for longer than it waits.
const REQUESTS_MIN: u64 = 10;
const BYTES_MIN: u64 = 1 << 20;
const BURST_SECONDS_MAX: u64 = 3600;

/// What may be made up for without a burst: timers and hosts are late, and would never reach the rate.
const SLACK: Duration = Duration::from_millis(10);
/// A request that waits looks so often whether its rates have changed or the pool is closing.
const LOOK: Duration = Duration::from_millis(50);

/// How much hosts may ask of a volume in a second. What is absent is not limited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rates {
    /// Reads, writes, unmaps and writes of zeroes.
    pub requests_per_second: Option<u64>,
    /// Bytes read and written.
    pub bytes_per_second: Option<u64>,
    /// So many seconds of its rates a volume that was idle may take at once.
    pub burst_seconds: Option<u64>,
}

impl Rates {
    /// What the notes of a volume say.
    pub(crate) fn of(notebook: &Notebook, id: VolumeId) -> Rates {
        let noted = |part| {
            let note = notebook.get(NoteKey { kind: NoteKind::Limit.code(), subject: id.0, part })?;
            decode(note.version, &note.value).filter(|value| *value > 0)
        };
        Rates {
            requests_per_second: noted(REQUESTS),
            bytes_per_second: noted(BYTES),
            burst_seconds: noted(BURST),
        }
    }

    /// The changes that make these of others.
    pub(crate) fn note(self, before: Rates, id: VolumeId) -> NoteBatch {
        let parts = [
            (REQUESTS, before.requests_per_second, self.requests_per_second),
            (BYTES, before.bytes_per_second, self.bytes_per_second),
            (BURST, before.burst_seconds, self.burst_seconds),
        ];
        parts.into_iter().fold(NoteBatch::new(), |batch, (part, before, now)| match now {
            _ if before == now => batch,
            Some(value) => batch.put(NoteKind::Limit, id.0, part, ALLOWANCE_VERSION, encode(value)),
            None => batch.delete(NoteKind::Limit, id.0, part),
        })
    }

    /// Refuses what no volume can have.
    pub(crate) fn check(self, name: &str) -> Result<()> {
        let refused = |what: String, action: &str| {
            Err(Error::new(ErrorKind::Invalid, format!("volume {name}: {what}")).and_do(action))
        };
        let (requests, bytes) = (self.requests_per_second, self.bytes_per_second);
        match self.burst_seconds {
            _ if requests.is_some_and(|requests| requests < REQUESTS_MIN) => {
                let what = format!("fewer than {REQUESTS_MIN} requests a second are not possible");
                refused(what, "allow more, or take the limit away with `--iops none`")
            }
            _ if bytes.is_some_and(|bytes| bytes < BYTES_MIN) => refused(
                "less than 1 MiB a second is not possible".into(),
                "allow more, or take the limit away with `--bandwidth none`",
            ),
            Some(seconds) if seconds > BURST_SECONDS_MAX => {
                refused(format!("a burst of {seconds} seconds is longer than an hour"), "allow a shorter one")
            }
            Some(_) if (requests, bytes) == (None, None) => {
                let action =
                    "limit requests or bytes a second, too, or take the burst away with `--burst none`";
                refused("a burst needs a rate".into(), action)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Without a burst where there is no rate.
    pub(crate) fn or_none(self) -> Rates {
        if self.is_limited() { self } else { Rates::default() }
    }

    fn is_limited(self) -> bool {
        (self.requests_per_second, self.bytes_per_second) != (None, None)
    }
}

/// Where the requests of a volume stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Clocks {
    rates: Rates,
    requests: Instant,
    bytes: Instant,
}

impl Clocks {
    /// When a request of so many bytes goes on that comes now.
    fn take(&mut self, now: Instant, bytes: u64) -> Instant {
        let burst = self.rates.burst_seconds.map_or(SLACK, Duration::from_secs).max(SLACK);
        let earliest = now - burst;
        let lines = [
            (&mut self.requests, 1, self.rates.requests_per_second),
            (&mut self.bytes, bytes, self.rates.bytes_per_second),
        ];
        lines.into_iter().fold(now, |goes_on, (clock, amount, per_second)| {
            let Some(per_second) = per_second else { return goes_on };
            let begin = (*clock).max(earliest);
            *clock = begin + time_of(amount, per_second);
            goes_on.max(begin)
        })
    }
}

fn time_of(amount: u64, per_second: u64) -> Duration {
    let nanos = u128::from(amount) * 1_000_000_000 / u128::from(per_second.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The volumes whose rates are limited.
#[derive(Default)]
pub(crate) struct Turns {
    volumes: RefCell<BTreeMap<VolumeId, Clocks>>,
    /// The record of the notebook that this is of.
    seen: Cell<Option<Lsn>>,
}

impl Turns {
    /// Follows the notebook. Who keeps his rates keeps his clocks.
    fn follow(&self, notebook: &Notebook) {
        let limits = Some(notebook.limits_lsn());
        if self.seen.replace(limits) == limits {
            return;
        }
        let before = self.volumes.take();
        let kind = NoteKind::Limit.code();
        let noted = notebook.range(kind, 0..=u64::MAX).filter(|note| note.key.part != 0);
        let ids: Vec<VolumeId> = noted.map(|note| VolumeId(note.key.subject)).collect();
        let clocks = ids.into_iter().map(|id| {
            let rates = Rates::of(notebook, id);
            let kept = before.get(&id).filter(|clocks| clocks.rates == rates);
            (id, kept.copied().unwrap_or(Clocks { rates, ..Clocks::default() }))
        });
        *self.volumes.borrow_mut() = clocks.filter(|(_, clocks)| clocks.rates.is_limited()).collect();
    }

    /// The rates by which a request goes on, and when. `None`: now.
    fn take(&self, id: VolumeId, now: Instant, bytes: u64) -> Option<(Rates, Instant)> {
        let mut volumes = self.volumes.borrow_mut();
        let clocks = volumes.get_mut(&id)?;
        let at = clocks.take(now, bytes);
        (at > now).then_some((clocks.rates, at))
    }

    fn rates(&self, id: VolumeId) -> Rates {
        self.volumes.borrow().get(&id).map_or(Rates::default(), |clocks| clocks.rates)
    }
}

impl Inner {
    /// Holds a host's request back until it is its turn by the rates of its volume, or somebody waits for it.
    pub(crate) async fn keep_pace(
        &self,
        id: VolumeId,
        bytes: u64,
        change: Option<&Change<'_>>,
        course: Option<&mut Course<'_>>,
    ) {
        let Some(mut turn) = self.take_turn(id, bytes) else { return };
        self.counters.borrow_mut().requests_held_back += 1;
        let _task = self.as_task();
        loop {
            let now = self.runtime.now();
            let is_hurried = self.is_hurried.get() || change.is_some_and(Change::is_hurried);
            if turn.1 <= now || is_hurried || self.is_closing() {
                break;
            }
            self.runtime.sleep(turn.1.duration_since(now).min(LOOK)).await;
            self.turns.follow(&self.tree.borrow().notebook);
            if self.turns.rates(id) != turn.0 {
                let Some(again) = self.take_turn(id, bytes) else { break };
                turn = again;
            }
        }
        if let Some(course) = course {
            course.passed(Stage::Limit);
        }
    }

    fn take_turn(&self, id: VolumeId, bytes: u64) -> Option<(Rates, Instant)> {
        self.turns.follow(&self.tree.borrow().notebook);
        self.turns.take(id, self.runtime.now(), bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn clocks(requests: Option<u64>, bytes: Option<u64>, burst: Option<u64>) -> Clocks {
        let rates = Rates { requests_per_second: requests, bytes_per_second: bytes, burst_seconds: burst };
        Clocks { rates, ..Clocks::default() }
    }

    /// So many of these requests go on within a time, of a host that always has some waiting.
    fn begun_within(clocks: &mut Clocks, from: Instant, bytes: u64, time: Duration) -> u64 {
        (0..).take_while(|_| clocks.take(from, bytes) < from + time).count() as u64
    }

    #[test]
    fn a_rate_of_requests_is_kept_from_the_first_second_on() {
        let mut clocks = clocks(Some(1000), None, None);
        let begun = begun_within(&mut clocks, Instant::from_nanos(5_000_000_000), 4096, SECOND);
        // What ten milliseconds allow comes first.
        assert_eq!(begun, 1010);
    }

    #[test]
    fn a_burst_is_given_once_and_saved_up_again() {
        let mut clocks = clocks(Some(1000), None, Some(3));
        let from = Instant::from_nanos(60_000_000_000);
        assert_eq!(begun_within(&mut clocks, from, 4096, SECOND), 4000);
        // The request that was refused has moved the clock on by a thousandth; 2 s of the burst are back.
        let later = from + 3 * SECOND;
        let begun = begun_within(&mut clocks, later, 4096, SECOND);
        assert!((2998..=3000).contains(&begun), "{begun}");
    }

    #[test]
    fn the_tighter_of_two_rates_decides() {
        let from = Instant::from_nanos(1_000_000_000);
        let by_bytes = begun_within(&mut clocks(Some(1000), Some(1 << 20), None), from, 64 << 10, SECOND);
        assert_eq!(by_bytes, 17, "16 of 64 KiB are a MiB, and one is under way");
        let by_count = begun_within(&mut clocks(Some(100), Some(1 << 30), None), from, 4096, SECOND);
        assert_eq!(by_count, 101);
    }

    #[test]
    fn a_host_that_waits_for_each_answer_and_is_late_reaches_its_rate() {
        let mut clocks = clocks(Some(2000), None, None);
        let (begin, mut now) = (Instant::from_nanos(1_000_000_000), Instant::from_nanos(1_000_000_000));
        for _ in 0..20_000 {
            now = clocks.take(now, 4096) + Duration::from_micros(130);
        }
        let seconds = now.duration_since(begin).as_secs_f64();
        assert!((9.9..10.05).contains(&seconds), "{seconds}");
    }

    #[test]
    fn what_cannot_be_is_refused_and_no_limit_holds_nobody_up() {
        let rates = |requests, bytes, burst| clocks(requests, bytes, burst).rates;
        for wrong in [rates(Some(9), None, None), rates(None, Some(1000), None), rates(None, None, Some(1))] {
            assert!(wrong.check("db").is_err(), "{wrong:?}");
        }
        assert!(rates(Some(10), Some(1 << 20), Some(3601)).check("db").is_err());
        assert!(rates(Some(10), Some(1 << 20), Some(3600)).check("db").is_ok());
        let now = Instant::from_nanos(1);
        assert_eq!(clocks(None, None, None).take(now, u64::MAX), now);
        assert_eq!(Turns::default().take(VolumeId(1), now, 1), None);
    }
}
