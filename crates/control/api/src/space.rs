//! The accounts: where a pool's bytes are, what deleting would give back, who holds what.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Seconds a count may take when nothing is said.
pub const WITHIN_SECONDS_DEFAULT: u64 = 60;

/// How the parts of a pool were found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SpaceBasis {
    /// Every image was walked: exact at the checkpoint taken first.
    Walk,
    /// By the cleaner's last mark: what is alive and dead is an estimate, the other parts are exact.
    LastMark,
}

/// Where a pool's bytes are. All fields but `physical_bytes` sum to it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct SpaceParts {
    /// The drives' sizes.
    pub physical_bytes: u64,
    /// Blocks that a volume or snapshot refers to, as stored: compressed, with headers.
    pub data_alive_bytes: u64,
    /// Blocks that nothing refers to any more, compressed together with others that something refers to:
    /// their share. They go when the cleaner moves what is left. Absent without a walk: they are in
    /// `data_alive_bytes` then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stranded_bytes: Option<u64>,
    /// Blocks that only deleted volumes refer to which can come back, as stored. Absent without a walk: they
    /// are in `data_alive_bytes` then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recoverable_bytes: Option<u64>,
    /// Page records of maps and tables in use.
    pub metadata_alive_bytes: u64,
    /// Written and not in use: deleted and overwritten data the cleaner has not taken yet, journal
    /// headers, padding.
    pub dead_bytes: u64,
    /// Journal written while this was counted.
    pub recent_bytes: u64,
    /// Not written: the rest of segments.
    pub slack_bytes: u64,
    /// Free, kept for deletes, unmap and checkpoints.
    pub reserve_bytes: u64,
    /// Free, kept for volumes that have a reserve.
    #[serde(default)]
    pub kept_bytes: u64,
    /// Free for the writes of any host.
    pub free_bytes: u64,
    /// Freed, being released.
    pub freed_bytes: u64,
    /// Superblock areas.
    pub superblock_bytes: u64,
    /// What the pool cannot use: what larger drives have beyond the others, what is left at the drives' ends,
    /// and what is free on a drive that leaves.
    #[serde(default)]
    pub unusable_bytes: u64,
    /// Parity columns.
    #[serde(default)]
    pub parity_bytes: u64,
    /// Spare space that no drive lives in.
    #[serde(default)]
    pub spare_bytes: u64,
}

impl SpaceParts {
    /// What the parts sum to.
    #[must_use]
    pub fn sum_bytes(&self) -> u64 {
        self.data_alive_bytes
            + self.stranded_bytes.unwrap_or(0)
            + self.recoverable_bytes.unwrap_or(0)
            + self.metadata_alive_bytes
            + self.dead_bytes
            + self.recent_bytes
            + self.slack_bytes
            + self.reserve_bytes
            + self.kept_bytes
            + self.free_bytes
            + self.freed_bytes
            + self.superblock_bytes
            + self.unusable_bytes
            + self.parity_bytes
            + self.spare_bytes
    }
}

/// A pool's accounts. What is absent only a walk tells.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct PoolSpace {
    pub pool: String,
    pub basis: SpaceBasis,
    /// Why there was no walk though one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub parts: SpaceParts,
    /// Of the metadata in use, map pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_page_bytes: Option<u64>,
    /// Sizes promised to hosts: of deleted volumes nothing is.
    pub provisioned_bytes: u64,
    /// Mapped to data, volumes, snapshots and deleted volumes together. Less the two savings it is
    /// `data_alive_bytes` and `recoverable_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Chunks that several volumes and snapshots refer to, with what is stranded in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_bytes: Option<u64>,
    /// What is referred to more than once, as often as it is referred to beyond the first time, before
    /// compression: by snapshots and clones, and by equal content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing_saved_bytes: Option<u64>,
    /// Of that, found by dedupe to have equal content; the rest is saved by snapshots and clones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_saved_bytes: Option<u64>,
    /// Blocks referred to, less what they take as stored. Below zero when headers outweigh compression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression_saved_bytes: Option<i64>,
    /// The volumes, by name.
    pub volumes: Vec<VolumeSpace>,
    /// The snapshots' images, by name.
    pub snapshots: Vec<VolumeSpace>,
    /// Deleted volumes that can come back, by name.
    #[serde(default)]
    pub deleted_volumes: Vec<VolumeSpace>,
    pub duration_millis: u64,
}

/// The share of a volume, or of a volume's image in a snapshot. What is absent only a walk tells.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct VolumeSpace {
    /// `VOLUME`, `VOLUME@SNAPSHOT`, or `VOLUME:ID` of a deleted volume.
    pub name: String,
    /// The size promised. Written, zero and unwritten sum to it.
    pub provisioned_bytes: u64,
    /// Mapped to data, before compression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Written as zeroes; takes no space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero_bytes: Option<u64>,
    /// Never written, or unmapped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unwritten_bytes: Option<u64>,
    /// Of what is written, blocks in chunks that others refer to, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_written_bytes: Option<u64>,
    /// Chunks only this one refers to, with what is stranded in them: deleting it alone gives them back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_bytes: Option<u64>,
}

/// Question: what would deleting all these together give back?
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReclaimRequest {
    /// `VOLUME`, `SNAPSHOT` or `VOLUME@SNAPSHOT`; `volume:NAME` or `snapshot:NAME` where both exist;
    /// `VOLUME:ID` of a deleted volume.
    #[schema(min_items = 1)]
    pub names: Vec<String>,
    /// Counting ends after so long.
    #[serde(default = "within_seconds_default")]
    #[schema(default = 60)]
    pub within_seconds: u64,
}

fn within_seconds_default() -> u64 {
    WITHIN_SECONDS_DEFAULT
}

/// What deleting a set would give back, exact at the checkpoint taken first. Nothing was deleted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Reclaim {
    /// Every volume and image in the set.
    pub members: Vec<String>,
    /// Snapshots of the set that are held, and so cannot be deleted before they are released.
    #[serde(default)]
    pub held: Vec<String>,
    /// Chunks that nothing else refers to.
    pub chunk_bytes: u64,
    pub chunk_count: u64,
    /// Map pages that nothing else refers to.
    pub map_page_bytes: u64,
    pub map_page_count: u64,
    /// Chunks the set refers to that stay, because others do, too.
    pub kept_bytes: u64,
    pub duration_millis: u64,
}

/// What keeps the space of a volume or snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Holders {
    pub pool: String,
    /// The volume, or the images of the snapshot.
    pub members: Vec<String>,
    pub question: HoldersQuestion,
    /// Chunks only this refers to: deleting it gives them back.
    pub only_bytes: u64,
    /// What one other holds alone, most first.
    pub holders: Vec<Holder>,
    /// What several others hold together: it goes with the last of them.
    pub several_bytes: u64,
    pub duration_millis: u64,
}

/// Which bytes are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HoldersQuestion {
    /// Of a volume: what was deleted or overwritten in it and others still hold.
    Overwritten,
    /// Of a snapshot: what would stay if it were deleted.
    StaysAfterDelete,
}

/// One that holds something.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Holder {
    /// `VOLUME`, or `VOLUME@SNAPSHOT`.
    pub name: String,
    pub is_snapshot: bool,
    /// What, of all others, only this one holds.
    pub bytes: u64,
}
