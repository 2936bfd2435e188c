//! Databases without a server of ours: commands stand for it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A kind of server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DatabaseEngine {
    #[default]
    Postgres,
    /// None: volumes, and commands of somebody else.
    None,
}

/// Commands of a database without a server. Each is one for `sh -c`; ASHLAR_DATABASE is the database's name,
/// ASHLAR_DATA the directory of its data, ASHLAR_LOG that of its log where it has one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DatabaseHooks {
    /// Who runs them: an account of this machine. Its directories are that account's.
    #[schema(example = "mysql")]
    pub account: String,
    /// Has the server hold still before a snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freeze: Option<String>,
    /// Lets it go on behind that, also when `freeze` failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thaw: Option<String>,
    /// Starts the server once the volumes are mounted, also those of a clone, and ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// Stops it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// Ends well when a copy is whole, on which no server runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// How long `freeze` and `thaw` may take; absent: 30 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
}

/// Which commands a database has.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DatabaseCommands {
    /// Who runs them.
    pub account: String,
    #[schema(example = json!(["freeze", "thaw"]))]
    pub names: Vec<String>,
    /// How long `freeze` and `thaw` may take.
    pub timeout_seconds: u64,
}
