//! One session's state: bytes in, events and bytes out. No sockets, no clock, no unit.
//!
//! ```text
//!   Login ──last response──► FullFeature ──logout, a breach──► Finished
//! ```
//!
//! The caller feeds what it has received and keeps what was not consumed; the session buffers nothing but the
//! data of commands, so it gives the same answers however the stream is cut. A command is in exactly one
//! state of [`crate::tasks`] from [`Event::Command`] until [`Session::answer`].
//!
//! Invariants: (1) a command gets exactly one answer, unless it was aborted; (2) at most `tasks_max` numbered
//! commands are under way, because the window ends there; (3) StatSN counts every response with a status and
//! nothing else; (4) MaxCmdSN never goes back.

use std::collections::BTreeSet;

use ashlar_runtime::Buf;
use ashlar_scsi::{Answer, Sense, SenseKey, Status, code};

use crate::login::{Directory, Established, LoginState, LoginStep, Random};
use crate::parameters::{Offer, Parameters};
use crate::tasks::{Gathering, State, Task, Tasks, take_tag};
use crate::text;
use crate::wire::{
    self, CONTINUE, Command, Common, DATA_BYTES_MAX_DEFAULT, DataOut, Digests, FINAL, Frame, Framed, NO_TAG,
    Numbers, Output, Request, Response, opcode, put_pdu, reject,
};

pub use crate::tasks::Aborted;

/// Text that a host may send in one request with its continuations, after login.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// So many PDUs without an event, and then the caller has a turn. Arbitrary: a tenth of a millisecond.
const PDUS_OF_A_TURN: usize = 64;
/// Flags of Data-In and SCSI Response (11.4.1, 11.7.5).
const OVERFLOW: u8 = 0x04;
const UNDERFLOW: u8 = 0x02;
const HAS_STATUS: u8 = 0x01;
/// AsyncEvent 1: the target asks for a logout (11.9.1).
const EVENT_LOGOUT: u8 = 1;

/// How much a session may have under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Numbered commands: the window. Default 128, as deep as hosts use.
    pub tasks_max: u32,
    /// Immediate commands beside them, and task management functions beside those. Default 8.
    pub immediate_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { tasks_max: 128, immediate_max: 8 }
    }
}

/// A SCSI command that has arrived. [`Session::accept`] or [`Session::answer`] it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrived {
    pub task_tag: u32,
    pub address: [u8; 8],
    pub cdb: [u8; 16],
    /// Bytes that the host would send.
    pub offered_bytes: u32,
    /// Where the immediate data lie in the input that was given to [`Session::receive`].
    pub immediate: std::ops::Range<usize>,
}

/// A task management function (11.5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Function {
    AbortTask,
    AbortTaskSet,
    ClearTaskSet,
    UnitReset,
    TargetWarmReset,
    TargetColdReset,
}

/// What task management ends with (11.6.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Managed {
    Complete = 0,
    NoTask = 1,
    NoUnit = 2,
    NotSupported = 5,
    /// There are too many under way.
    Rejected = 255,
}

/// A task management request. [`Session::finish_management`] when it is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Management {
    pub task_tag: u32,
    pub function: Function,
    pub address: [u8; 8],
    /// The task to abort.
    pub referenced_tag: u32,
}

/// What the caller has to do.
pub enum Event {
    /// Nothing more can be done with this input: receive more behind what was not consumed.
    Starved,
    /// Nothing for the caller came for a while: go on with the rest when others have had a turn.
    Rest,
    /// The initiator is in.
    Opened(Box<Established>),
    /// The initiator logs out: [`Session::finish_logout`] when its commands are over.
    Logout {
        task_tag: u32,
    },
    /// A command has arrived.
    Command(Arrived),
    /// All data of an accepted command have come: run it.
    Run {
        task_tag: u32,
        data: Buf,
    },
    /// The data of an accepted command came wrong: it was answered, forget it.
    Failed {
        task_tag: u32,
    },
    Management(Management),
    /// The initiator said goodbye: send what is queued, close.
    Finish,
    /// The stream cannot be understood, or nobody may come in: send what is queued, close.
    Close(&'static str),
}

/// What one call of [`Session::receive`] did.
pub struct Step {
    /// Bytes of the input that are done with.
    pub consumed: usize,
    pub event: Event,
}

enum Phase {
    Login(Box<LoginState>),
    FullFeature,
    Finished,
}

/// How a command number fits (4.2.2.1).
enum Turn {
    Next,
    /// Outside the window: nobody hears of it.
    Ignored,
    /// One before it is missing, which one connection cannot lose.
    Gap,
}

/// The state of one session with its one connection.
pub struct Session {
    phase: Phase,
    offer: Offer,
    limits: Limits,
    parameters: Parameters,
    /// Who it is, and with which target: in a discovery session with none.
    initiator: String,
    target: Option<String>,
    connection: u16,
    /// TSIH.
    handle: u16,
    has_numbers: bool,
    stat_sn: u32,
    exp_cmd_sn: u32,
    max_cmd_sn: u32,
    next_tag: u32,
    tasks: Tasks,
    /// Task management functions without an answer.
    managing: usize,
    text_in: Vec<u8>,
    text_out: Vec<u8>,
    text_tag: u32,
    /// What a person should hear of a login that was refused.
    stranger: Option<String>,
}

impl Session {
    /// A session nobody has logged in to. `handle` is its TSIH, not zero and not that of another session.
    #[must_use]
    pub fn new(offer: Offer, limits: Limits, handle: u16) -> Session {
        assert!(handle != 0, "zero is the handle of no session");
        assert!(limits.tasks_max > 0, "a session must admit one command");
        Session {
            phase: Phase::Login(Box::new(LoginState::new())),
            offer,
            limits,
            parameters: Parameters::default(),
            initiator: String::new(),
            target: None,
            connection: 0,
            handle,
            has_numbers: false,
            stat_sn: 0,
            exp_cmd_sn: 0,
            max_cmd_sn: 0,
            next_tag: 1,
            tasks: Tasks::default(),
            managing: 0,
            text_in: Vec::new(),
            text_out: Vec::new(),
            text_tag: NO_TAG,
            stranger: None,
        }
    }

    /// What was agreed on.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Who was not let in, and why, once.
    pub(crate) fn take_stranger(&mut self) -> Option<String> {
        self.stranger.take()
    }

    /// Commands without an answer, those that were aborted and still run included.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.tasks.len()
    }

    /// The largest PDU that can come, for the size of the receive buffer.
    #[must_use]
    pub fn pdu_bytes_max(offer: &Offer) -> usize {
        let data = offer.data_bytes_max.max(DATA_BYTES_MAX_DEFAULT) as usize;
        wire::HEADER_BYTES + 4 * 255 + 2 * wire::DIGEST_BYTES + data.next_multiple_of(4)
    }

    /// Takes bytes from the initiator up to the next event. What needs no unit is answered into `out`.
    pub fn receive(
        &mut self,
        input: &[u8],
        directory: &dyn Directory,
        random: Random<'_>,
        out: &mut dyn Output,
    ) -> Step {
        let mut consumed = 0;
        for _ in 0..PDUS_OF_A_TURN {
            if matches!(self.phase, Phase::Finished) {
                return Step { consumed: input.len(), event: Event::Finish };
            }
            let (digests, data_bytes_max) = self.framing();
            let frame = match wire::frame(&input[consumed..], digests, data_bytes_max) {
                Framed::Incomplete => return Step { consumed, event: Event::Starved },
                Framed::Broken(why) => return Step { consumed: input.len(), event: self.close(why) },
                Framed::Whole(frame) => frame,
            };
            let data_at = consumed + frame.data_at;
            consumed += frame.bytes;
            let event = if matches!(self.phase, Phase::Login(_)) {
                self.log_in(&frame, directory, random, out)
            } else {
                self.serve(&frame, data_at, directory, out)
            };
            if let Some(event) = event {
                return Step { consumed, event };
            }
        }
        Step { consumed, event: Event::Rest }
    }

    fn framing(&self) -> (Digests, u32) {
        match self.phase {
            Phase::Login(_) | Phase::Finished => (Digests::default(), DATA_BYTES_MAX_DEFAULT),
            Phase::FullFeature => (self.parameters.digests, self.parameters.target_data_bytes_max),
        }
    }

    fn close(&mut self, why: &'static str) -> Event {
        self.phase = Phase::Finished;
        Event::Close(why)
    }

    /// The numbers of a response. One with a status is counted.
    fn numbers(&mut self, has_status: bool) -> Numbers {
        let free = self.limits.tasks_max.saturating_sub(self.tasks.numbered() as u32);
        let end = self.exp_cmd_sn.wrapping_add(free).wrapping_sub(1);
        if (end.wrapping_sub(self.max_cmd_sn) as i32) > 0 {
            self.max_cmd_sn = end;
        }
        let numbers =
            Numbers { stat_sn: self.stat_sn, exp_cmd_sn: self.exp_cmd_sn, max_cmd_sn: self.max_cmd_sn };
        if has_status {
            self.stat_sn = self.stat_sn.wrapping_add(1);
        }
        numbers
    }

    fn put(&self, response: Response, data: &[&[u8]], out: &mut dyn Output) {
        put_pdu(response, data, self.parameters.digests, out);
    }

    fn log_in(
        &mut self,
        frame: &Frame<'_>,
        directory: &dyn Directory,
        random: Random<'_>,
        out: &mut dyn Output,
    ) -> Option<Event> {
        let (common, request) = wire::parse(frame.header);
        let Request::Login(login) = request else {
            return Some(self.close("something else before login was over"));
        };
        if !self.has_numbers {
            self.has_numbers = true;
            self.exp_cmd_sn = common.cmd_sn;
            self.max_cmd_sn = common.cmd_sn.wrapping_sub(1);
            self.stat_sn = common.exp_stat_sn;
        }
        let numbers = self.numbers(true);
        let (offer, handle) = (self.offer, self.handle);
        let Phase::Login(state) = &mut self.phase else { return None };
        let (response, said, step) =
            state.receive(&login, common.task_tag, frame.data, &offer, directory, random, handle, numbers);
        // Digests begin behind the last response.
        put_pdu(response, &[&said], Digests::default(), out);
        match step {
            LoginStep::GoesOn => None,
            LoginStep::Refused(why, claimed) => {
                self.stranger = claimed.map(|name| format!("{name} was not let in: {why}"));
                Some(self.close(why))
            }
            LoginStep::Done(established) => {
                self.phase = Phase::FullFeature;
                self.parameters = established.parameters;
                self.initiator.clone_from(&established.initiator);
                self.target.clone_from(&established.target);
                self.connection = established.connection;
                Some(Event::Opened(established))
            }
        }
    }

    fn serve(
        &mut self,
        frame: &Frame<'_>,
        data_at: usize,
        directory: &dyn Directory,
        out: &mut dyn Output,
    ) -> Option<Event> {
        let (common, request) = wire::parse(frame.header);
        match request {
            Request::DataOut(data_out) => return self.data_out(&data_out, frame.data, out),
            Request::Snack | Request::Unknown => {
                self.reject(reject::COMMAND_NOT_SUPPORTED, frame, out);
                return None;
            }
            // An answer to a ping of this side has no number.
            Request::NopOut { .. } if common.task_tag == NO_TAG => return None,
            _ => {}
        }
        match self.take_turn(&common) {
            Turn::Ignored => return None,
            Turn::Gap => {
                self.reject(reject::PROTOCOL_ERROR, frame, out);
                return None;
            }
            Turn::Next => {}
        }
        match request {
            Request::NopOut { .. } => self.nop(&common, frame, out),
            Request::Command(command) if self.target.is_some() => {
                return self.command(&common, &command, frame, data_at, out);
            }
            Request::TaskManagement(management) if self.target.is_some() => {
                return self.management(&common, &management, out);
            }
            Request::Text { is_final, is_continued, transfer_tag } => {
                let flags = (is_final, is_continued);
                self.text(&common, flags, transfer_tag, frame, directory, out);
            }
            Request::Logout { reason, connection } => {
                return self.logout(&common, reason, connection, out);
            }
            // Logged in already; or a discovery session that wants more than to discover (4.3).
            _ => self.reject(reject::PROTOCOL_ERROR, frame, out),
        }
        None
    }

    fn take_turn(&mut self, common: &Common) -> Turn {
        if common.is_immediate {
            return Turn::Next;
        }
        // The window as the initiator knows it is at most this one.
        let ahead = common.cmd_sn.wrapping_sub(self.exp_cmd_sn) as i32;
        let beyond = common.cmd_sn.wrapping_sub(self.max_cmd_sn) as i32;
        if ahead < 0 || beyond > 0 {
            return Turn::Ignored;
        }
        if ahead > 0 {
            return Turn::Gap;
        }
        self.exp_cmd_sn = self.exp_cmd_sn.wrapping_add(1);
        Turn::Next
    }

    fn reject(&mut self, reason: u8, frame: &Frame<'_>, out: &mut dyn Output) {
        let numbers = self.numbers(true);
        let response = Response::new(opcode::REJECT, FINAL, NO_TAG, numbers).put(2, &[reason]);
        self.put(response, &[frame.header], out);
    }

    fn nop(&mut self, common: &Common, frame: &Frame<'_>, out: &mut dyn Output) {
        let numbers = self.numbers(true);
        // The ping comes back as far as the initiator takes it (11.19.2).
        let length = frame.data.len().min(self.parameters.initiator_data_bytes_max as usize);
        let response = Response::new(opcode::NOP_IN, FINAL, common.task_tag, numbers)
            .put(8, &frame.header[8..16])
            .put(20, &NO_TAG.to_be_bytes());
        self.put(response, &[&frame.data[..length]], out);
    }

    /// Asks the initiator for a sign of life (11.19).
    pub fn ping(&mut self, out: &mut dyn Output) {
        if !matches!(self.phase, Phase::FullFeature) {
            return;
        }
        let numbers = self.numbers(false);
        let tag = take_tag(&mut self.next_tag);
        let response = Response::new(opcode::NOP_IN, FINAL, NO_TAG, numbers).put(20, &tag.to_be_bytes());
        self.put(response, &[], out);
    }

    /// Asks the initiator to log out within so many seconds (11.9).
    pub fn request_logout(&mut self, seconds: u16, out: &mut dyn Output) {
        if !matches!(self.phase, Phase::FullFeature) {
            return;
        }
        let numbers = self.numbers(true);
        let response = Response::new(opcode::ASYNC_MESSAGE, FINAL, NO_TAG, numbers)
            .put(36, &[EVENT_LOGOUT])
            .put(42, &seconds.to_be_bytes());
        self.put(response, &[], out);
    }

    fn logout(
        &mut self,
        common: &Common,
        reason: u8,
        connection: u16,
        out: &mut dyn Output,
    ) -> Option<Event> {
        // 0 closes the session, 1 the connection, 2 wants it recovered, which is not there (11.14.1).
        let answer: u8 = match reason {
            0 => 0,
            1 if connection == self.connection => 0,
            1 => 1,
            _ => 2,
        };
        if answer == 0 {
            return Some(Event::Logout { task_tag: common.task_tag });
        }
        self.answer_logout(common.task_tag, answer, out);
        None
    }

    fn answer_logout(&mut self, task_tag: u32, answer: u8, out: &mut dyn Output) {
        let numbers = self.numbers(true);
        let response = Response::new(opcode::LOGOUT_RESPONSE, FINAL, task_tag, numbers).put(2, &[answer]);
        self.put(response, &[], out);
    }

    /// Tells the initiator that it has logged out: nothing of it is under way any more.
    pub fn finish_logout(&mut self, task_tag: u32, out: &mut dyn Output) {
        self.answer_logout(task_tag, 0, out);
        self.phase = Phase::Finished;
    }

    fn command(
        &mut self,
        common: &Common,
        command: &Command,
        frame: &Frame<'_>,
        data_at: usize,
        out: &mut dyn Output,
    ) -> Option<Event> {
        if common.task_tag == NO_TAG {
            self.reject(reject::INVALID_FIELD, frame, out);
            return None;
        }
        if self.tasks.get(common.task_tag).is_some() {
            self.reject(reject::TASK_IN_PROGRESS, frame, out);
            return None;
        }
        if common.is_immediate && self.tasks.immediate() >= self.limits.immediate_max {
            self.reject(reject::TOO_MANY_IMMEDIATE, frame, out);
            return None;
        }
        let immediate_bytes = frame.data.len() as u32;
        let task = Task {
            state: State::Arrived,
            address: command.address,
            is_read: command.is_read,
            is_write: command.is_write,
            is_final: command.is_final || !command.is_write,
            is_immediate: common.is_immediate,
            is_aborted: false,
            expected_bytes: command.expected_bytes,
            immediate_bytes,
        };
        let wrong = self.unsolicited_fault(&task);
        self.tasks.insert(common.task_tag, task);
        if let Some(sense) = wrong {
            self.answer(common.task_tag, &Answer::check(&sense, false), 0, out);
            return None;
        }
        Some(Event::Command(Arrived {
            task_tag: common.task_tag,
            address: command.address,
            cdb: command.cdb,
            offered_bytes: if command.is_write { command.expected_bytes } else { 0 },
            immediate: data_at..data_at + if command.is_write { frame.data.len() } else { 0 },
        }))
    }

    /// Data that were not asked for and may not be (11.4.7.2), and directions that are not there.
    fn unsolicited_fault(&self, task: &Task) -> Option<Sense> {
        let aborted = |code| Some(Sense::new(SenseKey::AbortedCommand, code));
        if task.is_read && task.is_write {
            return Some(Sense::illegal(code::INVALID_FIELD_IN_INFORMATION_UNIT));
        }
        if task.immediate_bytes > 0 && !self.parameters.has_immediate_data {
            return aborted(code::UNEXPECTED_UNSOLICITED_DATA);
        }
        if !task.is_final && self.parameters.is_initial_r2t {
            return aborted(code::UNEXPECTED_UNSOLICITED_DATA);
        }
        if task.immediate_bytes > self.unsolicited_end(task) && task.is_write {
            return aborted(code::INCORRECT_AMOUNT_OF_DATA);
        }
        None
    }

    fn unsolicited_end(&self, task: &Task) -> u32 {
        self.parameters.first_burst_bytes_max.min(task.expected_bytes)
    }

    /// Takes a command on. `buffer` is as long as the data that it needs; `immediate` is what came with it.
    /// When all data are there the buffer comes back: run the command.
    #[must_use]
    pub fn accept(
        &mut self,
        task_tag: u32,
        buffer: Buf,
        immediate: &[u8],
        out: &mut dyn Output,
    ) -> Option<Buf> {
        let task = self.tasks.get(task_tag).expect("a command is accepted once, right after it arrived");
        assert!(matches!(task.state, State::Arrived), "task {task_tag:#x} was accepted before");
        assert!(buffer.len() <= task.expected_bytes as usize || buffer.is_empty(), "more than the host has");
        assert_eq!(immediate.len(), if task.is_write { task.immediate_bytes as usize } else { 0 });
        let unsolicited_end = self.unsolicited_end(task);
        let gathering = Gathering::new(buffer, immediate, task.is_final, unsolicited_end);
        self.go_on(task_tag, Box::new(gathering), out)
    }

    /// Asks for what is missing, or lets the command run.
    fn go_on(&mut self, task_tag: u32, mut gathering: Box<Gathering>, out: &mut dyn Output) -> Option<Buf> {
        let (burst, transfers) = (self.parameters.burst_bytes_max, self.parameters.transfers_max);
        let asked = gathering.ask(burst, transfers, &mut self.next_tag);
        let is_complete = gathering.is_complete();
        let task = self.tasks.get_mut(task_tag).expect("the caller has just looked it up");
        let address = task.address;
        let complete = if is_complete {
            task.state = State::Running;
            Some(gathering.into_buffer())
        } else {
            task.state = State::Gathering(gathering);
            None
        };
        for asked in asked {
            let numbers = self.numbers(false);
            let response = Response::new(opcode::READY_TO_TRANSFER, FINAL, task_tag, numbers)
                .put(8, &address)
                .put(20, &asked.transfer_tag.to_be_bytes())
                .put(36, &asked.r2t_sn.to_be_bytes())
                .put(40, &asked.offset.to_be_bytes())
                .put(44, &asked.length.to_be_bytes());
            self.put(response, &[], out);
        }
        complete
    }

    fn data_out(&mut self, header: &DataOut, data: &[u8], out: &mut dyn Output) -> Option<Event> {
        // Data of a command that was answered or aborted meanwhile are let go.
        let task = self.tasks.get_mut(header.task_tag)?;
        let State::Gathering(gathering) = &mut task.state else { return None };
        if let Err(code) = gathering.take(header, data) {
            let sense = Sense::new(SenseKey::AbortedCommand, code);
            self.answer(header.task_tag, &Answer::check(&sense, false), 0, out);
            return Some(Event::Failed { task_tag: header.task_tag });
        }
        let State::Gathering(gathering) = std::mem::replace(&mut task.state, State::Running) else {
            return None;
        };
        let data = self.go_on(header.task_tag, gathering, out)?;
        Some(Event::Run { task_tag: header.task_tag, data })
    }

    /// Ends a command. `wanted_bytes` is the data-out that its CDB asks for, if anybody knows. An aborted
    /// command ends without a word.
    pub fn answer(&mut self, task_tag: u32, answer: &Answer, wanted_bytes: u64, out: &mut dyn Output) {
        let Some(task) = self.tasks.remove(task_tag) else { return };
        if task.is_aborted || !matches!(self.phase, Phase::FullFeature) {
            return;
        }
        let data = answer.data.as_slice();
        let expected = if task.is_read || task.is_write { task.expected_bytes } else { 0 };
        let moved = wanted_bytes.max(data.len() as u64);
        let (residual_flag, residual) = residual_of(moved, expected);
        let readable = if task.is_read { data.len().min(expected as usize) } else { 0 };
        let data = &data[..readable];
        let is_collapsed = answer.status == Status::Good && !data.is_empty();
        let pdus = self.put_data(task_tag, data, is_collapsed.then_some((residual_flag, residual)), out);
        if is_collapsed {
            return;
        }
        let numbers = self.numbers(true);
        let response = Response::new(opcode::SCSI_RESPONSE, FINAL | residual_flag, task_tag, numbers)
            .put(3, &[answer.status as u8])
            .put(36, &pdus.to_be_bytes())
            .put(44, &residual.to_be_bytes());
        if answer.sense.is_empty() {
            self.put(response, &[], out);
        } else {
            let length = (answer.sense.len() as u16).to_be_bytes();
            self.put(response, &[&length, &answer.sense], out);
        }
    }

    /// Sends data in PDUs that the initiator takes, each burst ended (11.7.1). With a residual the last PDU
    /// carries the status GOOD. How many PDUs that were.
    fn put_data(
        &mut self,
        task_tag: u32,
        data: &[u8],
        status: Option<(u8, u32)>,
        out: &mut dyn Output,
    ) -> u32 {
        let segment = self.parameters.initiator_data_bytes_max as usize;
        let burst = self.parameters.burst_bytes_max as usize;
        let (mut data_sn, mut offset) = (0_u32, 0_usize);
        while offset < data.len() {
            let burst_left = burst - offset % burst;
            let length = segment.min(burst_left).min(data.len() - offset);
            let end = offset + length;
            let is_last = end == data.len();
            let status = status.filter(|_| is_last);
            let mut flags = if is_last || end.is_multiple_of(burst) { FINAL } else { 0 };
            flags |= status.map_or(0, |(flag, _)| HAS_STATUS | flag);
            let numbers = self.numbers(status.is_some());
            let residual = status.map_or(0, |(_, residual)| residual);
            let response = Response::new(opcode::DATA_IN, flags, task_tag, numbers)
                .put(20, &NO_TAG.to_be_bytes())
                .put(36, &data_sn.to_be_bytes())
                .put(40, &(offset as u32).to_be_bytes())
                .put(44, &residual.to_be_bytes());
            self.put(response, &[&data[offset..end]], out);
            data_sn += 1;
            offset = end;
        }
        data_sn
    }

    fn management(
        &mut self,
        common: &Common,
        request: &wire::TaskManagement,
        out: &mut dyn Output,
    ) -> Option<Event> {
        let function = match request.function {
            1 => Function::AbortTask,
            2 => Function::AbortTaskSet,
            4 => Function::ClearTaskSet,
            5 => Function::UnitReset,
            6 => Function::TargetWarmReset,
            7 => Function::TargetColdReset,
            // CLEAR ACA, TASK REASSIGN, and what there is no word for.
            _ => {
                self.put_managed(common.task_tag, Managed::NotSupported, out);
                return None;
            }
        };
        if self.managing >= self.limits.immediate_max {
            self.put_managed(common.task_tag, Managed::Rejected, out);
            return None;
        }
        self.managing += 1;
        Some(Event::Management(Management {
            task_tag: common.task_tag,
            function,
            address: request.address,
            referenced_tag: request.referenced_tag,
        }))
    }

    /// Tells what became of a task management request.
    pub fn finish_management(&mut self, task_tag: u32, managed: Managed, out: &mut dyn Output) {
        self.managing -= 1;
        self.put_managed(task_tag, managed, out);
    }

    fn put_managed(&mut self, task_tag: u32, managed: Managed, out: &mut dyn Output) {
        if !matches!(self.phase, Phase::FullFeature) {
            return;
        }
        let numbers = self.numbers(true);
        let response = Response::new(opcode::TASK_MANAGEMENT_RESPONSE, FINAL, task_tag, numbers)
            .put(2, &[managed as u8]);
        self.put(response, &[], out);
    }

    /// Tags of the commands at a unit, or of all.
    #[must_use]
    pub fn task_tags(&self, address: Option<[u8; 8]>) -> Vec<u32> {
        self.tasks.tags(address)
    }

    /// Sees to it that a command is not answered any more. One that has not begun never will; one that runs
    /// must still be ended with [`Session::answer`].
    pub fn abort(&mut self, task_tag: u32) -> Aborted {
        self.tasks.abort(task_tag)
    }

    fn text(
        &mut self,
        common: &Common,
        (is_final, is_continued): (bool, bool),
        transfer_tag: u32,
        frame: &Frame<'_>,
        directory: &dyn Directory,
        out: &mut dyn Output,
    ) {
        let goes_on = transfer_tag != NO_TAG;
        if goes_on && transfer_tag != self.text_tag {
            self.reject(reject::PROTOCOL_ERROR, frame, out);
            return;
        }
        if !goes_on {
            // A new exchange ends the one before (11.10.4).
            self.text_in.clear();
            self.text_out.clear();
        }
        if self.text_in.len() + frame.data.len() > TEXT_BYTES_MAX || (is_final && is_continued) {
            self.text_in.clear();
            self.reject(reject::PROTOCOL_ERROR, frame, out);
            return;
        }
        self.text_in.extend_from_slice(frame.data);
        if is_continued {
            self.put_text(common, &[], false, out);
            return;
        }
        if !self.text_in.is_empty() {
            let said = std::mem::take(&mut self.text_in);
            match text::pairs(&said) {
                Ok(pairs) if is_each_said_once(&pairs) => self.text_out = self.say(&pairs, directory),
                Ok(_) | Err(_) => {
                    self.reject(reject::PROTOCOL_ERROR, frame, out);
                    return;
                }
            }
        }
        let segment = self.parameters.initiator_data_bytes_max as usize;
        let rest = self.text_out.split_off(segment.min(self.text_out.len()));
        let now = std::mem::replace(&mut self.text_out, rest);
        self.put_text(common, &now, self.text_out.is_empty(), out);
    }

    /// Sends a piece of text. Until the last, a tag tells how the exchange goes on.
    fn put_text(&mut self, common: &Common, piece: &[u8], is_last: bool, out: &mut dyn Output) {
        self.text_tag = if is_last { NO_TAG } else { take_tag(&mut self.next_tag) };
        let is_cut = !is_last && !piece.is_empty();
        let flags = if is_last { FINAL } else { 0 } | if is_cut { CONTINUE } else { 0 };
        let numbers = self.numbers(true);
        let response = Response::new(opcode::TEXT_RESPONSE, flags, common.task_tag, numbers)
            .put(20, &self.text_tag.to_be_bytes());
        self.put(response, &[piece], out);
    }

    /// Answers keys after login: where targets are, and nothing that would change the session but the size of
    /// what the initiator takes (11.10).
    fn say(&mut self, pairs: &[(&str, &str)], directory: &dyn Directory) -> Vec<u8> {
        let mut said = Vec::new();
        for (key, value) in pairs {
            match *key {
                "SendTargets" => self.send_targets(value, directory, &mut said),
                "MaxRecvDataSegmentLength" => {
                    let reply = self.parameters.negotiate(&self.offer, self.target.is_none(), key, value);
                    if let Some(value) = reply.text() {
                        text::put(&mut said, key, value);
                    }
                }
                _ => text::put(&mut said, key, "NotUnderstood"),
            }
        }
        said
    }

    /// `All` only while discovering; a name for one target; nothing for the one of this session (appendix C).
    fn send_targets(&self, asked: &str, directory: &dyn Directory, said: &mut Vec<u8>) {
        let asked = match (asked, &self.target) {
            ("All", None) => None,
            ("All", Some(_)) | ("", None) => {
                text::put(said, "SendTargets", "Reject");
                return;
            }
            ("", Some(target)) => Some(target.as_str()),
            (name, _) => Some(name),
        };
        for (name, addresses) in directory.targets(&self.initiator) {
            if asked.is_none_or(|asked| asked == name) {
                text::put(said, "TargetName", &name);
                for address in addresses {
                    text::put(said, "TargetAddress", &format!("{address},1"));
                }
            }
        }
    }
}

/// A key is said once in an exchange (6.2). Each of some thousand might be answered with all targets.
fn is_each_said_once(pairs: &[(&str, &str)]) -> bool {
    let keys: BTreeSet<&str> = pairs.iter().map(|(key, _)| *key).collect();
    keys.len() == pairs.len()
}

/// What is left over or lacking when `moved` bytes meet room for `expected` (11.4.5).
fn residual_of(moved: u64, expected: u32) -> (u8, u32) {
    let expected = u64::from(expected);
    let count = u32::try_from(moved.abs_diff(expected)).unwrap_or(u32::MAX);
    match moved.cmp(&expected) {
        std::cmp::Ordering::Greater => (OVERFLOW, count),
        std::cmp::Ordering::Less => (UNDERFLOW, count),
        std::cmp::Ordering::Equal => (0, 0),
    }
}
