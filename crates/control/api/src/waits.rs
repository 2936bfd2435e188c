//! What the sessions of a database wait for.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What sessions of a database were found at, as means over many looks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DatabaseWaits {
    pub name: String,
    /// How often it was looked.
    pub look_count: u64,
    /// Sessions that were at work at a time, all together.
    pub session_count: f64,
    /// What they waited for, the most frequent first.
    pub waits: Vec<DatabaseWait>,
}

/// Sessions that waited for one thing.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DatabaseWait {
    /// As PostgreSQL calls it (27.2.3); `CPU:Running` waits for nothing.
    #[schema(example = "IO:DataFileRead")]
    pub event: String,
    pub cause: WaitCause,
    /// How many at a time.
    pub session_count: f64,
}

/// Where the time of sessions goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WaitCause {
    /// Reads, writes and flushes of files, and who waits for another session's flush of the log.
    Storage,
    /// They compute, or wait for a processor.
    Processor,
    /// Another transaction holds what they need.
    Locks,
    /// The server's own structures in memory.
    Server,
    /// Their clients, or other servers.
    Network,
}

impl WaitCause {
    /// Every cause.
    pub const ALL: [WaitCause; 5] =
        [WaitCause::Storage, WaitCause::Processor, WaitCause::Locks, WaitCause::Server, WaitCause::Network];

    /// The cause of an event.
    #[must_use]
    pub fn of(event: &str) -> WaitCause {
        match event.split_once(':').unwrap_or((event, "")) {
            // One session flushes the log for all that commit at that time.
            ("IO", _) | ("LWLock", "WALWrite") => WaitCause::Storage,
            ("CPU", _) => WaitCause::Processor,
            ("Lock", _) => WaitCause::Locks,
            ("Client", _) => WaitCause::Network,
            // A commit that waits for a standby.
            ("IPC", "SyncRep") => WaitCause::Network,
            _ => WaitCause::Server,
        }
    }

    /// In words.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            WaitCause::Storage => "the storage",
            WaitCause::Processor => "the processor",
            WaitCause::Locks => "locks of other transactions",
            WaitCause::Server => "the server itself",
            WaitCause::Network => "clients or other servers",
        }
    }
}
