//! Opening, sizing and locking what a drive is made of. Blocking calls, run beside the shard.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::time::Duration;

use crate::OpenDrive;
use crate::clock;

/// `_IOR(0x12, 114, size_t)`: size of a block device in bytes.
const BLKGETSIZE64: libc::c_ulong = 0x8008_1272;
/// `_IO(0x12, 119)`: forget a range of a block device.
const BLKDISCARD: libc::c_ulong = 0x1277;
/// How long udev may hold a device's lock: it looks at each one that was just written to. Arbitrary: that
/// takes milliseconds, and seconds while a slow machine starts.
pub const UDEV_WAIT_MAX: Duration = Duration::from_secs(10);
/// How often to try again meanwhile. Arbitrary, short against what is waited for.
pub const UDEV_WAIT_STEP: Duration = Duration::from_millis(10);

pub(crate) struct Opened {
    pub(crate) fd: OwnedFd,
    pub(crate) size_bytes: u64,
    pub(crate) is_block_device: bool,
}

fn named(error: &io::Error, action: &str, path: &str) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {action} drive {path}: {error}"))
}

fn in_use(path: &str) -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, format!("drive {path} is in use by another process"))
}

pub(crate) fn open(path: &str, options: &OpenDrive) -> io::Result<Opened> {
    let existing = std::fs::metadata(path);
    let is_block_device = existing.as_ref().is_ok_and(|metadata| metadata.file_type().is_block_device());
    if let Ok(metadata) = &existing
        && !is_block_device
        && !metadata.is_file()
    {
        let text = format!("drive {path} is neither a file nor a block device");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let file = open_direct(path, options, is_block_device).map_err(|error| {
        if error.raw_os_error() == Some(libc::EBUSY) { in_use(path) } else { named(&error, "open", path) }
    })?;
    // Who has the device as a drive was found by O_EXCL: only udev and its like lock it without that.
    let patience = if is_block_device && !options.is_read_only { UDEV_WAIT_MAX } else { Duration::ZERO };
    lock(&file, path, options.is_read_only, patience)?;
    if let Some(wanted) = options.create_size_bytes
        && !is_block_device
        && !options.is_read_only
    {
        extend(&file, wanted).map_err(|error| named(&error, "size", path))?;
        if existing.is_err() {
            sync_directory(path).map_err(|error| named(&error, "make", path))?;
        }
    }
    let size_bytes = size(&file, is_block_device).map_err(|error| named(&error, "measure", path))?;
    Ok(Opened { fd: file.into(), size_bytes, is_block_device })
}

fn open_direct(path: &str, options: &OpenDrive, is_block_device: bool) -> io::Result<File> {
    let is_made = options.create_size_bytes.is_some() && !options.is_read_only && !is_block_device;
    // On a block device O_EXCL keeps file systems and other users of the device out.
    let exclusive = if is_block_device && !options.is_read_only { libc::O_EXCL } else { 0 };
    let with = |flags: i32| {
        let mut open = OpenOptions::new();
        open.read(true).write(!options.is_read_only).create(is_made).mode(0o600);
        open.custom_flags(flags | exclusive | libc::O_CLOEXEC).open(path)
    };
    match with(libc::O_DIRECT) {
        // The file system has no direct I/O (tmpfs of old): its page cache must do.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => with(0),
        result => result,
    }
}

fn lock(file: &File, path: &str, is_shared: bool, patience: Duration) -> io::Result<()> {
    let kind = if is_shared { libc::LOCK_SH } else { libc::LOCK_EX };
    let deadline = clock::monotonic_nanos().saturating_add(patience.as_nanos() as u64);
    loop {
        // SAFETY: no pointers; the descriptor is open.
        if unsafe { libc::flock(file.as_raw_fd(), kind | libc::LOCK_NB) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EWOULDBLOCK) {
            return Err(named(&error, "lock", path));
        }
        if clock::monotonic_nanos() >= deadline {
            return Err(in_use(path));
        }
        // With the device open: a close would make udev look at it once more.
        clock::pause(UDEV_WAIT_STEP);
    }
}

fn extend(file: &File, wanted: u64) -> io::Result<()> {
    let present = file.metadata()?.len();
    if present >= wanted {
        return Ok(());
    }
    file.set_len(wanted)?;
    preallocate(file, present, wanted)?;
    file.sync_all()
}

/// Claims the space now, so that a write does not fail for want of it later.
fn preallocate(file: &File, present: u64, wanted: u64) -> io::Result<()> {
    let (offset, length) = (present as libc::off_t, (wanted - present) as libc::off_t);
    // SAFETY: no pointers; the descriptor is open.
    if unsafe { libc::fallocate(file.as_raw_fd(), 0, offset, length) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // No preallocation here; blocks come as they are written.
        Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL) => Ok(()),
        _ => {
            // Leave the file as it was found, not long and empty.
            file.set_len(present)?;
            Err(error)
        }
    }
}

/// Makes a new file's name durable.
fn sync_directory(path: &str) -> io::Result<()> {
    match std::path::Path::new(path).parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        Some(_) | None => File::open(".")?.sync_all(),
    }
}

pub(crate) fn size(file: &File, is_block_device: bool) -> io::Result<u64> {
    if !is_block_device {
        return Ok(file.metadata()?.len());
    }
    let mut bytes = 0u64;
    // SAFETY: the call writes one u64 to `bytes`.
    if unsafe { libc::ioctl(file.as_raw_fd(), BLKGETSIZE64 as _, &mut bytes) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(bytes)
}

/// Makes a range of a file read as zeroes and keeps its space, without writing it.
pub(crate) fn zero_range(fd: RawFd, offset: u64, len: u64) -> io::Result<()> {
    let mode = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: no pointers; the caller keeps the descriptor open.
    if unsafe { libc::fallocate(fd, mode, offset as libc::off_t, len as libc::off_t) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Tells a block device to forget a range.
pub(crate) fn discard_blocks(fd: RawFd, offset: u64, len: u64) -> io::Result<()> {
    let range = [offset, len];
    // SAFETY: the call reads two u64 from `range`; the caller keeps the descriptor open.
    if unsafe { libc::ioctl(fd, BLKDISCARD as _, &range) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
