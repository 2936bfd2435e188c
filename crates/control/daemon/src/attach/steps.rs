//! What is done to a volume's file, its device and what is mounted of it: whole attachments, in steps.
//!
//! Each step may wait for the array itself, in a way that nothing ends. So they are taken in a
//! [process of its own](crate::subprocess).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::{Error, ErrorKind, Result};
use super::loop_device::{self, AttachOptions};
use super::mount::{self, FileSystem, Trust};
use super::uses::Use;

/// How long a process in a mount namespace of its own may take to unmount what it does not need.
const COPIES_WAIT_MAX: Duration = Duration::from_secs(2);

/// What is to be done.
#[derive(Debug, Serialize, Deserialize)]
pub enum Steps {
    /// A volume's file becomes a device, and if wanted a mounted file system.
    Attach(Attachment),
    /// That is taken back. A device that does not stand on the file any more is left alone.
    Detach {
        /// The file that carries the device.
        file: PathBuf,
        /// The device.
        device: PathBuf,
        /// Out of sight at once, whoever uses it.
        is_forced: bool,
        /// Somebody knows already that not all was written.
        is_loss_told: bool,
    },
    /// The device looks at its file's size again.
    Resize {
        /// The device.
        device: PathBuf,
    },
    /// The ext4 on a device takes all of it.
    Grow {
        /// The device.
        device: PathBuf,
        /// It is mounted.
        is_mounted: bool,
    },
    /// What holds no file is given back.
    Trim {
        /// Where the file system is mounted.
        directory: PathBuf,
    },
    /// What is at a directory on which something is to be mounted.
    Look {
        /// The directory.
        directory: PathBuf,
    },
}

/// How a volume is to be attached.
#[derive(Debug, Serialize, Deserialize)]
pub struct Attachment {
    /// The file that carries the device.
    pub file: PathBuf,
    /// How its device is to be.
    pub options: AttachOptions,
    /// A new file system.
    pub format: Option<FileSystem>,
    /// Whatever is there may be lost.
    pub is_forced: bool,
    /// Where to mount it.
    pub mount: Option<PathBuf>,
    /// Nobody writes to what is mounted.
    pub is_mounted_read_only: bool,
    /// What of the file system takes effect.
    pub trust: Trust,
}

/// What was done.
#[derive(Debug, Serialize, Deserialize)]
pub enum Done {
    /// All there is to say.
    Done,
    /// The device.
    Attached(PathBuf),
    /// So many bytes.
    Trimmed(u64),
    /// The directory without links, where it is there, and how much is in it.
    Seen(Option<PathBuf>, usize),
}

/// Why it was not.
#[derive(Debug)]
pub struct Undone {
    /// What went wrong.
    pub error: Error,
    /// A device that could not be let go again.
    pub left: Option<PathBuf>,
}

impl Undone {
    /// The array stops.
    pub(crate) fn stopping() -> Undone {
        Error::new(ErrorKind::Busy, "the array is stopping").into()
    }
}

impl From<Error> for Undone {
    fn from(error: Error) -> Undone {
        Undone { error, left: None }
    }
}

/// Takes the steps. Blocks for as long as the volume's I/O takes.
pub fn take(steps: &Steps) -> std::result::Result<Done, Undone> {
    match steps {
        Steps::Attach(attachment) => attach(attachment).map(Done::Attached),
        Steps::Detach { file, device, is_forced, is_loss_told } => {
            detach(file, device, *is_forced, *is_loss_told)?;
            Ok(Done::Done)
        }
        Steps::Resize { device } => {
            loop_device::resize(device)?;
            Ok(Done::Done)
        }
        Steps::Grow { device, is_mounted } => {
            mount::grow_ext4(device, *is_mounted)?;
            Ok(Done::Done)
        }
        Steps::Trim { directory } => Ok(Done::Trimmed(mount::trim(directory)?)),
        Steps::Look { directory } => {
            let entries = fs::read_dir(directory).map_or(0, Iterator::count);
            Ok(Done::Seen(fs::canonicalize(directory).ok(), entries))
        }
    }
}

fn attach(attachment: &Attachment) -> std::result::Result<PathBuf, Undone> {
    let Attachment { file, options, mount, .. } = attachment;
    // Before anything is written: a wrong directory must not cost what the volume holds.
    let made = mount.as_deref().map(mount::make_directory).transpose()?.unwrap_or_default();
    let device = loop_device::attach(file, *options).inspect_err(|_| mount::remove_directories(&made))?;
    let Err(error) = format_and_mount(&device, attachment) else { return Ok(device) };
    // Back to where we started; the first error is the one that says what to do.
    let left = take_down(&device, true).is_err().then_some(device);
    mount::remove_directories(&made);
    Err(Undone { error, left })
}

fn format_and_mount(device: &Path, attachment: &Attachment) -> Result<()> {
    let Attachment { format, is_forced, mount, is_mounted_read_only, trust, .. } = attachment;
    if let Some(file_system) = format {
        mount::make_file_system(device, *file_system, *is_forced)?;
    }
    if let Some(directory) = mount {
        mount::mount(device, directory, *is_mounted_read_only, *trust)?;
    }
    Ok(())
}

fn detach(file: &Path, device: &PathBuf, is_forced: bool, is_loss_told: bool) -> Result<()> {
    // Somebody may have detached it behind our back, and loop numbers are given out again at once: a device
    // that does not stand on the volume any more is none of ours. One that was told to go, by us or by
    // `losetup -d`, and has not gone still is.
    if !loop_device::find_devices(file)?.contains(device) {
        return Ok(());
    }
    if is_forced { take_down_lazily(device) } else { take_down(device, is_loss_told) }
}

/// Unmounts and detaches. Whoever uses the device in a way that an unmount here does not end is found before
/// anything is unmounted, so that a refusal changes nothing.
fn take_down(device: &Path, is_loss_told: bool) -> Result<()> {
    wait_for_other_users(device)?;
    // The kernel's table, not our memory: a person may have mounted or unmounted since.
    let mounts = mount::mounts_of_device(device)?;
    if !is_loss_told {
        mounts.iter().try_for_each(|mount| mount::write_out(&mount.directory))?;
    }
    mounts.iter().try_for_each(|mount| mount::unmount(&mount.directory))?;
    loop_device::detach(device)
}

/// Waits a moment until nobody uses the device in a way that an unmount here does not end.
fn wait_for_other_users(device: &Path) -> Result<()> {
    let ends_with_unmount = |using: &Use| match using {
        Use::Mounted { .. } | Use::MountedElsewhere { is_shared: true, .. } => true,
        // What opened it for a moment is waited for at the end; what claims it may be our own mount.
        Use::Open { .. } | Use::Claimed { .. } => true,
        Use::MountedElsewhere { .. } | Use::MountedUpon { .. } => false,
        Use::Device { .. } | Use::Swap { .. } => false,
    };
    loop_device::wait_for_users(device, COPIES_WAIT_MAX, |uses| {
        uses.retain(|using| !ends_with_unmount(using))
    })
}

/// Takes everything out of sight; what is in use goes with its users. What they wrote so far is written out:
/// the device may not live to see their end.
fn take_down_lazily(device: &Path) -> Result<()> {
    // What something else is mounted on stays: that would go with it.
    let mounts = mount::mounts_of_device(device)?.into_iter().filter(|mount| mount.other.is_none());
    for directory in mounts.map(|mount| mount.directory) {
        mount::unmount(&directory).or_else(|_| {
            let _told_before = mount::write_out(&directory);
            mount::unmount_lazily(&directory)
        })?;
    }
    loop_device::let_go(device)
}
