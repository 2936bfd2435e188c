//! How often: aligned to the clock, and unmoved by a clock that jumps.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::calendar::DAY_SECONDS;
use crate::moment::term;

pub(crate) const WEEK_SECONDS: u64 = 7 * DAY_SECONDS;
/// From the Monday before 1970 to its first day, a Thursday: weeks begin on Mondays.
pub(crate) const MONDAY_OFFSET_SECONDS: u64 = 3 * DAY_SECONDS;
/// Longest. Arbitrary: nobody waits longer for a snapshot.
const SECONDS_MAX: u64 = 366 * DAY_SECONDS;
/// A clock that is set back by so much, or one period if that is less, has the next snapshot wait until it
/// caught up; set back by more, one is taken at once. Arbitrary: what a time server corrects is less.
const SET_BACK_SECONDS_MAX: u64 = 60;

/// The time between two snapshots. They are taken where the clock has a whole number of it: every 15 minutes
/// is at :00, :15, :30 and :45, every day at midnight, every week on Monday at midnight, all in UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Every {
    seconds: u64,
}

impl Every {
    /// Of seconds.
    ///
    /// # Errors
    /// When there are none, or more than a year has.
    pub fn of_seconds(seconds: u64) -> Result<Every, String> {
        if (1..=SECONDS_MAX).contains(&seconds) {
            return Ok(Every { seconds });
        }
        Err(format!("every {seconds} s is not possible: choose from 1s to 366d"))
    }

    /// Of `1s`, `15m`, `6h`, `1d` or `1w`.
    ///
    /// # Errors
    /// When it is no time, or one that is not possible.
    pub fn parse(text: &str) -> Result<Every, String> {
        Every::of_seconds(term(text)?)
    }

    /// As a number.
    #[must_use]
    pub fn seconds(self) -> u64 {
        self.seconds
    }

    /// Whether one is due, when the last was taken at `last` (or the schedule was made then). However many
    /// were missed, one is: it makes up for all of them.
    #[must_use]
    pub fn is_due(self, last: u64, now: u64) -> bool {
        // A clock that was set back a little comes to the same time again.
        if now < last && last - now <= self.seconds.min(SET_BACK_SECONDS_MAX) {
            return false;
        }
        self.period(now) != self.period(last)
    }

    /// The next second, behind `now`, at which the clock has a whole number of it.
    #[must_use]
    pub fn next(self, now: u64) -> u64 {
        let next = (self.period(now) + 1).saturating_mul(self.seconds);
        next.saturating_sub(self.offset())
    }

    /// Which of the periods since 1970 a second is in.
    fn period(self, unix_seconds: u64) -> u64 {
        unix_seconds.saturating_add(self.offset()) / self.seconds
    }

    fn offset(self) -> u64 {
        if self.seconds.is_multiple_of(WEEK_SECONDS) { MONDAY_OFFSET_SECONDS } else { 0 }
    }
}

impl fmt::Display for Every {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(WEEK_SECONDS, "w"), (DAY_SECONDS, "d"), (3600, "h"), (60, "m"), (1, "s")];
        let unit = units.iter().find(|(seconds, _)| self.seconds.is_multiple_of(*seconds));
        let (seconds, letter) = unit.copied().unwrap_or((1, "s"));
        write!(f, "{}{letter}", self.seconds / seconds)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::calendar::{of_stamp, stamp};

    fn at(text: &str) -> u64 {
        of_stamp(text).unwrap()
    }

    /// The seconds at which snapshots are taken where the clock shows these, one after the other.
    fn taken(every: &str, last: u64, clock: impl Iterator<Item = u64>) -> Vec<String> {
        let (every, mut last, mut taken) = (Every::parse(every).unwrap(), last, Vec::new());
        for now in clock {
            if every.is_due(last, now) {
                taken.push(stamp(now));
                last = now;
            }
        }
        taken
    }

    #[test]
    fn they_are_taken_at_whole_numbers_of_the_clock() {
        let start = at("20261128T130507Z");
        let times = taken("15m", start, start..start + 3600);
        assert_eq!(times, ["20261128T131500Z", "20261128T133000Z", "20261128T134500Z", "20261128T140000Z"]);
        assert_eq!(taken("1d", start, start..start + 86_400), ["20261129T000000Z"]);
        // The next Monday, not the next Thursday.
        assert_eq!(taken("1w", start, start..start + 7 * 86_400), ["20261130T000000Z"]);
        assert_eq!(taken("1s", start, start..start + 100).len(), 99);
        let next = |every: &str| stamp(Every::parse(every).unwrap().next(start));
        let all = [next("1s"), next("15m"), next("1h"), next("1d"), next("1w")];
        let wanted = ["130508", "131500", "140000"].map(|time| format!("20261128T{time}Z"));
        assert_eq!(all[..3], wanted);
        assert_eq!(all[3..], ["20261129T000000Z", "20261130T000000Z"]);
    }

    #[test]
    fn after_downtime_one_is_taken_at_once_and_not_one_for_each_that_was_missed() {
        let (last, start) = (at("20261128T130000Z"), at("20261130T170731Z"));
        assert_eq!(taken("15m", last, start..start + 480), ["20261130T170731Z", "20261130T171500Z"]);
        assert_eq!(taken("1s", last, start..start + 3).len(), 3);
        // Down for a moment within a period: nothing was missed.
        assert_eq!(taken("15m", last, last + 10..last + 890), [""; 0]);
    }

    /// The harm: a clock that was a year ahead once ended snapshots for a year.
    #[test]
    fn a_clock_that_jumps_neither_floods_nor_stalls() {
        let last = at("20261128T130000Z");
        let ahead = last + 366 * 86_400;
        let clock = (last..last + 100).chain(ahead..ahead + 100).chain(last + 200..last + 900);
        // One where it jumped forward, one where it jumped back, one at :15.
        assert_eq!(taken("15m", last, clock.chain(last + 900..last + 901)).len(), 3);
        // Back over a whole hour, then on.
        let clock = (last..last + 60).chain(last - 3600..last + 1);
        let times = taken("15m", last, clock);
        assert_eq!(times.len(), 5, "{times:?}");
        // Corrected by a second, just at a quarter: not twice.
        assert_eq!(taken("15m", last, [last, last - 1, last, last + 1].into_iter()), [""; 0]);
        assert_eq!(taken("1s", last, [last - 1, last, last + 1].into_iter()).len(), 1);
        assert!(Every::parse("1s").unwrap().is_due(last, last - 2));
    }

    #[test]
    fn it_is_printed_as_it_is_written() {
        for text in ["1s", "90s", "15m", "1h", "36h", "1d", "2w"] {
            assert_eq!(Every::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Every::parse("60m").unwrap().to_string(), "1h");
        for wrong in ["0s", "367d", "15", "m", "1.5h", "-1s", "1 h", "1y", "99999999999999999999s"] {
            assert!(Every::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Every::parse("0s").unwrap_err().contains("from 1s to 366d"));
    }
}
