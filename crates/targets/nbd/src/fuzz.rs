//! Feeds a session arbitrary bytes in arbitrary cuts, against a device that is a vector. For fuzzing
//! and for tests of the session; no server uses it.

use ashlar_block::{Extent, ExtentKind};

use crate::reply::{Outcome, ReadReply};
use crate::session::{Command, Event, Export, Exports, Limits, Request, RequestId, Session};

/// Size of the export; small, so that a fuzzer hits its end and replies stay short.
pub(crate) const SIZE_BYTES: u64 = 256 << 10;
/// The one export's name.
pub(crate) const NAME: &str = "disk";

pub(crate) struct OneExport {
    pub is_read_only: bool,
}

impl Exports for OneExport {
    fn export(&self, name: &str) -> Option<Export> {
        (name.is_empty() || name == NAME).then(|| Export {
            name: NAME.to_string(),
            description: "a test".to_string(),
            size_bytes: SIZE_BYTES,
            block_bytes_min: 512,
            block_bytes_preferred: 4096,
            is_read_only: self.is_read_only,
        })
    }

    fn names(&self) -> Vec<String> {
        vec![NAME.to_string()]
    }
}

/// A session, the bytes it sent, and a device that answers at once.
pub(crate) struct Exercise {
    pub session: Session,
    pub output: Vec<u8>,
    pub device: Vec<u8>,
    /// `Finish` or `Close`, once the session has ended.
    pub end: Option<Event>,
    exports: OneExport,
    unconsumed: Vec<u8>,
    write: Option<(RequestId, u64, Vec<u8>)>,
}

impl Exercise {
    pub fn new(is_read_only: bool) -> Exercise {
        let mut output = Vec::new();
        let limits = Limits { requests_max: 4, bytes_max: SIZE_BYTES };
        Exercise {
            session: Session::new(limits, &mut output),
            output,
            device: vec![0; SIZE_BYTES as usize],
            end: None,
            exports: OneExport { is_read_only },
            unconsumed: Vec::new(),
            write: None,
        }
    }

    /// Receives bytes as one piece; some may stay unconsumed until more come.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.unconsumed.extend_from_slice(bytes);
        let mut input = std::mem::take(&mut self.unconsumed);
        while self.end.is_none() {
            let step = self.session.receive(&input, &self.exports, &mut self.output);
            assert!(step.consumed <= input.len(), "consumed {} of {}", step.consumed, input.len());
            let is_starved = step.event == Event::Starved;
            match step.event {
                Event::Starved | Event::Opened(_) => {}
                Event::Request(request) => self.start(request),
                Event::Payload { length, is_last } => {
                    let (id, offset, mut payload) = self.write.take().expect("payload belongs to a write");
                    payload.extend_from_slice(&input[step.consumed - length..step.consumed]);
                    if is_last {
                        let at = offset as usize;
                        self.device[at..at + payload.len()].copy_from_slice(&payload);
                        self.session.complete(id, Outcome::Done, &mut self.output);
                    } else {
                        self.write = Some((id, offset, payload));
                    }
                }
                Event::Full => panic!("full, though every request is answered at once"),
                end @ (Event::Finish | Event::Close(_)) => self.end = Some(end),
            }
            input.drain(..step.consumed);
            if is_starved {
                break;
            }
        }
        self.unconsumed = input;
        let half_received = usize::from(self.write.is_some());
        assert_eq!(self.session.in_flight(), half_received, "a request was lost");
    }

    fn start(&mut self, request: Request) {
        let range = request.offset as usize..(request.offset + request.length) as usize;
        let out = &mut self.output;
        match request.command {
            Command::Read => {
                let mut buffer = vec![0; self.session.read_header_bytes()];
                buffer.extend_from_slice(&self.device[range]);
                if self.session.complete_read(request.id, &mut buffer, out) == ReadReply::InPlace {
                    out.extend_from_slice(&buffer);
                }
            }
            Command::Write => self.write = Some((request.id, request.offset, Vec::new())),
            Command::Flush | Command::Cache => self.session.complete(request.id, Outcome::Done, out),
            Command::Trim | Command::WriteZeroes { .. } => {
                self.device[range].fill(0);
                self.session.complete(request.id, Outcome::Done, out);
            }
            Command::BlockStatus { extents_max } => {
                let half = request.length / 1024 * 512;
                let extents = [
                    Extent { length_bytes: half, kind: ExtentKind::Data },
                    Extent { length_bytes: request.length - half, kind: ExtentKind::Hole },
                ];
                let told = &extents[..extents_max.min(2)];
                let told = if half == 0 { &extents[1..] } else { told };
                self.session.complete(request.id, Outcome::Extents(told), out);
            }
        }
    }
}

/// Runs a session over `data` whole and in pieces, and compares what it sent and how it ended. The
/// first byte chooses the sizes of the pieces and what was negotiated before the rest begins.
///
/// # Panics
/// When the answers depend on how the stream was cut, or on any other broken promise of the session.
pub fn fuzz_session(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else { return };
    let prelude = prelude(*choice);
    let run = |piece: usize| {
        let mut exercise = Exercise::new(*choice & 0x20 != 0);
        for part in prelude.chunks(piece).chain(data.chunks(piece)) {
            exercise.feed(part);
        }
        exercise
    };
    let whole = run(usize::MAX);
    for piece in [1, 1 + usize::from(*choice >> 6) * 13] {
        let cut = run(piece);
        assert!(cut.output == whole.output, "pieces of {piece} bytes get another answer");
        assert!(cut.device == whole.device, "pieces of {piece} bytes write something else");
        assert_eq!(cut.end, whole.end, "pieces of {piece} bytes end otherwise");
    }
}

/// Handshake bytes that bring the session to where the fuzzer's bytes begin.
fn prelude(choice: u8) -> Vec<u8> {
    use crate::wire::{OPTION_MAGIC, option};
    let mut bytes = Vec::new();
    let put = |bytes: &mut Vec<u8>, kind: u32, data: &[u8]| {
        bytes.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
        bytes.extend_from_slice(data);
    };
    if choice & 1 != 0 {
        bytes.extend_from_slice(&3u32.to_be_bytes());
    }
    if choice & 3 == 3 {
        if choice & 4 != 0 {
            put(&mut bytes, option::STRUCTURED_REPLY, &[]);
        }
        if choice & 8 != 0 {
            put(&mut bytes, option::EXTENDED_HEADERS, &[]);
        }
        let context = b"base:allocation";
        let mut queries = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, context.len() as u8].to_vec();
        queries.extend_from_slice(context);
        put(&mut bytes, option::SET_META_CONTEXT, &queries);
        if choice & 16 != 0 {
            put(&mut bytes, option::GO, &[0; 6]);
        }
    }
    bytes
}
