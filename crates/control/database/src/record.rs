//! What the pool remembers of a database.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A database: its volumes, where it answers, and how far its making, resetting or deleting has come. Later
/// programs may add keys; those that are not known here are kept by nobody.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
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
    /// Settings of its server, over those of the array and of its files.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// What its server may use of the machine; `None` is all.
    #[serde(default)]
    pub limits: Option<Limits>,
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
    /// Its first superuser, whom `url` names.
    #[serde(default = "superuser_of_ours")]
    pub superuser: String,
    /// The server that it follows as a standby.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<Follows>,
    /// What is done to a clone before others reach it, each time it gets a content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub care: Option<CareKept>,
    /// How long its server's start may take; `None` is the usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_timeout_seconds: Option<u64>,
    /// Why its server does not run, where the array gave up on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its volumes grow by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_grow: Option<AutoGrow>,
    /// Commands that stand for a server that Ashlar does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<Hooks>,
    /// Of a clone: its volumes are of class normal, also when they are made anew; otherwise of class low.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_clone_of_class_normal: bool,
    /// Of a clone: the machine that has its volumes, instead of this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away: Option<Away>,
}

/// Where a clone is that does not run on this machine, and what was found of its server before it went.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Away {
    /// The host that its volumes are exported to.
    pub host: String,
    /// Since when.
    pub unix_seconds: u64,
    /// What its server was started with here.
    pub server: ServerFound,
}

/// What a server is started with.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ServerFound {
    /// The directory of its programs.
    pub programs: String,
    /// The account that its files belong to.
    pub account: String,
    /// Its number.
    pub user: u32,
    /// Its group's.
    pub group: u32,
}

/// Commands of a database without a server of ours. Each is one for `sh -c`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Hooks {
    /// Who runs them.
    pub account: String,
    /// Before a snapshot.
    #[serde(default)]
    pub freeze: Option<String>,
    /// Behind it, whatever became of it.
    #[serde(default)]
    pub thaw: Option<String>,
    /// Once its volumes are mounted.
    #[serde(default)]
    pub start: Option<String>,
    /// Before they are unmounted.
    #[serde(default)]
    pub stop: Option<String>,
    /// Says whether a copy is whole.
    #[serde(default)]
    pub check: Option<String>,
    /// How long `freeze` and `thaw` may take.
    pub seconds_max: u64,
}

/// Volumes that grow when their file systems are nearly full.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AutoGrow {
    /// Each up to this size; `None` is as far as it goes.
    #[serde(default)]
    pub size_bytes_max: Option<u64>,
    /// Volumes that are larger already, and whose file systems grow before the next start of the server.
    #[serde(default)]
    pub waiting: Vec<String>,
}

/// The superuser of databases that are made here.
pub(crate) fn superuser_of_ours() -> String {
    "postgres".to_string()
}

/// The primary of a standby.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Follows {
    /// Where it is found, without a password.
    pub primary: String,
    /// The replication slot that it keeps for this standby.
    pub slot: String,
}

/// What is remembered of a clone's care. The password itself is on the volume, the text in notes of its own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CareKept {
    /// It has a password of its own for its superuser.
    #[serde(default)]
    pub has_own_password: bool,
    /// The SQL that runs before others reach it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<ScriptKept>,
}

/// Where the SQL of a clone's care is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ScriptKept {
    /// The database that it runs in.
    pub database: String,
    /// How many notes hold its text.
    pub notes: u16,
    /// How long the text is.
    pub bytes: u64,
}

impl Record {
    /// One that is about to be made, of a version that is not known yet.
    #[must_use]
    pub fn beginning(name: &str, port: u16, parts: Vec<Part>, unix_seconds: u64) -> Record {
        Record {
            name: name.to_string(),
            engine: EngineKind::Postgres,
            major: 0,
            port,
            parts,
            settings: BTreeMap::new(),
            limits: None,
            origin: None,
            outdated: Vec::new(),
            stage: Stage::Making,
            is_wanted: true,
            created_unix_seconds: unix_seconds,
            superuser: superuser_of_ours(),
            follows: None,
            care: None,
            expiry: None,
            start_timeout_seconds: None,
            reason: None,
            auto_grow: None,
            hooks: None,
            is_clone_of_class_normal: false,
            away: None,
        }
    }

    /// Its volumes' names.
    #[must_use]
    pub fn volumes(&self) -> Vec<String> {
        self.parts.iter().map(|part| part.volume.clone()).collect()
    }

    /// The volumes that a snapshot of it holds.
    #[must_use]
    pub fn kept_parts(&self) -> Vec<Part> {
        self.parts.iter().filter(|part| part.role.is_kept()).cloned().collect()
    }
}

/// What a server may use of the machine.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Memory of all its processes, with the files that the kernel caches for them.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Processors that it may keep busy at once; 1.5 is one and a half.
    #[serde(default)]
    pub cores: Option<f64>,
}

/// A kind of server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// PostgreSQL.
    Postgres,
    /// None: volumes, and commands of somebody else.
    None,
}

impl EngineKind {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Postgres => "postgres",
            EngineKind::None => "none",
        }
    }
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
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The data directory.
    Data,
    /// The write-ahead log.
    Log,
    /// The tablespace of this name.
    Tablespace(String),
    /// What sorts and joins put aside. It is worth nothing to a server that starts.
    Temp,
}

impl Role {
    /// The end of the volume's name, and the directory that it is mounted on.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Role::Data => "data".to_string(),
            Role::Log => "log".to_string(),
            Role::Tablespace(name) => format!("tablespace-{name}"),
            Role::Temp => "temp".to_string(),
        }
    }

    /// Whether snapshots and clones have what is on it.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        *self != Role::Temp
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
