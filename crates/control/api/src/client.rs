//! Clients of doors, and whether the array answers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A client that is connected to a door.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DoorClient {
    /// What `client disconnect` takes. No other client has it until the array starts anew.
    pub id: u64,
    /// `nbd` or `iscsi`.
    pub door: String,
    /// `unix` or `tcp`.
    pub transport: String,
    /// Where a TCP client connects from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The process that connected to the socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_id: Option<u32>,
    /// The name of its program, while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The user it ran as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<u32>,
    /// The volume, or `VOLUME@SNAPSHOT`, that it uses; none until it has chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// The name of an iSCSI initiator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initiator: Option<String>,
    /// The iSCSI target that it uses: a pool, of which it may have several volumes open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    pub is_read_only: bool,
    /// Since when it is connected.
    pub connected_seconds: u64,
    /// Requests that it waits for.
    pub in_flight_count: u64,
}

/// The array answers, with its data path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// How long the thread that serves hosts took to answer.
    pub answer_micros: u64,
}
