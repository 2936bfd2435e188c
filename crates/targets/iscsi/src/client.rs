//! An initiator that is logged in, as an operator sees it.

use std::time::Duration;

use ashlar_runtime::{Address, Peer};

/// An initiator with a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Client {
    /// The number that the portal gave it.
    pub number: u64,
    /// Where it comes from, if the system tells.
    pub peer: Option<Peer>,
    /// Where it came in.
    pub entrance: Address,
    /// Its name.
    pub initiator: String,
    /// The name that CHAP proved, if it had to.
    pub proven_name: Option<String>,
    /// The target it uses.
    pub target: String,
    /// For how long.
    pub connected: Duration,
    /// Commands without an answer.
    pub in_flight: usize,
}
