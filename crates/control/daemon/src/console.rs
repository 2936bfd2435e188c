//! The console's own address and who is let in there.

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
    /// As a browser has it.
    pub(crate) origin: String,
    /// Its own listener; none where the API's serves the console, too.
    pub(crate) listener: Option<(watch::Sender<bool>, JoinHandle<()>)>,
}
