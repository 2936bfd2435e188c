//! Two sentences for whoever asked: what was measured, beside what was published, and whether it holds.

use ashlar_report::{count, nanos};
use ashlar_scenario::{Measured, Metric, Over};
use ashlar_statistics::compare::Better;

use crate::judge::{Answer, Checked, Estimate, Row, better, name};
use crate::outcome::Metrics;
use crate::space::words;

/// A value of a metric in words, with its unit.
pub(crate) fn value(measured: Measured, value: f64) -> String {
    match measured {
        Measured::Iops => format!("{} requests a second", count(value)),
        Measured::MegabytesPerSecond => format!("{} MB a second", number(value)),
        Measured::TransactionsPerSecond => format!("{} transactions a second", count(value)),
        Measured::NewOrdersPerMinute => format!("{} new orders a minute", count(value)),
        Measured::TradesPerSecond => format!("{} trade results a second", number(value)),
        Measured::RowsPerSecond
        | Measured::ReadsPerSecond
        | Measured::UpdatedRowsPerSecond
        | Measured::SelectedRowsPerSecond
        | Measured::DeletedRowsPerSecond
        | Measured::ScannedRowsPerSecond => format!("{} {}", count(value), name(measured)),
        Measured::LatencyMillis
        | Measured::LatencyP99Millis
        | Measured::ReadLatencyMillis
        | Measured::ReadLatencyP99Millis
        | Measured::DeviceMillis
        | Measured::Restored(_) => nanos(value * 1e6),
        Measured::TransactionsPerProcessorSecond => {
            format!("{} transactions a second of processor time", count(value))
        }
        Measured::Space(taken) => words::value(taken, value),
        Measured::DriveBytesPerHostByte => format!("{} bytes to drives for each of hosts", number(value)),
        Measured::Bill(amount, per) => format!("{} {}", number(value), amount.in_words(per)),
    }
}

/// A number with three digits that count.
pub(crate) fn number(value: f64) -> String {
    match value {
        v if v >= 100.0 => count(v),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// A value as its metric has it: a ratio, or in its unit.
pub(crate) fn of_metric(metric: &Metric, figure: f64) -> String {
    match metric.over {
        Over::Ratio(..) => number(figure),
        Over::Every | Over::Entry(_) | Over::Under(_) => value(metric.measured, figure),
    }
}

/// With its interval.
pub(crate) fn estimate(metric: &Metric, estimate: &Estimate) -> String {
    let told = of_metric(metric, estimate.value);
    match estimate.interval {
        Some((low, high)) if low == high => told,
        Some((low, high)) => format!("{told} ({} to {})", of_metric(metric, low), of_metric(metric, high)),
        None => told,
    }
}

/// What a metric asks, for people.
pub(crate) fn asked(metric: &Metric) -> String {
    let what = name(metric.measured);
    match &metric.over {
        Over::Every => format!("{what}, best variant"),
        Over::Entry(entry) => format!("{what}, best variant of {entry}"),
        Over::Ratio(of, to) => format!("{of} against {to} ({what})"),
        Over::Under(bound) => {
            format!("{what} with 99 of 100 under {}", nanos(bound.as_nanos() as f64))
        }
    }
}

/// `within` tells more of the first metric.
pub(crate) fn answer(metrics: &[Metrics], within: Option<String>, checks: &[Checked]) -> String {
    let first = metrics.first().map_or("Nothing was measured.".to_string(), measured);
    let within = within.map_or_else(String::new, |within| format!("{within} "));
    format!("{first} {within}{}", checked(checks))
}

/// The first metric, on each target, beside what was published.
fn measured(metrics: &Metrics) -> String {
    let metric = &metrics.metric;
    let said: Vec<String> = metrics.rows.iter().take(SAID_MAX).map(|row| row_said(metric, row)).collect();
    let rest = metrics.rows.len().saturating_sub(SAID_MAX);
    let more = if rest > 0 { format!(", and {rest} more") } else { String::new() };
    let lead = match (&metric.over, better(metric.measured)) {
        (Over::Ratio(of, to), _) => format!("The ratio of {of} to {to} in {} is ", name(metric.measured)),
        (Over::Under(bound), _) => {
            format!("With 99 of 100 answered within {}: ", nanos(bound.as_nanos() as f64))
        }
        (Over::Every | Over::Entry(_), Better::Higher) => "At most ".into(),
        (Over::Every | Over::Entry(_), Better::Lower) => format!("At best a {} of ", name(metric.measured)),
    };
    let ours = if said.is_empty() { "nothing was measured".into() } else { said.join(" and ") };
    let published = metrics.published.map_or_else(String::new, |published| {
        let note = metrics.note.as_ref().map_or(String::new(), |note| format!(" ({note})"));
        format!("; published: {}{note}", of_metric(metric, published))
    });
    format!("{lead}{ours}{more}{published}.")
}

fn row_said(metric: &Metric, row: &Row) -> String {
    let of = if row.of.is_empty() { String::new() } else { format!(" ({})", row.of) };
    match (&row.estimate, &metric.over) {
        (Some(found), Over::Ratio(..)) => format!("{} on {}{of}", estimate(metric, found), row.target),
        (Some(found), _) => format!("{} on {}{of}", of_metric(metric, found.value), row.target),
        (None, Over::Under(_)) => format!("no variant on {}", row.target),
        (None, _) => format!("nothing on {}", row.target),
    }
}

/// Rows in the first sentence; the table has all.
const SAID_MAX: usize = 3;

fn checked(checks: &[Checked]) -> String {
    let of = |answer: Answer| -> Vec<&str> {
        checks.iter().filter(|check| check.answer == answer).map(|check| check.name.as_str()).collect()
    };
    let (passed, failed, open) = (of(Answer::Passed), of(Answer::Failed), of(Answer::CannotTell));
    if checks.is_empty() {
        return "Nothing was to be checked.".into();
    }
    if passed.len() == checks.len() {
        return if checks.len() == 1 {
            "The check passed.".into()
        } else {
            format!("All {} checks passed.", checks.len())
        };
    }
    let mut parts = vec![match passed.len() {
        0 => "No check passed".to_string(),
        count => format!("{count} of {} checks passed", checks.len()),
    }];
    if !failed.is_empty() {
        parts.push(format!("failed: {}", failed.join(", ")));
    }
    if !open.is_empty() {
        parts.push(format!("cannot be told: {}", open.join(", ")));
    }
    format!("{}.", parts.join("; "))
}
