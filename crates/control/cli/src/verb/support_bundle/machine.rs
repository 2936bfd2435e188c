//! What the machine tells: itself, the state directory, the journal of the units, the kernel's own lines.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde::Serialize;

use super::bundle::Bundle;
use crate::Context;
use crate::output::utc;

/// How long another program may take. Arbitrary: a journal of weeks is read in seconds.
const PROGRAM_MAX: Duration = Duration::from_secs(30);
/// Lines of the journal, the newest. Arbitrary.
const JOURNAL_LINES: &str = "20000";
/// Files of the state directory that hold no secret. Tokens, sockets and databases are left out.
const STATE_FILES: [&str; 5] =
    ["pools.toml", "generations.toml", "attachments.toml", "wear.toml", "keeper.log"];
/// What a line of the kernel has that is about drives, file systems, memory or us, in lower case.
const KERNEL_WORDS: [&str; 26] = [
    "ashlar",
    "i/o error",
    "buffer i/o",
    "blk_update",
    "critical medium",
    "critical target",
    "loop",
    "fuse",
    "nbd",
    "ext4",
    "xfs",
    "btrfs",
    "nvme",
    "scsi",
    "] sd ",
    "] ata",
    "virtio_blk",
    "out of memory",
    "oom-kill",
    "oom_reaper",
    "killed process",
    "blocked for more than",
    "hung task",
    "segfault",
    "mce:",
    "edac",
];

/// This program and this machine.
#[derive(Serialize)]
pub struct About {
    made: String,
    program: ashlar_api::Program,
    state_directory: String,
    host: String,
    kernel: String,
    system: String,
    processor_count: usize,
    memory: String,
    uptime_seconds: u64,
    /// What supervises the first process: systemd, or something else.
    first_process: String,
}

pub fn about(context: &Context, now: u64) -> About {
    let release = read("/etc/os-release");
    let system = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let uptime = read("/proc/uptime");
    About {
        made: utc(now),
        program: ashlar_daemon::own_program(),
        state_directory: context.state.display().to_string(),
        host: read("/proc/sys/kernel/hostname"),
        kernel: read("/proc/version"),
        system: system.unwrap_or_default().trim_matches('"').to_string(),
        processor_count: std::thread::available_parallelism().map_or(0, usize::from),
        memory: read("/proc/meminfo").lines().take(3).collect::<Vec<_>>().join("; "),
        uptime_seconds: uptime.split('.').next().and_then(|seconds| seconds.parse().ok()).unwrap_or(0),
        first_process: read("/proc/1/comm"),
    }
}

/// Adds all of it. What this machine does not have is no loss.
pub fn collect(context: &Context, bundle: &mut Bundle) {
    bundle.json("state-directory.json", &listing(&context.state));
    for name in STATE_FILES {
        if let Ok(text) = std::fs::read(context.state.join(name)) {
            bundle.text(&format!("state/{name}"), &String::from_utf8_lossy(&text));
        }
    }
    let units = ["--unit", "ashlar", "--unit", "ashlar-keeper"];
    let form = ["--no-pager", "--lines", JOURNAL_LINES, "--output", "short-iso-precise"];
    program(bundle, "journal.txt", "journalctl", &[&units[..], &form[..]].concat(), |_| true);
    program(bundle, "kernel.txt", "dmesg", &["--ctime"], is_of_concern);
}

#[derive(Serialize)]
struct Entry {
    name: String,
    bytes: u64,
    /// As stat(1) prints it; empty for a directory.
    mode: String,
}

/// What lies in a directory, without what is in it.
fn listing(directory: &Path) -> Vec<Entry> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut list: Vec<Entry> = entries
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            // What is mounted on a directory may wait for an array: it is not asked.
            if entry.file_type().ok()?.is_dir() {
                return Some(Entry { name: format!("{name}/"), bytes: 0, mode: String::new() });
            }
            let metadata = entry.metadata().ok()?;
            let mode = format!("{:o}", metadata.permissions().mode());
            Some(Entry { name, bytes: metadata.len(), mode })
        })
        .collect();
    list.sort_by(|a, b| a.name.cmp(&b.name));
    list
}

/// Adds the lines of a program's output that are wanted. One that is not installed is no loss.
fn program(bundle: &mut Bundle, file: &str, name: &str, arguments: &[&str], is_wanted: fn(&str) -> bool) {
    let spawned = Command::new(name)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(child) = spawned else { return };
    let id = child.id();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let said = match receiver.recv_timeout(PROGRAM_MAX) {
        Ok(Ok(said)) => said,
        Ok(Err(error)) => return bundle.miss(file, &format!("{name}: {error}")),
        Err(_) => {
            let id = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw);
            // It ended just now, or will.
            let _ = id.map(|id| rustix::process::kill_process(id, rustix::process::Signal::KILL));
            let seconds = PROGRAM_MAX.as_secs();
            return bundle.miss(file, &format!("{name} took longer than {seconds} s"));
        }
    };
    if !said.status.success() {
        let words = String::from_utf8_lossy(&said.stderr);
        return bundle.miss(file, &format!("{name} ended with {}: {}", said.status, words.trim()));
    }
    let text = String::from_utf8_lossy(&said.stdout);
    let lines: String = text.lines().filter(|line| is_wanted(line)).map(|line| format!("{line}\n")).collect();
    bundle.text(file, &lines);
}

fn is_of_concern(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    KERNEL_WORDS.iter().any(|word| line.contains(word))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_about_drives_and_memory_are_taken() {
        for line in [
            "[Sat Nov 28 22:00:00 2026] blk_update_request: I/O error, dev sda, sector 7",
            "[Sat Nov 28 22:00:00 2026] EXT4-fs (loop0): mounted filesystem",
            "[Sat Nov 28 22:00:00 2026] Out of memory: Killed process 7 (postgres)",
            "[Sat Nov 28 22:00:00 2026] INFO: task fio:7 blocked for more than 120 seconds.",
        ] {
            assert!(is_of_concern(line), "{line}");
        }
        assert!(!is_of_concern("[Sat Nov 28 22:00:00 2026] IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link up"));
    }
}
