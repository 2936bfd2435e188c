//! The machine's control groups: which version, and where a group of ours may be made.

use std::fs;
use std::path::{Path, PathBuf};

/// Where every Linux of today mounts them.
const ROOT: &str = "/sys/fs/cgroup";

/// The control groups as they are mounted.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    /// The caller's own group of version 2, from the root.
    pub(crate) own: PathBuf,
    /// Root may use the top; others only what was handed to them.
    pub(crate) is_root: bool,
}

/// Which kernel interface a tree has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// One tree for each controller.
    One,
    /// One tree for all.
    Two,
}

impl Tree {
    pub(crate) fn of_machine() -> Tree {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Tree {
            root: ROOT.into(),
            own: own_group(&groups).into(),
            is_root: rustix::process::geteuid().is_root(),
        }
    }

    /// The version, or why there is none.
    pub(crate) fn version(&self) -> Result<Version, String> {
        let root = self.root.display();
        if self.root.join("cgroup.controllers").is_file() {
            return Ok(Version::Two);
        }
        if self.root.join("memory/memory.limit_in_bytes").is_file() {
            return Ok(Version::One);
        }
        Err(format!("no control groups with a memory controller are mounted at {root}"))
    }

    /// Where a group of version 2 could be made, the best place first: root at the top, where a group may
    /// have members beside others; everybody else beside the caller's own group or above, where whoever
    /// handed it over left room.
    pub(crate) fn parents(&self) -> Vec<PathBuf> {
        if self.is_root {
            return vec![self.root.clone()];
        }
        let own = self.own.strip_prefix("/").unwrap_or(&self.own);
        own.ancestors().skip(1).map(|above| self.root.join(above)).collect()
    }
}

/// The group of version 2 in the text of `/proc/self/cgroup`, from the root.
pub(crate) fn own_group(groups: &str) -> &str {
    groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or("")
}

/// Writes to a file of a group; the error is a sentence.
pub(crate) fn put(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("write {text} to {}: {error}", path.display()))
}

/// Reads a number from a file of a group: the whole of it, or the value of a `key` in a table.
pub(crate) fn number(path: &Path, key: Option<&str>) -> Result<u64, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let value = match key {
        None => Some(text.trim()),
        Some(key) => text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')),
    };
    let value = value.and_then(|value| value.trim().parse().ok());
    value.ok_or_else(|| format!("{}: no number {}", path.display(), key.unwrap_or("in it")))
}
