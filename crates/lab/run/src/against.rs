//! Two results of one scenario against each other: before and after a change, or two machines.
//!
//! They were measured apart, so there are no pairs: a machine that drifted in between looks like a result.
//! What else was not the same is told beside the figures.

use std::path::{Path, PathBuf};

use ashlar_report::day;
use ashlar_scenario::{Amount, DatabaseLoad, Load, Measured, Metric, Over, Parts, Per, Taken, Variant};
use ashlar_statistics::compare::{self, Pair, Verdict};
use serde::Serialize;

use crate::answer;
use crate::begin::identity;
use crate::judge::{Estimate, Table, better, exact, in_words, name, rate};
use crate::outcome::Outcome;
use crate::record::Records;
use crate::space::words;
use crate::text::{many, wrapped};
use crate::{Error, Result};

const MILLIS: &str = "ms";

/// What is asked of two results.
pub struct Asked {
    /// As in scenarios; none: the rate of a closed loop, and the 99th percentile of latency.
    pub metrics: Vec<String>,
    pub equal_percent: f64,
}

/// One of the two.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    pub directory: PathBuf,
    pub begun_unix_seconds: u64,
    /// Why it is a part, or no valid result.
    pub doubts: Vec<String>,
}

/// One metric of one variant.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    pub variant: String,
    /// In both, or of either where they differ.
    pub target: String,
    pub metric: &'static str,
    pub unit: &'static str,
    pub base: Option<Estimate>,
    pub other: Option<Estimate>,
    /// Of the other to the base.
    pub ratio: Option<Estimate>,
    pub verdict: String,
    #[serde(skip)]
    found: Option<Verdict>,
}

/// Two results against each other, as `ashlar lab compare --json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct Against {
    pub scenario: String,
    pub base: Side,
    pub other: Side,
    pub equal_percent: f64,
    /// What was not the same beside what was measured.
    pub differences: Vec<String>,
    pub lines: Vec<Line>,
}

/// Holds a result against an earlier one of the same scenario. Measures nothing and writes nothing.
///
/// # Errors
/// When a directory holds no run, the scenarios or presets are not the same, or a metric is unknown.
pub fn against(base: &Path, other: &Path, asked: &Asked) -> Result<Against> {
    let measured: Vec<Measured> =
        asked.metrics.iter().map(|text| of_every(text)).collect::<Result<Vec<Measured>>>()?;
    let open = |directory: &Path| Outcome::of(&Records::new(directory));
    held_against(&open(base)?, &open(other)?, &measured, asked.equal_percent)
}

fn held_against(
    base: &Outcome,
    other: &Outcome,
    measured: &[Measured],
    equal_percent: f64,
) -> Result<Against> {
    if base.scenario != other.scenario || base.outline.plan.preset != other.outline.plan.preset {
        let told = |one: &Outcome| {
            format!("{} holds {} at {}", one.directory, one.scenario, one.outline.plan.preset)
        };
        return Err(Error::environment(format!(
            "{}, {}: only results of one scenario and preset can be compared",
            told(base),
            told(other)
        )));
    }
    let lines = lines(base, other, measured, equal_percent);
    if lines.is_empty() {
        return Err(Error::environment(format!(
            "{} and {} have no variant and target in common",
            base.directory, other.directory
        )));
    }
    Ok(Against {
        scenario: base.scenario.clone(),
        differences: differences(base, other),
        base: side(base),
        other: side(other),
        equal_percent,
        lines,
    })
}

fn of_every(text: &str) -> Result<Measured> {
    let unable = |what: String| Error::environment(what);
    let metric = Metric::try_from(text.to_string()).map_err(|error| unable(error.to_string()))?;
    match metric.over {
        Over::Every => Ok(metric.measured),
        Over::Entry(_) | Over::Ratio(..) | Over::Under(_) => {
            Err(unable(format!("metric `{text}`: every variant is compared: name it without brackets")))
        }
    }
}

fn side(outcome: &Outcome) -> Side {
    Side {
        directory: PathBuf::from(&outcome.directory),
        begun_unix_seconds: outcome.begun_unix_seconds,
        doubts: outcome.partial.iter().chain(&outcome.invalid).cloned().collect(),
    }
}

/// The variants of both, on the same target; on the only one, whatever it is called.
fn lines(base: &Outcome, other: &Outcome, asked: &[Measured], equal_percent: f64) -> Vec<Line> {
    let (of_base, of_other) = (base.table(), other.table());
    let is_sole = base.targets.len() == 1 && other.targets.len() == 1;
    let mut lines = Vec::new();
    for was in &of_base.plan.variants {
        let is_same =
            |is: &&Variant| is.entries == was.entries && (is_sole || is.target.address == was.target.address);
        let Some(is) = of_other.plan.variants.iter().find(is_same) else { continue };
        let usual = usual(&was.load);
        for measured in if asked.is_empty() { &usual } else { asked } {
            lines.push(line((&of_base, was), (&of_other, is), *measured, equal_percent));
        }
    }
    lines
}

/// At a rate that is offered, the rate says nothing.
fn usual(load: &Load) -> Vec<Measured> {
    match load {
        load if load.is_open() => vec![Measured::LatencyMillis, Measured::LatencyP99Millis],
        // A statement is of a hundred rows, or of all.
        Load::Database(load) if load.work.is_some() => vec![Measured::RowsPerSecond],
        Load::Database(DatabaseLoad { mixed: Some(work), .. }) => match work.parts {
            Parts::Reads => vec![Measured::ReadsPerSecond, Measured::ReadLatencyP99Millis],
            Parts::Load => vec![Measured::RowsPerSecond],
            Parts::Both => vec![Measured::ReadsPerSecond, Measured::RowsPerSecond],
        },
        Load::Space(_) => vec![Measured::Space(Taken::PhysicalMegabytes), Measured::Space(Taken::Overall)],
        load @ Load::Restore(_) => vec![rate(load)],
        Load::Bill(_) => Amount::ALL.map(|amount| Measured::Bill(amount, Per::Whole)).to_vec(),
        load => vec![rate(load), Measured::LatencyP99Millis],
    }
}

fn line(
    (of_base, was): (&Table<'_>, &Variant),
    (of_other, is): (&Table<'_>, &Variant),
    measured: Measured,
    equal_percent: f64,
) -> Line {
    let values = |table: &Table<'_>, variant: &Variant| -> Vec<f64> {
        table.runs(variant).iter().filter_map(|run| run.value(measured)).collect()
    };
    let (before, after) = (values(of_base, was), values(of_other, is));
    let is_measured = !before.is_empty() && !after.is_empty();
    let apart = || compare::apart(&before, &after, better(measured), equal_percent, 1);
    let found = match (&was.load, before.as_slice(), after.as_slice()) {
        (Load::Bill(_), [base], [other]) => {
            let pair = Pair { base: *base, other: *other };
            exact(pair, better(measured), equal_percent).map(|(_, found)| found)
        }
        _ => is_measured.then(apart).flatten(),
    };
    let ratio = found.and_then(|found| found.ratio).map(|ratio| Estimate {
        value: ratio.estimate,
        interval: Some((ratio.low, ratio.high)),
        runs: before.len().min(after.len()),
    });
    let target = match was.target.address == is.target.address {
        true => was.target.address.clone(),
        false => format!("{} / {}", was.target.address, is.target.address),
    };
    Line {
        variant: was.entries.join("-"),
        target,
        metric: name(measured),
        unit: unit(measured),
        base: of_base.estimate(was, measured),
        other: of_other.estimate(is, measured),
        ratio,
        verdict: found.map_or("not measured".to_string(), |found| in_words(found.verdict, equal_percent)),
        found: found.map(|found| found.verdict),
    }
}

fn unit(measured: Measured) -> &'static str {
    match measured {
        Measured::Iops => "requests/s",
        Measured::MegabytesPerSecond => "MB/s",
        Measured::TransactionsPerSecond => "transactions/s",
        Measured::NewOrdersPerMinute => "new orders/min",
        Measured::TradesPerSecond => "trades/s",
        Measured::RowsPerSecond => "rows/s",
        Measured::ReadsPerSecond => "reads/s",
        Measured::UpdatedRowsPerSecond => "updated rows/s",
        Measured::SelectedRowsPerSecond => "selected rows/s",
        Measured::DeletedRowsPerSecond => "deleted rows/s",
        Measured::ScannedRowsPerSecond => "scanned rows/s",
        Measured::LatencyMillis
        | Measured::LatencyP99Millis
        | Measured::ReadLatencyMillis
        | Measured::ReadLatencyP99Millis
        | Measured::DeviceMillis
        | Measured::Restored(_) => MILLIS,
        Measured::TransactionsPerProcessorSecond => "transactions/s of processor time",
        Measured::Space(Taken::CreateMillis | Taken::ReadyMillis) => MILLIS,
        Measured::Space(taken) => words::name(taken),
        Measured::DriveBytesPerHostByte => "bytes to drives/byte",
        Measured::Bill(amount, per) => amount.in_words(per),
    }
}

/// Each with both values.
fn differences(base: &Outcome, other: &Outcome) -> Vec<String> {
    let mut found = Vec::new();
    let mut held = |what: &str, was: String, is: String| {
        if was != is {
            found.push(format!("{what}: {was}, then {is}"));
        }
    };
    let targets = |outcome: &Outcome| {
        let told = |site: &crate::record::Site| format!("{} on {}", site.address, identity(&site.footing));
        outcome.targets.iter().map(told).collect::<Vec<_>>().join("; ")
    };
    held("processor", base.machine.processor.clone(), other.machine.processor.clone());
    held("cores", base.machine.cores.to_string(), other.machine.cores.to_string());
    held("memory in bytes", base.machine.memory_bytes.to_string(), other.machine.memory_bytes.to_string());
    held("kernel", base.machine.kernel.clone(), other.machine.kernel.clone());
    held("hypervisor", base.machine.hypervisor.clone(), other.machine.hypervisor.clone());
    held("fio", base.fio.clone(), other.fio.clone());
    held("version of ashlar", base.version.clone(), other.version.clone());
    held("targets", targets(base), targets(other));
    if base.text != other.text {
        found.push("the scenario's file: scenario.toml of either directory".into());
    }
    found
}

impl Against {
    /// Any that got worse by more than chance and more than what counts as equal.
    #[must_use]
    pub fn slower(&self) -> Vec<String> {
        let is_slower = |line: &&Line| line.found == Some(Verdict::Slower);
        let told = |line: &Line| format!("{} of {} on {}", line.metric, line.variant, line.target);
        self.lines.iter().filter(is_slower).map(told).collect()
    }

    /// Why nothing can be said: a side that is a part or not valid, or a line that cannot be told.
    #[must_use]
    pub fn open(&self) -> Option<String> {
        let doubt = |side: &Side| Some(format!("{}: {}", side.directory.display(), side.doubts.first()?));
        let undecided = || {
            let is_open = |line: &&Line| matches!(line.found, None | Some(Verdict::CannotTell { .. }));
            let open: Vec<&Line> = self.lines.iter().filter(is_open).collect();
            let first = open.first()?;
            let what = format!("{} of {}: {}", first.metric, first.variant, first.verdict);
            Some(format!("{} cannot be told, the first is {what}", many(open.len(), "line")))
        };
        doubt(&self.base).or_else(|| doubt(&self.other)).or_else(undecided)
    }

    /// What stands above the table, for a terminal.
    #[must_use]
    pub fn heading(&self) -> String {
        let told = |side: &Side| format!("{} ({})", side.directory.display(), day(side.begun_unix_seconds));
        let mut lines = vec![
            format!("{}: {} against {}", self.scenario, told(&self.other), told(&self.base)),
            String::new(),
            "They were measured apart: whatever changed in between is in the ratio, too.".into(),
        ];
        for side in [&self.base, &self.other] {
            let doubt = |what: &String| wrapped(&format!("{}: {what}", side.directory.display()), 0);
            lines.extend(side.doubts.iter().map(doubt));
        }
        if !self.differences.is_empty() {
            lines.extend([String::new(), "Not the same in both:".into()]);
            lines.extend(self.differences.iter().map(|what| format!("  {}", wrapped(what, 4))));
        }
        lines.join("\n")
    }

    /// The table, for a terminal: variant, target, metric, before, after, ratio, verdict.
    #[must_use]
    pub fn rows(&self) -> Vec<Vec<String>> {
        self.lines.iter().map(Line::cells).collect()
    }
}

impl Line {
    /// Rates are named by their unit.
    fn what(&self) -> String {
        if self.unit == MILLIS { format!("{}, {}", self.metric, self.unit) } else { self.unit.to_string() }
    }

    fn cells(&self) -> Vec<String> {
        let value = |side: &Option<Estimate>| {
            side.as_ref().map_or("none".to_string(), |side| answer::number(side.value))
        };
        let ratio = self.ratio.map_or(String::new(), |ratio| {
            let interval = ratio.interval.filter(|(low, high)| low < high);
            let interval = interval.map_or(String::new(), |(low, high)| {
                format!(" ({} to {})", answer::number(low), answer::number(high))
            });
            format!("{}{interval}", answer::number(ratio.value))
        });
        vec![
            self.variant.clone(),
            self.target.clone(),
            self.what(),
            value(&self.base),
            value(&self.other),
            ratio,
            self.verdict.clone(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::outcome;

    /// As fast as the other result, times this; the second target stays as it was.
    fn times(factor: f64) -> Outcome {
        outcome("", move |runs| {
            for run in runs.iter_mut().filter(|run| run.target == "a") {
                run.requests = (run.requests as f64 * factor) as u64;
            }
        })
    }

    fn verdicts(base: &Outcome, other: &Outcome) -> Vec<(String, String)> {
        let against = held_against(base, other, &[Measured::Iops], 5.0).unwrap();
        against.lines.iter().map(|line| (line.target.clone(), line.verdict.clone())).collect()
    }

    #[test]
    fn what_got_slower_is_told_and_what_did_not_is_equal() {
        let (before, after) = (times(1.0), times(0.5));
        for (target, verdict) in verdicts(&before, &after) {
            let wanted = if target == "/a" { "slower" } else { "equal within 5 %" };
            assert_eq!(verdict, wanted, "{target}");
        }
        assert!(verdicts(&after, &before).iter().any(|(_, verdict)| verdict == "faster"));
        let against = held_against(&before, &after, &[], 5.0).unwrap();
        // A closed loop: its rate and its latency, of four variants on two targets.
        assert_eq!(against.lines.len(), 16);
        assert_eq!(against.slower().len(), 4);
        assert_eq!(against.open(), None);
        assert_eq!(against.differences, Vec::<String>::new());
    }

    #[test]
    fn a_part_and_another_machine_are_told() {
        let (before, mut after) = (times(1.0), outcome("", |runs| runs.truncate(9)));
        after.machine.kernel = "7".into();
        let against = held_against(&before, &after, &[Measured::Iops], 5.0).unwrap();
        assert_eq!(against.differences, ["kernel: 6, then 7"]);
        assert!(against.other.doubts[0].contains("9 of 24 runs"), "{:?}", against.other.doubts);
        assert!(against.open().unwrap().contains("9 of 24 runs"));
    }

    #[test]
    fn another_scenario_and_a_metric_of_one_variant_are_refused() {
        let (before, mut after) = (times(1.0), times(1.0));
        after.scenario = "test/other".into();
        let refused = held_against(&before, &after, &[], 5.0).unwrap_err().to_string();
        assert!(refused.contains("only results of one scenario"), "{refused}");
        assert!(of_every("iops(read)").unwrap_err().to_string().contains("without brackets"));
        assert!(of_every("speed").unwrap_err().to_string().contains("is not one of"));
    }
}
