//! A run that asks how long content takes to come back: files are written to a volume, kept, changed, brought
//! back by the array or by a copy, and every byte is held against what it was.

mod content;
pub(crate) mod words;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ashlar_programs::Launcher;
use ashlar_scenario::{RestoreLoad, Returned, Run, Variant, Way};
use ashlar_target::{Refusal, Volumes};
use serde::{Deserialize, Serialize};

use crate::figures::Figures;
use crate::{Error, Result, jobs};
use content::Files;

/// Copies of some GiB may take a while on a slow machine, but not longer.
const LONG: Duration = Duration::from_secs(3600);

/// What one run found.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct RestoreFigures {
    /// Of all files together, as they came back.
    pub bytes: u64,
    pub files: u64,
    /// Written anew before they came back.
    pub changed: u64,
    /// Until everything is there, mounted, and on the drives.
    pub back_nanos: u64,
    /// Of that, the array's own part; absent where files were copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array_nanos: Option<u64>,
    /// What is not as it was, in sentences.
    pub offences: Vec<String>,
}

/// What a run needs.
pub(crate) struct Ground<'a> {
    pub(crate) launcher: &'a Arc<Launcher>,
    pub(crate) volumes: &'a Volumes,
    /// Outside of the target, for mounts.
    pub(crate) scratch: PathBuf,
    /// Notes what is on the target.
    pub(crate) keep: &'a dyn Fn() -> Result<()>,
}

/// A volume with a file system.
struct Mounted {
    name: String,
    at: PathBuf,
}

impl RestoreFigures {
    /// In the unit of the metric.
    pub(crate) fn value(&self, returned: Returned) -> Option<f64> {
        let nanos = match returned {
            Returned::BackMillis => Some(self.back_nanos),
            Returned::ArrayMillis => self.array_nanos,
        };
        nanos.map(|nanos| nanos as f64 / 1e6)
    }
}

/// Writes, keeps, changes, brings back, looks, and takes everything away.
pub(crate) fn run(
    (run, variant): (&Run, &Variant),
    load: &RestoreLoad,
    seed: u64,
    ground: &Ground<'_>,
) -> Result<Figures> {
    let of_run = Files { seed: jobs::mixed(seed, "files"), count: load.files, bytes: load.file_bytes() };
    let source = ground.made("files", load)?;
    of_run.write(&source.at)?;
    flush(&source.at)?;
    let (back, array) = match load.way {
        Way::Snapshot => by_snapshot(&source, load, &of_run, ground)?,
        Way::Copy => by_copy(&source, load, &of_run, ground)?,
    };
    // What is looked at comes from the volume, and not from this machine's memory.
    ground.cold(&source)?;
    let offences = of_run.differences(&source.at)?;
    ground.volumes.forget_snapshots().map_err(refused)?;
    ground.volumes.forget(&source.name).map_err(refused)?;
    ground.volumes.settled().map_err(refused)?;
    (ground.keep)()?;
    let restored = RestoreFigures {
        bytes: load.file_bytes() * load.files,
        files: load.files,
        changed: load.changed,
        back_nanos: nanos(back),
        array_nanos: array.map(nanos),
        offences,
    };
    Ok(Figures {
        measured_seconds: back.as_secs_f64(),
        restored: Some(restored),
        ..Figures::named(run, variant)
    })
}

/// The file system goes, the volume is set back, the file system comes.
fn by_snapshot(
    source: &Mounted,
    load: &RestoreLoad,
    files: &Files,
    ground: &Ground<'_>,
) -> Result<(Duration, Option<Duration>)> {
    let snapshot = format!("{}-before", source.name);
    ground.volumes.snapshot_all(&snapshot, std::slice::from_ref(&source.name)).map_err(refused)?;
    (ground.keep)()?;
    files.change(&source.at, load.changed)?;
    flush(&source.at)?;
    let begun = Instant::now();
    ground.volumes.unmount(&source.name).map_err(refused)?;
    let array = ground.volumes.set_back(&snapshot).map_err(refused)?;
    ground.volumes.mount(&source.name, &source.at).map_err(refused)?;
    Ok((begun.elapsed(), Some(array)))
}

/// What is there is deleted, and everything copied from another volume, which is read cold.
fn by_copy(
    source: &Mounted,
    load: &RestoreLoad,
    files: &Files,
    ground: &Ground<'_>,
) -> Result<(Duration, Option<Duration>)> {
    let backup = ground.made("backup", load)?;
    ground.copy(&source.at, &backup.at)?;
    flush(&backup.at)?;
    files.change(&source.at, load.changed)?;
    flush(&source.at)?;
    ground.cold(source)?;
    ground.cold(&backup)?;
    let begun = Instant::now();
    content::remove(&source.at)?;
    ground.copy(&backup.at, &source.at)?;
    flush(&source.at)?;
    let back = begun.elapsed();
    ground.volumes.forget(&backup.name).map_err(refused)?;
    Ok((back, None))
}

impl Ground<'_> {
    fn made(&self, what: &str, load: &RestoreLoad) -> Result<Mounted> {
        let at = self.scratch.join(format!("restore-{what}"));
        let made = self.volumes.make_timed(load.volume_bytes(), &at, false);
        (self.keep)()?;
        Ok(Mounted { name: made.map_err(refused)?.name, at })
    }

    fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        let mut command = Command::new("cp");
        command.arg("-a").arg(from.join(content::DIRECTORY)).arg(to);
        self.launcher.run(command, LONG).map(drop)
    }

    /// Nothing of its files is in memory afterwards.
    fn cold(&self, volume: &Mounted) -> Result<()> {
        self.volumes.unmount(&volume.name).map_err(refused)?;
        self.volumes.mount(&volume.name, &volume.at).map_err(refused)
    }
}

/// Everything of the file system is on its volume.
fn flush(mount: &Path) -> Result<()> {
    let unable = |error: std::io::Error| Error::io(&mount.display().to_string(), &error);
    let file = File::open(mount).map_err(unable)?;
    rustix::fs::syncfs(&file).map_err(|error| unable(error.into()))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn refused(refusal: Refusal) -> Error {
    Error::environment(refusal.to_string())
}

/// As files are told of.
fn unable(path: &Path, error: &std::io::Error) -> Error {
    Error::io(&path.display().to_string(), error)
}

fn entries(directory: &Path) -> Result<Vec<String>> {
    let all = fs::read_dir(directory).map_err(|error| unable(directory, &error))?;
    let name = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.map_err(|error| unable(directory, &error))?;
        Ok(entry.file_name().to_string_lossy().into_owned())
    };
    all.map(name).collect()
}
