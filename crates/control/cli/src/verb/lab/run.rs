//! `ashlar lab run`: an experiment run on targets, and judged.

use std::path::PathBuf;

use ashlar_run::{Outcome, PaperOutcome, PaperRequest, Progress, Request, Verdict};

use super::{Experiment, Named};
use crate::Context;
use crate::failure::{Failure, Result};
use crate::stderr;

/// Run an experiment on one or more targets, and tell whether what it claims holds there.
///
/// Writes the data sets, makes every run of the plan in its order, removes the data sets, and leaves a
/// directory with a page (report.html), the figures (result.json, runs.csv, junit.xml), and fio's jobs and
/// output. Ctrl-C ends it and keeps what was measured; `ashlar lab resume` goes on. Works in a directory of
/// its own on the target; on a pool, with volumes that it makes, attaches and removes.
///
/// Exit status: 0 all checks passed, 4 a check failed, 3 it is a part or no valid result (not steady, the
/// load generator was the bottleneck, too short to tell), 2 it could not begin.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar lab run fujitsu/throughput -s xs --target /mnt/db\n  \
        ashlar lab run emc/headline -s s --target ashlar:main --also /mnt/other -o result\n  \
        ashlar lab run emc/headline -s s --target block:/dev/sdx --destroy\n  \
        ashlar lab run kaminario/oltp-tpcc --target /mnt/db --log-target /mnt/log --keep-base\n  \
        ashlar lab run dell -s s --target ashlar:main --also /mnt/other -o dell")]
pub struct Run {
    #[command(flatten)]
    experiment: Experiment,
    /// Overwrite devices, exports and volumes that exist: everything on them is lost.
    #[arg(long)]
    destroy: bool,
    /// A new directory for the result [default: ashlar-lab-SCENARIO-PRESET here].
    #[arg(short = 'o', long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The directory of a result whose rates a calculation takes, as dell/cost-power-space does; may be given
    /// several times.
    #[arg(long, value_name = "DIR")]
    result: Vec<PathBuf>,
}

impl Run {
    pub fn run(self, context: &Context) -> Result<()> {
        let (preset, seed) = (self.experiment.preset, self.experiment.number());
        if self.experiment.is_selftest() {
            let output = self.output.unwrap_or_else(|| PathBuf::from("ashlar-lab-selftest"));
            return super::selftest::run(context, self.experiment.target, &output);
        }
        let named = self.experiment.named()?;
        let targets = self.experiment.targets(&named)?;
        let results =
            self.result.iter().map(|path| crate::parse::absolute(path)).collect::<Result<Vec<_>>>()?;
        let name = match &named {
            Named::One(chosen) => chosen.scenario.id.replace('/', "-"),
            Named::Paper(paper) => paper.clone(),
        };
        let output = self.output.clone();
        let output = output.unwrap_or_else(|| PathBuf::from(format!("ashlar-lab-{name}-{preset}")));
        let output = crate::parse::absolute(&output)?;
        let access = self.experiment.access(context, self.destroy)?;
        let keeps_bases = self.experiment.keep_base;
        let signals = ashlar_programs::heed_signals()?;
        match named {
            Named::One(chosen) => {
                let request =
                    Request { targets, chosen: *chosen, preset, seed, access, output, results, keeps_bases };
                finish(context, &ashlar_run::begin(&request, signals, &mut tell)?)
            }
            Named::Paper(paper) => {
                if !results.is_empty() {
                    let what = "--result is for one experiment: a paper takes the results of its own";
                    return Err(Failure::Unable(what.into()));
                }
                let request = PaperRequest { paper, preset, seed, targets, access, output, keeps_bases };
                finish_paper(context, &ashlar_run::begin_paper(&request, &signals, &mut tell)?)
            }
        }
    }
}

/// How far it is.
pub(super) fn tell(progress: &Progress) {
    stderr::line(progress.line());
}

/// Prints what was found, and ends with the status that belongs to it.
pub(super) fn finish(context: &Context, outcome: &Outcome) -> Result<()> {
    context.output.print(outcome, Outcome::text)?;
    let complaint = outcome.complaint().map(|what| format!("{}: {what}", outcome.scenario));
    end(outcome.verdict, complaint)
}

/// The same of a whole paper.
pub(super) fn finish_paper(context: &Context, outcome: &PaperOutcome) -> Result<()> {
    context.output.print(outcome, PaperOutcome::text)?;
    end(outcome.verdict, outcome.complaint())
}

fn end(verdict: Verdict, complaint: Option<String>) -> Result<()> {
    match (verdict, complaint) {
        (Verdict::Failed, Some(what)) => Err(Failure::Finding(what)),
        (Verdict::NotValid, Some(what)) => Err(Failure::Part(what)),
        (Verdict::Passed, _) | (Verdict::Failed | Verdict::NotValid, None) => Ok(()),
    }
}
