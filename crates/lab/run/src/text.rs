//! The result as text: for a terminal, as Markdown, for CI, and as a table for a spreadsheet.

use ashlar_report::nanos;

use crate::answer;
use crate::judge::Answer;
use crate::outcome::Metrics;
use crate::space::words;
use crate::{Outcome, Verdict};

/// Columns of a terminal.
const COLUMNS: usize = 100;

pub(crate) fn word(answer: Answer) -> &'static str {
    match answer {
        Answer::Passed => "passed",
        Answer::Failed => "failed",
        Answer::CannotTell => "cannot tell",
    }
}

/// `1 file`, `2 files`.
pub(crate) fn many(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// What a row of a metric is of.
pub(crate) fn place(row: &crate::judge::Row) -> String {
    if row.of.is_empty() { row.target.clone() } else { format!("{} on {}", row.of, row.target) }
}

pub(crate) fn published(metrics: &Metrics) -> String {
    let value = metrics.published.map(|value| answer::of_metric(&metrics.metric, value));
    match (value, &metrics.note) {
        (Some(value), Some(note)) => format!("{value} ({note})"),
        (Some(value), None) => value,
        (None, Some(note)) => note.clone(),
        (None, None) => String::new(),
    }
}

impl Outcome {
    /// For a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = vec![format!("{}: {}", self.scenario, self.title), String::new()];
        lines.push(wrapped(&self.answer, 0));
        lines.push(String::new());
        let factors = words::factors(&self.outline.plan, &self.runs);
        lines.extend(factors.iter().map(|line| wrapped(line, 2)));
        lines.extend((!factors.is_empty()).then(String::new));
        lines.extend(self.partial.iter().map(|why| wrapped(&format!("This is a part: {why}."), 0)));
        for check in &self.checks {
            let told = format!("{}: {}", check.name, check.found);
            lines.push(format!("{:<12} {}", word(check.answer), wrapped(&told, 13).trim_start()));
        }
        if self.is_calculated() {
            lines.extend(self.bill_text());
        }
        lines.push(String::new());
        lines.push(format!("{}/report.html has all of it", self.directory));
        lines.join("\n")
    }

    /// What failed, or why it is no result, in one line; `None` when every check passed.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        let first = |wanted: Answer| self.checks.iter().find(|check| check.answer == wanted);
        let told = |check: &crate::Checked| format!("{}: {}", check.name, check.found);
        match self.verdict {
            Verdict::Passed => None,
            Verdict::Failed => first(Answer::Failed).map(told),
            Verdict::NotValid => {
                let part = self.partial.as_ref().map(|why| {
                    format!("this is a part: {why}: go on with `ashlar lab resume {}`", self.directory)
                });
                let invalid = self.invalid.first().map(|what| format!("no valid result: {what}"));
                part.or(invalid).or_else(|| first(Answer::CannotTell).map(told))
            }
        }
    }

    pub(crate) fn markdown(&self) -> String {
        let mut lines =
            vec![format!("# {}: {}", self.scenario, self.title), String::new(), self.answer.clone()];
        lines.extend(self.partial.iter().map(|why| format!("\nThis is a part: {why}.")));
        lines.push("\n| check | answer | found |\n| --- | --- | --- |".into());
        for check in &self.checks {
            lines.push(format!(
                "| {} | {} | {} |",
                cell(&check.name),
                word(check.answer),
                cell(&check.found)
            ));
        }
        lines.push("\n| metric | published | here | |\n| --- | --- | --- | --- |".into());
        for metrics in &self.metrics {
            for row in &metrics.rows {
                let estimate = row.estimate.as_ref().map(|found| answer::estimate(&metrics.metric, found));
                lines.push(format!(
                    "| {} | {} | {} | {} |",
                    cell(&metrics.metric.text),
                    cell(&published(metrics)),
                    estimate.unwrap_or_else(|| "none".into()),
                    cell(&place(row))
                ));
            }
        }
        let factors = words::factors(&self.outline.plan, &self.runs);
        if !factors.is_empty() {
            lines.push("\nWhat the ratios are made of:\n".into());
            lines.extend(factors.iter().map(|line| format!("- {line}")));
        }
        if self.is_calculated() {
            lines.extend(self.bill_markdown());
        }
        lines.push("\nWhat it does not show:\n".into());
        lines.extend(self.limits.iter().map(|limit| format!("- {limit}")));
        lines.push(String::new());
        lines.join("\n")
    }

    /// A test case for each check; what cannot be told is an error.
    pub(crate) fn junit(&self) -> String {
        let of = |wanted: Answer| self.checks.iter().filter(|check| check.answer == wanted).count();
        let mut text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\">\n",
            attribute(&self.scenario),
            self.checks.len(),
            of(Answer::Failed),
            of(Answer::CannotTell)
        );
        for check in &self.checks {
            let case = format!(
                "  <testcase classname=\"{}\" name=\"{}\"",
                attribute(&self.scenario),
                attribute(&check.name)
            );
            let element = match check.answer {
                Answer::Passed => None,
                Answer::Failed => Some("failure"),
                Answer::CannotTell => Some("error"),
            };
            text += &match element {
                None => format!("{case}/>\n"),
                Some(name) => {
                    format!("{case}><{name} message=\"{}\"/></testcase>\n", attribute(&check.found))
                }
            };
        }
        text + "</testsuite>\n"
    }

    pub(crate) fn csv(&self) -> String {
        let mut lines = vec![
            "run,repetition,variant,target,requests,requests_per_second,bytes_per_second,latency_mean_nanos,\
             p50_nanos,p95_nanos,p99_nanos,p999_nanos,max_nanos"
                .to_string(),
        ];
        let whole = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        for figures in &self.runs {
            lines.push(format!(
                "{},{},{},{},{},{:.1},{:.0},{},{},{},{},{},{}",
                figures.id,
                figures.repetition,
                figures.variant,
                figures.target,
                figures.requests,
                figures.per_second(),
                figures.bytes_per_second(),
                figures.latency_mean_nanos.map_or_else(String::new, |nanos| format!("{nanos:.0}")),
                whole(figures.p50_nanos),
                whole(figures.p95_nanos),
                whole(figures.p99_nanos),
                whole(figures.p999_nanos),
                whole(figures.max_nanos)
            ));
        }
        lines.push(String::new());
        lines.join("\n")
    }
}

/// A latency that may not be known.
pub(crate) fn latency(value: Option<u64>) -> String {
    value.map_or_else(|| "too few".into(), |value| nanos(value as f64))
}

/// Text in a cell of Markdown's table.
pub(crate) fn cell(text: &str) -> String {
    text.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn attribute(text: &str) -> String {
    ashlar_report::escaped(text).replace('\n', " ")
}

/// In lines that a terminal does not break, all but the first so far in.
pub(crate) fn wrapped(text: &str, indent: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push(word.to_string());
        } else {
            let gap = if line.is_empty() { "" } else { " " };
            line.push_str(gap);
            line.push_str(word);
        }
    }
    lines.join(&format!("\n{:indent$}", ""))
}
