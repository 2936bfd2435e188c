//! `ashlar lab plan`: what a run would take.

use super::{Experiment, machine};
use crate::Context;
use crate::failure::Result;

/// Tell what a run would take: runs, time, bytes written, space, what is cut or left out. Executes nothing.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  ashlar lab plan emc/headline -s s --target /mnt/db --also block:/dev/sdx"
)]
pub struct Plan {
    #[command(flatten)]
    experiment: Experiment,
}

impl Plan {
    pub fn run(self, context: &Context) -> Result<()> {
        let Experiment { preset, seed, .. } = self.experiment;
        let (chosen, targets) = (self.experiment.chosen()?, self.experiment.targets()?);
        let outline = ashlar_run::outline(&chosen.scenario, preset, seed, &targets, machine())?;
        Ok(context.output.print(&outline.figured(), |_| outline.text())?)
    }
}
