//! All that a result holds, worked out from what is kept in its directory.

use ashlar_collect::Sample;
use ashlar_scenario::{Check, Measured, Metric, Over};
use ashlar_target::Machine;
use serde::{Serialize, Serializer};

use crate::figures::Figures;
use crate::judge::{self, Answer, Checked, Compared, Row, Table};
use crate::outline::Figured;
use crate::record::{Begun, Records, Site, json, write};
use crate::space::words;
use crate::{Outline, Result, answer, limits, meanwhile, mixed};

/// Version of `result.json`.
const FORMAT: u32 = 1;

/// A metric beside what was published of it.
#[derive(Clone, Debug, Serialize)]
pub struct Metrics {
    #[serde(serialize_with = "as_written")]
    pub metric: Metric,
    pub published: Option<f64>,
    pub note: Option<String>,
    /// Ours.
    pub rows: Vec<Row>,
}

/// The result, as `result.json` has it.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    pub format: u32,
    pub scenario: String,
    pub title: String,
    pub question: String,
    /// Two sentences for whoever asked.
    pub answer: String,
    pub verdict: Verdict,
    /// Why it is a part; absent of a whole.
    pub partial: Option<String>,
    /// Checks that say that it is no valid result.
    pub invalid: Vec<String>,
    pub checks: Vec<Checked>,
    pub metrics: Vec<Metrics>,
    pub compared: Vec<Compared>,
    pub limits: Vec<String>,
    pub plan: Figured,
    pub targets: Vec<Site>,
    /// What logs stand on that lie on none of the targets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<Site>,
    pub machine: Machine,
    pub fio: String,
    pub version: String,
    pub begun_unix_seconds: u64,
    pub runs: Vec<Figures>,
    /// The scenario's file.
    pub text: String,
    #[serde(skip)]
    pub(crate) outline: Outline,
    #[serde(skip)]
    pub(crate) directory: String,
    #[serde(skip)]
    pub(crate) source: String,
    /// What was seen while the busiest run of each target was made.
    #[serde(skip)]
    pub(crate) seen: Vec<(Figures, Vec<Sample>)>,
}

/// What the checks come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every check passed.
    Passed,
    /// It is a result, and a check failed.
    Failed,
    /// It is a part, or no valid result, or a check cannot be told.
    NotValid,
}

fn as_written<S: Serializer>(metric: &Metric, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_str(&metric.text)
}

impl Outcome {
    pub(crate) fn of(records: &Records) -> Result<Outcome> {
        let begun = records.begun()?;
        let outline = begun.outline()?;
        let runs: Vec<Figures> =
            outline.plan.runs.iter().filter_map(|run| records.figures(&run.id)).collect();
        let ended = records.ended();
        let directory = records.directory.display().to_string();
        let seen = meanwhile::busiest(&runs)
            .map(|figures| (figures.clone(), meanwhile::samples(records, &figures.id)))
            .filter(|(_, samples)| !samples.is_empty())
            .collect();
        Ok(Outcome { seen, ..Outcome::from(begun, outline, runs, ended, directory) })
    }

    /// From what was measured, whatever it is.
    pub(crate) fn from(
        begun: Begun,
        outline: Outline,
        runs: Vec<Figures>,
        ended: Option<String>,
        directory: String,
    ) -> Outcome {
        let table = Table::new(&outline, &runs, begun.machine.cores);
        let checks: Vec<Checked> =
            outline.scenario.checks.iter().map(|check| judge::check(&table, check)).collect();
        let metrics = metrics(&outline, &table);
        let compared = table.targets_compared();
        let planned = outline.plan.runs.len();
        let partial = (runs.len() < planned).then(|| {
            let why = ended.unwrap_or_else(|| "it did not come to its end".into());
            format!("{} of {planned} runs were made: {why}", runs.len())
        });
        let invalid = checks
            .iter()
            .filter(|check| check.is_of_validity && check.answer != Answer::Passed)
            .map(|check| format!("{}: {}", check.name, check.found))
            .collect();
        Outcome {
            format: FORMAT,
            scenario: outline.scenario.id.clone(),
            title: outline.scenario.title.clone(),
            question: outline.scenario.question.clone(),
            answer: answer::answer(
                &metrics,
                words::within(&metrics, &outline.plan, &runs).or_else(|| mixed::within(&metrics)),
                &checks,
            ),
            verdict: verdict(partial.is_some(), &checks),
            partial,
            invalid,
            checks,
            metrics,
            compared,
            limits: limits::limits(&begun, &outline, &runs),
            plan: outline.figured(),
            targets: begun.targets,
            logs: begun.logs,
            machine: begun.machine,
            fio: begun.fio,
            version: begun.version,
            begun_unix_seconds: begun.begun_unix_seconds,
            runs,
            text: begun.text,
            outline,
            directory,
            source: begun.source,
            seen: Vec::new(),
        }
    }

    /// Writes all that is told.
    pub(crate) fn keep(&self, records: &Records) -> Result<()> {
        self.files().iter().try_for_each(|(name, text)| write(&records.at(name), text))
    }

    /// All that is told, by the names of its files.
    pub(crate) fn files(&self) -> [(&'static str, String); 5] {
        [
            ("result.json", json(self)),
            ("report.html", self.html()),
            ("summary.md", self.markdown()),
            ("junit.xml", self.junit()),
            ("runs.csv", self.csv()),
        ]
    }

    /// The runs with the interval of their metrics.
    pub(crate) fn table(&self) -> Table<'_> {
        Table::new(&self.outline, &self.runs, self.machine.cores)
    }
}

/// A part, or what is no result, comes before a check that failed: that one may be wrong.
fn verdict(is_part: bool, checks: &[Checked]) -> Verdict {
    let any = |is_wanted: &dyn Fn(&Checked) -> bool| checks.iter().any(is_wanted);
    if is_part || any(&|check| check.is_of_validity && check.answer != Answer::Passed) {
        Verdict::NotValid
    } else if any(&|check| check.answer == Answer::Failed) {
        Verdict::Failed
    } else if any(&|check| check.answer == Answer::CannotTell) {
        Verdict::NotValid
    } else {
        Verdict::Passed
    }
}

/// Those that were published, then those that are checked; where there are none, the rate of every variant.
fn metrics(outline: &Outline, table: &Table<'_>) -> Vec<Metrics> {
    let scenario = &outline.scenario;
    let mut metrics: Vec<Metrics> = scenario
        .published
        .iter()
        .map(|published| Metrics {
            metric: published.metric.clone(),
            published: published.value,
            note: published.note.clone(),
            rows: judge::metric(table, &published.metric),
        })
        .collect();
    for check in &scenario.checks {
        if let Check::Ratio { of, .. } | Check::Value { of, .. } = check
            && !metrics.iter().any(|metrics| metrics.metric == *of)
        {
            let rows = judge::metric(table, of);
            metrics.push(Metrics { metric: of.clone(), published: None, note: None, rows });
        }
    }
    if metrics.is_empty() {
        let is_io = outline.plan.variants.iter().all(|variant| variant.load.io().is_some());
        let (text, measured) = match is_io {
            true => ("iops", Measured::Iops),
            false => ("tps", Measured::TransactionsPerSecond),
        };
        let metric = Metric { text: text.into(), measured, over: Over::Every };
        let rows = judge::metric(table, &metric);
        metrics.push(Metrics { metric, published: None, note: None, rows });
    }
    metrics
}
