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
    /// Starts the server anew where a setting asks for that.
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
    pub sizes_bytes: BTreeMap<String, u64>,
}
