//! Seconds since 1970 as dates, and back; UTC only.

pub(crate) const DAY_SECONDS: u64 = 24 * 60 * 60;
/// The last second of the year 9999: four digits of a year are all that a name has.
pub(crate) const LAST_SECOND: u64 = 253_402_300_799;

/// A date and a time of day.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Civil {
    pub(crate) year: u64,
    pub(crate) month: u64,
    pub(crate) day: u64,
    /// Seconds since midnight.
    pub(crate) second_of_day: u64,
}

/// The date of a second. What is behind the year 9999 counts as its end.
pub(crate) fn civil(unix_seconds: u64) -> Civil {
    let unix_seconds = unix_seconds.min(LAST_SECOND);
    // Civil date from days, after Howard Hinnant: eras of 400 years starting on 1 March.
    let shifted = unix_seconds / DAY_SECONDS + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * day_of_year + 2) / 153;
    let month = if month_shifted < 10 { month_shifted + 3 } else { month_shifted - 9 };
    Civil {
        year: year_of_era + era * 400 + u64::from(month <= 2),
        month,
        day: day_of_year - (153 * month_shifted + 2) / 5 + 1,
        second_of_day: unix_seconds % DAY_SECONDS,
    }
}

/// The second of a date; `None` where there is no such date, or it is before 1970.
pub(crate) fn unix_seconds(date: Civil) -> Option<u64> {
    let Civil { year, month, day, second_of_day } = date;
    let is_possible = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && second_of_day < DAY_SECONDS;
    if !is_possible {
        return None;
    }
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (shifted_year / 400, shifted_year % 400);
    let month_shifted = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_shifted + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let seconds = (era * 146_097 + day_of_era - 719_468) * DAY_SECONDS + second_of_day;
    // The 30th of February became the 2nd of March.
    (civil(seconds) == date).then_some(seconds)
}

/// `20261128T130507Z`.
#[must_use]
pub fn stamp(unix_seconds: u64) -> String {
    let Civil { year, month, day, second_of_day } = civil(unix_seconds);
    let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// `2026-11-28 13:05:07Z`.
#[must_use]
pub fn told(unix_seconds: u64) -> String {
    let Civil { year, month, day, second_of_day } = civil(unix_seconds);
    let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

/// The second of `20261128T130507Z`.
pub(crate) fn of_stamp(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    if bytes.len() != 16 || bytes[8] != b'T' || bytes[15] != b'Z' {
        return None;
    }
    let number = |range: std::ops::Range<usize>| digits(text.get(range)?);
    let (hour, minute, second) = (number(9..11)?, number(11..13)?, number(13..15)?);
    let second_of_day = time_of_day(hour, minute, second)?;
    unix_seconds(Civil { year: number(0..4)?, month: number(4..6)?, day: number(6..8)?, second_of_day })
}

/// Seconds since midnight.
pub(crate) fn time_of_day(hour: u64, minute: u64, second: u64) -> Option<u64> {
    (hour < 24 && minute < 60 && second < 60).then_some(hour * 3600 + minute * 60 + second)
}

/// A number of digits alone: no sign, no blank.
pub(crate) fn digits(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_four_centuries_is_found_again() {
        for day in 0..146_097 * 2 {
            let seconds = day * DAY_SECONDS + day % DAY_SECONDS;
            assert_eq!(unix_seconds(civil(seconds)), Some(seconds));
            assert_eq!(of_stamp(&stamp(seconds)), Some(seconds), "{}", stamp(seconds));
        }
    }

    #[test]
    fn stamps_are_what_the_calendar_has() {
        assert_eq!(stamp(951_782_400), "20000229T000000Z");
        assert_eq!(told(1_798_761_599), "2026-12-31 23:59:59Z");
        for wrong in [
            "20260230T000000Z",
            "20261301T000000Z",
            "20260101T240000Z",
            "20260101T000060Z",
            "20260101T00000Z",
        ] {
            assert_eq!(of_stamp(wrong), None, "{wrong}");
        }
        assert_eq!(of_stamp("+0260101T000000Z"), None);
        assert_eq!(stamp(u64::MAX), "99991231T235959Z");
    }
}
