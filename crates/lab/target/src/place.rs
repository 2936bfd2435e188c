//! A target as a person names it, and whether it may be written to.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ashlar_client::Client;
use ashlar_client::api::ErrorKind;
use ashlar_model::array::Array;
use ashlar_model::array::spec::Spec;

use crate::below::Footing;
use crate::copies::{Copies, MadeSnapshot};
use crate::disks::Disks;
use crate::kind::Kind;
use crate::nbd;
use crate::server::{Databases, MadeDatabase};
use crate::volumes::{self, Form, MadeVolume, Meter, Volumes};

/// What the lab's files in a directory, and its volumes in a pool, are called.
pub const OWN_PREFIX: &str = "ashlar-lab-";

/// What it takes to open targets.
#[derive(Clone, Default)]
pub struct Access {
    /// What is on devices and volumes may be overwritten.
    pub may_destroy: bool,
    /// The array whose pools are meant; absent where none is named.
    pub array: Option<Arc<Client>>,
}

/// A target that may be written to. What was made on it goes when this is dropped.
#[derive(Debug)]
pub enum Place {
    /// A directory of its own in one that was named.
    Directory { named: PathBuf, own: PathBuf },
    Device {
        named: String,
        path: PathBuf,
        size_bytes: u64,
        /// Kept open so that nobody mounts it meanwhile.
        _exclusive: fs::File,
        /// Detached at the end, when nothing holds it any more.
        attached: Option<Attached>,
    },
    /// Volumes of its own in a pool.
    Volumes(Volumes),
    /// An export reached from user space.
    Nbd { uri: String, size_bytes: u64 },
    /// Drives that are not there: a model tells how long they would take.
    Model { named: String, spec: Box<Spec>, size_bytes: u64 },
    /// Disks of its own in a directory, answered for by this process.
    Disks(Disks),
    /// Databases of its own on a server that was there.
    Server(Databases),
}

/// Where the bytes of one data set lie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ground {
    /// A file for each file of the workload.
    Files(Vec<PathBuf>),
    /// A stretch of one device, behind so many bytes of other data sets.
    Device { path: PathBuf, offset_bytes: u64 },
    /// Devices that are all its own.
    Volumes(Vec<PathBuf>),
    /// A stretch of an export.
    Nbd { uri: String, offset_bytes: u64 },
    /// Nowhere: what does not store needs no bytes.
    Nothing,
}

/// Where a database lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Laid {
    pub data: PathBuf,
    /// Where its write-ahead log has a place of its own.
    pub log: Option<PathBuf>,
}

/// What a data set needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Needs {
    /// Of the data set among those on this target, from 1.
    pub number: usize,
    pub files: u64,
    pub volumes: u64,
    pub size_bytes: u64,
    /// Of the data sets before it.
    pub offset_bytes: u64,
}

/// Why a target may not be used, and what to do.
#[derive(Debug)]
pub struct Refusal(pub String);

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// A volume that was there before, attached for the test.
pub struct Attached {
    client: Arc<Client>,
    volume: String,
    /// Of its pool; none of them is made.
    volumes: Volumes,
}

impl std::fmt::Debug for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Attached").field(&self.volume).finish()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _stays_attached = volumes::detach(&self.client, &self.volume);
    }
}

impl Place {
    /// `DIR`, `block:/dev/NAME`, `ashlar:POOL`, `ashlar:POOL/VOLUME`, `nbd://…`, `sim-hdd:…`, or
    /// `postgres://…`, `sim-hdd:… over DIR` and likewise `limit:` and `liar:`.
    ///
    /// # Errors
    /// When it is not there, cannot be written, is in use, or holds something that nobody gave up.
    pub fn open(named: &str, access: &Access) -> Result<Place, Refusal> {
        let rest = Kind::rest(named);
        match Kind::of(named)? {
            Kind::Directory => open_directory(Path::new(named)),
            Kind::Device => open_device(rest, Path::new(rest), access.may_destroy, None),
            Kind::Pool => open_volumes(named, rest, access),
            Kind::Export => nbd::open(named, access.may_destroy),
            Kind::Model => open_model(named),
            Kind::Disk => Disks::open(named).map(Place::Disks),
            Kind::Server => Databases::open(named).map(Place::Server),
        }
    }

    /// Makes what a data set lies on; its content comes later.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn lay(&self, needs: Needs) -> Result<Ground, Refusal> {
        let Needs { number, files, volumes, size_bytes, offset_bytes } = needs;
        match self {
            Place::Directory { own, .. } => {
                let directory = own.join(format!("set-{number}"));
                fs::create_dir_all(&directory)
                    .map_err(|error| Refusal(format!("{}: {error}", directory.display())))?;
                let file = |file: u64| directory.join(format!("file-{file}"));
                Ok(Ground::Files((1..=files).map(file).collect()))
            }
            Place::Device { path, .. } => Ok(Ground::Device { path: path.clone(), offset_bytes }),
            Place::Volumes(made) => {
                Ok(Ground::Volumes(made.make(volumes, size_bytes.div_ceil(volumes.max(1)))?))
            }
            Place::Nbd { uri, .. } => Ok(Ground::Nbd { uri: uri.clone(), offset_bytes }),
            Place::Model { .. } => Ok(Ground::Nothing),
            Place::Disks(disks) => {
                Ok(Ground::Device { path: disks.make(number, size_bytes)?, offset_bytes: 0 })
            }
            Place::Server(server) => {
                Err(Refusal(format!("{}: it takes databases, and no files", server.named())))
            }
        }
    }

    /// Directories for the data of a database and for its log, apart from each other: two volumes of a pool,
    /// two file systems on the same drives, or two directories.
    ///
    /// # Errors
    /// When they cannot be made, or the target has no file system.
    pub fn lay_apart(&self, needs: Needs, log_bytes: u64, mounts: (&Path, &Path)) -> Result<Laid, Refusal> {
        let (mount, of_log) = mounts;
        if let Place::Disks(disks) = self {
            disks.make_mounted_with_log(needs.number, (needs.size_bytes, log_bytes), mounts)?;
            return Ok(Laid { data: mount.to_path_buf(), log: Some(of_log.to_path_buf()) });
        }
        let data = self.lay_directory(needs, mount)?;
        let log = self.lay_log(needs.number, log_bytes, of_log)?;
        Ok(Laid { data, log: Some(log) })
    }

    /// A directory for the log of a database whose data may lie elsewhere.
    ///
    /// # Errors
    /// When it cannot be made, or the target has no file system.
    pub fn lay_log(&self, number: usize, size_bytes: u64, mount: &Path) -> Result<PathBuf, Refusal> {
        match self {
            Place::Directory { own, .. } => {
                let directory = own.join(format!("set-{number}-log"));
                fs::create_dir_all(&directory)
                    .map_err(|error| Refusal(format!("{}: {error}", directory.display())))?;
                Ok(directory)
            }
            Place::Volumes(made) => made.make_log(size_bytes, mount).map(|()| mount.to_path_buf()),
            Place::Disks(disks) => disks.make_log(number, size_bytes, mount).map(|()| mount.to_path_buf()),
            _ => Err(Refusal(format!(
                "{}: a log needs a file system: name a directory, or a pool as ashlar:POOL",
                self.name()
            ))),
        }
    }

    /// A directory for files of others: on a pool, of a volume that is made, formatted as ext4 and mounted at
    /// `mount`.
    ///
    /// # Errors
    /// When it cannot be made, or the target has no file system.
    pub fn lay_directory(&self, needs: Needs, mount: &Path) -> Result<PathBuf, Refusal> {
        match self {
            Place::Directory { own, .. } => {
                let directory = own.join(format!("set-{}", needs.number));
                fs::create_dir_all(&directory)
                    .map_err(|error| Refusal(format!("{}: {error}", directory.display())))?;
                Ok(directory)
            }
            Place::Volumes(made) => made.make_mounted(needs.size_bytes, mount),
            Place::Disks(disks) => disks.make_mounted(needs.number, needs.size_bytes, mount),
            Place::Device { named, .. } | Place::Model { named, .. } | Place::Nbd { uri: named, .. } => {
                Err(Refusal(format!(
                    "{named}: a database needs a file system: make one on it, and name its directory"
                )))
            }
            Place::Server(server) => {
                Err(Refusal(format!("{}: it has a server, and takes no other", server.named())))
            }
        }
    }

    /// Files on a volume and a file system that are made so, mounted at `mount`.
    ///
    /// # Errors
    /// When they cannot be made, or the target is no pool.
    pub fn lay_formatted(&self, needs: Needs, form: Form, mount: &Path) -> Result<Ground, Refusal> {
        let Place::Volumes(made) = self else {
            return Err(Refusal(format!(
                "{}: it takes volumes with logical blocks of {} bytes: name a pool as ashlar:POOL",
                self.name(),
                form.block_bytes
            )));
        };
        // For the file system itself.
        let size_bytes = needs.size_bytes + needs.size_bytes / 8 + (128 << 20);
        let directory = made.make_formatted(size_bytes, form, mount)?;
        let file = |file: u64| directory.join(format!("file-{file}"));
        Ok(Ground::Files((1..=needs.files).map(file).collect()))
    }

    /// Removes what was made on it.
    ///
    /// # Errors
    /// When something stays: says what, and how to remove it.
    pub fn clear(&self) -> Result<(), Refusal> {
        match self {
            Place::Directory { own, .. } => remove_own(own),
            Place::Volumes(made) => made.clear(),
            Place::Disks(disks) => disks.clear(),
            Place::Server(server) => server.clear(),
            Place::Device { .. } | Place::Nbd { .. } | Place::Model { .. } => Ok(()),
        }
    }

    /// Does something to make a data set: drives that are not there take no time for it.
    pub fn unpaced<T>(&self, work: impl FnOnce() -> T) -> T {
        match self {
            Place::Disks(disks) => disks.unpaced(work),
            _ => work(),
        }
    }

    /// Directories of its own, for whoever clears up.
    #[must_use]
    pub fn made_directories(&self) -> Vec<PathBuf> {
        match self {
            Place::Directory { own, .. } => vec![own.clone()],
            Place::Disks(disks) => vec![disks.own().to_path_buf()],
            _ => Vec::new(),
        }
    }

    /// The volumes that were made and not yet removed.
    #[must_use]
    pub fn made_volumes(&self) -> Vec<MadeVolume> {
        match self {
            Place::Volumes(made) => made.made(),
            _ => Vec::new(),
        }
    }

    /// The databases that were made and not yet removed.
    #[must_use]
    pub fn made_databases(&self) -> Vec<MadeDatabase> {
        match self {
            Place::Server(server) => server.made(),
            _ => Vec::new(),
        }
    }

    /// A server that was there; `None` where the lab makes its own.
    #[must_use]
    pub fn server(&self) -> Option<&Databases> {
        match self {
            Place::Server(server) => Some(server),
            _ => None,
        }
    }

    /// The snapshots that were made and not yet removed.
    #[must_use]
    pub fn made_snapshots(&self) -> Vec<MadeSnapshot> {
        match self {
            Place::Volumes(made) => made.snapshots(),
            _ => Vec::new(),
        }
    }

    /// For snapshots of what is mounted there; `None` where the target has none.
    #[must_use]
    pub fn copies(&self, mount: &Path) -> Option<Copies> {
        match self {
            Place::Volumes(made) => made.copies(mount),
            _ => None,
        }
    }

    /// Volumes of its own whose room is counted; `None` where there are none.
    #[must_use]
    pub fn volumes(&self) -> Option<&Volumes> {
        match self {
            Place::Volumes(made) => Some(made),
            _ => None,
        }
    }

    /// As it was named.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Place::Directory { named, .. } => named.display().to_string(),
            Place::Device { named, .. } | Place::Model { named, .. } => named.clone(),
            Place::Volumes(volumes) => volumes.named.clone(),
            Place::Disks(disks) => disks.named.clone(),
            Place::Server(server) => server.named().to_string(),
            Place::Nbd { uri, .. } => uri.clone(),
        }
    }

    /// What may be written: free space, or the whole device.
    ///
    /// # Errors
    /// When the file system or the array does not say.
    pub fn room_bytes(&self) -> Result<u64, Refusal> {
        match self {
            Place::Directory { own, .. } => free_bytes(own),
            Place::Disks(disks) => free_bytes(disks.own()),
            Place::Device { size_bytes, .. }
            | Place::Nbd { size_bytes, .. }
            | Place::Model { size_bytes, .. } => Ok(*size_bytes),
            Place::Volumes(volumes) => volumes.room_bytes(),
            // Nobody who asks it over SQL is told.
            Place::Server(_) => Ok(u64::MAX),
        }
    }

    /// It has room beyond what is its own: a data set may not fill it.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        matches!(self, Place::Directory { .. } | Place::Volumes(_) | Place::Disks(_))
    }

    /// What it stands on.
    ///
    /// # Errors
    /// When it cannot be looked at.
    pub fn footing(&self) -> Result<Footing, Refusal> {
        let unseen = |error: std::io::Error| Refusal(format!("{}: {error}", self.name()));
        match self {
            Place::Directory { own, .. } => Footing::of(own).map_err(unseen),
            Place::Device { path, attached, .. } => {
                let device = Footing::of_device(path).map_err(unseen)?;
                match attached {
                    Some(attached) => Ok(Footing::of_pool(attached.volumes.facts()?, device.devices)),
                    None => Ok(device),
                }
            }
            Place::Volumes(volumes) => {
                let device = volumes.device().and_then(|path| Footing::of_device(&path).ok());
                let devices = device.map(|device| device.devices).unwrap_or_default();
                Ok(Footing::of_pool(volumes.facts()?, devices))
            }
            Place::Nbd { uri, .. } => Ok(Footing::of_export(uri)),
            Place::Disks(disks) => disks.footing().map_err(unseen),
            Place::Server(server) => Ok(Footing::of_server(&server.in_words())),
            Place::Model { spec, .. } => Ok(Footing::of_model(&spec.in_words())),
        }
    }

    /// Of the array behind it; `None` where there is none.
    #[must_use]
    pub fn meter(&self) -> Option<Meter> {
        match self {
            Place::Volumes(volumes) => Some(volumes.meter()),
            Place::Device { attached: Some(attached), .. } => Some(attached.volumes.meter()),
            _ => None,
        }
    }
}

/// Removes a directory of the lab's own.
pub(crate) fn remove_own(own: &Path) -> Result<(), Refusal> {
    match fs::remove_dir_all(own) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Refusal(format!("{} is left: {error}: remove it", own.display())))
        }
        _ => Ok(()),
    }
}

/// What the file system of a directory has free.
///
/// # Errors
/// When it does not say.
pub fn free_bytes(own: &Path) -> Result<u64, Refusal> {
    let space = rustix::fs::statvfs(own)
        .map_err(|error| Refusal(format!("{}: ask for free space: {error}", own.display())))?;
    Ok(space.f_bavail * space.f_frsize)
}

impl Drop for Place {
    fn drop(&mut self) {
        let _stays = self.clear();
    }
}

fn open_model(named: &str) -> Result<Place, Refusal> {
    let refused = |error: ashlar_model::error::Error| Refusal(format!("{named}: {error}"));
    let spec = Spec::parse(named).map_err(refused)?;
    let size_bytes = Array::new(spec.clone(), 0).map_err(refused)?.capacity_bytes();
    Ok(Place::Model { named: named.to_string(), spec: Box::new(spec), size_bytes })
}

fn open_directory(named: &Path) -> Result<Place, Refusal> {
    let refused = |what: &str| Refusal(format!("{}: {what}", named.display()));
    let metadata = fs::metadata(named).map_err(|error| refused(&error.to_string()))?;
    if metadata.file_type().is_block_device() {
        return Err(refused(&format!(
            "is a device: name it as block:{} and give leave to overwrite it with --destroy",
            named.display()
        )));
    }
    if !metadata.is_dir() {
        return Err(refused("is not a directory: name a directory, or a device as block:/dev/NAME"));
    }
    let named = named.canonicalize().map_err(|error| refused(&error.to_string()))?;
    let own = named.join(format!("{OWN_PREFIX}{}", std::process::id()));
    fs::create_dir(&own).map_err(|error| refused(&format!("make a directory in it: {error}")))?;
    Ok(Place::Directory { named, own })
}

fn open_device(
    named: &str,
    path: &Path,
    may_destroy: bool,
    attached: Option<Attached>,
) -> Result<Place, Refusal> {
    let refused = |what: &str| Refusal(format!("{named}: {what}"));
    let metadata = fs::metadata(path).map_err(|error| refused(&error.to_string()))?;
    if !metadata.file_type().is_block_device() {
        return Err(refused("is not a block device: name a directory without block:"));
    }
    if !may_destroy {
        return Err(refused("everything on it would be overwritten: say so with --destroy"));
    }
    // As the kernel does for mounts, swap, RAID and device mapper: whoever uses it holds it.
    let exclusive = rustix::fs::OFlags::EXCL.bits() as i32;
    let file = fs::File::options()
        .read(true)
        .write(true)
        .custom_flags(exclusive)
        .open(path)
        .map_err(|error| refused(&format!("{error}: it is mounted or in use")))?;
    let sectors = fs::read_to_string(format!(
        "/sys/dev/block/{}:{}/size",
        rustix::fs::major(metadata.rdev()),
        rustix::fs::minor(metadata.rdev())
    ));
    let sectors = sectors.ok().and_then(|text| text.trim().parse::<u64>().ok());
    let size_bytes = sectors.ok_or_else(|| refused("its size is not known"))? * 512;
    let (named, path) = (named.to_string(), path.to_path_buf());
    Ok(Place::Device { named, path, size_bytes, _exclusive: file, attached })
}

/// What hosts can still write to a pool; `None` of every other target.
///
/// # Errors
/// When there is no such pool, or it does not say.
pub fn space_bytes(named: &str, access: &Access) -> Result<Option<u64>, Refusal> {
    if Kind::of(named)? != Kind::Pool {
        return Ok(None);
    }
    let (pool, _) = volumes::parse(Kind::rest(named))?;
    let client = access.array.clone().ok_or_else(|| Refusal(format!("{named}: no array is known here")))?;
    Volumes::new(named, client, pool, None).room_bytes().map(Some)
}

/// A volume that exists is a device that may be overwritten; otherwise volumes are made.
fn open_volumes(named: &str, rest: &str, access: &Access) -> Result<Place, Refusal> {
    let (pool, volume) = volumes::parse(rest)?;
    let refused = |what: String| Refusal(format!("{named}: {what}"));
    let client = access.array.clone().ok_or_else(|| refused("no array is known here".into()))?;
    client.pool(pool).map_err(|error| refused(error.to_string()))?;
    let Some(name) = volume else { return Ok(Place::Volumes(Volumes::new(named, client, pool, None))) };
    match client.volume(name) {
        Ok(found) if found.pool != pool => Err(refused(format!(
            "volume `{name}` is in pool `{}`: name it as ashlar:{}/{name}",
            found.pool, found.pool
        ))),
        Ok(_) if !access.may_destroy => Err(refused(format!(
            "volume `{name}` exists, and everything on it would be overwritten: say so with --destroy, or name \
             a volume that does not exist: it is made, and removed at the end"
        ))),
        Ok(found) => match found.device {
            Some(device) => {
                Err(refused(format!("it is attached as {device}: detach it, or name block:{device}")))
            }
            None => {
                let path = volumes::attach(&client, name).map_err(|error| refused(error.to_string()))?;
                let volumes = Volumes::new(named, client.clone(), pool, Some(name));
                let attached = Attached { client, volume: name.to_string(), volumes };
                open_device(named, &path, true, Some(attached))
            }
        },
        Err(error) if error.kind == ErrorKind::NotFound => {
            Ok(Place::Volumes(Volumes::new(named, client, pool, Some(name))))
        }
        Err(error) => Err(refused(error.to_string())),
    }
}
