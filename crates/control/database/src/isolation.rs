//! A server sees its own volumes and those of no other database.
//!
//! ```text
//!   mount namespace of a server:  databases/        an empty directory in memory
//!                                 databases/NAME/   the database's own, with what is mounted below
//! ```
//!
//! So a clone does not come upon its source's files by their names. A copy writes nowhere but into its
//! own volumes, /tmp and a /dev/shm of its own: its log may name a directory of its source, as that of a
//! tablespace which was made just before the snapshot.
//!
//! All servers run under one account, whose processes may look into each other by /proc/PID/root, cwd and
//! mem. The kernel refuses that to a process of another user namespace (ptrace(2), user_namespaces(7)), so
//! each server has one, in which every account is the machine's. Signals it does not refuse.
//!
//! The namespaces end with the last process of the server.

use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount,
    mount_bind_recursive, mount_change, mount_remount, move_mount, open_tree, unmount,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::error::{Error, Result};
use crate::site::Site;

/// A directory in memory that holds one directory.
const OPTIONS: &std::ffi::CStr = c"mode=0711,size=64k";
/// What the directory of an array's volumes is in the table of mounts.
const VOLUMES_KIND: &str = "fuse.ashlar";

/// Hides other databases from this thread, and from every process that it starts from now on.
///
/// # Errors
/// When the kernel refuses: nobody else is changed then.
pub(crate) fn hide_others(site: &Site) -> Result<()> {
    let hidden = hide(&site.directory);
    let hidden = hidden.and_then(|()| if site.is_clone { keep_within(&site.directory) } else { Ok(()) });
    hidden.map_err(|error| {
        let what = format!("hide other databases from the server of `{}`: {error}", site.name);
        Error::failed(what, "the array must run as root, with the right to mount")
    })
}

/// Makes this process, which has one thread, and all that it starts from now on one of a user namespace of
/// its own. From then on it does not find servers of others, nor one of its own that ran before.
///
/// # Errors
/// When the kernel has no user namespaces, or gives none.
pub(crate) fn stand_apart() -> io::Result<()> {
    let process = std::process::id();
    let mut lines = "read _".to_string();
    for map in ["uid_map", "gid_map"] {
        let same = same_accounts(&fs::read_to_string(Path::new("/proc/self").join(map))?);
        lines.push_str(&format!(" && printf '{same}' > /proc/{process}/{map}"));
    }
    // Only a process of the outer namespace may say which accounts there are in the inner one.
    let mut outside = Command::new("sh").arg("-c").arg(lines).stdin(Stdio::piped()).spawn()?;
    let input = outside.stdin.take();
    // SAFETY: no file descriptor and no directory becomes another one.
    let parted = unsafe { unshare_unsafe(UnshareFlags::NEWUSER) };
    if parted.is_ok() {
        input.map(|mut input| input.write_all(b"\n")).transpose()?;
    }
    let written = outside.wait()?;
    parted?;
    if written.success() { Ok(()) } else { Err(io::Error::other("its accounts could not be set")) }
}

/// Lines of a user namespace's map, INSIDE OUTSIDE COUNT, for one below it with the same accounts.
fn same_accounts(map: &str) -> String {
    let of_line = |line: &str| {
        let mut words = line.split_whitespace();
        let (inside, count) = (words.next()?, words.nth(1)?);
        Some(format!("{inside} {inside} {count}\\n"))
    };
    map.lines().filter_map(of_line).collect()
}

fn hide(own: &Path) -> io::Result<()> {
    let all = own.parent().ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: only the table of mounts becomes this thread's own; no file descriptor does.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    // What is unmounted on this machine is unmounted here, and not the other way round.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    let tree = open_tree(CWD, own, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::AT_RECURSIVE)?;
    let table = fs::read("/proc/self/mountinfo")?;
    for point in to_hide(&mounts(&table), all, file_of_loop_device).iter().rev() {
        unmount(*point, UnmountFlags::DETACH)?;
    }
    mount("ashlar", all, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, OPTIONS)?;
    fs::create_dir(own)?;
    move_mount(&tree, "", CWD, own, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    if Path::new(SHARED_MEMORY).is_dir() {
        mount("ashlar", SHARED_MEMORY, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"mode=1777")?;
    }
    Ok(())
}

/// Where servers keep memory that their processes share.
const SHARED_MEMORY: &str = "/dev/shm";
/// Where a copy may write besides: what is there is nobody's for long.
const SHARED: [&str; 2] = ["/tmp", SHARED_MEMORY];
/// File systems that hold no files of anybody's.
const OF_THE_KERNEL: [&str; 12] = [
    "bpf",
    "cgroup",
    "cgroup2",
    "debugfs",
    "devpts",
    "devtmpfs",
    "mqueue",
    "nsfs",
    "proc",
    "securityfs",
    "sysfs",
    "tracefs",
];

/// Makes everything read-only but what is the database's own.
fn keep_within(own: &Path) -> io::Result<()> {
    for shared in SHARED.into_iter().filter(|shared| Path::new(shared).is_dir()) {
        mount_bind_recursive(shared, shared)?;
    }
    let table = fs::read("/proc/self/mountinfo")?;
    for one in to_protect(&mounts(&table), own) {
        let flags = MountFlags::BIND | MountFlags::RDONLY | flags_of(&one.options);
        match mount_remount(&one.point, flags, "") {
            // What another mount covers, or a dead server of files: no path leads there.
            Err(Errno::NOENT | Errno::INVAL | Errno::ACCESS | Errno::NOTCONN | Errno::IO) => {}
            other => other?,
        }
    }
    Ok(())
}

/// Mounts on which a copy must not write.
fn to_protect<'a>(mounts: &'a [Mount], own: &Path) -> Vec<&'a Mount> {
    let is_shared = |point: &Path| SHARED.iter().any(|shared| point.starts_with(shared));
    let is_to_protect = |one: &&Mount| {
        !one.point.starts_with(own)
            && !is_shared(&one.point)
            && !OF_THE_KERNEL.contains(&one.kind.as_str())
            && !one.options.split(',').any(|option| option == "ro")
    };
    mounts.iter().filter(is_to_protect).collect()
}

/// A remount keeps what it is told, and takes the rest away.
fn flags_of(options: &str) -> MountFlags {
    let flag = |option: &str| match option {
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noexec" => MountFlags::NOEXEC,
        "noatime" => MountFlags::NOATIME,
        "nodiratime" => MountFlags::NODIRATIME,
        "relatime" => MountFlags::RELATIME,
        _ => MountFlags::empty(),
    };
    options.split(',').map(flag).fold(MountFlags::empty(), |all, one| all | one)
}

struct Mount {
    point: PathBuf,
    options: String,
    /// What happens to it on the machine happens here, too.
    is_led: bool,
    kind: String,
    source: String,
}

/// Databases, and what volumes of this array and of others are mounted on: a copy that nobody would unmount
/// keeps a volume from being detached for as long as the server runs.
fn to_hide<'a>(mounts: &'a [Mount], all: &Path, file_of: impl Fn(&str) -> Option<PathBuf>) -> Vec<&'a Path> {
    let is_array = |one: &&Mount| one.kind == VOLUMES_KIND;
    let arrays: Vec<&Path> = mounts.iter().filter(is_array).map(|one| one.point.as_path()).collect();
    let is_volume =
        |source: &str| file_of(source).is_some_and(|file| arrays.iter().any(|point| file.starts_with(point)));
    let is_to_go = |one: &&Mount| {
        one.point.starts_with(all) || !one.is_led && (one.kind == VOLUMES_KIND || is_volume(&one.source))
    };
    mounts.iter().filter(is_to_go).map(|one| one.point.as_path()).collect()
}

/// Reads /proc/PID/mountinfo (proc_pid_mountinfo(5)).
fn mounts(table: &[u8]) -> Vec<Mount> {
    let of_line = |line: &[u8]| {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let dash = words.iter().position(|word| *word == b"-")?;
        Some(Mount {
            point: PathBuf::from(std::ffi::OsString::from_vec(unescaped(words.get(4)?))),
            options: String::from_utf8_lossy(words.get(5)?).into_owned(),
            is_led: words[..dash].iter().skip(6).any(|word| word.starts_with(b"master:")),
            kind: String::from_utf8_lossy(words.get(dash + 1)?).into_owned(),
            source: String::from_utf8_lossy(words.get(dash + 2)?).into_owned(),
        })
    };
    table.split(|byte| *byte == b'\n').filter_map(of_line).collect()
}

/// A space is written as `\040`.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, more)) = rest.split_first() {
        let digits = (*first == b'\\').then(|| more.get(..3)).flatten();
        let code = digits.and_then(|three| u8::from_str_radix(std::str::from_utf8(three).ok()?, 8).ok());
        out.push(code.unwrap_or(*first));
        rest = if code.is_some() { &more[3..] } else { more };
    }
    out
}

fn file_of_loop_device(source: &str) -> Option<PathBuf> {
    let name = source.strip_prefix("/dev/").filter(|name| name.starts_with("loop"))?;
    let file = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok()?;
    Some(PathBuf::from(file.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_the_accounts_of_the_one_around_it() {
        assert_eq!(same_accounts("         0          0 4294967295\n"), "0 0 4294967295\\n");
        assert_eq!(same_accounts("0 100000 1000\n1000 1000 1\n"), "0 0 1000\\n1000 1000 1\\n");
    }

    #[test]
    fn databases_and_mounted_volumes_of_any_array_are_hidden_and_nothing_else() {
        let table = b"30 1 0:30 / /state/volumes rw - fuse.ashlar ashlar rw\n\
            31 1 0:31 / /other\\040array/volumes rw - fuse.ashlar ashlar rw\n\
            32 1 7:0 / /state/databases/x/data rw - ext4 /dev/loop0 rw\n\
            33 1 7:1 / /mnt/of-other rw - ext4 /dev/loop1 rw\n\
            34 1 7:1 / /mnt/led rw master:1 - ext4 /dev/loop1 rw\n\
            35 1 7:2 / /mnt/image rw - ext4 /dev/loop2 rw\nrubbish\n";
        let found = mounts(table);
        let file_of = |source: &str| match source {
            "/dev/loop0" => Some(PathBuf::from("/state/volumes/x-data")),
            "/dev/loop1" => Some(PathBuf::from("/other array/volumes/v")),
            _ => Some(PathBuf::from("/images/disk.img")),
        };
        let protected = to_protect(&found, Path::new("/state/databases/x"));
        let points: Vec<&Path> = protected.iter().map(|one| one.point.as_path()).collect();
        assert!(
            points.contains(&Path::new("/mnt/image"))
                && !points.contains(&Path::new("/state/databases/x/data"))
        );
        assert_eq!(flags_of("rw,nosuid,relatime"), MountFlags::NOSUID | MountFlags::RELATIME);
        let hidden = to_hide(&found, Path::new("/state/databases"), file_of);
        let expected = ["/state/volumes", "/other array/volumes", "/state/databases/x/data", "/mnt/of-other"];
        assert_eq!(hidden, expected.map(Path::new));
    }
}
