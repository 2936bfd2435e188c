//! Removes what a killed daemon left: file systems on its loop devices, the devices, the FUSE mount.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::error::{Error, ErrorKind, Result};
use super::loop_device::{self, Attached, find_attached};
use super::mount;
use super::uses;
use rustix::io::Errno;

/// The directory of volume files inside the state directory.
const VOLUMES: &str = "volumes";
/// How long to wait for devices whose last user is just going.
const SETTLE_MAX: Duration = Duration::from_secs(2);
const SETTLE_POLL: Duration = Duration::from_millis(10);

/// How long a server of the directory of volumes may take to answer. Arbitrary: busy ones take milliseconds.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// What was found and removed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CleanReport {
    /// File systems and FUSE directories that were unmounted.
    pub unmounted: Vec<PathBuf>,
    /// Loop devices that were let go.
    pub detached: Vec<PathBuf>,
    /// What stays mounted although nobody serves it.
    pub kept: Vec<Kept>,
    /// What goes only when its users go: one line each, for the log.
    pub lingering: Vec<String>,
}

/// A mount that stays, because something else would go with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    /// Where it is.
    pub directory: PathBuf,
    /// Where something else is mounted upon it or inside it.
    pub other: PathBuf,
}

impl CleanReport {
    /// True when there was nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == CleanReport::default()
    }
}

/// Cleans up after a daemon that was killed while it served `state_dir`. Its FUSE connection is dead,
/// so nothing here waits for an answer: what is in use is detached lazily. Call it only while holding
/// the state directory's lock, before the FUSE directory is mounted again; a second call does nothing.
pub fn clean_stale(state_dir: &Path) -> Result<CleanReport> {
    let mut report = CleanReport::default();
    // The state directory itself is alive; only what is mounted inside it is not, and is not touched.
    let state_dir = match fs::canonicalize(state_dir) {
        Ok(state_dir) => state_dir,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(report),
        Err(e) => return Err(Error::system(format!("find {}", state_dir.display()), e)),
    };
    let volumes = state_dir.join(VOLUMES);
    check_not_served(&volumes)?;
    let attached = find_attached(&volumes)?;
    for Attached { device, is_leaving, .. } in &attached {
        for mount::OwnMount { directory, other } in mount::mounts_of_device(device)? {
            if let Some(other) = other {
                report.kept.push(Kept { directory, other });
                continue;
            }
            if let Err(error) = mount::unmount(&directory) {
                mount::unmount_lazily(&directory)?;
                report.lingering.push(format!("{}: {error}", directory.display()));
            }
            report.unmounted.push(directory);
        }
        if !is_leaving {
            loop_device::release(device)?;
            report.detached.push(device.clone());
        }
    }
    for _ in 0..fuse_mounts(&volumes)? {
        mount::unmount_lazily(&volumes)?;
        report.unmounted.push(volumes.clone());
    }
    let end = Instant::now() + SETTLE_MAX;
    for device in &report.detached {
        while loop_device::is_attached(device) && Instant::now() < end {
            thread::sleep(SETTLE_POLL);
        }
        if loop_device::is_attached(device) {
            let uses: Vec<String> = uses::uses_of_device(device)?.iter().map(ToString::to_string).collect();
            let who = if uses.is_empty() { "still open somewhere".to_string() } else { uses.join("; ") };
            report.lingering.push(format!("{}: {who}", device.display()));
        }
    }
    Ok(report)
}

/// How often a FUSE file system is mounted on the directory of volumes.
fn fuse_mounts(volumes: &Path) -> Result<usize> {
    let is_ours =
        |entry: &mount::MountEntry| entry.directory == volumes && entry.file_system.starts_with("fuse");
    Ok(mount::mounts()?.iter().filter(|entry| is_ours(entry)).count())
}

/// Refuses where somebody answers for the directory of volumes: that is a living array, whatever became of
/// its lock. One that does not answer may be stopped for a while; the kernel answers for a dead one.
fn check_not_served(volumes: &Path) -> Result<()> {
    if fuse_mounts(volumes)? == 0 {
        return Ok(());
    }
    let (answer, answered) = mpsc::channel();
    let asked = volumes.to_path_buf();
    thread::spawn(move || answer.send(rustix::fs::statfs(&asked).map(drop)));
    match answered.recv_timeout(ANSWER_MAX) {
        Ok(Err(error)) if GONE.contains(&error) => Ok(()),
        _ => Err(Error::new(
            ErrorKind::Busy,
            format!("an array serves {}: a file system that is mounted there is alive", volumes.display()),
        )),
    }
}

/// What the kernel answers for a server that is gone. The first two come while its queues are wound up, which
/// goes on behind the end of its process: one request each, then the third.
const GONE: [Errno; 3] = [Errno::CANCELED, Errno::CONNABORTED, Errno::NOTCONN];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_was_just_killed_is_gone() {
        // As Linux 6.18 answers statfs in the milliseconds behind a SIGKILL, seen by asking again and again.
        let just_killed = [Errno::CANCELED, Errno::CONNABORTED, Errno::NOTCONN];
        assert!(just_killed.iter().all(|error| GONE.contains(error)));
        // A server that answers with an error of its own is alive.
        assert!([Errno::IO, Errno::ACCESS, Errno::INTR].iter().all(|error| !GONE.contains(error)));
    }
}
