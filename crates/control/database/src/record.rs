//! What the pool remembers of a database.

use serde::{Deserialize, Serialize};

/// A database: its volumes, where it answers, and how far its making, resetting or deleting has come. Later
/// programs may add keys; those that are not known here are kept by nobody.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Unique over all pools.
    pub name: String,
    /// What kind of server it has.
    pub engine: EngineKind,
    /// The major version that its files are of.
    pub major: u32,
    /// Where its server listens.
    pub port: u16,
    /// Its volumes.
    pub parts: Vec<Part>,
    /// What it was cloned from.
    #[serde(default)]
    pub origin: Option<Origin>,
    /// Snapshots that were taken for it and are not needed once it is ready.
    #[serde(default)]
    pub outdated: Vec<String>,
    /// When it is deleted.
    #[serde(default)]
    pub expiry: Option<Expiry>,
    /// Whether something is under way.
    pub stage: Stage,
    /// Its server is to run.
    pub is_wanted: bool,
    /// When it was made.
    pub created_unix_seconds: u64,
}

impl Record {
    /// Its volumes' names.
    #[must_use]
    pub fn volumes(&self) -> Vec<String> {
        self.parts.iter().map(|part| part.volume.clone()).collect()
    }
}

/// A kind of server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// PostgreSQL.
    Postgres,
}

/// A volume of a database.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Part {
    /// What is on it.
    pub role: Role,
    /// Its name.
    pub volume: String,
}

/// What is on a volume of a database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The data directory.
    Data,
    /// The write-ahead log.
    Log,
}

impl Role {
    /// The end of the volume's name, and the directory that it is mounted on.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::Data => "data",
            Role::Log => "log",
        }
    }
}

/// What a clone was made from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Origin {
    /// The database.
    pub database: String,
    /// The snapshot of its volumes.
    pub snapshot: String,
    /// The snapshot was taken for this clone, and goes with it.
    pub is_own: bool,
    /// The database's volumes, which the snapshot holds.
    pub volumes: Vec<Part>,
}

/// When a clone is deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Expiry {
    /// At this second.
    pub unix_seconds: u64,
    /// How long it was to last when that was set.
    pub term_seconds: u64,
}

impl Expiry {
    /// So long before is it told: an hour, or a tenth of the term if that is less.
    #[must_use]
    pub fn lead_seconds(self) -> u64 {
        (self.term_seconds / 10).clamp(1, 3600)
    }
}

/// Whether something is under way: what an array that was killed meanwhile has to finish.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It is being made: whatever there is of it is removed.
    Making,
    /// Nothing is.
    Ready,
    /// Its volumes are made anew from its origin: that is begun again.
    Resetting,
    /// It is being deleted: that goes on.
    Deleting,
}

/// Whether a snapshot of a database was found to recover, and to be whole.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Proof {
    /// The snapshot.
    pub snapshot: String,
    /// When the proof ended.
    pub unix_seconds: u64,
    /// How long the server's start took, with its recovery.
    pub start_millis: u64,
    /// The whole proof.
    pub took_millis: u64,
    /// What is wrong; nothing is a proof.
    pub findings: Vec<String>,
}
