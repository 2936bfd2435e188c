//! What pgbench says of its load: rate and latency, of a whole run or of a part of it.

use crate::error::{Error, Result};
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What pgbench measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Load {
    pub(crate) transactions: u64,
    pub(crate) tps: f64,
    pub(crate) p99: Duration,
}

/// A part of a run: transactions that ended in it count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    start: f64,
    end: f64,
}

impl Window {
    pub(crate) fn new(start: SystemTime, end: SystemTime) -> Self {
        let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        Self { start: seconds(start), end: seconds(end) }
    }
}

/// One committed transaction: when it ended, in seconds of the epoch, and how long it took.
struct Line {
    end: f64,
    micros: u64,
}

/// All transactions of one run of pgbench.
pub(crate) struct Run {
    lines: Vec<Line>,
}

impl Run {
    pub(crate) fn read(log_prefix: &Path) -> Result<Self> {
        Ok(Self::of(&read_logs(log_prefix)?))
    }

    pub(crate) fn of(text: &str) -> Self {
        Self { lines: lines_of(text) }
    }
}

/// Transactions per second of a run: the middle of each step, in seconds of the epoch, and the rate in it.
/// The last step is left out, since it is seldom a whole one.
pub(crate) fn rates(run: &Run, step: f64) -> Vec<(f64, f64)> {
    let first = run.lines.iter().map(|line| line.end).fold(f64::MAX, f64::min);
    let last = run.lines.iter().map(|line| line.end).fold(f64::MIN, f64::max);
    if run.lines.is_empty() {
        return Vec::new();
    }
    let mut counts = vec![0_u64; ((last - first) / step) as usize + 1];
    for line in &run.lines {
        counts[((line.end - first) / step) as usize] += 1;
    }
    if counts.len() > 1 {
        counts.pop();
    }
    let point = |(number, count): (usize, u64)| (first + (number as f64 + 0.5) * step, count as f64 / step);
    counts.into_iter().enumerate().map(point).collect()
}

/// What the logs of one run of pgbench say.
pub(crate) fn read_load(log_prefix: &Path) -> Result<Load> {
    Ok(load_of(&read_logs(log_prefix)?))
}

/// What they say of parts of it.
pub(crate) fn read_windows(log_prefix: &Path, windows: &[Window]) -> Result<Vec<Load>> {
    let text = read_logs(log_prefix)?;
    Ok(windows.iter().map(|window| load_within(&text, *window)).collect())
}

fn read_logs(log_prefix: &Path) -> Result<String> {
    let directory = log_prefix.parent().unwrap_or(Path::new("."));
    let prefix = log_prefix.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let entries = fs::read_dir(directory).map_err(|e| Error::io("pgbench's logs", e))?;
    let mut text = String::new();
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            text.push_str(&fs::read_to_string(entry.path()).map_err(|e| Error::io("pgbench's log", e))?);
        }
    }
    Ok(text)
}

/// A line is `client number micros script seconds micros`; it is written when the commit has been
/// acknowledged. A killed pgbench leaves its last line unfinished.
fn lines_of(text: &str) -> Vec<Line> {
    let line_of = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, _, latency, _, seconds, micros] = fields[..] else { return None };
        let end = seconds.parse::<f64>().ok()? + micros.parse::<f64>().ok()? / 1e6;
        Some(Line { end, micros: latency.parse().ok()? })
    };
    text.lines().filter_map(line_of).collect()
}

/// Transactions, rate and 99th percentile of log lines.
pub(crate) fn load_of(text: &str) -> Load {
    let lines = lines_of(text);
    let first = lines.iter().map(|line| line.end - line.micros as f64 / 1e6).fold(f64::MAX, f64::min);
    let last = lines.iter().map(|line| line.end).fold(f64::MIN, f64::max);
    summary(lines, last - first)
}

/// The same of those that ended within a window.
pub(crate) fn load_within(text: &str, window: Window) -> Load {
    let mut lines = lines_of(text);
    lines.retain(|line| (window.start..window.end).contains(&line.end));
    summary(lines, window.end - window.start)
}

fn summary(mut lines: Vec<Line>, seconds: f64) -> Load {
    lines.sort_unstable_by_key(|line| line.micros);
    let transactions = lines.len() as u64;
    let p99 = lines.get(lines.len() * 99 / 100).map_or(0, |line| line.micros);
    let tps = if transactions == 0 { 0.0 } else { transactions as f64 / seconds.max(1e-3) };
    Load { transactions, tps, p99: Duration::from_micros(p99) }
}
