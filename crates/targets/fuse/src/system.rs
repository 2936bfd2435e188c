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

/// New memory that nobody can shrink, known by its descriptor alone.
pub fn sealed_memory(length_bytes: u64) -> io::Result<OwnedFd> {
    // SAFETY: a string with an end; the result is checked.
    let fd = check(unsafe {
        libc::memfd_create(c"ashlar-open-files".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)
    } as isize)?;
    // SAFETY: the descriptor is new and nobody else's.
    let memory = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    let length = libc::off_t::try_from(length_bytes).map_err(io::Error::other)?;
    // SAFETY: these calls take numbers only.
    check(unsafe { libc::ftruncate(memory.as_raw_fd(), length) } as isize)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_ADD_SEALS, seals) } as isize)?;
    Ok(memory)
}

/// Writes all of `bytes` into such memory.
pub fn write_memory(memory: BorrowedFd<'_>, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let (rest, at) = (&bytes[done..], place(offset, done)?);
        // SAFETY: `rest` lives through the call and is only read.
        match check(unsafe { libc::pwrite(memory.as_raw_fd(), rest.as_ptr().cast(), rest.len(), at) })? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => done += written,
        }
    }
    Ok(())
}

/// Fills `bytes` from such memory.
pub fn read_memory(memory: BorrowedFd<'_>, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let (rest, at) = (&mut bytes[done..], place(offset, done)?);
        // SAFETY: `rest` is ours for the call and has the length we say.
        match check(unsafe { libc::pread(memory.as_raw_fd(), rest.as_mut_ptr().cast(), rest.len(), at) })? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => done += read,
        }
    }
    Ok(())
}

fn place(offset: u64, done: usize) -> io::Result<libc::off_t> {
    libc::off_t::try_from(offset + done as u64).map_err(io::Error::other)
}

/// Makes the memory of a buffer resident, and keeps it so where that is allowed. Where it is not resident, a
/// reader that is killed while the kernel copies into it makes that request fail.
pub fn make_resident(buffer: &mut [u8]) {
    /// <linux/mman.h>: as if every page were written.
    const MADV_POPULATE_WRITE: libc::c_int = 23;
    const PAGE_BYTES: usize = 4096;
    let start = buffer.as_mut_ptr() as usize / PAGE_BYTES * PAGE_BYTES;
    let end = (buffer.as_mut_ptr() as usize + buffer.len()).next_multiple_of(PAGE_BYTES);
    let (pages, length) = (start as *mut libc::c_void, end - start);
    // SAFETY: these pages hold our own memory, whose content both calls leave as it is. Pages that are locked
    // stay so when the memory is used for something else, which only keeps them from being swapped.
    let is_resident =
        unsafe { libc::mlock(pages, length) == 0 || libc::madvise(pages, length, MADV_POPULATE_WRITE) == 0 };
    if !is_resident {
        buffer.chunks_mut(PAGE_BYTES).for_each(|page| {
            let first = std::hint::black_box(page[0]);
            page[0] = std::hint::black_box(first);
        });
    }
}

/// Looks at a mounted directory, so that its server gets a request.
pub fn look_at(mount_point: &CStr) -> io::Result<()> {
    // SAFETY: plain numbers, for which zero is valid.
    let mut status: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `mount_point` has an end and `status` lives through the call.
    check(unsafe { libc::statfs(mount_point.as_ptr(), &raw mut status) } as isize).map(drop)
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
