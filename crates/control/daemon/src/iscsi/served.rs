//! The data shard's side of the door: units over volumes, and the server that carries them.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use ashlar_block as block;
use ashlar_block::{Catalogue, LocalFuture};
use ashlar_iscsi::{Established, Portal, Randomness, Server, Settings};
use ashlar_runtime::{Listener, Runtime};
use ashlar_scsi::{Limits, ReservationStore, Saved, Target, Unit, UnitAddress, UnitSettings};

use super::entrance::Entrance;
use super::records::NotedExport;
use crate::array::Shard;
use crate::service::ClosedPools;

/// How long a stop waits for hosts to log out: they come back to the next array by themselves. Arbitrary.
const DRAIN_MAX: Duration = Duration::from_secs(3);

/// The targets, for sessions.
struct Served(Rc<Shard>);

impl Portal for Served {
    fn target(&self, established: &Established) -> Option<Rc<Target>> {
        let target = established.target.as_deref()?;
        let is_proven = established.proven_name.is_some();
        self.0.servers.exporter.view_of(target, &established.initiator, is_proven)
    }

    fn volume(&self, target: &str, address: UnitAddress) -> Option<String> {
        self.0.servers.exporter.volume_at(target, address)
    }

    fn number(&self) -> u64 {
        self.0.servers.nbd_door.number()
    }
}

/// Reservations of one volume, in the notebook of its pool.
struct Notes {
    shard: Rc<Shard>,
    pool: String,
    volume: u64,
}

impl ReservationStore for Notes {
    fn save<'a>(&'a self, saved: &'a Saved) -> LocalFuture<'a, block::Result<()>> {
        Box::pin(async move {
            let kept = self.shard.keep_reservations(&self.pool, self.volume, saved).await;
            kept.map_err(|error| block::Error::new(block::ErrorKind::Gone, error.message))
        })
    }
}

impl Shard {
    /// Serves over iSCSI what the notebooks of the open pools say now.
    pub(crate) fn refresh_exports(self: &Rc<Self>, runtime: &Runtime) {
        let unit = |noted: &NotedExport| self.unit_of(runtime, noted);
        self.servers.exporter.serve(self.noted_targets(), self.noted_hosts(), self.noted_exports(), unit);
    }

    fn unit_of(self: &Rc<Self>, runtime: &Runtime, noted: &NotedExport) -> Option<Unit> {
        let device = self.device(&noted.volume)?;
        let (pool, volume) = (noted.pool.clone(), noted.identity.image);
        let saved = self.kept_reservations(&pool, volume);
        let runtime = runtime.clone();
        let settings = UnitSettings {
            identity: noted.identity,
            block_bytes: noted.record.block_bytes,
            revision: env!("CARGO_PKG_VERSION").to_string(),
            limits: Limits::default(),
            store: Some(Rc::new(Notes { shard: self.clone(), pool, volume })),
            saved,
            allocate: Rc::new(move |length| runtime.buffer(length)),
        };
        Some(Unit::new(device, settings))
    }

    /// Lets hosts come in at a listener.
    pub(crate) fn let_hosts_in(
        self: &Rc<Self>,
        runtime: &Runtime,
        listener: Listener,
        address: SocketAddr,
        closed: ClosedPools,
    ) -> std::io::Result<()> {
        let exporter = &self.servers.exporter;
        let server = exporter.server.borrow().clone();
        let server = match server {
            Some(server) => server,
            None => {
                let server = Server::new(
                    runtime,
                    Rc::new(Served(self.clone())),
                    chance()?,
                    Settings { drain_max: DRAIN_MAX, ..Settings::default() },
                    self.registry.clone(),
                );
                exporter.server.replace(Some(server.clone()));
                server
            }
        };
        exporter.add_address(address);
        server.listen(listener, Rc::new(Entrance { shard: self.clone(), address, closed }));
        Ok(())
    }
}

/// Random bytes that nobody can foretell, for the challenges of CHAP.
fn chance() -> std::io::Result<Randomness> {
    let source = File::open("/dev/urandom")?;
    Ok(Rc::new(move |bytes: &mut [u8]| {
        (&source).read_exact(bytes).expect("the kernel's random bytes do not end");
    }))
}
