//! Option haggling: the part of the session before an export is chosen.

use crate::session::{Event, Export, Exports, Output, PAYLOAD_BYTES_MAX, Phase, Session, Style};
use crate::wire::{self, Reader, info, option, reply, transmission};

/// The longest option data that is looked at; longer ones are skipped and answered `TOO_BIG`. A name of
/// 4096 bytes and a dozen context queries as long fit; also what a receive buffer must hold.
pub const OPTION_BYTES_MAX: u32 = 64 << 10;
/// Options in one session before it is taken for an abuse. Arbitrary: clients send fewer than ten, unless
/// they ask for each export of a list.
pub(crate) const OPTIONS_MAX: u32 = 4096;
/// Options that a client may send for each export of the list it was given. libnbd sends two.
const OPTIONS_PER_EXPORT: u32 = 4;
/// The one metadata context, and the number we give it.
const ALLOCATION_CONTEXT: &str = "base:allocation";
pub(crate) const ALLOCATION_CONTEXT_ID: u32 = 1;

/// What an option leads to.
enum Verdict {
    Continue,
    Open(Export),
    Leave(Event),
}

impl Session {
    pub(crate) fn client_flags(&mut self, rest: &[u8]) -> (usize, Option<Event>) {
        let Some(bytes) = rest.first_chunk::<4>() else { return (0, Some(Event::Starved)) };
        let flags = u32::from_be_bytes(*bytes);
        let known = u32::from(wire::HANDSHAKE_FIXED_NEWSTYLE | wire::HANDSHAKE_NO_ZEROES);
        if flags & !known != 0 {
            // "the server MUST close the TCP connection if it does not recognize the client's flags"
            self.phase = Phase::Finished;
            return (4, Some(Event::Close("unknown client flags")));
        }
        self.has_no_zeroes = flags & u32::from(wire::HANDSHAKE_NO_ZEROES) != 0;
        self.phase = Phase::Options;
        (4, None)
    }

    pub(crate) fn option(
        &mut self,
        rest: &[u8],
        exports: &dyn Exports,
        out: &mut dyn Output,
    ) -> (usize, Option<Event>) {
        let Some(bytes) = rest.first_chunk() else { return (0, Some(Event::Starved)) };
        let Some(header) = wire::option_header(bytes) else {
            self.phase = Phase::Finished;
            return (bytes.len(), Some(Event::Close("option without the right magic")));
        };
        if header.length > OPTION_BYTES_MAX {
            if header.option == option::EXPORT_NAME {
                self.phase = Phase::Finished;
                return (bytes.len(), Some(Event::Close("export name too long")));
            }
            self.phase = Phase::SkipOption { option: header.option, remaining: u64::from(header.length) };
            return (bytes.len(), None);
        }
        let total = bytes.len() + header.length as usize;
        let Some(data) = rest.get(bytes.len()..total) else { return (0, Some(Event::Starved)) };
        self.options_count += 1;
        let verdict = if self.options_count > self.options_max {
            Verdict::Leave(Event::Close("endless option haggling"))
        } else {
            self.answer_option(header.option, data, exports, out)
        };
        match verdict {
            Verdict::Continue => (total, None),
            Verdict::Open(export) => {
                self.phase = Phase::Requests;
                self.export = Some(export.clone());
                (total, Some(Event::Opened(export)))
            }
            Verdict::Leave(event) => {
                self.phase = Phase::Finished;
                (total, Some(event))
            }
        }
    }

    pub(crate) fn skip_option(
        &mut self,
        rest: &[u8],
        option: u32,
        remaining: u64,
        out: &mut dyn Output,
    ) -> (usize, Option<Event>) {
        let taken = remaining.min(rest.len() as u64);
        if taken < remaining {
            self.phase = Phase::SkipOption { option, remaining: remaining - taken };
            return (taken as usize, Some(Event::Starved));
        }
        self.phase = Phase::Options;
        answer(out, option, reply::ERR_TOO_BIG, b"option data above 64 KiB");
        (taken as usize, None)
    }

    fn answer_option(
        &mut self,
        kind: u32,
        data: &[u8],
        exports: &dyn Exports,
        out: &mut dyn Output,
    ) -> Verdict {
        if self.is_shutting_down && kind != option::ABORT && kind != option::EXPORT_NAME {
            answer(out, kind, reply::ERR_SHUTDOWN, b"the server shuts down");
            return Verdict::Continue;
        }
        if let Some(why) = &self.refusal
            && kind != option::ABORT
        {
            if kind == option::EXPORT_NAME {
                return Verdict::Leave(Event::Close("a client that is refused"));
            }
            answer(out, kind, reply::ERR_POLICY, why.as_bytes());
            return Verdict::Continue;
        }
        match kind {
            option::EXPORT_NAME => return self.export_name(data, exports, out),
            option::ABORT => {
                answer(out, kind, reply::ACK, &[]);
                return Verdict::Leave(Event::Finish);
            }
            option::INFO | option::GO => return self.info_or_go(kind, data, exports, out),
            option::LIST if data.is_empty() => {
                let names = exports.names();
                let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
                self.options_max = OPTIONS_MAX.saturating_add(count.saturating_mul(OPTIONS_PER_EXPORT));
                for name in names {
                    put_option_reply(out, kind, reply::SERVER, &[&length_of(&name), name.as_bytes()]);
                }
                answer(out, kind, reply::ACK, &[]);
            }
            option::STRUCTURED_REPLY if data.is_empty() => match self.style {
                Style::Simple | Style::Structured => {
                    self.style = Style::Structured;
                    answer(out, kind, reply::ACK, &[]);
                }
                Style::Extended => {
                    answer(out, kind, reply::ERR_EXT_HEADER_REQD, b"extended headers are already chosen");
                }
            },
            option::EXTENDED_HEADERS if data.is_empty() => {
                self.style = Style::Extended;
                answer(out, kind, reply::ACK, &[]);
            }
            option::STARTTLS if data.is_empty() => {
                answer(out, kind, reply::ERR_POLICY, b"this server does not offer TLS");
            }
            option::LIST | option::STRUCTURED_REPLY | option::EXTENDED_HEADERS | option::STARTTLS => {
                answer(out, kind, reply::ERR_INVALID, b"this option has no data");
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.meta_context(kind, data, exports, out);
            }
            _ => answer(out, kind, reply::ERR_UNSUP, b"unknown option"),
        }
        Verdict::Continue
    }

    fn export_name(&mut self, data: &[u8], exports: &dyn Exports, out: &mut dyn Output) -> Verdict {
        // This option has no way to return an error, so each ends the session.
        if self.style == Style::Extended {
            return Verdict::Leave(Event::Close("EXPORT_NAME after extended headers were chosen"));
        }
        if self.is_shutting_down {
            return Verdict::Leave(Event::Close("the server shuts down"));
        }
        let Some(name) = wire::string(data) else {
            return Verdict::Leave(Event::Close("export name is not a valid string"));
        };
        let Some(export) = exports.export(name) else {
            return Verdict::Leave(Event::Close("no export of this name"));
        };
        out.put(&export.size_bytes.to_be_bytes());
        out.put(&self.transmission_flags(&export).to_be_bytes());
        if !self.has_no_zeroes {
            out.put(&[0; wire::EXPORT_NAME_PADDING]);
        }
        self.choose_contexts(name);
        Verdict::Open(export)
    }

    fn info_or_go(&mut self, kind: u32, data: &[u8], exports: &dyn Exports, out: &mut dyn Output) -> Verdict {
        let Some((name, wanted)) = parse_info(data) else {
            answer(out, kind, reply::ERR_INVALID, b"malformed request for information");
            return Verdict::Continue;
        };
        let Some(export) = exports.export(name) else {
            answer(out, kind, reply::ERR_UNKNOWN, none_of(name, exports).as_bytes());
            return Verdict::Continue;
        };
        let flags = self.transmission_flags(&export).to_be_bytes();
        let put_info = |out: &mut dyn Output, info: u16, parts: [&[u8]; 3]| {
            let [first, second, third] = parts;
            put_option_reply(out, kind, reply::INFO, &[&info.to_be_bytes(), first, second, third]);
        };
        put_info(out, info::EXPORT, [&export.size_bytes.to_be_bytes(), &flags, &[]]);
        if wanted.contains(&info::NAME) || export.name != name {
            put_info(out, info::NAME, [export.name.as_bytes(), &[], &[]]);
        }
        if wanted.contains(&info::DESCRIPTION) && !export.description.is_empty() {
            put_info(out, info::DESCRIPTION, [export.description.as_bytes(), &[], &[]]);
        }
        // Sent unasked too: we enforce the minimum, and a client ignores what it does not understand.
        put_info(
            out,
            info::BLOCK_SIZE,
            [
                &export.block_bytes_min.to_be_bytes(),
                &export.block_bytes_preferred.to_be_bytes(),
                &(PAYLOAD_BYTES_MAX as u32).to_be_bytes(),
            ],
        );
        answer(out, kind, reply::ACK, &[]);
        if kind == option::INFO {
            return Verdict::Continue;
        }
        self.choose_contexts(name);
        Verdict::Open(export)
    }

    /// Block status is allowed if the context was last selected for the export that is now entered.
    fn choose_contexts(&mut self, name: &str) {
        self.has_block_status = self.allocation_context.as_deref() == Some(name);
    }

    fn transmission_flags(&self, export: &Export) -> u16 {
        use transmission as t;
        let mut flags = t::HAS_FLAGS | t::SEND_FLUSH | t::SEND_FUA | t::CAN_MULTI_CONN | t::SEND_CACHE;
        if export.is_read_only {
            flags |= t::READ_ONLY;
        } else {
            flags |= t::SEND_TRIM | t::SEND_WRITE_ZEROES | t::SEND_FAST_ZERO;
        }
        match self.style {
            Style::Simple => flags,
            Style::Structured | Style::Extended => flags | t::SEND_DF,
        }
    }

    fn meta_context(&mut self, kind: u32, data: &[u8], exports: &dyn Exports, out: &mut dyn Output) {
        let is_set = kind == option::SET_META_CONTEXT;
        if is_set {
            // "replaces all previously-set metadata contexts (including when this command fails)"
            self.allocation_context = None;
        }
        if self.style == Style::Simple {
            answer(out, kind, reply::ERR_INVALID, b"structured replies must be chosen first");
            return;
        }
        let Some((name, queries)) = parse_meta_context(data) else {
            answer(out, kind, reply::ERR_INVALID, b"malformed list of metadata contexts");
            return;
        };
        if exports.export(name).is_none() {
            answer(out, kind, reply::ERR_UNKNOWN, none_of(name, exports).as_bytes());
            return;
        }
        let is_match = if is_set {
            queries.contains(&ALLOCATION_CONTEXT)
        } else {
            queries.is_empty() || queries.iter().any(|q| *q == ALLOCATION_CONTEXT || *q == "base:")
        };
        if is_match {
            // "The metadata context ID in these replies is reserved and SHOULD be set to zero" for LIST.
            let id = if is_set { ALLOCATION_CONTEXT_ID } else { 0 };
            let context = ALLOCATION_CONTEXT.as_bytes();
            put_option_reply(out, kind, reply::META_CONTEXT, &[&id.to_be_bytes(), context]);
            if is_set {
                self.allocation_context = Some(name.to_string());
            }
        }
        answer(out, kind, reply::ACK, &[]);
    }
}

fn length_of(text: &str) -> [u8; 4] {
    (text.len() as u32).to_be_bytes()
}

/// Why there is no export of a name.
fn none_of(name: &str, exports: &dyn Exports) -> String {
    let what = match name.is_empty() {
        true => "no default export: there is not exactly one volume, so name one",
        false => "no export of this name",
    };
    exports.absence().map_or_else(|| what.to_string(), |remark| format!("{what}; {remark}"))
}

fn put_option_reply(out: &mut dyn Output, option: u32, kind: u32, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    out.put(&wire::option_reply(option, kind, length as u32));
    for part in parts {
        out.put(part);
    }
}

fn answer(out: &mut dyn Output, option: u32, kind: u32, message: &[u8]) {
    put_option_reply(out, option, kind, &[message]);
}

/// The data of `NBD_OPT_INFO` and `NBD_OPT_GO`: a name and the information asked for.
fn parse_info(data: &[u8]) -> Option<(&str, Vec<u16>)> {
    let mut reader = Reader(data);
    let name = reader.string()?;
    let count = reader.u16()?;
    if reader.0.len() != usize::from(count) * 2 {
        return None;
    }
    let wanted = reader.0.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    Some((name, wanted))
}

/// The data of the two metadata context options: a name and queries.
fn parse_meta_context(data: &[u8]) -> Option<(&str, Vec<&str>)> {
    let mut reader = Reader(data);
    let name = reader.string()?;
    let count = reader.u32()?;
    let mut queries = Vec::new();
    for _ in 0..count {
        // Each query takes four bytes at least, so a lying count ends with the data.
        queries.push(reader.string()?);
    }
    reader.0.is_empty().then_some((name, queries))
}
