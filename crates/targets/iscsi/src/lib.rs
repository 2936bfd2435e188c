//! The iSCSI target: carries SCSI commands of hosts to the units of [`ashlar_scsi`] (RFC 7143).
//!
//! ```text
//!   bytes ─► session ─► login ─► chap                  (who is it, and what was agreed)
//!              │  ▲        └───► parameters ─► text    (keys and values)
//!              │  └── wire                             (PDUs, digests)
//!              ▼
//!           Event::Command ─► ashlar_scsi::Target ─► Session::answer ─► bytes
//! ```
//!
//! Everything here but `server` and `connection` is bytes in, bytes out: no socket, no clock, no random
//! numbers of its own.
//!
//! What an initiator gets: one connection for each session (MaxConnections=1), error recovery level 0, header
//! and data digests, immediate and unsolicited data, CHAP in both directions with MD5, SHA-1 or SHA-256,
//! discovery sessions. Deliberately not there: several connections in one session, recovery of single PDUs
//! (SNACK), markers, bidirectional commands, CDBs of more than 16 bytes, TLS and IPsec: it listens on
//! loopback unless told otherwise.

mod budget;
pub mod chap;
mod client;
mod connection;
mod fuzz;
pub mod login;
mod outbox;
mod parameters;
mod server;
pub mod session;
mod settings;
mod tasks;
pub mod text;
pub mod wire;

pub use client::Client;
pub use fuzz::{fuzz_login, fuzz_session, fuzz_text};
pub use login::{Admission, Authentication, Directory, Established, Random};
pub use parameters::{Offer, Parameters};
pub use server::{Portal, Randomness, Server};
pub use session::{Event, Limits, Session, Step};
pub use settings::Settings;

#[cfg(test)]
mod tests;
