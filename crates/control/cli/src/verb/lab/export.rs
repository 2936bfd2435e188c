//! `ashlar lab export`: an experiment as a file to change.

use ashlar_run::Chosen;

use crate::Context;
use crate::failure::Result;

/// Print an experiment's file, to be changed and run.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar lab export fujitsu/throughput > mine.toml\n  \
        ashlar lab run mine.toml -s xs --target /mnt/db")]
pub struct Export {
    /// An id that `ashlar lab list` shows.
    #[arg(value_name = "SCENARIO")]
    scenario: String,
}

impl Export {
    pub fn run(self, context: &Context) -> Result<()> {
        let chosen = Chosen::of(&self.scenario)?;
        let value = serde_json::json!({ "scenario": chosen.scenario.id, "text": chosen.text });
        Ok(context.output.print(&value, |_| chosen.text.clone())?)
    }
}
