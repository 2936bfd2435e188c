//! The drawings of a page: bars for what metrics ask, lines for latency against throughput.

use ashlar_report::{Axis, Bar, Bars, Chart, Group, Height, Line, Page, Scale, Series, count, nanos};
use ashlar_scenario::{Axis as Varied, Measured, Over, Taken, Variant};
use ashlar_statistics::compare::Better;

use crate::judge::{better, name};
use crate::{Outcome, answer};

/// Lines that can be told apart in one chart.
const LINES_MAX: usize = 5;

impl Outcome {
    /// A chart for each thing that a metric measures, of the variants that it is about.
    /// The answer as a drawing.
    pub(crate) fn first_chart(&self) -> Option<String> {
        self.bars().first().map(Bars::svg)
    }

    pub(super) fn bars(&self) -> Vec<Bars> {
        let mut charts: Vec<(Measured, Vec<&str>)> = Vec::new();
        for metrics in &self.metrics {
            let entries = metrics.metric.entries();
            match charts.iter_mut().find(|(measured, _)| *measured == metrics.metric.measured) {
                Some((_, of)) if !of.is_empty() && !entries.is_empty() => of.extend(entries),
                Some((_, of)) => of.clear(),
                None => charts.push((metrics.metric.measured, entries)),
            }
        }
        charts.into_iter().map(|(measured, entries)| self.bars_of(measured, &entries)).collect()
    }

    /// All variants where no entries are named.
    fn bars_of(&self, measured: Measured, entries: &[&str]) -> Bars {
        let table = self.table();
        let is_named = |variant: &Variant| {
            entries.is_empty() || variant.entries.iter().any(|entry| entries.contains(&entry.as_str()))
        };
        let variants: Vec<&Variant> =
            self.outline.plan.variants.iter().filter(|variant| is_named(variant)).collect();
        let mut series: Vec<Series> = Vec::new();
        let mut names: Vec<String> = Vec::new();
        for variant in &variants {
            let (target, name) = (&variant.target, variant.entries.join("-"));
            if series.iter().all(|series| series.name != target.id) {
                series.push(Series { name: target.id.clone(), is_simulated: target.is_simulated() });
            }
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let group = |name: &String| {
            // An entry with a target of its own is on no other.
            let of = |(number, series): (usize, &Series)| {
                let variant = variants
                    .iter()
                    .find(|variant| variant.target.id == series.name && variant.entries.join("-") == *name)?;
                let found = table.estimate(variant, measured);
                Some((number, found.map(|found| Bar { value: found.value, interval: found.interval })))
            };
            let bars: Vec<(usize, Option<Bar>)> = series.iter().enumerate().filter_map(of).collect();
            Group { name: name.clone(), bars, published: self.published_of(measured, name, &variants) }
        };
        let groups: Vec<Group> = names.iter().map(group).collect();
        let sense = if better(measured) == Better::Higher { "more" } else { "less" };
        Bars {
            title: format!("{} of each variant and target, with what was published", name(measured)),
            label: format!("{}; {sense} is better", name(measured)),
            tick: tick(measured),
            series,
            groups,
        }
    }

    /// What was published of a variant: beside the best of those that it may be of.
    fn published_of(&self, measured: Measured, name: &str, variants: &[&Variant]) -> Option<f64> {
        let variant = variants.iter().find(|variant| variant.entries.join("-") == name)?;
        let is_of = |over: &Over| match over {
            Over::Every | Over::Under(_) => true,
            Over::Entry(entry) => variant.entries.contains(entry),
            Over::Ratio(..) => false,
        };
        let metrics = self.metrics.iter().find(|metrics| {
            metrics.metric.measured == measured
                && is_of(&metrics.metric.over)
                && metrics.rows.iter().any(|row| row.of == name)
        });
        metrics.and_then(|metrics| metrics.published)
    }

    /// Latency against throughput, where the load varies.
    pub(super) fn loads(&self, page: &mut Page) {
        let axes = &self.outline.scenario.matrix;
        let Some(varied) = axes.iter().find(|axis| is_of_load(axis)) else { return };
        let charts = self.load_lines(varied);
        if charts.is_empty() {
            return;
        }
        page.heading("Latency against throughput");
        for lines in charts {
            let chart = Chart {
                title: format!("latency against requests a second while {} varies", varied.name),
                x: Axis { label: "requests a second".into(), scale: Scale::Linear, tick: count },
                y: Axis { label: "99 of 100 answered within".into(), scale: Scale::Logarithmic, tick: nanos },
                lines,
                height: Height::Full,
            };
            page.drawing(&chart.svg());
        }
        page.remark(&format!(
            "Along each line the {} varies. A line that goes up and not to the right has found its limit.",
            varied.name
        ));
    }

    /// A line for each target and combination of the other axes; those of a combination in one chart.
    fn load_lines(&self, varied: &Varied) -> Vec<Vec<Line>> {
        let table = self.table();
        let is_varied = |id: &&String| varied.entries.iter().any(|entry| entry.id == **id);
        let mut combinations: Vec<(String, Vec<Line>)> = Vec::new();
        for variant in &self.outline.plan.variants {
            let found = |measured| table.estimate(variant, measured).map(|found| found.value);
            let (Some(rate), Some(p99)) = (found(Measured::Iops), found(Measured::LatencyP99Millis)) else {
                continue;
            };
            let others: Vec<&str> =
                variant.entries.iter().filter(|id| !is_varied(id)).map(String::as_str).collect();
            let others = others.join("-");
            let name = if others.is_empty() {
                variant.target.id.clone()
            } else {
                format!("{others}, {}", variant.target.id)
            };
            if combinations.iter().all(|(known, _)| *known != others) {
                combinations.push((others.clone(), Vec::new()));
            }
            let of_others = combinations.iter_mut().find(|(known, _)| *known == others);
            let lines = of_others.map(|(_, lines)| lines).expect("it was put there if it was missing");
            if lines.iter().all(|line| line.name != name) {
                lines.push(Line { name: name.clone(), points: Vec::new() });
            }
            let line =
                lines.iter_mut().find(|line| line.name == name).expect("it was put there if it was missing");
            line.points.push((rate, p99 * 1e6));
        }
        let mut charts: Vec<Vec<Line>> = Vec::new();
        for (_, mut lines) in combinations {
            lines.retain(|line| line.points.len() > 1);
            match charts.last_mut() {
                Some(chart) if chart.len() + lines.len() <= LINES_MAX => chart.append(&mut lines),
                _ => charts.push(lines),
            }
        }
        charts.retain(|lines| !lines.is_empty());
        charts
    }
}

fn tick(measured: Measured) -> fn(f64) -> String {
    match measured {
        Measured::Iops
        | Measured::TransactionsPerSecond
        | Measured::NewOrdersPerMinute
        | Measured::TransactionsPerProcessorSecond
        | Measured::TradesPerSecond
        | Measured::RowsPerSecond
        | Measured::ReadsPerSecond
        | Measured::UpdatedRowsPerSecond
        | Measured::SelectedRowsPerSecond
        | Measured::DeletedRowsPerSecond
        | Measured::ScannedRowsPerSecond => count,
        Measured::LatencyMillis
        | Measured::LatencyP99Millis
        | Measured::ReadLatencyMillis
        | Measured::ReadLatencyP99Millis
        | Measured::DeviceMillis
        | Measured::Restored(_) => |millis| nanos(millis * 1e6),
        Measured::Space(Taken::CreateMillis | Taken::ReadyMillis) => |millis| nanos(millis * 1e6),
        Measured::MegabytesPerSecond
        | Measured::DriveBytesPerHostByte
        | Measured::Bill(..)
        | Measured::Space(_) => answer::number,
    }
}

/// The axes along which only the load changes: more requests at a time, or at a higher rate.
fn is_of_load(axis: &Varied) -> bool {
    let keys = ["outstanding", "rate", "threads"];
    axis.entries.len() > 1
        && axis.entries.iter().all(|entry| {
            !entry.overrides.is_empty() && entry.overrides.keys().all(|key| keys.contains(&key.as_str()))
        })
}
