//! Who on this machine uses a volume's file or the loop device on it: mounts in every namespace, devices
//! built on it, swap, and processes that have one of these open.
//!
//! The kernel's own tables answer. Nothing here waits for anybody, but looking through all processes takes
//! some milliseconds.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::device_process;
use super::error::Result;
use super::loop_device::find_attached;
use super::mount::{self, MountEntry};
use super::stack::Stack;

/// A process.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Process {
    /// Its number.
    pub id: u32,
    /// What it runs, as `ps` shows it.
    pub name: String,
}

impl Process {
    /// The process of this number, with its name while it lives.
    #[must_use]
    pub fn of(id: u32) -> Process {
        let name = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
        Process { id, name: name.trim().to_string() }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({})", self.id, self.name)
    }
}

/// One use of a file or a device.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Use {
    /// Its file system is mounted in our view.
    Mounted {
        /// Where.
        directory: PathBuf,
    },
    /// Its file system is mounted in another namespace of mounts.
    MountedElsewhere {
        /// Where, as that process sees it.
        directory: PathBuf,
        /// A process that lives there.
        process: Process,
        /// An unmount in our view may reach it.
        is_shared: bool,
    },
    /// Something else is mounted upon its mount or inside it, and would go with it.
    MountedUpon {
        /// Where.
        directory: PathBuf,
    },
    /// A process has it open.
    Open {
        /// Who.
        process: Process,
        /// What, as that process sees it.
        path: PathBuf,
    },
    /// Another device is built on it.
    Device {
        /// Which.
        device: PathBuf,
    },
    /// The kernel swaps to it.
    Swap {
        /// Which device.
        device: PathBuf,
    },
    /// The kernel holds it for a file system or a driver, and nothing shows for which.
    Claimed {
        /// Which device.
        device: PathBuf,
    },
}

impl Use {
    /// True for what often ends by itself in a moment: udev and blkid open new and changed devices, and a
    /// process that makes a mount namespace of its own begins it with a copy of every mount.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self, Use::Open { .. } | Use::Claimed { .. } | Use::MountedElsewhere { .. })
    }
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Use::Mounted { directory } => write!(f, "it is mounted on {}", directory.display()),
            Use::MountedElsewhere { directory, process, .. } => {
                write!(f, "it is mounted on {} in the mount namespace of {process}", directory.display())
            }
            Use::MountedUpon { directory } => {
                write!(f, "something else is mounted on {}", directory.display())
            }
            Use::Open { process, path } => write!(f, "{process} has {} open", path.display()),
            Use::Device { device } => write!(f, "{} stands on it", device.display()),
            Use::Swap { device } => write!(f, "the kernel swaps to {}", device.display()),
            Use::Claimed { device } => {
                write!(f, "the kernel holds {} for a mount that no process shows", device.display())
            }
        }
    }
}

/// A use of one of the files of a directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FileUse {
    /// The file's name.
    pub file: String,
    /// The loop device on the file through which it is used; `None` for the file itself.
    pub device: Option<PathBuf>,
    /// How it is used; `None` when the loop device only stands there.
    pub using: Option<Use>,
}

/// What uses the files of a directory, and the loop devices on them.
pub fn uses_below(directory: &Path) -> Result<Vec<FileUse>> {
    let attached = find_attached(directory)?;
    let stack = Stack::on(attached.iter().map(|attached| attached.device.as_path()));
    let on = |bottom: usize, using: Option<Use>| FileUse {
        file: attached[bottom].volume.clone(),
        device: Some(attached[bottom].device.clone()),
        using,
    };
    let mut found: Vec<FileUse> = (0..attached.len()).map(|bottom| on(bottom, None)).collect();
    let descriptors = descriptors();
    found.extend(
        uses_of_stack(&stack, &descriptors)?.into_iter().map(|(bottom, using)| on(bottom, Some(using))),
    );
    for descriptor in &descriptors {
        if let Ok(file) = descriptor.path.strip_prefix(directory)
            && !file.as_os_str().is_empty()
        {
            let file = file.to_string_lossy().into_owned();
            found.push(FileUse { file, device: None, using: Some(descriptor.using()) });
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// What uses a loop device.
pub fn uses_of_device(device: &Path) -> Result<Vec<Use>> {
    let stack = Stack::on([device]);
    let uses = uses_of_stack(&stack, &descriptors())?;
    Ok(uses.into_iter().map(|(_, using)| using).collect())
}

/// Each use with the number of the loop device at the bottom.
fn uses_of_stack(stack: &Stack, descriptors: &[Descriptor]) -> Result<Vec<(usize, Use)>> {
    let mut found = BTreeSet::new();
    for layer in stack.layers.iter().filter(|layer| !layer.is_direct) {
        found.insert((layer.bottom, Use::Device { device: Path::new("/dev").join(&layer.name) }));
    }
    let mut mounted = Vec::new();
    for (bottom, using) in mounts_on(stack)? {
        if let Use::Mounted { directory } = &using {
            mounted.push((bottom, directory.clone()));
        }
        found.insert((bottom, using));
    }
    // By names alone: to look at a file on a server that does not answer would hold us up.
    let holder_of = |file: &Path| {
        let within = mounted.iter().filter(|(_, directory)| file.starts_with(directory));
        within.max_by_key(|(_, directory)| directory.as_os_str().len()).map(|(bottom, _)| *bottom)
    };
    for device in swaps() {
        let bottom = holder_of(&device).or_else(|| stack.named(&device).map(|layer| layer.bottom));
        if let Some(bottom) = bottom {
            found.insert((bottom, Use::Swap { device }));
        }
    }
    for (device, file) in super::loop_device::all()? {
        if let Some(bottom) = holder_of(&file) {
            found.insert((bottom, Use::Device { device }));
        }
    }
    for descriptor in descriptors.iter().filter(|descriptor| descriptor.path.starts_with("/dev")) {
        // The path is that of the process's own view; the number is the kernel's.
        let Ok(metadata) = fs::metadata(&descriptor.file) else { continue };
        let (major, minor) = (libc::major(metadata.rdev()), libc::minor(metadata.rdev()));
        let is_block = metadata.mode() & libc::S_IFMT == libc::S_IFBLK;
        if let Some(layer) = stack.numbered(&format!("{major}:{minor}")).filter(|_| is_block) {
            found.insert((layer.bottom, descriptor.using()));
        }
    }
    let mut claimed = Vec::new();
    for layer in stack.layers.iter().filter(|layer| layer.is_direct) {
        let device = Path::new("/dev").join(&layer.name);
        if !found.iter().any(|(bottom, _)| *bottom == layer.bottom) && is_claimed(&device) {
            claimed.push((layer.bottom, Use::Claimed { device }));
        }
    }
    if !claimed.is_empty() {
        found.extend(open_inside(stack, descriptors));
    }
    found.extend(claimed);
    Ok(found.into_iter().collect())
}

/// The open files of file systems on a stack's devices: what keeps one that was unmounted lazily. btrfs,
/// whose files show a device number of their own, is not found this way.
fn open_inside(stack: &Stack, descriptors: &[Descriptor]) -> Vec<(usize, Use)> {
    let of_stack = |descriptor: &Descriptor| {
        // As the kernel remembers it: a file on a server that does not answer must not hold us up.
        let flags = AtFlags::STATX_DONT_SYNC;
        let found = statx(CWD, &descriptor.file, flags, StatxFlags::BASIC_STATS).ok()?;
        let layer = stack.numbered(&format!("{}:{}", found.stx_dev_major, found.stx_dev_minor))?;
        Some((layer.bottom, descriptor.using()))
    };
    descriptors.iter().filter_map(of_stack).collect()
}

/// True when a file system or a driver holds the device for itself alone.
fn is_claimed(device: &Path) -> bool {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_EXCL | libc::O_NONBLOCK).open(device);
    opened.is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
}

/// The mounts of a stack's devices in every namespace of mounts.
fn mounts_on(stack: &Stack) -> Result<Vec<(usize, Use)>> {
    if stack.layers.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    let entries = mount::mounts()?;
    for entry in &entries {
        let Some(layer) = stack.mounted(entry) else { continue };
        found.push((layer.bottom, Use::Mounted { directory: entry.directory.clone() }));
        if let Some(directory) = mount::other_upon(&entries, entry.id, |upon| stack.mounted(upon).is_some()) {
            found.push((layer.bottom, Use::MountedUpon { directory }));
        }
    }
    let view = |id: &str| fs::read_link(format!("/proc/{id}/ns/mnt")).ok();
    let root = |id: u32| fs::read_link(format!("/proc/{id}/root")).ok();
    let ours = view("self");
    // A process sees only what is below its own root, so each pair of view and root is read once.
    let mut seen = BTreeSet::new();
    for id in process_ids() {
        let space = view(&id.to_string());
        if space.is_none() || space == ours || !seen.insert((space, root(id))) {
            continue;
        }
        let Ok(text) = fs::read(format!("/proc/{id}/mountinfo")) else { continue };
        let entries = mount::parse_mounts(&text);
        for entry in &entries {
            let Some(layer) = stack.mounted(entry) else { continue };
            let using = Use::MountedElsewhere {
                directory: entry.directory.clone(),
                process: Process::of(id),
                is_shared: is_reached(entry, &entries),
            };
            found.push((layer.bottom, using));
        }
    }
    Ok(found)
}

/// An unmount elsewhere comes to a mount by what it is mounted on.
fn is_reached(entry: &MountEntry, entries: &[MountEntry]) -> bool {
    entries.iter().any(|other| other.id == entry.parent && other.is_shared)
}

/// The processes that keep a mounted directory busy: by an open file, their working directory, root or
/// program, or a mapping.
#[must_use]
pub fn processes_below(directory: &Path) -> Vec<Process> {
    let mut found: BTreeSet<u32> = BTreeSet::new();
    let open = descriptors();
    found.extend(open.iter().filter(|open| open.path.starts_with(directory)).map(|open| open.process));
    let pattern = format!(" {}/", directory.display());
    for id in process_ids() {
        let is_below = |link: &str| {
            fs::read_link(format!("/proc/{id}/{link}")).is_ok_and(|path| path.starts_with(directory))
        };
        let maps = || fs::read_to_string(format!("/proc/{id}/maps")).unwrap_or_default();
        if ["cwd", "root", "exe"].into_iter().any(is_below) || maps().contains(&pattern) {
            found.insert(id);
        }
    }
    found.into_iter().map(Process::of).collect()
}

/// Who writes to a file or a block device, by whatever path: a process that has it open for writing, or the
/// kernel that swaps to it.
#[must_use]
pub fn writer_of(path: &Path) -> Option<Use> {
    let place = file_or_device(path)?;
    let is_it = |other: &Path| file_or_device(other).is_some_and(|other| other == place);
    if let Some(device) = swaps().into_iter().find(|device| is_it(device)) {
        return Some(Use::Swap { device });
    }
    let writer = descriptors().into_iter().find(|open| is_it(&open.file) && open.is_written());
    writer.map(|open| open.using())
}

/// What the kernel swaps to: behind a line of headings, one path to a line.
fn swaps() -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let paths = text.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    paths.map(PathBuf::from).collect()
}

/// What tells a file or a block device from every other, as the kernel remembers it: one on a server that
/// does not answer must not hold us up.
fn file_or_device(path: &Path) -> Option<(u32, u32, u64)> {
    let found = statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS).ok()?;
    match u32::from(found.stx_mode) & libc::S_IFMT {
        libc::S_IFBLK => Some((found.stx_rdev_major, found.stx_rdev_minor, 0)),
        libc::S_IFREG => Some((found.stx_dev_major, found.stx_dev_minor, found.stx_ino)),
        _ => None,
    }
}

/// An open file of a process.
struct Descriptor {
    process: u32,
    /// Its entry in /proc, which leads to the file itself.
    file: PathBuf,
    /// The file's path in the view of the process.
    path: PathBuf,
}

impl Descriptor {
    fn using(&self) -> Use {
        Use::Open { process: Process::of(self.process), path: self.path.clone() }
    }

    /// Whether it was opened for writing (`proc_pid_fdinfo(5)`: the flags of `open`, in octal).
    fn is_written(&self) -> bool {
        let number = self.file.file_name().unwrap_or_default();
        let text =
            fs::read_to_string(Path::new("/proc").join(self.process.to_string()).join("fdinfo").join(number));
        let text = text.unwrap_or_default();
        let flags =
            text.lines().find_map(|line| i32::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok());
        flags.is_some_and(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY)
    }
}

/// Open files of all processes but this one and device processes, whose own work on devices is nobody's use.
fn descriptors() -> Vec<Descriptor> {
    let mut found = Vec::new();
    for process in process_ids().into_iter().filter(|id| *id != std::process::id()) {
        if Process::of(process).name == device_process::NAME {
            continue;
        }
        let listing = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        for entry in listing {
            let file = entry.path();
            let Ok(path) = fs::read_link(&file) else { continue };
            // Sockets and pipes have no path.
            if path.is_absolute() {
                let path = match path.to_str().and_then(|text| text.strip_suffix(" (deleted)")) {
                    Some(text) => PathBuf::from(text),
                    None => path,
                };
                found.push(Descriptor { process, file, path });
            }
        }
    }
    found
}

pub(super) fn process_ids() -> Vec<u32> {
    let listing = fs::read_dir("/proc").into_iter().flatten().flatten();
    listing.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
