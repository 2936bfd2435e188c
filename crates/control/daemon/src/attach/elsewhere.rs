//! Who sees a mount of ours in a mount namespace of their own: a copy there lives on when ours is unmounted.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::error::Result;
use super::mount;
use super::uses::{Process, process_ids};

/// A process of each other mount namespace in which what is mounted on this directory is mounted, too. A
/// namespace without a process is not seen.
pub fn mounted_elsewhere(directory: &Path) -> Result<Vec<Process>> {
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
