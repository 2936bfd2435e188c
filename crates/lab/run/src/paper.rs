//! All experiments of a paper, one behind the other, with one page over all of them.
//!
//! ```text
//! DIR/paper.json             which experiments, preset, seed, targets; what could not begin and why
//! DIR/NAME/                  the result of each, as `record` keeps it
//! DIR/report.html ...        made from these
//! ```
//! An experiment that cannot be run on these targets, or fails to begin, is told and holds up no other.
//! Ctrl-C ends the one under way and keeps all.

mod page;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ashlar_report::nearest;
use ashlar_scenario::{Preset, Target};
use ashlar_target::{Access, Machine};
use serde::{Deserialize, Serialize};

use crate::record::{Records, json, write};
use crate::work::Progress;
use crate::{Chosen, Error, ErrorKind, Outcome, Outline, Request, Result, Verdict, Verified};

/// Version of `paper.json` and of the paper's `result.json`.
const FORMAT: u32 = 1;
/// What tells the directory of a paper from that of one experiment.
const FILE: &str = "paper.json";

/// All experiments of a paper, on the same targets.
pub struct PaperRequest {
    /// The beginning of their ids, as [`papers`] lists it.
    pub paper: String,
    pub preset: Preset,
    pub seed: u64,
    pub targets: Vec<Target>,
    pub access: Access,
    /// A directory that does not exist yet.
    pub output: PathBuf,
    /// As of [`Request`].
    pub keeps_bases: bool,
}

/// How it began, and what did not.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Begun {
    format: u32,
    paper: String,
    /// Ids, in their order.
    experiments: Vec<String>,
    preset: String,
    seed: u64,
    targets: Vec<Target>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    keeps_bases: bool,
    /// By id, why there is no result of it.
    not_begun: BTreeMap<String, String>,
}

/// What came of a paper.
#[derive(Clone, Debug, Serialize)]
pub struct PaperOutcome {
    pub format: u32,
    pub paper: String,
    /// The worst of all; a part is no valid result.
    pub verdict: Verdict,
    pub parts: Vec<Part>,
    #[serde(skip)]
    directory: String,
    #[serde(skip)]
    outcomes: Vec<Outcome>,
}

/// One experiment of it.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    pub id: String,
    pub title: String,
    pub question: String,
    /// Two sentences; absent where there is no result.
    pub answer: Option<String>,
    pub verdict: Verdict,
    /// Why it is no whole and valid result.
    pub complaint: Option<String>,
    /// Below the directory of the paper.
    pub report: Option<String>,
}

/// The papers there are, and our own experiments: the beginnings of ids.
#[must_use]
pub fn papers() -> Vec<&'static str> {
    let mut papers: Vec<&str> = ashlar_scenario::ids().filter_map(|id| Some(id.split_once('/')?.0)).collect();
    papers.dedup();
    papers
}

/// Whether a result is of a whole paper.
#[must_use]
pub fn is_paper(directory: &Path) -> bool {
    directory.join(FILE).exists()
}

/// The ids of a paper's experiments.
///
/// # Errors
/// When there is no such paper.
pub fn experiments(paper: &str) -> Result<Vec<&'static str>> {
    let of_paper = |id: &&str| id.split_once('/').is_some_and(|(of, _)| of == paper);
    let mut found: Vec<&str> = ashlar_scenario::ids().filter(of_paper).collect();
    // What is worked out may rest on the results of the others.
    found.sort_by_key(|id| ashlar_scenario::load(id).is_ok_and(|scenario| scenario.is_calculated()));
    if found.is_empty() {
        let near = nearest(paper, papers().into_iter()).unwrap_or_default();
        return Err(Error::environment(format!(
            "there is no paper `{paper}`; the nearest is `{near}`: they are {}",
            papers().join(", ")
        )));
    }
    Ok(found)
}

/// The plan of each experiment, or why it cannot be run there.
///
/// # Errors
/// When there is no such paper.
pub fn plan_paper(
    paper: &str,
    preset: Preset,
    seed: u64,
    targets: &[Target],
    access: &Access,
) -> Result<Vec<(&'static str, Result<Outline>)>> {
    let machine = crate::machine(&Machine::here());
    let planned = |id: &'static str| {
        let outline = Chosen::of(id).and_then(|chosen| {
            let targets = crate::measured_space(&chosen.scenario, targets, access)?;
            crate::outline(&chosen.scenario, preset, seed, &targets, machine)
        });
        (id, outline)
    };
    Ok(experiments(paper)?.into_iter().map(planned).collect())
}

/// Runs every experiment of a paper.
///
/// # Errors
/// When there is no such paper, or the directory cannot be made.
pub fn begin_paper(
    request: &PaperRequest,
    signals: &Arc<AtomicBool>,
    tell: &mut dyn FnMut(&Progress),
) -> Result<PaperOutcome> {
    let PaperRequest { paper, preset, seed, targets, output, keeps_bases, .. } = request;
    let experiments = experiments(paper)?.into_iter().map(String::from).collect();
    fs::create_dir(output).map_err(|error| {
        let what = "name another directory with -o, or go on with `ashlar lab resume`";
        Error::environment(format!("{}: {error}: {what}", output.display()))
    })?;
    let mut begun = Begun {
        format: FORMAT,
        paper: paper.clone(),
        experiments,
        preset: preset.to_string(),
        seed: *seed,
        targets: targets.clone(),
        keeps_bases: *keeps_bases,
        not_begun: BTreeMap::new(),
    };
    begun.keep(output)?;
    begun.work(output, &request.access, signals, tell)?;
    report_paper(output)
}

/// Goes on with a paper: with the experiment that was cut off, then with those behind it.
///
/// # Errors
/// When the directory holds no paper, or another version of one.
pub fn resume_paper(
    directory: &Path,
    access: &Access,
    signals: &Arc<AtomicBool>,
    tell: &mut dyn FnMut(&Progress),
) -> Result<PaperOutcome> {
    let mut begun = Begun::read(directory)?;
    begun.not_begun.clear();
    begun.work(directory, access, signals, tell)?;
    report_paper(directory)
}

/// Makes the pages again from what is kept.
///
/// # Errors
/// When the directory holds no paper, or cannot be written.
pub fn report_paper(directory: &Path) -> Result<PaperOutcome> {
    let outcome = of(directory, &mut |own| crate::report(own))?;
    let records = Records::new(directory);
    outcome.files().iter().try_for_each(|(name, text)| write(&records.at(name), text))?;
    Ok(outcome)
}

/// Works out again what is kept of each experiment, and the pages over all of them. Changes nothing.
///
/// # Errors
/// When the directory holds no paper.
pub fn verify_paper(directory: &Path) -> Result<Vec<Verified>> {
    let outcome = of(directory, &mut |own| Outcome::of(&Records::new(own)))?;
    let mut found = Vec::new();
    for own in results_of_paper(directory)? {
        found.push(crate::verify(&own)?);
    }
    let pages = Verified::of_pages(&outcome.paper, directory, &outcome.files());
    found.push(pages);
    Ok(found)
}

/// What came of each experiment, as `told` has it.
fn of(directory: &Path, told: &mut dyn FnMut(&Path) -> Result<Outcome>) -> Result<PaperOutcome> {
    let begun = Begun::read(directory)?;
    let mut outcomes = Vec::new();
    let mut parts = Vec::new();
    for id in &begun.experiments {
        let own = directory_of(directory, id);
        let outcome = if own.join("plan.json").exists() { Some(told(&own)?) } else { None };
        parts.push(begun.part(id, outcome.as_ref())?);
        outcomes.extend(outcome);
    }
    let verdict = worst(parts.iter().map(|part| part.verdict));
    let directory = directory.display().to_string();
    Ok(PaperOutcome { format: FORMAT, paper: begun.paper, verdict, parts, directory, outcomes })
}

/// The targets of a paper as they were named.
///
/// # Errors
/// When the directory holds no paper.
pub fn named_of_paper(directory: &Path) -> Result<Vec<String>> {
    let targets = Begun::read(directory)?.targets;
    let logs: Vec<String> = targets.iter().filter_map(|target| target.log.clone()).collect();
    Ok(targets.into_iter().map(|target| target.address).chain(logs).collect())
}

/// The directories of the results that are there.
fn results_of_paper(directory: &Path) -> Result<Vec<PathBuf>> {
    let of = |id: &String| directory_of(directory, id);
    let mut found: Vec<PathBuf> = Begun::read(directory)?.experiments.iter().map(of).collect();
    found.retain(|own| own.join("plan.json").exists());
    Ok(found)
}

fn directory_of(directory: &Path, id: &str) -> PathBuf {
    directory.join(id.split_once('/').map_or(id, |(_, name)| name))
}

/// A part or what is not valid comes before a check that failed.
fn worst(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    let mut all = Verdict::Passed;
    for verdict in verdicts {
        all = match (all, verdict) {
            (Verdict::NotValid, _) | (_, Verdict::NotValid) => Verdict::NotValid,
            (Verdict::Failed, _) | (_, Verdict::Failed) => Verdict::Failed,
            (Verdict::Passed, Verdict::Passed) => Verdict::Passed,
        };
    }
    all
}

impl PaperOutcome {
    /// All that is told over the experiments together, by the names of its files.
    fn files(&self) -> [(&'static str, String); 3] {
        [("result.json", json(self)), ("report.html", self.html()), ("summary.md", self.markdown())]
    }
}

impl Begun {
    fn read(directory: &Path) -> Result<Begun> {
        let path = directory.join(FILE);
        let told = |why: String| Error::environment(format!("{}: {why}", path.display()));
        let text = fs::read_to_string(&path).map_err(|error| told(error.to_string()))?;
        let begun: Begun = serde_json::from_str(&text).map_err(|error| told(error.to_string()))?;
        match begun.format {
            FORMAT => Ok(begun),
            other => Err(told(format!("format {other} is unknown, this is {FORMAT}"))),
        }
    }

    fn keep(&self, directory: &Path) -> Result<()> {
        write(&directory.join(FILE), &json(self))
    }

    /// All that is not at its end.
    fn work(
        &mut self,
        directory: &Path,
        access: &Access,
        signals: &Arc<AtomicBool>,
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<()> {
        for (index, id) in self.experiments.clone().into_iter().enumerate() {
            if signals.load(Ordering::SeqCst) {
                self.not_begun.insert(id, "it was interrupted before".into());
                continue;
            }
            let place = format!("{id} ({} of {})", index + 1, self.experiments.len());
            let mut tell_placed = |progress: &Progress| tell(&progress.within(&place));
            let own = directory_of(directory, &id);
            let signals = Arc::clone(signals);
            let told = if own.join("plan.json").exists() {
                crate::resume(&own, access, signals, &mut tell_placed)
            } else {
                let access = access.clone();
                self.request(&id, access, (directory, own))
                    .and_then(|request| crate::begin(&request, signals, &mut tell_placed))
            };
            if let Err(error) = told {
                let why = match error.kind {
                    ErrorKind::Interrupted => "it was interrupted".to_string(),
                    ErrorKind::Environment | ErrorKind::Command => error.to_string(),
                };
                tell(&Progress::note(format!("{place}: not run: {why}")));
                self.not_begun.insert(id, why);
            }
            self.keep(directory)?;
        }
        self.keep(directory)
    }

    /// With the results of the others that it rests on.
    fn request(&self, id: &str, access: Access, (directory, output): (&Path, PathBuf)) -> Result<Request> {
        let preset = self.preset.parse();
        let chosen = Chosen::of(id)?;
        let others = chosen.scenario.rates_of().into_iter().map(|of| directory_of(directory, of));
        let results = others.filter(|own| own.join("plan.json").exists()).collect();
        Ok(Request {
            chosen,
            results,
            preset: preset.map_err(|error| Error::environment(format!("{FILE}: {error}")))?,
            seed: self.seed,
            targets: self.targets.clone(),
            access,
            output,
            keeps_bases: self.keeps_bases,
        })
    }

    fn part(&self, id: &str, told: Option<&Outcome>) -> Result<Part> {
        let scenario = Chosen::of(id)?.scenario;
        let why = self.not_begun.get(id).cloned().unwrap_or_else(|| "it was not begun".into());
        let report = told.map(|_| {
            let name = id.split_once('/').map_or(id, |(_, name)| name);
            format!("{name}/report.html")
        });
        Ok(Part {
            id: id.to_string(),
            title: scenario.title,
            question: scenario.question,
            answer: told.map(|outcome| outcome.answer.clone()),
            verdict: told.map_or(Verdict::NotValid, |outcome| outcome.verdict),
            complaint: told.map_or(Some(why), Outcome::complaint),
            report,
        })
    }
}
