//! The result as a page for a browser: the answer first, all that is behind it below.

mod charts;
mod configuration;
mod databases;
mod meanwhile;
mod mixed;
mod restored;
mod space;

use std::path::Path;

use ashlar_report::{Mark, Page, count, day, nanos};
use ashlar_scenario::{Measured, Metric, Over, Scenario};
use ashlar_statistics::steady;

use crate::figures::Figures;
use crate::judge::{Answer, Estimate, Row};
use crate::outcome::Metrics;
use crate::text::{latency, place, published, word};
use crate::{Outcome, answer};

/// Of a run's course.
const COURSE_INTERVAL: std::time::Duration = std::time::Duration::from_secs(1);

impl Outcome {
    pub(crate) fn html(&self) -> String {
        let mut page = Page::new(&self.title);
        page.remark(&self.what_and_where());
        page.answer(&self.answer);
        if let Some(why) = &self.partial {
            page.paragraph(&format!("This is a part of the experiment: {why}."));
        }
        let invalid =
            self.checks.iter().filter(|check| check.is_of_validity && check.answer != Answer::Passed);
        let invalid: Vec<&str> = invalid.map(|check| check.name.as_str()).collect();
        if !invalid.is_empty() {
            page.paragraph(&format!(
                "This is not a valid result, because the check that it is {} did not pass: look at the numbers, and do \
                 not rely on them.",
                invalid.join(" and ")
            ));
        }
        // Where the question is what goes under a bound, or what a rising load does, the curve is the answer.
        let is_of_bound = self.metrics.iter().any(|metrics| matches!(metrics.metric.over, Over::Under(_)))
            || self.outline.plan.variants.iter().any(|variant| variant.load.share().is_some());
        if is_of_bound {
            self.loads(&mut page);
        }
        for chart in self.bars() {
            page.drawing(&chart.svg());
        }
        self.checks(&mut page);
        self.against(&mut page);
        self.between_targets(&mut page);
        if !is_of_bound {
            self.loads(&mut page);
        }
        if self.is_calculated() {
            self.bill(&mut page);
        } else {
            self.all_runs(&mut page);
            self.databases(&mut page);
            self.meanwhile(&mut page);
            self.space(&mut page);
            self.restored(&mut page);
            self.configuration(&mut page);
        }
        paper(&mut page, &self.outline.scenario);
        page.heading("What this rerun does not show");
        page.list(&self.limits);
        self.how_to_repeat(&mut page);
        page.finish()
    }

    fn what_and_where(&self) -> String {
        let targets: Vec<String> = self.targets.iter().map(|target| target.address.clone()).collect();
        let place = match targets.as_slice() {
            [] => format!("worked out from {} values", self.values()),
            targets => format!("on {}", targets.join(" and ")),
        };
        let source = self.outline.scenario.source.as_ref();
        let paper = source.map_or(String::new(), |source| format!("; after {}", source.paper));
        format!(
            "{}, preset {}, {place}, {}{paper}",
            self.scenario,
            self.plan.preset,
            day(self.begun_unix_seconds)
        )
    }

    fn checks(&self, page: &mut Page) {
        page.heading("Does it hold?");
        for check in &self.checks {
            let mark = match check.answer {
                Answer::Passed => Mark::Good,
                Answer::Failed => Mark::Bad,
                Answer::CannotTell => Mark::Warning,
            };
            page.finding(
                mark,
                word(check.answer),
                &check.name,
                "",
                &format!("{}. Found: {}.", check.rule.trim_end_matches('.'), check.found),
            );
        }
    }

    fn against(&self, page: &mut Page) {
        let is_published = |metrics: &Metrics| metrics.published.is_some() || metrics.note.is_some();
        let has_paper = self.metrics.iter().any(is_published);
        page.heading(if has_paper { "Beside what was published" } else { "What was asked, in numbers" });
        let mut rows = Vec::new();
        for metrics in &self.metrics {
            let found = |row: &Row| {
                let found = row.estimate.as_ref()?;
                Some(answer::estimate(&metrics.metric, found) + &self.for_each_core(&metrics.metric, found))
            };
            let mut told: Vec<[String; 2]> = metrics
                .rows
                .iter()
                .map(|row| [found(row).unwrap_or_else(|| "none".into()), place(row)])
                .collect();
            if told.is_empty() {
                told.push(["not measured".into(), String::new()]);
            }
            for (index, [here, of]) in told.into_iter().enumerate() {
                let first = |text: String| if index == 0 { text } else { String::new() };
                let mut row = vec![first(answer::asked(&metrics.metric)), here, of];
                if has_paper {
                    row.insert(1, first(published(metrics)));
                }
                rows.push(row);
            }
        }
        let header: &[&str] = match has_paper {
            true => &["Metric", "Published", "Here", "Variant and target"],
            false => &["Metric", "Here", "Variant and target"],
        };
        page.table(header, &[], &rows);
        if self.is_calculated() {
            page.remark("Worked out, not measured: the same values give the same, and there is no interval.");
            return;
        }
        page.remark(
            "Means over repetitions, with the 95 % interval by Student's t where there are several; ratios over pairs of \
             the same repetition, with a bootstrap interval from three pairs on.",
        );
        if has_paper {
            page.remark("What was published is of another machine: it stands beside ours and is in none of our numbers.");
        }
    }

    /// What goes under a bound is sold by the core.
    fn for_each_core(&self, metric: &Metric, found: &Estimate) -> String {
        match (&metric.over, metric.measured) {
            (Over::Under(_), Measured::Iops) => {
                format!(", {} for each core", count(found.value / self.machine.cores.max(1) as f64))
            }
            _ => String::new(),
        }
    }

    fn between_targets(&self, page: &mut Page) {
        if self.compared.is_empty() {
            return;
        }
        page.heading("The targets against each other");
        let row = |compared: &crate::judge::Compared| {
            let ratio = compared.ratio.map_or_else(
                || "none".to_string(),
                |found| match found.interval {
                    Some((low, high)) => format!("{:.2} ({low:.2} to {high:.2})", found.value),
                    None => format!("{:.2}", found.value),
                },
            );
            let pair = format!("{} against {}", compared.target, compared.base);
            vec![compared.variant.clone(), pair, compared.measured.into(), ratio, compared.verdict.clone()]
        };
        let rows: Vec<Vec<String>> = self.compared.iter().map(row).collect();
        page.table(&["Variant", "Targets", "Of", "Ratio", "Verdict"], &[3], &rows);
    }

    fn all_runs(&self, page: &mut Page) {
        if self.runs.iter().all(|figures| figures.space.is_some() || figures.restored.is_some()) {
            return;
        }
        page.heading("All runs, in their order");
        let row = |figures: &Figures| {
            let bytes = match figures.database {
                Some(_) => String::new(),
                None => answer::number(figures.bytes_per_second() / 1e6),
            };
            vec![
                figures.id.clone(),
                count(figures.per_second()),
                bytes,
                figures.latency_mean_nanos.map_or_else(String::new, nanos),
                latency(figures.p50_nanos),
                latency(figures.p99_nanos),
                latency(figures.p999_nanos),
                latency(figures.max_nanos),
                notes(figures),
            ]
        };
        let header =
            ["Run", "A second", "MB a second", "Mean", "Half within", "99 %", "99.9 %", "Longest", ""];
        page.table(&header, &[1, 2, 3, 4, 5, 6, 7], &self.runs.iter().map(row).collect::<Vec<_>>());
        page.remark(
            "A percentile is told only with ten requests above it. What the load generator left lies in runs/.",
        );
    }

    fn how_to_repeat(&self, page: &mut Page) {
        page.heading("How to repeat it");
        let target = |index: usize, address: &str| {
            let option = if index == 0 { "--target" } else { "--also" };
            let leave = if address.starts_with("block:") { " --destroy" } else { "" };
            format!(" {option} {address}{leave}")
        };
        let targets: Vec<String> =
            self.targets.iter().enumerate().map(|(index, site)| target(index, &site.address)).collect();
        let log = self.targets.iter().find_map(|site| site.log.as_ref());
        let log = log.map_or(String::new(), |address| format!(" --log-target {address}"));
        let is_file = Path::new(&self.source).extension().is_some();
        let source = if is_file { "scenario.toml" } else { &self.source };
        let (preset, seed) = (&self.plan.preset, self.plan.seed);
        page.verbatim(&format!(
            "ashlar lab run {source} -s {preset} --seed {seed}{}{log}{}",
            targets.concat(),
            self.results_named()
        ));
        let what = match self.is_calculated() {
            true => "The scenario was:",
            false => {
                "For one run alone: fio's jobs are in data/ and runs/; put a place of yours for `filename`. The scenario was:"
            }
        };
        page.remark(what);
        page.verbatim(&self.text);
    }
}

/// What is to be said of a run beside its numbers.
fn notes(figures: &Figures) -> String {
    let mut notes = Vec::new();
    if let Some(offered) = figures.offered_per_second {
        let behind = if figures.is_behind() { ", fell behind" } else { "" };
        notes.push(format!("{} offered{behind}", count(offered)));
    }
    if figures.database.as_ref().is_some_and(|database| database.parts.len() > 1) {
        notes.push("reads and batches together".into());
    }
    if let Some(written) = figures.value(Measured::DriveBytesPerHostByte) {
        notes.push(format!("{} bytes to drives for each of hosts", answer::number(written)));
    }
    let requests: Vec<f64> = figures.course.iter().map(|moment| moment.requests).collect();
    let stalls = steady::stalls(&requests, COURSE_INTERVAL);
    if !stalls.is_empty() {
        let length: u64 = stalls.iter().map(|stall| stall.length.as_secs()).sum();
        notes.push(format!("stood still for {length} s"));
    }
    notes.join(", ")
}

/// What the paper says, leaves out and contradicts.
fn paper(page: &mut Page, scenario: &Scenario) {
    if let Some(source) = &scenario.source {
        page.heading("What the paper did");
        page.paragraph(&format!("{} ({})", source.defined, source.paper));
    }
    for (heading, sentences) in [
        ("What the paper leaves out", &scenario.missing),
        ("Where it contradicts itself", &scenario.contradictions),
        ("What it claims and nobody can check here", &scenario.claims),
        ("How this rerun differs from it", &scenario.rerun),
    ] {
        if !sentences.is_empty() {
            page.heading(heading);
            page.list(sentences);
        }
    }
}
