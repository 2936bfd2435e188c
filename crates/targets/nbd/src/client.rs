//! What a person is told of a client that is connected.

use std::time::Duration;

use ashlar_runtime::Peer;

/// A client that is connected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Client {
    /// No other client of the door ever has this number.
    pub number: u64,
    /// Who it is; `None` when it has left already.
    pub peer: Option<Peer>,
    /// Somebody else accepted its connection, and keeps it private on its way.
    pub is_encrypted: bool,
    /// What it uses, once it has chosen.
    pub export: Option<String>,
    /// It can only read.
    pub is_read_only: bool,
    /// Since when it is connected.
    pub connected: Duration,
    /// Requests that it waits for.
    pub in_flight: usize,
}
