//! The system calls of mounting and of `/dev/fuse`, each a thin and safe wrapper.
//!
//! They go past the runtime on purpose: none of them waits. Reading is done on a descriptor that
//! does not block, a reply is copied by the kernel before the call returns, and mounting sends INIT
//! without waiting for its answer. Unmounting does wait, so it runs on a blocking thread.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const ENABLE_URING: &CStr = c"/sys/module/fuse/parameters/enable_uring";
const CPUS_POSSIBLE: &CStr = c"/sys/devices/system/cpu/possible";

fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn open(path: &CStr, flags: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: `path` is a string with an end; the result is checked.
    let fd = check(unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) } as isize)?;
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Opens the kernel's end of a new connection.
pub fn open_device() -> io::Result<OwnedFd> {
    open(c"/dev/fuse", libc::O_RDWR | libc::O_NONBLOCK)
}

/// Mounts the connection; `read_bytes_max` bounds one read.
pub fn mount(device: BorrowedFd<'_>, mount_point: &CStr, read_bytes_max: u32) -> io::Result<()> {
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions,max_read={read_bytes_max}",
        device.as_raw_fd()
    );
    let options = CString::new(options)?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC | libc::MS_NOATIME;
    // SAFETY: all four are strings with an end that live through the call.
    let result = unsafe {
        libc::mount(
            c"ashlar".as_ptr(),
            mount_point.as_ptr(),
            c"fuse.ashlar".as_ptr(),
            flags,
            options.as_ptr().cast(),
        )
    };
    check(result as isize).map(drop)
}

/// Ways to unmount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unmount {
    /// Out of sight now, gone when the last file is closed.
    Lazy,
    /// Cuts the connection, so that everything waiting for us fails; then as when idle.
    Abort,
}

/// Unmounts; it may wait for answers from the file system's server.
pub fn unmount(mount_point: &CStr, how: Unmount) -> io::Result<()> {
    let flags = libc::UMOUNT_NOFOLLOW
        | match how {
            Unmount::Lazy => libc::MNT_DETACH,
            Unmount::Abort => libc::MNT_FORCE,
        };
    // SAFETY: a string with an end that lives through the call.
    check(unsafe { libc::umount2(mount_point.as_ptr(), flags) } as isize).map(drop)
}

/// True when the directory answers, as a live one does; a mount whose server died does not.
pub fn probe_directory(path: &CStr) -> io::Result<()> {
    // SAFETY: a stat structure is plain numbers, zero is valid for all of them.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `path` has an end and `status` lives through the call.
    check(unsafe { libc::stat(path.as_ptr(), &raw mut status) } as isize)?;
    if status.st_mode & libc::S_IFMT != libc::S_IFDIR {
        return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
    }
    Ok(())
}

/// Reads one message if there is one.
pub fn read_now(device: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
    // SAFETY: `into` is ours for the call and has the length we say.
    check(unsafe { libc::read(device.as_raw_fd(), into.as_mut_ptr().cast(), into.len()) })
}

/// Sends a reply: its header, then its payload.
pub fn reply(device: BorrowedFd<'_>, header: &[u8], payload: &[u8]) -> io::Result<()> {
    let parts = [header, payload]
        .map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
    let count = if payload.is_empty() { 1 } else { 2 };
    // SAFETY: the parts live through the call and are only read.
    check(unsafe { libc::writev(device.as_raw_fd(), parts.as_ptr(), count) }).map(drop)
}

fn read_small(path: &CStr) -> io::Result<String> {
    let file = open(path, libc::O_RDONLY)?;
    let mut bytes = vec![0; 4096];
    let length = read_now(std::os::fd::AsFd::as_fd(&file), &mut bytes)?;
    bytes.truncate(length);
    Ok(String::from_utf8_lossy(&bytes).trim().to_string())
}

/// The kernel's switch for FUSE over io_uring: on while this lives, then as it was before.
///
/// A connection that was opened with the switch on keeps io_uring, so it need only be on until INIT
/// is answered; that way even a killed process leaves nothing switched on.
pub struct UringSwitch {
    is_changed: bool,
}

impl UringSwitch {
    /// Turns it on; an error means that this kernel or our rights do not allow it.
    pub fn turn_on() -> io::Result<UringSwitch> {
        if read_small(ENABLE_URING)? == "Y" {
            return Ok(UringSwitch { is_changed: false });
        }
        set_uring(b"Y")?;
        Ok(UringSwitch { is_changed: true })
    }
}

impl Drop for UringSwitch {
    fn drop(&mut self) {
        if self.is_changed {
            // It took "Y" from us a moment ago; should "N" fail, FUSE works all the same.
            let _ = set_uring(b"N");
        }
    }
}

fn set_uring(value: &[u8]) -> io::Result<()> {
    let file = open(ENABLE_URING, libc::O_WRONLY)?;
    // SAFETY: `value` lives through the call and is only read.
    check(unsafe { libc::write(file.as_raw_fd(), value.as_ptr().cast(), value.len()) }).map(drop)
}

/// CPUs that could ever be plugged in: the kernel wants a queue for each.
pub fn cpus_possible() -> io::Result<usize> {
    count_cpus(&read_small(CPUS_POSSIBLE)?)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the list of possible CPUs is unreadable"))
}

/// Counts a list such as `0-3,8-11`.
pub fn count_cpus(list: &str) -> Option<usize> {
    list.split(',').try_fold(0usize, |count, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.trim().parse::<usize>().ok()?, last.trim().parse::<usize>().ok()?);
        count.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}
