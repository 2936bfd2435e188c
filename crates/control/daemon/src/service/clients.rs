//! Who is connected to the doors, and cutting one off.

use ashlar_api as api;
use ashlar_runtime::Peer;

use super::Service;
use crate::attach::Process;
use crate::doors::Doors;
use crate::error::{Error, Result};
use crate::watchdog;

impl Service {
    /// The clients that are connected to NBD.
    pub(crate) async fn clients(&self) -> Result<Vec<api::DoorClient>> {
        Ok(Doors::nbd_clients(&self.array).await?.into_iter().map(view).collect())
    }

    /// Cuts a client off.
    pub(crate) async fn client_disconnect(&self, id: &str) -> Result<()> {
        let number = id.parse::<u64>().map_err(|_| {
            let what = format!("`{}` is not the id of a client", id.escape_debug());
            Error::invalid(what, "`ashlar client list` shows those there are")
        })?;
        let client = self.clients().await?.into_iter().find(|client| client.id == number);
        if !Doors::nbd_disconnect(&self.array, number).await? {
            return Err(Error::not_found("client", id));
        }
        let of =
            client.and_then(|client| client.volume).map_or(String::new(), |volume| format!(" of {volume}"));
        self.log.info("nbd", format!("client {number}{of} was cut off, as a person asked"));
        Ok(())
    }

    /// Answers when the data shard does.
    pub(crate) async fn health(&self) -> Result<api::Health> {
        let start = std::time::Instant::now();
        watchdog::answer(&self.array).await?;
        Ok(api::Health { answer_micros: start.elapsed().as_micros() as u64 })
    }
}

fn view(client: ashlar_nbd::Client) -> api::DoorClient {
    let (mut address, mut process_id, mut user_id) = (None, None, None);
    match client.peer {
        Some(Peer::Tcp(from)) => address = Some(from.to_string()),
        Some(Peer::Process { process_id: process, user_id: user }) => {
            // Of a process in a namespace that we do not see the kernel says 0.
            process_id = Some(process).filter(|process| *process > 0);
            user_id = Some(user);
        }
        None => {}
    }
    api::DoorClient {
        id: client.number,
        door: "nbd".to_string(),
        transport: if address.is_some() { "tcp" } else { "unix" }.to_string(),
        address,
        process_id,
        program: process_id.map(|id| Process::of(id).name).filter(|name| !name.is_empty()),
        user_id,
        volume: client.export,
        is_read_only: client.is_read_only,
        connected_seconds: client.connected.as_secs(),
        in_flight_count: client.in_flight as u64,
    }
}
