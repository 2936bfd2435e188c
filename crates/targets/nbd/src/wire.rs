//! The NBD protocol's numbers and messages: bytes to structs and structs to bytes, nothing else.
//!
//! Names and sections follow `doc/proto.md` of the NetworkBlockDevice project, and its branch
//! `extension-ext-header` for extended headers. All numbers are big-endian.

/// `NBDMAGIC`, first in the greeting ("Newstyle negotiation").
pub const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`, second in the greeting and first in every option.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// First in every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// First in a compact request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// First in an extended request.
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// First in a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// First in a structured reply chunk.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
/// First in an extended reply chunk.
pub const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// `NBD_FLAG_FIXED_NEWSTYLE` and `NBD_FLAG_C_FIXED_NEWSTYLE`.
pub const HANDSHAKE_FIXED_NEWSTYLE: u16 = 1 << 0;
/// `NBD_FLAG_NO_ZEROES` and `NBD_FLAG_C_NO_ZEROES`.
pub const HANDSHAKE_NO_ZEROES: u16 = 1 << 1;

/// Option types.
pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Option reply types.
pub mod reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    pub const ERR_POLICY: u32 = (1 << 31) + 2;
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    pub const ERR_TLS_REQD: u32 = (1 << 31) + 5;
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    pub const ERR_SHUTDOWN: u32 = (1 << 31) + 7;
    pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
    pub const ERR_EXT_HEADER_REQD: u32 = (1 << 31) + 10;
}

/// Information types of `NBD_REP_INFO`.
pub mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags.
pub mod transmission {
    pub const HAS_FLAGS: u16 = 1 << 0;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    pub const SEND_CACHE: u16 = 1 << 10;
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Request types.
pub mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISC: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const CACHE: u16 = 5;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

/// Command flags.
pub mod flag {
    pub const FUA: u16 = 1 << 0;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
    pub const FAST_ZERO: u16 = 1 << 4;
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// `NBD_REPLY_FLAG_DONE`.
pub const CHUNK_DONE: u16 = 1 << 0;

/// Structured reply types.
pub mod chunk {
    pub const NONE: u16 = 0;
    pub const OFFSET_DATA: u16 = 1;
    pub const OFFSET_HOLE: u16 = 2;
    pub const BLOCK_STATUS: u16 = 5;
    pub const BLOCK_STATUS_EXT: u16 = 6;
    pub const ERROR: u16 = (1 << 15) + 1;
}

/// Flags of `base:allocation`.
pub const STATE_HOLE: u32 = 1 << 0;
/// The bytes read as zeroes.
pub const STATE_ZERO: u32 = 1 << 1;

/// Error values on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Errno {
    /// Operation not permitted: the export is read-only.
    Perm = 1,
    /// Input/output error.
    Io = 5,
    /// Invalid argument.
    Inval = 22,
    /// No space left on device.
    NoSpc = 28,
    /// The length is too large for a command without payload.
    Overflow = 75,
    /// A fast zero request that would not be fast.
    NotSup = 95,
    /// The server shuts down or the export is gone.
    Shutdown = 108,
}

/// Bytes of the greeting.
pub const GREETING_BYTES: usize = 18;
/// Bytes of an option before its data.
pub const OPTION_HEADER_BYTES: usize = 16;
/// Bytes of a compact request.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of an extended request.
pub const EXTENDED_REQUEST_BYTES: usize = 32;
/// Bytes of a simple reply before its data.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Bytes of a structured reply chunk before its payload.
pub const STRUCTURED_HEADER_BYTES: usize = 20;
/// Bytes of an extended reply chunk before its payload.
pub const EXTENDED_HEADER_BYTES: usize = 32;
/// Zeroes after the answer to `NBD_OPT_EXPORT_NAME`, unless the client asked for none.
pub const EXPORT_NAME_PADDING: usize = 124;
/// "Conventions": a string MUST be no longer than this.
pub const STRING_BYTES_MAX: usize = 4096;

/// An option's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionHeader {
    pub option: u32,
    pub length: u32,
}

/// A request's header, compact or extended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestHeader {
    pub flags: u16,
    pub command: u16,
    pub cookie: u64,
    pub offset: u64,
    pub length: u64,
}

/// The greeting the server sends first.
#[must_use]
pub fn greeting() -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    bytes[..8].copy_from_slice(&MAGIC.to_be_bytes());
    bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    bytes[16..].copy_from_slice(&(HANDSHAKE_FIXED_NEWSTYLE | HANDSHAKE_NO_ZEROES).to_be_bytes());
    bytes
}

/// Reads an option header; `None` for a wrong magic.
#[must_use]
pub fn option_header(bytes: &[u8; OPTION_HEADER_BYTES]) -> Option<OptionHeader> {
    let mut reader = Reader(bytes);
    if reader.u64()? != OPTION_MAGIC {
        return None;
    }
    Some(OptionHeader { option: reader.u32()?, length: reader.u32()? })
}

/// Reads a compact request; `None` for a wrong magic.
#[must_use]
pub fn request(bytes: &[u8; REQUEST_BYTES]) -> Option<RequestHeader> {
    let mut reader = Reader(bytes);
    if reader.u32()? != REQUEST_MAGIC {
        return None;
    }
    Some(RequestHeader {
        flags: reader.u16()?,
        command: reader.u16()?,
        cookie: reader.u64()?,
        offset: reader.u64()?,
        length: u64::from(reader.u32()?),
    })
}

/// Reads an extended request; `None` for a wrong magic.
#[must_use]
pub fn extended_request(bytes: &[u8; EXTENDED_REQUEST_BYTES]) -> Option<RequestHeader> {
    let mut reader = Reader(bytes);
    if reader.u32()? != EXTENDED_REQUEST_MAGIC {
        return None;
    }
    Some(RequestHeader {
        flags: reader.u16()?,
        command: reader.u16()?,
        cookie: reader.u64()?,
        offset: reader.u64()?,
        length: reader.u64()?,
    })
}

/// The header of a reply to an option.
#[must_use]
pub fn option_reply(option: u32, kind: u32, length: u32) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    bytes[8..12].copy_from_slice(&option.to_be_bytes());
    bytes[12..16].copy_from_slice(&kind.to_be_bytes());
    bytes[16..].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// A simple reply; `error` is zero for success.
#[must_use]
pub fn simple_reply(error: u32, cookie: u64) -> [u8; SIMPLE_REPLY_BYTES] {
    let mut bytes = [0; SIMPLE_REPLY_BYTES];
    bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

/// The header of a structured reply chunk.
#[must_use]
pub fn structured_header(flags: u16, kind: u16, cookie: u64, length: u32) -> [u8; STRUCTURED_HEADER_BYTES] {
    let mut bytes = [0; STRUCTURED_HEADER_BYTES];
    bytes[..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&flags.to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// The header of an extended reply chunk.
#[must_use]
pub fn extended_header(
    flags: u16,
    kind: u16,
    cookie: u64,
    offset: u64,
    length: u64,
) -> [u8; EXTENDED_HEADER_BYTES] {
    let mut bytes = [0; EXTENDED_HEADER_BYTES];
    bytes[..4].copy_from_slice(&EXTENDED_REPLY_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&flags.to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..24].copy_from_slice(&offset.to_be_bytes());
    bytes[24..].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// Takes numbers and strings off the front of an option's data; `None` when it is too short.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next `length` bytes.
    pub fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(length)?;
        self.0 = tail;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    /// The next two bytes as a number.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// The next four bytes as a number.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// The next eight bytes as a number.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A length of four bytes, then a string of that length: UTF-8, at most 4096 bytes, no NUL.
    pub fn string(&mut self) -> Option<&'a str> {
        let length = self.u32()? as usize;
        string(self.bytes(length)?)
    }
}

/// Checks a string by the rules of "Conventions".
#[must_use]
pub fn string(bytes: &[u8]) -> Option<&str> {
    if bytes.len() > STRING_BYTES_MAX || bytes.contains(&0) {
        return None;
    }
    std::str::from_utf8(bytes).ok()
}
