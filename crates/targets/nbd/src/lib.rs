//! The NBD target: serves volumes to NBD clients over UNIX sockets and TCP.
//!
//! ```text
//!   server ─► connection ─► session ─► negotiation      (option haggling)
//!                │   └────► outbox └─► reply            (outcomes to bytes)
//!                ▼                     both use wire    (numbers and layouts)
//!           BlockDevice
//! ```
//!
//! Only `server` and `connection` are async and touch sockets; the rest is bytes in, bytes out.
//!
//! What a client gets: fixed newstyle negotiation, simple, structured and extended replies, all
//! commands of the protocol but RESIZE, `base:allocation`, several connections to one export. It
//! deliberately does not do TLS, old-style negotiation, or any caching of its own: bind it to loopback or a
//! UNIX socket, or hand it connections that somebody else takes TLS off ([`Server::take`]).

mod client;
mod connection;
mod door;
mod error;
mod fuzz;
mod negotiation;
mod outbox;
mod reply;
mod server;
pub mod session;
mod settings;
pub mod wire;

pub use client::Client;
pub use door::{Door, PAYLOAD_BYTES_MAX_DEFAULT};
pub use fuzz::fuzz_session;
pub use reply::{Outcome, ReadReply};
pub use server::{Server, serve, serve_given};
pub use settings::Settings;

#[cfg(test)]
mod tests;
