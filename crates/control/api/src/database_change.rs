//! What is changed of a database while it runs: its settings, and how large its volumes are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Request to change settings of a database's server. They stay over restarts; a clone begins with those of
/// its source, but with little memory.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DatabaseSettingsChange {
    /// Values by name, as in postgresql.conf.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// Names that get the value of the server's own files again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reset: Vec<String>,
    /// Where the server listens from its next start on. One that runs is started anew: say `restart`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1024)]
    pub port: Option<u16>,
    /// Starts the server anew where a setting asks for that. One that does not start so gets back the
    /// settings of before, and the request is refused.
    #[serde(default)]
    pub restart: bool,
}

/// Settings of a database that Ashlar keeps; what is not here is in the server's own files.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DatabaseSettings {
    pub name: String,
    pub settings: BTreeMap<String, String>,
    /// Those that count from the server's next start on.
    pub waiting_for_restart: Vec<String>,
}

/// Request to enlarge volumes of a database with their file systems, while it runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DatabaseResize {
    /// New sizes by what is on the volume: `data`, `log`, `temp`, or `tablespace-` and the name of one.
    #[serde(default)]
    pub sizes_bytes: BTreeMap<String, u64>,
    /// Whether volumes grow from now on by a quarter when their file systems are 85 % full. Absent: as
    /// before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_grow: Option<bool>,
    /// With `auto_grow`: the largest size of each. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_grow_max_bytes: Option<u64>,
}

/// Volumes that grow by themselves.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DatabaseAutoGrow {
    /// As soon as a file system is so full.
    #[schema(example = 85)]
    pub at_percent: u64,
    /// By so much of its size.
    #[schema(example = 25)]
    pub step_percent: u64,
    /// Up to this size; absent: as far as it goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// Volumes that have grown and whose file systems do before the next start of the server: this machine
    /// does not let them while they are mounted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<String>,
}

/// Request to start the server of a database.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DatabaseStart {
    /// How long that may take, with its recovery; after that it is ended and stays stopped. Kept for later
    /// starts. Absent: as before, at first 180 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 600)]
    pub start_timeout_seconds: Option<u64>,
}
