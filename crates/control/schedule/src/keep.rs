//! Which snapshots are kept: the newest of each hour, day, week and so on, for so many of them.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::calendar::{Civil, DAY_SECONDS, civil};
use crate::every::{MONDAY_OFFSET_SECONDS, WEEK_SECONDS};

/// Snapshots that one schedule may keep. Arbitrary: five hours of seconds; each costs the array a moment
/// whenever all are gone through.
const COUNT_MAX: u32 = 20_000;

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Period {
    Last,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
}

const WORDS: [(Period, &str); 7] = [
    (Period::Last, "last"),
    (Period::Second, "seconds"),
    (Period::Minute, "minutes"),
    (Period::Hour, "hourly"),
    (Period::Day, "daily"),
    (Period::Week, "weekly"),
    (Period::Month, "monthly"),
];

impl Period {
    /// Which of them a second is in; `None` where each snapshot counts for itself.
    fn number(self, unix_seconds: u64) -> Option<u64> {
        match self {
            Period::Last => None,
            Period::Second => Some(unix_seconds),
            Period::Minute => Some(unix_seconds / 60),
            Period::Hour => Some(unix_seconds / 3600),
            Period::Day => Some(unix_seconds / DAY_SECONDS),
            Period::Week => Some((unix_seconds + MONDAY_OFFSET_SECONDS) / WEEK_SECONDS),
            Period::Month => {
                let Civil { year, month, .. } = civil(unix_seconds);
                Some(year * 12 + month)
            }
        }
    }

    fn word(self) -> &'static str {
        WORDS.iter().find(|(period, _)| *period == self).map_or("", |(_, word)| word)
    }
}

/// The rule: `hourly=24,daily=7` keeps the newest snapshot of each of the last 24 hours that have one, and of
/// each of the last 7 days that have one. What no part of it keeps goes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Keep {
    /// By period; none twice.
    parts: Vec<(Period, u32)>,
}

/// A snapshot of a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Its name.
    pub name: String,
    /// When it was taken.
    pub unix_seconds: u64,
    /// Somebody holds it.
    pub is_held: bool,
}

impl Keep {
    /// Of `hourly=24,daily=7,weekly=4`.
    ///
    /// # Errors
    /// When a part is none of the rule's, named twice, or keeps none or too many.
    pub fn parse(text: &str) -> Result<Keep, String> {
        let mut parts: Vec<(Period, u32)> = Vec::new();
        for part in text.split(',').map(str::trim) {
            let (word, count) = part.split_once('=').ok_or_else(|| no_part(part))?;
            let found = WORDS.iter().find(|(_, known)| *known == word.trim());
            let (period, word) = found.copied().ok_or_else(|| no_part(part))?;
            let count: u32 = count.trim().parse().map_err(|_| no_part(part))?;
            if count == 0 {
                return Err(format!("`{part}` keeps none: leave `{word}` out, or keep at least 1"));
            }
            if parts.iter().any(|(other, _)| *other == period) {
                return Err(format!("`{word}` stands twice: name it once"));
            }
            parts.push((period, count));
        }
        let sum = parts.iter().fold(0_u32, |sum, (_, count)| sum.saturating_add(*count));
        if sum > COUNT_MAX {
            return Err(format!("`{text}` keeps {sum} snapshots: one schedule keeps at most {COUNT_MAX}"));
        }
        parts.sort_unstable();
        Ok(Keep { parts })
    }

    /// How many snapshots it keeps at most.
    #[must_use]
    pub fn count_max(&self) -> usize {
        self.parts.iter().map(|(_, count)| *count as usize).sum()
    }

    /// The names of those that go, the oldest first. They are given in the order in which they were taken.
    /// That order decides what is newest, not the clock, which may have been wrong. The newest of all always
    /// stays, and so does what is held.
    #[must_use]
    pub fn expired(&self, taken: &[Taken]) -> Vec<String> {
        let mut kept = vec![false; taken.len()];
        for (period, count) in &self.parts {
            let mut left = *count;
            let mut seen = BTreeSet::new();
            for (position, one) in taken.iter().enumerate().rev() {
                if left == 0 {
                    break;
                }
                if period.number(one.unix_seconds).is_none_or(|number| seen.insert(number)) {
                    kept[position] = true;
                    left -= 1;
                }
            }
        }
        let gone = taken.iter().zip(&kept).filter(|(one, is_kept)| !**is_kept && !one.is_held);
        gone.map(|(one, _)| one.name.clone()).collect()
    }
}

fn no_part(part: &str) -> String {
    let words: Vec<&str> = WORDS.iter().map(|(_, word)| *word).collect();
    format!(
        "`{part}` says nothing about what is kept: write WORD=COUNT, e.g. hourly=24, with {}",
        words.join(", ")
    )
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (period, count)) in self.parts.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            write!(f, "{comma}{}={count}", period.word())?;
        }
        Ok(())
    }
}

impl TryFrom<String> for Keep {
    type Error = String;

    fn try_from(text: String) -> Result<Keep, String> {
        Keep::parse(&text)
    }
}

impl From<Keep> for String {
    fn from(keep: Keep) -> String {
        keep.to_string()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::calendar::{of_stamp, stamp};

    fn taken(unix_seconds: u64) -> Taken {
        Taken { name: stamp(unix_seconds), unix_seconds, is_held: false }
    }

    /// Takes one at each of these seconds, deletes by the rule after each, and returns what is left.
    fn live(keep: &str, times: impl Iterator<Item = u64>) -> Vec<String> {
        let keep = Keep::parse(keep).unwrap();
        let mut there: Vec<Taken> = Vec::new();
        for time in times {
            there.push(taken(time));
            let gone = keep.expired(&there);
            there.retain(|one| !gone.contains(&one.name));
        }
        there.into_iter().map(|one| one.name).collect()
    }

    #[test]
    fn the_newest_of_each_period_stays_for_so_many_periods() {
        let start = of_stamp("20261128T000000Z").unwrap();
        // Every quarter for three days: two days with one, the last four hours with one each.
        let left = live("hourly=4,daily=3", (0..3 * 96).map(|quarter| start + quarter * 900));
        let wanted = [
            "20261128T234500Z",
            "20261129T234500Z",
            "20261130T204500Z",
            "20261130T214500Z",
            "20261130T224500Z",
            "20261130T234500Z",
        ];
        assert_eq!(left, wanted);
        // A busy minute, then the hours.
        let left = live("seconds=5,hourly=2", start..start + 2 * 3600 + 30);
        assert_eq!(left.len(), 6);
        assert_eq!(left[..2], ["20261128T015959Z", "20261128T020025Z"]);
        assert_eq!(live("last=2", [5, 900, 901, 902].into_iter()), [stamp(901), stamp(902)]);
        assert_eq!(live("weekly=2", (0..21).map(|day| start + day * 86_400)).len(), 2);
        assert_eq!(live("monthly=3", (0..300).map(|day| start + day * 86_400)).len(), 3);
        assert_eq!(live("minutes=3", start..start + 600).len(), 3);
    }

    /// Whether it is asked after each or once for all, the same stays: work that piled up deletes no more.
    #[test]
    fn deleting_late_leaves_what_deleting_at_once_leaves() {
        let start = of_stamp("20261128T213700Z").unwrap();
        let times = || (0..2000_u64).map(|step| start + step * 137);
        let at_once = live("last=3,hourly=5,daily=4,weekly=2", times());
        let all: Vec<Taken> = times().map(taken).collect();
        let gone = Keep::parse("last=3,hourly=5,daily=4,weekly=2").unwrap().expired(&all);
        let late: Vec<String> =
            all.into_iter().map(|one| one.name).filter(|name| !gone.contains(name)).collect();
        assert_eq!(late, at_once);
    }

    #[test]
    fn what_is_held_stays_and_is_subject_to_the_rule_once_it_is_released() {
        let keep = Keep::parse("last=1").unwrap();
        let mut all: Vec<Taken> = (0..4).map(taken).collect();
        all[1].is_held = true;
        assert_eq!(keep.expired(&all), [stamp(0), stamp(2)]);
        all[1].is_held = false;
        assert_eq!(keep.expired(&all), [stamp(0), stamp(1), stamp(2)]);
    }

    /// The harm: by the clock the three of the future were the newest for a year, and each new one went at
    /// once.
    #[test]
    fn those_of_a_clock_that_was_ahead_do_not_push_out_the_newest() {
        let year = 366 * 86_400;
        let all: Vec<Taken> = [100, 200, year, year + 1, year + 2, 300].into_iter().map(taken).collect();
        let gone = Keep::parse("last=2").unwrap().expired(&all);
        assert!(!gone.contains(&stamp(300)) && gone.contains(&stamp(year)), "{gone:?}");
        let gone = Keep::parse("hourly=2").unwrap().expired(&all);
        assert!(!gone.contains(&stamp(300)) && !gone.contains(&stamp(year + 2)), "{gone:?}");
    }

    #[test]
    fn after_downtime_periods_without_a_snapshot_do_not_count() {
        // Down for a month: the last seven days that have one are kept, though they are long ago.
        let times = (0..7).chain(37..38).map(|day| day * 86_400);
        assert_eq!(live("daily=7", times).len(), 7);
    }

    #[test]
    fn it_is_printed_as_it_is_written_and_wrong_ones_say_why() {
        let keep = Keep::parse("hourly=24, daily=7,weekly=4").unwrap();
        assert_eq!((keep.to_string(), keep.count_max()), ("hourly=24,daily=7,weekly=4".to_string(), 35));
        let text = serde_json::to_string(&keep).unwrap();
        assert_eq!(serde_json::from_str::<Keep>(&text).unwrap(), keep);
        assert!(serde_json::from_str::<Keep>("\"hourly\"").is_err());
        let why = |text: &str| Keep::parse(text).unwrap_err();
        for text in ["", "24", "hourly", "hours=3", "hourly=x", "hourly=-1", "hourly=1,,daily=2"] {
            assert!(why(text).contains("hourly=24, with last, seconds"), "{}", why(text));
        }
        assert!(why("daily=0").contains("keep at least 1"));
        assert!(why("daily=1,daily=2").contains("twice"));
        assert!(why("seconds=86400").contains("at most 20000"));
    }
}
