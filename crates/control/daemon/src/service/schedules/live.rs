//! What the array has in mind of each schedule: nothing that a restart would miss.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ashlar_api as api;
use ashlar_schedule::Record;

/// After a failure it is tried again so much later, longer with each, and then no longer. Arbitrary.
const RETRY_STEP: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);
/// The same trouble in other words is told again after so long. Arbitrary.
const TELL_AGAIN: Duration = Duration::from_secs(600);

/// Why the last could not be taken.
pub(super) struct Failure {
    why: String,
    times: u32,
    again: Instant,
    told: String,
    told_at: Instant,
}

/// One schedule.
#[derive(Default)]
pub(super) struct Mind {
    /// When the record was made: another of the same name starts anew.
    created: u64,
    /// When the last was taken.
    pub(super) last: Option<u64>,
    /// One is being taken.
    pub(super) is_busy: bool,
    /// One is being proven.
    pub(super) is_proving: bool,
    /// How many were taken since the last that was proven.
    pub(super) unproven: Option<u32>,
    /// Why the last could not be proven, as it was told.
    pub(super) unprovable: Option<String>,
    /// The pool is too full, in per cent.
    pub(super) too_full: Option<u8>,
    failure: Option<Failure>,
    /// How often one could not be taken since the array's start.
    pub(super) failure_count: u64,
    /// When some were deleted last.
    pub(super) swept: Option<Instant>,
    /// Snapshots that stay because they are used, which was told.
    pub(super) used: BTreeSet<String>,
}

impl Mind {
    /// Whether it may be tried at this time.
    pub(super) fn may_try(&self, now: Instant) -> bool {
        !self.is_busy && self.failure.as_ref().is_none_or(|failure| now >= failure.again)
    }

    /// One was taken; true when that had failed before.
    pub(super) fn succeeded(&mut self, unix_seconds: u64) -> bool {
        self.last = Some(unix_seconds);
        self.failure.take().is_some()
    }

    /// One could not be taken; true when that is to be told.
    pub(super) fn failed(&mut self, why: String, now: Instant) -> bool {
        self.failure_count += 1;
        let before = self.failure.take();
        let times = before.as_ref().map_or(1, |before| before.times.saturating_add(1));
        let again = now + RETRY_STEP.saturating_mul(times).min(RETRY_MAX);
        let (is_told, told, told_at) = match before {
            Some(before) if before.told == why || now < before.told_at + TELL_AGAIN => {
                (false, before.told, before.told_at)
            }
            _ => (true, why.clone(), now),
        };
        self.failure = Some(Failure { why, times, again, told, told_at });
        is_told
    }
}

/// All of them, by name.
#[derive(Default)]
pub(in super::super) struct Live {
    minds: Mutex<BTreeMap<String, Mind>>,
}

impl Live {
    fn minds(&self) -> MutexGuard<'_, BTreeMap<String, Mind>> {
        self.minds.lock().expect("no holder of this lock panics")
    }

    /// Looks at what is had in mind of a schedule, or changes it.
    pub(super) fn with<T>(&self, record: &Record, look: impl FnOnce(&mut Mind) -> T) -> T {
        let mut minds = self.minds();
        let mind = minds.entry(record.name.clone()).or_default();
        if mind.created != record.created_unix_seconds {
            *mind = Mind { created: record.created_unix_seconds, is_busy: mind.is_busy, ..Mind::default() };
        }
        look(mind)
    }

    /// Takes the turn of a schedule; false while somebody else has it.
    pub(super) fn begin(&self, name: &str) -> bool {
        let mut minds = self.minds();
        let mind = minds.entry(name.to_string()).or_default();
        !std::mem::replace(&mut mind.is_busy, true)
    }

    /// Gives it back.
    pub(super) fn end(&self, name: &str) {
        if let Some(mind) = self.minds().get_mut(name) {
            mind.is_busy = false;
        }
    }

    /// Those that are gone and have nothing under way.
    pub(super) fn forget_others(&self, is_there: impl Fn(&str) -> bool) {
        self.minds().retain(|name, mind| is_there(name) || mind.is_busy || mind.is_proving);
    }

    /// What it does, and why it does not take any.
    pub(super) fn state(&self, record: &Record) -> (api::ScheduleState, Option<String>) {
        self.with(record, |mind| match (&mind.failure, mind.too_full) {
            _ if record.is_paused => (api::ScheduleState::Paused, None),
            (_, Some(percent)) => (api::ScheduleState::NoSpace, Some(super::take::too_full(percent))),
            (Some(failure), None) => (api::ScheduleState::Failing, Some(failure.why.clone())),
            (None, None) => (api::ScheduleState::Active, None),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_once_and_tried_again_ever_later() {
        let (mut mind, start) = (Mind::default(), Instant::now());
        let (mut now, mut told, mut tries) = (start, 0, 0);
        while now < start + Duration::from_secs(300) {
            if mind.may_try(now) {
                tries += 1;
                // The words differ from time to time.
                told += usize::from(mind.failed(format!("drive is gone, {} bytes", tries / 3), now));
            }
            now += Duration::from_secs(1);
        }
        assert_eq!(told, 1);
        assert_eq!(mind.failure_count, tries as u64);
        assert!((15..40).contains(&tries), "{tries}");
        assert!(mind.succeeded(7) && !mind.succeeded(8), "that it goes on is told once");
        assert!(mind.may_try(now));
        assert!(mind.failed("again".to_string(), now), "what went on meanwhile is told anew");
    }
}
