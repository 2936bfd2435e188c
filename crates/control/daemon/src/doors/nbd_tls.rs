//! The door of NBD over TLS: its addresses, and the server that its clients are given to.
//!
//! What does not open is tried again: a certificate is mended, an address comes later.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ashlar_api as api;
use ashlar_runtime::Peer;

use super::{Doors, Exports, LISTEN_LINGER, door, not_bound, opened_door};
use crate::array::{Array, LINGER_STEP};
use crate::error::Result;
use crate::log::Log;
use crate::nbd_tls::{self, Certificates, Relay};
use crate::service::{ClosedPools, Service};
use crate::settings::Settings;

/// How often what is not open is tried. Arbitrary: as the addresses of iSCSI and of the API are.
const RETRY: Duration = Duration::from_secs(1);
const FREE_IT: &str = "NBD goes on without it and tries again; free the address, or change `nbd_tls_listen`";

/// The addresses on their way to be open.
struct Opening {
    service: Arc<Service>,
    settings: Settings,
    clients_max: usize,
    closed: ClosedPools,
    relay: Option<Arc<Relay>>,
    /// Those that are not open, with their places in the list of doors.
    waiting: Vec<(usize, SocketAddr)>,
}

impl Doors {
    /// Opens the addresses of NBD over TLS as the settings say, and goes on trying those that do not open.
    pub(crate) async fn open_nbd_tls(
        &self,
        service: &Arc<Service>,
        settings: &Settings,
        clients_max: usize,
        closed: ClosedPools,
    ) {
        if settings.nbd_tls_listen.is_empty() {
            return;
        }
        let idle = |address: &SocketAddr| door("nbd", "tls", address.to_string(), api::DoorState::Idle);
        self.entries().nbd_tls = settings.nbd_tls_listen.iter().map(idle).collect();
        let mut opening = Opening {
            service: service.clone(),
            settings: settings.clone(),
            clients_max,
            closed,
            relay: None,
            waiting: settings.nbd_tls_listen.iter().copied().enumerate().collect(),
        };
        opening.attempt().await;
        tokio::spawn(async move {
            while !opening.waiting.is_empty() {
                tokio::time::sleep(RETRY).await;
                if opening.service.is_stopping() {
                    return;
                }
                opening.attempt().await;
            }
        });
    }

    /// Notes how an address was opened, or once why it was not.
    fn note_nbd_tls(
        &self,
        (index, address): (usize, SocketAddr),
        bound: Result<SocketAddr>,
        action: &str,
        log: &Log,
    ) {
        let reason = bound.as_ref().err().map(|error| format!("{}: {action}", error.message));
        if reason.is_some() && self.entries().nbd_tls[index].reason == reason {
            return;
        }
        let entry = opened_door("nbd", "tls", address.to_string(), bound.map(Some), action, log);
        self.entries().nbd_tls[index] = entry;
    }

    /// Hands a connection that TLS was taken off to NBD; false when it takes no more.
    pub(crate) async fn take_nbd(&self, array: &Array, socket: UnixStream, from: SocketAddr) -> bool {
        let taken = array.run(move |runtime, shard| {
            Box::pin(async move {
                let stream = runtime.adopt(socket, Peer::Tcp(from)).map_err(|error| not_bound(&error))?;
                if let Some(server) = &*shard.servers.nbd_tls.borrow() {
                    server.take(stream);
                }
                Ok(())
            })
        });
        taken.await.is_ok()
    }
}

impl Opening {
    /// Opens what can be opened now.
    async fn attempt(&mut self) {
        let (doors, log) = (&self.service.doors, &self.service.log);
        let relay = match &self.relay {
            Some(relay) => relay.clone(),
            None => match self.prepare().await {
                Ok(certificates) => {
                    Arc::new(Relay::new(self.service.clone(), certificates, self.clients_max))
                }
                Err(error) => {
                    for place in &self.waiting {
                        doors.note_nbd_tls(*place, Err(error.clone()), &error.action, log);
                    }
                    return;
                }
            },
        };
        let mut still = Vec::new();
        for place in std::mem::take(&mut self.waiting) {
            let bound = match bind_patiently(place.1).await {
                Ok((listener, bound)) => nbd_tls::start(listener, relay.clone()).map(|()| bound),
                Err(error) => Err(error),
            };
            if bound.is_err() {
                still.push(place);
            }
            doors.note_nbd_tls(place, bound.map_err(|error| not_bound(&error)), FREE_IT, log);
        }
        (self.relay, self.waiting) = (Some(relay), still);
    }

    /// Reads the certificates, and makes the server that clients over TLS are given to.
    async fn prepare(&self) -> Result<Certificates> {
        let certificates = Certificates::load(&self.settings, self.service.state())?;
        let (clients_max, closed) = (self.clients_max, self.closed.clone());
        self.service
            .array
            .run(move |runtime, shard| {
                Box::pin(async move {
                    let settings = ashlar_nbd::Settings { clients_max, ..ashlar_nbd::Settings::default() };
                    let counters = shard.registry.clone();
                    let door = &shard.servers.nbd_door;
                    let exports = Rc::new(Exports { shard: shard.clone(), closed });
                    let server = ashlar_nbd::serve_given(&runtime, exports, settings, counters, door);
                    shard.servers.nbd.borrow_mut().push(server.clone());
                    *shard.servers.nbd_tls.borrow_mut() = Some(server);
                    Ok(())
                })
            })
            .await?;
        Ok(certificates)
    }
}

/// Opens a listener that the control side keeps; an address in use gets the time a killed predecessor needs.
async fn bind_patiently(address: SocketAddr) -> std::io::Result<(TcpListener, SocketAddr)> {
    let end = Instant::now() + LISTEN_LINGER;
    let listener = loop {
        match TcpListener::bind(address) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && Instant::now() < end => {
                tokio::time::sleep(LINGER_STEP).await;
            }
            result => break result?,
        }
    };
    listener.set_nonblocking(true)?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}
