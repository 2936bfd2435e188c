//! The file that holds a disk's bytes.
//!
//! With direct I/O where the file must not be quicker than what it lies on (the memory of this machine would
//! answer, and every disk would look like one that caches); through the kernel's cache under the model, whose
//! times the file has to beat.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use crate::error::{Error, ErrorKind, Result};
use crate::spec::{BLOCK_BYTES, Spec};

/// Direct I/O needs memory that begins at a multiple of this; a page suits every device.
const ALIGNMENT: usize = BLOCK_BYTES as usize;

/// The file.
#[derive(Debug)]
pub(crate) struct Backing {
    cached: File,
    direct: Option<File>,
    /// A flush of the disk is one of the file.
    is_flushed: bool,
}

/// Bytes that lie where direct I/O wants them.
#[derive(Debug)]
pub(crate) struct Aligned {
    memory: Vec<u8>,
    begin: usize,
    length: usize,
}

impl Aligned {
    pub(crate) fn new(length: usize) -> Aligned {
        let memory = vec![0; length + ALIGNMENT];
        let begin = memory.as_ptr().align_offset(ALIGNMENT);
        // The standard's leave to give up is for constants; unaligned bytes would only cost the direct way.
        let begin = if begin > ALIGNMENT { 0 } else { begin };
        Aligned { memory, begin, length }
    }
}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.begin..self.begin + self.length]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..self.begin + self.length]
    }
}

impl Backing {
    /// Opens the file, or makes it: sparse, of the disk's size.
    pub(crate) fn open(spec: &Spec, is_cached: bool) -> Result<Backing> {
        let Spec { backing: path, size_bytes, .. } = spec;
        let shown = path.display();
        let failed = Error::system(format!("open {shown}"));
        let cached = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        // Two disks on one file would be none.
        rustix::fs::flock(&cached, rustix::fs::FlockOperation::NonBlockingLockExclusive).map_err(
            |error| Error::system(format!("{shown} is used by another disk"))(error).of_kind(ErrorKind::Busy),
        )?;
        let metadata = cached.metadata().map_err(Error::system(format!("ask for the size of {shown}")))?;
        match metadata.len() {
            0 => {
                cached
                    .set_len(*size_bytes)
                    .map_err(Error::system(format!("make {shown} {size_bytes} bytes")))?;
            }
            found if found == *size_bytes => {}
            found => {
                return Err(Error::new(
                    ErrorKind::Description,
                    format!("{shown} has {found} bytes, not {size_bytes}: ask for that size, or remove it"),
                ));
            }
        }
        let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
        // Memory file systems of old kernels have none: then their cache is the device.
        let direct = (!is_cached)
            .then(|| OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).ok())
            .flatten();
        Ok(Backing { cached, direct, is_flushed: !is_cached })
    }

    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.way(offset, into).read_exact_at(into, offset)
    }

    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.direct.is_none() {
            return self.cached.write_all_at(data, offset);
        }
        let mut aligned = Aligned::new(data.len());
        aligned.copy_from_slice(data);
        self.way(offset, &aligned).write_all_at(&aligned, offset)
    }

    pub(crate) fn flush(&self) -> io::Result<()> {
        if self.is_flushed { self.cached.sync_data() } else { Ok(()) }
    }

    /// Direct where this request can be. The kernel keeps both ways to one file in step.
    fn way(&self, offset: u64, bytes: &[u8]) -> &File {
        let is_aligned = |number: usize| number.is_multiple_of(ALIGNMENT);
        match &self.direct {
            Some(direct)
                if offset.is_multiple_of(BLOCK_BYTES)
                    && is_aligned(bytes.len())
                    && is_aligned(bytes.as_ptr().addr()) =>
            {
                direct
            }
            _ => &self.cached,
        }
    }
}
