//! An experiment in words: what the paper asked, did, found and left out, what we do, how it is judged.
//!
//! Printed by `ashlar lab explain ID`; for I/O with the command lines of fio and DiskSpd that do the same,
//! for a database with the SQL that is sent and the T-SQL of the paper's steps.

use std::fmt;

use crate::bill::{Amount, Per};
use crate::error::Result;
use crate::file::{Check, LogRole, Published, Scenario};
use crate::mix::{Operation, Part};
use crate::plan::{Machine, Plan, Request, Target, plan};
use crate::quantity::{Rate, percent_text, size_about, size_text, time_text};
use crate::scale::Preset;
use crate::workload::{Content, IoLoad, Load, Map, Precondition};

mod command;
mod sql;

pub use sql::{SqlOf, SqlOfKind};

/// What a terminal shows without breaking lines itself.
const COLUMNS: usize = 96;

/// The scenario in words, worked out at a preset on a machine. `sql_of` tells what a load asks of a server.
pub fn explain(scenario: &Scenario, preset: Preset, machine: Machine, sql_of: SqlOf<'_>) -> Result<String> {
    let targets = [Target::any()];
    let planned = plan(scenario, &Request { preset, seed: 0, targets: &targets, machine })?;
    let mut page = Page(String::new());
    page.0 += &format!("{}: {}\n\n", scenario.id, scenario.title);
    page.paragraph("", &scenario.question);
    if let Some(source) = &scenario.source {
        let list = |name: &str, of: &[String]| match of {
            [] => String::new(),
            [one] => format!(", {name} {one}"),
            many => format!(", {name}s {}", many.join(", ")),
        };
        page.heading("What the paper did");
        let places = list("figure", &source.figures) + &list("table", &source.tables);
        page.paragraph("", &format!("{} ({}{places})", source.defined, source.paper));
    }
    page.list("What it published", scenario.published.iter().map(published_text));
    page.list("What it leaves out", scenario.missing.iter().cloned());
    page.list("Where it contradicts itself", scenario.contradictions.iter().cloned());
    page.list("What it claims and nobody can check here", scenario.claims.iter().cloned());
    let work = work_sentences(scenario, &planned).into_iter().chain(log_sentence(scenario));
    page.list("What we do", scenario.rerun.iter().cloned().chain(work));
    page.list(
        "How it is judged",
        scenario.checks.iter().map(|check| match check {
            Check::Consistency {} if has_no_database(&planned) => EVERY_BYTE.to_string(),
            check => check_text(check),
        }),
    );
    page.commands(&planned);
    page.sql(&planned, sql_of);
    page.tsql(scenario);
    Ok(page.0)
}

/// Consistency of what has no database.
const EVERY_BYTE: &str =
    "What came back is what was written before: the same files, and every byte of them, in every run.";

fn log_sentence(scenario: &Scenario) -> Option<String> {
    let what = "The write-ahead log lies apart from the data: on a volume of its own, a second file system on the \
                same simulated drives, or in a directory of its own.";
    (scenario.roles.log == LogRole::Apart).then(|| what.to_string())
}

fn has_no_database(planned: &Plan) -> bool {
    planned.variants.iter().all(|variant| matches!(variant.load, Load::Restore(_)))
}

/// The text as far as it is written.
struct Page(String);

impl Page {
    fn heading(&mut self, words: &str) {
        self.0 += &format!("\n{words}\n");
    }

    /// One paragraph, broken at spaces, its later lines indented under the first word.
    fn paragraph(&mut self, mark: &str, text: &str) {
        let mut line = mark.to_string();
        for word in text.split_whitespace() {
            if line.len() > mark.len() {
                if line.chars().count() + 1 + word.chars().count() > COLUMNS {
                    self.0 += &format!("{line}\n");
                    line = " ".repeat(mark.len());
                } else {
                    line.push(' ');
                }
            }
            line += word;
        }
        self.0 += &format!("{line}\n");
    }

    fn list(&mut self, heading: &str, sentences: impl Iterator<Item = String>) {
        for (index, sentence) in sentences.enumerate() {
            if index == 0 {
                self.heading(heading);
            }
            self.paragraph("- ", &sentence);
        }
    }

    /// The lines of other tools, for the first variant of each mix; the others differ in what varies.
    fn commands(&mut self, planned: &Plan) {
        let mut shown: Vec<&[Part]> = Vec::new();
        for variant in &planned.variants {
            let Some(load) = variant.load.io() else { continue };
            if !shown.contains(&load.mix.as_slice()) {
                shown.push(&load.mix);
                self.heading(&format!("The same with fio and with DiskSpd: {}", variant.name));
                self.0 += &command::fio(&variant.name, load, planned);
                self.0 += &command::diskspd(load, planned);
            }
        }
    }
}

fn published_text(published: &Published) -> String {
    let mut text = published.metric.text.clone();
    match published.value {
        Some(value) => text += &format!(" = {value}"),
        None => text += ": the value is lost",
    }
    if let Some(note) = &published.note {
        text += &format!(" ({note})");
    }
    text
}

fn work_sentences(scenario: &Scenario, planned: &Plan) -> Vec<String> {
    let mut sentences = Vec::new();
    if let Some(variant) = planned.variants.first() {
        let work = match &variant.load {
            Load::Io(load) => load_text(load),
            Load::Database(load) => load.in_words(),
            Load::Space(load) => load.in_words(),
            Load::Restore(load) => load.in_words(),
            Load::Several(load) => load.in_words(),
            Load::Bill(bill) => bill.in_words(),
        };
        sentences.push(format!("At preset {}, variant `{}`: {work}.", planned.preset, variant.name));
    }
    for axis in &scenario.matrix {
        let ids: Vec<&str> = axis.entries.iter().map(|entry| entry.id.as_str()).collect();
        sentences.push(format!("`{}` varies: {}.", axis.name, ids.join(", ")));
    }
    if scenario.is_calculated() {
        sentences.extend(calculated(planned));
        return sentences;
    }
    let (variants, repeat) = (planned.variants.len(), planned.repeat);
    let each = match planned.is_timed() {
        true => format!(
            "each {} of warm-up and {} measured",
            time_text(planned.warmup),
            time_text(planned.measure)
        ),
        false => "each as long as it takes".to_string(),
    };
    let whole = time_text(planned.duration);
    let written = size_about(planned.bytes_written);
    sentences.push(format!(
        "{variants} variants x {repeat} repetitions, interleaved in random order, {each}: \
         about {whole} and {written} written on one target."
    ));
    sentences.extend(planned.cuts.iter().cloned());
    sentences
}

/// How the sums are made, for whoever wants to check one.
fn calculated(planned: &Plan) -> Vec<String> {
    let bills = planned.variants.iter().filter_map(|variant| match &variant.load {
        Load::Bill(bill) => Some((variant, bill)),
        Load::Io(_) | Load::Database(_) | Load::Space(_) | Load::Restore(_) | Load::Several(_) => None,
    });
    let mut sentences: Vec<String> = bills
        .map(|(variant, bill)| {
            let sum = |amount: Amount| {
                let terms: Vec<String> = bill.parts.iter().filter_map(|piece| piece.term(amount)).collect();
                format!("{} {} = {}", amount.in_words(Per::Whole), terms.join(" + "), bill.whole(amount))
            };
            let sums: Vec<String> = Amount::ALL.into_iter().map(sum).collect();
            format!("{} ({} values): {}.", variant.name, bill.values, sums.join("; "))
        })
        .collect();
    sentences.push(
        "Each is divided by the transactions or by a thousandth of the requests a second that a result given with \
         --result found, and by usable TB, alone and times the reduction. Nothing is run, and no target is needed."
            .into(),
    );
    sentences
}

fn load_text(load: &IoLoad) -> String {
    let set = &load.set;
    let many = |count: u64, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let mut words = vec![format!("{} in {}", size_text(set.size), many(set.files, "file"))];
    words.extend(load.mix.iter().map(Part::to_string));
    let threads = many(load.threads, "thread");
    words.push(format!("{} outstanding in each thread and {threads} a file", load.outstanding));
    if let Some(Rate(rate)) = load.rate {
        words.push(format!("offered at {rate} a second (open loop)"));
    }
    if let Some(share) = &load.share {
        let percent = percent_text(share.share);
        words.push(format!("offered at {percent} of the rate of `{}` (open loop)", share.of));
    }
    let layout = match set.layout.map {
        Map::Simple => "files one by one",
        Map::Concat => "files over volumes end to end",
        Map::Stripe => "files striped",
    };
    words.push(format!("{layout} on {}", many(set.layout.volumes, "volume")));
    if let (Some(block), Some(cluster)) = (set.layout.block, set.layout.cluster) {
        words.push(format!(
            "with logical blocks of {} bytes and an ext4 that hands out {} at once",
            block.0,
            size_text(cluster)
        ));
    }
    if load.shift_bytes > 0 {
        words.push(format!("requests {} bytes beside a multiple of their size", load.shift_bytes));
    }
    if let Some(zipf) = load.zipf {
        words.push(format!("places by Zipf's law with exponent {zipf}"));
    }
    words.extend(load.held.map(|held| held.in_words()));
    if set.grows {
        words.push("one data set that grows from variant to variant".to_string());
    }
    words.push(match set.precondition {
        Precondition::Ordered => "written in order before".to_string(),
        Precondition::Aged => "written in order and overwritten at random before".to_string(),
    });
    words.push(match set.content {
        Content::Sqlio => "every write of the same buffer".to_string(),
        Content::Made { compress, duplicates } => {
            format!("content that compresses {compress}:1 with {} duplicates", percent_text(duplicates))
        }
    });
    words.join(", ")
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pattern, operation) = (format!("{:?}", self.pattern).to_lowercase(), self.operation);
        let operation = if operation == Operation::Read { "read" } else { "write" };
        write!(f, "{} {pattern} {operation} of {}", percent_text(self.share), size_text(self.size))
    }
}

fn check_text(check: &Check) -> String {
    match check {
        Check::Latency { max, sustained, grace, only } => {
            let [max, sustained, grace] = [max, sustained, grace].map(|time| time_text(*time));
            let of = if only.is_empty() { String::new() } else { format!(" with {}", only.join(" and ")) };
            format!("Latency{of} is never above {max}, and above {sustained} for less than {grace}.")
        }
        Check::Ratio { of, at_least, at_most, equal_within, note } => {
            let bounds = [("at least", at_least), ("at most", at_most)];
            let bound = bounds.iter().find_map(|(words, bound)| bound.map(|value| format!("{words} {value}")));
            let equal = || equal_within.map(|share| format!("1, give or take {}", percent_text(share)));
            let bound = bound.or_else(equal).unwrap_or_default();
            let note = note.as_ref().map_or(String::new(), |note| format!(" {note}"));
            format!("{} is {bound}, with its whole interval.{note}", of.text)
        }
        Check::Value { of, at_least, at_most, note } => {
            let least = at_least.map(|bound| format!("at least {bound}"));
            let bound = least.or_else(|| at_most.map(|bound| format!("at most {bound}"))).unwrap_or_default();
            let note = note.as_ref().map_or(String::new(), |note| format!(" {note}"));
            format!("In every run {} is {bound}.{note}", of.text)
        }
        Check::Offered {} => "Every run, and every database in it, made what it was offered.".to_string(),
        Check::Steady {} => "Every run reached a steady state; otherwise it is no result.".to_string(),
        Check::Plausible {} => {
            "The numbers agree with each other (Little's law, bytes = operations x size) and with the counters \
             of the layers below."
                .to_string()
        }
        Check::Undisturbed { at_least } => {
            let least = percent_text(*at_least);
            format!("Behind each snapshot the rate is at least {least} of the rate before it.")
        }
        Check::Consistency {} => {
            "After every run, and in every snapshot, all conditions of the database hold, and what was acknowledged \
             is there."
                .to_string()
        }
    }
}

#[cfg(test)]
mod tests;
