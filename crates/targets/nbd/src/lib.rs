//! The NBD target: serves volumes to NBD clients over UNIX sockets and TCP.
//!
//! ```text
//!   socket ─► server ─► session ─► negotiation        (option haggling)
//!               │          └─────► reply              (outcomes to bytes)
//!               │          both use wire              (numbers and layouts)
//!               ▼
//!          BlockDevice
//! ```
//!
//! What a client gets: fixed newstyle negotiation, simple, structured and extended replies, all
//! commands of the protocol but RESIZE, `base:allocation`, several connections to one export. It
//! deliberately does not do TLS (bind it to loopback or a UNIX socket), old-style negotiation, or any
//! caching of its own.

mod fuzz;
mod negotiation;
mod reply;
pub mod session;
pub mod wire;

pub use fuzz::fuzz_session;
pub use reply::{Outcome, ReadReply};

#[cfg(test)]
mod tests;
