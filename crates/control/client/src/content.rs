//! Reading what a volume or a snapshot's image holds, over the array's NBD socket.
//!
//! A small NBD client: one connection, one request at a time, structured replies, never a write.
//! Names and sections follow `doc/proto.md` of the NetworkBlockDevice project.

use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use ashlar_api::ErrorKind;

use crate::error::{Error, Result};

/// `NBDMAGIC`.
const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`.
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
/// `NBD_FLAG_C_FIXED_NEWSTYLE` and `NBD_FLAG_C_NO_ZEROES`.
const CLIENT_FLAGS: u32 = 3;

const OPTION_GO: u32 = 7;
const OPTION_STRUCTURED_REPLY: u32 = 8;
const OPTION_SET_META_CONTEXT: u32 = 10;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const REPLY_ERROR: u32 = 1 << 31;
const INFO_EXPORT: u16 = 0;
/// Answers that are not data are a few words, or a list of runs: the server sends at most 16,384 of
/// them, 8 bytes each. Longer ones come from something else.
const ANSWER_BYTES_MAX: u32 = 1 << 20;

const COMMAND_READ: u16 = 0;
const COMMAND_DISCONNECT: u16 = 2;
const COMMAND_BLOCK_STATUS: u16 = 7;
const CHUNK_DONE: u16 = 1;
const CHUNK_OFFSET_DATA: u16 = 1;
const CHUNK_OFFSET_HOLE: u16 = 2;
const CHUNK_BLOCK_STATUS: u16 = 5;
const CHUNK_ERROR: u16 = 1 << 15;
/// `NBD_STATE_ZERO` of `base:allocation`: reads as zeroes.
const STATE_ZERO: u32 = 1 << 1;

/// The longest read: 16 MiB, half of what servers must take.
const READ_BYTES_MAX: usize = 16 << 20;
/// The longest range of one status request that is whole blocks and fits 32 bits.
const STATUS_BYTES_MAX: u64 = (1 << 32) - (64 << 10);

/// The longest wait for the next bytes before the volume is chosen: it takes the array no work.
const GREETING_WAIT_MAX: Duration = Duration::from_secs(10);
/// The longest wait for the next bytes of an answer. Arbitrary: they take milliseconds.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(60);

/// A volume, or VOLUME@SNAPSHOT, opened for reading.
pub struct Content {
    stream: UnixStream,
    name: String,
    size_bytes: u64,
    cookie: u64,
}

impl Content {
    /// Opens `name` at the array's NBD socket.
    pub fn open(socket: &Path, name: &str) -> Result<Content> {
        let stream = UnixStream::connect(socket).map_err(|error| {
            Error::new(
                ErrorKind::Closed,
                format!("the array's NBD socket {} does not answer ({error})", socket.display()),
                "`ashlar status` shows the state of the doors",
            )
        })?;
        let mut content = Content { stream, name: name.to_string(), size_bytes: 0, cookie: 0 };
        content.negotiate().map_err(|error| content.broken(&error))?;
        Ok(content)
    }

    /// Its size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Fills `into` with the bytes at `offset`.
    pub fn read(&mut self, mut offset: u64, into: &mut [u8]) -> Result<()> {
        for part in into.chunks_mut(READ_BYTES_MAX) {
            self.read_once(offset, part).map_err(|error| self.broken(&error))?;
            offset += part.len() as u64;
        }
        Ok(())
    }

    /// The ranges that may hold anything but zeroes, in order, none touching the next.
    pub fn data_ranges(&mut self) -> Result<Vec<Range<u64>>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut at = 0;
        while at < self.size_bytes {
            let length = (self.size_bytes - at).min(STATUS_BYTES_MAX);
            for (length, flags) in self.status(at, length as u32).map_err(|error| self.broken(&error))? {
                let end = (at + u64::from(length)).min(self.size_bytes);
                match ranges.last_mut() {
                    _ if flags & STATE_ZERO != 0 => {}
                    Some(last) if last.end == at => last.end = end,
                    _ => ranges.push(at..end),
                }
                at = end;
            }
        }
        Ok(ranges)
    }

    /// "Newstyle negotiation": structured replies, `base:allocation`, then GO.
    fn negotiate(&mut self) -> io::Result<()> {
        self.stream.set_read_timeout(Some(GREETING_WAIT_MAX))?;
        self.stream.set_write_timeout(Some(ANSWER_WAIT_MAX))?;
        let mut greeting = [0; 18];
        self.stream.read_exact(&mut greeting)?;
        if u64_at(&greeting, 0) != MAGIC || u64_at(&greeting, 8) != OPTION_MAGIC {
            return Err(breach("what listens is not NBD"));
        }
        self.stream.write_all(&CLIENT_FLAGS.to_be_bytes())?;
        self.option(OPTION_STRUCTURED_REPLY, &[])?;
        let mut name = (self.name.len() as u32).to_be_bytes().to_vec();
        name.extend_from_slice(self.name.as_bytes());
        let mut contexts = name.clone();
        contexts.extend_from_slice(&1u32.to_be_bytes());
        let context = b"base:allocation";
        contexts.extend_from_slice(&(context.len() as u32).to_be_bytes());
        contexts.extend_from_slice(context);
        self.option(OPTION_SET_META_CONTEXT, &contexts)?;
        name.extend_from_slice(&0u16.to_be_bytes());
        self.option(OPTION_GO, &name)?;
        self.stream.set_read_timeout(Some(ANSWER_WAIT_MAX))
    }

    /// Sends an option and takes its replies up to the acknowledgement.
    fn option(&mut self, option: u32, data: &[u8]) -> io::Result<()> {
        let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
        bytes.extend_from_slice(&option.to_be_bytes());
        bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
        bytes.extend_from_slice(data);
        self.stream.write_all(&bytes)?;
        loop {
            let mut header = [0; 20];
            self.stream.read_exact(&mut header)?;
            let (kind, length) = (u32_at(&header, 12), u32_at(&header, 16));
            if u64_at(&header, 0) != OPTION_REPLY_MAGIC || length > ANSWER_BYTES_MAX {
                return Err(breach("an option was answered with something else"));
            }
            let mut body = vec![0; length as usize];
            self.stream.read_exact(&mut body)?;
            match kind {
                REPLY_ACK => return Ok(()),
                REPLY_INFO if body.len() >= 10 && u16_at(&body, 0) == INFO_EXPORT => {
                    self.size_bytes = u64_at(&body, 2);
                }
                _ if kind & REPLY_ERROR != 0 => {
                    return Err(io::Error::new(io::ErrorKind::NotFound, text_of(&body)));
                }
                // Other information, and the number of our one context.
                _ => {}
            }
        }
    }

    fn read_once(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.request(COMMAND_READ, offset, into.len() as u32)?;
        let mut filled = 0;
        loop {
            let (flags, kind, length) = self.chunk()?;
            match kind {
                CHUNK_OFFSET_DATA if length >= 8 => {
                    let part = part_of(into, offset, self.number::<8>()?, length as usize - 8)?;
                    filled += part.len();
                    self.stream.read_exact(part)?;
                }
                CHUNK_OFFSET_HOLE if length == 12 => {
                    let place = self.number::<8>()?;
                    let hole_bytes = self.number::<4>()? as usize;
                    let part = part_of(into, offset, place, hole_bytes)?;
                    filled += part.len();
                    part.fill(0);
                }
                _ => self.refused(kind, length)?,
            }
            if flags & CHUNK_DONE != 0 {
                let is_whole = filled == into.len();
                return if is_whole { Ok(()) } else { Err(breach("a read was answered in part")) };
            }
        }
    }

    /// Lengths and flags of the runs from `offset` on; at least one.
    fn status(&mut self, offset: u64, length: u32) -> io::Result<Vec<(u32, u32)>> {
        self.request(COMMAND_BLOCK_STATUS, offset, length)?;
        let mut runs = Vec::new();
        loop {
            let (flags, kind, length) = self.chunk()?;
            if kind == CHUNK_BLOCK_STATUS && (4..=ANSWER_BYTES_MAX).contains(&length) {
                let mut body = vec![0; length as usize];
                self.stream.read_exact(&mut body)?;
                runs.extend(body[4..].chunks_exact(8).map(|run| (u32_at(run, 0), u32_at(run, 4))));
            } else {
                self.refused(kind, length)?;
            }
            if flags & CHUNK_DONE != 0 {
                let is_moving = runs.iter().any(|(length, _)| *length > 0);
                return if is_moving { Ok(runs) } else { Err(breach("a status without a run")) };
            }
        }
    }

    fn request(&mut self, command: u16, offset: u64, length: u32) -> io::Result<()> {
        self.cookie += 1;
        let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend_from_slice(&0u16.to_be_bytes());
        bytes.extend_from_slice(&command.to_be_bytes());
        bytes.extend_from_slice(&self.cookie.to_be_bytes());
        bytes.extend_from_slice(&offset.to_be_bytes());
        bytes.extend_from_slice(&length.to_be_bytes());
        self.stream.write_all(&bytes)
    }

    /// The header of the next chunk of the answer: flags, type and bytes that follow.
    fn chunk(&mut self) -> io::Result<(u16, u16, u32)> {
        let mut header = [0; 20];
        self.stream.read_exact(&mut header)?;
        if u32_at(&header, 0) != STRUCTURED_REPLY_MAGIC || u64_at(&header, 8) != self.cookie {
            return Err(breach("an answer to something else"));
        }
        Ok((u16_at(&header, 4), u16_at(&header, 6), u32_at(&header, 16)))
    }

    /// A chunk that brings neither data nor status: nothing at all, or an error.
    fn refused(&mut self, kind: u16, length: u32) -> io::Result<()> {
        if length > ANSWER_BYTES_MAX {
            return Err(breach("a chunk that is too long"));
        }
        let mut body = vec![0; length as usize];
        self.stream.read_exact(&mut body)?;
        if kind & CHUNK_ERROR == 0 {
            return Ok(());
        }
        // u32 error, u16 length of the text, the text.
        Err(io::Error::other(text_of(body.get(6..).unwrap_or_default())))
    }

    fn number<const N: usize>(&mut self) -> io::Result<u64> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn broken(&self, error: &io::Error) -> Error {
        if error.kind() == io::ErrorKind::NotFound {
            let message = format!("NBD refuses `{}` ({error})", self.name);
            return Error::new(ErrorKind::NotFound, message, "`ashlar volume list` shows what there is");
        }
        // What a time-out of a socket is called.
        if error.kind() == io::ErrorKind::WouldBlock {
            let message = format!("the array does not answer over NBD, asked for `{}`", self.name);
            let action = "look at the log of `ashlar serve`, and whether its process is stopped";
            return Error::new(ErrorKind::Closed, message, action);
        }
        let message = format!("reading `{}` over NBD stopped ({error})", self.name);
        Error::new(ErrorKind::Medium, message, "look at `ashlar events`, then repeat")
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        // A courtesy: a server that is gone does not need it.
        let _ = self.request(COMMAND_DISCONNECT, 0, 0);
    }
}

/// Where the bytes of a chunk for `place` go, when `into` is what was asked for at `offset`.
fn part_of(into: &mut [u8], offset: u64, place: u64, length: usize) -> io::Result<&mut [u8]> {
    let start = place.checked_sub(offset).and_then(|start| usize::try_from(start).ok());
    let part = start.and_then(|start| into.get_mut(start..start.checked_add(length)?));
    part.ok_or_else(|| breach("data for another place"))
}

fn breach(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Big-endian numbers in a message whose length is known.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) << 16 | u32::from(u16_at(bytes, at + 2))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) << 32 | u64::from(u32_at(bytes, at + 4))
}
