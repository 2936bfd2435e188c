//! How a browser is let in.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What opens the console once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ConsoleTicket {
    /// The whole address to open, with the ticket.
    #[schema(example = "http://127.0.0.1:9410/console/#ticket=5f0c")]
    pub address: String,
    /// It opens the console once, within so long.
    pub expires_seconds: u64,
}

/// A ticket is to become a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConsoleSessionCreate {
    pub ticket: String,
}

/// A session: who shows its token may what the person may who asked for the ticket.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ConsoleSession {
    /// For `Authorization: Bearer`.
    pub token: String,
    pub expires_seconds: u64,
}
