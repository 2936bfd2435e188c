//! The doors: NBD on a socket and on TCP, iSCSI, volumes as files by FUSE. Started, listed, stopped.
//!
//! Their servers live on the data shard; this side keeps what a person wants to know of them.

mod nbd_tls;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ashlar_api as api;
use ashlar_block::{BlockDevice, Catalogue, Extent, Geometry, LocalFuture};
use ashlar_fuse::{FuseServer, Left};
use ashlar_runtime::{Listener, Peer, Runtime};

use crate::array::{Array, LINGER_STEP, Shard};
use crate::attach;
use crate::error::{Error, Result};
use crate::iscsi::{ExportUse, Exporter};
use crate::keeping::Keeping;
use crate::log::Log;
use crate::names;
use crate::process::Descriptors;
use crate::server::Entrance;
use crate::service::ClosedPools;
use crate::settings::{Address, FuseTransport, Settings, Socket};
use crate::sockets::{self, Group};
use crate::state::{NBD_SOCKET, State, VOLUMES};

/// Clients of NBD out of four that may come by TCP, where anybody may: the rest is for the socket.
const GUESTS_PER_FOUR: usize = 3;

/// What the data shard keeps of the doors.
#[derive(Default)]
pub(crate) struct Servers {
    nbd: RefCell<Vec<ashlar_nbd::Server>>,
    /// The one of them that clients over TLS are given to.
    nbd_tls: RefCell<Option<ashlar_nbd::Server>>,
    pub(crate) nbd_door: ashlar_nbd::Door,
    pub(crate) exporter: Exporter,
    /// Volumes that are attached: NBD clients only read them, and nobody else opens their files to write.
    shielded: RefCell<BTreeSet<String>>,
    fuse: RefCell<Option<Rc<FuseServer>>>,
}

/// A directory of volumes that is served.
pub(crate) struct Seated {
    line: String,
    /// What is under way when this process dies is handed out again.
    can_resend: bool,
    /// For the keeper; none where requests do not outlive this process.
    descriptors: Option<ashlar_fuse::Descriptors>,
}

impl Shard {
    fn seat_fuse(&self, server: FuseServer, is_kept: bool) -> Result<Seated> {
        let (line, can_resend) = (server.transport_line().to_string(), server.can_resend());
        let descriptors = is_kept.then(|| server.descriptors()).transpose();
        let descriptors = descriptors.map_err(|error| from_fuse(&error))?;
        self.servers.fuse.replace(Some(Rc::new(server)));
        Ok(Seated { line, can_resend, descriptors })
    }
}

/// Who has what open at the doors.
pub(crate) struct DoorUsers {
    /// NBD clients that have chosen an export.
    pub(crate) clients: Vec<ashlar_nbd::Client>,
    /// Exports over iSCSI, with who is logged in.
    pub(crate) exports: Vec<ExportUse>,
    /// Name of each open file of the directory of volumes, and whether it was opened for writing.
    pub(crate) files: Vec<(String, bool)>,
}

/// What NBD serves: volumes that are attached take no writes there.
struct Exports {
    shard: Rc<Shard>,
    closed: ClosedPools,
}

impl Catalogue for Exports {
    fn device(&self, name: &str) -> Option<Rc<dyn BlockDevice>> {
        if names::is_hidden(name) {
            return None;
        }
        let device = self.shard.device(name)?;
        if self.shard.servers.shielded.borrow().contains(name) {
            return Some(Rc::new(ReadOnly(device)));
        }
        Some(device)
    }

    fn names(&self) -> Vec<String> {
        self.shard.names()
    }

    fn absence(&self) -> Option<String> {
        self.closed.remark()
    }
}

/// What the directory of volumes shows: nobody begins to write to a volume that is attached.
struct Files(Rc<Shard>);

impl Catalogue for Files {
    fn device(&self, name: &str) -> Option<Rc<dyn BlockDevice>> {
        self.0.device(name)
    }

    fn names(&self) -> Vec<String> {
        self.0.names()
    }

    fn identity(&self, name: &str) -> Option<ashlar_block::Identity> {
        self.0.identity(name)
    }

    fn is_taken(&self, name: &str) -> bool {
        self.0.servers.shielded.borrow().contains(name)
    }
}

/// A device that takes no writes by this door.
struct ReadOnly(Rc<dyn BlockDevice>);

impl ReadOnly {
    fn refused<'a>() -> LocalFuture<'a, ashlar_block::Result<()>> {
        let why = "the volume is attached: attach it with --shared to write it over NBD, too";
        let error = ashlar_block::Error::new(ashlar_block::ErrorKind::ReadOnly, why);
        Box::pin(std::future::ready(Err(error)))
    }
}

impl BlockDevice for ReadOnly {
    fn geometry(&self) -> Geometry {
        Geometry { is_read_only: true, ..self.0.geometry() }
    }

    fn read<'a>(&'a self, offset: u64, into: &'a mut [u8]) -> LocalFuture<'a, ashlar_block::Result<()>> {
        self.0.read(offset, into)
    }

    fn write<'a>(&'a self, _: u64, _: &'a [u8], _: bool) -> LocalFuture<'a, ashlar_block::Result<()>> {
        ReadOnly::refused()
    }

    fn flush(&self) -> LocalFuture<'_, ashlar_block::Result<()>> {
        self.0.flush()
    }

    fn unmap(&self, _: u64, _: u64) -> LocalFuture<'_, ashlar_block::Result<()>> {
        ReadOnly::refused()
    }

    fn write_zeroes(&self, _: u64, _: u64, _: bool) -> LocalFuture<'_, ashlar_block::Result<()>> {
        ReadOnly::refused()
    }

    fn extents(
        &self,
        offset: u64,
        length: u64,
        extents_max: usize,
    ) -> LocalFuture<'_, ashlar_block::Result<Vec<Extent>>> {
        self.0.extents(offset, length, extents_max)
    }
}

/// The doors, seen from the control side.
pub(crate) struct Doors {
    list: Mutex<List>,
    /// Ways in to the API.
    entrances: Mutex<Vec<Arc<Entrance>>>,
    nbd_socket: PathBuf,
    volumes: PathBuf,
    fuse_transport: FuseTransport,
    iscsi_listen: Vec<SocketAddr>,
    /// One mount or unmount at a time.
    fuse_turn: tokio::sync::Mutex<()>,
}

/// How many clients a door has, had to refuse, and cut off.
pub(crate) struct Crowd {
    pub(crate) door: &'static str,
    pub(crate) clients: u64,
    pub(crate) refused: u64,
    /// Of doors that cut off who stalls.
    pub(crate) cut: Option<u64>,
}

struct List {
    api: Vec<api::Door>,
    nbd_socket: api::Door,
    nbd_tcp: api::Door,
    /// One for each address in the settings.
    nbd_tls: Vec<api::Door>,
    /// One for each address in the settings.
    iscsi: Vec<api::Door>,
    fuse: api::Door,
    /// What attached volumes outlive.
    outlives: api::Outlives,
}

impl List {
    /// What is told of this door from now on takes the place of why it was not open.
    fn forget_failed(&mut self, name: &str, transport: &str) {
        let is_it = |door: &api::Door| door.name == name && door.transport == transport;
        self.api.retain(|door| !is_it(door) || door.state == api::DoorState::Serving);
    }
}

fn door(name: &str, transport: &str, address: impl Into<String>, state: api::DoorState) -> api::Door {
    api::Door {
        name: name.to_string(),
        transport: transport.to_string(),
        address: address.into(),
        state,
        client_count: None,
        reason: None,
    }
}

impl Doors {
    /// Doors that are all closed.
    pub(crate) fn new(state: &State, settings: &Settings) -> Doors {
        let nbd_socket = state.path(NBD_SOCKET);
        let volumes = state.path(VOLUMES);
        let list = List {
            api: Vec::new(),
            nbd_socket: door("nbd", "unix", nbd_socket.display().to_string(), api::DoorState::Off),
            nbd_tcp: door("nbd", "tcp", "", api::DoorState::Off),
            nbd_tls: Vec::new(),
            iscsi: settings.iscsi_listen.iter().map(iscsi_idle).collect(),
            fuse: door("fuse", "fuse", volumes.display().to_string(), api::DoorState::Idle),
            outlives: api::Outlives::default(),
        };
        Doors {
            list: Mutex::new(list),
            entrances: Mutex::default(),
            nbd_socket,
            volumes,
            fuse_transport: settings.fuse_transport,
            iscsi_listen: settings.iscsi_listen.clone(),
            fuse_turn: tokio::sync::Mutex::new(()),
        }
    }

    fn entries(&self) -> MutexGuard<'_, List> {
        self.list.lock().expect("no holder of this lock panics")
    }

    /// Every door for people.
    pub(crate) async fn list(&self, array: &Array) -> Result<Vec<api::Door>> {
        let nbd = Doors::nbd_clients(array).await?;
        let iscsi = Doors::iscsi_entrances(array).await?;
        let is_tcp = |client: &&ashlar_nbd::Client| matches!(client.peer, Some(Peer::Tcp(_)));
        let (tls, plain): (Vec<_>, Vec<_>) = nbd.into_iter().partition(|client| client.is_encrypted);
        let tcp = plain.iter().filter(is_tcp).count() as u64;
        let list = self.entries();
        let mut doors = list.api.clone();
        let entrances = self.entrances.lock().expect("no holder of this lock panics");
        for door in &mut doors {
            let entrance = entrances.iter().find(|entrance| entrance.address == door.address);
            door.client_count = entrance.map(|entrance| entrance.clients());
        }
        let counted = |door: &api::Door, count| api::Door {
            client_count: (door.state == api::DoorState::Serving).then_some(count),
            ..door.clone()
        };
        doors.push(counted(&list.nbd_socket, plain.len() as u64 - tcp));
        doors.push(counted(&list.nbd_tcp, tcp));
        doors.extend(list.nbd_tls.iter().map(|door| counted(door, tls.len() as u64)));
        let came_in = |door: &api::Door| iscsi.iter().filter(|entrance| **entrance == door.address).count();
        doors.extend(list.iscsi.iter().map(|door| counted(door, came_in(door) as u64)));
        if list.iscsi.is_empty() {
            doors.push(door("iscsi", "tcp", "", api::DoorState::Off));
        }
        doors.push(list.fuse.clone());
        Ok(doors)
    }

    /// Notes an address of the API.
    pub(crate) fn note_api(&self, name: &str, transport: &str, address: String) {
        let mut list = self.entries();
        list.forget_failed(name, transport);
        list.api.push(door(name, transport, address, api::DoorState::Serving));
    }

    /// Notes why an address of the API is not open. Said once: it is tried again and again.
    pub(crate) fn note_api_closed(&self, name: &str, address: &str, error: &Error, log: &Log) {
        let reason = error.to_string();
        let mut list = self.entries();
        let is_told = |door: &api::Door| door.address == address && door.reason.as_ref() == Some(&reason);
        if list.api.iter().any(is_told) {
            return;
        }
        list.forget_failed(name, "tcp");
        let state = api::DoorState::Failed;
        list.api.push(api::Door { reason: Some(reason.clone()), ..door(name, "tcp", address, state) });
        drop(list);
        log.warning(name, format!("{address} is not open: {reason}"));
    }

    /// Notes who counts the connections there.
    pub(crate) fn note_entrance(&self, entrance: Arc<Entrance>) {
        self.entrances.lock().expect("no holder of this lock panics").push(entrance);
    }

    /// How many clients each door has, had to refuse, and cut off.
    pub(crate) async fn crowds(&self, array: &Array) -> Result<Vec<Crowd>> {
        let nbd = array.run(|_, shard| {
            Box::pin(async move {
                let door = &shard.servers.nbd_door;
                let (clients, refused) = (door.clients() as u64, door.clients_refused());
                Ok(Crowd { door: "nbd", clients, refused, cut: Some(door.clients_cut()) })
            })
        });
        let iscsi = array.run(|_, shard| {
            Box::pin(async move {
                let (clients, refused, cut) = shard.servers.exporter.crowd();
                Ok(Crowd { door: "iscsi", clients, refused, cut: Some(cut) })
            })
        });
        let mut crowds = vec![nbd.await?, iscsi.await?];
        for entrance in self.entrances.lock().expect("no holder of this lock panics").iter() {
            let (clients, refused) = (entrance.clients(), entrance.refused());
            match crowds.iter_mut().find(|crowd| crowd.door == entrance.name) {
                Some(crowd) => {
                    crowd.clients += clients;
                    crowd.refused += refused;
                }
                None => crowds.push(Crowd { door: entrance.name, clients, refused, cut: None }),
            }
        }
        Ok(crowds)
    }

    /// The clients that are connected to NBD.
    pub(crate) async fn nbd_clients(array: &Array) -> Result<Vec<ashlar_nbd::Client>> {
        array
            .run(|_, shard| {
                Box::pin(async move {
                    let servers = shard.servers.nbd.borrow();
                    let mut clients: Vec<_> = servers.iter().flat_map(ashlar_nbd::Server::clients).collect();
                    clients.sort_by_key(|client| client.number);
                    Ok(clients)
                })
            })
            .await
    }

    /// The initiators that are logged in over iSCSI.
    pub(crate) async fn iscsi_clients(array: &Array) -> Result<Vec<ashlar_iscsi::Client>> {
        array.run(|_, shard| Box::pin(async move { Ok(shard.servers.exporter.clients()) })).await
    }

    /// Cuts a client off; false when there is none of this number.
    pub(crate) async fn disconnect_client(array: &Array, number: u64) -> Result<bool> {
        array
            .run(move |_, shard| {
                Box::pin(async move {
                    let is_nbd = shard.servers.nbd.borrow().iter().any(|server| server.disconnect(number));
                    Ok(is_nbd || shard.servers.exporter.disconnect(number))
                })
            })
            .await
    }

    /// Opens NBD as the settings say. A door that does not open is reported; the others go on.
    pub(crate) async fn start_nbd(
        &self,
        array: &Array,
        settings: &Settings,
        group: Option<Group>,
        descriptors: Descriptors,
        closed: ClosedPools,
        log: &Log,
    ) {
        let clients_max = descriptors.nbd.min(settings.nbd_clients_max as usize);
        if clients_max < settings.nbd_clients_max as usize && settings.has_nbd() {
            let limit = descriptors.limit;
            log.warning(
                "nbd",
                format!(
                    "{clients_max} clients at most, because the limit of open files is {limit}: raise it"
                ),
            );
        }
        if settings.nbd_socket == Socket::On {
            let path = self.nbd_socket.display().to_string();
            let mut opened = listen(array, clients_max, closed.clone(), {
                let path = path.clone();
                move |runtime| runtime.listen_unix(&path)
            })
            .await;
            if opened.is_ok()
                && let Err(error) = sockets::protect(&self.nbd_socket, group)
            {
                // Its mode lets nobody but us connect until then, so what serves there harms nobody.
                opened = Err(error);
            }
            let entry =
                opened_door("nbd", "unix", path, opened, "remove what is in the way and start again", log);
            self.entries().nbd_socket = entry;
        }
        if let Address::At(address) = settings.nbd_tcp {
            let guests_max = if settings.nbd_socket == Socket::On {
                (clients_max * GUESTS_PER_FOUR).div_ceil(4)
            } else {
                clients_max
            };
            let opened = listen(array, guests_max, closed, move |runtime| runtime.listen_tcp(address)).await;
            let action =
                "NBD goes on with its socket; free the port, or set `nbd_tcp` to another or to \"off\"";
            let entry = opened_door("nbd", "tcp", address.to_string(), opened, action, log);
            self.entries().nbd_tcp = entry;
        }
    }

    /// Addresses off loopback at which hosts may reach this array.
    pub(crate) fn open_addresses(&self) -> impl Iterator<Item = &SocketAddr> {
        self.iscsi_listen.iter().filter(|address| !address.ip().is_loopback())
    }

    /// Where each iSCSI session came in.
    async fn iscsi_entrances(array: &Array) -> Result<Vec<String>> {
        array
            .run(|_, shard| {
                Box::pin(async move {
                    let clients = shard.servers.exporter.clients().into_iter();
                    Ok(clients.map(|client| client.entrance.to_string()).collect())
                })
            })
            .await
    }

    /// Opens the addresses of iSCSI that are not open. One that does not open is reported; the others go on.
    pub(crate) async fn open_iscsi(&self, array: &Array, closed: ClosedPools, log: &Log) {
        for (index, address) in self.iscsi_listen.iter().copied().enumerate() {
            let before = self.entries().iscsi[index].clone();
            if before.state == api::DoorState::Serving {
                continue;
            }
            let opened = open_entrance(array, address, closed.clone()).await;
            let entry = match opened {
                Ok(bound) => opened_door("iscsi", "tcp", address.to_string(), Ok(Some(bound)), "", log),
                // Said once: it is tried again each second.
                Err(error)
                    if before.reason.as_ref().is_some_and(|reason| reason.contains(&error.message)) =>
                {
                    before
                }
                Err(error) => {
                    let action = error.action.clone();
                    opened_door("iscsi", "tcp", address.to_string(), Err(error), &action, log)
                }
            };
            self.entries().iscsi[index] = entry;
        }
    }

    /// Mounts the directory of volumes when it is not mounted yet. Where its requests outlive this process
    /// it is given to the keeper, before anybody opens a file in it.
    pub(crate) async fn start_fuse(&self, array: &Array, keeping: &Keeping, log: &Log) -> Result<()> {
        let _turn = self.fuse_turn.lock().await;
        if self.entries().fuse.state == api::DoorState::Serving {
            return Ok(());
        }
        std::fs::create_dir_all(&self.volumes).map_err(|error| Error::file("make", &self.volumes, &error))?;
        let directory = self.volumes.display().to_string();
        let settings = self.fuse_settings();
        let is_kept = self.fuse_transport == FuseTransport::Classic;
        let mounted = array
            .run(move |runtime, shard| {
                Box::pin(async move {
                    let counters = shard.registry.clone();
                    let catalogue = Rc::new(Files(shard.clone()));
                    let server = FuseServer::mount(&runtime, &directory, catalogue, settings, counters);
                    let server = server.await.map_err(|error| from_fuse(&error))?;
                    shard.seat_fuse(server, is_kept)
                })
            })
            .await;
        match mounted {
            Ok(seated) => {
                self.note_serving(&seated, log);
                self.give_to_keeper(keeping, seated, log);
                Ok(())
            }
            Err(error) => {
                let mut list = self.entries();
                list.fuse.state = api::DoorState::Failed;
                list.fuse.reason = Some(error.to_string());
                Err(error)
            }
        }
    }

    fn fuse_settings(&self) -> ashlar_fuse::Settings {
        ashlar_fuse::Settings {
            transport: match self.fuse_transport {
                FuseTransport::Classic => ashlar_fuse::TransportChoice::Classic,
                FuseTransport::Uring => ashlar_fuse::TransportChoice::Uring,
            },
            // Decision 4: the engine answers no write before it is durable.
            is_write_durable: true,
            ..ashlar_fuse::Settings::default()
        }
    }

    fn note_serving(&self, seated: &Seated, log: &Log) {
        let line = &seated.line;
        let mut list = self.entries();
        list.fuse.state = api::DoorState::Serving;
        list.fuse.transport.clone_from(line);
        list.outlives = match (self.fuse_transport, seated.can_resend) {
            (FuseTransport::Uring, _) => api::Outlives::Nothing,
            (FuseTransport::Classic, true) => api::Outlives::Crash,
            (FuseTransport::Classic, false) => api::Outlives::Stop,
        };
        list.fuse.reason = None;
        log.info("fuse", format!("serving {}: {line}", self.volumes.display()));
    }

    fn give_to_keeper(&self, keeping: &Keeping, seated: Seated, log: &Log) {
        let Some(descriptors) = seated.descriptors else { return };
        if !seated.can_resend {
            let what = "this kernel is older than 6.9: what is attached outlives a restart of the array, not a crash";
            log.warning("attach", what);
        }
        // It starts a process.
        if let Err(error) = tokio::task::block_in_place(|| keeping.keep(&self.volumes, descriptors)) {
            log.warning("keeper", error.to_string());
        }
    }

    /// Serves the directory of volumes that the last array left, once every volume is there whose file is
    /// open: until then its requests wait. `Err` has what was left, and the names that are missing.
    pub(crate) async fn take_over_fuse(
        &self,
        array: &Array,
        left: Left,
        log: &Log,
    ) -> Result<std::result::Result<(), (Left, Vec<String>)>> {
        let _turn = self.fuse_turn.lock().await;
        let (directory, settings) = (self.volumes.display().to_string(), self.fuse_settings());
        let taken = array
            .run(move |runtime, shard| {
                Box::pin(async move {
                    let catalogue = Rc::new(Files(shard.clone()));
                    let counters = shard.registry.clone();
                    let taken =
                        FuseServer::take_over(&runtime, &directory, left, catalogue, settings, counters);
                    match taken.map_err(|error| from_fuse(&error))? {
                        Ok(server) => shard.seat_fuse(server, false).map(Ok),
                        Err(waiting) => Ok(Err(waiting)),
                    }
                })
            })
            .await?;
        Ok(taken.map(|seated| self.note_serving(&seated, log)))
    }

    /// What attached volumes outlive.
    pub(crate) fn outlives(&self) -> api::Outlives {
        self.entries().outlives
    }

    /// Who has what open.
    pub(crate) async fn users(&self, array: &Array) -> Result<DoorUsers> {
        array
            .run(|_, shard| {
                Box::pin(async move {
                    let (nbd, fuse) = (shard.servers.nbd.borrow(), shard.servers.fuse.borrow());
                    let has_export = |client: &ashlar_nbd::Client| client.export.is_some();
                    let files = fuse.iter().flat_map(|server| server.open_names());
                    Ok(DoorUsers {
                        exports: shard.servers.exporter.uses(),
                        clients: nbd
                            .iter()
                            .flat_map(ashlar_nbd::Server::clients)
                            .filter(has_export)
                            .collect(),
                        files: files.map(|(name, is_writable)| (name.to_string(), is_writable)).collect(),
                    })
                })
            })
            .await
    }

    /// Cuts off the NBD clients of these exports; returns when what they had in flight has ended.
    pub(crate) async fn disconnect(
        &self,
        array: &Array,
        exports: BTreeSet<String>,
    ) -> Result<Vec<ashlar_nbd::Client>> {
        array
            .run(|_, shard| {
                Box::pin(async move {
                    let servers = shard.servers.nbd.borrow().clone();
                    let mut cut = Vec::new();
                    for server in &servers {
                        for export in &exports {
                            cut.extend(server.disconnect_export(export).await);
                        }
                    }
                    Ok(cut)
                })
            })
            .await
    }

    /// Lets who comes from now on only read a volume, or write it again.
    pub(crate) async fn shield(&self, array: &Array, name: &str, is_shielded: bool) -> Result<()> {
        let name = name.to_string();
        array
            .run(move |_, shard| {
                Box::pin(async move {
                    let mut shielded = shard.servers.shielded.borrow_mut();
                    if is_shielded {
                        shielded.insert(name)
                    } else {
                        shielded.remove(&name)
                    };
                    Ok(())
                })
            })
            .await
    }

    /// Writes what the servers of NBD and iSCSI have to tell into the log.
    pub(crate) async fn tell_notices(array: &Array, log: &Log) -> Result<()> {
        let notices = array.run(|_, shard| {
            Box::pin(async move {
                let servers = &shard.servers;
                Ok((servers.nbd_door.take_notices(), servers.exporter.take_notices()))
            })
        });
        let (nbd, iscsi) = notices.await?;
        nbd.into_iter().for_each(|notice| log.warning("nbd", notice));
        iscsi.into_iter().for_each(|notice| log.warning("iscsi", notice));
        Ok(())
    }

    /// Closes every door. What is attached stays where it is left to the keeper; else it is detached
    /// already, and who still holds a file gets I/O errors.
    pub(crate) async fn stop(&self, array: &Array, is_left: bool, log: &Log) -> bool {
        if !is_left {
            self.tell_copies(log).await;
        }
        let stopped = array
            .run(move |_, shard| Box::pin(async move { Ok(stop_on_shard(&shard, is_left).await) }))
            .await;
        match stopped {
            Ok(Ok(())) => true,
            Ok(Err(error)) | Err(error) => {
                log.error("fuse", error.to_string());
                false
            }
        }
    }
}

impl Doors {
    /// Says who has a copy of the directory of volumes in mounts of its own: it is cut off.
    async fn tell_copies(&self, log: &Log) {
        let volumes = self.volumes.clone();
        let found = tokio::task::spawn_blocking(move || attach::mounted_elsewhere(&volumes)).await;
        let Ok(Ok(processes)) = found else { return };
        for process in processes {
            let directory = self.volumes.display();
            let what = "it is cut off, and what it had open there gives errors";
            log.warning("fuse", format!("{process} has {directory} in a mount namespace of its own: {what}"));
        }
    }
}

async fn stop_on_shard(shard: &Shard, is_left: bool) -> Result<()> {
    let nbd = shard.servers.nbd.take();
    for server in nbd {
        server.shutdown().await;
    }
    shard.servers.exporter.stop().await;
    let Some(fuse) = shard.servers.fuse.take() else { return Ok(()) };
    if is_left {
        fuse.leave().await;
        return Ok(());
    }
    match fuse.unmount().await {
        Ok(()) => Ok(()),
        Err(busy) => fuse.abort().await.map_err(|_| from_fuse(&busy)),
    }
}

/// An address that is to be opened.
fn iscsi_idle(address: &SocketAddr) -> api::Door {
    door("iscsi", "tcp", address.to_string(), api::DoorState::Idle)
}

/// Lets hosts come in at an address. One off loopback is not opened while a host has nothing to prove.
async fn open_entrance(array: &Array, address: SocketAddr, closed: ClosedPools) -> Result<SocketAddr> {
    array
        .run(move |runtime, shard| {
            Box::pin(async move {
                let without_secret = shard.servers.exporter.host_without_secret();
                if let Some(host) = without_secret.filter(|_| !address.ip().is_loopback()) {
                    return Err(Error::new(
                        api::ErrorKind::Invalid,
                        format!("host `{host}` has no CHAP secret, and the address is off loopback"),
                        format!(
                            "give it one: `ashlar host set {host} --chap-user USER --chap-secret-file FILE`"
                        ),
                    ));
                }
                let listen = |runtime: &Runtime| runtime.listen_tcp(address);
                let opened = async {
                    let listener = open_patiently(&runtime, listen).await?;
                    let bound = match listener.local_addr() {
                        ashlar_runtime::Address::Tcp(bound) => bound,
                        ashlar_runtime::Address::Unix(_) => address,
                    };
                    shard.let_hosts_in(&runtime, listener, bound, closed).map(|()| bound)
                };
                let action =
                    "free the address, or set `iscsi_listen` to another: volumes and other doors go on";
                opened.await.map_err(|error| {
                    let what = format!("hosts cannot come in at {address}: {error}");
                    Error::new(api::ErrorKind::Medium, what, action)
                })
            })
        })
        .await
}

fn opened_door(
    name: &str,
    transport: &str,
    address: String,
    opened: Result<Option<SocketAddr>>,
    action: &str,
    log: &Log,
) -> api::Door {
    match opened {
        Ok(bound) => {
            let address = bound.map_or(address, |bound| bound.to_string());
            log.info(name, format!("serving {address}"));
            door(name, transport, address, api::DoorState::Serving)
        }
        Err(error) => {
            log.warning(name, format!("{address}: {}: {action}", error.message));
            let mut entry = door(name, transport, address, api::DoorState::Failed);
            entry.reason = Some(format!("{}: {action}", error.message));
            entry
        }
    }
}

/// Opens a listener on the data shard and serves NBD on it; returns the TCP address really bound.
async fn listen(
    array: &Array,
    clients_max: usize,
    closed: ClosedPools,
    open: impl Fn(&Runtime) -> std::io::Result<Listener> + Send + 'static,
) -> Result<Option<SocketAddr>> {
    array
        .run(move |runtime, shard| {
            Box::pin(async move {
                let listener = open_patiently(&runtime, open).await.map_err(|error| not_bound(&error))?;
                let bound = match listener.local_addr() {
                    ashlar_runtime::Address::Tcp(address) => Some(address),
                    ashlar_runtime::Address::Unix(_) => None,
                };
                let settings = ashlar_nbd::Settings { clients_max, ..ashlar_nbd::Settings::default() };
                let counters = shard.registry.clone();
                let door = &shard.servers.nbd_door;
                let exports = Rc::new(Exports { shard: shard.clone(), closed });
                let server = ashlar_nbd::serve(&runtime, listener, exports, settings, counters, door);
                shard.servers.nbd.borrow_mut().push(server);
                Ok(bound)
            })
        })
        .await
}

fn not_bound(error: &std::io::Error) -> Error {
    Error::new(api::ErrorKind::Medium, error.to_string(), "free the address")
}

/// Opens a listener; an address in use gets the time a killed predecessor needs to let go of it.
async fn open_patiently(
    runtime: &Runtime,
    open: impl Fn(&Runtime) -> std::io::Result<Listener>,
) -> std::io::Result<Listener> {
    let end = runtime.now() + LISTEN_LINGER;
    loop {
        match open(runtime) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && runtime.now() < end => {
                runtime.sleep(LINGER_STEP).await;
            }
            result => return result,
        }
    }
}

/// Shorter than for drives: pools open first, and an address that others hold should not delay the start.
const LISTEN_LINGER: Duration = Duration::from_millis(250);

fn from_fuse(error: &ashlar_fuse::Error) -> Error {
    let action = match error.kind {
        ashlar_fuse::ErrorKind::Unsupported => {
            "run the array as root on a kernel with FUSE; see `ashlar doctor`"
        }
        ashlar_fuse::ErrorKind::MountPoint => "free the directory, then repeat",
        ashlar_fuse::ErrorKind::Protocol => "report it with the kernel's version",
        ashlar_fuse::ErrorKind::System => "look at the kernel's log",
    };
    Error::new(api::ErrorKind::Medium, format!("volumes as files: {error}"), action)
}
