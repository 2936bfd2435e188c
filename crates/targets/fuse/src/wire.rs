//! The kernel's FUSE messages: bytes to requests, replies to bytes. No I/O, no state.
//!
//! Layouts follow `include/uapi/linux/fuse.h`, protocol 7.31 and later; all numbers have the
//! machine's own byte order. A request has a 40-byte header, a fixed part whose size depends on the
//! opcode, and free data (names, bytes to write). On `/dev/fuse` the three follow each other; over
//! io_uring each has its own place. [`split_classic`] brings the first form to the second.

use crate::error::Errno;

/// Size of the header of every request.
pub const IN_HEADER_BYTES: usize = 40;
/// Size of the header of every reply.
pub const OUT_HEADER_BYTES: usize = 16;
/// Fixed part of a write request, the largest thing before data that are to be written.
pub const WRITE_IN_BYTES: usize = 40;
/// Protocol version we speak.
pub const KERNEL_MAJOR: u32 = 7;
/// Newest minor version whose messages we know.
pub const KERNEL_MINOR: u32 = 42;
/// Oldest minor version we accept: 7.31 (Linux 5.4) has every message used here.
pub const KERNEL_MINOR_MIN: u32 = 31;
/// The directory that holds the volumes.
pub const ROOT_NODE: u64 = 1;

/// Capability bits of INIT.
pub mod init_flags {
    /// Several reads of one file at once.
    pub const ASYNC_READ: u64 = 1 << 0;
    /// Writes larger than a page.
    pub const BIG_WRITES: u64 = 1 << 5;
    /// Asynchronous direct I/O, what the loop driver does.
    pub const ASYNC_DIO: u64 = 1 << 15;
    /// Look-ups and directory reads at once.
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    /// `max_pages` of the reply counts.
    pub const MAX_PAGES: u64 = 1 << 22;
    /// The second word of flags counts.
    pub const INIT_EXT: u64 = 1 << 30;
    /// What was read and not answered can be handed out again.
    pub const HAS_RESEND: u64 = 1 << 39;
    /// Requests may travel over io_uring.
    pub const OVER_IO_URING: u64 = 1 << 41;
}

/// In a request's number: it was handed out before, to a server that is gone. The answer repeats it.
pub const RESENT: u64 = 1 << 63;
/// `FUSE_NOTIFY_RESEND`.
const NOTIFY_RESEND: i32 = 7;

/// Opcodes we answer with something else than "not implemented".
pub mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const ACCESS: u32 = 34;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
    pub const TMPFILE: u32 = 51;
}

/// The header of a request, as far as we use it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InHeader {
    /// Length of the whole message; set on `/dev/fuse` only.
    pub length: u32,
    /// What is asked.
    pub opcode: u32,
    /// The request's number, repeated in the reply.
    pub unique: u64,
    /// The file or directory it is about.
    pub node: u64,
}

/// What INIT says about the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InitRequest {
    pub major: u32,
    pub minor: u32,
    pub readahead_bytes_max: u32,
    /// Both words of flags.
    pub flags: u64,
}

/// A request, decoded. Borrowed parts point into the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request<'a> {
    Init(InitRequest),
    Lookup {
        name: &'a [u8],
    },
    Forget {
        lookups: u64,
    },
    BatchForget {
        entries: &'a [u8],
    },
    GetAttr {
        handle: Option<u64>,
    },
    SetAttr {
        size: Option<u64>,
        handle: Option<u64>,
        /// Mode, owner or group is to change.
        is_of_access: bool,
    },
    Open {
        flags: u32,
    },
    Read {
        handle: u64,
        offset: u64,
        size: u32,
    },
    Write {
        handle: u64,
        offset: u64,
        size: u32,
        flags: u32,
    },
    Flush,
    Fsync {
        handle: u64,
    },
    Fallocate {
        handle: u64,
        offset: u64,
        length: u64,
        mode: u32,
    },
    Lseek {
        handle: u64,
        offset: u64,
        whence: u32,
    },
    Statfs,
    OpenDir,
    ReadDir {
        handle: u64,
        offset: u64,
        size: u32,
    },
    ReleaseDir {
        handle: u64,
    },
    FsyncDir,
    Release {
        handle: u64,
    },
    Access,
    Interrupt,
    Destroy,
    /// Anything that would create, remove or rename: the array does that, not the file system.
    ChangeDirectory,
    /// An opcode we do not serve.
    Unknown,
}

/// Reads numbers off the front of a message.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Errno> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Errno::INVALID)?;
        self.0 = rest;
        Ok(*head)
    }

    fn u32(&mut self) -> Result<u32, Errno> {
        self.take().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Result<u64, Errno> {
        self.take().map(u64::from_ne_bytes)
    }

    fn skip(&mut self, count: usize) -> Result<(), Errno> {
        self.0 = self.0.get(count..).ok_or(Errno::INVALID)?;
        Ok(())
    }
}

impl InHeader {
    /// Decodes a header; `None` when the bytes are too few.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<InHeader> {
        let mut fields = Fields(bytes.get(..IN_HEADER_BYTES)?);
        Some(InHeader {
            length: fields.u32().ok()?,
            opcode: fields.u32().ok()?,
            unique: fields.u64().ok()?,
            node: fields.u64().ok()?,
        })
    }
}

/// Size of the fixed part of a request on `/dev/fuse`.
#[must_use]
pub fn fixed_bytes(code: u32) -> usize {
    match code {
        opcode::LOOKUP | opcode::STATFS | opcode::UNLINK | opcode::RMDIR | opcode::DESTROY => 0,
        opcode::FORGET | opcode::OPEN | opcode::OPENDIR | opcode::ACCESS | opcode::INTERRUPT => 8,
        opcode::BATCH_FORGET => 8,
        opcode::GETATTR | opcode::FSYNC | opcode::FSYNCDIR => 16,
        opcode::FLUSH | opcode::RELEASE | opcode::RELEASEDIR | opcode::LSEEK => 24,
        opcode::FALLOCATE => 32,
        opcode::READ | opcode::READDIR | opcode::WRITE => WRITE_IN_BYTES,
        opcode::SETATTR => 88,
        // The rest is refused without being looked at; INIT takes what there is.
        _ => 0,
    }
}

/// Splits what follows the header of a message from `/dev/fuse` into fixed part and data.
pub fn split_classic(code: u32, body: &[u8]) -> Result<(&[u8], &[u8]), Errno> {
    let fixed = if code == opcode::INIT { body.len() } else { fixed_bytes(code) };
    body.split_at_checked(fixed).ok_or(Errno::INVALID)
}

/// Bit of GETATTR that says the handle counts.
const GETATTR_HANDLE: u32 = 1 << 0;
/// Bits of SETATTR that say which fields count; these are mode, user and group.
const SETATTR_ACCESS: u32 = 0b111;
const SETATTR_SIZE: u32 = 1 << 3;
const SETATTR_HANDLE: u32 = 1 << 6;

/// Decodes a request from its fixed part and its data. Write data stay where they are.
// tidy: long because it is one table of opcodes
pub fn decode<'a>(code: u32, fixed: &[u8], data: &'a [u8]) -> Result<Request<'a>, Errno> {
    let mut f = Fields(fixed);
    Ok(match code {
        opcode::READ | opcode::WRITE | opcode::READDIR => {
            let (handle, offset, size) = (f.u64()?, f.u64()?, f.u32()?);
            // Read or write flags and the lock owner stand between; nothing here uses them.
            f.skip(12)?;
            let flags = f.u32()?;
            match code {
                opcode::READ => Request::Read { handle, offset, size },
                opcode::READDIR => Request::ReadDir { handle, offset, size },
                _ if size as usize > data.len() => return Err(Errno::INVALID),
                _ => Request::Write { handle, offset, size, flags },
            }
        }
        opcode::LOOKUP => Request::Lookup { name: name(data)? },
        opcode::FORGET => Request::Forget { lookups: f.u64()? },
        opcode::BATCH_FORGET => {
            let count = f.u32()? as usize;
            let length = count.checked_mul(16).ok_or(Errno::INVALID)?;
            Request::BatchForget { entries: data.get(..length).ok_or(Errno::INVALID)? }
        }
        opcode::GETATTR => {
            let flags = f.u32()?;
            f.skip(4)?;
            let handle = f.u64()?;
            Request::GetAttr { handle: (flags & GETATTR_HANDLE != 0).then_some(handle) }
        }
        opcode::SETATTR => {
            let valid = f.u32()?;
            f.skip(4)?;
            let (handle, size) = (f.u64()?, f.u64()?);
            Request::SetAttr {
                size: (valid & SETATTR_SIZE != 0).then_some(size),
                handle: (valid & SETATTR_HANDLE != 0).then_some(handle),
                is_of_access: valid & SETATTR_ACCESS != 0,
            }
        }
        opcode::OPEN => Request::Open { flags: f.u32()? },
        opcode::STATFS => Request::Statfs,
        opcode::RELEASE => Request::Release { handle: f.u64()? },
        opcode::FSYNC => Request::Fsync { handle: f.u64()? },
        opcode::FLUSH => Request::Flush,
        opcode::INIT => {
            let (major, minor, readahead_bytes_max) = (f.u32()?, f.u32()?, f.u32()?);
            let low = u64::from(f.u32()?);
            let high = if low & init_flags::INIT_EXT != 0 { u64::from(f.u32()?) } else { 0 };
            Request::Init(InitRequest { major, minor, readahead_bytes_max, flags: low | high << 32 })
        }
        opcode::OPENDIR => Request::OpenDir,
        opcode::RELEASEDIR => Request::ReleaseDir { handle: f.u64()? },
        opcode::FSYNCDIR => Request::FsyncDir,
        opcode::ACCESS => Request::Access,
        opcode::INTERRUPT => Request::Interrupt,
        opcode::DESTROY => Request::Destroy,
        opcode::FALLOCATE => {
            let (handle, offset, length) = (f.u64()?, f.u64()?, f.u64()?);
            Request::Fallocate { handle, offset, length, mode: f.u32()? }
        }
        opcode::LSEEK => Request::Lseek { handle: f.u64()?, offset: f.u64()?, whence: f.u32()? },
        opcode::SYMLINK
        | opcode::MKNOD
        | opcode::MKDIR
        | opcode::UNLINK
        | opcode::RMDIR
        | opcode::RENAME
        | opcode::LINK
        | opcode::CREATE
        | opcode::RENAME2
        | opcode::TMPFILE => Request::ChangeDirectory,
        _ => Request::Unknown,
    })
}

/// A name ends with a zero byte; over io_uring the kernel counts it as part of the data as well.
fn name(data: &[u8]) -> Result<&[u8], Errno> {
    let end = data.iter().position(|byte| *byte == 0).ok_or(Errno::INVALID)?;
    Ok(&data[..end])
}

/// The pairs (node, look-ups to forget) of a batch.
pub fn batch_forget_entries(entries: &[u8]) -> impl Iterator<Item = (u64, u64)> + '_ {
    entries.chunks_exact(16).map(|entry| {
        let mut fields = Fields(entry);
        let node = fields.u64().expect("a chunk has 16 bytes");
        (node, fields.u64().expect("a chunk has 16 bytes"))
    })
}

/// Writes the header of a reply. `payload` is what follows it.
#[must_use]
pub fn out_header(unique: u64, result: Result<usize, Errno>) -> [u8; OUT_HEADER_BYTES] {
    let (payload, error) = match result {
        Ok(payload) => (payload, 0),
        Err(errno) => (0, -errno.0),
    };
    let length = (OUT_HEADER_BYTES + payload) as u32;
    let mut bytes = [0; OUT_HEADER_BYTES];
    bytes[0..4].copy_from_slice(&length.to_ne_bytes());
    bytes[4..8].copy_from_slice(&error.to_ne_bytes());
    bytes[8..16].copy_from_slice(&unique.to_ne_bytes());
    bytes
}

/// The message by which the kernel is asked to hand out again what was read and not answered.
#[must_use]
pub fn resend_notice() -> [u8; OUT_HEADER_BYTES] {
    let mut bytes = out_header(0, Ok(0));
    bytes[4..8].copy_from_slice(&NOTIFY_RESEND.to_ne_bytes());
    bytes
}

/// A reply of fixed form, built in place: the largest (an entry) has 128 bytes.
#[derive(Clone, Copy)]
pub struct SmallReply {
    bytes: [u8; 128],
    length: usize,
}

impl SmallReply {
    /// A reply without payload.
    pub const EMPTY: SmallReply = SmallReply { bytes: [0; 128], length: 0 };

    /// The payload.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn put<const N: usize>(mut self, value: [u8; N]) -> SmallReply {
        self.bytes[self.length..self.length + N].copy_from_slice(&value);
        self.length += N;
        self
    }

    fn u16(self, value: u16) -> SmallReply {
        self.put(value.to_ne_bytes())
    }

    fn u32(self, value: u32) -> SmallReply {
        self.put(value.to_ne_bytes())
    }

    fn u64(self, value: u64) -> SmallReply {
        self.put(value.to_ne_bytes())
    }

    fn zeroes(mut self, count: usize) -> SmallReply {
        self.length += count;
        self
    }

    fn attributes(self, attributes: &Attributes) -> SmallReply {
        let Attributes { inode, size_bytes, mode, links, seconds } = *attributes;
        // One unit less than the size: tools that copy (cp, tar) then look for holes, while zero
        // would make tar believe that the file has no data at all.
        let units = (size_bytes / 512).saturating_sub(1);
        let times =
            self.u64(inode).u64(size_bytes).u64(units).u64(seconds).u64(seconds).u64(seconds).zeroes(12);
        // Owner root, no device number, blocks of 4096, no flags.
        times.u32(mode).u32(links).zeroes(12).u32(4096).zeroes(4)
    }
}

/// What the kernel learns about a file or the directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes {
    pub inode: u64,
    pub size_bytes: u64,
    pub mode: u32,
    pub links: u32,
    /// All three times.
    pub seconds: u64,
}

/// Reply to LOOKUP. Neither the entry nor its attributes may be kept: volumes come, go and grow.
#[must_use]
pub fn entry_reply(node: u64, attributes: &Attributes) -> SmallReply {
    SmallReply::EMPTY.u64(node).zeroes(32).attributes(attributes)
}

/// Reply to GETATTR and SETATTR, not to be kept either.
#[must_use]
pub fn attributes_reply(attributes: &Attributes) -> SmallReply {
    SmallReply::EMPTY.zeroes(16).attributes(attributes)
}

/// Reply to OPEN of a volume: past the page cache, several writes at once.
#[must_use]
pub fn open_reply(handle: u64) -> SmallReply {
    const DIRECT_IO: u32 = 1 << 0;
    const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
    SmallReply::EMPTY.u64(handle).u32(DIRECT_IO | PARALLEL_DIRECT_WRITES).zeroes(4)
}

/// Reply to OPENDIR.
#[must_use]
pub fn open_directory_reply(handle: u64) -> SmallReply {
    SmallReply::EMPTY.u64(handle).zeroes(8)
}

/// Reply to WRITE.
#[must_use]
pub fn write_reply(size: u32) -> SmallReply {
    SmallReply::EMPTY.u32(size).zeroes(4)
}

/// Reply to LSEEK.
#[must_use]
pub fn lseek_reply(offset: u64) -> SmallReply {
    SmallReply::EMPTY.u64(offset)
}

/// Reply to STATFS: all space is provisioned to the files, none is free to new ones.
#[must_use]
pub fn statfs_reply(provisioned_bytes: u64, files: u64) -> SmallReply {
    let blocks = SmallReply::EMPTY.u64(provisioned_bytes / 4096).zeroes(16).u64(files).zeroes(8);
    blocks.u32(4096).u32(NAME_BYTES_MAX as u32).u32(4096).zeroes(28)
}

/// Longest name of a file.
pub const NAME_BYTES_MAX: usize = 255;

/// What we answer to INIT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InitReply {
    pub minor: u32,
    pub readahead_bytes_max: u32,
    pub flags: u64,
    pub background_requests_max: u16,
    pub congestion_threshold: u16,
    pub write_bytes_max: u32,
}

/// Reply to INIT.
#[must_use]
pub fn init_reply(init: &InitReply) -> SmallReply {
    let InitReply { minor, readahead_bytes_max, flags, .. } = *init;
    let head = SmallReply::EMPTY.u32(KERNEL_MAJOR).u32(minor).u32(readahead_bytes_max).u32(flags as u32);
    let limits =
        head.u16(init.background_requests_max).u16(init.congestion_threshold).u32(init.write_bytes_max);
    // Time granularity of a second; as many pages as the largest write has.
    let pages = (init.write_bytes_max / 4096) as u16;
    limits.u32(1_000_000_000).u16(pages).u16(0).u32((flags >> 32) as u32).zeroes(28)
}

/// A name in the directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectoryEntry {
    pub inode: u64,
    pub is_directory: bool,
    pub name: String,
}

/// Fills `into` with as many entries as fit, from index `first` on; gives the bytes used.
#[must_use]
pub fn encode_directory(entries: &[DirectoryEntry], first: u64, into: &mut [u8]) -> usize {
    const FILE: u32 = 8;
    const DIRECTORY: u32 = 4;
    let mut used = 0;
    let start = usize::try_from(first).unwrap_or(usize::MAX).min(entries.len());
    for (index, entry) in entries.iter().enumerate().skip(start) {
        let name = entry.name.as_bytes();
        let padded = (24 + name.len()).next_multiple_of(8);
        let Some(place) = into.get_mut(used..used + padded) else { break };
        place.fill(0);
        place[0..8].copy_from_slice(&entry.inode.to_ne_bytes());
        // The offset names the entry that comes next.
        place[8..16].copy_from_slice(&(index as u64 + 1).to_ne_bytes());
        place[16..20].copy_from_slice(&(name.len() as u32).to_ne_bytes());
        place[20..24].copy_from_slice(&(if entry.is_directory { DIRECTORY } else { FILE }).to_ne_bytes());
        place[24..24 + name.len()].copy_from_slice(name);
        used += padded;
    }
    used
}
