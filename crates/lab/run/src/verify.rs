//! A result held against what it was made from: the figures of each run against fio's output beside them, the
//! pages against the figures. Whoever is handed a result can tell that nobody retouched it.

use std::fs;
use std::path::{Path, PathBuf};

use ashlar_fio::Kept;
use ashlar_model::array::spec::Spec;
use ashlar_scenario::{DataSet, IoLoad, Load, Run, Variant};
use ashlar_target::{Ground, Kind};
use serde::Serialize;
use serde_json::Value;

use crate::figures::Figures;
use crate::outcome::Outcome;
use crate::record::{Records, json};
use crate::text::many;
use crate::{Error, Outline, Result, jobs, simulated};

/// What a look at a result found.
#[derive(Clone, Debug, Serialize)]
pub struct Verified {
    pub scenario: String,
    pub directory: PathBuf,
    /// Runs whose figures were worked out again.
    pub derived: usize,
    /// Runs with a database: what its clients counted is kept nowhere but in the figures.
    pub not_derived: usize,
    /// Runs that were not made.
    pub missing: usize,
    /// What is not what it should be, in sentences.
    pub differences: Vec<String>,
}

/// Works the figures and the pages of a result out again. Changes nothing.
///
/// # Errors
/// When the directory holds no run.
pub fn verify(directory: &Path) -> Result<Verified> {
    let records = Records::new(directory);
    let outcome = Outcome::of(&records)?;
    let mut found = Verified {
        scenario: outcome.scenario.clone(),
        directory: directory.to_path_buf(),
        derived: 0,
        not_derived: 0,
        missing: 0,
        differences: Vec::new(),
    };
    for run in &outcome.outline.plan.runs {
        let Some(kept) = records.figures(&run.id) else {
            found.missing += 1;
            continue;
        };
        match derived(&outcome.outline, run, &records) {
            Ok(None) => found.not_derived += 1,
            Ok(Some(derived)) => {
                found.derived += 1;
                found.differences.extend(difference(&kept, derived));
            }
            Err(error) => found.differences.push(format!("run {}: {error}", run.id)),
        }
    }
    found.compare_pages(&outcome.files(), &outcome.version);
    Ok(found)
}

impl Verified {
    /// Of nothing but pages: those over all experiments of a paper.
    pub(crate) fn of_pages(name: &str, directory: &Path, files: &[(&str, String)]) -> Verified {
        let mut found = Verified {
            scenario: name.to_string(),
            directory: directory.to_path_buf(),
            derived: 0,
            not_derived: 0,
            missing: 0,
            differences: Vec::new(),
        };
        found.compare_pages(files, env!("CARGO_PKG_VERSION"));
        found
    }

    /// Pages that are not what the figures make.
    fn compare_pages(&mut self, files: &[(&str, String)], made_by: &str) {
        let version = env!("CARGO_PKG_VERSION");
        for (name, text) in files {
            if fs::read(self.directory.join(name)).is_ok_and(|kept| kept == text.as_bytes()) {
                continue;
            }
            self.differences.push(match made_by == version {
                true => format!("{name} is not what the figures make: `ashlar lab report` makes it again"),
                false => {
                    format!("{name} is not what version {version} makes of the figures: {made_by} made it")
                }
            });
        }
    }
}

/// The figures as what is kept beside them has it; `None` of a database.
fn derived(outline: &Outline, run: &Run, records: &Records) -> Result<Option<Figures>> {
    let variant = &outline.plan.variants[run.variant];
    if let Load::Bill(bill) = &variant.load {
        return Ok(Some(crate::bill::figures((run, variant), bill, &records.begun()?.rates)));
    }
    let load = crate::offered::resolved(&outline.plan, run, records)?;
    let Load::Io(load) = &load else { return Ok(None) };
    let seed = jobs::mixed(outline.seed, &run.id);
    let address = &variant.target.address;
    let unable = |what: String| Error::environment(format!("{address}: {what}"));
    if Kind::of(address).map_err(|refusal| unable(refusal.to_string()))? == Kind::Model {
        let spec = Spec::parse(address).map_err(|error| unable(error.to_string()))?;
        return simulated::figures((run, variant), load, &spec, &outline.plan, seed).map(Some);
    }
    of_fio(outline, (run, variant), load, records).map(Some)
}

fn of_fio(
    outline: &Outline,
    (run, variant): (&Run, &Variant),
    load: &IoLoad,
    records: &Records,
) -> Result<Figures> {
    // Where it lay says nothing of what was measured.
    let areas = jobs::areas(&ground(&variant.target.address, &load.set)?, &load.set);
    let cell = jobs::cell(load, &areas, &outline.plan, 0);
    let kept = Kept::read(&cell, &records.run(&run.id))?;
    Ok(Figures::of(run, variant, load, &cell, &kept))
}

/// Of the kind that the target has, and as many.
fn ground(address: &str, set: &DataSet) -> Result<Ground> {
    let kind = Kind::of(address).map_err(|refusal| Error::environment(refusal.to_string()))?;
    let several = |count: u64| (0..count).map(|number| PathBuf::from(format!("/{number}"))).collect();
    Ok(match kind {
        Kind::Directory => Ground::Files(several(set.files)),
        Kind::Pool if set.layout.cluster.is_some() => Ground::Files(several(set.files)),
        Kind::Pool if !Kind::rest(address).contains('/') => Ground::Volumes(several(set.layout.volumes)),
        Kind::Device | Kind::Disk | Kind::Pool => {
            Ground::Device { path: PathBuf::from("/0"), offset_bytes: 0 }
        }
        Kind::Export => Ground::Nbd { uri: address.to_string(), offset_bytes: 0 },
        Kind::Model | Kind::Server => Ground::Nothing,
    })
}

/// What a run's figures say otherwise than what they were made from; what only this machine could count then
/// is taken as it is.
fn difference(kept: &Figures, derived: Figures) -> Option<String> {
    let derived = Figures {
        begun_unix_seconds: kept.begun_unix_seconds,
        device: kept.device,
        log_device: kept.log_device,
        pool: kept.pool,
        meanwhile: kept.meanwhile.clone(),
        ..derived
    };
    // Numbers lose their last digit when they are written.
    let as_kept = |figures: &Figures| -> Value { serde_json::from_str(&json(figures)).unwrap_or_default() };
    let derived: Figures = serde_json::from_value(as_kept(&derived)).ok()?;
    let (was, is) = (as_kept(kept), as_kept(&derived));
    let differs = |name: &&String| was.get(name.as_str()) != is.get(name.as_str());
    let names: Vec<&String> = was.as_object()?.keys().chain(is.as_object()?.keys()).filter(differs).collect();
    let name = names.first()?;
    let told = |side: &Value| match side.get(name.as_str()) {
        Some(Value::Array(_) | Value::Object(_)) | None => "something else".to_string(),
        Some(value) => value.to_string(),
    };
    Some(format!(
        "run {}: run.json has `{name}` = {}, and what is kept beside it makes {}",
        kept.id,
        told(&was),
        told(&is)
    ))
}

impl Verified {
    /// For a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = vec![format!("{}: {}", self.scenario, self.directory.display()), String::new()];
        let runs = many(self.derived, "run");
        lines.push(format!(
            "{runs}: figures worked out again from what fio, the model of drives or the list of parts gave."
        ));
        if self.not_derived > 0 {
            let runs = many(self.not_derived, "run");
            lines.push(format!("{runs} with a database: what its clients counted is in the figures alone."));
        }
        if self.missing > 0 {
            lines.push(format!("{} not made.", many(self.missing, "run")));
        }
        lines.push(match self.differences.len() {
            0 => "Nothing differs.".to_string(),
            count => format!("{} differ:", many(count, "thing")),
        });
        lines.extend(self.differences.iter().map(|what| format!("  {what}")));
        lines.join("\n")
    }
}
