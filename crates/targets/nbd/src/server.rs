//! The listening side: accepts connections, keeps their list, and drains them at a shutdown.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::time::Duration;

use ashlar_block::Catalogue;
use ashlar_runtime::sync::{Notify, race};
use ashlar_runtime::{Address, Listener, Priority, Runtime, Stream};
use ashlar_telemetry::Registry;

use crate::client::Client;
use crate::connection::{CatalogueExports, Connection};
use crate::door::{Admission, Door, Told};
use crate::settings::Settings;

/// Pause after an accept that failed, for instance because descriptors ran out. Arbitrary.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Looks for stalled clients while one may stall so long.
const STALL_LOOKS: u32 = 8;

/// A running NBD server. Dropping the handle lets it run on.
#[derive(Clone)]
pub struct Server {
    shared: Rc<Shared>,
}

struct Shared {
    runtime: Runtime,
    catalogue: Rc<dyn Catalogue>,
    settings: Settings,
    counters: Rc<Registry>,
    door: Door,
    /// `None` where it does not listen, and is given its connections.
    address: Option<Address>,
    connections: RefCell<BTreeMap<u64, Rc<Connection>>>,
    is_accepting: Cell<bool>,
    /// Ends the accept loop.
    stop: Notify,
    /// Rings when a connection or the accept loop has ended.
    ended: Notify,
}

/// Serves the catalogue's devices to whoever connects to the listener. Servers of one door share a budget.
#[must_use]
pub fn serve(
    runtime: &Runtime,
    listener: Listener,
    catalogue: Rc<dyn Catalogue>,
    settings: Settings,
    counters: Rc<Registry>,
    door: &Door,
) -> Server {
    let server = Server::new(runtime, Some(listener.local_addr()), catalogue, settings, counters, door);
    drop(runtime.spawn(Priority::Host, server.shared.clone().accept_all(listener)));
    server
}

/// Serves the catalogue's devices to whose connections it is given by [`Server::take`].
#[must_use]
pub fn serve_given(
    runtime: &Runtime,
    catalogue: Rc<dyn Catalogue>,
    settings: Settings,
    counters: Rc<Registry>,
    door: &Door,
) -> Server {
    let server = Server::new(runtime, None, catalogue, settings, counters, door);
    let shared = server.shared.clone();
    drop(runtime.spawn(Priority::Host, async move {
        shared.stop.notified().await;
        shared.accepts_no_more();
    }));
    server
}

/// Cuts off clients that stall, until the server is gone.
async fn cut_stalled(server: Weak<Shared>, runtime: Runtime) {
    while let Some(shared) = server.upgrade() {
        let now = runtime.now();
        for connection in shared.connections() {
            if let Some(why) = connection.stalled(now) {
                shared.door.note_cut(why);
                connection.cut();
            }
        }
        let pause = shared.settings.stall_max / STALL_LOOKS;
        drop(shared);
        runtime.sleep(pause).await;
    }
}

impl Server {
    fn new(
        runtime: &Runtime,
        address: Option<Address>,
        catalogue: Rc<dyn Catalogue>,
        settings: Settings,
        counters: Rc<Registry>,
        door: &Door,
    ) -> Server {
        let shared = Rc::new(Shared {
            runtime: runtime.clone(),
            catalogue,
            settings,
            counters,
            door: door.clone(),
            address,
            connections: RefCell::default(),
            is_accepting: Cell::new(true),
            stop: Notify::new(),
            ended: Notify::new(),
        });
        drop(runtime.spawn(Priority::Host, cut_stalled(Rc::downgrade(&shared), runtime.clone())));
        Server { shared }
    }

    /// Where the server listens, if it does; with port zero, the port it was given.
    #[must_use]
    pub fn local_addr(&self) -> Option<Address> {
        self.shared.address.clone()
    }

    /// Serves a connection that somebody else accepted. One that comes after the shutdown is closed.
    pub fn take(&self, stream: Stream) {
        if self.shared.is_accepting.get() {
            self.shared.admit(stream);
        } else {
            stream.shutdown();
        }
    }

    /// Cuts off every client of an export, and returns when what they had in flight has ended.
    pub async fn disconnect_export(&self, export: &str) -> Vec<Client> {
        let shared = &self.shared;
        let all: Vec<(u64, Rc<Connection>)> = shared
            .connections
            .borrow()
            .iter()
            .map(|(number, connection)| (*number, connection.clone()))
            .collect();
        let mut cut = Vec::new();
        for (number, connection) in all.into_iter().filter(|(_, one)| one.export_name() == Some(export)) {
            cut.push((shared.client(number, &connection), connection.clone()));
            connection.cut();
        }
        for (_, connection) in &cut {
            shared.wait_for(connection).await;
        }
        cut.into_iter().map(|(client, _)| client).collect()
    }

    /// The clients that are connected.
    #[must_use]
    pub fn clients(&self) -> Vec<Client> {
        let connections = self.shared.connections.borrow();
        connections.iter().map(|(number, connection)| self.shared.client(*number, connection)).collect()
    }

    /// Cuts a client off; false where this server has none of this number. Requests in flight run to their
    /// end.
    #[must_use]
    pub fn disconnect(&self, number: u64) -> bool {
        let connection = self.shared.connections.borrow().get(&number).cloned();
        connection.as_ref().inspect(|connection| connection.cut()).is_some()
    }

    /// Stops listening, lets requests in flight end and their replies leave, and closes every
    /// connection. Clients that do not take their replies in time are cut off.
    pub async fn shutdown(&self) {
        let shared = &self.shared;
        shared.stop.notify_one();
        for connection in shared.connections() {
            connection.begin_shutdown();
        }
        let deadline = shared.runtime.sleep(shared.settings.drain_max);
        if race(deadline, shared.wait_for_end()).await.is_none() {
            for connection in shared.connections() {
                connection.cut();
            }
            shared.wait_for_end().await;
        }
    }
}

impl Shared {
    fn client(&self, number: u64, connection: &Connection) -> Client {
        Client { is_encrypted: self.address.is_none(), ..connection.client(number, self.runtime.now()) }
    }

    fn accepts_no_more(&self) {
        self.is_accepting.set(false);
        self.ended.notify_waiters();
    }

    fn connections(&self) -> Vec<Rc<Connection>> {
        self.connections.borrow().values().cloned().collect()
    }

    async fn wait_for(&self, connection: &Rc<Connection>) {
        loop {
            let ended = self.ended.notified();
            if !self.connections.borrow().values().any(|other| Rc::ptr_eq(other, connection)) {
                return;
            }
            ended.await;
        }
    }

    async fn wait_for_end(&self) {
        loop {
            let ended = self.ended.notified();
            if !self.is_accepting.get() && self.connections.borrow().is_empty() {
                return;
            }
            ended.await;
        }
    }

    async fn accept_all(self: Rc<Shared>, listener: Listener) {
        while let Some(accepted) = race(self.stop.notified(), listener.accept()).await {
            match accepted {
                Ok(stream) => self.admit(stream),
                Err(_) => {
                    if race(self.stop.notified(), self.runtime.sleep(ACCEPT_PAUSE)).await.is_none() {
                        break;
                    }
                }
            }
        }
        // The socket file goes before anybody is told that the server has ended.
        drop(listener);
        self.accepts_no_more();
    }

    fn admit(self: &Rc<Shared>, stream: Stream) {
        let place = match self.door.admit(self.settings.clients_max, self.runtime.now()) {
            Admission::In(place) => place,
            Admission::Told(why, told) => return self.refuse(stream, why, told),
            Admission::Closed => return stream.shutdown(),
        };
        let number = place.number;
        let connection = Connection::new(&self.runtime, stream, &self.settings, &self.door);
        self.connections.borrow_mut().insert(number, connection.clone());
        self.cut_unless_opened(&connection, self.settings.handshake_max);
        let shared = self.clone();
        let exports = CatalogueExports { catalogue: self.catalogue.clone() };
        drop(self.runtime.spawn(Priority::Host, async move {
            connection.run(exports, shared.counters.clone()).await;
            shared.connections.borrow_mut().remove(&number);
            drop(place);
            shared.ended.notify_waiters();
        }));
    }

    /// Tells a client in the protocol's words why it is not served, and lets it go.
    fn refuse(self: &Rc<Shared>, stream: Stream, why: String, told: Told) {
        let connection = Connection::new(&self.runtime, stream, &self.settings, &self.door);
        connection.refuse_all(why);
        self.cut_unless_opened(&connection, self.settings.refusal_max);
        let (counters, catalogue) = (self.counters.clone(), self.catalogue.clone());
        drop(self.runtime.spawn(Priority::Host, async move {
            connection.run(CatalogueExports { catalogue }, counters).await;
            drop(told);
        }));
    }

    fn cut_unless_opened(&self, connection: &Rc<Connection>, patience: Duration) {
        let watched = Rc::downgrade(connection);
        let handshake = self.runtime.sleep(patience);
        drop(self.runtime.spawn(Priority::Background, async move {
            handshake.await;
            if let Some(connection) = watched.upgrade()
                && connection.export_name().is_none()
            {
                connection.cut();
            }
        }));
    }
}
