//! `ashlar client`: who is connected to NBD and iSCSI, and cutting one off.

use ashlar_api::DoorClient;
use clap::Subcommand;

use crate::Context;
use crate::failure::Result;
use crate::output::table;

/// Show the clients that are connected to NBD and iSCSI, and cut one off.
///
/// Volumes that are attached have no client: `ashlar volume list` shows their devices.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar client list")]
pub struct Client {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List the clients, the longest connected first.
    #[command(visible_alias = "ls", after_help = "Example:\n  ashlar client list --json")]
    List,
    /// Cut a client off. Its requests under way run to their end; it may come back.
    #[command(after_help = "Example:\n  ashlar client disconnect 17")]
    Disconnect {
        /// Number of the client, as the list has it.
        id: u64,
    },
}

impl Client {
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        match self.verb {
            Verb::List => Ok(context.output.print(&client.clients()?, |clients| text(clients))?),
            Verb::Disconnect { id } => {
                client.client_disconnect(id)?;
                Ok(context.output.done("disconnected client", &id.to_string())?)
            }
        }
    }
}

fn text(clients: &[DoorClient]) -> String {
    let rows: Vec<Vec<String>> = clients
        .iter()
        .map(|client| {
            vec![
                client.id.to_string(),
                client.door.clone(),
                used(client),
                if client.is_read_only { "read" } else { "write" }.to_string(),
                from(client),
                format!("{} s", client.connected_seconds),
                client.in_flight_count.to_string(),
            ]
        })
        .collect();
    table(&["ID", "DOOR", "VOLUME OR TARGET", "ACCESS", "FROM", "SINCE", "IN FLIGHT"], &[0, 5, 6], &rows)
}

fn used(client: &DoorClient) -> String {
    let used = client.volume.as_ref().or(client.target.as_ref());
    used.cloned().unwrap_or_else(|| "-".to_string())
}

fn from(client: &DoorClient) -> String {
    if let Some(address) = &client.address {
        let initiator = client.initiator.as_ref();
        return initiator.map_or(address.clone(), |initiator| format!("{initiator} at {address}"));
    }
    let program = client.program.as_deref().unwrap_or("a program");
    let process = client.process_id.map_or(String::new(), |process| format!(" {process}"));
    let user = client.user_id.map_or(String::new(), |user| format!(" of user {user}"));
    format!("{program}{process}{user}")
}
