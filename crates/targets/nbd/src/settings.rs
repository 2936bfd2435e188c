//! What an operator may change about the NBD door. None needs a restart of the array; each takes effect
//! when the door is opened again.

use std::time::Duration;

use crate::session::Limits;

/// Settings of one NBD server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Requests in flight on one connection, 1 to 65536. Default 128: twice the depth benchmarks use;
    /// beyond it more depth only waits in another queue.
    pub requests_in_flight_max: usize,
    /// Payload bytes in flight on one connection; a single larger request passes alone. Default 64 MiB:
    /// two requests of the largest size.
    pub bytes_in_flight_max: u64,
    /// Connections at the same time; more are closed at once. Default 256, arbitrary.
    pub connections_max: usize,
    /// How long a client may haggle before it is cut off. Default 30 s, arbitrary: clients take
    /// milliseconds.
    pub handshake_max: Duration,
    /// How long a shutdown waits for clients to take their replies. Default 10 s, arbitrary.
    pub drain_max: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            requests_in_flight_max: 128,
            bytes_in_flight_max: 64 << 20,
            connections_max: 256,
            handshake_max: Duration::from_secs(30),
            drain_max: Duration::from_secs(10),
        }
    }
}

impl Settings {
    pub(crate) fn limits(&self) -> Limits {
        Limits { requests_max: self.requests_in_flight_max.max(1), bytes_max: self.bytes_in_flight_max }
    }
}
