//! Databases: servers by name, each with its volumes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::database_change::DatabaseAutoGrow;
use crate::handover::{DatabaseAway, DatabaseHandover};
use crate::hooks::{DatabaseCommands, DatabaseEngine, DatabaseHooks};
use crate::import::{DatabaseProgress, DatabaseStandby};
use crate::volume::VolumeClass;

/// What a database does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DatabaseState {
    /// It is being made.
    Making,
    /// Its server is being started or stopped.
    Busy,
    /// Its server runs.
    Running,
    /// Its server does not run, and is not to.
    Stopped,
    /// Its server is to run and does not.
    Failed,
    /// It gets another content.
    Resetting,
    /// It is being deleted.
    Deleting,
    /// Another machine has its volumes.
    Away,
}

/// A database.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Database {
    pub name: String,
    pub pool: String,
    /// The kind of its server.
    #[schema(example = "postgres")]
    pub engine: String,
    /// Its major version; 0 without a server.
    #[schema(example = 15)]
    pub major_version: u32,
    pub state: DatabaseState,
    /// Where its server listens, on 127.0.0.1; 0 without one.
    pub port: u16,
    pub volumes: Vec<DatabaseVolume>,
    /// What its server may use of memory; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Processors that its server may keep busy at once; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<f64>,
    /// What it was cloned from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<DatabaseOrigin>,
    pub created_unix_seconds: u64,
    /// Where it is, if not on the array's machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away: Option<DatabaseAway>,
    /// What it follows as a standby.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby: Option<DatabaseStandby>,
    /// How far its making is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<DatabaseProgress>,
    /// When it is deleted; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_unix_seconds: Option<u64>,
    /// How long a start of its server may take; absent: 180 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_timeout_seconds: Option<u64>,
    /// Why its server does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its volumes grow by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_grow: Option<DatabaseAutoGrow>,
    /// Commands that stand for a server that Ashlar does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<DatabaseCommands>,
    /// The newest proof of each of its snapshots that was proven, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proofs: Vec<DatabaseProof>,
}

/// Whether a snapshot of a database recovers and is whole: a server was started on a clone of it, and
/// everything in it checked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DatabaseProof {
    pub snapshot: String,
    /// When it was proven.
    pub proven_unix_seconds: u64,
    /// The server's start with its recovery.
    pub start_millis: u64,
    /// The whole proof.
    pub took_millis: u64,
    /// What is wrong; empty: it is proven.
    pub findings: Vec<String>,
    /// What is to be known of this proof.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Request to prove that a snapshot of a database recovers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DatabaseVerify {
    /// A snapshot, or a time: then the newest at or before it. Absent: one is taken, and deleted afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
}

/// A volume of a database.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DatabaseVolume {
    /// What is on it: `data`, `log`, `temp`, or `tablespace-` and the name of one.
    pub role: String,
    pub volume: String,
    /// Where it is mounted while the server runs.
    pub mount: String,
}

/// What a database was cloned from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DatabaseOrigin {
    pub database: String,
    pub snapshot: String,
}

/// Request to make an empty database.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DatabaseCreate {
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", example = "prod")]
    pub name: String,
    /// Of the volume for data, which is thin. A multiple of 4096.
    #[schema(example = 68719476736u64)]
    pub size_bytes: u64,
    /// Puts the write-ahead log on a volume of its own, of this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_size_bytes: Option<u64>,
    /// Within what time reads and writes of that volume should be answered, 100 us to 1 s: while they are
    /// not, background work and other volumes are held back. Needs `log_size_bytes`. Absent or 0: no floor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 2000)]
    pub log_floor_micros: Option<u64>,
    /// Puts temporary files, those of large sorts and joins, on a volume of their own, of this size.
    /// Snapshots leave it out, and in a clone it is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temp_size_bytes: Option<u64>,
    /// Makes tablespaces, each on a volume of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tablespaces: Vec<DatabaseTablespace>,
    /// May be left out when there is one pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Absent: the first free one from 5433 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The major version; absent: the newest that is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub major_version: Option<u32>,
    /// Memory of all processes of its server, with the files that the kernel caches for them. Absent: no
    /// limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Processors that its server may keep busy at once; 1.5 is one and a half. Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<f64>,
    /// How long a start of its server may take, with its recovery; after that nothing of it is left.
    /// Kept for later starts. Absent: 180 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 600)]
    pub start_timeout_seconds: Option<u64>,
    /// With `none` there are volumes and commands alone.
    #[serde(default)]
    pub engine: DatabaseEngine,
    /// With the engine `none`: commands that stand for a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<DatabaseHooks>,
    /// Volumes grow by a quarter when their file systems are 85 % full.
    #[serde(default)]
    pub auto_grow: bool,
    /// With `auto_grow`: the largest size of each. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_grow_max_bytes: Option<u64>,
}

/// A tablespace that is to be made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DatabaseTablespace {
    #[schema(pattern = "^[a-z][a-z0-9_]*$", example = "archive")]
    pub name: String,
    /// Of its volume, which is thin. A multiple of 4096.
    pub size_bytes: u64,
}

/// Request to clone a database.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DatabaseClone {
    /// Name of the clone.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", example = "dev")]
    pub name: String,
    /// As the database was then: a snapshot, or a time, and then the newest snapshot at or before it. A time
    /// is `13:05:07` (today or, when that is still to come, yesterday), `2026-11-28T13:05:07Z` or `-10s`, in
    /// UTC by the clock of the array's machine. Absent: as it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "13:05:07")]
    pub snapshot: Option<String>,
    /// The source's server makes a checkpoint first: the clone has little to recover, and takes no space for
    /// that. Until then it writes at its full speed. Not together with `snapshot`.
    #[serde(default)]
    pub checkpoint: bool,
    /// Absent: the first free one from 5433 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The clone is deleted after so long, an event tells of it before. Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_after_seconds: Option<u64>,
    /// Memory of all processes of its server, with the files that the kernel caches for them. Absent: the
    /// source's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Processors that its server may keep busy at once; 1.5 is one and a half. Absent: the source's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<f64>,
    /// How long a start of its server may take, with its recovery; after that nothing of the clone is left.
    /// Kept for later starts. Absent: the source's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 600)]
    pub start_timeout_seconds: Option<u64>,
    /// A password of its own for its superuser, which stays at a reset. The source's stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// The same, made up by the array.
    #[serde(default)]
    pub has_fresh_password: bool,
    /// SQL that psql runs before anybody reaches the clone over the network, now and at each reset. When a
    /// statement fails there is no clone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "update customers set email = 'x' || id || '@example.com';")]
    pub after_clone: Option<String>,
    /// The database that it runs in; absent: `postgres`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_clone_database: Option<String>,
    /// Whether requests of its volumes give way to those of others, now and after each reset. Absent: low.
    #[serde(default = "class_of_clones")]
    pub class: VolumeClass,
    /// It is to run on another machine, this host of its pool: its volumes are exported to that, and the
    /// answer says what the machine needs. Its server has run here once by then, and is stopped. Absent: it
    /// runs on the array's machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "db1")]
    pub host: Option<String>,
}

fn class_of_clones() -> VolumeClass {
    VolumeClass::Low
}

/// Request to set when a clone is deleted.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DatabaseExpiry {
    /// After so long from now. Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 28800)]
    pub expires_after_seconds: Option<u64>,
}

/// Request to give a clone another content: what it holds is lost. Its name, port and version stay.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DatabaseReset {
    /// As its origin was in this snapshot, or at this time; absent: in the one that it was last made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// As its origin is now.
    #[serde(default)]
    pub latest: bool,
    /// How long a start of its server may take, with its recovery; after that it is ended and stays stopped.
    /// Kept for later starts. Absent: as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 600)]
    pub start_timeout_seconds: Option<u64>,
}

/// Request to set a database back to a snapshot of its own volumes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DatabaseRestore {
    /// A snapshot, or a time: then the newest at or before it.
    pub snapshot: String,
    /// How long a start of its server may take, with its recovery; after that it is ended and stays stopped.
    /// Kept for later starts. Absent: as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 600)]
    pub start_timeout_seconds: Option<u64>,
}

/// Request to take a snapshot of databases of one pool at one instant, without stopping them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DatabaseSnapshot {
    /// Name of the snapshot.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", example = "before-upgrade")]
    pub name: String,
    #[schema(min_items = 1)]
    pub databases: Vec<String>,
    /// Their servers make a checkpoint first: what is cloned of the snapshot has little to recover, and takes
    /// no space for that. Until then they write at their full speed.
    #[serde(default)]
    pub checkpoint: bool,
}

/// A database that is ready for its clients.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DatabaseReady {
    pub database: Database,
    /// Where clients find it, with the password of its superuser.
    #[schema(example = "postgres://postgres:secret@127.0.0.1:5433/postgres")]
    pub url: String,
    /// The whole operation.
    pub took_millis: u64,
    /// Of that, the start of its server with its recovery.
    pub start_millis: u64,
    /// The snapshot that it was set back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<String>,
    /// The snapshot that holds what was there before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,
    /// What is to be known of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What the other machine needs that it is to run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handover: Option<Box<DatabaseHandover>>,
}

/// Where a database is found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DatabaseUrl {
    pub url: String,
}

/// What the deleting of a database did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DatabaseDeletion {
    pub name: String,
    /// Its volumes, which `volume undelete` brings back for that time.
    pub volumes: Vec<String>,
    pub recoverable_seconds: u64,
    /// Databases that were cloned from it, and stay.
    pub clones: Vec<String>,
    /// Schedules of it alone that went with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<String>,
    /// What is left elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}
