//! The door of NBD over TLS: its addresses, and the server that its clients are given to.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Instant;

use ashlar_runtime::Peer;

use super::{Doors, Exports, LISTEN_LINGER, not_bound, opened_door};
use crate::array::{Array, LINGER_STEP};
use crate::error::Result;
use crate::log::Log;
use crate::nbd_tls::Certificates;
use crate::service::{ClosedPools, Service};
use crate::settings::Settings;

impl Doors {
    /// Opens the addresses of NBD over TLS as the settings say. Returns those that opened, and with which
    /// certificates; none where none opened.
    pub(crate) async fn open_nbd_tls(
        &self,
        service: &Service,
        settings: &Settings,
        clients_max: usize,
        closed: ClosedPools,
    ) -> Option<(Vec<TcpListener>, Certificates)> {
        if settings.nbd_tls_listen.is_empty() {
            return None;
        }
        let certificates = match prepare(service, settings, clients_max, closed).await {
            Ok(certificates) => certificates,
            Err(error) => {
                for address in &settings.nbd_tls_listen {
                    self.note_nbd_tls(*address, Err(error.clone()), &error.action, &service.log);
                }
                return None;
            }
        };
        let mut listeners = Vec::new();
        for address in &settings.nbd_tls_listen {
            let bound = match bind_patiently(*address).await {
                Ok((listener, bound)) => {
                    listeners.push(listener);
                    Ok(bound)
                }
                Err(error) => Err(not_bound(&error)),
            };
            let action = "NBD goes on without it; free the address, or change `nbd_tls_listen`";
            self.note_nbd_tls(*address, bound, action, &service.log);
        }
        (!listeners.is_empty()).then_some((listeners, certificates))
    }

    fn note_nbd_tls(&self, address: SocketAddr, bound: Result<SocketAddr>, action: &str, log: &Log) {
        let entry = opened_door("nbd", "tls", address.to_string(), bound.map(Some), action, log);
        self.entries().nbd_tls.push(entry);
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

/// Reads the certificates, and makes the server that clients over TLS are given to.
async fn prepare(
    service: &Service,
    settings: &Settings,
    clients_max: usize,
    closed: ClosedPools,
) -> Result<Certificates> {
    let certificates = Certificates::load(settings, service.state())?;
    service
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
