//! The tests in a mount namespace of their own: what they leave mounted ends with them, and what a killed
//! array left on this machine cannot disturb them. A mount whose array is dead does: `mkfs.btrfs` asks every
//! mounted loop device for its file, and fails when one of them cannot answer.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Set in the process that is in its own namespace already.
const ENTERED: &str = "ASHLAR_CI_NAMESPACE";

/// Runs this program again in a namespace of its own; goes on in this one where that is not allowed.
pub fn enter() {
    if std::env::var_os(ENTERED).is_some() {
        leave_out_mounts_of_arrays();
        return;
    }
    let is_allowed = unshare().arg("true").output().is_ok_and(|output| output.status.success());
    let Ok(own_path) = std::env::current_exe() else { return };
    if is_allowed {
        let error = unshare().arg(own_path).args(std::env::args_os().skip(1)).env(ENTERED, "1").exec();
        println!("ci: without a mount namespace of its own: {error}");
    }
}

/// A program in a namespace of its own, where this process has one: what it mounts is in no other program's
/// namespaces, not even for the moment in which these begin with a copy of all mounts.
pub fn apart(program: &str) -> Command {
    if std::env::var_os(ENTERED).is_none() {
        return Command::new(program);
    }
    let mut command = unshare();
    command.arg(program);
    command
}

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]);
    command
}

/// Unmounts them in this namespace only: whom they belong to keeps them.
fn leave_out_mounts_of_arrays() {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for point in mounts_of_arrays(&table, file_of_loop_device) {
        println!("ci: leaving out {point}");
        // Whatever is left there shows in the tests that mind it.
        let _ = Command::new("timeout").args(["5", "umount", "--lazy", "--no-canonicalize", &point]).status();
    }
}

/// Where volumes and disks of ours are mounted, and what is mounted of them; the last mounted first.
fn mounts_of_arrays(table: &str, file_of: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut points: Vec<String> = Vec::new();
    for line in table.lines() {
        let Some((place, kind)) = line.split_once(" - ") else { continue };
        let (Some(point), mut kind) = (place.split(' ').nth(4), kind.split(' ')) else { continue };
        let (file_system, source) = (kind.next().unwrap_or_default(), kind.next().unwrap_or_default());
        let file = source.strip_prefix("/dev/").and_then(&file_of);
        let is_below = |file: String| points.iter().any(|point| file.starts_with(&format!("{point}/")));
        if file_system.starts_with("fuse.ashlar") || file.is_some_and(is_below) {
            points.push(point.to_string());
        }
    }
    points.reverse();
    points
}

fn file_of_loop_device(name: &str) -> Option<String> {
    let file = std::fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok()?;
    Some(file.trim_end().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mounts_of_arrays_are_left_out() {
        let table = "\
            1 0 254:0 / / rw - ext4 /dev/vda rw\n\
            2 1 0:5 / /a/volumes rw - fuse.ashlar ashlar rw\n\
            3 1 7:0 / /mnt/db rw - ext4 /dev/loop0 rw\n\
            4 1 7:1 / /mnt/image rw - ext4 /dev/loop1 rw\n";
        let file = |name: &str| match name {
            "loop0" => Some("/a/volumes/db".to_string()),
            "loop1" => Some("/a/volumes-of-another/db".to_string()),
            _ => None,
        };
        assert_eq!(mounts_of_arrays(table, file), ["/mnt/db", "/a/volumes"]);
    }
}
