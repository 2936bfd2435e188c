//! Who is connected to the doors, and cutting one off.

use ashlar_api as api;
use ashlar_runtime::Peer;

use super::Service;
use crate::attach::Process;
use crate::doors::Doors;
use crate::error::{Error, Result};
use crate::watchdog;

impl Service {
    /// The clients that are connected to NBD, and the initiators that are logged in over iSCSI.
    pub(crate) async fn clients(&self) -> Result<Vec<api::DoorClient>> {
        let nbd = Doors::nbd_clients(&self.array).await?.into_iter().map(nbd_client);
        let iscsi = Doors::iscsi_clients(&self.array).await?.into_iter().map(iscsi_client);
        Ok(nbd.chain(iscsi).collect())
    }

    /// Cuts a client off.
    pub(crate) async fn client_disconnect(&self, id: &str) -> Result<()> {
        let number = id.parse::<u64>().map_err(|_| {
            let what = format!("`{}` is not the id of a client", id.escape_debug());
            Error::invalid(what, "`ashlar client list` shows those there are")
        })?;
        let client = self.clients().await?.into_iter().find(|client| client.id == number);
        if !Doors::disconnect_client(&self.array, number).await? {
            return Err(Error::not_found("client", id));
        }
        let (door, used) = client
            .map_or(("nbd".to_string(), None), |client| (client.door, client.volume.or(client.initiator)));
        let of = used.map_or(String::new(), |used| format!(" of {used}"));
        self.log.info(door, format!("client {number}{of} was cut off, as a person asked"));
        Ok(())
    }

    /// Answers when the data shard does.
    pub(crate) async fn health(&self) -> Result<api::Health> {
        let start = std::time::Instant::now();
        watchdog::answer(&self.array).await?;
        Ok(api::Health { answer_micros: start.elapsed().as_micros() as u64 })
    }
}

/// Where a client comes from: an address, or a process and its user.
fn origin(peer: Option<Peer>) -> (Option<String>, Option<u32>, Option<u32>) {
    match peer {
        Some(Peer::Tcp(from)) => (Some(from.to_string()), None, None),
        // Of a process in a namespace that we do not see the kernel says 0.
        Some(Peer::Process { process_id, user_id }) => {
            (None, Some(process_id).filter(|process| *process > 0), Some(user_id))
        }
        None => (None, None, None),
    }
}

fn iscsi_client(client: ashlar_iscsi::Client) -> api::DoorClient {
    api::DoorClient {
        id: client.number,
        door: "iscsi".to_string(),
        transport: "tcp".to_string(),
        address: origin(client.peer).0,
        process_id: None,
        program: None,
        user_id: None,
        volume: None,
        initiator: Some(client.initiator),
        target: Some(client.target),
        is_read_only: false,
        connected_seconds: client.connected.as_secs(),
        in_flight_count: client.in_flight as u64,
    }
}

fn nbd_client(client: ashlar_nbd::Client) -> api::DoorClient {
    let (address, process_id, user_id) = origin(client.peer);
    api::DoorClient {
        id: client.number,
        door: "nbd".to_string(),
        transport: match address {
            Some(_) if client.is_encrypted => "tls",
            Some(_) => "tcp",
            None => "unix",
        }
        .to_string(),
        address,
        process_id,
        program: process_id.map(|id| Process::of(id).name).filter(|name| !name.is_empty()),
        user_id,
        volume: client.export,
        initiator: None,
        target: None,
        is_read_only: client.is_read_only,
        connected_seconds: client.connected.as_secs(),
        in_flight_count: client.in_flight as u64,
    }
}
