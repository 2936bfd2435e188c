//! What an operator may change about the iSCSI door. None needs a restart of the array; each takes effect
//! when the door is opened again.

use std::time::Duration;

use crate::parameters::Offer;
use crate::session::Limits;

/// Settings of one iSCSI server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// What sessions are offered.
    pub offer: Offer,
    /// How much one session may have under way.
    pub limits: Limits,
    /// Payload bytes of all commands under way. A command for which none are left ends with TASK SET FULL, so
    /// the host sends it again later. Default 256 MiB: sixteen of the largest.
    pub payload_bytes_max: usize,
    /// Sessions at the same time; more are closed. Default 256, arbitrary.
    pub sessions_max: usize,
    /// Sessions of one initiator, so that it leaves some to others; a login beyond is refused. Default 64,
    /// arbitrary: hosts have some for each path and processor.
    pub sessions_of_one_max: usize,
    /// How long a login may take. Default 30 s, arbitrary: initiators take milliseconds.
    pub login_max: Duration,
    /// Connections that have not logged in; where one more comes, the one that is there longest is cut off,
    /// so that nobody keeps hosts out by logins that never end. Default 32, arbitrary: a host takes
    /// milliseconds.
    pub logins_max: usize,
    /// How long data that an initiator announced, or answers that it does not take, may hold memory, and a
    /// thirtieth more for each MiB; behind that it is cut off. Default 30 s, arbitrary: about a MiB a second.
    pub stall_max: Duration,
    /// After so long without a word an initiator is asked for one, and after twice that it is cut off.
    /// Default 30 s, arbitrary.
    pub silence_max: Duration,
    /// How long a shutdown waits for hosts to log out. Default 10 s, arbitrary.
    pub drain_max: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            offer: Offer::default(),
            limits: Limits::default(),
            payload_bytes_max: 256 << 20,
            sessions_max: 256,
            sessions_of_one_max: 64,
            login_max: Duration::from_secs(30),
            logins_max: 32,
            stall_max: Duration::from_secs(30),
            silence_max: Duration::from_secs(30),
            drain_max: Duration::from_secs(10),
        }
    }
}
