//! The end of an array, and its next program.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Request to stop the array.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StopRequest {
    /// Unmounts and detaches every volume first; refused while one is in use. Without, what is attached
    /// waits for the next array.
    #[serde(default)]
    pub detach: bool,
    /// Takes volumes out of sight although they are in use.
    #[serde(default)]
    pub force: bool,
}

/// Request to go on with another program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpgradeRequest {
    /// Absolute path of the program.
    #[schema(example = "/usr/bin/ashlar")]
    pub program: String,
}

/// What a program is: whether it can take over from another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Program {
    pub version: String,
    /// Version of what it writes to drives.
    pub media_version: u16,
    /// Version of what it leaves to its successor about attached volumes.
    pub handover_version: u32,
}
