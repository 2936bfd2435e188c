//! How far a long operation is, on stderr: one line that is replaced on a terminal, a line now and
//! then elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use crate::output::size;

/// How often the line is replaced on a terminal. Arbitrary: often enough to see it move.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);
/// How often a line is written elsewhere. Arbitrary.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Bytes done of bytes to do.
pub struct Progress {
    what: &'static str,
    total_bytes: u64,
    start: Instant,
    shown: Option<Duration>,
    is_terminal: bool,
}

impl Progress {
    /// Nothing is done; `what` stands in front of each line.
    pub fn new(what: &'static str, total_bytes: u64) -> Progress {
        let is_terminal = std::io::stderr().is_terminal();
        Progress { what, total_bytes, start: Instant::now(), shown: None, is_terminal }
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Shows how much is done, when it is time to.
    pub fn show(&mut self, done_bytes: u64) {
        let (what, total_bytes) = (self.what, self.total_bytes);
        self.show_line(|elapsed| line(what, done_bytes, total_bytes, elapsed));
    }

    /// Shows a line about something else's work, when it is time to.
    pub fn show_line(&mut self, line: impl FnOnce(Duration) -> String) {
        let elapsed = self.start.elapsed();
        let interval = if self.is_terminal { TERMINAL_INTERVAL } else { LINE_INTERVAL };
        if elapsed < self.shown.unwrap_or_default() + interval {
            return;
        }
        self.shown = Some(elapsed);
        let line = line(elapsed);
        if self.is_terminal {
            // The blanks cover what a longer line before has left.
            eprint!("\r{line:<78}");
        } else {
            eprintln!("{line}");
        }
    }

    /// Ends the line.
    pub fn end(&self) {
        if self.is_terminal && self.shown.is_some() {
            eprintln!();
        }
    }
}

/// One line: how far, how fast, how much longer.
pub fn line(what: &str, done_bytes: u64, total_bytes: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(1e-3);
    let per_second = done_bytes as f64 / seconds;
    let percent = done_bytes as f64 * 100.0 / total_bytes.max(1) as f64;
    let left = total_bytes.saturating_sub(done_bytes) as f64 / per_second.max(1.0);
    format!(
        "{what}: {percent:.0} % of {}, {} a second, {left:.0} s left",
        size(total_bytes),
        size(per_second as u64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_how_fast_and_how_long() {
        let line = line("read", 1 << 30, 4 << 30, Duration::from_secs(2));
        assert_eq!(line, "read: 25 % of 4 GiB, 512 MiB a second, 6 s left");
    }
}
