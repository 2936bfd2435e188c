//! What is mounted where (`/proc/self/mountinfo`, proc(5)), and how it is taken away.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::error::{Error, ErrorKind, Result};

/// How long a mount may be in use by a program that ends just now.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often to look.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);

/// One mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mount {
    /// Major and minor number, as `7:3`.
    pub(crate) device: String,
    pub(crate) at: PathBuf,
    pub(crate) kind: String,
    pub(crate) source: String,
}

/// All mounts, the newest first: so that what lies on another goes before it.
pub(crate) fn all() -> Result<Vec<Mount>> {
    let table = fs::read_to_string("/proc/self/mountinfo").map_err(Error::system("read the mounts"))?;
    Ok(table.lines().rev().filter_map(parse).collect())
}

fn parse(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let left: Vec<&str> = left.split(' ').collect();
    let mut right = right.split(' ');
    Some(Mount {
        device: (*left.get(2)?).to_string(),
        at: PathBuf::from(unescaped(left.get(4)?)),
        kind: right.next()?.to_string(),
        source: right.next()?.to_string(),
    })
}

/// The kernel writes blanks, tabs, line ends and backslashes as three octal digits.
fn unescaped(text: &str) -> String {
    let replaced = text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n");
    replaced.replace("\\134", "\\")
}

/// Takes a file system away, when nobody uses it any more.
pub(crate) fn take(at: &Path) -> Result<()> {
    let begun = Instant::now();
    loop {
        match unmount(at, UnmountFlags::empty()) {
            Err(Errno::BUSY) if begun.elapsed() < PATIENCE => thread::sleep(PAUSE),
            Err(error) => {
                let kind = if error == Errno::BUSY { ErrorKind::Busy } else { ErrorKind::System };
                return Err(Error::system(format!("unmount {}", at.display()))(error).of_kind(kind));
            }
            Ok(()) => return Ok(()),
        }
    }
}

/// Ends the connection of a FUSE file system: whoever waits for it gets an error. The mount stays while it is
/// in use.
pub(crate) fn abort(at: &Path) {
    // It says that the mount is busy, or was not there; the connection is cut all the same.
    let _busy = unmount(at, UnmountFlags::FORCE);
}

/// Takes it out of sight now, and away when its last user ends.
pub(crate) fn hide(at: &Path) {
    let _is_gone_already = unmount(at, UnmountFlags::DETACH);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_read_by_its_fields() {
        let line = "30 21 7:25 / /mnt/my\\040data rw,nosuid shared:1 - ext4 /dev/loop25 rw";
        let mount = Mount {
            device: "7:25".into(),
            at: "/mnt/my data".into(),
            kind: "ext4".into(),
            source: "/dev/loop25".into(),
        };
        assert_eq!(parse(line), Some(mount));
        assert_eq!(parse("nothing of the kind"), None);
    }
}
