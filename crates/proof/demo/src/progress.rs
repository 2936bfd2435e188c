//! What the user sees while the demo runs: one line per step with the time, and the closing table.

use std::io::Write;
use std::time::{Duration, Instant};

/// Prints steps with the time since the start.
pub(crate) struct Progress {
    start: Instant,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now() }
    }

    /// A line about what happens next.
    pub(crate) fn step(&self, text: &str) {
        self.line("", text);
    }

    /// A line about what was found.
    pub(crate) fn result(&self, text: &str) {
        self.line("  ✓ ", text);
    }

    fn line(&self, mark: &str, text: &str) {
        let mut out = std::io::stdout().lock();
        // A closed terminal must not stop the demo half way: cleaning up matters more than the line.
        let _ = writeln!(out, "[{:6.1} s] {mark}{text}", self.start.elapsed().as_secs_f64());
        let _ = out.flush();
    }
}

/// Milliseconds with a resolution that suits their size.
pub(crate) fn millis(duration: Duration) -> String {
    let millis = duration.as_secs_f64() * 1e3;
    if millis < 10.0 { format!("{millis:.1} ms") } else { format!("{millis:.0} ms") }
}

/// Bytes in the largest fitting binary unit.
pub(crate) fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{count} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// A whole number with thousands separated.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The closing table: what, how much, and how it was measured.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<[String; 3]>,
}

impl Table {
    pub(crate) fn row(&mut self, what: &str, value: String, remark: &str) {
        self.rows.push([what.into(), value, remark.into()]);
    }

    pub(crate) fn render(&self) -> String {
        let width =
            |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let (first, second) = (width(0), width(1));
        let mut out = String::new();
        for [what, value, remark] in &self.rows {
            let line = format!("  {what:<first$}  {value:>second$}  {remark}");
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}
