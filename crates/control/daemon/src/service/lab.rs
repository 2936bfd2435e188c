//! Results of the lab that lie in a directory of this machine. They are only read, and only from there: no
//! link in it leads anywhere else.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use ashlar_api as api;
use rustix::fs::{Mode, OFlags, openat};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Service;
use crate::error::{Error, Result};
use crate::names;

/// Of one file. Arbitrary: the largest known result has a quarter of a megabyte.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Results that are listed. Arbitrary.
const RESULTS_MAX: usize = 500;

const RESULT: &str = "result.json";
const REPORT: &str = "report.html";

/// What a result of an experiment says; what is not named here is not shown.
#[derive(Deserialize)]
struct Experiment {
    scenario: String,
    title: String,
    question: String,
    answer: String,
    verdict: String,
    partial: Option<String>,
    #[serde(default)]
    invalid: Vec<String>,
    #[serde(default)]
    checks: Vec<api::LabCheck>,
    #[serde(default)]
    metrics: Vec<Metric>,
    plan: Plan,
    #[serde(default)]
    targets: Vec<Target>,
    begun_unix_seconds: u64,
}

#[derive(Deserialize)]
struct Plan {
    preset: String,
}

#[derive(Deserialize)]
struct Target {
    address: String,
}

#[derive(Deserialize)]
struct Metric {
    metric: String,
    published: Option<f64>,
    note: Option<String>,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    target: String,
    of: String,
    estimate: Option<Estimate>,
}

#[derive(Deserialize)]
struct Estimate {
    value: f64,
    interval: Option<[f64; 2]>,
}

/// What a result of a paper says.
#[derive(Deserialize)]
struct Paper {
    paper: String,
    verdict: String,
    parts: Vec<Part>,
}

#[derive(Deserialize)]
struct Part {
    id: String,
    title: String,
    question: String,
    answer: Option<String>,
    verdict: String,
    complaint: Option<String>,
    report: Option<String>,
}

/// A paper's own file beside its result.
#[derive(Deserialize)]
struct PaperPlan {
    preset: String,
    #[serde(default)]
    targets: Vec<Target>,
}

impl Service {
    /// Those in the directory, the newest first; none without a directory.
    pub(crate) async fn lab_results(&self) -> Result<Vec<api::LabResult>> {
        match self.lab_directory() {
            Some(directory) => off_thread(move || all(&directory)).await,
            None => Ok(Vec::new()),
        }
    }

    /// One, or a part of it.
    pub(crate) async fn lab_result(&self, name: &str, part: Option<String>) -> Result<api::LabResult> {
        let (directory, name) = (self.lab_directory(), name.to_string());
        off_thread(move || {
            let opened = open(directory, &name, part.as_deref())?;
            read_result(&opened, &name).ok_or_else(|| {
                Error::not_found_in("lab result", &name, "`ashlar lab report DIR` makes one anew")
            })
        })
        .await
    }

    /// Its page.
    pub(crate) async fn lab_report(&self, name: &str, part: Option<String>) -> Result<String> {
        let (directory, name) = (self.lab_directory(), name.to_string());
        off_thread(move || {
            let opened = open(directory, &name, part.as_deref())?;
            text(&opened, REPORT).map_err(|error| told(&name, &error))
        })
        .await
    }

    fn lab_directory(&self) -> Option<PathBuf> {
        Some(PathBuf::from(&self.settings.now().lab_results)).filter(|path| !path.as_os_str().is_empty())
    }
}

/// Files are read where that holds up nobody else.
async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(Error::stopping()))
}

fn all(directory: &Path) -> Result<Vec<api::LabResult>> {
    let unread = |error: io::Error| Error::file("read the setting `lab_results`:", directory, &error);
    let entries = std::fs::read_dir(directory).map_err(unread)?;
    let opened = File::open(directory).map_err(unread)?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let good = names.filter(|name| names::check("lab result", name).is_ok());
    let found = good.filter_map(|name| read_result(&below(&opened, &name).ok()?, &name));
    let mut results: Vec<api::LabResult> = found.take(RESULTS_MAX).collect();
    results.sort_by(|one, other| {
        (other.begun_unix_seconds, &one.name).cmp(&(one.begun_unix_seconds, &other.name))
    });
    results.iter_mut().for_each(|result| {
        result.checks.clear();
        result.metrics.clear();
    });
    Ok(results)
}

/// The directory of a result, or of an experiment in it.
fn open(directory: Option<PathBuf>, name: &str, part: Option<&str>) -> Result<OwnedFd> {
    let hint = "`GET /v1/lab-results` lists those there are";
    let directory = directory.ok_or_else(|| Error::not_found_in("lab result", name, hint))?;
    let is_name = |name: &str| names::check("lab result", name);
    is_name(name)?;
    part.map_or(Ok(()), is_name)?;
    let opened = File::open(&directory);
    let opened =
        opened.map_err(|error| Error::file("read the setting `lab_results`:", &directory, &error))?;
    let result = below(&opened, name).map_err(|error| told(name, &error))?;
    match part {
        Some(part) => below(&result, part).map_err(|error| told(part, &error)),
        None => Ok(result),
    }
}

fn told(name: &str, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            Error::not_found_in("lab result", name, "`GET /v1/lab-results` lists those there are")
        }
        _ => Error::file("read lab result", Path::new(name), error),
    }
}

fn below(directory: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(directory, name, flags, Mode::empty())?)
}

fn text(directory: &OwnedFd, name: &str) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(directory, name, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn json<T: DeserializeOwned>(directory: &OwnedFd, name: &str) -> Option<T> {
    serde_json::from_str(&text(directory, name).ok()?).ok()
}

/// `None` for a directory that holds no result of an experiment or a paper.
fn read_result(directory: &OwnedFd, name: &str) -> Option<api::LabResult> {
    match json::<Experiment>(directory, RESULT) {
        Some(found) => Some(of_experiment(found, name)),
        None => json::<Paper>(directory, RESULT).map(|found| of_paper(directory, found, name)),
    }
}

fn of_experiment(found: Experiment, name: &str) -> api::LabResult {
    let row = |row: Row| api::LabRow {
        target: row.target,
        of: row.of,
        value: row.estimate.as_ref().map(|estimate| estimate.value),
        interval: row.estimate.and_then(|estimate| estimate.interval),
    };
    let metric = |one: Metric| api::LabMetric {
        metric: one.metric,
        published: one.published,
        note: one.note,
        rows: one.rows.into_iter().map(row).collect(),
    };
    api::LabResult {
        name: name.to_string(),
        experiment: found.scenario,
        verdict: found.verdict,
        title: Some(found.title),
        question: Some(found.question),
        answer: Some(found.answer),
        complaints: found.partial.into_iter().chain(found.invalid).collect(),
        preset: Some(found.plan.preset),
        targets: found.targets.into_iter().map(|target| target.address).collect(),
        begun_unix_seconds: Some(found.begun_unix_seconds),
        checks: found.checks,
        metrics: found.metrics.into_iter().map(metric).collect(),
        parts: Vec::new(),
    }
}

fn of_paper(directory: &OwnedFd, found: Paper, name: &str) -> api::LabResult {
    let plan = json::<PaperPlan>(directory, "paper.json");
    let name_of = |part: &Part| Some(part.report.as_deref()?.split_once('/')?.0.to_string());
    let begun = |part: &Part| {
        let directory = below(directory, &name_of(part)?).ok()?;
        json::<Experiment>(&directory, RESULT).map(|found| found.begun_unix_seconds)
    };
    let begun_unix_seconds = found.parts.iter().filter_map(begun).min();
    let view = |part: Part| api::LabPart {
        name: name_of(&part),
        experiment: part.id,
        title: part.title,
        question: part.question,
        answer: part.answer.or(part.complaint).unwrap_or_default(),
        verdict: part.verdict,
    };
    api::LabResult {
        name: name.to_string(),
        experiment: found.paper,
        verdict: found.verdict,
        title: None,
        question: None,
        answer: None,
        complaints: Vec::new(),
        preset: plan.as_ref().map(|plan| plan.preset.clone()),
        targets: plan.into_iter().flat_map(|plan| plan.targets).map(|target| target.address).collect(),
        begun_unix_seconds,
        checks: Vec::new(),
        metrics: Vec::new(),
        parts: found.parts.into_iter().map(view).collect(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../experiments/results");

    #[test]
    fn results_are_listed_and_told_with_their_parts() {
        let results = all(Path::new(KEPT)).unwrap();
        let emc = results.iter().find(|result| result.name == "emc").unwrap();
        assert_eq!((emc.experiment.as_str(), emc.preset.as_deref(), emc.parts.len()), ("emc", Some("s"), 10));
        assert!(emc.begun_unix_seconds.is_some() && emc.targets.contains(&"ashlar:demo".to_string()));
        let part = emc.parts.iter().find(|part| part.experiment == "emc/headline").unwrap();
        let opened = open(Some(KEPT.into()), "emc", part.name.as_deref()).unwrap();
        let headline = read_result(&opened, "emc").unwrap();
        assert_eq!(
            (headline.verdict.as_str(), headline.metrics[0].published),
            ("not-valid", Some(200_000.0))
        );
        assert!(headline.metrics[0].rows.iter().any(|row| row.value.is_some() && row.interval.is_some()));
        assert!(headline.checks.iter().any(|check| check.answer == "passed"), "{:?}", headline.checks);
        assert!(text(&opened, REPORT).unwrap().contains("<svg"));
    }

    #[test]
    fn nothing_leads_out_of_the_directory() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        std::fs::create_dir_all(at("results/one")).unwrap();
        std::fs::write(at("secret"), "s").unwrap();
        std::os::unix::fs::symlink(at("secret"), at("results/one/report.html")).unwrap();
        std::os::unix::fs::symlink(Path::new(KEPT).join("emc"), at("results/linked")).unwrap();
        let directory = at("results");
        let one = open(Some(directory.clone()), "one", None).unwrap();
        assert!(text(&one, REPORT).is_err(), "a link");
        assert_eq!(all(&directory).unwrap(), Vec::new(), "a link, and one without a result");
        for (name, part) in [("..", None), ("linked", None), ("one", Some("..")), ("none", None), ("", None)]
        {
            let error = open(Some(directory.clone()), name, part).unwrap_err();
            assert!(
                matches!(error.kind, api::ErrorKind::NotFound | api::ErrorKind::Invalid),
                "{name}: {error}"
            );
        }
        assert_eq!(open(None, "one", None).unwrap_err().kind, api::ErrorKind::NotFound);
        assert!(all(&at("nowhere")).is_err());
    }
}
