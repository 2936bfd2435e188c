//! Times that people name: `13:05:07`, `2026-11-28T13:05:07Z`, `-10s`.

use crate::calendar::{Civil, DAY_SECONDS, civil, digits, time_of_day, unix_seconds};
use crate::every::WEEK_SECONDS;

/// What may be written.
const FORMS: &str = "write 13:05:07, 2026-11-28T13:05:07Z or -10s, in UTC";

/// The second that is meant, where this is a time and not a name: names have no colon and begin with no dash.
/// `13:05:07` is today or, when that is still to come, yesterday. Fractions of a second are left out. The
/// error says what is wrong with a time.
///
/// # Errors
/// When it can be nothing but a time, and is none, or is still to come.
pub fn moment(text: &str, now: u64) -> Result<Option<u64>, String> {
    let text = text.trim();
    let wrong = || format!("`{text}` is no time: {FORMS}");
    if let Some(before) = text.strip_prefix('-') {
        let seconds = term(before).map_err(|_| wrong())?;
        return now.checked_sub(seconds).map(Some).ok_or_else(|| format!("`{text}` is before 1970"));
    }
    if !text.contains(':') {
        return Ok(None);
    }
    let text_of_utc = text.strip_suffix(['Z', 'z']).or_else(|| text.strip_suffix(" UTC")).unwrap_or(text);
    let Some((date, time)) = text_of_utc.split_once(['T', 't', ' ']) else {
        let second_of_day = clock(text_of_utc).ok_or_else(wrong)?;
        let today = unix_seconds(Civil { second_of_day, ..civil(now) }).ok_or_else(wrong)?;
        return Ok(Some(if today > now { today.saturating_sub(DAY_SECONDS) } else { today }));
    };
    let parts: Option<Vec<u64>> = date.split('-').map(digits).collect();
    let Some([year, month, day]) = parts.as_deref() else { return Err(wrong()) };
    let second_of_day = clock(time).ok_or_else(wrong)?;
    let date = Civil { year: *year, month: *month, day: *day, second_of_day };
    match unix_seconds(date).ok_or_else(wrong)? {
        found if found > now => {
            Err(format!("`{text}` is still to come: by this machine's clock it is {}", {
                crate::calendar::told(now)
            }))
        }
        found => Ok(Some(found)),
    }
}

/// Seconds since midnight of `13:05`, `13:05:07` or `13:05:07.412`.
fn clock(text: &str) -> Option<u64> {
    let (whole, fraction) = match text.split_once(['.', ',']) {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (text, None),
    };
    if let Some(fraction) = fraction {
        digits(fraction)?;
    }
    let parts: Option<Vec<u64>> = whole.split(':').map(digits).collect();
    match (parts?.as_slice(), fraction) {
        ([hour, minute], None) => time_of_day(*hour, *minute, 0),
        ([hour, minute, second], _) => time_of_day(*hour, *minute, *second),
        _ => None,
    }
}

/// Seconds of `90s`, `15m`, `8h`, `7d` or `2w`.
///
/// # Errors
/// When it is something else.
pub fn term(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no time with a unit: write e.g. 90s, 15m, 8h, 7d or 2w");
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => DAY_SECONDS,
        "w" => WEEK_SECONDS,
        _ => return Err(wrong()),
    };
    digits(number).and_then(|count| count.checked_mul(unit)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::calendar::{of_stamp, stamp};

    fn at(text: &str) -> String {
        let now = of_stamp("20261128T130507Z").unwrap();
        moment(text, now).unwrap().map_or("a name".to_string(), stamp)
    }

    #[test]
    fn a_time_of_day_is_today_or_yesterday() {
        assert_eq!(at("13:05:07"), "20261128T130507Z");
        assert_eq!(at("13:05:07.412"), "20261128T130507Z");
        assert_eq!(at("13:05"), "20261128T130500Z");
        assert_eq!(at("13:05:08"), "20261127T130508Z");
        assert_eq!(at("23:59:59Z"), "20261127T235959Z");
        assert_eq!(at("00:00"), "20261128T000000Z");
    }

    #[test]
    fn whole_dates_and_spans_are_understood() {
        for text in ["2026-11-28T13:05:01Z", "2026-11-28 13:05:01", "2026-11-28 13:05:01.999 UTC"] {
            assert_eq!(at(text), "20261128T130501Z", "{text}");
        }
        assert_eq!(at("2025-02-28T01:00Z"), "20250228T010000Z");
        assert_eq!(at("-10s"), "20261128T130457Z");
        assert_eq!(at("-5m"), "20261128T130007Z");
        assert_eq!(at("-1d"), "20261127T130507Z");
        assert_eq!(at("-0s"), "20261128T130507Z");
    }

    #[test]
    fn names_are_left_alone_and_wrong_times_say_what_a_time_is() {
        for text in ["nightly", "2026-11-28", "db.20261128T130507Z", "10s", "130507"] {
            assert_eq!(at(text), "a name");
        }
        let now = of_stamp("20261128T130507Z").unwrap();
        let wrong =
            ["24:00:00", "13:60", "-10", "-", "-10x", "13:05:07+02:00", "2026-02-30T10:00Z", ":", "1:2:3:4"];
        for text in wrong {
            let why = moment(text, now).unwrap_err();
            assert!(why.contains("13:05:07, 2026-11-28T13:05:07Z or -10s"), "{text}: {why}");
        }
        let why = moment("2026-11-28T13:05:08Z", now).unwrap_err();
        assert!(why.contains("still to come") && why.contains("2026-11-28 13:05:07Z"), "{why}");
        assert!(moment("-9999999w", now).unwrap_err().contains("before 1970"));
    }
}
