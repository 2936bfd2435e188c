//! What the user sees while the demo runs: one line per step with the time, and the closing table.

use crate::picture::Event;
use std::cell::{Cell, RefCell};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Cells of a bar. Arbitrary: the line fits 80 columns.
const BAR_CELLS: u64 = 24;
/// Where a bar cannot be redrawn, one is written each time this much more is done, in per cent.
const BAR_STEP: u64 = 20;

/// Prints steps with the time since the start.
pub(crate) struct Progress {
    start: Instant,
    is_terminal: bool,
    /// The last bar that was written, in per cent; none when the line after it has begun.
    bar_percent: Cell<Option<u64>>,
    /// What the picture marks.
    events: RefCell<Vec<Event>>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        Self { start: Instant::now(), is_terminal, bar_percent: Cell::new(None), events: RefCell::default() }
    }

    /// Something that the picture marks.
    pub(crate) fn mark(&self, what: &str) {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        self.events.borrow_mut().push(Event { at, what: what.to_string() });
    }

    pub(crate) fn take_events(&self) -> Vec<Event> {
        self.events.take()
    }

    /// A line about what happens next.
    pub(crate) fn step(&self, text: &str) {
        self.line("", text);
    }

    /// A line about what was found.
    pub(crate) fn result(&self, text: &str) {
        self.line("  ✓ ", text);
    }

    /// A bar that shows how far something is: redrawn in place on a terminal, a line now and then
    /// elsewhere.
    pub(crate) fn bar(&self, what: &str, done: u64, total: u64) {
        let percent = done.min(total) * 100 / total.max(1);
        let is_due = match self.bar_percent.get() {
            Some(before) if self.is_terminal => percent != before,
            Some(before) => percent >= before + BAR_STEP || (percent == 100 && before < 100),
            None => true,
        };
        if !is_due {
            return;
        }
        self.bar_percent.set(Some(percent));
        let text = format!("{what}  {}  {percent:3} % of {}", bar(done, total), bytes(total));
        let mut out = std::io::stdout().lock();
        let (before, after) = if self.is_terminal { ("\r", "") } else { ("", "\n") };
        let _ = write!(out, "{before}[{:6.1} s]   {text}{after}", self.start.elapsed().as_secs_f64());
        let _ = out.flush();
    }

    /// Ends a bar: the next one is another's.
    pub(crate) fn end_bar(&self) {
        if self.bar_percent.take().is_some() && self.is_terminal {
            say("");
        }
    }

    fn line(&self, mark: &str, text: &str) {
        self.end_bar();
        let mut out = std::io::stdout().lock();
        // A closed terminal must not stop the demo half way: cleaning up matters more than the line.
        let _ = writeln!(out, "[{:6.1} s] {mark}{text}", self.start.elapsed().as_secs_f64());
        let _ = out.flush();
    }
}

/// A line on standard output. A closed one must not stop the demo half way: cleaning up matters more.
pub(crate) fn say(text: &str) {
    let _unheard = writeln!(std::io::stdout(), "{text}");
}

/// The same on standard error.
pub(crate) fn complain(text: &str) {
    let _unheard = writeln!(std::io::stderr(), "{text}");
}

/// A bar, full at its left.
pub(crate) fn bar(done: u64, total: u64) -> String {
    let full = (done.min(total) * BAR_CELLS / total.max(1)) as usize;
    "█".repeat(full) + &"░".repeat(BAR_CELLS as usize - full)
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
