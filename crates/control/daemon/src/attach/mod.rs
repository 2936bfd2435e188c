//! Local attach: a volume's FUSE file becomes a block device, and if wanted a mounted file system.
//!
//! All functions block, some for as long as the volume's I/O takes. Those are the steps, which a process of
//! its own takes. The rest runs on threads of the control side, never on the shard that serves the files: the
//! kernel asks that shard meanwhile.
//!
//! The kernel's own tables are the only record of what is attached, so nothing can get out of step:
//! [`find_attached`] finds our devices after a restart, and [`clean_stale`] removes what a killed
//! daemon left.

mod below;
mod device_process;
mod elsewhere;
mod error;
mod kernel_messages;
mod loop_device;
mod mount;
mod nbd_device;
mod stack;
mod stale;
mod steps;
mod uses;

pub use below::{Below, OnVolume, Place, below, loop_device_on};
pub use device_process::{run_device_process, take_steps};
pub use elsewhere::mounted_elsewhere;
pub use error::{Error, ErrorKind, Result};
pub use loop_device::{AttachOptions, Attached, find_attached, is_direct};
pub use mount::{FileSystem, Trust, is_listed, probe};
pub use nbd_device::{Client, Own};
pub use stale::{CleanReport, Kept, clean_stale};
pub use steps::{Attachment, Done, Steps, Undone};
pub use uses::{FileUse, Process, Use, processes_below, uses_below, uses_of_device, writer_of};

/// Tells the kernel that this process serves block devices: its memory allocations must not wait for
/// writes that only it could carry out. Called at the start, before the first thread is made, because
/// threads inherit it and it can not be given to them later. Needs CAP_SYS_RESOURCE.
pub fn set_io_flusher() -> Result<()> {
    // <linux/prctl.h>; the libc crate does not carry it.
    const PR_SET_IO_FLUSHER: libc::c_int = 57;
    // SAFETY: this request takes numbers only.
    if unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) } < 0 {
        return Err(Error::last("mark this process as an I/O flusher"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
