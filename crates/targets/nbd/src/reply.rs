//! Transmission replies: how the outcome of a request becomes bytes, in the style that was negotiated.

use ashlar_block::{Extent, ExtentKind};
use ashlar_units::{Fault, planted};

use crate::error::{Refusal, errno_of};
use crate::negotiation::ALLOCATION_CONTEXT_ID;
use crate::session::{Command, Output, Pending, RequestId, Session, Style};
use crate::wire::{self, CHUNK_DONE, Errno, chunk, command};

/// A structured read leaves out runs of zeroes of this size and alignment (from the start of the
/// request). Arbitrary: scanning 32 KiB costs about a microsecond, sending it ten times that.
const HOLE_BYTES: usize = 32 << 10;
/// Text in an error chunk; a string may have 4096 bytes, one line is enough.
const MESSAGE_BYTES_MAX: usize = 256;

/// How a request ended.
#[derive(Debug)]
pub enum Outcome<'a> {
    /// Done; nothing to tell.
    Done,
    /// The answer to a block status request.
    Extents(&'a [Extent]),
    /// The device refused it or failed.
    Failed(&'a ashlar_block::Error),
}

/// Where the reply to a read was put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadReply {
    /// The header stands before the data: send the whole buffer.
    InPlace,
    /// The output has everything: the buffer is not needed any more.
    Encoded,
}

impl Session {
    /// Room that a read's buffer must leave before the data, so that header and data are sent as one.
    #[must_use]
    pub fn read_header_bytes(&self) -> usize {
        match self.style {
            Style::Simple => wire::SIMPLE_REPLY_BYTES,
            Style::Structured => wire::STRUCTURED_HEADER_BYTES + 8,
            Style::Extended => wire::EXTENDED_HEADER_BYTES + 8,
        }
    }

    /// Ends any request but a successful read.
    pub fn complete(&mut self, id: RequestId, outcome: Outcome<'_>, out: &mut dyn Output) {
        let pending = self.retire(&id);
        match outcome {
            Outcome::Done => self.put_success(&pending, out),
            Outcome::Extents(extents) => self.put_extents(&pending, extents, out),
            Outcome::Failed(_) if planted(Fault::NbdErrorNotTold) => self.put_success(&pending, out),
            Outcome::Failed(error) => {
                self.put_error(&pending, errno_of(error.kind), &error.context, out);
            }
        }
    }

    /// Ends a successful read. `buffer` is [`Session::read_header_bytes`] of room, then the data.
    pub fn complete_read(&mut self, id: RequestId, buffer: &mut [u8], out: &mut dyn Output) -> ReadReply {
        let pending = self.retire(&id);
        let (header, data) = buffer.split_at_mut(self.read_header_bytes());
        assert_eq!(data.len() as u64, pending.length, "a read is answered whole");
        if self.style == Style::Simple {
            header.copy_from_slice(&wire::simple_reply(0, pending.cookie));
            return ReadReply::InPlace;
        }
        if !pending.is_unfragmented && data.len() >= HOLE_BYTES && self.put_sparse(&pending, data, out) {
            return ReadReply::Encoded;
        }
        let payload = 8 + data.len() as u64;
        let offset_at = header.len() - 8;
        if self.style == Style::Extended {
            header[..offset_at].copy_from_slice(&wire::extended_header(
                CHUNK_DONE,
                chunk::OFFSET_DATA,
                pending.cookie,
                pending.offset,
                payload,
            ));
        } else {
            header[..offset_at].copy_from_slice(&wire::structured_header(
                CHUNK_DONE,
                chunk::OFFSET_DATA,
                pending.cookie,
                payload as u32,
            ));
        }
        header[offset_at..].copy_from_slice(&pending.offset.to_be_bytes());
        ReadReply::InPlace
    }

    /// Sends the data as chunks without the runs of zeroes. False, and nothing sent, if there are none.
    fn put_sparse(&self, pending: &Pending, data: &[u8], out: &mut dyn Output) -> bool {
        let is_hole = |part: &[u8]| {
            part.len() == HOLE_BYTES
                && is_zero(&part[..if planted(Fault::NbdHalfHole) { HOLE_BYTES / 2 } else { HOLE_BYTES }])
        };
        if !data.chunks(HOLE_BYTES).any(is_hole) {
            return false;
        }
        let mut at = 0;
        while at < data.len() {
            let parts = || data[at..].chunks(HOLE_BYTES);
            let is_run_hole = parts().next().is_some_and(is_hole);
            let length: usize = parts().take_while(|p| is_hole(p) == is_run_hole).map(<[u8]>::len).sum();
            let offset = (pending.offset + at as u64).to_be_bytes();
            let flags = if at + length == data.len() { CHUNK_DONE } else { 0 };
            if is_run_hole {
                let size = (length as u32).to_be_bytes();
                self.put_chunk(pending, flags, chunk::OFFSET_HOLE, &[&offset, &size], out);
            } else {
                let bytes = &data[at..at + length];
                self.put_chunk(pending, flags, chunk::OFFSET_DATA, &[&offset, bytes], out);
            }
            at += length;
        }
        true
    }

    fn put_extents(&self, pending: &Pending, extents: &[Extent], out: &mut dyn Output) {
        let runs = status_runs(extents, pending.length);
        if runs.is_empty() {
            self.put_error(pending, Errno::Io, "the device told no extents", out);
            return;
        }
        let id = ALLOCATION_CONTEXT_ID.to_be_bytes();
        let mut payload = Vec::with_capacity(runs.len() * 16);
        if self.style == Style::Extended {
            for (length, flags) in &runs {
                payload.extend_from_slice(&length.to_be_bytes());
                payload.extend_from_slice(&u64::from(*flags).to_be_bytes());
            }
            let count = (runs.len() as u32).to_be_bytes();
            self.put_chunk(pending, CHUNK_DONE, chunk::BLOCK_STATUS_EXT, &[&id, &count, &payload], out);
        } else {
            for (length, flags) in &runs {
                // A compact request has a length of 32 bits, and runs do not exceed it.
                payload.extend_from_slice(&(*length as u32).to_be_bytes());
                payload.extend_from_slice(&flags.to_be_bytes());
            }
            self.put_chunk(pending, CHUNK_DONE, chunk::BLOCK_STATUS, &[&id, &payload], out);
        }
    }

    fn put_success(&self, pending: &Pending, out: &mut dyn Output) {
        match self.style {
            // Allowed for everything without payload, and four bytes shorter than a structured one.
            Style::Simple => out.put(&wire::simple_reply(0, pending.cookie)),
            Style::Structured if pending.command != Command::Read => {
                out.put(&wire::simple_reply(0, pending.cookie));
            }
            Style::Structured | Style::Extended => {
                self.put_chunk(pending, CHUNK_DONE, chunk::NONE, &[], out);
            }
        }
    }

    fn put_error(&self, pending: &Pending, errno: Errno, message: &str, out: &mut dyn Output) {
        let code = errno as u32;
        if self.style == Style::Simple {
            out.put(&wire::simple_reply(code, pending.cookie));
            return;
        }
        let message = message.as_bytes();
        let length = (0..=message.len().min(MESSAGE_BYTES_MAX))
            .rev()
            .find(|end| *end == message.len() || message[*end] & 0xc0 != 0x80)
            .unwrap_or(0);
        let text = &message[..length];
        let size = (length as u16).to_be_bytes();
        self.put_chunk(pending, CHUNK_DONE, chunk::ERROR, &[&code.to_be_bytes(), &size, text], out);
    }

    fn put_chunk(&self, pending: &Pending, flags: u16, kind: u16, parts: &[&[u8]], out: &mut dyn Output) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if self.style == Style::Extended {
            let (cookie, offset) = (pending.cookie, pending.offset);
            out.put(&wire::extended_header(flags, kind, cookie, offset, length as u64));
        } else {
            out.put(&wire::structured_header(flags, kind, pending.cookie, length as u32));
        }
        for part in parts {
            out.put(part);
        }
    }

    /// Answers a request that never came to be in flight with an error.
    pub(crate) fn refuse(&self, kind: u16, cookie: u64, offset: u64, refusal: Refusal, out: &mut dyn Output) {
        self.put_error(&unplaced(kind, cookie, offset), refusal.errno, refusal.message, out);
    }

    /// Answers a request of length zero.
    pub(crate) fn succeed_empty(&self, kind: u16, cookie: u64, offset: u64, out: &mut dyn Output) {
        self.put_success(&unplaced(kind, cookie, offset), out);
    }
}

/// What a reply needs of a request that takes no place in the table. Only whether it is a read matters.
fn unplaced(kind: u16, cookie: u64, offset: u64) -> Pending {
    let command = if kind == command::READ { Command::Read } else { Command::Flush };
    Pending { cookie, offset, length: 0, command, is_unfragmented: false }
}

/// Lengths and flags of `base:allocation`: neighbours with equal flags are one, and the sum stays inside
/// the request.
fn status_runs(extents: &[Extent], length: u64) -> Vec<(u64, u32)> {
    let mut runs: Vec<(u64, u32)> = Vec::with_capacity(extents.len());
    let mut remaining = length;
    for extent in extents {
        let run = extent.length_bytes.min(remaining);
        if run == 0 {
            continue;
        }
        remaining -= run;
        let flags = match extent.kind {
            ExtentKind::Hole => wire::STATE_HOLE | wire::STATE_ZERO,
            ExtentKind::Zero => wire::STATE_ZERO,
            ExtentKind::Data => 0,
        };
        match runs.last_mut() {
            Some((last, last_flags)) if *last_flags == flags => *last += run,
            _ => runs.push((run, flags)),
        }
    }
    runs
}

fn is_zero(bytes: &[u8]) -> bool {
    // Folding 64 bytes at a time becomes vector code and still ends at the first data.
    bytes.chunks(64).all(|part| part.iter().fold(0, |seen, byte| seen | byte) == 0)
}
