//! An NBD client's bytes: its haggling, its requests, and what it understands of the replies.
//!
//! Written from the protocol's text, not from the target's code, of which it uses the numbers only.

use std::collections::BTreeMap;

use ashlar_block::{Error, ErrorKind, Extent, ExtentKind, Result};
use ashlar_nbd::wire::{self, Reader, chunk, command, flag, info, option, reply};
use ashlar_runtime::sync::OneshotSender;

/// Which replies the client asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    Simple,
    Structured,
    Extended,
}

/// What a request brought back.
#[derive(Debug)]
pub enum Answer {
    Done,
    Bytes(Vec<u8>),
    Extents(Vec<Extent>),
}

/// A request whose reply has not come whole.
struct Waiting {
    command: u16,
    offset: u64,
    /// Bytes of a read, and how many have arrived.
    bytes: Vec<u8>,
    filled: u64,
    extents: Vec<Extent>,
    error: Option<Error>,
    done: OneshotSender<Result<Answer>>,
}

/// The client's side of a connection.
pub struct Client {
    style: Style,
    waiting: BTreeMap<u64, Waiting>,
    cookies: u64,
    has_begun: bool,
    /// Replies to options that must still come before transmission begins.
    acks_expected: u32,
    input: Vec<u8>,
}

impl Client {
    /// The client and the bytes it sends first.
    pub fn new(style: Style, export: &str) -> (Client, Vec<u8>) {
        let mut out = Vec::new();
        let flags = u32::from(wire::HANDSHAKE_FIXED_NEWSTYLE | wire::HANDSHAKE_NO_ZEROES);
        out.extend_from_slice(&flags.to_be_bytes());
        let mut acks_expected = 1;
        let mut name = (export.len() as u32).to_be_bytes().to_vec();
        name.extend_from_slice(export.as_bytes());
        if style != Style::Simple {
            let kind =
                if style == Style::Extended { option::EXTENDED_HEADERS } else { option::STRUCTURED_REPLY };
            put_option(&mut out, kind, &[]);
            let mut data = name.clone();
            data.extend_from_slice(&1u32.to_be_bytes());
            let context = b"base:allocation";
            data.extend_from_slice(&(context.len() as u32).to_be_bytes());
            data.extend_from_slice(context);
            put_option(&mut out, option::SET_META_CONTEXT, &data);
            acks_expected += 2;
        }
        let mut data = name;
        data.extend_from_slice(&1u16.to_be_bytes());
        data.extend_from_slice(&info::BLOCK_SIZE.to_be_bytes());
        put_option(&mut out, option::GO, &data);
        let waiting = BTreeMap::new();
        (Client { style, waiting, cookies: 0, has_begun: false, acks_expected, input: Vec::new() }, out)
    }

    /// The longest range one request may have.
    pub fn length_max(&self) -> u64 {
        if self.style == Style::Extended { u64::MAX } else { u64::from(u32::MAX) }
    }

    /// True when the client can ask what backs a range.
    pub fn has_extents(&self) -> bool {
        self.style != Style::Simple
    }

    /// The bytes of a request; its answer goes to `done`.
    pub fn request(
        &mut self,
        kind: u16,
        flags: u16,
        offset: u64,
        length: u64,
        payload: &[u8],
        done: OneshotSender<Result<Answer>>,
    ) -> Vec<u8> {
        self.cookies += 1;
        let cookie = self.cookies;
        let mut out = Vec::with_capacity(wire::EXTENDED_REQUEST_BYTES + payload.len());
        let is_extended = self.style == Style::Extended;
        let magic = if is_extended { wire::EXTENDED_REQUEST_MAGIC } else { wire::REQUEST_MAGIC };
        let flags = if is_extended && kind == command::WRITE { flags | flag::PAYLOAD_LEN } else { flags };
        out.extend_from_slice(&magic.to_be_bytes());
        out.extend_from_slice(&flags.to_be_bytes());
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&cookie.to_be_bytes());
        out.extend_from_slice(&offset.to_be_bytes());
        if is_extended {
            out.extend_from_slice(&length.to_be_bytes());
        } else {
            out.extend_from_slice(&(length as u32).to_be_bytes());
        }
        out.extend_from_slice(payload);
        let bytes = if kind == command::READ { vec![0xc3; length as usize] } else { Vec::new() };
        let waiting =
            Waiting { command: kind, offset, bytes, filled: 0, extents: Vec::new(), error: None, done };
        self.waiting.insert(cookie, waiting);
        out
    }

    /// Takes bytes from the server. An error is a breach of the protocol.
    pub fn receive(&mut self, bytes: &[u8]) -> std::result::Result<(), String> {
        self.input.extend_from_slice(bytes);
        loop {
            let taken = if self.has_begun { self.reply()? } else { self.haggle()? };
            if taken == 0 {
                return Ok(());
            }
            self.input.drain(..taken);
        }
    }

    /// True when every request is answered and nothing is left over.
    pub fn is_settled(&self) -> bool {
        self.waiting.is_empty() && self.input.is_empty()
    }

    /// One message of the haggling; returns its length, 0 when it has not arrived whole.
    fn haggle(&mut self) -> std::result::Result<usize, String> {
        if self.input.starts_with(&wire::MAGIC.to_be_bytes()) {
            let is_whole = self.input.len() >= wire::GREETING_BYTES;
            return Ok(if is_whole { wire::GREETING_BYTES } else { 0 });
        }
        let mut reader = Reader(&self.input);
        let header = (|| Some((reader.u64()?, reader.u32()?, reader.u32()?, reader.u32()?)))();
        let Some((magic, _, kind, length)) = header else { return Ok(0) };
        if magic != wire::OPTION_REPLY_MAGIC {
            return Err(format!("option reply with magic {magic:x}"));
        }
        if reader.bytes(length as usize).is_none() {
            return Ok(0);
        }
        match kind {
            reply::ACK => {
                self.acks_expected -= 1;
                self.has_begun = self.acks_expected == 0;
            }
            reply::INFO | reply::META_CONTEXT => {}
            other => return Err(format!("an option was answered with {other:x}")),
        }
        Ok(20 + length as usize)
    }

    /// One reply or chunk of a reply; returns its length, 0 when it has not arrived whole.
    fn reply(&mut self) -> std::result::Result<usize, String> {
        let input = std::mem::take(&mut self.input);
        let taken = self.reply_in(&input);
        self.input = input;
        taken
    }

    fn reply_in(&mut self, input: &[u8]) -> std::result::Result<usize, String> {
        let Some(magic) = Reader(input).u32() else { return Ok(0) };
        match magic {
            wire::SIMPLE_REPLY_MAGIC => self.simple_reply(input),
            wire::STRUCTURED_REPLY_MAGIC if self.style == Style::Structured => self.chunk(input, false),
            wire::EXTENDED_REPLY_MAGIC if self.style == Style::Extended => self.chunk(input, true),
            other => Err(format!("a reply with magic {other:x} in style {:?}", self.style)),
        }
    }

    fn simple_reply(&mut self, input: &[u8]) -> std::result::Result<usize, String> {
        let mut reader = Reader(input);
        let header = (|| Some((reader.u32()?, reader.u32()?, reader.u64()?)))();
        let Some((_, errno, cookie)) = header else { return Ok(0) };
        let Some(waiting) = self.waiting.get_mut(&cookie) else {
            return Err(format!("a reply to request {cookie}, which does not wait"));
        };
        let is_read = waiting.command == command::READ;
        if self.style == Style::Extended || (self.style == Style::Structured && is_read) {
            return Err(format!("a simple reply to a read in style {:?}", self.style));
        }
        let mut taken = wire::SIMPLE_REPLY_BYTES;
        if errno == 0 && is_read {
            let Some(bytes) = reader.bytes(waiting.bytes.len()) else { return Ok(0) };
            waiting.bytes.copy_from_slice(bytes);
            waiting.filled = bytes.len() as u64;
            taken += bytes.len();
        }
        waiting.error = error_of(errno, "a simple reply");
        self.finish(cookie)?;
        Ok(taken)
    }

    fn chunk(&mut self, input: &[u8], is_extended: bool) -> std::result::Result<usize, String> {
        let mut reader = Reader(input);
        let header = (|| {
            let (_, flags, kind, cookie) = (reader.u32()?, reader.u16()?, reader.u16()?, reader.u64()?);
            let length = if is_extended {
                reader.u64()?;
                reader.u64()?
            } else {
                u64::from(reader.u32()?)
            };
            Some((flags, kind, cookie, length))
        })();
        let Some((flags, kind, cookie, length)) = header else { return Ok(0) };
        let Some(payload) = reader.bytes(length as usize) else { return Ok(0) };
        let Some(waiting) = self.waiting.get_mut(&cookie) else {
            return Err(format!("a chunk for request {cookie}, which does not wait"));
        };
        waiting.take_chunk(kind, payload).ok_or_else(|| format!("a malformed chunk of type {kind}"))?;
        if flags & wire::CHUNK_DONE != 0 {
            self.finish(cookie)?;
        }
        Ok(input.len() - reader.0.len())
    }

    fn finish(&mut self, cookie: u64) -> std::result::Result<(), String> {
        let waiting = self.waiting.remove(&cookie).expect("the caller found it");
        let answer = match (waiting.error, waiting.command) {
            (Some(error), _) => Err(error),
            (None, command::READ) if waiting.filled != waiting.bytes.len() as u64 => {
                return Err(format!("a read of {} bytes got {}", waiting.bytes.len(), waiting.filled));
            }
            (None, command::READ) => Ok(Answer::Bytes(waiting.bytes)),
            (None, command::BLOCK_STATUS) => Ok(Answer::Extents(waiting.extents)),
            (None, _) => Ok(Answer::Done),
        };
        drop(waiting.done.send(answer));
        Ok(())
    }
}

impl Waiting {
    fn take_chunk(&mut self, kind: u16, payload: &[u8]) -> Option<()> {
        let mut reader = Reader(payload);
        match kind {
            chunk::NONE => {}
            chunk::OFFSET_DATA => {
                let at = reader.u64()?.checked_sub(self.offset)? as usize;
                self.bytes.get_mut(at..at + reader.0.len())?.copy_from_slice(reader.0);
                self.filled += reader.0.len() as u64;
            }
            chunk::OFFSET_HOLE => {
                let at = reader.u64()?.checked_sub(self.offset)? as usize;
                let length = reader.u32()? as usize;
                self.bytes.get_mut(at..at + length)?.fill(0);
                self.filled += length as u64;
            }
            chunk::BLOCK_STATUS => {
                reader.u32()?;
                while !reader.0.is_empty() {
                    let (length, state) = (u64::from(reader.u32()?), reader.u32()?);
                    self.extents.push(extent(length, state));
                }
            }
            chunk::BLOCK_STATUS_EXT => {
                reader.u32()?;
                for _ in 0..reader.u32()? {
                    let (length, state) = (reader.u64()?, reader.u64()?);
                    self.extents.push(extent(length, state as u32));
                }
            }
            chunk::ERROR => {
                let errno = reader.u32()?;
                let length = usize::from(reader.u16()?);
                let text = String::from_utf8_lossy(reader.bytes(length)?).into_owned();
                self.error = error_of(errno, &text);
            }
            _ => return None,
        }
        Some(())
    }
}

fn extent(length_bytes: u64, state: u32) -> Extent {
    let kind = match (state & wire::STATE_HOLE != 0, state & wire::STATE_ZERO != 0) {
        (true, true) => ExtentKind::Hole,
        (false, true) => ExtentKind::Zero,
        (_, false) => ExtentKind::Data,
    };
    Extent { length_bytes, kind }
}

fn error_of(errno: u32, text: &str) -> Option<Error> {
    let kind = match errno {
        0 => return None,
        1 => ErrorKind::ReadOnly,
        22 => ErrorKind::Invalid,
        // The protocol's word for both: a write that a shrinking volume left behind, and a full pool.
        28 if text.contains("beyond the end") => ErrorKind::Invalid,
        28 => ErrorKind::NoSpace,
        108 => ErrorKind::Gone,
        _ => ErrorKind::Medium,
    };
    Some(Error::new(kind, format!("over NBD, errno {errno}: {text}")))
}

fn put_option(out: &mut Vec<u8>, kind: u32, data: &[u8]) {
    out.extend_from_slice(&wire::OPTION_MAGIC.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
}
