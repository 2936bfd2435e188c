//! What commands print on standard output: JSON with exact numbers, or tables for people.

use std::io::{self, Write};

use serde::Serialize;

/// How to print.
#[derive(Clone, Copy)]
pub struct Output {
    is_json: bool,
}

impl Output {
    /// Prints JSON or text.
    pub fn new(is_json: bool) -> Output {
        Output { is_json }
    }

    /// True with `--json`.
    pub fn is_json(self) -> bool {
        self.is_json
    }

    /// Prints `value` as JSON, or what `text` makes of it.
    pub fn print<T: Serialize + ?Sized>(self, value: &T, text: impl FnOnce(&T) -> String) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if self.is_json {
            let json = serde_json::to_string_pretty(value).expect("results are plain data");
            writeln!(out, "{json}")?;
        } else {
            let text = text(value);
            out.write_all(text.as_bytes())?;
            if !text.is_empty() && !text.ends_with('\n') {
                out.write_all(b"\n")?;
            }
        }
        out.flush()
    }

    /// Prints one line that says what was done; with `--json` an object that names it.
    pub fn done(self, what: &str, name: &str) -> io::Result<()> {
        let value = serde_json::json!({ "done": what, "name": name });
        self.print(&value, |_| format!("{what} {name}"))
    }
}

/// A table: a header, rows of the same width, columns aligned. The columns in `right` are numbers.
pub fn table(header: &[&str], right: &[usize], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let header: Vec<String> = header.iter().map(|cell| (*cell).to_string()).collect();
    for row in std::iter::once(&header).chain(rows) {
        let mut line = String::new();
        for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let gap = if index == 0 { "" } else { "  " };
            if right.contains(&index) {
                line.push_str(&format!("{gap}{cell:>width$}"));
            } else {
                line.push_str(&format!("{gap}{cell:<width$}"));
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Names and values under each other.
pub fn fields(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    pairs.iter().map(|(name, value)| format!("{name:<width$}  {value}\n")).collect()
}

/// A byte count for people.
pub fn size(bytes: u64) -> String {
    ashlar_units::ByteCount(bytes).to_string()
}

/// A duration for people.
pub fn micros(value: u64) -> String {
    match value {
        0..1_000 => format!("{value} us"),
        1_000..1_000_000 => format!("{:.1} ms", value as f64 / 1e3),
        _ => format!("{:.1} s", value as f64 / 1e6),
    }
}

/// Seconds since 1970 as UTC.
pub fn utc(unix_seconds: u64) -> String {
    let (days, seconds) = ((unix_seconds / 86_400) as i64, unix_seconds % 86_400);
    // Civil date from days, after Howard Hinnant: eras of 400 years starting on 1 March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_shifted + 2) / 5 + 1;
    let month = if month_shifted < 10 { month_shifted + 3 } else { month_shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_print_as_the_calendar_has_them() {
        assert_eq!(utc(0), "1970-01-01 00:00:00Z");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00:00Z");
        assert_eq!(utc(1_798_761_599), "2026-12-31 23:59:59Z");
    }

    #[test]
    fn tables_align_numbers_to_the_right() {
        let rows =
            vec![vec!["db".to_string(), "64 GiB".to_string()], vec!["wal".to_string(), "8 GiB".to_string()]];
        assert_eq!(table(&["NAME", "SIZE"], &[1], &rows), "NAME    SIZE\ndb    64 GiB\nwal    8 GiB\n");
    }
}
