//! How far a long operation is, on stderr: one line that is replaced on a terminal, a line now and
//! then elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use crate::output::size;
use crate::stderr;

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
            stderr::part(format_args!("\r{line:<78}"));
        } else {
            stderr::line(line);
        }
    }

    /// Ends the line.
    pub fn end(&self) {
        if self.is_terminal && self.shown.is_some() {
            stderr::line("");
        }
    }
}

/// How long something runs before its pace is told of, unless a hundredth is done by then. Arbitrary: what
/// the first moments did says nothing of the rest.
const PACE_AFTER: Duration = Duration::from_secs(5);

/// One line: how far, how fast, how much longer, as soon as that can be told.
pub fn line(what: &str, done_bytes: u64, total_bytes: u64, elapsed: Duration) -> String {
    let percent = done_bytes as f64 * 100.0 / total_bytes.max(1) as f64;
    let so_far = format!("{what}: {percent:.0} % of {}", size(total_bytes));
    if done_bytes == 0 || elapsed < PACE_AFTER && done_bytes < total_bytes / 100 {
        return so_far;
    }
    let per_second = done_bytes as f64 / elapsed.as_secs_f64().max(1e-3);
    let left = total_bytes.saturating_sub(done_bytes) as f64 / per_second.max(1.0);
    format!("{so_far}, {} a second, {left:.0} s left", size(per_second as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_how_fast_and_how_long() {
        let line = line("read", 1 << 30, 4 << 30, Duration::from_secs(2));
        assert_eq!(line, "read: 25 % of 4 GiB, 512 MiB a second, 6 s left");
    }

    /// A rebuild that had just begun was said to take years.
    #[test]
    fn what_has_just_begun_has_no_pace() {
        let line = |done_bytes, seconds| line("rebuild", done_bytes, 4 << 30, Duration::from_secs(seconds));
        assert_eq!(line(0, 60), "rebuild: 0 % of 4 GiB");
        assert_eq!(line(4096, 1), "rebuild: 0 % of 4 GiB");
        assert!(line(64 << 20, 1).ends_with("63 s left"), "{}", line(64 << 20, 1));
        assert!(line(32 << 20, 10).ends_with("left"), "{}", line(32 << 20, 10));
    }
}
