//! What a killed server leaves in the machine: shared memory that only its next start would give back.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::processes::processes_below;

/// Where POSIX shared memory is, and what PostgreSQL calls its own.
const SHARED: &str = "/dev/shm/PostgreSQL.";
/// The line of `postmaster.pid` that holds key and number of the shared memory.
const MEMORY_LINE: usize = 6;

/// Shared memory of a server that may die without giving it back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Leftovers {
    /// Key and number of the System V segment.
    segment: Option<(String, String)>,
    files: Vec<PathBuf>,
}

impl Leftovers {
    /// What the server in `data`, whose processes work in `work`, would leave if it died now.
    pub(crate) fn of(data: &Path, work: &Path) -> Leftovers {
        let lock = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
        let mut files = Vec::new();
        for (pid, _) in processes_below(work) {
            let maps = fs::read_to_string(format!("/proc/{}/maps", pid.as_raw_nonzero())).unwrap_or_default();
            files.extend(shared_files(&maps));
        }
        files.sort();
        files.dedup();
        Leftovers { segment: segment_in(&lock), files }
    }

    /// Gives back what is still there and used by nobody.
    pub(crate) fn remove(&mut self) {
        for file in self.files.drain(..) {
            // The server has mostly done it itself.
            let _ = fs::remove_file(file);
        }
        let Some((key, number)) = self.segment.take() else { return };
        let table = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
        if is_unused(&table, &key, &number) {
            let mut command = Command::new("ipcrm");
            command.args(["-m", &number]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            // Where it does not work a few bytes stay until the machine starts again.
            let _ = command.status();
        }
    }
}

/// Key and number of the segment that a lock file names.
pub(crate) fn segment_in(lock: &str) -> Option<(String, String)> {
    let mut numbers = lock.lines().nth(MEMORY_LINE)?.split_whitespace();
    Some((numbers.next()?.to_string(), numbers.next()?.to_string()))
}

/// The shared memory files that a process has mapped.
pub(crate) fn shared_files(maps: &str) -> Vec<PathBuf> {
    let path = |line: &str| {
        let at = line.find(SHARED)?;
        Some(PathBuf::from(line[at..].trim_end().trim_end_matches(" (deleted)")))
    };
    maps.lines().filter_map(path).collect()
}

/// Whether the kernel's table has this segment, and nobody is attached to it. The columns are
/// `key shmid perms size cpid lpid nattch ...`.
pub(crate) fn is_unused(table: &str, key: &str, number: &str) -> bool {
    // The key is signed in the table and unsigned in the lock file.
    let same = |shown: &str| {
        let shown = shown.parse::<i64>().map(|key| key as u32);
        shown.is_ok() && shown.ok() == key.parse::<i64>().ok().map(|key| key as u32)
    };
    table.lines().any(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        columns.len() > 6 && same(columns[0]) && columns[1] == number && columns[6] == "0"
    })
}
