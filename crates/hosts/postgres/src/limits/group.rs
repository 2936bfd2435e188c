//! One control group of ours: made, joined, read, removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::tree::{number, put};
use super::{Limits, Tree, Usage};
use crate::error::{Error, Result};
use crate::limits::tree::Version;

/// Groups of ours are called so; then come the process that made it and a number.
const PREFIX: &str = "ashlar-postgres-";
/// The kernel's own period of processor time: in each one a group may use its share.
const PERIOD_MICROS: u64 = 100_000;
/// How long processes may take to leave a group after they were killed.
const LEAVE_LIMIT: Duration = Duration::from_secs(10);
const LEAVE_STEP: Duration = Duration::from_millis(10);

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A control group. Dropping it ends what is in it and removes it.
#[derive(Debug)]
pub(crate) struct Group {
    version: Version,
    /// One for each controller in version 1, one in version 2.
    directories: Vec<PathBuf>,
}

impl Group {
    /// Makes a group with these limits; the error is a sentence that says why there is none.
    pub(crate) fn make(tree: &Tree, limits: &Limits) -> std::result::Result<Group, String> {
        let version = tree.version()?;
        let name = format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let made = match version {
            Version::One => Self::make_one(tree, &name, limits),
            Version::Two => Self::make_two(tree, &name, limits),
        };
        made.map_err(|reason| format!("the kernel lets us make no control group: {reason}"))
    }

    /// Version 1: a directory below each controller that is needed.
    fn make_one(tree: &Tree, name: &str, limits: &Limits) -> std::result::Result<Group, String> {
        let mut group = Group { version: Version::One, directories: Vec::new() };
        let memory = group.make_directory(&tree.root.join("memory"), name)?;
        if let Some(bytes) = limits.memory_bytes {
            put(&memory.join("memory.limit_in_bytes"), &bytes.to_string())?;
            // Memory and swap together: otherwise the limit would only move pages to swap.
            let swap = memory.join("memory.memsw.limit_in_bytes");
            if swap.is_file() {
                put(&swap, &bytes.to_string())?;
            }
        }
        if tree.root.join("cpuacct").is_dir() {
            group.make_directory(&tree.root.join("cpuacct"), name)?;
        }
        if let Some(cores) = limits.cores {
            let cpu = group.make_directory(&tree.root.join("cpu"), name)?;
            put(&cpu.join("cpu.cfs_period_us"), &PERIOD_MICROS.to_string())?;
            put(&cpu.join("cpu.cfs_quota_us"), &quota_micros(cores).to_string())?;
        }
        if let Some(list) = &limits.cpuset {
            let above = tree.root.join("cpuset");
            let cpuset = group.make_directory(&above, name)?;
            // A group without memory nodes takes no process.
            let nodes = fs::read_to_string(above.join("cpuset.mems"))
                .map_err(|error| format!("{}/cpuset.mems: {error}", above.display()))?;
            put(&cpuset.join("cpuset.mems"), nodes.trim())?;
            put(&cpuset.join("cpuset.cpus"), list)?;
        }
        Ok(group)
    }

    /// Version 2: one directory, at the first place that takes it with all its controllers.
    fn make_two(tree: &Tree, name: &str, limits: &Limits) -> std::result::Result<Group, String> {
        let mut reason = "no group was handed to this user".to_string();
        for parent in tree.parents() {
            match Self::make_two_below(&parent, name, limits) {
                Ok(group) => return Ok(group),
                Err(error) => reason = error,
            }
        }
        Err(reason)
    }

    fn make_two_below(parent: &Path, name: &str, limits: &Limits) -> std::result::Result<Group, String> {
        let wanted = [("memory", true), ("cpu", limits.cores.is_some()), ("cpuset", limits.cpuset.is_some())];
        let file = parent.join("cgroup.subtree_control");
        let enabled = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        for (controller, _) in wanted.iter().filter(|(_, is_wanted)| *is_wanted) {
            if !enabled.split_whitespace().any(|one| one == *controller) {
                put(&file, &format!("+{controller}"))?;
            }
        }
        let mut group = Group { version: Version::Two, directories: Vec::new() };
        let directory = group.make_directory(parent, name)?;
        if let Some(bytes) = limits.memory_bytes {
            put(&directory.join("memory.max"), &bytes.to_string())?;
            // Otherwise the limit would only move pages to swap. The file is missing where swap is not
            // counted.
            let _ = put(&directory.join("memory.swap.max"), "0");
        }
        if let Some(cores) = limits.cores {
            put(&directory.join("cpu.max"), &format!("{} {PERIOD_MICROS}", quota_micros(cores)))?;
        }
        if let Some(list) = &limits.cpuset {
            put(&directory.join("cpuset.cpus"), list)?;
        }
        Ok(group)
    }

    /// A directory of this group, remembered so that it goes with it.
    fn make_directory(&mut self, parent: &Path, name: &str) -> std::result::Result<PathBuf, String> {
        remove_forgotten(parent);
        let path = parent.join(name);
        match fs::create_dir(&path) {
            Ok(()) => self.directories.push(path.clone()),
            // Two controllers may be mounted as one.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("create {}: {error}", path.display())),
        }
        Ok(path)
    }

    /// Puts a process into the group, and all that it starts from then on.
    pub(crate) fn put(&self, pid: Pid) -> std::result::Result<(), String> {
        let number = pid.as_raw_nonzero().to_string();
        self.directories
            .iter()
            .try_for_each(|directory| put(&directory.join("cgroup.procs"), &number))
            .map_err(|reason| format!("the kernel lets no server into our control group: {reason}"))
    }

    /// What its processes used so far.
    pub(crate) fn usage(&self) -> Result<Usage> {
        let memory = self.directory("memory");
        let usage = match self.version {
            Version::One => Usage {
                memory_bytes: number(&memory.join("memory.usage_in_bytes"), None).map_err(Error::command)?,
                memory_bytes_peak: number(&memory.join("memory.max_usage_in_bytes"), None).ok(),
                cpu: number(&self.directory("cpuacct").join("cpuacct.usage"), None)
                    .ok()
                    .map(Duration::from_nanos),
                out_of_memory_kill_count: number(&memory.join("memory.oom_control"), Some("oom_kill"))
                    .unwrap_or(0),
            },
            Version::Two => Usage {
                memory_bytes: number(&memory.join("memory.current"), None).map_err(Error::command)?,
                memory_bytes_peak: number(&memory.join("memory.peak"), None).ok(),
                cpu: number(&memory.join("cpu.stat"), Some("usage_usec")).ok().map(Duration::from_micros),
                out_of_memory_kill_count: number(&memory.join("memory.events"), Some("oom_kill"))
                    .unwrap_or(0),
            },
        };
        Ok(usage)
    }

    /// The directory of a controller; version 2 has one for all.
    fn directory(&self, controller: &str) -> &Path {
        let is_its = |path: &&PathBuf| path.parent().is_some_and(|above| above.ends_with(controller));
        let found = self.directories.iter().find(is_its).or(self.directories.first());
        found.map_or(Path::new(""), PathBuf::as_path)
    }

    /// Kills every process in the group and waits until they are gone.
    pub(crate) fn end_all(&self) {
        let start = Instant::now();
        while start.elapsed() < LEAVE_LIMIT {
            let inside: Vec<Pid> = self.directories.iter().flat_map(|path| members(path)).collect();
            if inside.is_empty() {
                return;
            }
            for pid in inside {
                // The process may have ended since: then there is nothing to do.
                let _ = kill_process(pid, Signal::KILL);
            }
            std::thread::sleep(LEAVE_STEP);
        }
    }

    /// Lets the group be, with the server in it. A later run of ours removes it once the server is gone.
    pub(crate) fn leave(mut self) {
        self.directories.clear();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end_all();
        for directory in &self.directories {
            let start = Instant::now();
            // A process that was killed leaves its group a little after it is gone.
            while fs::remove_dir(directory).is_err() && directory.exists() && start.elapsed() < LEAVE_LIMIT {
                std::thread::sleep(LEAVE_STEP);
            }
        }
    }
}

/// Processor time of each period, in microseconds.
fn quota_micros(cores: f64) -> u64 {
    (cores * PERIOD_MICROS as f64).round() as u64
}

/// Processes in a group.
fn members(directory: &Path) -> Vec<Pid> {
    let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| Pid::from_raw(line.trim().parse().ok()?)).collect()
}

/// Removes groups of ours whose maker died before it could, unless a server is still in them.
fn remove_forgotten(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let maker = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-')).map(|(pid, _)| pid);
        if maker.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Refused by the kernel while a process is in it.
            let _ = fs::remove_dir(entry.path());
        }
    }
}
