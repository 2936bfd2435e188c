//! What the numbers mean for a database, and how good that is.
//!
//! The bounds are those of the papers where they give one: an average latency that is never above 10 ms and
//! not for long above 5 ms (Microsoft, CSSBI). Here they are held against the 99th percentile, which is
//! stricter.

use std::time::Duration;

use ashlar_statistics::steady;
use serde::Serialize;

use ashlar_report::{bytes, bytes_per_second, count, nanos};

use crate::examine::{Examination, Measured};
use crate::plan::Step;

/// Nanoseconds within which most commits and reads should end.
const GOOD_NANOS: u64 = 5_000_000;
/// Beyond this users notice.
const BEARABLE_NANOS: u64 = 10_000_000;
/// While a checkpoint writes so much more is usual.
const UNDER_CHECKPOINT: u64 = 2;
/// So many flushes must reach the drive for each fdatasync: a few may be merged or counted late.
const FLUSHED_SHARE_MIN: f64 = 0.9;

/// How good it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    Good,
    /// Know it before you rely on it.
    Warning,
    /// Do not put a database there.
    Bad,
    /// It cannot be seen from here.
    Unknown,
}

/// One answer.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    pub question: &'static str,
    pub grade: Grade,
    /// The number, or a word.
    pub value: String,
    /// What it means, in one sentence or two.
    pub meaning: String,
}

/// All findings, and two sentences that say the most of them.
pub(crate) fn find(examination: &Examination) -> (Vec<Finding>, String) {
    let found = |step: Step| examination.steps.iter().find(|measured| measured.step == step);
    let mut findings = vec![reach(examination)];
    findings.extend(found(Step::Commits).map(|measured| commits(measured, false)));
    findings.extend(found(Step::CommitsUnderCheckpoint).map(|measured| commits(measured, true)));
    findings.extend(found(Step::Reads).map(reads));
    findings.extend(found(Step::Mixed).map(|measured| most(measured, examination)));
    findings.extend(found(Step::Fill).map(stream));
    findings.extend(stalls(examination));
    findings.push(compared(examination));
    let answer = answer(examination, &findings);
    (findings, answer)
}

/// Does fsync reach the drive?
fn reach(examination: &Examination) -> Finding {
    let question = "Does fsync reach the drive?";
    let finding =
        |grade, value: &str, meaning: String| Finding { question, grade, value: value.into(), meaning };
    let footing = &examination.footing;
    if footing.is_memory() {
        let meaning = format!("{} is memory: everything is gone when the machine stops", footing.file_system);
        return finding(Grade::Bad, "no", meaning);
    }
    let Some(commits) = examination.steps.iter().find(|measured| measured.step == Step::Commits) else {
        return finding(Grade::Unknown, "not measured", "no commits were measured".into());
    };
    let mut pairs = footing.devices.iter().zip(&commits.below);
    let Some((device, below)) = pairs.clone().rfind(|(device, _)| device.has_volatile_cache) else {
        return match pairs.next_back() {
            Some((device, below)) if below.writes > 0 => {
                let what = format!("{} says that it has no cache which a loss of power empties", device.name);
                finding(
                    Grade::Good,
                    "yes",
                    format!("{what}; {} writes came down to it", count(below.writes as f64)),
                )
            }
            Some((device, _)) => finding(
                Grade::Bad,
                "no",
                format!("commits were acknowledged, and nothing was written to {}", device.name),
            ),
            None => {
                let what = format!("no block device is known below {}", named(&footing.file_system));
                finding(Grade::Unknown, "cannot be seen", format!("{what}: ask who keeps it"))
            }
        };
    };
    let share = below.flushes as f64 / commits.requests.max(1) as f64;
    let told = format!(
        "{} commits, {} flushes of {}",
        count(commits.requests as f64),
        count(below.flushes as f64),
        device.name
    );
    if share < FLUSHED_SHARE_MIN {
        let what = "its cache is emptied by a loss of power, and it was not told to flush";
        return finding(Grade::Bad, "no", format!("{told}: {what}. Acknowledged commits can be lost"));
    }
    let inside = match examination.machine.hypervisor.as_str() {
        "" => String::new(),
        _ => ". What the host of this virtual machine does with them cannot be seen from inside".to_string(),
    };
    finding(Grade::Good, "yes", format!("{told}{inside}"))
}

fn named(file_system: &str) -> &str {
    if file_system.is_empty() { "it" } else { file_system }
}

fn commits(measured: &Measured, is_under_checkpoint: bool) -> Finding {
    let (question, factor) = match is_under_checkpoint {
        false => ("How long does a commit wait?", 1),
        true => ("And while a checkpoint writes?", UNDER_CHECKPOINT),
    };
    let meaning = format!(
        "half of {} commits ended within that, {}, the longest took {}; {} a second, one after the other",
        count(measured.requests as f64),
        most_within(measured.p99_nanos),
        told(measured.max_nanos),
        count(measured.per_second)
    );
    Finding { question, grade: grade(measured.p99_nanos, factor), value: told(measured.p50_nanos), meaning }
}

fn reads(measured: &Measured) -> Finding {
    let meaning = format!(
        "of 8 KiB anywhere, one at a time, past the page cache: half ended within that, {}",
        most_within(measured.p99_nanos)
    );
    let question = "How long does a read take?";
    Finding { question, grade: grade(measured.p99_nanos, 1), value: told(measured.p50_nanos), meaning }
}

/// How much can be asked before answers take long?
fn most(mixed: &Measured, examination: &Examination) -> Finding {
    let question = "How much can be asked of it?";
    let loads = examination.steps.iter().filter(|measured| matches!(measured.step, Step::Load(_)));
    let within = loads
        .filter(|load| !load.is_behind && load.p99_nanos.is_some_and(|nanos| nanos <= BEARABLE_NANOS))
        .map(|load| load.per_second)
        .max_by(f64::total_cmp);
    let highest = count(mixed.per_second);
    let (grade, meaning) = match within {
        Some(rate) => (
            Grade::Good,
            format!(
                "of 8 KiB, seven reads for three writes, 32 at a time; at {} a second 99 of 100 are answered \
                 within {}",
                count(rate),
                nanos(BEARABLE_NANOS as f64)
            ),
        ),
        None => (
            Grade::Warning,
            format!(
                "of 8 KiB, seven reads for three writes, 32 at a time; at no rate that was tried were 99 of 100 \
                 answered within {}",
                nanos(BEARABLE_NANOS as f64)
            ),
        ),
    };
    Finding { question, grade, value: format!("{highest} a second"), meaning }
}

fn stream(measured: &Measured) -> Finding {
    Finding {
        question: "How fast does it take a restore?",
        grade: Grade::Good,
        value: bytes_per_second(measured.bytes_per_second),
        meaning: format!(
            "{} written once, 1 MiB at a time, content that compresses to half",
            bytes((measured.requests) << 20)
        ),
    }
}

/// Seconds in which nearly nothing was answered.
fn stalls(examination: &Examination) -> Option<Finding> {
    let stalled: Vec<String> = examination
        .steps
        .iter()
        .filter_map(|measured| {
            let stalls = steady::stalls(&measured.seconds, Duration::from_secs(1));
            let slow: u64 = stalls.iter().map(|stall| stall.length.as_secs()).sum();
            (slow > 0).then(|| format!("{slow} s in \u{201c}{}\u{201d}", measured.title))
        })
        .collect();
    let question = "Does it stand still at times?";
    let is_long = examination.steps.iter().any(|measured| !measured.seconds.is_empty());
    is_long.then(|| match stalled.is_empty() {
        true => Finding {
            question,
            grade: Grade::Good,
            value: "no".into(),
            meaning: "in no second of a step were fewer than a tenth of the usual requests answered".into(),
        },
        false => Finding {
            question,
            grade: Grade::Warning,
            value: "yes".into(),
            meaning: format!("seconds with less than a tenth of the usual requests: {}", stalled.join(", ")),
        },
    })
}

fn compared(examination: &Examination) -> Finding {
    let question = "Does what was written come back?";
    let finding = |grade, value: &str, meaning| Finding { question, grade, value: value.into(), meaning };
    let Some(compared) = &examination.compared else {
        return finding(Grade::Unknown, "not tried", "the examination ended before".into());
    };
    let reads = count(compared.reads as f64);
    match (compared.wrong, compared.is_cached) {
        (0, false) => {
            let meaning = format!("{reads} reads of 8 KiB in two passes over the same places, each compared");
            finding(Grade::Good, "yes", meaning)
        }
        (0, true) => {
            let meaning =
                format!("{reads} reads were right, but direct I/O is refused: they came from memory");
            finding(Grade::Unknown, "cannot be seen", meaning)
        }
        (wrong, _) => {
            let wrong = count(wrong as f64);
            let meaning = format!("{wrong} of {reads} reads were wrong, first {}", compared.told[0]);
            finding(Grade::Bad, "no", meaning)
        }
    }
}

fn grade(p99_nanos: Option<u64>, factor: u64) -> Grade {
    match p99_nanos {
        None => Grade::Unknown,
        Some(nanos) if nanos <= GOOD_NANOS * factor => Grade::Good,
        Some(nanos) if nanos <= BEARABLE_NANOS * factor => Grade::Warning,
        Some(_) => Grade::Bad,
    }
}

fn most_within(p99_nanos: Option<u64>) -> String {
    let within = |nanos: u64| format!("99 of 100 within {}", nanos_of(nanos));
    p99_nanos.map_or_else(|| "too few to tell how long 99 of 100 took".into(), within)
}

fn nanos_of(value: u64) -> String {
    nanos(value as f64)
}

fn told(value: Option<u64>) -> String {
    value.map_or_else(|| "too few to tell".into(), nanos_of)
}

/// What a commit waits, and the worst that was found.
fn answer(examination: &Examination, findings: &[Finding]) -> String {
    let found = |step: Step| examination.steps.iter().find(|measured| measured.step == step);
    let wait = |measured: &Measured| match measured.p99_nanos {
        Some(most) => format!("{} ({} for 99 of 100)", told(measured.p50_nanos), nanos_of(most)),
        None => told(measured.p50_nanos),
    };
    let first = match (found(Step::Commits), found(Step::CommitsUnderCheckpoint)) {
        (Some(alone), Some(under)) => {
            format!("A commit waits {} here, and {} while a checkpoint writes.", wait(alone), wait(under))
        }
        (Some(alone), None) => format!("A commit waits {} here.", wait(alone)),
        (None, _) => "No commit was measured.".to_string(),
    };
    let of = |grade: Grade| findings.iter().filter(move |finding| finding.grade == grade);
    let second = match (of(Grade::Bad).next(), of(Grade::Unknown).count()) {
        (Some(bad), _) => {
            format!("Mind this: {} {}: {}.", bad.question, bad.value.to_uppercase(), bad.meaning)
        }
        (None, 0) => "Nothing was found that keeps a database from living here.".to_string(),
        (None, unknown) => {
            format!("Nothing bad was found, but {unknown} of the questions could not be answered.")
        }
    };
    format!("{first} {second}")
}
