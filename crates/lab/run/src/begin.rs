//! Begins a run, goes on with one, or makes its report again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use ashlar_fio::Fio;
use ashlar_programs::Launcher;
use ashlar_scenario::{Preset, Target};
use ashlar_target::{Access, Footing, Machine, MadeSnapshot, OWN_PREFIX, Place};
use rustix::process::Signal;

use crate::bill::{found_rates, work_out};
use crate::record::{Begun, Left, Records, Site, json, make, write};
use crate::work::{Progress, Work};
use crate::{Chosen, Error, ErrorKind, Outcome, Outline, Result};

/// What to run, and where.
pub struct Request {
    pub chosen: Chosen,
    pub preset: Preset,
    pub seed: u64,
    pub targets: Vec<Target>,
    pub access: Access,
    /// A directory that does not exist yet.
    pub output: PathBuf,
    /// Of results whose rates are wanted, for what is worked out and not run.
    pub results: Vec<PathBuf>,
    /// What is loaded is kept on the targets, and what was kept is used.
    pub keeps_bases: bool,
}

/// Runs a scenario from its beginning. What was measured before an interruption or an error of a target is
/// kept and told; data sets are removed from the targets however it ends.
///
/// # Errors
/// When nothing could be begun; then nothing is left.
pub fn begin(
    request: &Request,
    signals: Arc<AtomicBool>,
    tell: &mut dyn FnMut(&Progress),
) -> Result<Outcome> {
    let Request { chosen, preset, seed, output, keeps_bases, .. } = request;
    let here = Machine::here();
    let is_calculated = chosen.scenario.is_calculated();
    // What is worked out touches none.
    let targets = if is_calculated { &[] } else { request.targets.as_slice() };
    let targets = &crate::measured_space(&chosen.scenario, targets, &request.access)?;
    let rates = found_rates(&chosen.scenario, &request.results)?;
    let outline = crate::outline(&chosen.scenario, *preset, *seed, targets, crate::machine(&here))?;
    let unmade = |error: std::io::Error| {
        let what =
            "results are never mixed: name another directory with -o, or go on with `ashlar lab resume`";
        let what =
            if error.kind() == std::io::ErrorKind::AlreadyExists { what } else { "it is for the results" };
        Error::environment(format!("{}: {error}: {what}", output.display()))
    };
    fs::create_dir(output).map_err(unmade)?;
    let records = Records::new(output);
    let keep = |(sites, logs): (Vec<Site>, Vec<Site>), fio: String| {
        let begun = Begun {
            format: Begun::FORMAT,
            source: chosen.source.clone(),
            text: chosen.text.clone(),
            preset: preset.to_string(),
            seed: *seed,
            targets: sites,
            logs,
            keeps_bases: *keeps_bases,
            machine: here,
            fio,
            version: env!("CARGO_PKG_VERSION").to_string(),
            begun_unix_seconds: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            kept: Some(outline.plan.kept.clone()),
            rates: rates.clone(),
        };
        write(&records.at("plan.json"), &json(&begun))?;
        write(&records.at("scenario.toml"), &chosen.text)
    };
    if is_calculated {
        keep((Vec::new(), Vec::new()), String::new())?;
        work_out(&outline, &rates, &records)?;
        return report(output);
    }
    let asked = (&request.access, *keeps_bases);
    let made = prepare(&records, signals, &outline, targets, asked).and_then(|work| {
        keep((sites(&work.places, targets)?, logs(&work, targets)?), work.fio.version.clone())?;
        Ok((work, records.hold()?))
    });
    match made {
        Ok((work, _held)) => finish(work, tell),
        Err(error) => {
            let _nothing_was_measured = fs::remove_dir_all(output);
            Err(error)
        }
    }
}

/// The targets of a run as they were named.
///
/// # Errors
/// When the directory holds no run.
pub fn named(directory: &Path) -> Result<Vec<String>> {
    let begun = Records::new(directory).begun()?;
    Ok(begun.targets.into_iter().chain(begun.logs).map(|site| site.address).collect())
}

/// Goes on with a run that did not come to its end, with the same plan, targets and seed.
///
/// # Errors
/// When the scenario or a target is not what it was, another process works on it, or it cannot be begun.
pub fn resume(
    directory: &Path,
    access: &Access,
    signals: Arc<AtomicBool>,
    tell: &mut dyn FnMut(&Progress),
) -> Result<Outcome> {
    let records = Records::new(directory);
    let begun = records.begun()?;
    if let Ok(now) = Chosen::of(&begun.source)
        && now.text != begun.text
    {
        return Err(Error::environment(format!(
            "{}: the scenario is not what it was when this began: begin anew, or run {} to have the old one",
            begun.source,
            records.at("scenario.toml").display()
        )));
    }
    let outline = begun.outline()?;
    let _held = records.hold()?;
    if records.left(&outline.plan).is_empty() {
        records.keep_ended(None)?;
        return report(directory);
    }
    if outline.scenario.is_calculated() {
        work_out(&outline, &begun.rates, &records)?;
        records.keep_ended(None)?;
        return report(directory);
    }
    let targets = begun.named_targets();
    let work = prepare(&records, signals, &outline, &targets, (access, begun.keeps_bases))?;
    let now = sites(&work.places, &targets)?.into_iter().chain(logs(&work, &targets)?);
    for (was, is) in begun.targets.iter().chain(&begun.logs).zip(now) {
        if identity(&was.footing) != identity(&is.footing) {
            return Err(Error::environment(format!(
                "{}: it stood on {} when this began, and stands on {} now: results are never mixed",
                was.address,
                identity(&was.footing),
                identity(&is.footing)
            )));
        }
    }
    records.keep_ended(None)?;
    finish(work, tell)
}

/// Makes the report again from what is kept.
///
/// # Errors
/// When the directory holds no run, or cannot be written.
pub fn report(directory: &Path) -> Result<Outcome> {
    let records = Records::new(directory);
    let outcome = Outcome::of(&records)?;
    outcome.keep(&records)?;
    Ok(outcome)
}

/// Finds fio, opens the targets, and clears what a killed run left on them.
fn prepare<'a>(
    records: &'a Records,
    signals: Arc<AtomicBool>,
    outline: &'a Outline,
    targets: &[Target],
    (access, keeps_bases): (&Access, bool),
) -> Result<Work<'a>> {
    let log = records.at("log");
    make(&log)?;
    let launcher = Arc::new(Launcher::new(records.directory.clone(), log, signals.clone()));
    let fio = Fio::find(&launcher)?;
    remove_left(records, access)?;
    crate::several::check_versions(&launcher, &outline.plan)?;
    let mut places: Vec<(String, Place)> = Vec::new();
    let variants = &outline.plan.variants;
    let named = targets.iter().chain(variants.iter().map(|variant| &variant.target));
    let named = named.map(|target| &target.address);
    for address in named.chain(variants.iter().filter_map(|variant| variant.log.as_ref())) {
        if !places.iter().any(|(known, _)| known == address) {
            let place =
                Place::open(address, access).map_err(|refusal| Error::environment(refusal.to_string()))?;
            places.push((address.clone(), place));
        }
    }
    let work = Work {
        records,
        plan: &outline.plan,
        seed: outline.seed,
        fio,
        launcher,
        signals,
        places,
        access: access.clone(),
        keeps_bases,
    };
    records.keep_left(&work.left())?;
    work.check_room()?;
    Ok(work)
}

/// Removes what is on targets because the process that made it was killed.
fn remove_left(records: &Records, access: &Access) -> Result<()> {
    let mut left = records.left_on_targets();
    let is_own =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(OWN_PREFIX));
    left.directories.retain(is_own);
    // Disks that nobody answers for any more, and file systems on them.
    for own in &left.directories {
        let removed = ashlar_target::remove_disks(own);
        removed.map_err(|refusal| Error::environment(refusal.to_string()))?;
    }
    // Servers outlive a killed lab. Volumes are mounted in one of the directories.
    for own in &left.directories {
        ashlar_postgres::end_processes(own, |_| true, &[Signal::QUIT, Signal::KILL]);
    }
    for database in &left.databases {
        let removed = ashlar_target::remove_database(database);
        removed.map_err(|refusal| Error::environment(refusal.to_string()))?;
    }
    for volume in &left.volumes {
        // Without its array it stays mounted, and its directory must stay.
        let Some(array) = &access.array else { return Ok(()) };
        ashlar_target::remove(array, volume).map_err(|refusal| Error::environment(refusal.to_string()))?;
    }
    left.snapshots.extend(not_noted(&left, access)?);
    for snapshot in &left.snapshots {
        let Some(array) = &access.array else { return Ok(()) };
        let removed = ashlar_target::remove_snapshot(array, snapshot);
        removed.map_err(|refusal| Error::environment(refusal.to_string()))?;
    }
    for own in left.directories {
        let _absent = fs::remove_dir_all(own);
    }
    Ok(())
}

/// Snapshots that were taken while a database worked, by the process that made the directories.
fn not_noted(left: &Left, access: &Access) -> Result<Vec<MadeSnapshot>> {
    let Some(array) = access.array.as_ref().filter(|_| !left.volumes.is_empty()) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for own in &left.directories {
        let name = own.file_name().unwrap_or_default().to_string_lossy();
        let of_process = ashlar_target::snapshots_of_process(array, &name, &left.volumes);
        found.extend(of_process.map_err(|refusal| Error::environment(refusal.to_string()))?);
    }
    Ok(found)
}

/// Works until the end or an error, removes the data sets, and tells what there is.
fn finish(work: Work<'_>, tell: &mut dyn FnMut(&Progress)) -> Result<Outcome> {
    let records = work.records.clone();
    let result = work.all(tell);
    for what in work.clear() {
        tell(&Progress::note(what));
    }
    let kept = records.keep_left(&work.left());
    drop(work);
    let ended = result.err().map(|error| match error.kind {
        ErrorKind::Interrupted => "it was interrupted".to_string(),
        ErrorKind::Environment | ErrorKind::Command => error.to_string(),
    });
    let kept = kept.and_then(|()| ended.map_or(Ok(()), |why| records.keep_ended(Some(&why))));
    kept.and_then(|()| report(&records.directory)).map_err(|error| {
        let next = format!("`ashlar lab resume {}` goes on", records.directory.display());
        Error { context: format!("{error}: what was measured before is kept: {next}"), ..error }
    })
}

fn sites(places: &[(String, Place)], targets: &[Target]) -> Result<Vec<Site>> {
    let mut sites = Vec::new();
    for (address, place) in places {
        let Some(target) = targets.iter().find(|target| target.address == *address) else { continue };
        let footing = place.footing().map_err(|refusal| Error::environment(refusal.to_string()))?;
        let Target { id, space_bytes, log, .. } = target.clone();
        sites.push(Site { id, address: address.clone(), footing, space_bytes, log });
    }
    Ok(sites)
}

/// What logs lie on that the user put on none of the targets.
fn logs(work: &Work<'_>, targets: &[Target]) -> Result<Vec<Site>> {
    let named = targets.iter().find_map(|target| target.log.as_ref());
    let named = named.filter(|log| targets.iter().all(|target| target.address != **log));
    let is_used = |log: &&String| work.plan.variants.iter().any(|variant| variant.log.as_ref() == Some(*log));
    let Some(address) = named.filter(is_used) else { return Ok(Vec::new()) };
    let footing = work.place(address).footing();
    let footing = footing.map_err(|refusal| Error::environment(refusal.to_string()))?;
    let (id, address) = ("log".to_string(), address.clone());
    Ok(vec![Site { id, address, footing, space_bytes: None, log: None }])
}

/// What must be the same when a run goes on.
pub(crate) fn identity(footing: &Footing) -> String {
    if let Some(pool) = &footing.pool {
        return format!("pool {} ({})", pool.pool, pool.id);
    }
    let devices: Vec<String> = footing
        .devices
        .iter()
        .map(|device| format!("{} of {} bytes", device.name, device.size_bytes))
        .collect();
    let file_system = if footing.file_system.is_empty() { "a device" } else { &footing.file_system };
    format!("{file_system} {} {}", footing.source, devices.join(", ")).trim_end().to_string()
}
