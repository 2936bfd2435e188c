//! What a path stands on: the file system, and the block devices below it, one under the other.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ashlar_report::bytes;

use crate::mounts::mount_of;
use crate::volumes::ArrayPool;

/// Devices below each other. A loop device on a file on a loop device goes on; nobody builds more.
const DEPTH_MAX: usize = 8;

/// In the place of a file system: nothing is stored.
const SIMULATED: &str = "simulated";
/// The same where bytes are stored, and the lab decides when they are answered.
const ANSWERED: &str = "answered by the lab";
/// As the name of a file system: there is one, which nobody is told.
const SERVED: &str = "a database server";

/// What a path stands on.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Footing {
    /// `ext4`; empty for a device without a file system.
    pub file_system: String,
    /// What was mounted.
    pub source: String,
    pub options: String,
    /// Topmost first. Empty where none is known: overlay, network and memory file systems.
    pub devices: Vec<BlockDevice>,
    /// The pool whose volumes these are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<ArrayPool>,
}

/// A block device as the kernel describes it.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct BlockDevice {
    /// `nvme0n1`.
    pub name: String,
    /// What its maker calls it; empty for virtual ones.
    pub model: String,
    pub size_bytes: u64,
    /// It holds writes in a cache that a loss of power empties, unless it is told to flush.
    pub has_volatile_cache: bool,
    /// A hard disk, or what says it is one.
    pub is_rotational: bool,
    pub scheduler: String,
}

impl Footing {
    /// Of an existing file or directory.
    ///
    /// # Errors
    /// When it cannot be looked at.
    pub fn of(path: &Path) -> std::io::Result<Footing> {
        let path = path.canonicalize()?;
        let table = fs::read_to_string("/proc/self/mountinfo")?;
        let mount = mount_of(&table, &path);
        let device = mount.as_ref().and_then(|mount| number_of(&mount.source).or(Some(mount.device)));
        let (file_system, source, options) =
            mount.map_or_else(Default::default, |mount| (mount.kind, mount.source, mount.options));
        let devices = device.map(chain).unwrap_or_default();
        Ok(Footing { file_system, source, options, devices, pool: None })
    }

    /// Of a block device itself.
    ///
    /// # Errors
    /// When it cannot be looked at.
    pub fn of_device(path: &Path) -> std::io::Result<Footing> {
        let number = fs::metadata(path)?.rdev();
        let devices = chain((rustix::fs::major(number), rustix::fs::minor(number)));
        let source = path.display().to_string();
        Ok(Footing { file_system: String::new(), source, options: String::new(), devices, pool: None })
    }

    /// Of volumes in a pool, with the device that one of them is.
    pub(crate) fn of_pool(pool: ArrayPool, devices: Vec<BlockDevice>) -> Footing {
        let source = format!("pool {}", pool.pool);
        let (file_system, options) = (String::new(), String::new());
        Footing { file_system, source, options, devices, pool: Some(pool) }
    }

    /// Of an export: what is behind it is not known.
    pub(crate) fn of_export(uri: &str) -> Footing {
        let (file_system, options, source) = (String::new(), String::new(), uri.to_string());
        Footing { file_system, source, options, devices: Vec::new(), pool: None }
    }

    /// Of a database server: what it lies on is its own business.
    pub(crate) fn of_server(in_words: &str) -> Footing {
        let (file_system, options, source) = (SERVED.to_string(), String::new(), in_words.to_string());
        Footing { file_system, source, options, devices: Vec::new(), pool: None }
    }

    /// Of drives that are not there.
    pub(crate) fn of_model(in_words: &str) -> Footing {
        let (file_system, options, source) = (SIMULATED.to_string(), String::new(), in_words.to_string());
        Footing { file_system, source, options, devices: Vec::new(), pool: None }
    }

    /// Of a disk that the lab answers for: what it is, where its bytes lie, and the device once there is one.
    pub(crate) fn of_disk(in_words: &str, below: Footing, device: Option<Footing>) -> Footing {
        let source = format!("{in_words}, its bytes on {} {}", below.file_system, below.source);
        let devices = device.map(|device| device.devices).unwrap_or_default();
        Footing { file_system: ANSWERED.to_string(), source, options: below.options, devices, pool: None }
    }

    /// No drive is there.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.file_system == SIMULATED
    }

    /// For a page: file system, devices, pool.
    #[must_use]
    pub fn in_words(&self) -> String {
        let mut text = match (&self.pool, self.file_system.as_str()) {
            (Some(pool), _) => pool.in_words(),
            (None, SIMULATED | ANSWERED | SERVED) => self.source.clone(),
            (None, "") if self.devices.is_empty() => "an export".to_string(),
            (None, "") => "a raw device".to_string(),
            (None, name) => format!("{name} ({})", self.options),
        };
        for device in &self.devices {
            let model = if device.model.is_empty() { String::new() } else { format!(" {}", device.model) };
            let cache = if device.has_volatile_cache { "volatile cache" } else { "no volatile cache" };
            let size = bytes(device.size_bytes);
            text += &format!(", on {}{model} ({size}, {cache}, scheduler {})", device.name, device.scheduler);
        }
        text
    }

    /// Content is kept in memory and on no drive.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        matches!(self.file_system.as_str(), "tmpfs" | "ramfs" | "devtmpfs")
    }
}

/// Major and minor number of what was mounted, if it is a block device: the file system's own number is none
/// for btrfs.
fn number_of(source: &str) -> Option<(u32, u32)> {
    let metadata = fs::metadata(source).ok().filter(|_| source.starts_with('/'))?;
    let is_block = rustix::fs::FileType::from_raw_mode(metadata.mode()) == rustix::fs::FileType::BlockDevice;
    is_block.then(|| (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev())))
}

/// A device and what it stands on.
fn chain(number: (u32, u32)) -> Vec<BlockDevice> {
    let mut devices = Vec::new();
    let mut next = Some(number);
    while let Some((major, minor)) = next.filter(|_| devices.len() < DEPTH_MAX) {
        let Ok(folder) = PathBuf::from(format!("/sys/dev/block/{major}:{minor}")).canonicalize() else {
            break;
        };
        // A partition has no queue of its own: its disk has.
        let folder = match folder.parent() {
            Some(disk) if folder.join("partition").exists() => disk.to_path_buf(),
            _ => folder,
        };
        devices.push(describe(&folder));
        next = below(&folder);
    }
    devices
}

fn describe(folder: &Path) -> BlockDevice {
    let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default().trim().to_string();
    let scheduler = read("queue/scheduler");
    let chosen = scheduler.split(['[', ']']).nth(1).unwrap_or(&scheduler).to_string();
    BlockDevice {
        name: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        model: read("device/model"),
        size_bytes: read("size").parse::<u64>().unwrap_or(0) * 512,
        has_volatile_cache: read("queue/write_cache") == "write back",
        is_rotational: read("queue/rotational") == "1",
        scheduler: chosen,
    }
}

/// The device under this one: of a loop device that of its file, of a mapper or RAID its first member.
fn below(folder: &Path) -> Option<(u32, u32)> {
    if let Ok(file) = fs::read_to_string(folder.join("loop/backing_file")) {
        let footing = fs::metadata(file.trim()).ok()?;
        let device = footing.dev();
        return Some((rustix::fs::major(device), rustix::fs::minor(device)));
    }
    let member = fs::read_dir(folder.join("slaves")).ok()?.flatten().next()?.path();
    let number = fs::read_to_string(member.join("dev")).ok()?;
    let (major, minor) = number.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
