//! What pgbench itself says of a load, on the way and at its end.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// What pgbench says at the end of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    /// Transactions done.
    pub transactions: u64,
    /// Of them a second, without the time that connecting took.
    pub tps: f64,
    /// Mean latency in milliseconds.
    pub latency_mean_millis: f64,
    /// How far latencies lie around it; only with progress, a log or a rate.
    pub latency_deviation_millis: Option<f64>,
    /// Transactions that failed for good, from conflicts with others; before 15 such a client gave up.
    pub failed: u64,
    /// What it said on the way.
    pub progress: Vec<Progress>,
}

/// One line on the way: of the time since the line before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Seconds since the load began.
    pub seconds: f64,
    /// Transactions a second.
    pub tps: f64,
    /// Mean latency in milliseconds; `None` when nothing was done.
    pub latency_mean_millis: Option<f64>,
    /// How far latencies lie around it.
    pub latency_deviation_millis: Option<f64>,
    /// Transactions that failed.
    pub failed: u64,
}

impl LoadReport {
    /// Reads what pgbench said: the report from its standard output, the progress from its standard error.
    ///
    /// # Errors
    /// When the report is not there, as when pgbench ended early.
    pub fn parse(stdout: &str, stderr: &str) -> Result<LoadReport> {
        let after = |label: &str| stdout.lines().find_map(|line| line.trim().strip_prefix(label));
        let first = |text: &str| -> Option<f64> {
            let number = |c: char| c.is_ascii_digit() || c == '.';
            let text = text.trim_start();
            text[..text.find(|c: char| !number(c)).unwrap_or(text.len())].parse().ok()
        };
        let number = |label: &str| after(label).and_then(first);
        let needed = |label: &str| {
            number(label).ok_or_else(|| Error::command(format!("pgbench did not tell {label:?}: {stdout}")))
        };
        Ok(LoadReport {
            transactions: needed("number of transactions actually processed:")? as u64,
            tps: needed("tps =")?,
            latency_mean_millis: needed("latency average =")?,
            latency_deviation_millis: number("latency stddev ="),
            failed: number("number of failed transactions:").unwrap_or(0.0) as u64,
            progress: stderr.lines().filter_map(progress).collect(),
        })
    }
}

/// `progress: 5.0 s, 812.3 tps, lat 1.2 ms stddev 0.4, 0 failed`, and more after it with a rate.
fn progress(line: &str) -> Option<Progress> {
    let mut parts = line.strip_prefix("progress: ")?.split(", ");
    let seconds = parts.next()?.strip_suffix(" s")?.parse().ok()?;
    let tps = parts.next()?.strip_suffix(" tps")?.parse().ok()?;
    let latency: Vec<&str> = parts.next()?.split(' ').collect();
    let ["lat", mean, "ms", "stddev", deviation] = latency[..] else { return None };
    let failed = parts.find_map(|part| part.strip_suffix(" failed")).and_then(|count| count.parse().ok());
    // Nothing done is NaN in some versions and 0 in others.
    let sane = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite());
    Some(Progress {
        seconds,
        tps,
        latency_mean_millis: sane(mean),
        latency_deviation_millis: sane(deviation),
        failed: failed.unwrap_or(0),
    })
}
