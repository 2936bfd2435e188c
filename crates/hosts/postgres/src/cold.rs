//! A cold start: the server comes back with none of its data in the machine's page cache.
//!
//! PostgreSQL reads through that cache, so without this a second run reads memory and not the target.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::server::{LONG, Places, Server};

/// Where root drops the caches of the whole machine, and what is written there: pages, names and inodes.
const DROP_CACHES: (&str, &str) = ("/proc/sys/vm/drop_caches", "3\n");
/// Files that `fincore` is asked about at once: their names fit a command line.
const FILES_PER_QUESTION: usize = 500;

/// How pages were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropWay {
    /// All clean pages of the machine (`/proc/sys/vm/drop_caches`).
    Machine,
    /// Those of the server's own files (`posix_fadvise`, DONTNEED): pages that somebody maps stay.
    Files,
}

/// What a cold start found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColdStart {
    /// How pages were dropped.
    pub way: DropWay,
    /// Size of the server's files.
    pub file_bytes: u64,
    /// How much of them was in memory still before the start; `None` where `fincore` is missing or may not
    /// look.
    pub resident_bytes: Option<u64>,
    /// How long stopping took, with its checkpoint.
    pub stop: Duration,
    /// How long starting took.
    pub start: Duration,
}

impl Server {
    /// Stops the server if it runs, drops its files from the page cache, starts it.
    ///
    /// # Errors
    /// When it does not stop or start, or a file cannot be looked at.
    pub fn cold_start(&mut self) -> Result<ColdStart> {
        let begin = Instant::now();
        if self.is_running() {
            self.stop()?;
        }
        let stop = begin.elapsed();
        let (way, files) = self.drop_pages()?;
        let mut file_bytes = 0;
        for file in &files {
            file_bytes += fs::metadata(file).map_err(|e| Error::io(&file.display().to_string(), &e))?.len();
        }
        let resident_bytes = self.resident_bytes(&files);
        let start = self.start()?;
        Ok(ColdStart { way, file_bytes, resident_bytes, stop, start })
    }

    fn drop_pages(&self) -> Result<(DropWay, Vec<PathBuf>)> {
        let files = files_of(&self.places)?;
        // Only what is written can be dropped.
        for directory in directories_of(&self.places) {
            let open = fs::File::open(directory);
            open.and_then(|open| Ok(rustix::fs::syncfs(open)?))
                .map_err(|e| Error::io(&format!("write back {}", directory.display()), &e))?;
        }
        let (switch, text) = DROP_CACHES;
        if rustix::process::geteuid().is_root() && fs::write(switch, text).is_ok() {
            return Ok((DropWay::Machine, files));
        }
        files.iter().try_for_each(|file| forget(file))?;
        Ok((DropWay::Files, files))
    }

    /// How much of some files is in memory, as `fincore` (util-linux) counts it.
    fn resident_bytes(&self, files: &[PathBuf]) -> Option<u64> {
        let mut sum = 0;
        for some in files.chunks(FILES_PER_QUESTION) {
            let mut command = Command::new("fincore");
            command.args(["--bytes", "--noheadings", "--output", "RES"]).args(some);
            let finished = self.installation.launcher.run(command, LONG).ok()?;
            for line in finished.stdout.lines() {
                sum += line.trim().parse::<u64>().ok()?;
            }
        }
        Some(sum)
    }

    /// Drops the tables' files from this machine's page cache while the server runs, so that what is read
    /// next comes from the target. Pages that are yet to be written stay.
    ///
    /// # Errors
    /// When a directory cannot be read.
    pub fn forget_pages(&self) -> Result<()> {
        let base = self.places.data.join("base");
        let directories = std::iter::once(&base).chain(&self.places.tablespaces);
        directories.map(|directory| files_below(directory)).try_for_each(|files| {
            // The database removes files at any time.
            files?.iter().filter(|file| file.exists()).try_for_each(|file| forget(file))
        })
    }
}

fn directories_of(places: &Places) -> impl Iterator<Item = &Path> {
    let others = places.wal.iter().chain(&places.tablespaces);
    std::iter::once(&places.data).chain(others).map(PathBuf::as_path)
}

/// Every file of a server.
fn files_of(places: &Places) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for directory in directories_of(places) {
        files.extend(files_below(directory)?);
    }
    Ok(files)
}

/// Every file below a directory, in order; links are not followed.
pub(crate) fn files_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut waiting = vec![directory.to_path_buf()];
    while let Some(path) = waiting.pop() {
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            // Removed since it was listed.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && path != directory => continue,
            Err(error) => return Err(Error::io(&path.display().to_string(), &error)),
        };
        for entry in entries.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => waiting.push(entry.path()),
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files.sort();
    Ok(files)
}

fn forget(file: &Path) -> Result<()> {
    let Ok(open) = fs::File::open(file) else { return Ok(()) };
    rustix::fs::fadvise(&open, 0, None, rustix::fs::Advice::DontNeed)
        .map_err(|e| Error::io(&format!("forget the pages of {}", file.display()), &e.into()))
}
