//! Numbers as people write them.

/// A latency with three digits: `840 ns`, `1.20 ms`.
#[must_use]
pub fn nanos(value: f64) -> String {
    match value {
        v if v < 1e3 => format!("{v:.0} ns"),
        v if v < 1e6 => format!("{} µs", three_digits(v / 1e3)),
        v if v < 1e9 => format!("{} ms", three_digits(v / 1e6)),
        v => format!("{} s", three_digits(v / 1e9)),
    }
}

/// A length of time: `45 s`, `2 min 5 s`, `3 h 20 min`.
#[must_use]
pub fn seconds(value: u64) -> String {
    match (value / 60, value % 60) {
        (minutes @ 120.., _) => match (minutes / 60, minutes % 60) {
            (hours, 0) => format!("{hours} h"),
            (hours, minutes) => format!("{hours} h {minutes} min"),
        },
        (0, seconds) => format!("{seconds} s"),
        (minutes, 0) => format!("{minutes} min"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    }
}

/// Seconds since 1970 as a day and a minute in UTC: `2026-11-27 07:02 UTC`.
#[must_use]
pub fn day(unix_seconds: u64) -> String {
    let (days, minutes) = (unix_seconds / 86_400, unix_seconds / 60 % 1_440);
    // Civil date from days, after Howard Hinnant: eras of 400 years that begin on 1 March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_shifted + 2) / 5 + 1;
    let month = if month_shifted < 10 { month_shifted + 3 } else { month_shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

/// A whole number with its thousands apart; from 10,000 on with three digits that count.
#[must_use]
pub fn count(value: f64) -> String {
    let whole = value.round().max(0.0) as u64;
    let step = 10_u64.pow((whole.max(1).ilog10() + 1).saturating_sub(3));
    digits(if whole >= 10_000 { (whole + step / 2) / step * step } else { whole })
}

/// A whole number with its thousands apart, and every digit.
#[must_use]
pub fn digits(whole: u64) -> String {
    let digits = whole.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in the largest binary unit that fits.
#[must_use]
pub fn bytes(value: u64) -> String {
    let mut rest = value as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if rest < 1024.0 {
            return if unit == "B" { format!("{value} B") } else { format!("{} {unit}", three_digits(rest)) };
        }
        rest /= 1024.0;
    }
    format!("{} TiB", three_digits(rest))
}

/// A rate in decimal units, as drives are sold.
#[must_use]
pub fn bytes_per_second(value: f64) -> String {
    match value {
        v if v < 1e6 => format!("{} kB/s", three_digits(v / 1e3)),
        v if v < 1e9 => format!("{} MB/s", three_digits(v / 1e6)),
        v => format!("{} GB/s", three_digits(v / 1e9)),
    }
}

fn three_digits(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}
