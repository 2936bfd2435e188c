//! What the accounts tell.

/// Where a pool's bytes are. All parts but `physical_bytes` sum to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SpaceParts {
    /// The drives' sizes.
    pub physical_bytes: u64,
    /// Blocks that an image refers to, by their share of their chunks, headers included.
    pub data_alive_bytes: u64,
    /// Blocks that nothing refers to, in chunks of which an image refers to others: their share of those
    /// chunks. The cleaner leaves them out when it moves a chunk. Only a walk tells; without one they
    /// are in `data_alive_bytes`.
    pub stranded_bytes: Option<u64>,
    /// Blocks that only deleted volumes refer to which may come back, by the same share: given up, they are
    /// dead. Only a walk tells; without one they are in `data_alive_bytes`.
    pub recoverable_bytes: Option<u64>,
    /// Page records of maps and tables that are in use.
    pub metadata_alive_bytes: u64,
    /// Written, and nothing in use: overwritten and deleted chunks and pages that the cleaner has not
    /// taken yet, journal headers, padding.
    pub dead_bytes: u64,
    /// Journal written since the checkpoint the count speaks of.
    pub recent_bytes: u64,
    /// Not written: the rest of segments.
    pub slack_bytes: u64,
    /// Free, kept for deletes, unmap and checkpoints.
    pub reserve_bytes: u64,
    /// Free, kept for volumes that have a reserve.
    pub kept_bytes: u64,
    /// Free for the writes of any host.
    pub free_bytes: u64,
    /// Freed, not yet reusable.
    pub freed_bytes: u64,
    /// Superblock areas.
    pub superblock_bytes: u64,
    /// What no segment can lie in: what larger drives have beyond the others, what is left at the drives'
    /// ends, and what is free on a drive that leaves.
    pub unusable_bytes: u64,
    /// Parity columns.
    pub parity_bytes: u64,
    /// Spare space that no drive lives in.
    pub spare_bytes: u64,
}

impl SpaceParts {
    /// The sum of the parts: `physical_bytes`.
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

/// A pool's accounts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SpaceReport {
    /// Where its bytes are.
    pub parts: SpaceParts,
    /// The parts alive and dead are those of the cleaner's last mark; `walked` is absent.
    pub is_estimate: bool,
    /// Its volumes and the images of its snapshots.
    pub images: Vec<VolumeSpace>,
    /// What only a walk tells.
    pub walked: Option<WalkedSpace>,
}

/// What a walk over every image adds. `written` of all images less the two savings is
/// `data_alive_bytes` and `recoverable_bytes` together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WalkedSpace {
    /// Of the metadata in use, map pages.
    pub map_page_bytes: u64,
    /// Chunks that several images refer to, with what is stranded in them.
    pub shared_bytes: u64,
    /// Blocks that images refer to a second time and more, before compression.
    pub sharing_saved_bytes: u64,
    /// Of these, found by their content and shared; the others are shared by snapshots and clones.
    pub content_saved_bytes: u64,
    /// Blocks referred to, less their share of the chunks that hold them. Below zero when headers
    /// outweigh compression.
    pub compression_saved_bytes: i64,
}

/// A volume's or an image's share.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VolumeSpace {
    /// `VOLUME`, `VOLUME@SNAPSHOT`, or `VOLUME:NUMBER` of a deleted volume.
    pub name: String,
    /// False for a volume.
    pub is_snapshot: bool,
    /// A deleted volume that may come back.
    pub is_deleted: bool,
    /// The size promised.
    pub provisioned_bytes: u64,
    /// Mapped to data; absent when it is being counted and nothing walked.
    pub written_bytes: Option<u64>,
    /// What only a walk tells.
    pub walked: Option<WalkedVolume>,
}

/// What a walk tells of a volume or image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WalkedVolume {
    /// Mapped to zeroes: written as zeroes, no space taken.
    pub zero_bytes: u64,
    /// Never written, or unmapped.
    pub unwritten_bytes: u64,
    /// Chunks that only this one refers to, with what is stranded in them: what deleting it alone gives
    /// back.
    pub only_bytes: u64,
    /// Blocks of those chunks, before compression.
    pub only_written_bytes: u64,
}

/// What deleting a set would give back.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReclaimReport {
    /// The volumes and images of the set.
    pub members: Vec<String>,
    /// Snapshots of the set that are held, now.
    pub held: Vec<String>,
    /// Chunks that nothing else refers to.
    pub chunk_bytes: u64,
    /// How many.
    pub chunk_count: u64,
    /// Map pages that nothing else refers to.
    pub map_page_bytes: u64,
    /// How many.
    pub map_page_count: u64,
    /// Chunks the set refers to that others hold, too: they stay.
    pub kept_bytes: u64,
}

/// What keeps the space of a volume or snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HoldersReport {
    /// The volume, or the images of the snapshot.
    pub members: Vec<String>,
    /// False for a volume.
    pub is_snapshot: bool,
    /// Chunks only they refer to: what deleting them gives back.
    pub only_bytes: u64,
    /// Who holds something alone, most first.
    pub holders: Vec<Holder>,
    /// Held by several of the others together.
    pub several_bytes: u64,
}

/// One that holds something.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Holder {
    /// `VOLUME`, or `VOLUME@SNAPSHOT`.
    pub name: String,
    /// False for a volume.
    pub is_snapshot: bool,
    /// Of the space in question, what of the others only this one holds.
    pub bytes: u64,
}
