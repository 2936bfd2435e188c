//! `ashlar lab plan`: what a run would take.

use std::collections::BTreeMap;

use ashlar_report::{bytes, seconds};
use ashlar_run::{Figured, Outline};
use serde::Serialize;

use super::{Experiment, Named, machine};
use crate::Context;
use crate::failure::{Failure, Result};

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
        let (preset, seed) = (self.experiment.preset, self.experiment.number());
        if self.experiment.is_selftest() {
            let what = "ashlar/selftest has no plan: it takes two minutes and 512 MiB, whatever the preset";
            return Err(Failure::Unable(what.into()));
        }
        let named = self.experiment.named()?;
        let targets = self.experiment.targets(&named)?;
        let access = self.experiment.access(context, false)?;
        match named {
            Named::One(chosen) => {
                let targets = ashlar_run::measured_space(&chosen.scenario, &targets, &access)?;
                let outline = ashlar_run::outline(&chosen.scenario, preset, seed, &targets, machine())?;
                Ok(context.output.print(&outline.figured(), |_| outline.text())?)
            }
            Named::Paper(paper) => {
                let planned = Planned::of(ashlar_run::plan_paper(&paper, preset, seed, &targets, &access)?);
                Ok(context.output.print(&planned, Planned::text)?)
            }
        }
    }
}

/// All experiments of a paper.
#[derive(Serialize)]
struct Planned {
    /// Of all together.
    seconds: u64,
    bytes_written: u64,
    experiments: Vec<Figured>,
    /// By id, why it cannot be run there.
    not_possible: BTreeMap<String, String>,
    #[serde(skip)]
    texts: Vec<String>,
}

impl Planned {
    fn of(planned: Vec<(&'static str, ashlar_run::Result<Outline>)>) -> Planned {
        let mut all = Planned {
            seconds: 0,
            bytes_written: 0,
            experiments: Vec::new(),
            not_possible: BTreeMap::new(),
            texts: Vec::new(),
        };
        for (id, outline) in planned {
            match outline {
                Ok(outline) => {
                    let figured = outline.figured();
                    all.seconds += figured.seconds;
                    all.bytes_written += figured.bytes_written;
                    all.experiments.push(figured);
                    all.texts.push(outline.text());
                }
                Err(error) => {
                    all.texts.push(format!("{id}: not possible: {error}"));
                    all.not_possible.insert(id.to_string(), error.to_string());
                }
            }
        }
        all
    }

    fn text(&self) -> String {
        let (time, written) = (seconds(self.seconds), bytes(self.bytes_written));
        let whole = format!("All together about {time}, {written} written.");
        format!("{}\n\n{whole}", self.texts.join("\n\n"))
    }
}
