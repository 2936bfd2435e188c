//! A target as a person names it, and whether it may be written to.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::below::Footing;

/// What comes before the path of a device.
const DEVICE_PREFIX: &str = "block:";
/// What the lab's files in a directory are called.
const OWN_PREFIX: &str = "ashlar-lab-";

/// A target that may be written to.
#[derive(Debug)]
pub enum Place {
    /// A directory of its own in one that was named; it goes when this is dropped.
    Directory { named: PathBuf, own: PathBuf },
    Device {
        path: PathBuf,
        size_bytes: u64,
        /// Kept open so that nobody mounts it meanwhile.
        _exclusive: fs::File,
    },
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

impl Place {
    /// `DIR`, or `block:/dev/NAME` with leave to destroy what is on it.
    ///
    /// # Errors
    /// When it is not there, cannot be written, is in use, or holds something that nobody gave up.
    pub fn open(named: &str, may_destroy: bool) -> Result<Place, Refusal> {
        match named.strip_prefix(DEVICE_PREFIX) {
            Some(path) => open_device(Path::new(path), may_destroy),
            None => open_directory(Path::new(named)),
        }
    }

    /// Where the test's data go.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        match self {
            Place::Directory { own, .. } => own.join("data"),
            Place::Device { path, .. } => path.clone(),
        }
    }

    /// As it was named.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Place::Directory { named, .. } => named.display().to_string(),
            Place::Device { path, .. } => path.display().to_string(),
        }
    }

    /// What may be written: free space, or the whole device.
    ///
    /// # Errors
    /// When the file system does not say.
    pub fn room_bytes(&self) -> Result<u64, Refusal> {
        match self {
            Place::Directory { own, .. } => {
                let space = rustix::fs::statvfs(own)
                    .map_err(|error| Refusal(format!("{}: ask for free space: {error}", own.display())))?;
                Ok(space.f_bavail * space.f_frsize)
            }
            Place::Device { size_bytes, .. } => Ok(*size_bytes),
        }
    }

    /// What it stands on.
    ///
    /// # Errors
    /// When it cannot be looked at.
    pub fn footing(&self) -> std::io::Result<Footing> {
        match self {
            Place::Directory { own, .. } => Footing::of(own),
            Place::Device { path, .. } => Footing::of_device(path),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Place::Directory { own, .. } = self {
            let _gone = fs::remove_dir_all(own);
        }
    }
}

fn open_directory(named: &Path) -> Result<Place, Refusal> {
    let refused = |what: &str| Refusal(format!("{}: {what}", named.display()));
    let metadata = fs::metadata(named).map_err(|error| refused(&error.to_string()))?;
    if metadata.file_type().is_block_device() {
        return Err(refused(&format!(
            "is a device: name it as {DEVICE_PREFIX}{} and give leave to overwrite it with --destroy",
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

fn open_device(path: &Path, may_destroy: bool) -> Result<Place, Refusal> {
    let refused = |what: &str| Refusal(format!("{}: {what}", path.display()));
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
    Ok(Place::Device { path: path.to_path_buf(), size_bytes, _exclusive: file })
}
