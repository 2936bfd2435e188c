//! Snapshots and the clones made from them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::volume::VolumeClass;

/// A read-only image of one or more volumes at one instant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Snapshot {
    pub name: String,
    pub pool: String,
    pub volumes: Vec<String>,
    pub created_unix_seconds: u64,
    /// Sum of the sizes the volumes had.
    pub size_bytes: u64,
    /// Why it cannot be deleted; absent when it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<SnapshotHold>,
}

/// A hold: while it is there nobody and nothing deletes the snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct SnapshotHold {
    /// What a person wrote when it was put; may be empty.
    pub reason: String,
    pub since_unix_seconds: u64,
}

/// Request to hold a snapshot. One that is held gets the new reason.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HoldRequest {
    /// One line of at most 200 bytes.
    #[serde(default)]
    #[schema(example = "audit 2026")]
    pub reason: String,
}

/// What a restore did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Restored {
    pub snapshot: String,
    /// The volumes that are as they were in it.
    pub volumes: Vec<String>,
    /// The snapshot that holds what they were before; absent when none was wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,
}

/// Request to take a snapshot of all the named volumes at one instant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotCreate {
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", example = "before-upgrade")]
    pub name: String,
    /// Volumes of one pool.
    #[schema(min_items = 1)]
    pub volumes: Vec<String>,
}

/// Request to delete snapshots together. Where one cannot be deleted none is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotsDelete {
    #[schema(min_items = 1)]
    pub names: Vec<String>,
    /// Deletes them though somebody reads one, who then gets errors.
    #[serde(default)]
    pub force: bool,
}

/// Request to make writable volumes from a snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CloneCreate {
    /// Name of the new volume; a snapshot of several volumes yields NAME-VOLUME for each.
    #[schema(example = "test")]
    pub name: String,
    /// SNAPSHOT, VOLUME@SNAPSHOT, or VOLUME (an unnamed snapshot is taken).
    #[schema(example = "before-upgrade")]
    pub from: String,
    /// Bytes on the drives that each new volume may have of its own at most; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// Bytes of the pool kept for each new volume; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve_bytes: Option<u64>,
    /// Within what time reads and writes of each should be answered, 100 us to 1 s; absent or 0: no floor.
    /// Not with class `low`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor_micros: Option<u64>,
    /// Whether requests of each give way to those of others.
    #[serde(default)]
    pub class: VolumeClass,
}
