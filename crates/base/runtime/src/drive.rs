//! Drives: files and block devices, read and written past the page cache.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::{Rc, Weak};

use crate::buffer::BUFFER_ALIGNMENT;
use crate::driver::Driver;
use crate::operation::{Operation, Submitted, count, is_transient};
use crate::runtime::Shard;
use crate::sim::{SimDriveId, SimIo, SimOperation};
use crate::{Buf, Runtime, open};

/// How to open a drive.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OpenDrive {
    /// Make the file, or extend it, to this size. Existing content stays; nothing is ever cut off.
    pub create_size_bytes: Option<u64>,
    /// Never write; several readers may share the drive.
    pub is_read_only: bool,
}

/// What completion of a write promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// The drive has the data, perhaps in a volatile cache.
    Cached,
    /// The data survive power loss.
    Durable,
}

/// A drive of this shard, locked against other processes while any clone lives.
#[derive(Clone)]
pub struct DriveFile {
    inner: Rc<Inner>,
}

struct Inner {
    runtime: Runtime,
    path: String,
    size_bytes: u64,
    is_read_only: bool,
    backing: Backing,
}

enum Backing {
    File(Rc<FileHandle>),
    Sim(SimDriveId),
}

/// An open file and its place in the ring's table of files.
pub(crate) struct FileHandle {
    fd: OwnedFd,
    is_block_device: bool,
    /// Place in the ring's table, when it has one.
    pub(crate) slot: Option<u32>,
    shard: Weak<Shard>,
}

impl FileHandle {
    pub(crate) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl Drop for FileHandle {
    fn drop(&mut self) {
        if let (Some(slot), Some(shard)) = (self.slot, self.shard.upgrade()) {
            shard.driver.release_file(slot);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let (Backing::Sim(drive), Driver::Sim(sim)) = (&self.backing, &self.runtime.shard.driver) {
            sim.close(*drive);
        }
    }
}

impl Runtime {
    /// Opens and locks a drive.
    pub async fn open_drive(&self, path: &str, options: OpenDrive) -> io::Result<DriveFile> {
        let is_read_only = options.is_read_only;
        let (size_bytes, backing) = match &self.shard.driver {
            Driver::Sim(sim) => {
                let (drive, size) = sim.open(path, &options)?;
                (size, Backing::Sim(drive))
            }
            Driver::Uring(_) | Driver::Threads(_) => {
                let owned_path = path.to_owned();
                let opened = self.run_blocking(move || open::open(&owned_path, &options)).await?;
                let slot = self.shard.driver.adopt_file(opened.fd.as_raw_fd());
                let shard = Rc::downgrade(&self.shard);
                let is_block_device = opened.is_block_device;
                let handle = FileHandle { fd: opened.fd, is_block_device, slot, shard };
                (opened.size_bytes, Backing::File(Rc::new(handle)))
            }
        };
        let inner = Inner { runtime: self.clone(), path: path.to_owned(), size_bytes, is_read_only, backing };
        Ok(DriveFile { inner: Rc::new(inner) })
    }
}

impl DriveFile {
    /// Size at opening.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.inner.size_bytes
    }

    /// Size now: a file may have been cut short since, a device made larger. One call that does not wait.
    pub fn size_bytes_now(&self) -> io::Result<u64> {
        match &self.inner.backing {
            Backing::Sim(_) => Ok(self.inner.size_bytes),
            Backing::File(file) => open::size(&file.fd.try_clone()?.into(), file.is_block_device),
        }
    }

    /// The path it was opened by.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.inner.path
    }

    /// Fills the whole of `buf` from `offset`; both multiples of 4096.
    pub async fn read(&self, offset: u64, mut buf: Buf) -> (io::Result<()>, Buf) {
        if let Err(error) = self.check_range(offset, buf.len() as u64) {
            return (Err(error), buf);
        }
        let file = match &self.inner.backing {
            Backing::Sim(drive) => {
                return self.simulate(SimOperation::Read { drive: *drive, offset, into: buf }).await;
            }
            Backing::File(file) => file,
        };
        let mut start = 0;
        while start < buf.len() {
            let operation = Operation::Read { file: file.clone(), offset, buf, start };
            let (result, operation) = Submitted::new(&self.inner.runtime, operation).await;
            buf = operation.into_buf().expect("a read carries its buffer");
            match count(result) {
                Ok(0) => {
                    return (Err(self.error(io::ErrorKind::UnexpectedEof, "read beyond the end of")), buf);
                }
                Ok(done) => start += done,
                Err(_) if is_transient(result) => {}
                Err(error) => return (Err(error), buf),
            }
        }
        (Ok(()), buf)
    }

    /// Writes the whole of `buf` at `offset`; both multiples of 4096.
    pub async fn write(&self, offset: u64, mut buf: Buf, durability: Durability) -> (io::Result<()>, Buf) {
        if let Err(error) = self.check_range(offset, buf.len() as u64).and_then(|()| self.check_writable()) {
            return (Err(error), buf);
        }
        let file = match &self.inner.backing {
            Backing::Sim(drive) => {
                let operation = SimOperation::Write { drive: *drive, offset, data: buf, durability };
                return self.simulate(operation).await;
            }
            Backing::File(file) => file,
        };
        let mut start = 0;
        while start < buf.len() {
            let operation = Operation::Write { file: file.clone(), offset, buf, start, durability };
            let (result, operation) = Submitted::new(&self.inner.runtime, operation).await;
            buf = operation.into_buf().expect("a write carries its buffer");
            match count(result) {
                Ok(0) => return (Err(self.error(io::ErrorKind::WriteZero, "nothing was written to")), buf),
                Ok(done) => start += done,
                Err(_) if is_transient(result) => {}
                Err(error) => return (Err(error), buf),
            }
        }
        (Ok(()), buf)
    }

    /// Makes every write completed before the call durable.
    pub async fn sync(&self) -> io::Result<()> {
        match &self.inner.backing {
            Backing::Sim(drive) => self.simulate_plain(SimOperation::Sync { drive: *drive }).await,
            Backing::File(file) => loop {
                let operation = Operation::Sync { file: file.clone() };
                let (result, _) = Submitted::new(&self.inner.runtime, operation).await;
                if !is_transient(result) {
                    return count(result).map(drop);
                }
            },
        }
    }

    /// True where the first durable write of a range costs far more than later ones: files, whose
    /// preallocated blocks are converted one commit at a time. See [`DriveFile::fill_with_zeroes`].
    #[must_use]
    pub fn is_first_write_slow(&self) -> bool {
        match &self.inner.backing {
            Backing::Sim(drive) => {
                let sim = self.inner.runtime.shard.driver.as_sim();
                sim.expect("a simulated drive has a simulated driver").is_first_write_slow(*drive)
            }
            Backing::File(file) => !file.is_block_device,
        }
    }

    /// Tells the drive that the range's content is not needed; both multiples of 4096. A drive that
    /// cannot is content to keep it: that is no error.
    pub async fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.check_range(offset, len)?;
        self.check_writable()?;
        let file = match &self.inner.backing {
            Backing::Sim(drive) => {
                return self.simulate_plain(SimOperation::Discard { drive: *drive, offset, len }).await;
            }
            Backing::File(file) => file,
        };
        let result = if file.is_block_device {
            self.call_blocking(file, move |fd| open::discard_blocks(fd, offset, len)).await
        } else {
            let operation = Operation::Discard { file: file.clone(), offset, len };
            count(Submitted::new(&self.inner.runtime, operation).await.0).map(drop)
        };
        unless_unsupported(result)
    }

    /// Makes the range read as zeroes where that costs no writing; both multiples of 4096. A file keeps its
    /// space; a block device is told to discard, and may read as it did. A drive that cannot is no error.
    pub async fn blank(&self, offset: u64, len: u64) -> io::Result<()> {
        match &self.inner.backing {
            Backing::File(file) if !file.is_block_device => {
                self.check_range(offset, len)?;
                self.check_writable()?;
                let zeroed = self.call_blocking(file, move |fd| open::zero_range(fd, offset, len)).await;
                unless_unsupported(zeroed)
            }
            _ => self.discard(offset, len).await,
        }
    }

    /// A call that the ring does not know, of a file that stays open meanwhile.
    async fn call_blocking(
        &self,
        file: &Rc<FileHandle>,
        call: impl FnOnce(RawFd) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let kept = file.clone();
        let fd = file.fd();
        let result = self.inner.runtime.run_blocking(move || call(fd)).await;
        drop(kept);
        result
    }

    /// Writes zeroes over the range, really, and makes them durable; both multiples of 4096.
    ///
    /// A file's preallocated or discarded blocks cost a commit of the file system's own journal at
    /// their first durable write (milliseconds instead of tens of microseconds). A range written over
    /// once has that behind it, so fill where small durable writes must be quick.
    pub async fn fill_with_zeroes(&self, offset: u64, len: u64) -> io::Result<()> {
        const PIECE: u64 = 4 << 20;
        self.check_range(offset, len)?;
        let end = offset + len;
        let mut at = offset;
        let mut kept = None;
        while at < end {
            let piece = PIECE.min(end - at) as usize;
            let mut buf = kept.take().unwrap_or_else(|| {
                let mut zeroes = self.inner.runtime.buffer(piece);
                zeroes.fill(0);
                zeroes
            });
            buf.set_len(piece);
            let (result, buf) = self.write(at, buf, Durability::Cached).await;
            result?;
            kept = Some(buf);
            at += piece as u64;
        }
        self.sync().await
    }

    async fn simulate(&self, operation: SimOperation) -> (io::Result<()>, Buf) {
        let sim = self.inner.runtime.shard.driver.as_sim().expect("a simulated drive has a simulated driver");
        let (result, operation) = SimIo::start(&self.inner.runtime, sim, operation).await;
        match operation {
            SimOperation::Read { into: buf, .. } | SimOperation::Write { data: buf, .. } => (result, buf),
            SimOperation::Sync { .. } | SimOperation::Discard { .. } => {
                unreachable!("a request comes back as it went")
            }
        }
    }

    async fn simulate_plain(&self, operation: SimOperation) -> io::Result<()> {
        let sim = self.inner.runtime.shard.driver.as_sim().expect("a simulated drive has a simulated driver");
        SimIo::start(&self.inner.runtime, sim, operation).await.0
    }

    fn check_range(&self, offset: u64, len: u64) -> io::Result<()> {
        let unit = BUFFER_ALIGNMENT as u64;
        if !offset.is_multiple_of(unit) || !len.is_multiple_of(unit) || len == 0 {
            return Err(self.error(io::ErrorKind::InvalidInput, "a request not in whole 4096-byte blocks on"));
        }
        match offset.checked_add(len) {
            Some(end) if end <= self.inner.size_bytes => Ok(()),
            Some(_) | None => Err(self.error(io::ErrorKind::UnexpectedEof, "a request beyond the end of")),
        }
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.inner.is_read_only {
            return Err(self.error(io::ErrorKind::PermissionDenied, "a write to the read-only"));
        }
        Ok(())
    }

    fn error(&self, kind: io::ErrorKind, what: &str) -> io::Error {
        io::Error::new(kind, format!("{what} drive {}", self.inner.path))
    }
}

/// What a drive cannot do and need not.
fn unless_unsupported(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
        result => result,
    }
}
