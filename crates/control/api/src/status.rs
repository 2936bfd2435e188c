//! The state of the array as a whole.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{PoolState, Recovery};

/// The array as a whole.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Status {
    pub version: String,
    pub process_id: u32,
    pub state_directory: String,
    pub uptime_seconds: u64,
    /// Which driver does the input and output, and why.
    #[schema(example = "io: io_uring (kernel 6.18)")]
    pub io_driver: String,
    /// Memory resident now.
    pub memory_resident_bytes: u64,
    /// Processor time used since the start.
    pub cpu_micros: u64,
    pub pools: Vec<PoolSummary>,
    pub doors: Vec<Door>,
    pub attachment_count: u64,
    /// Another one for each start of the array.
    #[serde(default)]
    pub boot_id: String,
    /// When the array started, in milliseconds since 1970.
    #[serde(default)]
    pub started_unix_millis: u64,
    /// How long attached volumes waited when this array took them over from the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handover_pause_millis: Option<u64>,
}

/// A pool in one line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct PoolSummary {
    pub name: String,
    pub state: PoolState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub physical_bytes: u64,
    pub free_bytes: u64,
    /// How much of what hosts can use is alive, in per cent; what the cleaner can free is not.
    #[serde(default)]
    pub full_percent: u8,
    pub volume_count: u64,
    pub snapshot_count: u64,
    /// What the last start-up of the pool did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
}

/// Whether a door serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DoorState {
    Serving,
    /// Starts when it is first needed.
    Idle,
    /// Switched off in the settings.
    Off,
    /// Could not start; `reason` says why.
    Failed,
}

/// One address at which hosts reach volumes, or people the API.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Door {
    /// `api`, `nbd`, `iscsi` or `fuse`.
    pub name: String,
    /// Socket path, address or directory.
    pub address: String,
    /// How bytes travel, as in `unix`, `tcp`, `fuse over io_uring`.
    pub transport: String,
    pub state: DoorState,
    /// Clients that are connected now, of doors that count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_count: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
