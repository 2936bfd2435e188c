//! One connection's state: bytes in, events and reply bytes out. No sockets, no clock, no device.
//!
//! ```text
//!   ClientFlags ──► Options ◄──► SkipOption        option haggling (`negotiation`)
//!                      │ GO, EXPORT_NAME
//!                      ▼
//!   SkipPayload ◄──► Requests ◄──► Payload         transmission (here, replies in `reply`)
//!                      │ DISC, ABORT, a breach of the protocol
//!                      ▼
//!                   Finished
//! ```
//!
//! The caller feeds what it has received and keeps what was not consumed; the session buffers nothing,
//! so it gives the same answers however the stream is cut. A request it hands out is in exactly one
//! state of [`InFlight`] until the caller gives its [`RequestId`] back, which can be done only once.
//!
//! Invariants: (1) every request gets exactly one final reply; (2) at most `requests_max` requests and,
//! beyond a single larger one, `bytes_max` payload bytes are in flight; (3) a breach after which the
//! stream cannot be understood ends the session, everything else is answered with an error.

use crate::error::Refusal;
use crate::negotiation::OPTIONS_MAX;
use crate::wire::{self, Errno, RequestHeader, command, flag};
use ashlar_units::{Fault, planted};

/// The largest payload of a read or write, advertised as such. 32 MiB is the protocol's default, which
/// no client may treat as an attack ("Size constraints").
pub const PAYLOAD_BYTES_MAX: u64 = 32 << 20;
/// A refused write up to this size is read and thrown away so that the connection lives on; a larger
/// one ends it. Twice the advertised maximum: arbitrary, the same as nbdkit's.
const SKIPPED_PAYLOAD_BYTES_MAX: u64 = 2 * PAYLOAD_BYTES_MAX;
/// Extents in one block status reply; the protocol advises at most 2^20. Arbitrary: 128 KiB of reply.
pub const EXTENTS_MAX: usize = 16 << 10;

/// Where reply bytes go.
pub trait Output {
    /// Appends bytes to the stream towards the client.
    fn put(&mut self, bytes: &[u8]);
}

impl Output for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// What a client is told about an export.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Export {
    /// The canonical name.
    pub name: String,
    /// For people; may be empty.
    pub description: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// The smallest unit of a request: the volume's logical block.
    pub block_bytes_min: u32,
    /// The unit that costs no read-modify-write.
    pub block_bytes_preferred: u32,
    /// Writes are refused.
    pub is_read_only: bool,
}

/// The exports a client may choose from.
pub trait Exports {
    /// The export of this name. The empty name means the default export, if there is one.
    fn export(&self, name: &str) -> Option<Export>;
    /// All names.
    fn names(&self) -> Vec<String>;
    /// What a person should know who asks for a name that is not there.
    fn absence(&self) -> Option<String> {
        None
    }
}

/// How much a connection may have in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Requests handed out and not completed.
    pub requests_max: usize,
    /// Payload bytes of those requests; one larger request alone is let through.
    pub bytes_max: u64,
}

/// What a request asks the device to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Read the range.
    Read,
    /// Write the payload.
    Write,
    /// Make completed writes durable.
    Flush,
    /// Give the range back.
    Trim,
    /// Prefetch the range.
    Cache,
    /// Make the range read as zeroes.
    WriteZeroes {
        /// It may become a hole.
        may_unmap: bool,
    },
    /// Tell what backs the range.
    BlockStatus {
        /// How many extents at most.
        extents_max: usize,
    },
}

/// The right to complete one request, once.
#[derive(PartialEq, Eq, Debug)]
pub struct RequestId(pub(crate) u32);

/// A request that passed every check the protocol asks for.
#[derive(PartialEq, Eq, Debug)]
pub struct Request {
    /// Gives the answer its address.
    pub id: RequestId,
    /// What to do.
    pub command: Command,
    /// Start of the range in bytes; a multiple of the logical block, inside the export.
    pub offset: u64,
    /// Length of the range in bytes; the same.
    pub length: u64,
    /// The answer must wait until the change is durable.
    pub is_fua: bool,
}

/// What the caller has to do.
#[derive(PartialEq, Eq, Debug)]
pub enum Event {
    /// Nothing more can be done with this input: receive more behind what was not consumed.
    Starved,
    /// Transmission begins on this export.
    Opened(Export),
    /// Start this request. If it is a write of more than zero bytes, its payload comes first.
    Request(Request),
    /// The last `length` bytes consumed belong to the payload of the write handed out last.
    Payload {
        /// How many.
        length: usize,
        /// The payload is whole: start the write.
        is_last: bool,
    },
    /// Too much is in flight: complete something, then feed the same input again.
    Full,
    /// The client said goodbye: complete what is in flight, send all replies, close.
    Finish,
    /// The stream cannot be understood or is an abuse: send what is queued, close.
    Close(&'static str),
}

/// What one call of [`Session::receive`] did.
#[derive(PartialEq, Eq, Debug)]
pub struct Step {
    /// Bytes of the input that are done with.
    pub consumed: usize,
    /// What comes next.
    pub event: Event,
}

/// Which reply headers were negotiated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    Simple,
    Structured,
    Extended,
}

/// A request's part that its reply needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub cookie: u64,
    pub offset: u64,
    pub length: u64,
    pub command: Command,
    /// The client set `NBD_CMD_FLAG_DF`.
    pub is_unfragmented: bool,
}

impl Pending {
    /// What the request counts towards `bytes_max`.
    fn payload_bytes(&self) -> u64 {
        match self.command {
            Command::Read | Command::Write => self.length,
            Command::Flush
            | Command::Trim
            | Command::Cache
            | Command::WriteZeroes { .. }
            | Command::BlockStatus { .. } => 0,
        }
    }
}

/// The state of a place in the table of requests.
enum InFlight {
    /// No request: the place may be taken.
    Free,
    /// A write whose payload has not arrived whole.
    Receiving(Pending),
    /// The caller works on it.
    Running(Pending),
}

pub(crate) enum Phase {
    ClientFlags,
    Options,
    SkipOption { option: u32, remaining: u64 },
    Requests,
    Payload { index: u32, remaining: u64 },
    SkipPayload { cookie: u64, offset: u64, remaining: u64, refusal: Refusal },
    Finished,
}

/// The state of one connection.
pub struct Session {
    pub(crate) phase: Phase,
    pub(crate) style: Style,
    pub(crate) has_no_zeroes: bool,
    pub(crate) options_count: u32,
    /// The export name for which `base:allocation` was last selected.
    pub(crate) allocation_context: Option<String>,
    pub(crate) has_block_status: bool,
    pub(crate) export: Option<Export>,
    pub(crate) is_shutting_down: bool,
    /// Why this client is served nothing, if it is not.
    pub(crate) refusal: Option<String>,
    /// Options that this client may send.
    pub(crate) options_max: u32,
    limits: Limits,
    requests: Vec<InFlight>,
    free: Vec<u32>,
    bytes_in_flight: u64,
}

impl Session {
    /// A new session; the greeting goes to `out`.
    pub fn new(limits: Limits, out: &mut dyn Output) -> Session {
        assert!(limits.requests_max > 0, "a session must admit one request");
        out.put(&wire::greeting());
        Session {
            phase: Phase::ClientFlags,
            style: Style::Simple,
            has_no_zeroes: false,
            options_count: 0,
            allocation_context: None,
            has_block_status: false,
            export: None,
            is_shutting_down: false,
            refusal: None,
            options_max: OPTIONS_MAX,
            limits,
            requests: Vec::new(),
            free: Vec::new(),
            bytes_in_flight: 0,
        }
    }

    /// Requests handed out and not completed, half-received writes included.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.requests.len() - self.free.len()
    }

    /// True when the client chose an export that it may not write.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.export.as_ref().is_some_and(|export| export.is_read_only)
    }

    /// From now on options and requests are answered with the protocol's word for a shutdown.
    pub fn begin_shutdown(&mut self) {
        self.is_shutting_down = true;
    }

    /// From now on options are answered with this sentence: what the protocol has for a client that may not
    /// come in.
    pub fn refuse_all(&mut self, why: String) {
        self.refusal = Some(why);
    }

    /// Payload bytes that the write handed out last still waits for; 0 when none does.
    #[must_use]
    pub fn payload_remaining(&self) -> u64 {
        match self.phase {
            Phase::Payload { remaining, .. } => remaining,
            Phase::ClientFlags
            | Phase::Options
            | Phase::SkipOption { .. }
            | Phase::Requests
            | Phase::SkipPayload { .. }
            | Phase::Finished => 0,
        }
    }

    /// Tells the session that payload bytes went straight into the write's buffer. True when the
    /// payload is whole.
    pub fn payload_received(&mut self, length: u64) -> bool {
        let Phase::Payload { index, remaining } = &mut self.phase else {
            panic!("payload_received without a write that waits for payload");
        };
        assert!(length <= *remaining, "{length} bytes of payload where {remaining} were missing");
        *remaining -= length;
        if *remaining > 0 {
            return false;
        }
        let place = &mut self.requests[*index as usize];
        let InFlight::Receiving(pending) = *place else {
            panic!("the write that receives payload is not in state Receiving");
        };
        *place = InFlight::Running(pending);
        self.phase = Phase::Requests;
        true
    }

    /// Takes bytes from the client up to the next event. Replies that need no device go to `out`.
    pub fn receive(&mut self, input: &[u8], exports: &dyn Exports, out: &mut dyn Output) -> Step {
        let mut consumed = 0;
        loop {
            let rest = &input[consumed..];
            let (taken, event) = match self.phase {
                Phase::ClientFlags => self.client_flags(rest),
                Phase::Options => self.option(rest, exports, out),
                Phase::SkipOption { option, remaining } => self.skip_option(rest, option, remaining, out),
                Phase::Requests => self.request(rest, out),
                Phase::Payload { remaining, .. } => self.payload(rest, remaining),
                Phase::SkipPayload { cookie, offset, remaining, refusal } => {
                    let taken = remaining.min(rest.len() as u64);
                    if taken == remaining {
                        self.phase = Phase::Requests;
                        // Only a write carries a payload in the style where reads look different.
                        self.refuse(command::WRITE, cookie, offset, refusal, out);
                        (taken as usize, None)
                    } else {
                        let remaining = remaining - taken;
                        self.phase = Phase::SkipPayload { cookie, offset, remaining, refusal };
                        (taken as usize, Some(Event::Starved))
                    }
                }
                // A client MUST NOT send anything after NBD_CMD_DISC; if it does, nobody listens.
                Phase::Finished => (rest.len(), Some(Event::Finish)),
            };
            consumed += taken;
            if let Some(event) = event {
                return Step { consumed, event };
            }
        }
    }

    fn payload(&mut self, rest: &[u8], remaining: u64) -> (usize, Option<Event>) {
        let length = remaining.min(rest.len() as u64);
        if length == 0 {
            return (0, Some(Event::Starved));
        }
        let is_last = self.payload_received(length);
        (length as usize, Some(Event::Payload { length: length as usize, is_last }))
    }

    fn request(&mut self, rest: &[u8], out: &mut dyn Output) -> (usize, Option<Event>) {
        let (header, header_bytes) = if self.style == Style::Extended {
            let Some(bytes) = rest.first_chunk() else { return (0, Some(Event::Starved)) };
            (wire::extended_request(bytes), wire::EXTENDED_REQUEST_BYTES)
        } else {
            let Some(bytes) = rest.first_chunk() else { return (0, Some(Event::Starved)) };
            (wire::request(bytes), wire::REQUEST_BYTES)
        };
        let Some(header) = header else {
            self.phase = Phase::Finished;
            return (header_bytes, Some(Event::Close("request without the right magic")));
        };
        if header.command == command::DISC {
            self.phase = Phase::Finished;
            return (header_bytes, Some(Event::Finish));
        }
        let payload_bytes = if self.has_payload(&header) { header.length } else { 0 };
        match self.check(&header) {
            Ok(_) if header.length == 0 && header.command != command::FLUSH => {
                // The protocol leaves empty requests open; doing nothing does no harm.
                self.succeed_empty(header.command, header.cookie, header.offset, out);
                (header_bytes, None)
            }
            Ok(command) => match self.admit(&header, command) {
                Some(request) => (header_bytes, Some(Event::Request(request))),
                None => (0, Some(Event::Full)),
            },
            Err(_) if payload_bytes > self.skipped_bytes_max() => {
                self.phase = Phase::Finished;
                (header_bytes, Some(Event::Close("payload far above the advertised maximum")))
            }
            Err(refusal) if payload_bytes > 0 => {
                let RequestHeader { cookie, offset, .. } = header;
                self.phase = Phase::SkipPayload { cookie, offset, remaining: payload_bytes, refusal };
                (header_bytes, None)
            }
            Err(refusal) => {
                self.refuse(header.command, header.cookie, header.offset, refusal, out);
                (header_bytes, None)
            }
        }
    }

    fn has_payload(&self, header: &RequestHeader) -> bool {
        match self.style {
            Style::Simple | Style::Structured => header.command == command::WRITE,
            Style::Extended => header.flags & flag::PAYLOAD_LEN != 0,
        }
    }

    fn skipped_bytes_max(&self) -> u64 {
        match self.style {
            Style::Simple | Style::Structured => SKIPPED_PAYLOAD_BYTES_MAX,
            // "A server SHOULD initiate hard disconnect if a client [...] uses a length larger than a
            // server's advertised or default maximum payload length."
            Style::Extended => PAYLOAD_BYTES_MAX,
        }
    }

    /// Takes a place in the table; `None` when the limits do not allow it now.
    fn admit(&mut self, header: &RequestHeader, command: Command) -> Option<Request> {
        let pending = Pending {
            cookie: header.cookie,
            offset: header.offset,
            length: header.length,
            command,
            is_unfragmented: header.flags & flag::DF != 0,
        };
        let bytes = pending.payload_bytes();
        if self.in_flight() >= self.limits.requests_max
            || (self.bytes_in_flight > 0 && self.bytes_in_flight + bytes > self.limits.bytes_max)
        {
            return None;
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.requests.push(InFlight::Free);
                (self.requests.len() - 1) as u32
            }
        };
        self.bytes_in_flight += bytes;
        self.requests[index as usize] = if command == Command::Write {
            self.phase = Phase::Payload { index, remaining: header.length };
            InFlight::Receiving(pending)
        } else {
            InFlight::Running(pending)
        };
        Some(Request {
            id: RequestId(index),
            command,
            offset: header.offset,
            length: header.length,
            is_fua: header.flags & flag::FUA != 0,
        })
    }

    /// Frees the place of a request that the caller completes.
    pub(crate) fn retire(&mut self, id: &RequestId) -> Pending {
        let InFlight::Running(pending) = std::mem::replace(&mut self.requests[id.0 as usize], InFlight::Free)
        else {
            panic!("request {} is completed in a state other than Running", id.0);
        };
        self.free.push(id.0);
        self.bytes_in_flight -= pending.payload_bytes();
        if planted(Fault::NbdWrongCookie) {
            Pending { cookie: pending.cookie ^ 1, ..pending }
        } else {
            pending
        }
    }

    /// Every check of a request that needs no device.
    fn check(&self, header: &RequestHeader) -> Result<Command, Refusal> {
        let refuse = |errno, message| Err(Refusal { errno, message });
        let export = self.export.as_ref().expect("transmission begins with an export");
        if self.is_shutting_down {
            return refuse(Errno::Shutdown, "the server shuts down");
        }
        let (command, flags_valid) = match header.command {
            command::READ if self.style == Style::Simple => (Command::Read, 0),
            command::READ => (Command::Read, flag::DF),
            command::WRITE if self.style == Style::Extended => (Command::Write, flag::PAYLOAD_LEN),
            command::WRITE => (Command::Write, 0),
            command::FLUSH => (Command::Flush, 0),
            command::TRIM => (Command::Trim, 0),
            command::CACHE => (Command::Cache, 0),
            command::WRITE_ZEROES => (
                Command::WriteZeroes { may_unmap: header.flags & flag::NO_HOLE == 0 },
                flag::NO_HOLE | flag::FAST_ZERO,
            ),
            command::BLOCK_STATUS => {
                let is_one = header.flags & flag::REQ_ONE != 0;
                (Command::BlockStatus { extents_max: if is_one { 1 } else { EXTENTS_MAX } }, flag::REQ_ONE)
            }
            _ => return refuse(Errno::Inval, "unknown command"),
        };
        // FUA is valid for all commands, even where it means nothing ("Command flags").
        if header.flags & !(flags_valid | flag::FUA) != 0 {
            return refuse(Errno::Inval, "flag that this command does not have");
        }
        if command == Command::Write && !self.has_payload(header) {
            return refuse(Errno::Inval, "write without a payload");
        }
        let is_write = matches!(command, Command::Write | Command::Trim | Command::WriteZeroes { .. });
        if is_write && export.is_read_only {
            return refuse(Errno::Perm, "the export is read-only");
        }
        if command == Command::Flush {
            return match (header.offset, header.length) {
                (0, 0) => Ok(command),
                _ => refuse(Errno::Inval, "offset and length of a flush must be zero"),
            };
        }
        self.check_range(header, command, export)?;
        Ok(command)
    }

    fn check_range(&self, header: &RequestHeader, command: Command, export: &Export) -> Result<(), Refusal> {
        let refuse = |errno, message| Err(Refusal { errno, message });
        let unit = u64::from(export.block_bytes_min);
        if !header.offset.is_multiple_of(unit) || !header.length.is_multiple_of(unit) {
            return refuse(Errno::Inval, "offset or length is not a multiple of the minimum block size");
        }
        if matches!(command, Command::Read | Command::Write) && header.length > PAYLOAD_BYTES_MAX {
            return match (command, self.style) {
                (Command::Read, Style::Structured | Style::Extended) => {
                    refuse(Errno::Overflow, "longer than the maximum payload of 32 MiB")
                }
                _ => refuse(Errno::Inval, "longer than the maximum payload of 32 MiB"),
            };
        }
        let is_inside = header.offset.checked_add(header.length).is_some_and(|end| end <= export.size_bytes);
        if !is_inside {
            return match command {
                Command::Write | Command::WriteZeroes { .. } => {
                    refuse(Errno::NoSpc, "beyond the end of the export")
                }
                Command::Read
                | Command::Flush
                | Command::Trim
                | Command::Cache
                | Command::BlockStatus { .. } => refuse(Errno::Inval, "beyond the end of the export"),
            };
        }
        match command {
            Command::BlockStatus { .. } if !self.has_block_status => {
                refuse(Errno::Inval, "no metadata context was selected for this export")
            }
            Command::BlockStatus { .. } if header.length == 0 => {
                refuse(Errno::Inval, "block status of nothing")
            }
            Command::WriteZeroes { .. } if header.flags & flag::FAST_ZERO != 0 => {
                // Whole blocks are zeroed in the map alone; a part of one is a read-modify-write, which
                // is no faster than the write.
                let preferred = u64::from(export.block_bytes_preferred);
                if header.offset.is_multiple_of(preferred) && header.length.is_multiple_of(preferred) {
                    Ok(())
                } else {
                    refuse(Errno::NotSup, "zeroing parts of a block is not fast")
                }
            }
            _ => Ok(()),
        }
    }
}
