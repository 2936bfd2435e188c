//! `ashlar lab plan`: what a run would take.

use std::collections::BTreeMap;

use ashlar_report::{bytes, seconds};
use ashlar_run::{Figured, Outline};
use ashlar_target::Access;
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
                let bases = self.bases(&outline, &access)?;
                let figured = Figured { bases: bases.clone(), ..outline.figured() };
                let text = |_: &Figured| with_bases(outline.text(), &bases);
                Ok(context.output.print(&figured, text)?)
            }
            Named::Paper(paper) => {
                let planned = ashlar_run::plan_paper(&paper, preset, seed, &targets, &access)?;
                let told = |outline: &Outline| self.bases(outline, &access);
                let planned = Planned::of(planned, &told)?;
                Ok(context.output.print(&planned, Planned::text)?)
            }
        }
    }
}

impl Plan {
    /// What of it is there already, and what will be kept.
    fn bases(&self, outline: &Outline, access: &Access) -> Result<Vec<String>> {
        match self.experiment.keep_base {
            true => Ok(ashlar_run::bases_told(outline, access)?),
            false => Ok(Vec::new()),
        }
    }
}

fn with_bases(text: String, bases: &[String]) -> String {
    let lines = bases.iter().map(|sentence| format!("\n- {sentence}"));
    text + &lines.collect::<String>()
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
    fn of(
        planned: Vec<(&'static str, ashlar_run::Result<Outline>)>,
        bases: &dyn Fn(&Outline) -> Result<Vec<String>>,
    ) -> Result<Planned> {
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
                    let bases = bases(&outline)?;
                    let figured = Figured { bases: bases.clone(), ..outline.figured() };
                    all.seconds += figured.seconds;
                    all.bytes_written += figured.bytes_written;
                    all.experiments.push(figured);
                    all.texts.push(with_bases(outline.text(), &bases));
                }
                Err(error) => {
                    all.texts.push(format!("{id}: not possible: {error}"));
                    all.not_possible.insert(id.to_string(), error.to_string());
                }
            }
        }
        Ok(all)
    }

    fn text(&self) -> String {
        let (time, written) = (seconds(self.seconds), bytes(self.bytes_written));
        let whole = format!("All together about {time}, {written} written.");
        format!("{}\n\n{whole}", self.texts.join("\n\n"))
    }
}
