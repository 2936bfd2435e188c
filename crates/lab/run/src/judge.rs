//! What the figures say: metrics with their intervals, targets against each other, and the checks.
//!
//! Values are means over repetitions with a 95 % interval; ratios are over pairs of the same repetition,
//! which were made close together in time. What was published stands beside ours and is never mixed with it.

mod checks;
mod metrics;
mod rules;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ashlar_scenario::{Amount, DatabaseLoad, Load, Measured, Parts, Plan, Returned, Taken, Variant};
use ashlar_statistics::compare::{self, Better, Comparison, Pair, Verdict};
use ashlar_statistics::interval::{self, Interval};
use serde::Serialize;

use crate::Outline;
use crate::figures::Figures;
use crate::restored;
use crate::space::words;

pub(crate) use checks::judge as check;
pub use checks::{Answer, Checked};
pub use metrics::Row;
pub(crate) use metrics::rows as metric;

/// Two targets within this of each other are equal: less is no reason to buy one of them.
const EQUAL_PERCENT: f64 = 5.0;

/// The plan with the figures of the runs that were made.
pub(crate) struct Table<'a> {
    pub(crate) plan: &'a Plan,
    /// Of each variant.
    by_variant: BTreeMap<&'a str, Vec<&'a Figures>>,
    pub(crate) seed: u64,
    /// Of the machine that made the load.
    cores: usize,
}

/// A value, with the interval it is believed to lie in.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Estimate {
    pub value: f64,
    /// Absent of one run, whose spread nobody knows, and of too few pairs.
    pub interval: Option<(f64, f64)>,
    pub runs: usize,
}

/// One target against the first.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Compared {
    pub variant: String,
    pub target: String,
    pub base: String,
    pub measured: &'static str,
    pub ratio: Option<Estimate>,
    pub verdict: String,
}

impl<'a> Table<'a> {
    pub(crate) fn new(outline: &'a Outline, runs: &'a [Figures], cores: usize) -> Table<'a> {
        let mut by_variant: BTreeMap<&str, Vec<&Figures>> = BTreeMap::new();
        for figures in runs {
            by_variant.entry(&figures.variant).or_default().push(figures);
        }
        Table { plan: &outline.plan, by_variant, seed: outline.seed, cores }
    }

    /// The runs of a variant.
    pub(crate) fn runs(&self, variant: &Variant) -> &[&'a Figures] {
        self.by_variant.get(variant.name.as_str()).map_or(&[], Vec::as_slice)
    }

    /// `None` where a run was not made or has no such value.
    pub(crate) fn estimate(&self, variant: &Variant, measured: Measured) -> Option<Estimate> {
        let runs = self.runs(variant);
        let values = runs.iter().map(|figures| figures.value(measured)).collect::<Option<Vec<f64>>>()?;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let interval = interval::of_runs(&values).map(|found| (found.low.max(0.0), found.high));
        mean.is_finite().then_some(Estimate { value: mean, interval, runs: values.len() })
    }

    /// Over the repetitions that both have; `None` where one measured nothing.
    pub(crate) fn compare(
        &self,
        (of, to): (&Variant, &Variant),
        measured: Measured,
        equal_percent: f64,
    ) -> Option<(Estimate, Comparison)> {
        let pairs: Vec<Pair> = self
            .runs(to)
            .iter()
            .filter_map(|base| {
                let other = self.runs(of).iter().find(|other| other.repetition == base.repetition)?;
                Some(Pair { base: base.value(measured)?, other: other.value(measured)? })
            })
            .collect();
        if let (Load::Bill(_), [pair]) = (&of.load, &pairs[..]) {
            return exact(*pair, better(measured), equal_percent);
        }
        let found = compare::compare(&pairs, better(measured), equal_percent, self.seed)?;
        let sum = |side: fn(&Pair) -> f64| pairs.iter().map(side).sum::<f64>();
        let value =
            found.ratio.map_or_else(|| sum(|pair| pair.other) / sum(|pair| pair.base), |r| r.estimate);
        let interval = found.ratio.map(|ratio| (ratio.low, ratio.high));
        value.is_finite().then_some((Estimate { value, interval, runs: pairs.len() }, found))
    }

    /// Each variant on each further target against the same on the first.
    pub(crate) fn targets_compared(&self) -> Vec<Compared> {
        let mut compared = Vec::new();
        for base in &self.plan.variants {
            let others = self.plan.variants.iter().filter(|other| other.entries == base.entries);
            let is_first = others.clone().next().is_some_and(|first| first.name == base.name);
            for other in others.filter(|other| is_first && other.name != base.name) {
                // At a rate that is offered, the rate says nothing.
                let measured = match &base.load {
                    load if load.is_open() => Measured::LatencyMillis,
                    Load::Bill(_) => continue,
                    load => rate(load),
                };
                let found = self.compare((other, base), measured, EQUAL_PERCENT);
                compared.push(Compared {
                    variant: base.entries.join("-"),
                    target: other.target.id.clone(),
                    base: base.target.id.clone(),
                    measured: name(measured),
                    ratio: found.map(|(estimate, _)| estimate),
                    verdict: found
                        .map_or("not measured".into(), |(_, found)| in_words(found.verdict, EQUAL_PERCENT)),
                });
            }
        }
        compared
    }
}

/// What there is more of where it goes faster.
pub(crate) fn rate(load: &Load) -> Measured {
    match load {
        Load::Io(_) => Measured::Iops,
        Load::Database(load) if load.work.is_some() => Measured::RowsPerSecond,
        // A statement is a row, a range or ten thousand rows.
        Load::Database(DatabaseLoad { mixed: Some(work), .. }) => match work.parts {
            Parts::Reads => Measured::ReadsPerSecond,
            Parts::Load => Measured::RowsPerSecond,
            Parts::Both => Measured::MegabytesPerSecond,
        },
        Load::Database(_) | Load::Several(_) => Measured::TransactionsPerSecond,
        Load::Restore(_) => Measured::Restored(Returned::BackMillis),
        Load::Space(_) => Measured::Space(Taken::PhysicalMegabytes),
        Load::Bill(_) => Measured::Bill(Amount::ALL[0], ashlar_scenario::Per::Whole),
    }
}

/// What is worked out has no spread.
pub(crate) fn exact(pair: Pair, better: Better, equal_percent: f64) -> Option<(Estimate, Comparison)> {
    let value = pair.other / pair.base;
    if !value.is_finite() || value <= 0.0 {
        return None;
    }
    let bound = 1.0 + equal_percent / 100.0;
    let verdict = if (1.0 / bound..=bound).contains(&value) {
        Verdict::Equal
    } else if (value > 1.0) == (better == Better::Higher) {
        Verdict::Faster
    } else {
        Verdict::Slower
    };
    let ratio = Some(Interval { low: value, estimate: value, high: value });
    Some((Estimate { value, interval: Some((value, value)), runs: 1 }, Comparison { ratio, verdict }))
}

pub(crate) fn better(measured: Measured) -> Better {
    match measured {
        Measured::Iops
        | Measured::MegabytesPerSecond
        | Measured::TransactionsPerSecond
        | Measured::NewOrdersPerMinute
        | Measured::TradesPerSecond
        | Measured::TransactionsPerProcessorSecond
        | Measured::RowsPerSecond
        | Measured::ReadsPerSecond
        | Measured::UpdatedRowsPerSecond
        | Measured::SelectedRowsPerSecond
        | Measured::DeletedRowsPerSecond
        | Measured::ScannedRowsPerSecond
        | Measured::Bill(Amount::UsableTerabytes, _) => Better::Higher,
        Measured::LatencyMillis
        | Measured::LatencyP99Millis
        | Measured::ReadLatencyMillis
        | Measured::ReadLatencyP99Millis
        | Measured::DeviceMillis
        | Measured::DriveBytesPerHostByte
        | Measured::Restored(_)
        | Measured::Bill(..) => Better::Lower,
        Measured::Space(taken) => words::better(taken),
    }
}

/// For people.
pub(crate) fn name(measured: Measured) -> &'static str {
    match measured {
        Measured::Iops => "requests a second",
        Measured::MegabytesPerSecond => "MB a second",
        Measured::TransactionsPerSecond => "transactions a second",
        Measured::NewOrdersPerMinute => "new orders a minute",
        Measured::TradesPerSecond => "trade results a second",
        Measured::RowsPerSecond => "rows a second",
        Measured::ReadsPerSecond => "reads a second",
        Measured::ReadLatencyMillis => "mean latency of reads",
        Measured::ReadLatencyP99Millis => "99th percentile of the latency of reads",
        Measured::UpdatedRowsPerSecond => "updated rows a second",
        Measured::SelectedRowsPerSecond => "selected rows a second",
        Measured::DeletedRowsPerSecond => "deleted rows a second",
        Measured::ScannedRowsPerSecond => "scanned rows a second",
        Measured::LatencyMillis => "mean latency",
        Measured::LatencyP99Millis => "99th percentile of latency",
        Measured::DeviceMillis => "mean latency of the device",
        Measured::TransactionsPerProcessorSecond => "transactions a second of processor time",
        Measured::Space(taken) => words::name(taken),
        Measured::Restored(returned) => restored::words::name(returned),
        Measured::DriveBytesPerHostByte => "bytes to drives for each byte of hosts",
        Measured::Bill(amount, per) => amount.in_words(per),
    }
}

pub(crate) fn in_words(verdict: Verdict, equal_percent: f64) -> String {
    match verdict {
        Verdict::Faster => "faster".into(),
        Verdict::Slower => "slower".into(),
        Verdict::Equal => format!("equal within {equal_percent} %"),
        Verdict::CannotTell { more_runs } => format!("cannot tell: {}", more(more_runs)),
    }
}

/// What would help.
pub(crate) fn more(runs: usize) -> String {
    match runs {
        compare::MORE_RUNS_MAX.. => "more repetitions would hardly help".into(),
        1 => "1 more repetition would help".into(),
        runs => format!("about {runs} more repetitions would help"),
    }
}
