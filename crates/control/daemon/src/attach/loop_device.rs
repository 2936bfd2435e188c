//! Loop devices over files: attach, detach, resize, and finding ours again after a crash.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use serde::{Deserialize, Serialize};

use super::error::{Error, ErrorKind, Result};
use super::uses::{Use, uses_of_device};

// Request numbers and layouts of <linux/loop.h>; the libc crate does not carry them.
const LOOP_CLR_FD: libc::c_ulong = 0x4C01;
const LOOP_SET_STATUS64: libc::c_ulong = 0x4C04;
const LOOP_GET_STATUS64: libc::c_ulong = 0x4C05;
const LOOP_SET_CAPACITY: libc::c_ulong = 0x4C07;
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// Another program may take the free device between our question and our claim.
const CLAIM_ATTEMPTS_MAX: usize = 32;
/// How long a device may stay in use after it was told to let go: udev and blkid look at new and
/// changed devices for some tens of milliseconds.
const RELEASE_WAIT_MAX: Duration = Duration::from_secs(5);
const RELEASE_POLL: Duration = Duration::from_millis(10);
/// How long a new device's node may take to appear by itself.
const NODE_WAIT_MAX: Duration = Duration::from_millis(200);
/// How long a device may take to tell its label. Arbitrary: one whose file is served answers in microseconds.
const LABEL_WAIT_MAX: Duration = Duration::from_secs(1);

#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

#[repr(C)]
struct LoopConfig {
    file: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopInfo>() == 232);
const _: () = assert!(size_of::<LoopConfig>() == 304);

impl LoopInfo {
    const ZERO: LoopInfo = LoopInfo {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        size_limit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: 0,
        file_name: [0; 64],
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
}

/// How to attach.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AttachOptions {
    /// 512 or 4096, the volume's own logical block.
    pub logical_block_bytes: u32,
    /// Past the page cache, so that a completed write has reached the array. Off only for tests.
    pub is_direct: bool,
    /// Take no writes; needed for snapshots.
    pub is_read_only: bool,
}

/// A loop device that stands on one of our files.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Attached {
    /// The device, `/dev/loopN`.
    pub device: PathBuf,
    /// The file's name, which is the volume's name.
    pub volume: String,
    /// Told to let go already; it goes when its last user does.
    pub is_leaving: bool,
}

/// Attaches `file` to a free loop device. Blocks: the kernel asks the file's server meanwhile, so
/// never call it on the thread that serves the file.
pub fn attach(file: &Path, options: AttachOptions) -> Result<PathBuf> {
    let backing = OpenOptions::new()
        .read(true)
        .write(!options.is_read_only)
        .custom_flags(ashlar_fuse::TAKER_FLAG)
        .open(file)
        .map_err(|e| Error::system(format!("open {}", file.display()), e))?;
    let control = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/loop-control")
        .map_err(|e| Error::system("open /dev/loop-control (is the loop driver there?)", e))?;
    for _ in 0..CLAIM_ATTEMPTS_MAX {
        // SAFETY: this request takes no argument and gives a number.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
        if number < 0 {
            return Err(Error::last("ask for a free loop device"));
        }
        let device = PathBuf::from(format!("/dev/loop{number}"));
        make_node(&device)?;
        match claim(&device, file, &backing, options) {
            Ok(()) => {
                if options.is_direct && !is_direct(&device) {
                    detach(&device)?;
                    let why = format!("{} can not use direct I/O on {}", device.display(), file.display());
                    return Err(Error::new(ErrorKind::Unsupported, why));
                }
                return Ok(device);
            }
            Err(error) if error.kind == ErrorKind::Busy => continue,
            Err(error) => return Err(error),
        }
    }
    Err(Error::new(ErrorKind::Busy, "every free loop device was taken by others before we could claim it"))
}

/// Makes the device's node where nobody does: in a container /dev often is a plain directory.
fn make_node(device: &Path) -> Result<()> {
    if device.exists() {
        return Ok(());
    }
    let number = sysfs(device, "dev").unwrap_or_default();
    let numbers = number
        .trim()
        .split_once(':')
        .and_then(|(major, minor)| Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?)));
    // The driver made the device a moment ago: a node that comes by itself may not be there yet.
    let end = Instant::now() + NODE_WAIT_MAX;
    while !device.exists() && Instant::now() < end {
        thread::sleep(RELEASE_POLL);
    }
    let Some((major, minor)) = numbers.filter(|_| !device.exists()) else { return Ok(()) };
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP;
    match mknodat(CWD, device, FileType::BlockDevice, mode, makedev(major, minor)) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => {
            let path = device.display();
            let why = format!("{path} is missing here, as in a container, and cannot be made ({error})");
            let cure = format!("`mknod {path} b {major} {minor}` as root makes it");
            Err(Error::new(ErrorKind::Unsupported, format!("{why}: {cure}")))
        }
    }
}

fn claim(device: &Path, file: &Path, backing: &File, options: AttachOptions) -> Result<()> {
    let mut info = LoopInfo::ZERO;
    info.flags = if options.is_read_only { LO_FLAGS_READ_ONLY } else { 0 }
        | if options.is_direct { LO_FLAGS_DIRECT_IO } else { 0 };
    let label = label_of(file);
    info.file_name[..label.len()].copy_from_slice(&label);
    let config = LoopConfig {
        file: backing.as_raw_fd() as u32,
        block_size: options.logical_block_bytes,
        info,
        reserved: [0; 8],
    };
    let opened = open_device(device)?;
    // SAFETY: `config` has the kernel's layout (asserted above) and lives through the call.
    let result = unsafe { libc::ioctl(opened.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
    if result < 0 {
        return Err(Error::last(format!(
            "attach {} to {} with {} byte blocks",
            file.display(),
            device.display(),
            options.logical_block_bytes
        )));
    }
    Ok(())
}

fn open_device(device: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(device)
        // A read-only loop device refuses to be opened for writing.
        .or_else(|_| OpenOptions::new().read(true).open(device))
        .map_err(|e| Error::system(format!("open {}", device.display()), e))
}

/// Lets go of the file. Refuses while somebody uses the device, and names who; waits for short users. A
/// device that could not be let go stays attached as it was.
pub fn detach(device: &Path) -> Result<()> {
    wait_for_users(device, RELEASE_WAIT_MAX, |_| ())?;
    let let_go = let_go(device);
    if let Err(error) = &let_go
        && error.kind == ErrorKind::Busy
    {
        // Somebody opened it meanwhile. It is not to vanish later, when nobody counts on it any more.
        keep(device)?;
    }
    let_go
}

/// Waits until nobody uses the device, but for those that `leave_out` takes off the list. Refuses at once
/// when somebody may stay, after a while otherwise, and names who.
pub(super) fn wait_for_users(
    device: &Path,
    wait_max: Duration,
    leave_out: impl Fn(&mut Vec<Use>),
) -> Result<()> {
    let end = Instant::now() + wait_max;
    loop {
        let mut uses = uses_of_device(device)?;
        leave_out(&mut uses);
        if uses.is_empty() {
            return Ok(());
        }
        if !uses.iter().all(Use::may_pass) || Instant::now() > end {
            return Err(in_use(device, &uses));
        }
        thread::sleep(RELEASE_POLL);
    }
}

/// The refusal that names these uses.
pub fn in_use(device: &Path, uses: &[Use]) -> Error {
    let uses: Vec<String> = uses.iter().map(ToString::to_string).collect();
    Error::new(ErrorKind::Busy, format!("{} is in use: {}", device.display(), uses.join("; ")))
}

/// Lets go of the file whoever uses the device, and waits a while until it has gone. Where somebody still
/// uses it then, it goes by itself when its last user does.
pub fn let_go(device: &Path) -> Result<()> {
    release(device)?;
    let end = Instant::now() + RELEASE_WAIT_MAX;
    while is_attached(device) {
        if Instant::now() > end {
            let uses = uses_of_device(device)?;
            if uses.is_empty() {
                let why = format!("{} is still open somewhere; it goes when that ends", device.display());
                return Err(Error::new(ErrorKind::Busy, why));
            }
            return Err(in_use(device, &uses));
        }
        thread::sleep(RELEASE_POLL);
    }
    Ok(())
}

/// Takes back that the device goes with its last user. One that has gone is left alone.
fn keep(device: &Path) -> Result<()> {
    let opened = open_device(device)?;
    let Some(mut info) = status(&opened) else { return Ok(()) };
    if info.flags & LO_FLAGS_AUTOCLEAR == 0 {
        return Ok(());
    }
    info.flags &= !LO_FLAGS_AUTOCLEAR;
    // SAFETY: `info` has the kernel's layout (asserted above) and lives through the call.
    if unsafe { libc::ioctl(opened.as_raw_fd(), LOOP_SET_STATUS64, &raw const info) } < 0 {
        return Err(Error::last(format!("keep {} attached", device.display())));
    }
    Ok(())
}

/// Tells the device to let go of its file, now or when its last user closes it.
pub(super) fn release(device: &Path) -> Result<()> {
    let opened = open_device(device)?;
    // SAFETY: this request takes no argument.
    if unsafe { libc::ioctl(opened.as_raw_fd(), LOOP_CLR_FD) } < 0 {
        let error = io::Error::last_os_error();
        // Detached already.
        if error.raw_os_error() != Some(libc::ENXIO) {
            return Err(Error::system(format!("detach {}", device.display()), error));
        }
    }
    Ok(())
}

/// Tells the device to look at its file's size again.
pub fn resize(device: &Path) -> Result<()> {
    let opened = open_device(device)?;
    // SAFETY: this request takes no argument.
    if unsafe { libc::ioctl(opened.as_raw_fd(), LOOP_SET_CAPACITY) } < 0 {
        return Err(Error::last(format!("resize {}", device.display())));
    }
    Ok(())
}

/// Every loop device that stands on a file, and the file as it was called when that began.
pub fn all() -> Result<Vec<(PathBuf, PathBuf)>> {
    let listing = fs::read_dir("/sys/block").map_err(|e| Error::system("list /sys/block", e))?;
    let of_entry = |entry: fs::DirEntry| {
        let name = entry.file_name();
        name.as_bytes().starts_with(b"loop").then_some(())?;
        let backing = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        let file = backing.trim_end_matches('\n').trim_end_matches(" (deleted)");
        Some((Path::new("/dev").join(name), PathBuf::from(file)))
    };
    Ok(listing.flatten().filter_map(of_entry).collect())
}

/// The loop devices that stand on files of `directory`, by device. Works when the directory's server
/// is dead, and when it was already unmounted.
pub fn find_attached(directory: &Path) -> Result<Vec<Attached>> {
    let mut found = Vec::new();
    for (device, path) in all()? {
        let volume = match path.strip_prefix(directory) {
            Ok(volume) => Some(volume.to_string_lossy().into_owned()),
            Err(_) if is_cut_off(&path) => {
                label_in_time(&device).and_then(|label| volume_of_label(&label, directory))
            }
            Err(_) => None,
        };
        if let Some(volume) = volume {
            let is_leaving = sysfs(&device, "loop/autoclear").is_some_and(|text| text.trim() == "1");
            found.push(Attached { device, volume, is_leaving });
        }
    }
    found.sort();
    Ok(found)
}

/// The loop devices that stand on this file, also those that go with their last user: they live.
pub fn find_devices(file: &Path) -> Result<Vec<PathBuf>> {
    let (Some(directory), Some(name)) = (file.parent(), file.file_name()) else { return Ok(Vec::new()) };
    let attached = find_attached(directory)?.into_iter();
    let found = attached.filter(|attached| name == attached.volume.as_str());
    Ok(found.map(|attached| attached.device).collect())
}

/// True when the device goes past the page cache.
#[must_use]
pub fn is_direct(device: &Path) -> bool {
    sysfs(device, "loop/dio").is_some_and(|text| text.trim() == "1")
}

pub(super) fn is_attached(device: &Path) -> bool {
    sysfs(device, "loop/backing_file").is_some()
}

fn sysfs(device: &Path, file: &str) -> Option<String> {
    let name = device.file_name()?;
    fs::read_to_string(Path::new("/sys/block").join(name).join(file)).ok()
}

/// Longest label the driver keeps, one byte less than its field.
const LABEL_BYTES_MAX: usize = 63;

/// What we write into the driver's name field: the path, or where that is too long a hash of the
/// directory and as much of the name as fits.
pub(super) fn label_of(file: &Path) -> Vec<u8> {
    let path = file.as_os_str().as_bytes();
    if path.len() <= LABEL_BYTES_MAX {
        return path.to_vec();
    }
    let mut label = directory_label(file.parent().unwrap_or(Path::new("/")));
    label.extend(file.file_name().unwrap_or_default().as_bytes());
    label.truncate(LABEL_BYTES_MAX);
    label
}

fn directory_label(directory: &Path) -> Vec<u8> {
    let hash = directory.as_os_str().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("ashlar:{hash:016x}/").into_bytes()
}

pub(super) fn volume_of_label(label: &[u8], directory: &Path) -> Option<String> {
    let mut plain = directory.as_os_str().as_bytes().to_vec();
    plain.push(b'/');
    let name =
        label.strip_prefix(plain.as_slice()).or_else(|| label.strip_prefix(&*directory_label(directory)))?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// After a lazy unmount the kernel no longer knows the way from the root to a file, only from where it was
/// mounted: our volumes stand there at the top. Only then the label has to tell whose a device is.
fn is_cut_off(path: &Path) -> bool {
    path.parent() == Some(Path::new("/"))
}

/// The driver looks at the file before it tells the label, and so waits for whoever serves that file: another
/// array that hangs would hold up this one.
fn label_in_time(device: &Path) -> Option<Vec<u8>> {
    /// Devices that have not answered yet are not asked again, so that not more and more threads wait.
    static ASKED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let asked = || ASKED.lock().expect("no holder of this lock panics");
    if !asked().insert(device.to_path_buf()) {
        return None;
    }
    let (tell, told) = mpsc::channel();
    let device = device.to_path_buf();
    let ask = move || {
        let label = label(&device);
        asked().remove(&device);
        // Nobody listens any more when the time is over.
        let _ = tell.send(label);
    };
    thread::Builder::new().name("loop-label".to_string()).spawn(ask).ok()?;
    told.recv_timeout(LABEL_WAIT_MAX).ok().flatten()
}

fn label(device: &Path) -> Option<Vec<u8>> {
    let info = status(&open_device(device).ok()?)?;
    let length = info.file_name.iter().position(|byte| *byte == 0).unwrap_or(info.file_name.len());
    Some(info.file_name[..length].to_vec())
}

/// What the driver knows of an open device; `None` when it stands on nothing.
fn status(opened: &File) -> Option<LoopInfo> {
    let mut info = LoopInfo::ZERO;
    // SAFETY: `info` has the kernel's layout (asserted above) and lives through the call.
    let result = unsafe { libc::ioctl(opened.as_raw_fd(), LOOP_GET_STATUS64, &raw mut info) };
    (result >= 0).then_some(info)
}
