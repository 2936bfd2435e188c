//! What client, servers, machine, disk and array did at the same time, and what sessions waited for.

use std::collections::BTreeMap;

use ashlar_collect::{Sample, ServerSample};
use ashlar_report::{Axis, Chart, Height, Line, Page, Scale, bytes, count};
use ashlar_scenario::Variant;

use crate::Outcome;
use crate::figures::Figures;
use crate::meanwhile::{Meanwhile, at_seconds};

/// Events that are told by their names; the rest is one more. A chart has five lines.
const EVENTS: usize = 4;
const REST: &str = "anything else";

impl Outcome {
    /// Nothing where nobody looked.
    pub(super) fn meanwhile(&self, page: &mut Page) {
        self.waits(page);
        if self.seen.is_empty() {
            return;
        }
        page.heading("What happened at the same time");
        for (figures, samples) in &self.seen {
            page.paragraph(&format!(
                "Run `{}`, the busiest on {}. Seconds are of its measured time.",
                figures.id, figures.target
            ));
            charts(figures, samples).iter().for_each(|chart| page.drawing(&chart.svg()));
        }
        let of_runs = self.runs.iter().filter_map(|run| run.meanwhile.as_ref());
        let most = of_runs.map(|found| found.watching_cores).fold(0.0, f64::max);
        page.remark(&format!(
            "Looking at servers, machine, disk and array took {:.2} % of one processor at most. All samples are in \
             runs/RUN/samples.jsonl.",
            100.0 * most
        ));
    }

    /// Nothing where no server was asked.
    fn waits(&self, page: &mut Page) {
        let rows: Vec<Vec<String>> =
            self.outline.plan.variants.iter().filter_map(|variant| self.waits_of(variant)).collect();
        if rows.is_empty() {
            return;
        }
        page.heading("Where the time goes");
        page.table(&["Variant", "Target", "Sessions at work", "Of their time"], &[2], &rows);
        page.remark(
            "Sessions that work, looked at once a second, by the wait events of PostgreSQL (manual, 28.2); CPU:Running \
             waits for nothing.",
        );
    }

    fn waits_of(&self, variant: &Variant) -> Option<Vec<String>> {
        let is_of = |run: &&Figures| run.variant == variant.name && run.target == variant.target.id;
        let found: Vec<&Meanwhile> = self
            .runs
            .iter()
            .filter(is_of)
            .filter_map(|run| run.meanwhile.as_ref().filter(|found| !found.sessions.is_empty()))
            .collect();
        if found.is_empty() {
            return None;
        }
        let at_work = found.iter().map(|one| one.at_work()).sum::<f64>() / found.len() as f64;
        let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
        for (event, sessions) in found.iter().flat_map(|one| &one.sessions) {
            *sums.entry(event).or_default() += sessions;
        }
        let all: f64 = sums.values().sum();
        let shares: Vec<String> = largest(&sums)
            .into_iter()
            .map(|(event, sum)| format!("{event} {} %", count(100.0 * sum / all.max(1e-9))))
            .collect();
        let name = variant.entries.join("-");
        Some(vec![name, variant.target.id.clone(), format!("{at_work:.1}"), shares.join(", ")])
    }
}

/// The largest, from the largest on, and the rest.
fn largest(sums: &BTreeMap<&str, f64>) -> Vec<(String, f64)> {
    let mut all: Vec<(String, f64)> = sums.iter().map(|(name, sum)| ((*name).to_string(), *sum)).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let smaller = all.split_off(EVENTS.min(all.len()));
    let rest: f64 = smaller.iter().map(|(_, sum)| sum).sum();
    if rest > 0.0 {
        all.push((REST.to_string(), rest));
    }
    all
}

/// One for each layer, over the same seconds.
fn charts(figures: &Figures, samples: &[Sample]) -> Vec<Chart> {
    let end = figures.measured_seconds + 0.5;
    let inside = |at: &f64| (0.0..=end).contains(at);
    let is_measured = figures.measured_unix_millis.is_some();
    let samples: Vec<(f64, &Sample)> = samples
        .iter()
        .map(|sample| (at_seconds(figures, sample), sample))
        .filter(|(at, _)| !is_measured || inside(at))
        // So that the axes of all charts are the same.
        .map(|(at, sample)| (if is_measured { at.min(figures.measured_seconds) } else { at }, sample))
        .collect();
    let line = |name: &str, of: &dyn Fn(&Sample) -> Option<f64>| Line {
        name: name.to_string(),
        points: samples.iter().filter_map(|(at, sample)| Some((*at, of(sample)?))).collect(),
    };
    let client = figures.course.iter().map(|second| (second.at_seconds, second.requests)).collect();
    let percent = |share: f64| 100.0 * share;
    let charts = [
        (
            "client: answers a second",
            count as fn(f64) -> String,
            vec![Line { name: "answers".into(), points: client }],
        ),
        ("servers: sessions at work, by what they wait for", short, waiting(&samples)),
        (
            "machine: % of its time",
            count,
            vec![
                line("processors busy", &|one| Some(percent(one.machine.busy))),
                line("taken by its host", &|one| Some(percent(one.machine.stolen))),
                line("something waits for a disk", &|one| one.machine.disk_pressure.map(percent)),
            ],
        ),
        (
            "device of the target: bytes a second",
            |value| bytes(value as u64),
            vec![
                line("read", &|one| Some(one.disk?.read_bytes_per_second)),
                line("written", &|one| Some(one.disk?.written_bytes_per_second)),
                line("read of the log", &|one| Some(one.log_disk?.read_bytes_per_second)),
                line("written to the log", &|one| Some(one.log_disk?.written_bytes_per_second)),
            ],
        ),
        (
            "pool: bytes a second",
            |value| bytes(value as u64),
            vec![
                line("read by hosts", &|one| Some(one.array?.host_read_bytes_per_second)),
                line("written by hosts", &|one| Some(one.array?.host_written_bytes_per_second)),
                line("read from drives", &|one| Some(one.array?.drive_read_bytes_per_second)),
                line("written to drives", &|one| Some(one.array?.drive_written_bytes_per_second)),
            ],
        ),
    ];
    charts.into_iter().filter_map(|(label, tick, lines)| chart(label, tick, lines)).collect()
}

/// Ticks may lie closer than whole numbers.
fn short(value: f64) -> String {
    if value.fract() == 0.0 || value >= 10.0 { count(value) } else { format!("{value:.1}") }
}

/// `None` of nothing.
fn chart(label: &str, tick: fn(f64) -> String, mut lines: Vec<Line>) -> Option<Chart> {
    lines.retain(|line| line.points.len() > 1);
    let x = Axis { label: "seconds".into(), scale: Scale::Linear, tick: short };
    let y = Axis { label: label.into(), scale: Scale::Linear, tick };
    let title = format!("{label}, over time");
    (!lines.is_empty()).then_some(Chart { title, x, y, lines, height: Height::Low })
}

/// A line for each of the events that most sessions waited for.
fn waiting(samples: &[(f64, &Sample)]) -> Vec<Line> {
    let seen: Vec<(f64, &ServerSample)> =
        samples.iter().filter_map(|(at, sample)| Some((*at, sample.server.as_ref()?))).collect();
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for (event, sessions) in seen.iter().flat_map(|(_, one)| &one.sessions) {
        *sums.entry(event).or_default() += *sessions as f64;
    }
    let named: Vec<String> = largest(&sums).into_iter().map(|(name, _)| name).collect();
    let of = |sample: &ServerSample, name: &str| -> u64 {
        let is_it =
            |event: &str| if name == REST { !named.iter().any(|one| one == event) } else { event == name };
        sample.sessions.iter().filter(|(event, _)| is_it(event)).map(|(_, sessions)| sessions).sum()
    };
    let line = |name: &String| Line {
        name: name.clone(),
        points: seen.iter().map(|(at, sample)| (*at, of(sample, name) as f64)).collect(),
    };
    named.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_events_that_most_wait_for_have_lines_and_the_rest_is_one() {
        let sums: BTreeMap<&str, f64> =
            [("a", 1.0), ("b", 9.0), ("c", 3.0), ("d", 2.0), ("e", 5.0), ("f", 0.5)].into_iter().collect();
        let names: Vec<(String, f64)> = largest(&sums);
        let told: Vec<(&str, f64)> = names.iter().map(|(name, sum)| (name.as_str(), *sum)).collect();
        assert_eq!(told, [("b", 9.0), ("e", 5.0), ("c", 3.0), ("d", 2.0), (REST, 1.5)]);
        let sessions = |pairs: &[(&str, u64)]| ServerSample {
            sessions: pairs.iter().map(|(name, count)| ((*name).to_string(), *count)).collect(),
            ..ServerSample::default()
        };
        let sample = |server| Sample { server: Some(server), ..Sample::default() };
        let first = sample(sessions(&[("a", 9), ("b", 8), ("c", 7), ("d", 6), ("e", 1), ("f", 2)]));
        let other = sample(sessions(&[("e", 2)]));
        let lines = waiting(&[(1.0, &first), (2.0, &other)]);
        assert_eq!(lines.len(), 5);
        assert_eq!(lines[0].points, [(1.0, 9.0), (2.0, 0.0)]);
        assert_eq!((lines[4].name.as_str(), &lines[4].points[..]), (REST, &[(1.0, 3.0), (2.0, 2.0)][..]));
    }
}
