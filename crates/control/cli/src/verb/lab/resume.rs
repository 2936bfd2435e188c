//! `ashlar lab resume`: goes on with an experiment that did not come to its end.

use std::path::PathBuf;

use super::run::{finish, finish_paper, tell};
use crate::Context;
use crate::failure::Result;

/// Go on with a run that was interrupted or killed, with the same plan, targets and seed.
///
/// Writes the data sets anew and makes the runs that are missing. Refused when the scenario or a target is
/// not what it was. Exit status as of `ashlar lab run`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar lab resume ashlar-lab-fujitsu-throughput-xs")]
pub struct Resume {
    /// The directory that `ashlar lab run` made.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Overwrite devices, again: everything on them is lost.
    #[arg(long)]
    destroy: bool,
}

impl Resume {
    pub fn run(self, context: &Context) -> Result<()> {
        let directory = crate::parse::absolute(&self.directory)?;
        let signals = ashlar_programs::heed_signals()?;
        if ashlar_run::is_paper(&directory) {
            let named = ashlar_run::named_of_paper(&directory)?;
            let access = super::access(context, self.destroy, named.iter())?;
            let told = ashlar_run::resume_paper(&directory, &access, &signals, &mut tell)?;
            return finish_paper(context, &told);
        }
        let named = ashlar_run::named(&directory)?;
        let access = super::access(context, self.destroy, named.iter())?;
        finish(context, &ashlar_run::resume(&directory, &access, signals, &mut tell)?)
    }
}
