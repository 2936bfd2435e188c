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
    /// Clients of the door at the same time; more are told so and let go. Default 256, arbitrary.
    pub clients_max: usize,
    /// How long a client may haggle before it is cut off. Default 30 s, arbitrary: clients take
    /// milliseconds.
    pub handshake_max: Duration,
    /// How long a client may stall in the middle of a payload, and a thirtieth more for each MiB of it; after
    /// that it is cut off, because it holds a share of what all connections have. So it is with replies that
    /// it does not take, but only while others wait for a share. A sixth of all that while others wait.
    /// Default 30 s, arbitrary: with the largest payload that is half a MiB a second.
    pub stall_max: Duration,
    /// How long a client that is refused may take to hear it. Default 2 s, arbitrary: clients take
    /// milliseconds, and each holds a descriptor.
    pub refusal_max: Duration,
    /// How long a shutdown waits for clients to take their replies. Default 10 s, arbitrary.
    pub drain_max: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            requests_in_flight_max: 128,
            bytes_in_flight_max: 64 << 20,
            clients_max: 256,
            handshake_max: Duration::from_secs(30),
            stall_max: Duration::from_secs(30),
            refusal_max: Duration::from_secs(2),
            drain_max: Duration::from_secs(10),
        }
    }
}

impl Settings {
    /// How long so many bytes may be on their way from or to a client.
    pub(crate) fn patience(&self, bytes: usize) -> Duration {
        let mebibytes = u32::try_from(bytes >> 20).unwrap_or(u32::MAX);
        self.stall_max + (self.stall_max / 30).saturating_mul(mebibytes)
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits { requests_max: self.requests_in_flight_max.max(1), bytes_max: self.bytes_in_flight_max }
    }
}
