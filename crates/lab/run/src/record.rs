//! What is kept in the directory of a result: how it began, and each run that came to its end.
//!
//! ```text
//! DIR/plan.json              scenario, preset, seed, targets, machine: what never changes
//! DIR/runs/ID/test.fio       fio's job; its JSON and its logs beside it
//! DIR/runs/ID/run.json       the figures, written last: a run without them is made again
//! DIR/data/                  how the data sets were written
//! DIR/ended.txt              why it ended before its end; absent otherwise
//! DIR/result.json ...        made from these
//! ```

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use ashlar_scenario::{Kept, Plan, Run, Target};
use ashlar_target::{Footing, Machine, MadeDatabase, MadeSnapshot, MadeVolume};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::bill::FoundRate;
use crate::figures::Figures;
use crate::outline::outline_as;
use crate::{Chosen, Error, Outline, Result};

/// Version of `plan.json` and `run.json`.
const FORMAT: u32 = 1;

/// How it began.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Begun {
    pub format: u32,
    /// An id, or a file's path.
    pub source: String,
    /// The scenario as it was.
    pub text: String,
    pub preset: String,
    pub seed: u64,
    pub targets: Vec<Site>,
    pub machine: Machine,
    pub fio: String,
    pub version: String,
    pub begun_unix_seconds: u64,
    /// What logs stand on that lie on none of the targets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<Site>,
    /// What was loaded is kept, and what was kept is used.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_bases: bool,
    /// What its plan was cut to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kept: Option<Kept>,
    /// Of what is worked out and not run: what results told of its arrays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) rates: Vec<FoundRate>,
}

/// A target and what it stands on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Site {
    pub id: String,
    pub address: String,
    pub footing: Footing,
    /// What it had room for when this began, where the scenario asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space_bytes: Option<u64>,
    /// Where the logs of its databases lie, where that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
}

impl Begun {
    pub(crate) const FORMAT: u32 = FORMAT;

    /// The scenario and its plan, worked out again.
    pub(crate) fn outline(&self) -> Result<Outline> {
        let chosen = Chosen::read(self.source.clone(), self.text.clone())?;
        let preset =
            self.preset.parse().map_err(|error| Error::environment(format!("plan.json: {error}")))?;
        let targets = self.named_targets();
        let machine = crate::machine(&self.machine);
        outline_as(&chosen.scenario, preset, self.seed, &targets, machine, self.kept.as_ref())
    }

    pub(crate) fn named_targets(&self) -> Vec<Target> {
        let target = |site: &Site| Target {
            space_bytes: site.space_bytes,
            log: site.log.clone(),
            ..Target::new(&site.id, &site.address)
        };
        self.targets.iter().map(target).collect()
    }
}

/// What a run has made on its targets, for whoever clears up when it was killed.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Left {
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) volumes: Vec<MadeVolume>,
    #[serde(default)]
    pub(crate) snapshots: Vec<MadeSnapshot>,
    #[serde(default)]
    pub(crate) databases: Vec<MadeDatabase>,
}

/// The directory of a result.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    pub(crate) directory: PathBuf,
}

impl Records {
    pub(crate) fn new(directory: &Path) -> Records {
        Records { directory: directory.to_path_buf() }
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(crate) fn run(&self, id: &str) -> PathBuf {
        self.directory.join("runs").join(id)
    }

    pub(crate) fn begun(&self) -> Result<Begun> {
        let path = self.at("plan.json");
        let text = fs::read_to_string(&path).map_err(|error| {
            let what = "is this a directory that `ashlar lab run` made?";
            Error::environment(format!("{}: {error}: {what}", path.display()))
        })?;
        let begun: Begun = serde_json::from_str(&text)
            .map_err(|error| Error::environment(format!("{}: {error}", path.display())))?;
        match begun.format {
            FORMAT => Ok(begun),
            other => Err(Error::environment(format!(
                "{}: format {other} is unknown, this is {FORMAT}",
                path.display()
            ))),
        }
    }

    /// Holds the directory for this process; the end of the process lets it go, however it ends.
    pub(crate) fn hold(&self) -> Result<File> {
        let path = self.at("plan.json");
        let file =
            File::open(&path).map_err(|error| Error::environment(format!("{}: {error}", path.display())))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            Error::environment(format!("{}: another run works in it", self.directory.display()))
        })?;
        Ok(file)
    }

    /// The figures of a run that came to its end.
    pub(crate) fn figures(&self, id: &str) -> Option<Figures> {
        let text = fs::read_to_string(self.run(id).join("run.json")).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// The runs that are not yet made.
    pub(crate) fn left<'a>(&self, plan: &'a Plan) -> Vec<&'a Run> {
        plan.runs.iter().filter(|run| self.figures(&run.id).is_none()).collect()
    }

    pub(crate) fn keep_figures(&self, figures: &Figures) -> Result<()> {
        write(&self.run(&figures.id).join("run.json"), &json(figures))
    }

    /// What a run before this has left on the targets.
    pub(crate) fn left_on_targets(&self) -> Left {
        let text = fs::read_to_string(self.at("places.json")).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// What is on the targets from now on; nothing when all was removed.
    pub(crate) fn keep_left(&self, left: &Left) -> Result<()> {
        if *left == Left::default() {
            let _absent = fs::remove_file(self.at("places.json"));
            return Ok(());
        }
        write(&self.at("places.json"), &json(left))
    }

    pub(crate) fn ended(&self) -> Option<String> {
        fs::read_to_string(self.at("ended.txt")).ok()
    }

    /// Why it ended; `None` when it came to its end, or goes on.
    pub(crate) fn keep_ended(&self, why: Option<&str>) -> Result<()> {
        match why {
            Some(why) => write(&self.at("ended.txt"), why),
            None => {
                let _absent = fs::remove_file(self.at("ended.txt"));
                Ok(())
            }
        }
    }
}

pub(crate) fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string_pretty(value).expect("results are plain data")
}

/// All of it or nothing, whatever happens meanwhile.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    let unable = |error: std::io::Error| Error::io(&path.display().to_string(), &error);
    let passing = path.with_extension("part");
    let mut file = File::create(&passing).map_err(unable)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(unable)?;
    fs::rename(&passing, path).map_err(unable)
}

/// A directory with those above it.
pub(crate) fn make(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| Error::io(&path.display().to_string(), &error))
}
