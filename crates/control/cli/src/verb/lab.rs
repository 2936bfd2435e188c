//! `ashlar lab`: what storage does under a database, measured on any target and judged.

use std::sync::Arc;

use ashlar_run::Chosen;
use ashlar_scenario::Preset;
use ashlar_target::{Access, Kind};
use clap::Subcommand;

use crate::Context;
use crate::failure::{Failure, Result};

mod bases;
mod compare;
mod doctor;
mod explain;
mod export;
mod import;
mod list;
mod plan;
mod report;
mod resume;
mod run;
mod selftest;
mod verify;

/// Measure what storage does under a database, on any directory, device, volume or export.
///
/// Needs no array: it treats an Ashlar volume as one target among others. I/O tests are driven by fio.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar lab doctor --target /mnt/db\n  ashlar lab list\n  \
        ashlar lab run fujitsu/throughput -s xs --target /mnt/db --also /mnt/other")]
pub struct Lab {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Doctor(doctor::Doctor),
    Bases(bases::Bases),
    List(list::List),
    Explain(explain::Explain),
    Export(export::Export),
    Import(import::Import),
    Plan(plan::Plan),
    Run(run::Run),
    Resume(resume::Resume),
    Report(report::Report),
    Compare(compare::Compare),
    Verify(verify::Verify),
}

impl Lab {
    pub fn run(self, context: &Context) -> Result<()> {
        match self.verb {
            Verb::Doctor(verb) => verb.run(context),
            Verb::Bases(verb) => verb.run(context),
            Verb::List(verb) => verb.run(context),
            Verb::Explain(verb) => verb.run(context),
            Verb::Export(verb) => verb.run(context),
            Verb::Import(verb) => verb.run(context),
            Verb::Plan(verb) => verb.run(context),
            Verb::Run(verb) => verb.run(context),
            Verb::Resume(verb) => verb.run(context),
            Verb::Report(verb) => verb.run(context),
            Verb::Compare(verb) => verb.run(context),
            Verb::Verify(verb) => verb.run(context),
        }
    }
}

/// What is run, how large, and where.
#[derive(clap::Args)]
struct Experiment {
    /// An id that `ashlar lab list` shows, the path of a .toml file, or the beginning of ids, such as dell:
    /// then all experiments of that paper.
    #[arg(value_name = "SCENARIO", required_unless_present = "seed")]
    scenario: Option<String>,
    /// How large: xs is a look of a minute or two, paper is the paper's own size.
    #[arg(short = 's', long, value_name = "PRESET", default_value = "s", value_parser = preset)]
    preset: Preset,
    /// A directory, a device as block:/dev/NAME, volumes of a pool as ashlar:POOL or ashlar:POOL/VOLUME, an
    /// export as nbd://HOST/NAME, simulated drives as sim-hdd:drives=2,model=10k-300g,raid=1, or drives that
    /// hold up real data as "sim-hdd:... over DIR". ashlar/selftest needs none.
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// A further target, interleaved with the first; may be given several times.
    #[arg(long, value_name = "TARGET")]
    also: Vec<String>,
    /// Where the write-ahead log of a database lies: a directory, or a pool as ashlar:POOL; the same pool as
    /// the target's makes a second volume in it [default: beside the data, or apart on the same target where
    /// the paper had it so].
    #[arg(long, value_name = "TARGET")]
    log_target: Option<String>,
    /// Keep what is loaded into a database on its target for a later run, and use what an earlier run kept
    /// there, where engine, workload, size, seed and settings are the same. `ashlar lab bases` lists them.
    #[arg(long)]
    keep_base: bool,
    /// A number decides the order of the runs and what fio draws. A word stands for a paper, as SCENARIO may.
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = seed)]
    seed: Seed,
}

/// What `--seed` says.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Seed {
    Number(u64),
    Paper(String),
}

/// What was chosen to be run.
enum Named {
    One(Box<Chosen>),
    Paper(String),
}

impl Experiment {
    /// The lab itself is to be judged, which has no scenario.
    fn is_selftest(&self) -> bool {
        self.scenario.as_deref() == Some(ashlar_selftest::ID)
    }

    fn named(&self) -> Result<Named> {
        match (&self.scenario, &self.seed) {
            (Some(name), Seed::Paper(paper)) => Err(Failure::Unable(format!(
                "--seed {paper} stands for all experiments of a paper: leave {name} out, or give a number"
            ))),
            (None, Seed::Paper(paper)) => Ok(Named::Paper(paper.clone())),
            (Some(name), Seed::Number(_)) if !name.contains('/') && !name.contains('.') => {
                Ok(Named::Paper(name.clone()))
            }
            (Some(name), Seed::Number(_)) => Ok(Named::One(Box::new(Chosen::of(name)?))),
            (None, Seed::Number(_)) => Err(Failure::Unable("name a scenario".into())),
        }
    }

    /// Of what is drawn at random.
    fn number(&self) -> u64 {
        match self.seed {
            Seed::Number(number) => number,
            Seed::Paper(_) => 1,
        }
    }

    /// What it takes to open the targets.
    fn access(&self, context: &Context, may_destroy: bool) -> Result<Access> {
        access(context, may_destroy, self.target.iter().chain(&self.also).chain(&self.log_target))
    }

    /// What is worked out and not run needs none.
    fn targets(&self, what: &Named) -> Result<Vec<ashlar_scenario::Target>> {
        let named: Vec<String> = self.target.iter().chain(&self.also).cloned().collect();
        let needs_none = matches!(what, Named::One(chosen) if chosen.scenario.is_calculated());
        if self.target.is_none() && !needs_none {
            return Err(Failure::Unable("name the place to be measured with --target".into()));
        }
        let targets = ashlar_run::targets(&named)?;
        match &self.log_target {
            Some(log) => Ok(ashlar_run::with_log(targets, log)?),
            None => Ok(targets),
        }
    }
}

/// The array is asked for only where one is named: the lab needs none.
fn access<'a>(
    context: &Context,
    may_destroy: bool,
    mut targets: impl Iterator<Item = &'a String>,
) -> Result<Access> {
    let is_named = targets.any(|target| Kind::of(target).is_ok_and(|kind| kind == Kind::Pool));
    let array = if is_named { Some(Arc::new(context.client()?)) } else { None };
    Ok(Access { may_destroy, array })
}

fn seed(text: &str) -> std::result::Result<Seed, String> {
    if text.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
        return Ok(Seed::Paper(text.to_string()));
    }
    text.parse().map(Seed::Number).map_err(|_| format!("`{text}` is no whole number, and no paper"))
}

fn preset(text: &str) -> std::result::Result<Preset, String> {
    text.parse().map_err(|error: ashlar_scenario::Error| error.to_string())
}

/// What a plan must know of this machine.
fn machine() -> ashlar_scenario::Machine {
    ashlar_run::machine(&ashlar_target::Machine::here())
}

/// A mistake in a scenario, or a value that it lacks.
fn unable(error: &ashlar_scenario::Error) -> Failure {
    Failure::Unable(error.to_string())
}
