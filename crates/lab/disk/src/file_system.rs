//! The file system with one file, as the kernel sees it (FUSE): its requests become work on the medium, and
//! answers that the pacer sends.
//!
//! There is one directory with one file: the root is node 1, the file node 2.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite,
    Request, WriteFlags,
};

use crate::backing::Aligned;
use crate::counters::Tally;
use crate::medium::Medium;
use crate::pace::{Asked, Ticket};
use crate::pacer::{Answer, Pacer};
use crate::spec::BLOCK_BYTES;

/// What the file is called.
pub(crate) const FILE_NAME: &str = "disk";
const FILE: INodeNo = INodeNo(2);
/// Size and mode never change.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);
/// Asynchronous direct I/O, which a loop device does, counts as background; the kernel's own bound of 12
/// would be the depth of the disk. A loop device asks for 128 at once.
const BACKGROUND_MAX: u16 = 256;
/// The largest write; the kernel cuts what is larger into several, which the model would take for several.
const WRITE_BYTES_MAX: u32 = 1 << 20;

/// The file system.
pub(crate) struct OneFile {
    pub(crate) size_bytes: u64,
    pub(crate) medium: Arc<Medium>,
    /// None where answers are sent at once.
    pub(crate) pacer: Option<Arc<Pacer>>,
    pub(crate) tally: Arc<Tally>,
}

impl OneFile {
    fn begin(&self, asked: Asked, offset: u64, length: u64) -> Option<Ticket> {
        self.pacer.as_ref().and_then(|pacer| pacer.begin(asked, offset, length))
    }

    fn finish(&self, ticket: Option<Ticket>, answer: Answer) {
        match (&self.pacer, ticket) {
            (Some(pacer), Some(ticket)) => pacer.finish(ticket, answer),
            _ => answer(),
        }
    }

    /// The error as the kernel is told it.
    fn failed(&self, error: &io::Error) -> Errno {
        self.tally.add(|counters| counters.failed += 1);
        error.raw_os_error().map_or(Errno::EIO, Errno::from_i32)
    }

    fn attributes(&self, node: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size, nlink) = match node {
            INodeNo::ROOT => (FileType::Directory, 0o700, 0, 2),
            FILE => (FileType::RegularFile, 0o600, self.size_bytes, 1),
            _ => return None,
        };
        let (time, blksize) = (SystemTime::UNIX_EPOCH, BLOCK_BYTES as u32);
        Some(FileAttr {
            ino: node,
            size,
            blocks: size / 512,
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm,
            nlink,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize,
            flags: 0,
        })
    }
}

impl Filesystem for OneFile {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let refused = |what: &str| io::Error::new(io::ErrorKind::Unsupported, format!("FUSE without {what}"));
        let needed = InitFlags::FUSE_ASYNC_DIO;
        config.add_capabilities(needed).map_err(|_| refused("asynchronous direct I/O"))?;
        config.set_max_write(WRITE_BYTES_MAX).map_err(|_| refused("writes of 1 MiB"))?;
        config.set_max_background(BACKGROUND_MAX).map_err(|_| refused("background requests"))?;
        config.set_congestion_threshold(BACKGROUND_MAX).map_err(|_| refused("background requests"))?;
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(FILE) {
            Some(file) if parent == INodeNo::ROOT && name == FILE_NAME => {
                reply.entry(&FOR_EVER, &file, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _request: &Request, node: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(node) {
            Some(attributes) => reply.attr(&FOR_EVER, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// Nothing of it is kept in the kernel's cache: it would answer in our place.
    fn open(&self, _request: &Request, _node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _request: &Request,
        _node: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let length = self.size_bytes.saturating_sub(offset).min(u64::from(size));
        if length == 0 {
            return reply.data(&[]);
        }
        let ticket = self.begin(Asked::Read, offset, length);
        let mut bytes = Aligned::new(length as usize);
        let answer: Answer = match self.medium.read(offset, &mut bytes) {
            Ok(()) => Box::new(move || reply.data(&bytes)),
            Err(error) => {
                let errno = self.failed(&error);
                Box::new(move || reply.error(errno))
            }
        };
        self.tally.add(|counters| {
            counters.reads += 1;
            counters.read_bytes += length;
        });
        self.finish(ticket, answer);
    }

    fn write(
        &self,
        _request: &Request,
        _node: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let length = data.len() as u64;
        if length == 0 || offset.saturating_add(length) > self.size_bytes {
            return reply.error(Errno::ENOSPC);
        }
        let ticket = self.begin(Asked::Write, offset, length);
        let answer: Answer = match self.medium.write(offset, data) {
            Ok(()) => Box::new(move || reply.written(length as u32)),
            Err(error) => {
                let errno = self.failed(&error);
                Box::new(move || reply.error(errno))
            }
        };
        self.tally.add(|counters| {
            counters.writes += 1;
            counters.written_bytes += length;
        });
        self.finish(ticket, answer);
    }

    fn fsync(
        &self,
        _request: &Request,
        _node: INodeNo,
        _handle: FileHandle,
        _is_of_data: bool,
        reply: ReplyEmpty,
    ) {
        let ticket = self.begin(Asked::Flush, 0, 0);
        let answer: Answer = match self.medium.flush() {
            Ok(()) => Box::new(move || reply.ok()),
            Err(error) => {
                let errno = self.failed(&error);
                Box::new(move || reply.error(errno))
            }
        };
        self.tally.add(|counters| counters.flushes += 1);
        self.finish(ticket, answer);
    }

    /// The end of a file handle, not a flush of data.
    fn flush(
        &self,
        _request: &Request,
        _node: INodeNo,
        _handle: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }
}
