//! Who sees a mount of ours in a mount namespace of their own: a copy there lives on when ours is unmounted.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::error::Result;
use super::mount;
use super::uses::{Process, process_ids};
use crate::subprocess::DATABASE_PROCESS;

/// How long a server that starts may take to let go of what it is not to see. Arbitrary.
const PASSING_MAX: Duration = Duration::from_secs(2);
const PASSING_POLL: Duration = Duration::from_millis(10);

/// A process of each other mount namespace in which what is mounted on this directory is mounted, too. A
/// namespace without a process is not seen.
pub fn mounted_elsewhere(directory: &Path) -> Result<Vec<Process>> {
    let end = Instant::now() + PASSING_MAX;
    loop {
        let found = look(directory)?;
        // The server of a database begins with all mounts of the machine, for a moment.
        let is_passing = found.iter().any(|process| process.name == DATABASE_PROCESS);
        if !is_passing || Instant::now() > end {
            return Ok(found);
        }
        std::thread::sleep(PASSING_POLL);
    }
}

fn look(directory: &Path) -> Result<Vec<Process>> {
    let entries = mount::mounts()?;
    let Some(own) = entries.iter().rev().find(|entry| entry.directory == directory) else {
        return Ok(Vec::new());
    };
    let view = |id: &str| fs::read_link(format!("/proc/{id}/ns/mnt")).ok();
    let mut seen = BTreeSet::from([view("self")]);
    let mut found = Vec::new();
    for id in process_ids() {
        let space = view(&id.to_string());
        if space.is_none() || seen.contains(&space) {
            continue;
        }
        let Ok(text) = fs::read(format!("/proc/{id}/mountinfo")) else { continue };
        if mount::parse_mounts(&text).iter().any(|entry| entry.device_number == own.device_number) {
            seen.insert(space);
            found.push(Process::of(id));
        }
    }
    Ok(found)
}
