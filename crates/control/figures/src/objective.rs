//! Whether requests were as fast as they should be, for as much of the time as they should.

use std::collections::BTreeMap;

use ashlar_api::{ObjectiveRequests, ObjectiveSet, Rates};

use crate::minutes::Minute;

/// What is left of the permitted time is a fraction of minutes: less than this is a rounding.
const ROUNDING_MINUTES: f64 = 1e-6;

/// How an objective fares.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Judged {
    /// Minutes of the window that are known.
    pub covered_minutes: u64,
    /// Those of them in which requests were too slow.
    pub missed_minutes: u64,
    /// How many of the whole window may be so.
    pub permitted_minutes: f64,
}

impl Judged {
    /// The share of the known time that was met.
    #[must_use]
    pub fn met_percent(&self) -> f64 {
        let met = self.covered_minutes - self.missed_minutes;
        if self.covered_minutes == 0 { 100.0 } else { 100.0 * met as f64 / self.covered_minutes as f64 }
    }

    /// More was missed than may be.
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        self.missed_minutes as f64 > self.permitted_minutes + ROUNDING_MINUTES
    }

    /// What may still be missed.
    #[must_use]
    pub fn left_minutes(&self) -> f64 {
        (self.permitted_minutes - self.missed_minutes as f64).max(0.0)
    }

    /// The same as a share of what may be missed.
    #[must_use]
    pub fn left_percent(&self) -> f64 {
        match self.permitted_minutes > 0.0 {
            true => 100.0 * self.left_minutes() / self.permitted_minutes,
            false if self.missed_minutes > 0 => 0.0,
            false => 100.0,
        }
    }
}

/// Judges the minutes of volumes before `now`: a minute is met if it is for each of them. One without
/// requests is; one that nobody knows is not counted.
pub(crate) fn judge<'a>(
    objective: &ObjectiveSet,
    now: u64,
    minutes: impl Iterator<Item = &'a Minute>,
) -> Judged {
    let window = objective.over_seconds / 60;
    let from = now.saturating_sub(window);
    let mut missed = BTreeMap::<u64, bool>::new();
    for minute in minutes.filter(|minute| (from..now).contains(&minute.number)) {
        let slowest = slowest(objective.requests, minute.reads_micros, minute.writes_micros);
        *missed.entry(minute.number).or_default() |= u64::from(slowest) > objective.p99_micros;
    }
    Judged {
        covered_minutes: missed.len() as u64,
        missed_minutes: missed.values().filter(|is_missed| **is_missed).count() as u64,
        permitted_minutes: window as f64 * (100.0 - objective.for_percent) / 100.0,
    }
}

/// The p99 that an objective looks at; `None` without such requests.
pub(crate) fn p99_of(rates: &Rates, requests: ObjectiveRequests) -> Option<u64> {
    let (reads, writes) = (rates.read_latency_micros, rates.write_latency_micros);
    slowest(requests, reads.map(|reads| reads.p99), writes.map(|writes| writes.p99))
}

fn slowest<T: Ord>(requests: ObjectiveRequests, reads: T, writes: T) -> T {
    match requests {
        ObjectiveRequests::All => reads.max(writes),
        ObjectiveRequests::Reads => reads,
        ObjectiveRequests::Writes => writes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 28_000_000;

    /// 2 ms for nine tenths of 100 minutes.
    fn objective(requests: ObjectiveRequests) -> ObjectiveSet {
        ObjectiveSet { p99_micros: 2000, for_percent: 90.0, requests, over_seconds: 6000 }
    }

    fn minute(ago: u64, reads_micros: u32, writes_micros: u32) -> Minute {
        Minute { number: NOW - ago, reads_micros, writes_micros }
    }

    fn of(requests: ObjectiveRequests, minutes: &[Minute]) -> Judged {
        judge(&objective(requests), NOW, minutes.iter())
    }

    #[test]
    fn a_minute_without_requests_is_met_and_one_that_nobody_knows_is_not_counted() {
        let judged = of(ObjectiveRequests::All, &[minute(3, 0, 0), minute(2, 2000, 1), minute(1, 2001, 0)]);
        assert_eq!((judged.covered_minutes, judged.missed_minutes), (3, 1));
        assert!((judged.met_percent() - 200.0 / 3.0).abs() < 1e-9 && !judged.is_used_up());
        assert_eq!((judged.left_minutes(), judged.left_percent()), (9.0, 90.0));
        let nothing = of(ObjectiveRequests::All, &[]);
        assert_eq!(
            (nothing.met_percent(), nothing.left_percent(), nothing.covered_minutes),
            (100.0, 100.0, 0)
        );
    }

    #[test]
    fn only_the_window_and_the_requests_that_are_meant_count() {
        let minutes =
            [minute(101, 9000, 9000), minute(100, 9000, 1), minute(50, 1, 9000), minute(0, 9000, 1)];
        let counts = |requests| {
            let judged = of(requests, &minutes);
            (judged.covered_minutes, judged.missed_minutes)
        };
        assert_eq!(counts(ObjectiveRequests::All), (2, 2));
        assert_eq!(counts(ObjectiveRequests::Reads), (2, 1));
        assert_eq!(counts(ObjectiveRequests::Writes), (2, 1));
    }

    #[test]
    fn a_minute_of_several_volumes_is_met_if_it_is_for_each() {
        let volumes = [minute(2, 1, 1), minute(1, 1, 1), minute(2, 5000, 1), minute(1, 0, 0)];
        let judged = of(ObjectiveRequests::All, &volumes);
        assert_eq!((judged.covered_minutes, judged.missed_minutes), (2, 1));
    }

    #[test]
    fn what_is_permitted_to_the_minute_is_not_used_up() {
        let slow = |count| (1..=count).map(|ago| minute(ago, 9000, 0)).collect::<Vec<_>>();
        let judged = of(ObjectiveRequests::All, &slow(10));
        assert!(!judged.is_used_up() && judged.left_percent() < 1e-6, "{judged:?}");
        assert!(of(ObjectiveRequests::All, &slow(11)).is_used_up());
        // 100 - 99.9 is a little less than a tenth.
        let strict =
            ObjectiveSet { for_percent: 99.9, over_seconds: 60_000, ..objective(ObjectiveRequests::All) };
        let judged = judge(&strict, NOW, slow(1).iter());
        assert!(!judged.is_used_up(), "{judged:?}");
        let never = ObjectiveSet { for_percent: 100.0, ..strict };
        let judged = judge(&never, NOW, slow(1).iter());
        assert!(judged.is_used_up() && judged.left_percent() == 0.0, "{judged:?}");
    }

    #[test]
    fn the_present_p99_is_of_the_requests_that_are_meant() {
        let latency = |p99| Some(ashlar_api::Latency { p50: 1, p99, max: p99 });
        let rates = Rates { read_latency_micros: latency(7), ..Rates::default() };
        assert_eq!(p99_of(&rates, ObjectiveRequests::All), Some(7));
        assert_eq!(p99_of(&rates, ObjectiveRequests::Writes), None);
        let rates = Rates { write_latency_micros: latency(9), ..rates };
        assert_eq!(p99_of(&rates, ObjectiveRequests::All), Some(9));
    }
}
