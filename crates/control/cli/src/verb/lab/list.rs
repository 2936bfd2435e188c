//! `ashlar lab list`: the experiments there are, and what each takes.

use ashlar_report::{bytes, seconds};
use ashlar_scenario::{Preset, Request, Target};
use serde::Serialize;

use super::{machine, unable};
use crate::Context;
use crate::failure::Result;

/// List the experiments: what each asks, how long it takes and how much space it needs at each preset.
///
/// Times are of one target, on this machine.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar lab list")]
pub struct List {}

#[derive(Serialize)]
struct Listed {
    id: &'static str,
    title: String,
    question: String,
    presets: Vec<Size>,
}

#[derive(Serialize)]
struct Size {
    preset: &'static str,
    seconds: u64,
    bytes_stored: u64,
    bytes_written: u64,
}

impl List {
    pub fn run(self, context: &Context) -> Result<()> {
        let listed = ashlar_scenario::ids().map(listed).collect::<Result<Vec<Listed>>>()?;
        let all = |listed: &Vec<Listed>| {
            let own = format!(
                "{}: the lab itself, held against disks that lie\n\nashlar lab doctor: what a database may expect of \
                 a place, in ten minutes\n",
                ashlar_selftest::ID
            );
            listed.iter().map(text).chain([own]).collect::<Vec<_>>().join("\n")
        };
        Ok(context.output.print(&listed, all)?)
    }
}

fn listed(id: &'static str) -> Result<Listed> {
    let scenario = ashlar_scenario::load(id).map_err(|error| unable(&error))?;
    let targets = [Target::any()];
    let size = |preset: Preset| {
        let request = Request { preset, seed: 1, targets: &targets, machine: machine() };
        let plan = ashlar_scenario::plan(&scenario, &request).map_err(|error| unable(&error))?;
        Ok(Size {
            preset: preset.name(),
            seconds: plan.duration.as_secs(),
            bytes_stored: plan.bytes_stored.0,
            bytes_written: plan.bytes_written.0,
        })
    };
    let presets = Preset::ALL.into_iter().map(size).collect::<Result<Vec<Size>>>()?;
    Ok(Listed { id, title: scenario.title, question: scenario.question, presets })
}

fn text(listed: &Listed) -> String {
    let mut lines = vec![format!("{}: {}", listed.id, listed.title)];
    for size in &listed.presets {
        let (time, space) = (seconds(size.seconds), bytes(size.bytes_stored));
        lines.push(format!("  {:<6}{time:>14}{space:>11}", size.preset));
    }
    lines.join("\n") + "\n"
}
