//! What came of a paper, for a browser, for a terminal and for a page of text.

use ashlar_report::{Mark, Page, day};

use super::{PaperOutcome, Part};
use crate::text::{cell, many, wrapped};
use crate::{Outcome, Verdict};

impl PaperOutcome {
    /// In a word for each experiment, and one for all.
    fn headline(&self) -> String {
        let of = |wanted: Verdict| self.parts.iter().filter(|part| part.verdict == wanted).count();
        let (all, passed, failed) = (self.parts.len(), of(Verdict::Passed), of(Verdict::Failed));
        let open = all - passed - failed;
        if passed == all {
            return match all {
                1 => "The experiment passed its checks.".into(),
                _ => format!("All {all} experiments passed their checks."),
            };
        }
        let mut said = vec![format!("{passed} of {} passed all checks", many(all, "experiment"))];
        if failed > 0 {
            said.push(format!("{failed} failed one"));
        }
        if open > 0 {
            let have = if open == 1 { "has" } else { "have" };
            said.push(format!("{open} {have} no valid result"));
        }
        format!("{}.", said.join("; "))
    }

    pub(super) fn html(&self) -> String {
        let mut page = Page::new(&format!("The experiments of {}", self.paper_name()));
        page.remark(&self.where_and_when());
        page.answer(&self.headline());
        let row = |part: &Part| {
            let answer = part.answer.clone().unwrap_or_else(|| "none".into());
            let complaint = part.complaint.clone().unwrap_or_default();
            vec![part.id.clone(), format!("{}{}", mark(part.verdict).1, word(part)), answer, complaint]
        };
        let rows: Vec<Vec<String>> = self.parts.iter().map(row).collect();
        page.table(&["Experiment", "Verdict", "Answer", "What to mind"], &[], &rows);
        for part in &self.parts {
            page.heading(&part.title);
            page.paragraph(&part.question);
            let Some(outcome) = self.outcomes.iter().find(|outcome| outcome.scenario == part.id) else {
                page.paragraph(&format!("Not run: {}.", part.complaint.clone().unwrap_or_default()));
                continue;
            };
            page.finding(mark(part.verdict).0, word(part), &part.id, "", &outcome.answer);
            if let Some(chart) = outcome.first_chart() {
                page.drawing(&chart);
            }
            if let Some(report) = &part.report {
                page.link(report, "All figures, checks and limits of this experiment");
            }
        }
        page.heading("How to repeat it");
        page.verbatim(&format!("ashlar lab resume {0}\nashlar lab verify {0}", self.directory));
        page.finish()
    }

    pub(super) fn markdown(&self) -> String {
        let mut lines = vec![
            format!("# The experiments of {}", self.paper_name()),
            String::new(),
            self.where_and_when(),
            String::new(),
            self.headline(),
            String::new(),
            "| experiment | verdict | answer |".into(),
            "| --- | --- | --- |".into(),
        ];
        for part in &self.parts {
            let answer = part.answer.as_ref().or(part.complaint.as_ref()).cloned().unwrap_or_default();
            lines.push(format!("| {} | {} | {} |", cell(&part.id), word(part), cell(&answer)));
        }
        lines.push(String::new());
        lines.join("\n")
    }

    /// For a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = vec![self.headline()];
        for part in &self.parts {
            lines.push(format!("\n{}: {}", part.id, word(part)));
            lines.extend(part.answer.iter().map(|answer| format!("  {}", wrapped(answer, 2))));
            lines.extend(part.complaint.iter().map(|what| format!("  {}", wrapped(what, 2))));
        }
        lines.push(format!("\n{}/report.html", self.directory));
        lines.join("\n")
    }

    /// What is wrong, for the last line of a run.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        let first = self.parts.iter().find(|part| part.verdict == self.verdict)?;
        (self.verdict != Verdict::Passed)
            .then(|| format!("{}: {}", first.id, first.complaint.clone().unwrap_or_default()))
    }

    /// As its experiments name it; our own have no paper.
    fn paper_name(&self) -> String {
        let named = |outcome: &Outcome| {
            let source = outcome.outline.scenario.source.as_ref();
            source.map(|source| source.paper.clone())
        };
        self.outcomes.iter().find_map(named).unwrap_or_else(|| self.paper.clone())
    }

    fn where_and_when(&self) -> String {
        let Some(first) = self.outcomes.first() else { return "Nothing was run.".into() };
        let mut targets: Vec<&str> = Vec::new();
        for site in self.outcomes.iter().flat_map(|outcome| &outcome.targets) {
            if !targets.contains(&site.address.as_str()) {
                targets.push(&site.address);
            }
        }
        format!(
            "Preset {}, on {}, {}; {} cores of {}, Linux {}, ashlar {}",
            first.plan.preset,
            targets.join(" and "),
            day(first.begun_unix_seconds),
            first.machine.cores,
            first.machine.processor,
            first.machine.kernel,
            first.version
        )
    }
}

fn word(part: &Part) -> &'static str {
    match (part.verdict, &part.answer) {
        (Verdict::Passed, _) => "passed",
        (Verdict::Failed, _) => "failed",
        (Verdict::NotValid, Some(_)) => "not valid",
        (Verdict::NotValid, None) => "not run",
    }
}

/// The mark of a finding, and what a marked cell begins with.
fn mark(verdict: Verdict) -> (Mark, &'static str) {
    match verdict {
        Verdict::Passed => (Mark::Good, "good:"),
        Verdict::Failed => (Mark::Bad, "bad:"),
        Verdict::NotValid => (Mark::Warning, "warn:"),
    }
}
