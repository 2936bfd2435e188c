//! Processes found by the directory they work in, and ended.
//!
//! A server works in its data directory, with all its processes. So they are found although the files that
//! would name them are gone.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a process may take to end after a signal before the next, ruder one.
const PATIENCE: Duration = Duration::from_secs(15);

/// Processes whose working directory is `base` or below it, with their names; never the caller itself.
#[must_use]
pub fn processes_below(base: &Path) -> Vec<(Pid, String)> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir("/proc") else { return found };
    for entry in entries.flatten() {
        let Ok(number) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let Ok(directory) = fs::read_link(entry.path().join("cwd")) else { continue };
        if !directory.starts_with(base) || number == std::process::id() as i32 {
            continue;
        }
        // A zombie has no working directory to read, so what is listed here can still be signalled.
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if let Some(pid) = Pid::from_raw(number) {
            found.push((pid, name.trim().to_string()));
        }
    }
    found
}

/// Those of them that are a server's: a person's shell may stand in its directory, too.
#[must_use]
pub fn servers_below(base: &Path) -> Vec<Pid> {
    let is_server = |name: &str| name == "postgres" || name == "postmaster";
    let found = processes_below(base).into_iter().filter(|(_, name)| is_server(name));
    found.map(|(pid, _)| pid).collect()
}

/// Ends the processes below `base` whose names are wanted: by the first signal, and those that are still
/// there after a while by the next.
pub fn end_processes(base: &Path, is_wanted: impl Fn(&str) -> bool, signals: &[Signal]) {
    for signal in signals {
        let start = Instant::now();
        let mut is_sent = false;
        loop {
            let mut left = processes_below(base);
            left.retain(|(_, name)| is_wanted(name));
            if left.is_empty() {
                return;
            }
            if !is_sent {
                for (pid, _) in &left {
                    // The process may have ended since: then there is nothing to do.
                    let _ = kill_process(*pid, *signal);
                }
                is_sent = true;
            }
            if start.elapsed() > PATIENCE {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
