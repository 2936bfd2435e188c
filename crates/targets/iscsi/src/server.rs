//! The listening side: accepts connections, keeps the list of sessions, and drains them at a shutdown.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::time::Duration;

use ashlar_runtime::sync::{Notify, race};
use ashlar_runtime::{Address, Instant, Listener, Priority, Runtime, Stream};
use ashlar_scsi::{Attention, Nexus, Target, UnitAddress};
use ashlar_telemetry::Registry;

use crate::budget::Budget;
use crate::client::Client;
use crate::connection::{Connection, Login, Opened};
use crate::login::{Directory, Established};
use crate::settings::Settings;

/// Pause after an accept that failed, for instance because descriptors ran out. Arbitrary.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Looks for initiators that are silent, stall or log in while one may do so.
const LOOKS: u32 = 4;
/// Sentences kept for people until somebody takes them out. More are not told. Arbitrary.
const NOTICES_MAX: usize = 16;
/// Pause between two of them about sessions that are refused. Arbitrary: hosts try again and again.
const TOLD_PAUSE: Duration = Duration::from_secs(60);

/// What is served: made and kept by whoever knows volumes and hosts.
pub trait Portal {
    /// The target that whoever has just logged in is to see; `None` if it is gone since. Targets of one name
    /// are one device: what they have at an address is the same unit.
    fn target(&self, established: &Established) -> Option<Rc<Target>>;

    /// The volume behind a unit, under which its requests are counted.
    fn volume(&self, target: &str, address: UnitAddress) -> Option<String>;

    /// The number of a new client: that of no other.
    fn number(&self) -> u64;
}

/// An address at which a server is reached, and who may come in there.
pub(crate) struct Entrance {
    pub address: Address,
    pub directory: Rc<dyn Directory>,
}

/// Fills bytes with random ones that nobody can foretell.
pub type Randomness = Rc<dyn Fn(&mut [u8])>;

/// A running iSCSI server. Dropping the handle lets it run on.
#[derive(Clone)]
pub struct Server {
    shared: Rc<Shared>,
}

pub(crate) struct Shared {
    runtime: Runtime,
    pub portal: Rc<dyn Portal>,
    /// The runtime's own are not for secrets.
    pub random: Randomness,
    pub settings: Settings,
    pub registry: Rc<Registry>,
    /// Payload bytes of all commands under way.
    pub budget: Budget,
    /// By their handles (TSIH).
    connections: RefCell<BTreeMap<u16, Rc<Connection>>>,
    last_handle: Cell<u16>,
    /// Accept loops.
    listeners: Cell<usize>,
    /// Connections that were closed at once because so many sessions were there.
    refused: Cell<u64>,
    /// Initiators that were cut off because they kept others from what there is.
    cut: Cell<u64>,
    /// What a person should hear of.
    notices: RefCell<Vec<String>>,
    /// When somebody was told that sessions are refused.
    told: Cell<Option<Instant>>,
    /// When somebody was told who was not let in, and how many were not since.
    told_of_strangers: Cell<Option<Instant>>,
    strangers_since: Cell<u64>,
    is_stopping: Cell<bool>,
    /// Ends the accept loops.
    stop: Notify,
    /// Rings when a connection or an accept loop has ended.
    ended: Notify,
}

/// Cuts off initiators that stall or do not end their login; pings those that are silent, and cuts off those
/// that stay so, until the server is gone.
async fn watch(server: Weak<Shared>, runtime: Runtime) {
    while let Some(shared) = server.upgrade() {
        let now = runtime.now();
        let Settings { silence_max, stall_max, login_max, .. } = shared.settings;
        for connection in shared.all() {
            if let Some(why) = connection.stalled(now) {
                shared.note_cut(why);
                connection.cut();
                continue;
            }
            let is_passing = !connection.is_login_over() || connection.is_discovery();
            if is_passing && now - connection.connected_at() > login_max {
                connection.give_up_login();
                continue;
            }
            if connection.is_full() {
                // Nobody is silent to whom nobody listens, and a ping would come behind all that waits:
                // silence begins when that has left. Until then the time to take it holds.
                connection.heard_at.set(now);
                continue;
            }
            let is_in = connection.is_in.get();
            let silence = now - connection.heard_at.get();
            if is_in && silence > silence_max * 2 {
                connection.cut();
            } else if is_in && silence > silence_max {
                connection.ping();
            }
        }
        drop(shared);
        runtime.sleep(silence_max.min(stall_max).min(login_max) / LOOKS).await;
    }
}

impl Server {
    /// A server that nobody reaches yet.
    #[must_use]
    pub fn new(
        runtime: &Runtime,
        portal: Rc<dyn Portal>,
        random: Randomness,
        settings: Settings,
        registry: Rc<Registry>,
    ) -> Server {
        let shared = Rc::new(Shared {
            runtime: runtime.clone(),
            portal,
            random,
            settings,
            registry,
            budget: Budget::new(settings.payload_bytes_max),
            connections: RefCell::default(),
            last_handle: Cell::new(0),
            listeners: Cell::new(0),
            refused: Cell::new(0),
            cut: Cell::new(0),
            notices: RefCell::default(),
            told: Cell::new(None),
            told_of_strangers: Cell::new(None),
            strangers_since: Cell::new(0),
            is_stopping: Cell::new(false),
            stop: Notify::new(),
            ended: Notify::new(),
        });
        drop(runtime.spawn(Priority::Background, watch(Rc::downgrade(&shared), runtime.clone())));
        Server { shared }
    }

    /// Serves whoever connects there and logs in, as this directory says. Returns where the listener is; with
    /// port zero, at the port it was given.
    pub fn listen(&self, listener: Listener, directory: Rc<dyn Directory>) -> Address {
        let address = listener.local_addr();
        let entrance = Rc::new(Entrance { address: address.clone(), directory });
        let shared = self.shared.clone();
        shared.listeners.set(shared.listeners.get() + 1);
        drop(self.shared.runtime.spawn(Priority::Host, shared.accept_all(listener, entrance)));
        address
    }

    /// Cuts off sessions whose initiator is to see another target now, or none.
    pub fn revise(&self) {
        for connection in self.shared.all() {
            let Some(opened) = connection.opened() else { continue };
            let target = self.shared.portal.target(&opened.established);
            if !target.is_some_and(|target| Rc::ptr_eq(&target, &opened.target)) {
                connection.cut();
            }
        }
    }

    /// Sessions there are, logins under way included.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.shared.connections.borrow().len()
    }

    /// Connections refused since the start because the limit of sessions was reached.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.shared.refused.get()
    }

    /// Connections cut off since the start because they held memory or places and did nothing for it.
    #[must_use]
    pub fn cut(&self) -> u64 {
        self.shared.cut.get()
    }

    /// Takes out what a person should hear of, one line each.
    #[must_use]
    pub fn take_notices(&self) -> Vec<String> {
        self.shared.notices.take()
    }

    /// The initiators that are logged in to a target.
    #[must_use]
    pub fn clients(&self) -> Vec<Client> {
        let connections = self.shared.connections.borrow();
        connections.values().filter_map(|connection| connection.client()).collect()
    }

    /// Cuts a session off; false where there is none of this number. Commands under way run to their end.
    #[must_use]
    pub fn disconnect(&self, number: u64) -> bool {
        let connection = self.shared.all().into_iter().find(|connection| connection.number == number);
        connection.as_ref().inspect(|connection| connection.cut()).is_some()
    }

    /// Stops listening, asks hosts to log out, and closes what is left after the time for that.
    pub async fn shutdown(&self) {
        let shared = &self.shared;
        shared.is_stopping.set(true);
        shared.stop.notify_waiters();
        let seconds = u16::try_from(shared.settings.drain_max.as_secs()).unwrap_or(u16::MAX);
        for connection in shared.all() {
            connection.request_logout(seconds);
        }
        let deadline = shared.runtime.sleep(shared.settings.drain_max);
        if race(deadline, shared.wait_for_end()).await.is_none() {
            for connection in shared.all() {
                connection.cut();
            }
            shared.wait_for_end().await;
        }
    }
}

impl Shared {
    fn all(&self) -> Vec<Rc<Connection>> {
        self.connections.borrow().values().cloned().collect()
    }

    /// Connections with a session at the target of this name.
    fn at(&self, name: &str) -> Vec<Rc<Connection>> {
        let is_there = |connection: &Rc<Connection>| {
            connection.opened().is_some_and(|opened| opened.target.port().device_name == name)
        };
        self.all().into_iter().filter(is_there).collect()
    }

    /// Ends logins that wait to be this nexus at a target: the newest counts.
    pub fn end_logins_of(&self, target: &str, nexus: &Nexus) {
        let waiting = self.all().into_iter().filter(|connection| connection.is_opening(target, nexus));
        waiting.for_each(|connection| connection.cut());
    }

    /// Ends the session that this nexus has, and waits for that.
    pub async fn end_sessions_of(&self, target: &Rc<Target>, nexus: &Nexus) {
        loop {
            let ended = self.ended.notified();
            let of_nexus = |connection: &Rc<Connection>| {
                connection.opened().is_some_and(|opened| opened.nexus == *nexus)
            };
            let before = self.at(&target.port().device_name).into_iter().find(of_nexus);
            let Some(before) = before else { return };
            before.cut();
            ended.await;
        }
    }

    /// Aborts the commands of all nexuses but one at a unit, and tells those that lost some.
    pub async fn abort_all(&self, target: &Rc<Target>, address: [u8; 8], except: Option<&Nexus>) {
        for connection in self.at(&target.port().device_name) {
            let Some(opened) = connection.opened() else { continue };
            if except == Some(&opened.nexus) {
                continue;
            }
            let had_tasks = connection.has_tasks(address);
            connection.abort_at(address).await;
            let unit = UnitAddress::from_wire(address).and_then(|address| target.unit(address));
            if let Some(unit) = unit.filter(|_| had_tasks && except.is_some()) {
                unit.tell_one(&opened.nexus, Attention::CommandsCleared);
            }
        }
    }

    async fn wait_for_end(&self) {
        loop {
            let ended = self.ended.notified();
            if self.listeners.get() == 0 && self.connections.borrow().is_empty() {
                return;
            }
            ended.await;
        }
    }

    async fn accept_all(self: Rc<Shared>, listener: Listener, entrance: Rc<Entrance>) {
        while !self.is_stopping.get() {
            match race(self.stop.notified(), listener.accept()).await {
                Some(Ok(stream)) => self.admit(stream, entrance.clone()),
                Some(Err(_)) => {
                    race(self.stop.notified(), self.runtime.sleep(ACCEPT_PAUSE)).await;
                }
                None => break,
            }
        }
        drop(listener);
        self.listeners.set(self.listeners.get() - 1);
        self.ended.notify_waiters();
    }

    pub fn count_cut(&self) {
        self.cut.set(self.cut.get() + 1);
    }

    fn note_cut(&self, why: String) {
        self.count_cut();
        let mut notices = self.notices.borrow_mut();
        if notices.len() < NOTICES_MAX {
            notices.push(why);
        }
    }

    /// Whether an initiator has as many sessions as one may have, but for the one that this login would end.
    pub fn has_all_sessions(&self, login: &Login) -> bool {
        let most = self.settings.sessions_of_one_max;
        let connections = self.connections.borrow();
        let is_full = connections.values().filter(|one| one.is_beside(login)).count() >= most;
        if is_full {
            let initiator = &login.initiator;
            self.note_refused(format!("{initiator} has {most} sessions, the most of one: more are refused"));
        }
        is_full
    }

    /// Counts who is refused, and says so once in a while.
    fn note_refused(&self, why: String) {
        self.refused.set(self.refused.get() + 1);
        if self.may_tell(&self.told) {
            self.notices.borrow_mut().push(why);
        }
    }

    /// Whether it is long enough ago that somebody was told of this; then he is now.
    fn may_tell(&self, told: &Cell<Option<Instant>>) -> bool {
        let now = self.runtime.now();
        let is_long_ago = told.get().is_none_or(|told| now - told >= TOLD_PAUSE);
        if is_long_ago {
            told.set(Some(now));
        }
        is_long_ago
    }

    /// Says who was not let in, once in a while, and counts the rest.
    pub fn note_stranger(&self, who: String) {
        let since = self.strangers_since.get();
        if !self.may_tell(&self.told_of_strangers) {
            return self.strangers_since.set(since + 1);
        }
        self.strangers_since.set(0);
        let more =
            if since == 0 { String::new() } else { format!("; {since} more since the last line of this") };
        self.notices.borrow_mut().push(format!("{who}{more}"));
    }

    /// Lets the login that has taken longest go, where there are as many as may be.
    fn make_room_for_login(&self) {
        let connections = self.connections.borrow();
        let waiting = connections.values().filter(|connection| !connection.is_login_over());
        if waiting.clone().count() >= self.settings.logins_max
            && let Some(oldest) = waiting.min_by_key(|connection| connection.connected_at())
        {
            oldest.give_up_login();
        }
    }

    /// Whether one more finds a place there. Who is let in by one address alone leaves places to others.
    fn check_place(&self, entrance: &Rc<Entrance>) -> Result<(), String> {
        let connections = self.connections.borrow();
        let most = self.settings.sessions_max;
        if connections.len() >= most {
            return Err(format!("{most} sessions are open, which is the limit: more are closed"));
        }
        let most_here = most - most / 4;
        let here = connections.values().filter(|one| one.is_by(entrance)).count();
        if self.listeners.get() > 1 && here >= most_here {
            let address = &entrance.address;
            return Err(format!(
                "{most_here} sessions are open at {address}, which is the limit of one address"
            ));
        }
        Ok(())
    }

    fn admit(self: &Rc<Shared>, stream: Stream, entrance: Rc<Entrance>) {
        self.make_room_for_login();
        if let Err(why) = self.check_place(&entrance) {
            self.note_refused(why);
            return stream.shutdown();
        }
        let handle = self.free_handle();
        let connection = Connection::new(&self.runtime, stream, self.clone(), entrance, handle);
        self.connections.borrow_mut().insert(handle, connection.clone());
        let shared = self.clone();
        drop(self.runtime.spawn(Priority::Host, async move {
            connection.clone().run().await;
            shared.connections.borrow_mut().remove(&handle);
            if let Some(Opened { target, nexus, .. }) = connection.opened() {
                target.detach(nexus);
            }
            shared.ended.notify_waiters();
        }));
    }

    /// A handle that no session has; not zero. There are fewer sessions than handles.
    fn free_handle(&self) -> u16 {
        let connections = self.connections.borrow();
        let mut handle = self.last_handle.get();
        loop {
            handle = handle.wrapping_add(1).max(1);
            if !connections.contains_key(&handle) {
                self.last_handle.set(handle);
                return handle;
            }
        }
    }
}
