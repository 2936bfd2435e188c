//! The typed client of the API: one blocking call an operation, over the UNIX socket, TCP or TLS.
//!
//! Used by the command line. A [`Client`] holds no connection: each call opens one, so a
//! client outlives restarts of the array. A [`Content`] holds one: it reads what a volume holds.

mod access;
mod call;
mod content;
mod difference;
mod error;
mod figures;
mod hosts;
mod lists;
mod live;
mod marks;
mod objectives;
mod settings;
mod tls;
mod transport;

#[cfg(test)]
mod tests;

pub use call::Client;
pub use content::Content;
pub use error::{Error, Result};
pub use lists::{Next, Page};
pub use live::{Live, Message};
pub use tls::Remote;
pub use transport::Address;

pub use ashlar_api as api;
