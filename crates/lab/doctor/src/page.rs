//! The answer as a page for a browser and as text for a terminal.

use std::fmt::Write as _;

use ashlar_report::{Axis, Chart, Height, Line, Mark, Page, Scale, bytes, count, nanos, seconds};

use crate::examine::{Examination, Measured, Progress};
use crate::finding::Grade;
use crate::plan::Step;

impl Examination {
    /// One page of text, for a terminal of 100 columns.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n{}\n\n", self.headline(), wrapped(&self.answer, 0));
        if let Some(why) = &self.ended_early {
            let _infallible = writeln!(text, "This is a part: {why}.\n");
        }
        for finding in &self.findings {
            let _infallible = writeln!(
                text,
                "{:<8} {:<33} {}\n{}",
                word(finding.grade),
                finding.question,
                finding.value,
                wrapped(&finding.meaning, 9)
            );
        }
        let _infallible = write!(text, "\n{}\n", wrapped(&self.stands_on(), 0));
        text
    }

    /// One file that a browser shows without a network.
    #[must_use]
    pub fn html(&self) -> String {
        let mut page = Page::new(&self.headline());
        page.remark(&format!("{}; {} used, in {}", self.fio, bytes(self.size_bytes), self.stands_on()));
        page.answer(&self.answer);
        if let Some(why) = &self.ended_early {
            page.paragraph(&format!("This is a part of the examination: {why}."));
        }
        page.heading("What was asked, and the answer");
        for finding in &self.findings {
            let (mark, word) = mark(finding.grade);
            page.finding(mark, word, finding.question, &finding.value, &finding.meaning);
        }
        let loads = self.loads();
        if loads.iter().any(|line| line.points.len() > 1) {
            page.heading("Latency against load");
            page.drawing(&load_chart(loads).svg());
            page.remark(
                "An open loop: requests come at random times, whether those before are answered or not.",
            );
        }
        let courses = self.courses();
        if !courses.is_empty() {
            page.heading("Commits, second by second");
            page.drawing(&course_chart(courses).svg());
        }
        page.heading("Every step");
        let header = ["Step", "A second", "Half within", "99 % within", "99.9 %", "Longest"];
        page.table(&header, &[1, 2, 3, 4, 5], &self.steps.iter().map(step_row).collect::<Vec<_>>());
        page.remark(
            "Job files, fio's JSON and its logs lie beside this page: `fio NAME.fio` repeats a step. The bounds are \
             5 ms and 10 ms for 99 of 100 requests, and twice that while a checkpoint writes: Microsoft's rule \
             for average latencies in the CSSBI paper, held against a percentile.",
        );
        page.finish()
    }

    fn headline(&self) -> String {
        format!("What a database may expect of {}", self.target)
    }

    /// File system, devices and machine in one sentence.
    fn stands_on(&self) -> String {
        let mut text = self.footing.in_words();
        let machine = &self.machine;
        let virtual_one = if machine.hypervisor.is_empty() { "" } else { ", a virtual machine" };
        let _infallible = write!(
            text,
            "; {} cores of {}, {} of memory, Linux {}{virtual_one}",
            machine.cores,
            machine.processor,
            bytes(machine.memory_bytes),
            machine.kernel
        );
        text
    }

    fn loads(&self) -> Vec<Line> {
        let loads: Vec<&Measured> =
            self.steps.iter().filter(|measured| matches!(measured.step, Step::Load(_))).collect();
        let line = |name: &str, value: fn(&Measured) -> Option<u64>| Line {
            name: name.into(),
            points: loads
                .iter()
                .filter_map(|load| value(load).map(|nanos| (load.per_second, nanos as f64)))
                .collect(),
        };
        vec![
            line("half", |load| load.p50_nanos),
            line("99 of 100", |load| load.p99_nanos),
            line("999 of 1,000", |load| load.p999_nanos),
        ]
    }

    fn courses(&self) -> Vec<Line> {
        let course = |step: Step, name: &str| {
            let measured = self.steps.iter().find(|measured| measured.step == step)?;
            let points = measured.seconds.iter().enumerate();
            let points = points.map(|(second, requests)| (second as f64, *requests)).collect();
            Some(Line { name: name.into(), points })
        };
        let both =
            [course(Step::Commits, "alone"), course(Step::CommitsUnderCheckpoint, "under a checkpoint")];
        both.into_iter().flatten().filter(|line| line.points.len() > 1).collect()
    }
}

fn load_chart(lines: Vec<Line>) -> Chart {
    Chart {
        title: "latency of reads and writes of 8 KiB against requests a second".into(),
        x: Axis { label: "requests a second".into(), scale: Scale::Linear, tick: count },
        y: Axis { label: "answered within".into(), scale: Scale::Logarithmic, tick: nanos },
        lines,
        height: Height::Full,
    }
}

fn course_chart(lines: Vec<Line>) -> Chart {
    Chart {
        title: "commits in each second, alone and while a checkpoint writes".into(),
        x: Axis { label: "second".into(), scale: Scale::Linear, tick: count },
        y: Axis { label: "commits a second".into(), scale: Scale::Linear, tick: count },
        lines,
        height: Height::Full,
    }
}

fn word(grade: Grade) -> &'static str {
    match grade {
        Grade::Good => "good",
        Grade::Warning => "mind",
        Grade::Bad => "BAD",
        Grade::Unknown => "unknown",
    }
}

fn mark(grade: Grade) -> (Mark, &'static str) {
    match grade {
        Grade::Good => (Mark::Good, "good"),
        Grade::Warning => (Mark::Warning, "mind"),
        Grade::Bad => (Mark::Bad, "bad"),
        Grade::Unknown => (Mark::Warning, "unknown"),
    }
}

fn step_row(measured: &Measured) -> Vec<String> {
    let told = |value: Option<u64>| value.map_or_else(|| "too few".to_string(), |value| nanos(value as f64));
    let mut title = measured.title.clone();
    if measured.is_behind {
        title.push_str(" (it fell behind: latencies are longer than told)");
    }
    if measured.is_steady == Some(false) {
        title.push_str(" (not steady)");
    }
    vec![
        title,
        count(measured.per_second),
        told(measured.p50_nanos),
        told(measured.p99_nanos),
        told(measured.p999_nanos),
        told(measured.max_nanos),
    ]
}

/// Words in lines of at most 100 columns, all of them so far in.
fn wrapped(text: &str, indent: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > 100 {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines.iter().map(|line| format!("{:indent$}{line}", "")).collect::<Vec<_>>().join("\n")
}

impl Progress {
    /// For a line that tells how far it is.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{}/{}  {}  ({} left)", self.number, self.count, self.title, seconds(self.left.as_secs()))
    }
}
