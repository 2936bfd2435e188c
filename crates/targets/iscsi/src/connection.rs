//! One initiator's connection: receives, begins commands at their units, sends their answers.
//!
//! ```text
//!   receive_all ─► Session::receive ─► Target::begin ─► run (a task for each command) ─► Session::answer
//!                                                                                             │
//!   send_all ◄───────────────────────────── Outbox ◄──────────────────────────────────────────┘
//! ```
//!
//! Invariants: (1) a command that has begun runs to its end, whatever becomes of the connection, but for
//! copies between units, which end at the next piece; (2) nothing
//! is received while more than [`OUTPUT_BYTES_MAX`] wait to be sent; (3) memory for data is taken from the
//! budget of the server before it is allocated, and never waited for: who waits for memory could not receive
//! the data of the commands that hold it; (4) what is held for an initiator is held for a time that is told:
//! data must come and answers must be taken by then, or [`Connection::stalled`] says why it is cut off.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use ashlar_runtime::sync::{Notify, race};
use ashlar_runtime::{Buf, Instant, Priority, Runtime, Stream};
use ashlar_scsi::{Answer, Begun, Nexus, Operation, Status, Stop, Target, UnitAddress, Work, parse};
use ashlar_telemetry::{Counters, Operation as Counted};

use crate::budget::{Held, Share, patience};
use crate::client::Client;
use crate::login::{Admission, Authentication, Directory, Established};
use crate::outbox::{Outbox, Outgoing};
use crate::server::{Entrance, Shared};
use crate::session::{Aborted, Arrived, Event, Function, Managed, Management, Session};

/// Room for many PDUs in one receive beside the largest one. Arbitrary.
const RECEIVE_BYTES: usize = 256 << 10;
/// The same until the login is over: room for the largest PDU there can be until then. Whoever proves nothing
/// gets no more memory than that.
const LOGIN_RECEIVE_BYTES: usize = 16 << 10;
/// So many events, and then others have a turn. Arbitrary: a tenth of a millisecond.
const EVENTS_OF_A_TURN: usize = 32;
/// No further PDU is looked at while this many bytes wait to be sent. Arbitrary: sixteen buffers.
const OUTPUT_BYTES_MAX: usize = 4 << 20;
/// What a command costs of the budget at least, so that those without data are not free.
const COMMAND_BYTES: usize = 512;

/// A session that has logged in to a target.
pub(crate) struct Opened {
    pub established: Established,
    pub nexus: Nexus,
    pub target: Rc<Target>,
}

/// Who logs in, as which port, and where. Another one of the same ends it.
#[derive(PartialEq, Eq)]
pub(crate) struct Login {
    pub initiator: String,
    pub isid: [u8; 6],
    pub target: Option<String>,
}

/// A command whose data come.
struct Pending {
    work: Work,
    share: Share,
    since: Instant,
    /// Its data must have come by then.
    due: Instant,
}

/// The directory, for initiators that have not as many sessions as one may have.
struct Bounded<'a>(&'a Connection);

impl Directory for Bounded<'_> {
    fn admit(&self, initiator: &str, target: Option<&str>) -> Admission {
        self.0.entrance.directory.admit(initiator, target)
    }

    fn has_room(&self, initiator: &str, isid: [u8; 6], target: Option<&str>) -> bool {
        let (initiator, target) = (initiator.to_string(), target.map(str::to_string));
        !self.0.server.has_all_sessions(&Login { initiator, isid, target })
    }

    fn targets(&self, initiator: &str) -> Vec<(String, Vec<String>)> {
        self.0.entrance.directory.targets(initiator)
    }
}

/// One connection; its tasks share it.
pub(crate) struct Connection {
    runtime: Runtime,
    stream: Stream,
    server: Rc<Shared>,
    entrance: Rc<Entrance>,
    /// What people call it.
    pub number: u64,
    session: RefCell<Session>,
    outbox: RefCell<Outbox>,
    /// Whose it is, once its login is over.
    login: OnceCell<Login>,
    opened: OnceCell<Opened>,
    pending: RefCell<BTreeMap<u32, Pending>>,
    /// What its commands hold of the budget.
    held: Held,
    /// How commands that run can be ended before they are done.
    stops: RefCell<BTreeMap<u32, Stop>>,
    /// When the initiator must have taken what is being sent.
    leaving_due: Cell<Option<Instant>>,
    counters: RefCell<BTreeMap<UnitAddress, Rc<Counters>>>,
    /// Commands whose tasks have not ended.
    running: Cell<usize>,
    connected_at: Instant,
    is_receiving_over: Cell<bool>,
    /// The login has succeeded.
    pub is_in: Cell<bool>,
    /// The target and what it waits to be there, until the session before it has ended.
    opening: RefCell<Option<(String, Nexus)>>,
    /// Rings when it is cut off.
    is_cut_off: Notify,
    /// It never will: the connection is about to end.
    has_given_up: Cell<bool>,
    /// It was cut off, which takes a moment.
    is_cut: Cell<bool>,
    /// When the initiator was heard last.
    pub heard_at: Cell<Instant>,
    /// Rings when a command has ended or output was sent.
    has_room: Notify,
    /// Rings when the sender has something to do or to decide.
    has_output: Notify,
}

impl Connection {
    pub fn new(
        runtime: &Runtime,
        stream: Stream,
        server: Rc<Shared>,
        entrance: Rc<Entrance>,
        handle: u16,
    ) -> Rc<Connection> {
        let number = server.portal.number();
        let stall_max = server.settings.stall_max;
        let session = Session::new(server.settings.offer, server.settings.limits, handle);
        Rc::new(Connection {
            runtime: runtime.clone(),
            stream,
            server,
            entrance,
            number,
            session: RefCell::new(session),
            outbox: RefCell::new(Outbox::new(runtime, stall_max)),
            login: OnceCell::new(),
            opened: OnceCell::new(),
            pending: RefCell::default(),
            held: Held::default(),
            stops: RefCell::default(),
            leaving_due: Cell::new(None),
            counters: RefCell::default(),
            running: Cell::new(0),
            connected_at: runtime.now(),
            is_receiving_over: Cell::new(false),
            is_in: Cell::new(false),
            opening: RefCell::default(),
            is_cut_off: Notify::new(),
            has_given_up: Cell::new(false),
            is_cut: Cell::new(false),
            heard_at: Cell::new(runtime.now()),
            has_room: Notify::new(),
            has_output: Notify::new(),
        })
    }

    /// What it logged in to.
    pub fn opened(&self) -> Option<&Opened> {
        self.opened.get()
    }

    /// Whether this initiator has logged in by it, to a target or to learn of some, and it does not end for
    /// this login. Names are the same in any letters.
    pub fn is_beside(&self, login: &Login) -> bool {
        let is_its = |own: &&Login| own.initiator.eq_ignore_ascii_case(&login.initiator);
        self.login.get().filter(is_its).is_some_and(|own| own.target.is_none() || own != login)
    }

    /// Whether it waits to be this nexus at this target.
    pub fn is_opening(&self, target: &str, nexus: &Nexus) -> bool {
        self.opening.borrow().as_ref().is_some_and(|(name, own)| name == target && own == nexus)
    }

    /// Whether it came in there.
    pub fn is_by(&self, entrance: &Rc<Entrance>) -> bool {
        Rc::ptr_eq(&self.entrance, entrance)
    }

    /// Whether it is there to learn of targets, which takes a moment.
    pub fn is_discovery(&self) -> bool {
        self.is_in.get() && self.opened.get().is_none() && self.opening.borrow().is_none()
    }

    /// What a person is told of its initiator, once it has logged in to a target.
    pub fn client(&self) -> Option<Client> {
        let Opened { established, target, .. } = self.opened.get()?;
        Some(Client {
            number: self.number,
            peer: self.stream.peer(),
            entrance: self.entrance.address.clone(),
            initiator: established.initiator.clone(),
            proven_name: established.proven_name.clone(),
            target: target.port().device_name.clone(),
            connected: self.runtime.now() - self.connected_at,
            in_flight: self.session.borrow().in_flight(),
        })
    }

    /// Ends the connection now. Commands under way still run to their end.
    pub fn cut(&self) {
        self.is_cut.set(true);
        self.is_cut_off.notify_one();
        self.stream.shutdown();
    }

    /// Ends a login that has not succeeded.
    pub fn give_up_login(&self) {
        self.has_given_up.set(true);
        self.server.count_cut();
        self.cut();
    }

    /// The login has succeeded, or was given up.
    pub fn is_login_over(&self) -> bool {
        self.is_in.get() || self.has_given_up.get()
    }

    /// Since when it is there.
    pub fn connected_at(&self) -> Instant {
        self.connected_at
    }

    /// Why the initiator must be cut off, if it must: memory waits for what it does not do.
    pub fn stalled(&self, now: Instant) -> Option<String> {
        let is_late = |pending: &Pending| pending.due < now;
        let what = if self.is_cut.get() {
            return None;
        } else if !self.is_full() && self.pending.borrow().values().any(is_late) {
            "it announced data of a write and did not send them"
        } else if self.leaving_due.get().is_some_and(|due| due < now) {
            "it did not take the answers that it asked for"
        } else {
            return None;
        };
        let who = self.opened.get().map_or("somebody", |opened| opened.established.initiator.as_str());
        Some(format!("{who} was cut off: {what} in the time for that"))
    }

    /// Asks the initiator for a sign of life.
    pub fn ping(&self) {
        self.session.borrow_mut().ping(&mut *self.outbox.borrow_mut());
        self.has_output.notify_one();
    }

    /// Asks the initiator to go.
    pub fn request_logout(&self, seconds: u16) {
        self.session.borrow_mut().request_logout(seconds, &mut *self.outbox.borrow_mut());
        self.has_output.notify_one();
    }

    /// Serves the initiator until it leaves or is cut off.
    pub async fn run(self: Rc<Connection>) {
        let sender = self.runtime.spawn(Priority::Host, self.clone().send_all());
        self.receive_all().await;
        // Commands whose data will never come, and those whose answer nobody hears.
        self.pending.borrow_mut().clear();
        self.stops.borrow().values().for_each(Stop::ask);
        self.is_receiving_over.set(true);
        self.has_output.notify_one();
        sender.await;
        self.stream.shutdown();
    }

    async fn receive_all(self: &Rc<Connection>) {
        let bytes_max = RECEIVE_BYTES + Session::pdu_bytes_max(&self.server.settings.offer);
        let mut buf = self.runtime.buffer(LOGIN_RECEIVE_BYTES);
        let mut filled = 0;
        loop {
            let Some(consumed) = self.take_input(&buf[..filled]).await else { return };
            self.wake_sender();
            buf.copy_within(consumed..filled, 0);
            filled -= consumed;
            if self.is_in.get() && buf.len() < bytes_max {
                let small = std::mem::replace(&mut buf, self.runtime.buffer(bytes_max));
                buf[..filled].copy_from_slice(&small[..filled]);
            }
            let (result, back) = self.stream.receive_at(buf, filled).await;
            buf = back;
            match result {
                Ok(0) | Err(_) => return,
                Ok(length) => filled += length,
            }
            self.heard_at.set(self.runtime.now());
        }
    }

    /// Feeds input to the session and does what comes out. Returns how much was consumed; `None` ends the
    /// connection.
    async fn take_input(self: &Rc<Connection>, input: &[u8]) -> Option<usize> {
        let (mut consumed, mut events) = (0, 0);
        loop {
            events += 1;
            if events % EVENTS_OF_A_TURN == 0 {
                self.runtime.yield_now().await;
            }
            let rest = &input[consumed..];
            let step = {
                let random = &*self.server.random;
                let (mut session, mut outbox) = (self.session.borrow_mut(), self.outbox.borrow_mut());
                session.receive(rest, &Bounded(self), random, &mut *outbox)
            };
            match step.event {
                Event::Starved => return Some(consumed + step.consumed),
                Event::Rest => self.runtime.yield_now().await,
                Event::Opened(established) => self.open(*established).await?,
                Event::Command(arrived) => {
                    let immediate = &rest[arrived.immediate.clone()];
                    self.begin(&arrived, immediate);
                }
                Event::Run { task_tag, data } => {
                    let pending = self.pending.borrow_mut().remove(&task_tag);
                    let pending = pending.expect("data come for commands that were accepted");
                    self.start(task_tag, pending, data);
                }
                Event::Failed { task_tag } => {
                    self.pending.borrow_mut().remove(&task_tag);
                }
                Event::Management(management) => self.manage(management),
                Event::Logout { task_tag } => {
                    self.leave(task_tag).await;
                    return None;
                }
                Event::Finish | Event::Close(_) => {
                    self.note_stranger();
                    return None;
                }
            }
            consumed += step.consumed;
            if self.is_full() {
                self.wait_for_room().await;
            }
        }
    }

    fn note_stranger(&self) {
        if let Some(who) = self.session.borrow_mut().take_stranger() {
            let from = self.stream.peer().map_or(String::new(), |peer| format!(", from {peer}"));
            self.server.note_stranger(format!("{who}{from}"));
        }
    }

    /// The initiator logs out: its commands are over before it is told that it is (RFC 7143 11.14).
    async fn leave(&self, task_tag: u32) {
        self.pending.borrow_mut().clear();
        self.stops.borrow().values().for_each(Stop::ask);
        while self.running.get() > 0 {
            self.wake_sender();
            self.has_room.notified().await;
        }
        self.session.borrow_mut().finish_logout(task_tag, &mut *self.outbox.borrow_mut());
        self.wake_sender();
    }

    /// So much waits to be sent that nothing is received.
    pub fn is_full(&self) -> bool {
        self.outbox.borrow().bytes() > OUTPUT_BYTES_MAX
    }

    /// Waits until output has left. Whatever comes meanwhile is not looked at, so its time stands still.
    async fn wait_for_room(&self) {
        let since = self.runtime.now();
        while self.is_full() {
            self.wake_sender();
            self.has_room.notified().await;
        }
        let now = self.runtime.now();
        self.heard_at.set(now);
        let waited = now - since;
        self.pending.borrow_mut().values_mut().for_each(|pending| pending.due += waited);
    }

    fn wake_sender(&self) {
        if !self.outbox.borrow().is_empty() {
            self.has_output.notify_one();
        }
    }

    /// A login is over. `None` if it was given up, or the target went away meanwhile.
    async fn open(self: &Rc<Connection>, established: Established) -> Option<()> {
        if self.has_given_up.get() {
            return None;
        }
        // Much may have changed since its first request: other logins came to their end, hosts got secrets.
        let (initiator, target) = (established.initiator.clone(), established.target.clone());
        let login = Login { initiator, isid: established.isid, target };
        if self.server.has_all_sessions(&login) || !self.is_admitted(&established) {
            return None;
        }
        self.is_in.set(true);
        let is_first = self.login.set(login).is_ok();
        assert!(is_first, "a session logs in once");
        if established.target.is_none() {
            return Some(());
        }
        let target = self.server.portal.target(&established)?;
        let nexus = Nexus { initiator: established.initiator_port(), port: target.port().relative_id };
        // The same initiator port again: the session before it ends first (RFC 7143 6.3.5). Until then
        // nothing is said: whoever hears that this one is in may count on no write of the other.
        let name = target.port().device_name.clone();
        self.server.end_logins_of(&name, &nexus);
        self.opening.replace(Some((name, nexus.clone())));
        race(self.is_cut_off.notified(), self.server.end_sessions_of(&target, &nexus)).await?;
        self.opening.replace(None);
        // Its host may be gone meanwhile, or see another target.
        let now = self.server.portal.target(&established)?;
        if !Rc::ptr_eq(&now, &target) {
            return None;
        }
        target.attach(&nexus);
        let is_first = self.opened.set(Opened { established, nexus, target }).is_ok();
        assert!(is_first, "a session logs in once");
        Some(())
    }

    /// Whether an initiator that has just logged in would be let in now, for what it has proven.
    fn is_admitted(&self, established: &Established) -> bool {
        let admission = self.entrance.directory.admit(&established.initiator, established.target.as_deref());
        match admission {
            Admission::Allowed(Authentication::None) => true,
            Admission::Allowed(Authentication::Chap { .. }) => established.proven_name.is_some(),
            _ => false,
        }
    }

    fn begin(self: &Rc<Connection>, arrived: &Arrived, immediate: &[u8]) {
        let Opened { target, nexus, .. } = self.opened.get().expect("commands come after the login");
        let tag = arrived.task_tag;
        let address = UnitAddress::from_wire(arrived.address);
        let offered = u64::from(arrived.offered_bytes);
        let work = match target.begin(nexus, address, &arrived.cdb, offered) {
            Begun::Work(work) => work,
            Begun::Answered(answer) => {
                let unit = address.and_then(|address| target.unit(address));
                let block_bytes = unit.map_or(512, |unit| unit.block_bytes());
                let wanted = parse(&arrived.cdb).map_or(0, |operation| operation.data_out_bytes(block_bytes));
                return self.answer(tag, &answer, wanted);
            }
        };
        let data_out = work.data_out_bytes();
        let bytes = usize::try_from(data_out.saturating_add(work.memory_bytes_max())).unwrap_or(usize::MAX);
        let Some(share) = self.server.budget.take(&self.held, bytes.max(COMMAND_BYTES)) else {
            return self.answer(tag, &Answer::status(Status::TaskSetFull), work.wanted_bytes());
        };
        let buffer = self.runtime.buffer(data_out as usize);
        let ready = {
            let (mut session, mut outbox) = (self.session.borrow_mut(), self.outbox.borrow_mut());
            session.accept(tag, buffer, immediate, &mut *outbox)
        };
        let now = self.runtime.now();
        // Data of the commands before it come first.
        let due = now + patience(self.server.settings.stall_max, self.held.bytes());
        let pending = Pending { work, share, since: now, due };
        match ready {
            Some(data) => self.start(tag, pending, data),
            None => {
                self.pending.borrow_mut().insert(tag, pending);
            }
        }
    }

    fn answer(&self, tag: u32, answer: &Answer, wanted_bytes: u64) {
        let (mut session, mut outbox) = (self.session.borrow_mut(), self.outbox.borrow_mut());
        session.answer(tag, answer, wanted_bytes, &mut *outbox);
    }

    fn start(self: &Rc<Connection>, tag: u32, pending: Pending, data: Buf) {
        self.running.set(self.running.get() + 1);
        if let Some(stop) = pending.work.stop() {
            self.stops.borrow_mut().insert(tag, stop);
        }
        let connection = self.clone();
        // Dropping the handle lets the task run on.
        drop(self.runtime.spawn(Priority::Host, async move {
            let Pending { work, share, since, .. } = pending;
            let (wanted, counted) = (work.wanted_bytes(), connection.counted(&work));
            let answer = work.run(&data).await;
            if let Some((counters, operation, bytes)) = counted {
                match answer.status {
                    Status::Good => counters.completed(operation, bytes, connection.runtime.now() - since),
                    Status::ReservationConflict => {}
                    Status::CheckCondition | Status::Busy | Status::TaskSetFull => counters.failed(operation),
                }
            }
            connection.stops.borrow_mut().remove(&tag);
            connection.answer(tag, &answer, wanted);
            connection.outbox.borrow_mut().hold(share);
            connection.running.set(connection.running.get() - 1);
            connection.has_room.notify_waiters();
            connection.has_output.notify_one();
        }));
    }

    /// Where a command is counted, and with how many bytes.
    fn counted(&self, work: &Work) -> Option<(Rc<Counters>, Counted, u64)> {
        let (operation, blocks) = match *work.operation() {
            Operation::Read { span } => (Counted::Read, span.blocks),
            Operation::Write { span, .. }
            | Operation::WriteAndVerify { span, .. }
            | Operation::OrWrite { span, .. }
            | Operation::WriteAtomic { span, .. }
            | Operation::CompareAndWrite { span, .. } => (Counted::Write, span.blocks),
            Operation::WriteSame { span, .. } => (Counted::WriteZeroes, span.blocks),
            Operation::Unmap { .. } => (Counted::Unmap, 0),
            Operation::SynchronizeCache(_) => (Counted::Flush, 0),
            Operation::GetBlockStatus { .. } => (Counted::Extents, 0),
            _ => return None,
        };
        let Opened { target, .. } = self.opened.get()?;
        let bytes = blocks * u64::from(work.unit().block_bytes());
        let address = work.address();
        if let Some(counters) = self.counters.borrow().get(&address) {
            return Some((counters.clone(), operation, bytes));
        }
        let volume = self.server.portal.volume(&target.port().device_name, address)?;
        let counters = self.server.registry.counters("iscsi", &volume);
        self.counters.borrow_mut().insert(address, counters.clone());
        Some((counters, operation, bytes))
    }

    fn manage(self: &Rc<Connection>, management: Management) {
        self.running.set(self.running.get() + 1);
        let connection = self.clone();
        drop(self.runtime.spawn(Priority::Host, async move {
            let managed = connection.carry_out(&management).await;
            {
                let (mut session, mut outbox) =
                    (connection.session.borrow_mut(), connection.outbox.borrow_mut());
                session.finish_management(management.task_tag, managed, &mut *outbox);
            }
            connection.running.set(connection.running.get() - 1);
            connection.has_room.notify_waiters();
            connection.has_output.notify_one();
        }));
    }

    async fn carry_out(&self, management: &Management) -> Managed {
        let Opened { target, nexus, .. } = self.opened.get().expect("task management comes after the login");
        let unit = UnitAddress::from_wire(management.address).and_then(|address| target.unit(address));
        match management.function {
            Function::AbortTask => return self.abort_one(management.referenced_tag).await,
            Function::TargetWarmReset | Function::TargetColdReset => {
                for (address, unit) in target.units() {
                    self.server.abort_all(target, address.to_wire(), None).await;
                    unit.reset().await;
                }
                return Managed::Complete;
            }
            Function::AbortTaskSet | Function::ClearTaskSet | Function::UnitReset => {}
        }
        let Some(unit) = unit else { return Managed::NoUnit };
        match management.function {
            Function::AbortTaskSet => self.abort_at(management.address).await,
            Function::ClearTaskSet => {
                self.server.abort_all(target, management.address, Some(nexus)).await;
                self.abort_at(management.address).await;
            }
            _ => {
                self.server.abort_all(target, management.address, None).await;
                unit.reset().await;
            }
        }
        Managed::Complete
    }

    async fn abort_one(&self, tag: u32) -> Managed {
        let aborted = self.session.borrow_mut().abort(tag);
        match aborted {
            Aborted::Unknown => return Managed::NoTask,
            Aborted::Gone => {
                self.pending.borrow_mut().remove(&tag);
            }
            Aborted::Running => {
                self.stop(tag);
                self.wait_for(&[tag]).await;
            }
        }
        Managed::Complete
    }

    /// Aborts the commands at a unit, and waits for those that run.
    pub async fn abort_at(&self, address: [u8; 8]) {
        let tags = self.session.borrow().task_tags(Some(address));
        for tag in &tags {
            let aborted = self.session.borrow_mut().abort(*tag);
            match aborted {
                Aborted::Gone => drop(self.pending.borrow_mut().remove(tag)),
                Aborted::Running => self.stop(*tag),
                Aborted::Unknown => {}
            }
        }
        self.wait_for(&tags).await;
    }

    /// Ends a command before it is done, if it is one that can be.
    fn stop(&self, tag: u32) {
        if let Some(stop) = self.stops.borrow().get(&tag) {
            stop.ask();
        }
    }

    /// Commands that have no answer yet at a unit.
    pub fn has_tasks(&self, address: [u8; 8]) -> bool {
        !self.session.borrow().task_tags(Some(address)).is_empty()
    }

    async fn wait_for(&self, tags: &[u32]) {
        loop {
            let ended = self.has_room.notified();
            let left = self.session.borrow().task_tags(None);
            if !tags.iter().any(|tag| left.contains(tag)) {
                return;
            }
            ended.await;
        }
    }

    /// Sends what is queued until nothing more can come, or the initiator does not take it.
    async fn send_all(self: Rc<Connection>) {
        let mut is_broken = false;
        loop {
            // Until the session before it has ended; what waits for nothing any more is to leave.
            let is_held = self.opening.borrow().is_some() && !self.is_receiving_over.get();
            let next = if is_held { None } else { self.outbox.borrow_mut().pop() };
            if let Some(Outgoing { buf, shares, due }) = next {
                let buf = if is_broken {
                    buf
                } else {
                    self.leaving_due.set(Some(due));
                    let (result, buf) = self.stream.send(buf).await;
                    self.leaving_due.set(None);
                    if result.is_err() {
                        is_broken = true;
                        self.stream.shutdown();
                    }
                    buf
                };
                drop(shares);
                self.outbox.borrow_mut().sent(buf);
                self.has_room.notify_waiters();
                continue;
            }
            if self.running.get() == 0 && self.is_receiving_over.get() {
                return;
            }
            self.has_output.notified().await;
        }
    }
}
