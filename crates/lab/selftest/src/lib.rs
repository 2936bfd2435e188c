//! The lab held against disks that lie, and against drives whose speed is known: whoever judges others must
//! find out.
//!
//! ```text
//!  honest, stale, flush, memory ──▶ write and compare ──▶ promise ──▶ power cut ──▶ what is left: its nature
//!  honest, flush ──▶ PostgreSQL on ext4, orders ──▶ power cut ──▶ recovery, conditions, ledger
//!  a limit, drives of a model ──▶ fio ──▶ the rate that they were made for
//! ```
//! Every disk is one of [`ashlar_disk`]; nothing is known of it to whoever judges but its device.

mod nature;
mod orders;
mod page;
mod speed;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use ashlar_disk::{ErrorKind as DiskErrorKind, Kind};
use ashlar_fio::Fio;
use ashlar_programs::Launcher;
pub use ashlar_programs::{Error, ErrorKind, Result};
use serde::Serialize;

pub use nature::Nature;

/// Stands for it where scenarios are named.
pub const ID: &str = "ashlar/selftest";

/// For whoever asks what it is.
pub const EXPLANATION: &str = "\
ashlar/selftest: the lab held against disks that lie

It makes disks whose nature whoever judges them is not told, in files of a directory: an honest one, one that
returns old blocks, one that flushes only now and then, one that keeps everything in memory. Each is written,
compared, loses its power, and is read again: the lab must say which it is. Under a PostgreSQL that works off
orders it cuts the power, too: on the honest disk everything acknowledged must be there afterwards, on the liar
the ledger must tell what is lost. A limit and two drives of a model must be measured at the rates they were
made for.

It needs root, FUSE, loop devices, fio and PostgreSQL, 512 MiB and about a minute, whatever the preset.";

/// Where it works.
pub struct Settings {
    /// Files of a few hundred MiB are made in it and removed.
    pub directory: PathBuf,
    /// For what fio leaves.
    pub records: PathBuf,
}

/// Whether the lab found out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    Passed,
    Failed,
    CannotTell,
}

/// One disk, and what the lab said of it.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    pub name: &'static str,
    /// What it must find.
    pub rule: String,
    pub found: String,
    pub answer: Answer,
    pub seconds: f64,
}

/// All of them.
#[derive(Clone, Debug, Serialize)]
pub struct Selftest {
    /// Version of this form.
    pub format: u32,
    pub steps: Vec<Step>,
    pub seconds: f64,
}

/// What a step comes to: what was found, and whether it is what must be found.
type Told = (String, bool);

/// Makes every step that this machine can make.
///
/// # Errors
/// On Ctrl-C, and when fio is not there.
pub fn selftest(
    settings: &Settings,
    launcher: &Arc<Launcher>,
    tell: &mut dyn FnMut(&str),
) -> Result<Selftest> {
    let fio = Fio::find(launcher)?;
    let begun = Instant::now();
    let mut steps = Vec::new();
    let stage = Stage { settings, launcher, fio: &fio };
    for (name, rule, make) in plan() {
        if launcher.is_interrupted() {
            return Err(Error::interrupted());
        }
        tell(name);
        let begun = Instant::now();
        let (found, answer) = match make(&stage) {
            Ok((found, true)) => (found, Answer::Passed),
            Ok((found, false)) => (found, Answer::Failed),
            Err(Unmade::CannotTell(why)) => (why, Answer::CannotTell),
            Err(Unmade::Failed(error)) if error.kind == ErrorKind::Interrupted => return Err(error),
            Err(Unmade::Failed(error)) => (error.to_string(), Answer::Failed),
        };
        steps.push(Step { name, rule, found, answer, seconds: begun.elapsed().as_secs_f64() });
    }
    Ok(Selftest { format: 1, steps, seconds: begun.elapsed().as_secs_f64() })
}

/// What every step needs.
struct Stage<'a> {
    settings: &'a Settings,
    launcher: &'a Arc<Launcher>,
    fio: &'a Fio,
}

/// Why a step came to nothing.
enum Unmade {
    /// This machine lacks what it takes.
    CannotTell(String),
    Failed(Error),
}

impl From<Error> for Unmade {
    fn from(error: Error) -> Unmade {
        Unmade::Failed(error)
    }
}

impl From<ashlar_disk::Error> for Unmade {
    fn from(error: ashlar_disk::Error) -> Unmade {
        match error.kind {
            DiskErrorKind::Unsupported => Unmade::CannotTell(error.to_string()),
            _ => Unmade::Failed(Error::environment(error.to_string())),
        }
    }
}

impl From<ashlar_postgres::Error> for Unmade {
    fn from(error: ashlar_postgres::Error) -> Unmade {
        Unmade::Failed(error.into())
    }
}

impl From<ashlar_workload::Error> for Unmade {
    fn from(error: ashlar_workload::Error) -> Unmade {
        Unmade::Failed(error.into())
    }
}

type Make = Box<dyn Fn(&Stage<'_>) -> std::result::Result<Told, Unmade>>;

fn plan() -> Vec<(&'static str, String, Make)> {
    let nature = |name, kind: &str, nature: Nature| {
        let kind = disk(kind);
        let make = move |stage: &Stage<'_>| nature::judged(stage, &kind, nature);
        (name, format!("The lab finds that it {}", nature.in_words()), Box::new(make) as Make)
    };
    let orders = |name, kind: &str, loses: bool| {
        let kind = disk(kind);
        let make = move |stage: &Stage<'_>| orders::after_power_cut(stage, &kind, loses);
        let rule = match loses {
            true => {
                "After a power cut the database, its conditions or the ledger tell that something is lost; \
                 looking on takes less than 1 % of the processors"
            }
            false => {
                "After a power cut the database recovers, all conditions hold, and all acknowledged is there; \
                 looking on takes less than 1 % of the processors"
            }
        };
        (name, rule.to_string(), Box::new(make) as Make)
    };
    vec![
        nature("an honest disk", "plain", Nature::Honest),
        nature("a disk that returns old blocks", "liar:stale", Nature::ReturnsOldBlocks),
        nature("a disk that flushes only now and then", "liar:flush", Nature::LosesSome),
        nature("a disk that keeps all in memory", "liar:memory", Nature::LosesAll),
        orders("orders on an honest disk", "plain", false),
        orders("orders on a disk that flushes only now and then", "liar:flush", true),
        ("a limit of 500 requests a second", "fio's rate is within 5 % of it".into(), Box::new(speed::limit)),
        (
            "two drives of 10,000 rpm",
            "fio's rate on the disk is within 15 % of the model's own".into(),
            Box::new(speed::drives),
        ),
    ]
}

fn disk(kind: &str) -> Kind {
    match kind {
        "plain" => Kind::Plain,
        address => Kind::parse(address).expect("addresses of the plan are right"),
    }
}

impl Selftest {
    /// The worst of all.
    #[must_use]
    pub fn answer(&self) -> Answer {
        let any = |wanted| self.steps.iter().any(|step| step.answer == wanted);
        match () {
            () if any(Answer::Failed) => Answer::Failed,
            () if any(Answer::CannotTell) => Answer::CannotTell,
            () => Answer::Passed,
        }
    }
}
