//! Schedules: snapshots that are taken by themselves, and deleted in turn.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a schedule does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleState {
    /// It takes snapshots.
    Active,
    /// Somebody wants none for now.
    Paused,
    /// Its pool is too full; it goes on by itself when there is room.
    NoSpace,
    /// The last one could not be taken; it is tried again.
    Failing,
}

/// A schedule.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Schedule {
    pub name: String,
    pub pool: String,
    /// What snapshots are taken of: databases or volumes, the others are empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub databases: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<String>,
    /// How often, aligned to the clock.
    pub every_seconds: u64,
    /// Which snapshots stay.
    #[schema(example = "hourly=24,daily=7,weekly=4")]
    pub keep: String,
    /// One of so many snapshots is proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prove_every_count: Option<u32>,
    pub state: ScheduleState,
    /// Why none is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its snapshots that are there.
    pub snapshot_count: usize,
    /// Of these, those that somebody holds: they stay.
    pub held_count: usize,
    /// The newest of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_snapshot: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_unix_seconds: Option<u64>,
    /// When the next is due; absent while it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_unix_seconds: Option<u64>,
    /// The newest proof of one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_proof: Option<ScheduleProof>,
    pub created_unix_seconds: u64,
}

/// Whether a snapshot of a schedule recovers and is whole.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ScheduleProof {
    pub database: String,
    pub snapshot: String,
    pub is_proven: bool,
    pub proven_unix_seconds: u64,
}

/// Request to make a schedule. Its first snapshot is taken when the next is due.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleCreate {
    /// Its snapshots are called NAME and the time: `prod.20261128T130507Z`.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,43}$", example = "prod")]
    pub name: String,
    /// Databases of one pool, all at one instant; or `volumes`.
    #[serde(default)]
    pub databases: Vec<String>,
    /// Volumes of one pool, all at one instant; or `databases`.
    #[serde(default)]
    pub volumes: Vec<String>,
    /// How often, aligned to the clock: 900 is at :00, :15, :30 and :45, in UTC. 1 to 31622400.
    #[schema(example = 900)]
    pub every_seconds: u64,
    /// Which snapshots stay: the newest of each of so many `seconds`, `minutes`, hours (`hourly`), days
    /// (`daily`), weeks (`weekly`) and months (`monthly`) that have one, and so many of the `last`.
    #[schema(example = "hourly=24,daily=7,weekly=4")]
    pub keep: String,
    /// One of so many snapshots is proven, as `database verify` does; only of databases. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prove_every_count: Option<u32>,
}

/// Request to change a schedule in place. What is absent stays. Its snapshots stay its own: those that a new
/// rule does not keep are deleted in turn.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleChange {
    /// How often, aligned to the clock. 1 to 31622400.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 900)]
    pub every_seconds: Option<u64>,
    /// Which snapshots stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "hourly=24,daily=7,weekly=4")]
    pub keep: Option<String>,
    /// While it is paused it takes no snapshots, and deletes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_paused: Option<bool>,
}

/// What the deleting of a schedule did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ScheduleDeletion {
    pub name: String,
    /// Snapshots of it that were deleted with it.
    pub deleted_count: usize,
    /// Snapshots of it that stay, and nobody deletes by themselves any more.
    pub left_count: usize,
}
