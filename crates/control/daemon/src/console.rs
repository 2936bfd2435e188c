//! The console's own address and who is let in there.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;

use crate::sessions::Sessions;

/// Where the console is served.
#[derive(Default)]
pub(crate) struct Console {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) door: Mutex<Option<ConsoleDoor>>,
}

/// An address that is open.
pub(crate) struct ConsoleDoor {
    pub(crate) address: SocketAddr,
    /// Its own listener; none where the API's serves the console, too.
    pub(crate) listener: Option<(watch::Sender<bool>, JoinHandle<()>)>,
}
