//! Runs a test: the job file is written, fio runs, and what it left is read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use ashlar_programs::Launcher;

use crate::job::{Cell, Job};
use crate::logs::{Second, seconds};
use crate::outcome::Outcome;
use crate::section::Spread;
use crate::{Error, Result};

/// fio, as installed here.
pub struct Fio {
    launcher: Arc<Launcher>,
    /// As it tells it: `fio-3.33`.
    pub version: String,
}

/// A test that was run, with what it left.
#[derive(Clone, Debug)]
pub struct Kept {
    /// One for each job of the cell, in its order.
    pub outcomes: Vec<Outcome>,
    /// Second by second, of the same jobs.
    pub seconds: Vec<Vec<Second>>,
    /// The job file; its JSON and its logs lie beside it.
    pub job_file: PathBuf,
}

const VERSION_LIMIT: Duration = Duration::from_secs(10);

impl Fio {
    /// Finds it.
    ///
    /// # Errors
    /// When it is not installed.
    pub fn find(launcher: &Arc<Launcher>) -> Result<Fio> {
        let mut command = Command::new("fio");
        command.arg("--version");
        let finished = launcher.run(command, VERSION_LIMIT).map_err(|error| {
            Error::environment(format!(
                "{error}: I/O tests are driven by fio: install it (on Debian: apt-get install fio) and run again"
            ))
        })?;
        Ok(Fio { launcher: launcher.clone(), version: finished.stdout.trim().to_string() })
    }

    /// Runs a cell; what it writes of itself goes into `directory`.
    ///
    /// # Errors
    /// When fio fails, does not end, or reports an error of the device, or on Ctrl-C.
    pub fn run<J: Clone + Into<Spread>>(&self, cell: &Cell<J>, directory: &Path) -> Result<Kept> {
        let at = |end: &str| directory.join(format!("{}.{end}", cell.name));
        let (job_file, json) = (at("fio"), at("json"));
        fs::write(&job_file, cell.text()).map_err(|e| Error::io(&job_file.display().to_string(), &e))?;
        let mut command = Command::new("fio");
        // Its logs go to where it works.
        command.current_dir(directory);
        command.arg("--output-format=json+").arg("--output").arg(&json).arg(&job_file);
        match self.launcher.run(command, cell.limit()) {
            Ok(_) => Kept::read(cell, directory),
            Err(error) if error.kind == crate::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let text = fs::read_to_string(&json).unwrap_or_default();
                let told = format!("{}: {error} {}", cell.name, said(&text));
                Err(without_room(&told).map_or_else(|| Error::command(told.clone()), Error::no_room))
            }
        }
    }
}

impl Kept {
    /// What a cell left in its directory.
    ///
    /// # Errors
    /// When it is not all there, or tells of an error of the device.
    pub fn read<J: Clone + Into<Spread>>(cell: &Cell<J>, directory: &Path) -> Result<Kept> {
        let at = |end: &str| directory.join(format!("{}.{end}", cell.name));
        let text = fs::read_to_string(at("json")).unwrap_or_default();
        let outcomes = Outcome::all_of(&text);
        let outcomes = outcomes.map_err(|what| Error::command(format!("{}: {what}", cell.name)))?;
        if let Some(failed) = outcomes.iter().find(|outcome| outcome.error != 0) {
            let system = std::io::Error::from_raw_os_error(failed.error as i32);
            return Err(Error::command(format!("{}: job {} ended with {system}", cell.name, failed.job)));
        }
        let log = |job: &Job, kind: &str| {
            let name = format!("{}_{kind}.log", cell.log_of(job));
            fs::read_to_string(directory.join(name)).unwrap_or_default()
        };
        let of_job = |spread: Spread| seconds(&log(&spread.job, "iops"), &log(&spread.job, "lat"));
        Ok(Kept { outcomes, seconds: cell.spreads().map(of_job).collect(), job_file: at("fio") })
    }
}

/// What fio says before its JSON.
fn said(text: &str) -> String {
    let words = text.split('{').next().unwrap_or_default();
    words.lines().filter(|line| !line.trim().is_empty()).take(4).collect::<Vec<_>>().join("; ")
}

/// The file that could not grow, of what fio says.
fn without_room(told: &str) -> Option<&str> {
    let (before, _) = told.split_once(": No space left on device")?;
    before.rsplit_once("error on file ").map(|(_, file)| file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_room_is_named() {
        let told = "f2: fio failed: fio: io_u error on file /t/file-2: No space left on device: write offset=0, \
                    buflen=4096 fio: io_u error on file /t/file-3: No space left on device: write offset=0";
        assert_eq!(without_room(told), Some("/t/file-2"));
        assert_eq!(
            without_room("f2: fio failed: fio: io_u error on file /t/f: Input/output error: read"),
            None
        );
    }
}
