//! Removes what a killed daemon left: file systems on its loop devices, the devices, the FUSE mount.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::error::{Error, Result};
use super::loop_device::{self, Attached, find_attached};
use super::mount;
use super::uses;

/// The directory of volume files inside the state directory.
const VOLUMES: &str = "volumes";
/// How long to wait for devices whose last user is just going.
const SETTLE_MAX: Duration = Duration::from_secs(2);
const SETTLE_POLL: Duration = Duration::from_millis(10);

/// What was found and removed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CleanReport {
    /// File systems and FUSE directories that were unmounted.
    pub unmounted: Vec<PathBuf>,
    /// Loop devices that were let go.
    pub detached: Vec<PathBuf>,
    /// What goes only when its users go: one line each, for the log.
    pub lingering: Vec<String>,
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
    let attached = find_attached(&volumes)?;
    for Attached { device, is_leaving, .. } in &attached {
        for directory in mount::mounts_of_device(device)? {
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
    let fuse_mounts = || -> Result<usize> {
        let is_ours =
            |entry: &mount::MountEntry| entry.directory == volumes && entry.file_system.starts_with("fuse");
        Ok(mount::mounts()?.iter().filter(|entry| is_ours(entry)).count())
    };
    for _ in 0..fuse_mounts()? {
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
