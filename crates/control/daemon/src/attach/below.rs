//! What a file or a device stands on, down to the hardware: the other way from `stack`.
//!
//! ```text
//!   /mnt/x.img ──► ext4 on /mnt ──► /dev/mapper/x ──► loop7 ──► STATE/volumes/db
//! ```
//!
//! A pool whose drive stands on one of the array's own volumes waits for itself at the first write that needs
//! room, and with it every process that touches the file system between. So this is asked before a drive is
//! taken. Looking up a path may wait for whoever serves it: callers set a limit.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::error::{Error, ErrorKind, Result};
use super::loop_device::{self, find_attached};
use super::mount::{self, MountEntry};
use super::nbd_device::Own;
use super::stack::btrfs_members;

/// One file or one device, by whatever path it is reached.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// A file, by the number of its file system and its own.
    File(u64, u64),
    /// A block device, as `MAJOR:MINOR`.
    Device(String),
    /// A file that is to be made, by its directory and its name.
    New(Box<Place>, PathBuf),
}

/// What is below a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Below {
    /// What the path leads to.
    pub place: Place,
    /// That and everything it stands on.
    pub places: BTreeSet<Place>,
    /// The volume it stands on, or is.
    pub volume: Option<OnVolume>,
}

/// A volume somewhere below.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OnVolume {
    /// Its name.
    pub volume: String,
    /// The steps that lead to it, the nearest first; none for the volume's own file.
    pub steps: Vec<String>,
}

/// Something still to be looked at, and the steps that led there.
struct Step {
    to: Target,
    steps: Vec<String>,
}

enum Target {
    Path(PathBuf),
    Device(String),
}

/// What is below a file, a device, or a file that is to be made. Anything else is refused: a pipe, a
/// directory, a character device.
pub fn below(path: &Path, own: &Own) -> Result<Below> {
    let world = World::new(own)?;
    let place = match world.volume_at(path) {
        // Not looked at: a volume's file is served by whoever asks.
        Some(name) => Place::New(Box::new(Place::File(0, 0)), PathBuf::from(name)),
        None => world.place_of(path)?.0,
    };
    let mut below = Below { place, places: BTreeSet::new(), volume: None };
    let mut left = vec![Step { to: Target::Path(path.to_path_buf()), steps: Vec::new() }];
    // Ends: each place is looked at once, and there are finitely many.
    while let Some(step) = left.pop() {
        let is_first = step.steps.is_empty();
        match world.look(&step) {
            Ok(Found::Volume(volume)) => {
                below.volume = Some(OnVolume { volume, steps: step.steps });
                return Ok(below);
            }
            Ok(Found::Place(place, further)) => {
                if below.places.insert(place) {
                    left.extend(further);
                }
            }
            Err(error) if is_first => return Err(error),
            // A path of another namespace, or one that went: nothing is known below it.
            Err(_) => {}
        }
    }
    Ok(below)
}

/// A loop device that stands on one of these paths, by whatever path, and which of them; volumes of this
/// array aside. A file on a server that no path lies on is not looked at: it may be of an array that hangs.
pub fn loop_device_on(paths: &[&Path], own: &Own) -> Result<Option<(PathBuf, usize)>> {
    let world = World::new(own)?;
    let places: Vec<Option<Place>> =
        paths.iter().map(|path| world.place_of(path).ok().map(|(place, _)| place)).collect();
    let near: Vec<&str> =
        paths.iter().filter_map(|path| Some(world.mount_at(path)?.device_number.as_str())).collect();
    for (device, file) in loop_device::all()? {
        let mount = world.mount_at(&file);
        let may_wait =
            mount.is_some_and(|mount| mount.is_served() && !near.contains(&mount.device_number.as_str()));
        if may_wait || file.starts_with(&own.volumes) {
            continue;
        }
        let Ok((there, _)) = world.place_of(&file) else { continue };
        if let Some(index) = places.iter().position(|place| place.as_ref() == Some(&there)) {
            return Ok(Some((device, index)));
        }
    }
    Ok(None)
}

enum Found {
    Volume(String),
    Place(Place, Vec<Step>),
}

/// What the kernel tells of mounts and of loop devices on volumes.
struct World<'a> {
    own: &'a Own,
    mounts: BTreeMap<u64, MountEntry>,
    /// Loop devices on volumes, by number.
    attached: BTreeMap<String, String>,
}

impl World<'_> {
    fn new(own: &Own) -> Result<World<'_>> {
        let mut attached = BTreeMap::new();
        for found in find_attached(&own.volumes)? {
            let name = found.device.file_name().unwrap_or_default();
            if let Some(number) = read(&Path::new("/sys/class/block").join(name).join("dev")) {
                attached.insert(number, found.volume);
            }
        }
        let mounts = mount::mounts()?.into_iter().map(|entry| (entry.id, entry)).collect();
        Ok(World { own, mounts, attached })
    }

    /// What a path leads to, and the file if there is one yet. Nothing is opened for reading or writing.
    fn place_of(&self, path: &Path) -> Result<(Place, Option<File>)> {
        let opened = match open_path(path) {
            Ok(opened) => opened,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
                    return Err(Error::system(format!("find {}", path.display()), error));
                };
                let found = open_path(directory)
                    .and_then(|opened| opened.metadata())
                    .map_err(|e| Error::system(format!("find {}", directory.display()), e))?;
                let directory = Place::File(found.dev(), found.ino());
                return Ok((Place::New(Box::new(directory), PathBuf::from(name)), None));
            }
            Err(error) => return Err(Error::system(format!("find {}", path.display()), error)),
        };
        let metadata =
            opened.metadata().map_err(|e| Error::system(format!("look at {}", path.display()), e))?;
        let kind = metadata.file_type();
        if kind.is_block_device() {
            return Ok((Place::Device(number_of(metadata.rdev())), Some(opened)));
        }
        if kind.is_file() {
            return Ok((Place::File(metadata.dev(), metadata.ino()), Some(opened)));
        }
        let what = if kind.is_dir() {
            "a directory"
        } else if kind.is_fifo() {
            "a pipe"
        } else if kind.is_char_device() {
            "a character device"
        } else {
            "a socket"
        };
        let why = format!("{} is {what}, neither a file nor a block device", path.display());
        Err(Error::new(ErrorKind::Invalid, why))
    }

    /// The mount that a path without links lies in, by its name alone.
    fn mount_at(&self, path: &Path) -> Option<&MountEntry> {
        let within = self.mounts.values().filter(|entry| path.starts_with(&entry.directory));
        within.max_by_key(|entry| (entry.directory.as_os_str().len(), entry.id))
    }

    fn look(&self, step: &Step) -> Result<Found> {
        match &step.to {
            Target::Path(path) => self.look_at_path(path, &step.steps),
            Target::Device(number) => Ok(self.look_at_device(number, &step.steps)),
        }
    }

    fn look_at_path(&self, path: &Path, steps: &[String]) -> Result<Found> {
        if let Some(volume) = self.volume_at(path) {
            return Ok(Found::Volume(volume));
        }
        let (place, opened) = self.place_of(path)?;
        if let Place::Device(number) = &place {
            return Ok(self.look_at_device(number, steps));
        }
        let directory = path.parent().unwrap_or(Path::new("/"));
        let opened = match opened {
            Some(opened) => opened,
            None => {
                open_path(directory).map_err(|e| Error::system(format!("find {}", directory.display()), e))?
            }
        };
        let Some(entry) = mount_id(&opened).and_then(|id| self.mounts.get(&id)) else {
            return Ok(Found::Place(place, Vec::new()));
        };
        if self.is_volumes(entry) {
            let name = path.file_name().unwrap_or_default();
            return Ok(Found::Volume(name.to_string_lossy().into_owned()));
        }
        let step = format!("{} on {}", entry.file_system, entry.directory.display());
        let steps: Vec<String> = steps.iter().cloned().chain([step]).collect();
        let further = carriers(entry).into_iter().map(|to| Step { to, steps: steps.clone() });
        Ok(Found::Place(place, further.collect()))
    }

    /// The volume whose file this path names.
    fn volume_at(&self, path: &Path) -> Option<String> {
        let name = path.strip_prefix(&self.own.volumes).ok()?;
        (!name.as_os_str().is_empty()).then(|| name.to_string_lossy().into_owned())
    }

    /// True for the directory of volumes, also where it is bound to another place.
    fn is_volumes(&self, entry: &MountEntry) -> bool {
        let is_ours = |other: &MountEntry| {
            other.directory == self.own.volumes && other.device_number == entry.device_number
        };
        entry.file_system.starts_with("fuse") && self.mounts.values().any(is_ours)
    }

    fn look_at_device(&self, number: &str, steps: &[String]) -> Found {
        let sys = Path::new("/sys/dev/block").join(number);
        let name = fs::canonicalize(&sys).ok().and_then(|real| Some(real.file_name()?.to_owned()));
        let name = name.map_or_else(|| number.to_string(), |name| name.to_string_lossy().into_owned());
        if let Some(volume) = self.attached.get(number) {
            return Found::Volume(volume.clone());
        }
        if let Some(volume) = self.own.volume_of_device(&sys) {
            return Found::Volume(volume);
        }
        let steps: Vec<String> = steps.iter().cloned().chain([format!("/dev/{name}")]).collect();
        let step = |to| Step { to, steps: steps.clone() };
        let mut further = Vec::new();
        if sys.join("partition").exists() {
            // A partition's directory lies in that of its device.
            let whole = fs::canonicalize(&sys).ok().and_then(|real| read(&real.parent()?.join("dev")));
            further.extend(whole.map(|number| step(Target::Device(number))));
        }
        for slave in fs::read_dir(sys.join("slaves")).into_iter().flatten().flatten() {
            further.extend(read(&slave.path().join("dev")).map(|number| step(Target::Device(number))));
        }
        if let Some(backing) = read(&sys.join("loop/backing_file")) {
            let path = backing.trim_end_matches(" (deleted)").to_string();
            further.push(step(Target::Path(PathBuf::from(path))));
        }
        Found::Place(Place::Device(number.to_string()), further)
    }
}

/// What a mounted file system lies on.
fn carriers(entry: &MountEntry) -> Vec<Target> {
    if !entry.device_number.starts_with("0:") {
        return vec![Target::Device(entry.device_number.clone())];
    }
    // btrfs shows a number of its own, FUSE has none, an overlay lies on directories: what they were mounted
    // from tells, where it is a path.
    let source = entry.source.to_string_lossy().into_owned();
    let mut paths: Vec<String> = source.split(':').map(str::to_string).collect();
    for member in btrfs_members().into_iter().filter(|members| {
        entry.file_system == "btrfs" && members.iter().any(|name| source == format!("/dev/{name}"))
    }) {
        paths.extend(member.iter().map(|name| format!("/dev/{name}")));
    }
    if entry.file_system == "overlay" {
        paths.extend(overlay_directories(entry.id));
    }
    paths.retain(|path| path.starts_with('/'));
    paths.into_iter().map(|path| Target::Path(inside(PathBuf::from(path)))).collect()
}

/// A path that stands for a directory's file system: the name is not looked at, the directory is.
fn inside(path: PathBuf) -> PathBuf {
    if path.is_dir() { path.join(".ashlar-below") } else { path }
}

/// The directories that an overlay lies on.
fn overlay_directories(id: u64) -> Vec<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let id = format!("{id} ");
    let options = text.lines().find(|line| line.starts_with(&id)).and_then(|line| line.rsplit(' ').next());
    let directories = options.unwrap_or_default().split(',').filter_map(|option| {
        let (name, value) = option.split_once('=')?;
        ["upperdir", "lowerdir", "lowerdir+", "workdir"].contains(&name).then_some(value)
    });
    directories.flat_map(|value| value.split(':').map(str::to_string)).collect()
}

/// The path as such: no device is opened, no pipe waited for.
fn open_path(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_CLOEXEC).open(path)
}

/// Which mount an open path lies in. The number of a file's file system would not tell: those of btrfs
/// subvolumes appear in no list of mounts.
fn mount_id(opened: &File) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", opened.as_raw_fd())).ok()?;
    text.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()
}

fn number_of(rdev: u64) -> String {
    format!("{}:{}", libc::major(rdev), libc::minor(rdev))
}

fn read(file: &Path) -> Option<String> {
    fs::read_to_string(file).ok().map(|text| text.trim_end_matches('\n').to_string())
}
