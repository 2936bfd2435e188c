//! Works beside each other: what each keeps of its own rate, and each of them in each run.

use ashlar_report::{Page, count, nanos};
use ashlar_scenario::{Load, Measured, Parts, Variant};

use crate::database::PartFigures;
use crate::database::mixed::{LOAD, READS};
use crate::figures::Figures;
use crate::judge::Estimate;
use crate::text::latency;
use crate::{Outcome, answer};

/// The parts with what each is measured by.
const PARTS: [(&str, Parts, Measured); 2] =
    [(READS, Parts::Reads, Measured::ReadsPerSecond), (LOAD, Parts::Load, Measured::RowsPerSecond)];

impl Outcome {
    /// Nothing where no two works ran beside each other.
    pub(super) fn parts(&self, page: &mut Page) {
        let kept = self.kept();
        if !kept.is_empty() {
            page.heading("What each part keeps beside the other");
            page.table(&["Target", "Part", "Alone", "Beside the other", "Keeps"], &[2, 3, 4], &kept);
            page.remark(
                "What it keeps is the mean over pairs of the same repetition, with a bootstrap interval from three pairs \
                 on. The sum of the parts means that both keep everything.",
            );
        }
        let parts = self.runs.iter().flat_map(|run| {
            let parts = run.database.iter().flat_map(|database| &database.parts);
            parts.map(move |part| row(run, part))
        });
        let parts: Vec<Vec<String>> = parts.collect();
        if !parts.is_empty() {
            page.heading("Each part of each run");
            let header = [
                "Run",
                "Part",
                "Users",
                "A second",
                "Rows a second",
                "MB read a second",
                "MB written a second",
                "Mean",
                "Half within",
                "99 % within",
            ];
            page.table(&header, &[2, 3, 4, 5, 6, 7, 8, 9], &parts);
            page.remark(
                "Of the reads: statements, and the pages that hold their rows, wherever they came from. Of the load: \
                 batches of ten thousand rows, the bytes of their sources and of the facts, without the log.",
            );
        }
    }

    fn kept(&self) -> Vec<Vec<String>> {
        let of = |variant: &Variant| match &variant.load {
            Load::Database(load) => load.mixed.map(|work| work.parts),
            _ => None,
        };
        let (variants, table) = (&self.outline.plan.variants, self.table());
        let both = variants.iter().filter(|variant| of(variant) == Some(Parts::Both));
        let mut rows = Vec::new();
        for both in both {
            for (name, part, measured) in PARTS {
                let is_alone = |other: &&Variant| other.target == both.target && of(other) == Some(part);
                let Some(alone) = variants.iter().find(is_alone) else { continue };
                let told = |variant: &Variant| {
                    let found = table.estimate(variant, measured);
                    found.map_or("not measured".into(), |found| answer::value(measured, found.value))
                };
                let kept = table.compare((both, alone), measured, 0.0).map(|(estimate, _)| percent(estimate));
                let kept = kept.unwrap_or("not measured".into());
                rows.push(vec![both.target.id.clone(), name.into(), told(alone), told(both), kept]);
            }
        }
        rows
    }
}

fn percent(estimate: Estimate) -> String {
    let told = |share: f64| count((100.0 * share).round());
    match estimate.interval {
        Some((low, high)) => format!("{} % ({} to {})", told(estimate.value), told(low), told(high)),
        None => format!("{} %", told(estimate.value)),
    }
}

fn row(run: &Figures, part: &PartFigures) -> Vec<String> {
    vec![
        run.id.clone(),
        part.name.clone(),
        part.users.to_string(),
        answer::number(part.per_second),
        part.rows_per_second.map_or_else(String::new, count),
        answer::number(part.read_bytes_per_second / 1e6),
        answer::number(part.written_bytes_per_second / 1e6),
        part.latency_mean_nanos.map_or_else(String::new, nanos),
        latency(part.p50_nanos),
        latency(part.p99_nanos),
    ]
}
