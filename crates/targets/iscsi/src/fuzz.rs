//! Feeds sessions arbitrary bytes in arbitrary cuts, against a unit that is a vector. For fuzzing and for
//! tests of the session; no server uses it.

use ashlar_runtime::Buf;
use ashlar_scsi::{Answer, Data, Status};

use crate::chap::Credential;
use crate::login::{Admission, Authentication, Directory, Established};
use crate::parameters::Offer;
use crate::session::{Aborted, Event, Limits, Managed, Session};
use crate::text;
use crate::wire::{HEADER_BYTES, opcode};

/// The one target's name.
pub(crate) const TARGET: &str = "iqn.2026-11.io.ashlar:p";
/// The initiator's name.
pub(crate) const INITIATOR: &str = "iqn.2026-11.io.example:host";
/// Data-out that a command takes at most: what lies beyond, no command of the exercise asks for.
pub(crate) const WANTED_BYTES_MAX: u32 = 4096;

/// One target, with or without CHAP.
pub(crate) struct OneTarget {
    pub authentication: Authentication,
}

impl OneTarget {
    pub fn with_chap() -> OneTarget {
        let credential =
            |name, secret: &[u8]| Credential::new(name, secret).expect("a name and twelve bytes");
        OneTarget {
            authentication: Authentication::Chap {
                incoming: vec![credential("host", b"secret of the host")],
                outgoing: Some(credential("array", b"secret of the array")),
            },
        }
    }
}

impl Directory for OneTarget {
    fn admit(&self, initiator: &str, target: Option<&str>) -> Admission {
        if initiator.ends_with(":stranger") {
            return Admission::Forbidden;
        }
        match target {
            Some(TARGET) | None => Admission::Allowed(self.authentication.clone()),
            Some(_) => Admission::NotFound,
        }
    }

    fn targets(&self, _initiator: &str) -> Vec<(String, Vec<String>)> {
        let addresses = ["192.0.2.1:3260", "192.0.2.2:3260"].map(str::to_string).to_vec();
        vec![(TARGET.to_string(), addresses)]
    }
}

/// A session, the bytes it sent, and a unit that answers at once.
pub(crate) struct Exercise {
    pub session: Session,
    pub output: Vec<u8>,
    /// What writes brought, in order.
    pub written: Vec<u8>,
    pub opened: Option<Established>,
    /// Why the session ended, once it has; empty for a logout.
    pub end: Option<&'static str>,
    /// Commands that were handed out, and that are not answered when this is set.
    pub keeps_commands: bool,
    pub kept: Vec<u32>,
    directory: OneTarget,
    unconsumed: Vec<u8>,
}

impl Exercise {
    pub fn new(directory: OneTarget, offer: Offer) -> Exercise {
        let limits = Limits { tasks_max: 4, immediate_max: 1 };
        Exercise {
            session: Session::new(offer, limits, 7),
            output: Vec::new(),
            written: Vec::new(),
            opened: None,
            end: None,
            keeps_commands: false,
            kept: Vec::new(),
            directory,
            unconsumed: Vec::new(),
        }
    }

    /// Receives bytes as one piece; some may stay unconsumed until more come.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.unconsumed.extend_from_slice(bytes);
        let mut input = std::mem::take(&mut self.unconsumed);
        // Every challenge is the same, so that runs can be compared.
        let random = |bytes: &mut [u8]| bytes.fill(0x42);
        while self.end.is_none() {
            let step = self.session.receive(&input, &self.directory, &random, &mut self.output);
            assert!(step.consumed <= input.len(), "consumed {} of {}", step.consumed, input.len());
            let mut is_starved = false;
            match step.event {
                Event::Starved => is_starved = true,
                Event::Rest => {}
                Event::Opened(established) => self.opened = Some(*established),
                Event::Command(arrived) => {
                    if arrived.offered_bytes == 0 {
                        self.answer_read(arrived.task_tag, arrived.cdb[4]);
                    } else {
                        let wanted = arrived.offered_bytes.min(WANTED_BYTES_MAX) as usize;
                        let immediate = &input[arrived.immediate.clone()];
                        let buffer = Buf::on_heap(wanted);
                        let tag = arrived.task_tag;
                        if let Some(data) = self.session.accept(tag, buffer, immediate, &mut self.output) {
                            self.answer_write(tag, &data);
                        }
                    }
                }
                Event::Run { task_tag, data } => self.answer_write(task_tag, &data),
                Event::Failed { .. } => {}
                Event::Management(management) => {
                    for tag in self.session.task_tags(None) {
                        if self.session.abort(tag) == Aborted::Running {
                            self.session.answer(tag, &Answer::good(), 0, &mut self.output);
                        }
                    }
                    let tag = management.task_tag;
                    self.session.finish_management(tag, Managed::Complete, &mut self.output);
                }
                Event::Logout { task_tag } => {
                    self.session.finish_logout(task_tag, &mut self.output);
                    self.end = Some("");
                }
                Event::Finish => self.end = Some(""),
                Event::Close(why) => self.end = Some(why),
            }
            input.drain(..step.consumed);
            if is_starved {
                break;
            }
        }
        self.unconsumed = input;
    }

    /// As many bytes as the fifth of the CDB says.
    fn answer_read(&mut self, tag: u32, length: u8) {
        if self.keeps_commands {
            self.kept.push(tag);
            let nothing = self.session.accept(tag, Buf::on_heap(0), &[], &mut self.output);
            assert!(nothing.is_some(), "a command without data runs at once");
            return;
        }
        let answer = match length {
            0 => Answer::status(Status::ReservationConflict),
            length => Answer { data: Data::Parameters(vec![length; usize::from(length)]), ..Answer::good() },
        };
        self.session.answer(tag, &answer, 0, &mut self.output);
    }

    fn answer_write(&mut self, tag: u32, data: &[u8]) {
        self.written.extend_from_slice(data);
        self.session.answer(tag, &Answer::good(), data.len() as u64, &mut self.output);
    }
}

/// Reads arbitrary text in every way that login does, and holds the answers against each other.
///
/// # Panics
/// When two ways to read the same differ.
pub fn fuzz_text(data: &[u8]) {
    let Ok(pairs) = text::pairs(data) else { return };
    let mut again = Vec::new();
    for (key, value) in &pairs {
        text::put(&mut again, key, value);
        if let Some(bytes) = text::binary(value) {
            assert_eq!(text::binary(&text::to_binary(&bytes)), Some(bytes), "{value}");
        }
        if let Some(number) = text::number(value) {
            assert_eq!(text::number(&format!("{number:#x}")), Some(number), "{value}");
        }
    }
    assert_eq!(text::pairs(&again), Ok(pairs), "what was written is read otherwise");
}

/// Runs a login over arbitrary login requests: each is a byte of flags, a byte of length, text.
///
/// # Panics
/// When somebody gets in without the proof.
pub fn fuzz_login(data: &[u8]) {
    let Some((choice, mut rest)) = data.split_first() else { return };
    let has_chap = choice & 1 != 0;
    let directory =
        if has_chap { OneTarget::with_chap() } else { OneTarget { authentication: Authentication::None } };
    let mut exercise = Exercise::new(directory, Offer::default());
    for _ in 0..40 {
        let Some(([flags, length], tail)) = rest.split_first_chunk::<2>() else { break };
        let (text, tail) = tail.split_at(usize::from(*length).min(tail.len()));
        rest = tail;
        exercise.feed(&login_request(*flags, text));
        if exercise.end.is_some() {
            break;
        }
    }
    // The secret stands in none of the seeds, and 40 requests are not enough to guess a hash.
    assert!(!(has_chap && exercise.opened.is_some()), "somebody got in without the secret");
}

/// A login request of the exercise's initiator.
pub(crate) fn login_request(flags: u8, text: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[0] = 0x40 | opcode::LOGIN;
    bytes[1] = flags;
    bytes[5..8].copy_from_slice(&(text.len() as u32).to_be_bytes()[1..]);
    bytes[8..14].copy_from_slice(&[0, 2, 0x3d, 0, 0, 1]);
    bytes[19] = 1;
    bytes[27] = 1;
    bytes.extend_from_slice(text);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The text of a login that leads straight to the full feature phase.
pub(crate) fn login_text(more: &[(&str, &str)]) -> Vec<u8> {
    let mut said = Vec::new();
    text::put(&mut said, "InitiatorName", INITIATOR);
    text::put(&mut said, "TargetName", TARGET);
    text::put(&mut said, "SessionType", "Normal");
    more.iter().for_each(|(key, value)| text::put(&mut said, key, value));
    said
}

/// Runs a session over `data` whole and in pieces, and compares what it sent and how it ended. The first byte
/// chooses the sizes of the pieces, and whether a login comes before the rest.
///
/// # Panics
/// When the answers depend on how the stream was cut, or on any other broken promise of the session.
pub fn fuzz_session(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else { return };
    let offer = Offer { burst_bytes_max: 2048, first_burst_bytes_max: 1024, ..Offer::default() };
    let prelude = match choice & 3 {
        0 => Vec::new(),
        1 => login_request(0x87, &login_text(&[])),
        2 => login_request(0x87, &login_text(&[("InitialR2T", "No"), ("MaxBurstLength", "2048")])),
        _ => login_request(0x87, &login_text(&[("MaxRecvDataSegmentLength", "512"), ("InitialR2T", "No")])),
    };
    let run = |piece: usize| {
        let mut exercise = Exercise::new(OneTarget { authentication: Authentication::None }, offer);
        for part in prelude.chunks(piece).chain(data.chunks(piece)) {
            exercise.feed(part);
        }
        exercise
    };
    let whole = run(usize::MAX);
    for piece in [1, 1 + usize::from(*choice >> 2)] {
        let cut = run(piece);
        assert!(cut.output == whole.output, "pieces of {piece} bytes get another answer");
        assert!(cut.written == whole.written, "pieces of {piece} bytes write something else");
        assert_eq!(cut.end, whole.end, "pieces of {piece} bytes end otherwise");
    }
}
