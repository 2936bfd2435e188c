//! File systems on attached devices: make, mount, unmount, and knowing what is mounted where.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::error::{Error, ErrorKind, Result};
use super::kernel_messages::KernelMessages;
use super::stack::Stack;
use super::uses::processes_below;

/// What blkid calls partition tables.
const PARTITION_TABLES: [&str; 6] = ["dos", "gpt", "mac", "sun", "bsd", "sgi"];

/// The file systems we make.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FileSystem {
    /// The default: best known to databases.
    Ext4,
    /// For large files and many writers.
    Xfs,
}

impl FileSystem {
    /// The name that mkfs, mount and the API use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
        }
    }
}

impl std::str::FromStr for FileSystem {
    type Err = Error;

    fn from_str(text: &str) -> Result<FileSystem> {
        match text {
            "ext4" => Ok(FileSystem::Ext4),
            "xfs" => Ok(FileSystem::Xfs),
            _ => Err(Error::new(
                ErrorKind::Invalid,
                format!("`{text}` is no file system we make: ext4 or xfs"),
            )),
        }
    }
}

/// What is on a device, as blkid names it; `None` when it finds nothing.
pub fn probe(device: &Path) -> Result<Option<String>> {
    let output = Command::new("blkid")
        .args(["--probe", "--output", "export", "--"])
        .arg(device)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| Error::system("run blkid (package util-linux)", e))?;
    match output.status.code() {
        Some(0) => {
            let text = String::from_utf8_lossy(&output.stdout);
            let named = ["TYPE=", "PTTYPE="]
                .into_iter()
                .find_map(|key| text.lines().find_map(|line| line.strip_prefix(key)))
                .unwrap_or("unknown data");
            Ok(Some(named.to_string()))
        }
        Some(2) => Ok(None),
        // Several signatures at once: certainly data.
        Some(8) => Ok(Some("several signatures".to_string())),
        _ => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(Error::new(ErrorKind::System, format!("probe {}: {}", device.display(), said.trim())))
        }
    }
}

/// Makes a file system. Refuses when anything is found on the device, unless forced.
pub fn make_file_system(device: &Path, file_system: FileSystem, is_forced: bool) -> Result<()> {
    if !is_forced && let Some(found) = probe(device)? {
        let why = format!("{} carries {found}", device.display());
        return Err(Error::new(ErrorKind::HasData, why));
    }
    let command = match file_system {
        FileSystem::Ext4 => {
            let mut command = Command::new("mkfs.ext4");
            // No lazy initialisation: a kernel thread would write for minutes into a thin volume.
            // Discard stays on: it is quick here, and the space comes back. -F: we probed above.
            command.args(["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"]);
            command
        }
        FileSystem::Xfs => {
            let mut command = Command::new("mkfs.xfs");
            command.arg("-q");
            if is_forced {
                command.arg("-f");
            }
            command
        }
    };
    let package = match file_system {
        FileSystem::Ext4 => "e2fsprogs",
        FileSystem::Xfs => "xfsprogs",
    };
    run_on(device, &format!("mkfs.{}", file_system.name()), package, command)
}

/// Has an ext4 take all of its device. One that is not mounted is checked first.
pub fn grow_ext4(device: &Path, is_mounted: bool) -> Result<()> {
    if !is_mounted {
        let mut check = Command::new("e2fsck");
        check.args(["-f", "-p"]);
        run_on(device, "e2fsck", "e2fsprogs", check)?;
    }
    run_on(device, "resize2fs", "e2fsprogs", Command::new("resize2fs"))
}

fn run_on(device: &Path, name: &str, package: &str, mut command: Command) -> Result<()> {
    let output = command
        .arg(device)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| Error::system(format!("run {name} (package {package})"), e))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let why = format!("{name} on {}: {}", device.display(), said.trim());
        return Err(Error::new(ErrorKind::System, why));
    }
    Ok(())
}

/// What of a file system on a volume takes effect. Whoever wrote the volume could otherwise become root here.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Trust {
    /// Set-uid programs.
    pub allows_suid: bool,
    /// Device files.
    pub allows_devices: bool,
}

impl Trust {
    fn flags(self) -> libc::c_ulong {
        let suid = if self.allows_suid { 0 } else { libc::MS_NOSUID };
        let devices = if self.allows_devices { 0 } else { libc::MS_NODEV };
        suid | devices
    }
}

/// Sees to it that there is a directory to mount on; returns those that were made, the outermost first.
pub fn make_directory(directory: &Path) -> Result<Vec<PathBuf>> {
    let refused = |what: &str, path: &Path, source| {
        let kind = ErrorKind::Invalid;
        Error { kind, context: format!("{what} {}", path.display()), source: Some(source) }
    };
    match fs::metadata(directory) {
        Ok(found) if found.is_dir() => return Ok(Vec::new()),
        Ok(_) => return Err(refused("mount on", directory, io::ErrorKind::NotADirectory.into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(refused("look at", directory, error)),
    }
    let is_missing = |path: &&Path| fs::symlink_metadata(path).is_err();
    let mut missing: Vec<&Path> = directory.ancestors().take_while(is_missing).collect();
    if missing.is_empty() {
        // A link that leads nowhere.
        missing.push(directory);
    }
    let mut made = Vec::new();
    for path in missing.into_iter().rev() {
        if let Err(error) = fs::create_dir(path) {
            remove_directories(&made);
            return Err(refused("make", path, error));
        }
        made.push(path.to_path_buf());
    }
    Ok(made)
}

/// Takes back what [`make_directory`] made. A directory that others use by now stays.
pub fn remove_directories(made: &[PathBuf]) {
    for directory in made.iter().rev() {
        let _ = fs::remove_dir(directory);
    }
}

/// Mounts what is on the device on an existing directory.
pub fn mount(device: &Path, directory: &Path, is_read_only: bool, trust: Trust) -> Result<()> {
    let Some(found) = probe(device)? else {
        let why = format!("{} has no file system: `--format ext4` makes one", device.display());
        return Err(Error::new(ErrorKind::Invalid, why));
    };
    if PARTITION_TABLES.contains(&found.as_str()) {
        let why = format!(
            "{} carries a partition table ({found}), not a file system: `partx --add {0}` shows its partitions, \
             which are mounted by hand",
            device.display()
        );
        return Err(Error::new(ErrorKind::Invalid, why));
    }
    // A clone carries its origin's UUID, and XFS refuses a second mount of one UUID unless told. Barriers are
    // flushes, and a write that was answered is durable here (decision 14); XFS has no such option any more.
    // A mount that is read-only replays the log all the same: without that it would show an older state.
    // Discard: what files give back, the pool gets back, without anybody having to trim.
    let options = match found.as_str() {
        "xfs" => "nouuid,discard",
        "ext4" => "barrier=0,discard",
        "btrfs" => "discard",
        _ => "",
    };
    let flags = if is_read_only { libc::MS_RDONLY } else { 0 } | trust.flags();
    let [source, target, kind, data] = [
        device.as_os_str().as_bytes(),
        directory.as_os_str().as_bytes(),
        found.as_bytes(),
        options.as_bytes(),
    ]
    .map(CString::new);
    let invalid = |_| Error::new(ErrorKind::Invalid, "a path with a zero byte in it".to_string());
    let (source, target) = (source.map_err(invalid)?, target.map_err(invalid)?);
    let (kind, data) = (kind.map_err(invalid)?, data.map_err(invalid)?);
    let messages = KernelMessages::from_now();
    // SAFETY: all four are strings with an end that live through the call.
    let result =
        unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, data.as_ptr().cast()) };
    if result < 0 {
        let error = io::Error::last_os_error();
        let why = format!("mount {} ({found}) on {}", device.display(), directory.display());
        return Err(not_mounted(why, error, messages.about(device)));
    }
    Ok(())
}

/// What kind of failure a refused mount is: what lies on the volume is not to this kernel's liking, or
/// something of this machine failed.
fn not_mounted(mut why: String, error: io::Error, kernel_says: Option<String>) -> Error {
    let is_of_content = matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EINVAL | libc::EUCLEAN));
    let reason = match (error.raw_os_error(), kernel_says) {
        (_, Some(said)) => format!("the kernel says: {said}"),
        (Some(libc::ENODEV), None) => "this kernel cannot mount file systems of that kind".to_string(),
        (Some(libc::EINVAL), None) => {
            "what lies there does not fit: one with blocks smaller than the volume's, for instance, needs a \
             volume with `--logical-block 512`"
                .to_string()
        }
        _ => return Error::system(why, error),
    };
    why = format!("{why}: {error}; {reason}");
    let kind = if is_of_content { ErrorKind::Content } else { Error::system("", error).kind };
    Error::new(kind, why)
}

/// Unmounts a directory; fails while somebody uses it, and says who.
pub fn unmount(directory: &Path) -> Result<()> {
    unmount_with(directory, 0).map_err(|error| {
        let mut what = format!("unmount {}", directory.display());
        if error.raw_os_error() == Some(libc::EBUSY) {
            let who: Vec<String> = processes_below(directory).iter().map(ToString::to_string).collect();
            if !who.is_empty() {
                what = format!("{what}, used by {}", who.join(", "));
            }
        }
        Error::system(what, error)
    })
}

/// Writes out what the file system on a directory has in memory. Fails for what could not be written since
/// somebody last asked (`syncfs(2)`), whose pages are given up: only who wrote them has the content. xfs that
/// was shut down fails each time.
pub fn write_out(directory: &Path) -> Result<()> {
    let opened = fs::File::open(directory);
    let written = opened.and_then(|opened| Ok(rustix::fs::syncfs(&opened)?));
    written.map_err(|source| {
        let context = format!("not all that was written to {} reached it", directory.display());
        Error { kind: ErrorKind::NotWritten, context, source: Some(source) }
    })
}

/// Gives back the room of a file system that holds nothing (`FITRIM` of ioctl_fitrim(2)); how many bytes that
/// were.
pub fn trim(directory: &Path) -> Result<u64> {
    /// `struct fstrim_range` of <linux/fs.h>.
    #[repr(C)]
    struct Range {
        start: u64,
        length: u64,
        least: u64,
    }
    // _IOWR('X', 121, struct fstrim_range); the libc crate does not carry it.
    const FITRIM: libc::c_ulong = 0xC018_5879;
    let failed = |error| Error::system(format!("trim {}", directory.display()), error);
    let opened = fs::File::open(directory).map_err(failed)?;
    let mut range = Range { start: 0, length: u64::MAX, least: 0 };
    // SAFETY: `range` has the kernel's layout and lives through the call, which writes its length.
    if unsafe { libc::ioctl(opened.as_raw_fd(), FITRIM, &raw mut range) } < 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    Ok(range.length)
}

/// Takes a directory out of sight at once; it is unmounted when its last user is gone.
pub fn unmount_lazily(directory: &Path) -> Result<()> {
    unmount_with(directory, libc::MNT_DETACH)
        .map_err(|e| Error::system(format!("detach {}", directory.display()), e))
}

fn unmount_with(directory: &Path, flags: libc::c_int) -> io::Result<()> {
    let target = CString::new(directory.as_os_str().as_bytes())?;
    // SAFETY: a string with an end that lives through the call.
    if unsafe { libc::umount2(target.as_ptr(), flags | libc::UMOUNT_NOFOLLOW) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// One line of mountinfo, as far as we need it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct MountEntry {
    pub id: u64,
    pub parent: u64,
    pub device_number: String,
    pub directory: PathBuf,
    pub file_system: String,
    /// What was mounted, as its file system shows it.
    pub source: PathBuf,
    /// What is mounted and unmounted below reaches other mounts, or comes from them.
    pub is_shared: bool,
}

impl MountEntry {
    /// A program or another machine answers for its files, and may never do so.
    pub fn is_served(&self) -> bool {
        const SERVED: [&str; 8] = ["fuse", "nfs", "cifs", "smb3", "ceph", "9p", "afs", "virtiofs"];
        SERVED.iter().any(|kind| self.file_system.starts_with(kind))
    }
}

/// Whether something is mounted on a directory of this canonical path. Asks nobody who may not answer.
pub fn is_listed(directory: &Path) -> Result<bool> {
    Ok(mounts()?.iter().any(|entry| entry.directory == directory))
}

/// Everything mounted in our view, in mount order.
pub(super) fn mounts() -> Result<Vec<MountEntry>> {
    let text = fs::read("/proc/self/mountinfo").map_err(|e| Error::system("read mountinfo", e))?;
    Ok(parse_mounts(&text))
}

pub(super) fn parse_mounts(text: &[u8]) -> Vec<MountEntry> {
    // ID PARENT MAJOR:MINOR ROOT DIRECTORY OPTIONS [FIELDS...] - TYPE SOURCE OPTIONS
    let parse = |line: &[u8]| {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let dash = words.iter().position(|word| *word == b"-")?;
        let number = |word: &[u8]| String::from_utf8_lossy(word).parse().ok();
        let is_peer = |word: &&[u8]| word.starts_with(b"shared:") || word.starts_with(b"master:");
        Some(MountEntry {
            id: number(words.first()?)?,
            parent: number(words.get(1)?)?,
            device_number: String::from_utf8_lossy(words.get(2)?).into_owned(),
            directory: unescape(words.get(4)?),
            file_system: String::from_utf8_lossy(words.get(dash + 1)?).into_owned(),
            source: unescape(words.get(dash + 2)?),
            is_shared: words.get(6..dash)?.iter().any(is_peer),
        })
    };
    text.split(|byte| *byte == b'\n').filter_map(parse).collect()
}

/// Blank, tab, newline and backslash stand as a backslash and three octal digits.
fn unescape(word: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        let code = after.first_chunk::<3>().filter(|digits| digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        match (first, code) {
            (b'\\', Some([a, b, c])) if *a < b'4' => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = &after[3..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// A mount of a loop device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnMount {
    /// Where.
    pub directory: PathBuf,
    /// Where something else is mounted upon it or inside it: to unmount this one would take that along.
    pub other: Option<PathBuf>,
}

/// Where file systems of a loop device and of its partitions are mounted; the newest mount first.
pub fn mounts_of_device(device: &Path) -> Result<Vec<OwnMount>> {
    let stack = Stack::on([device]);
    let entries = mounts()?;
    let own = |entry: &MountEntry| OwnMount {
        directory: entry.directory.clone(),
        other: other_upon(&entries, entry.id, |upon| stack.is_mounted_directly(upon)),
    };
    Ok(entries.iter().rev().filter(|entry| stack.is_mounted_directly(entry)).map(own).collect())
}

/// What is mounted upon a mount or anywhere inside it and is not ours.
pub(super) fn other_upon(
    entries: &[MountEntry],
    mount: u64,
    is_own: impl Fn(&MountEntry) -> bool,
) -> Option<PathBuf> {
    let mut within = BTreeSet::from([mount]);
    // In the order of mounting: what a mount stands on comes before it.
    for entry in entries.iter().filter(|entry| entry.id != mount) {
        if within.contains(&entry.parent) {
            if !is_own(entry) {
                return Some(entry.directory.clone());
            }
            within.insert(entry.id);
        }
    }
    None
}
