//! `ashlar lab explain`: an experiment in words.

use ashlar_run::Chosen;
use ashlar_scenario::Preset;

use super::{machine, preset, unable};
use crate::Context;
use crate::failure::Result;

/// Tell what a paper did, what it leaves out, what is done here, and how it is judged.
///
/// Also shows the command lines of fio and DiskSpd that do the same; of a database the SQL that the rerun
/// sends to PostgreSQL, and the T-SQL of the paper's steps on SQL Server. With --schema, the keys that a
/// scenario's file may have.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar lab explain emc/headline\n  \
        ashlar lab explain --schema > scenario.schema.json")]
pub struct Explain {
    /// An id that `ashlar lab list` shows, or the path of a .toml file.
    #[arg(value_name = "SCENARIO", required_unless_present = "schema")]
    scenario: Option<String>,
    /// How large: xs, s, m, l or paper.
    #[arg(short = 's', long, value_name = "PRESET", default_value = "s", value_parser = preset)]
    preset: Preset,
    /// Print the keys of a scenario's file as a JSON schema, for an editor.
    #[arg(long, conflicts_with = "scenario")]
    schema: bool,
}

impl Explain {
    pub fn run(self, context: &Context) -> Result<()> {
        let Some(scenario) = self.scenario else {
            let text = ashlar_scenario::schema();
            let value: serde_json::Value = serde_json::from_str(&text).expect("a schema is JSON");
            return Ok(context.output.print(&value, |_| text)?);
        };
        if scenario == ashlar_selftest::ID {
            let text = ashlar_selftest::EXPLANATION;
            let value = serde_json::json!({ "scenario": ashlar_selftest::ID, "text": text });
            return Ok(context.output.print(&value, |_| text.to_string())?);
        }
        let chosen = Chosen::of(&scenario)?;
        let text = ashlar_scenario::explain(&chosen.scenario, self.preset, machine(), &ashlar_run::sql);
        let text = text.map_err(|error| unable(&error))?;
        let value = serde_json::json!({ "scenario": chosen.scenario.id, "text": text });
        Ok(context.output.print(&value, |_| text)?)
    }
}
