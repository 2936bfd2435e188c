//! Databases that are brought in from elsewhere, and standbys.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Database, DatabaseTablespace};

/// Request to bring a database in. Exactly one of `from_directory` and `from` is given.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DatabaseImport {
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", example = "prod")]
    pub name: String,
    /// The data directory of a stopped server of this machine. It is only read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "/var/lib/postgresql/15/main")]
    pub from_directory: Option<String>,
    /// The directory of its settings, when they are not in `from_directory` and not where Debian has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration_directory: Option<String>,
    /// A running server, as `postgres://USER:PASSWORD@HOST:PORT/DATABASE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "postgres://copier:secret@db1:5432/postgres")]
    pub from: Option<String>,
    /// By a dump of the one database that `from` names, for services that let nobody take a base backup.
    #[serde(default)]
    pub is_logical: bool,
    /// Of the volume for data, which is thin. Absent: 64 GiB, or twice what the source has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Puts the write-ahead log on a volume of its own, of this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_size_bytes: Option<u64>,
    /// How large the volumes of its tablespaces are to be. Absent: 64 GiB, or twice what is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tablespaces: Vec<DatabaseTablespace>,
    /// May be left out when there is one pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Absent: the first free one from 5433 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// With `is_logical`, the major version of the copy; absent: the newest that is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub major_version: Option<u32>,
    /// How long its server's start may take, with its recovery; absent: 180 s. One that takes longer is given
    /// up, and nothing of the copy is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_timeout_seconds: Option<u64>,
}

/// Request to make a standby of a running server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DatabaseFollow {
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", example = "prod-standby")]
    pub name: String,
    /// As `postgres://USER:PASSWORD@HOST:PORT/DATABASE`.
    #[schema(example = "postgres://copier:secret@db1:5432/postgres")]
    pub primary: String,
    /// Of the volume for data, which is thin. Absent: 64 GiB, or twice what the primary has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Puts the write-ahead log on a volume of its own, of this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_size_bytes: Option<u64>,
    /// How large the volumes of its tablespaces are to be. Absent: 64 GiB, or twice what is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tablespaces: Vec<DatabaseTablespace>,
    /// May be left out when there is one pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Absent: the first free one from 5433 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// How long its server's start may take, with its recovery; absent: 180 s. One that takes longer is given
    /// up, and nothing of the copy is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_timeout_seconds: Option<u64>,
}

/// What a standby follows, and how far it is behind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DatabaseStandby {
    /// Without a password.
    pub primary: String,
    /// The replication slot that the primary keeps for it.
    pub slot: String,
    /// It hears from its primary; absent: its server did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_streaming: Option<bool>,
    /// Log that the primary has and that is not replayed here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_bytes: Option<u64>,
    /// How old the newest transaction is that was replayed, where there is more to replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_millis: Option<u64>,
}

/// How far the making of a database is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DatabaseProgress {
    /// What is being done.
    #[schema(example = "takes a base backup")]
    pub stage: String,
    pub done_bytes: u64,
    /// By estimate; zero: there is nothing to count.
    pub total_bytes: u64,
}

/// A standby that became a database of its own.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DatabasePromotion {
    pub database: Database,
    /// Where clients find it, with the password of its superuser.
    pub url: String,
    /// What is to be known of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}
