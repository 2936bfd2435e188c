//! `ashlar lab export`: an experiment as a file to change, or a result as a file to carry.

use std::path::Path;

use ashlar_run::Chosen;

use crate::Context;
use crate::failure::Result;

/// Print an experiment's file, to be changed and run; or a result as one file, for `ashlar lab import`
/// elsewhere.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar lab export fujitsu/throughput > mine.toml\n  \
        ashlar lab run mine.toml -s xs --target /mnt/db\n  ashlar lab export ashlar-lab-fujitsu-throughput-s > result.json")]
pub struct Export {
    /// An id that `ashlar lab list` shows, or the directory of a result.
    #[arg(value_name = "SCENARIO|DIR")]
    scenario: String,
}

impl Export {
    pub fn run(self, context: &Context) -> Result<()> {
        let directory = Path::new(&self.scenario);
        if directory.is_dir() {
            let text = ashlar_run::pack(&crate::parse::absolute(directory)?)?;
            let value: serde_json::Value = serde_json::from_str(&text).expect("a pack is JSON");
            return Ok(context.output.print(&value, |_| text)?);
        }
        let chosen = Chosen::of(&self.scenario)?;
        let value = serde_json::json!({ "scenario": chosen.scenario.id, "text": chosen.text });
        Ok(context.output.print(&value, |_| chosen.text.clone())?)
    }
}
