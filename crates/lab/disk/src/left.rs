//! What a killed process left: a mount whose connection is dead, a loop device on it, file systems on that.
//!
//! A mount tells by its source whose it is: `ashlar-disk:PID:START`, with the start of the process in the
//! kernel's ticks, so that a later process with the same number is not taken for its owner.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::file_system::FILE_NAME;
use crate::loop_device;
use crate::mounts::{self, Mount};

/// What the kernel calls our mounts.
pub(crate) const MOUNT_KIND: &str = "fuse.ashlar-disk";
const SOURCE: &str = "ashlar-disk";

/// The name of this process in the source of a mount.
pub(crate) fn own_source() -> Result<String> {
    let pid = std::process::id();
    let start = start_of(pid).ok_or_else(|| {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        Error::system(format!("read /proc/{pid}/stat"))(missing)
    })?;
    Ok(format!("{SOURCE}:{pid}:{start}"))
}

/// Removes what disks in this directory left whose process is dead: file systems, loop devices and mounts.
/// The files with the bytes stay. Gives the devices and mounts that it took away.
///
/// Disks of living processes are left alone.
///
/// # Errors
/// When the mounts cannot be read.
pub fn remove_left(directory: &Path) -> Result<Vec<PathBuf>> {
    let shown = directory.display();
    let directory = directory.canonicalize().map_err(Error::system(format!("look at {shown}")))?;
    let is_left = |mount: &Mount| {
        mount.kind == MOUNT_KIND && mount.at.parent() == Some(&directory) && !is_alive(&mount.source)
    };
    let mut removed = Vec::new();
    for mount in mounts::all()?.into_iter().filter(is_left) {
        // First of all: then nothing that follows waits for an answer.
        mounts::abort(&mount.at);
        for device in loop_device::on_file(&mount.at.join(FILE_NAME)) {
            loop_device::take_by_force(&device);
            removed.push(device);
        }
        mounts::hide(&mount.at);
        let _not_empty = fs::remove_dir(&mount.at);
        removed.push(mount.at);
    }
    Ok(removed)
}

/// Whether the process of this source of a mount lives.
fn is_alive(source: &str) -> bool {
    let mut parts = source.split(':').skip(1);
    let pid = parts.next().and_then(|text| text.parse().ok());
    let start = parts.next().and_then(|text| text.parse().ok());
    // What does not say whose it is may be somebody's.
    let (Some(pid), Some(start)) = (pid, start) else { return true };
    start_of(pid) == Some(start)
}

/// When a process began, in ticks since the machine did (proc_pid_stat(5)); none for one that is ending: its
/// other threads may wait for the very disk that it served.
fn start_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses, and may hold any letter.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    // Field 22 of all, of which the state is the third.
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_tells_whether_its_process_lives() {
        let own = own_source().unwrap();
        assert!(is_alive(&own), "{own}");
        assert!(!is_alive(&format!("{own}0")), "another process with our number");
        assert!(is_alive("ashlar-disk"), "nobody knows whose that is");
    }
}
