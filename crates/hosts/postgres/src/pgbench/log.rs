//! What pgbench's logs say of a load: rate and latency, of a whole run or of a part of it.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::log_parts;
use crate::error::{Error, Result};

/// What a log, or a part of it, measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Transactions that were acknowledged.
    pub transactions: u64,
    /// Of them a second.
    pub tps: f64,
    /// 99 of a hundred took at most so long.
    pub p99: Duration,
}

/// A part of a run: transactions that ended in it count.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    start: f64,
    end: f64,
}

impl Window {
    /// From one time of the clock to another.
    #[must_use]
    pub fn new(start: SystemTime, end: SystemTime) -> Self {
        let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        Self { start: seconds(start), end: seconds(end) }
    }
}

/// One committed transaction: when it ended, in seconds of the epoch, and how long it took.
#[derive(Clone, Copy, Debug)]
struct Line {
    end: f64,
    micros: u64,
}

/// All transactions of one run of pgbench.
#[derive(Clone, Debug)]
pub struct LoadLog {
    lines: Vec<Line>,
}

impl LoadLog {
    /// Reads the logs of one run.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn read(prefix: &Path) -> Result<Self> {
        let (directory, prefix) = log_parts(prefix);
        let context = |e: std::io::Error| Error::io("pgbench's logs", &e);
        let mut text = String::new();
        for entry in fs::read_dir(directory).map_err(context)?.flatten() {
            if entry.file_name().to_string_lossy().strip_prefix(&prefix).is_some_and(is_number) {
                text.push_str(&fs::read_to_string(entry.path()).map_err(context)?);
            }
        }
        Ok(Self::of(&text))
    }

    /// A line is `client number micros script seconds micros`, with the lag behind the schedule after it when
    /// there is one; it is written when the commit has been acknowledged. A killed pgbench leaves its last
    /// line unfinished, and one that failed has a word for its time.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let line_of = |line: &str| {
            let fields: Vec<&str> = line.split(' ').collect();
            let [_, _, latency, _, seconds, micros, ..] = fields[..] else { return None };
            let end = seconds.parse::<f64>().ok()? + micros.parse::<f64>().ok()? / 1e6;
            Some(Line { end, micros: latency.parse().ok()? })
        };
        Self { lines: text.lines().filter_map(line_of).collect() }
    }

    /// The whole run: from the begin of its first transaction to the end of its last.
    #[must_use]
    pub fn load(&self) -> Load {
        let begin = |line: &Line| line.end - line.micros as f64 / 1e6;
        let first = self.lines.iter().map(begin).fold(f64::MAX, f64::min);
        let last = self.lines.iter().map(|line| line.end).fold(f64::MIN, f64::max);
        summary(self.lines.clone(), last - first)
    }

    /// The transactions that ended within a window.
    #[must_use]
    pub fn within(&self, window: Window) -> Load {
        let mut lines = self.lines.clone();
        lines.retain(|line| (window.start..window.end).contains(&line.end));
        summary(lines, window.end - window.start)
    }

    /// Transactions per second over time: the middle of each step, in seconds of the epoch, and the rate in
    /// it. The last step is left out, since it is seldom a whole one.
    #[must_use]
    pub fn rates(&self, step: f64) -> Vec<(f64, f64)> {
        let first = self.lines.iter().map(|line| line.end).fold(f64::MAX, f64::min);
        let last = self.lines.iter().map(|line| line.end).fold(f64::MIN, f64::max);
        if self.lines.is_empty() {
            return Vec::new();
        }
        let mut counts = vec![0_u64; ((last - first) / step) as usize + 1];
        for line in &self.lines {
            counts[((line.end - first) / step) as usize] += 1;
        }
        if counts.len() > 1 {
            counts.pop();
        }
        let point =
            |(number, count): (usize, u64)| (first + (number as f64 + 0.5) * step, count as f64 / step);
        counts.into_iter().enumerate().map(point).collect()
    }
}

/// What pgbench appends to the prefix: its process, and the number of the thread.
fn is_number(ending: &str) -> bool {
    ending.starts_with('.') && ending.chars().all(|c| c == '.' || c.is_ascii_digit())
}

fn summary(mut lines: Vec<Line>, seconds: f64) -> Load {
    lines.sort_unstable_by_key(|line| line.micros);
    let transactions = lines.len() as u64;
    let p99 = lines.get(lines.len() * 99 / 100).map_or(0, |line| line.micros);
    let tps = if transactions == 0 { 0.0 } else { transactions as f64 / seconds.max(1e-3) };
    Load { transactions, tps, p99: Duration::from_micros(p99) }
}
