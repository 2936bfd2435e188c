//! Pools: drives managed as one space.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a pool outlives the loss of drives. Chosen when it is created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protection {
    /// No redundancy: the loss of a drive loses the pool.
    #[default]
    None,
    /// One drive may fail. At least three drives.
    Single,
    /// Two drives may fail. At least four drives.
    Dual,
}

/// Whether a pool serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PoolState {
    /// Recovery runs; `reason` names the step.
    Opening,
    /// Serves reads and writes.
    Online,
    /// Serves reads and writes, and lacks drives; `reason` says how many more it survives.
    Degraded,
    /// Serves reads only; `reason` says why.
    ReadOnly,
    /// Is not open yet: it is opened as soon as its drives are there; `reason` says which it waits for.
    Waiting,
    /// Could not be opened; `reason` says why. Its drives were not changed.
    Failed,
}

impl PoolState {
    /// Every state, in the order of the variants.
    pub const ALL: [PoolState; 6] = [
        PoolState::Opening,
        PoolState::Online,
        PoolState::Degraded,
        PoolState::ReadOnly,
        PoolState::Waiting,
        PoolState::Failed,
    ];

    /// The one word that every list and metric shows.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PoolState::Opening => "opening",
            PoolState::Online => "online",
            PoolState::Degraded => "degraded",
            PoolState::ReadOnly => "read-only",
            PoolState::Waiting => "waiting",
            PoolState::Failed => "failed",
        }
    }

    /// Whether it serves reads.
    #[must_use]
    pub fn is_open(self) -> bool {
        match self {
            PoolState::Online | PoolState::Degraded | PoolState::ReadOnly => true,
            PoolState::Opening | PoolState::Waiting | PoolState::Failed => false,
        }
    }

    /// Whether it serves reads and writes.
    #[must_use]
    pub fn takes_writes(self) -> bool {
        match self {
            PoolState::Online | PoolState::Degraded => true,
            PoolState::Opening | PoolState::ReadOnly | PoolState::Waiting | PoolState::Failed => false,
        }
    }
}

/// A pool.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    pub name: String,
    /// Identity drawn when the pool was created; empty while the pool could not be opened.
    pub id: String,
    /// How many superblocks the pool has written: of two states of its drives the higher is the newer.
    pub generation: u64,
    pub state: PoolState,
    /// Why the pool is not online, or what it lacks though it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub protection: Protection,
    pub drives: Vec<Drive>,
    /// What was named when the pool was opened and is no drive of it, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unused_drives: Vec<String>,
    /// The rebuild under way; others of `drives` may wait for their turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<Rebuild>,
    /// Why the last rebuild that failed did, since the pool was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild_error: Option<String>,
    /// The removal under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removal: Option<Removal>,
    /// The scrub under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrub: Option<Scrub>,
    /// When the last scrub that came to its end did; before the first, since when this array knows the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrubbed_unix_seconds: Option<u64>,
    /// Absent while the pool could not be opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<Space>,
    /// The sizes of its volumes, added up. More than `usable_bytes` of `space` says that the pool can fill
    /// before its volumes do.
    #[serde(default)]
    pub provisioned_bytes: u64,
    /// How much of what hosts can use is alive, in per cent. What is free or known to be dead does not
    /// count; what died since the last mark still does. 0 while the pool could not be opened.
    #[serde(default)]
    pub full_percent: u8,
    /// Volumes whose limit has refused a write and that are not well below it since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes_at_limit: Vec<String>,
    /// How much of its segment numbers a pool has used, in per cent. Each is used once, however often space
    /// is written anew; at 100 the pool takes no more writes, and its volumes must move to another pool.
    #[serde(default)]
    pub segment_numbers_percent: u8,
    pub volume_count: u64,
    pub snapshot_count: u64,
    /// Deleted volumes that can come back; `volume_count` does not count them.
    #[serde(default)]
    pub deleted_volume_count: u64,
    /// Bytes on the drives that only deleted volumes hold: given up, they give them back. Absent while it is
    /// being counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recoverable_bytes: Option<u64>,
    /// What the last start-up of the pool did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// The pool's own counters by name, since it was opened.
    #[serde(default)]
    pub counters: std::collections::BTreeMap<String, u64>,
}

/// A drive of a pool.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Drive {
    /// What it is called by in requests, from 0; absent while the pool is not open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// Drawn when it joined its pool: another drive in its place has another. Empty while the pool is not
    /// open.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Empty when no drive was found for this number, and when spare space holds what was on it.
    #[schema(example = "/var/lib/ashlar/drive-0.img")]
    pub path: String,
    /// Where it was when it last served, if that is known and it is not found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_path: Option<String>,
    /// 0 when it is not known.
    pub size_bytes: u64,
    /// `online`, `moving` (it serves while its content goes elsewhere), `spare` (it is no more: spare space
    /// holds what was on it), `rebuilding`, `leaving`, `out` (it is gone or was given up) or, while the pool
    /// is not open, `unknown`. One that has left a pool without protection is not told of, and its number is
    /// not used again.
    #[schema(example = "online")]
    pub state: String,
    /// It is no more: spare space holds what was on it, or will.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_in_spare_space: bool,
    /// Why it is not online.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// It was missing when the pool was opened, and is taken back into service as soon as it comes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_awaited: bool,
    /// Read from it since it was opened.
    #[serde(default)]
    pub read_bytes: u64,
    /// Written to it by this array since it joined its pool: what wears it. The array is restarted and
    /// upgraded without losing more of it than the last minute.
    #[serde(default)]
    pub written_bytes: u64,
    /// Since when `written_bytes` is counted; absent while the pool is not open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_since_unix_seconds: Option<u64>,
    /// What may be written to it in its life, as declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 600000000000000u64)]
    pub endurance_bytes: Option<u64>,
    /// Written to it in its life, as an NVMe drive counts it itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_written_bytes: Option<u64>,
    /// How much of its life is used, as an NVMe drive judges itself. May exceed 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_worn_percent: Option<u32>,
    /// How much of its life is used: what it reports itself, otherwise `written_bytes` of `endurance_bytes`.
    /// Absent when neither is known. May exceed 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worn_percent: Option<u32>,
    /// When it will be worn out if it is written as it was since `counted_since_unix_seconds`. Absent before
    /// a day is counted, and when `worn_percent` is absent or tells too little.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worn_out_unix_seconds: Option<u64>,
    /// Requests that failed since it was opened. With parity the others answer for them; one of which 256
    /// fail more than were mended is given up.
    #[serde(default)]
    pub error_count: u64,
    /// Blocks written again since it was opened because they were not what they should have been.
    #[serde(default)]
    pub mended_block_count: u64,
    /// Reads since it was opened that the other drives answered because it was slow.
    #[serde(default)]
    pub steered_read_count: u64,
}

/// A scrub under way: everything is checked first, then segments are compared with their parity.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Scrub {
    /// Segments compared.
    pub done_segment_count: u64,
    /// Segments to compare; 0 while it checks.
    pub total_segment_count: u64,
    pub elapsed_millis: u64,
    /// It is held until it is resumed.
    pub is_paused: bool,
}

/// A pool that has used this much of its segment numbers, in per cent, is worth a word: at the pace that took
/// years for it, moving its volumes has time.
pub const SEGMENT_NUMBERS_PERCENT_LATE: u8 = 90;

/// The reason of a drive that somebody took out of service.
pub const TAKEN_OUT: &str = "it was taken out of service";

impl Drive {
    /// Whether the pool counts on what it holds, or on what spare space holds in its stead.
    #[must_use]
    pub fn is_served(&self) -> bool {
        ["online", "moving", "spare", "leaving"].contains(&self.state.as_str())
    }
}

/// What to do with the scrub under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScrubAction {
    /// Hold it after the segment it is at.
    Pause,
    /// Let it go on.
    Resume,
    /// End it after the segment it is at; the next begins from the start.
    Stop,
}

/// Request to change the scrub under way.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScrubChange {
    pub action: ScrubAction,
}

/// A drive that is given what it lacks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Rebuild {
    pub drive_number: u32,
    /// To write to it.
    pub total_bytes: u64,
    /// Written so far.
    pub done_bytes: u64,
    pub elapsed_millis: u64,
    /// At the pace so far; absent before there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_millis: Option<u64>,
}

/// A drive that leaves its pool: what is on it moves to the others.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Removal {
    pub drive_number: u32,
    /// In segments that were on it when it began to leave, or when the pool was opened.
    pub total_bytes: u64,
    /// Of these, in segments that are on it no more.
    pub done_bytes: u64,
    /// Since it began to leave, or the pool was opened.
    pub elapsed_millis: u64,
    /// At the pace so far; absent before there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_millis: Option<u64>,
    /// Why it does not go on; it is tried again. Absent while it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// Where a pool's bytes are. The parts sum to `physical_bytes`; `dead_bytes` is in them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Space {
    /// The drives' sizes.
    pub physical_bytes: u64,
    /// Free for the writes of any host at once. A pool in use has little of it, however much of it is dead.
    pub free_bytes: u64,
    /// Free, kept for volumes that have a reserve.
    #[serde(default)]
    pub kept_bytes: u64,
    /// Segments of data, live or not yet cleaned.
    pub data_bytes: u64,
    /// Segments of map and table pages, live or not yet cleaned.
    pub metadata_bytes: u64,
    /// Of `data_bytes` and `metadata_bytes`: what nothing referred to when the cleaner last looked. It makes
    /// room of it when writes need it.
    #[serde(default)]
    pub dead_bytes: u64,
    /// The journal.
    pub journal_bytes: u64,
    /// Free, kept for deletes, unmap and checkpoints.
    pub reserve_bytes: u64,
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
    /// Freed, not yet reusable.
    pub freed_bytes: u64,
}

impl Space {
    /// What hosts can use: all but reserve, superblocks, parity, spare space and what is unusable.
    #[must_use]
    pub fn usable_bytes(&self) -> u64 {
        let kept = self.reserve_bytes + self.superblock_bytes + self.parity_bytes + self.spare_bytes;
        self.physical_bytes.saturating_sub(kept + self.unusable_bytes)
    }

    /// The sum of the parts; equals `physical_bytes`.
    #[must_use]
    pub fn parts_bytes(&self) -> u64 {
        self.free_bytes
            + self.kept_bytes
            + self.data_bytes
            + self.metadata_bytes
            + self.journal_bytes
            + self.reserve_bytes
            + self.superblock_bytes
            + self.unusable_bytes
            + self.parity_bytes
            + self.spare_bytes
            + self.freed_bytes
    }
}

/// What start-up recovery did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Recovery {
    pub millis: u64,
    pub groups_replayed: u64,
    pub records_replayed: u64,
    pub steps: Vec<RecoveryStep>,
}

/// One named step of recovery.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct RecoveryStep {
    pub name: String,
    pub micros: u64,
}

/// A drive to make a pool of, or to put in the place of another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DriveSpec {
    /// Absolute path of a block device or a file.
    #[schema(example = "/var/lib/ashlar/drive-0.img")]
    pub path: String,
    /// Makes a file of this size; the file must not exist. Without it the path must exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 10737418240u64)]
    pub size_bytes: Option<u64>,
    /// Take it although it holds data, a file system, or another pool, which are lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// Request to create a pool.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolCreate {
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", example = "main")]
    pub name: String,
    #[schema(min_items = 1)]
    pub drives: Vec<DriveSpec>,
    #[serde(default)]
    pub protection: Protection,
    /// Drives that a segment is spread over, parity included: more keep more of the space for data. All
    /// drives up to 16 when absent, but those of spare space. Only with protection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 3, maximum = 24)]
    pub width: Option<u8>,
    /// Drives for which there is spare space, on all of them: what a lost drive held is restored there. None
    /// when absent. Only with protection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 4)]
    pub spare_count: Option<u8>,
}

/// Request to add drives to a pool.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrivesAdd {
    /// The drives. With protection they make rows of their own: at least as many as a row is wide.
    #[schema(min_items = 1)]
    pub drives: Vec<DriveSpec>,
}

/// Request to take a drive back into service.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DriveOnline {
    /// Absolute path of the drive; absent: where it was last, or a recorded one that turns out to be it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Request to change what is declared of a drive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DriveChange {
    /// What may be written to it in its life, from its data sheet; `null` when that is not known.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(required = true, minimum = 1, example = 600000000000000u64)]
    pub endurance_bytes: Option<u64>,
}

/// Request to open a pool that other drives' owner exported, or that failed to open before.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolImport {
    /// Absolute paths of all the pool's drives; empty: the paths recorded for a pool that failed to open.
    #[serde(default)]
    pub drives: Vec<String>,
    /// Open it although another array has it open. That one stops with errors.
    #[serde(default)]
    pub force: bool,
    /// Open it although its drives are older than they were. What was written since is lost or damaged.
    #[serde(default)]
    pub accept_older_state: bool,
}

/// Result of walking every root of a pool and verifying every header and checksum.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct CheckReport {
    pub pool: String,
    pub page_count: u64,
    pub chunk_count: u64,
    pub live_bytes: u64,
    pub duration_millis: u64,
    /// What is damaged; empty when all is well.
    pub errors: Vec<String>,
    /// How segments compare with their parity; only when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parity: Option<ParityCheck>,
}

/// How the segments of a pool compare with their parity. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ParityCheck {
    /// Stripes compared with their parity; none in a pool without protection.
    pub stripe_count: u64,
    /// Stripes that could not be: too many drives are out.
    pub unproven_stripe_count: u64,
    /// Stripes that do not agree with their parity, or of which a drive in service cannot read its part: a
    /// scrub sets them right.
    pub wrong_stripe_count: u64,
}

/// Result of a scrub: a check, then every segment compared with its parity.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ScrubReport {
    /// Everything in use, read and verified. What was wrong and could be computed is no error.
    pub check: CheckReport,
    /// Stripes compared with their parity; none in a pool without protection.
    pub stripe_count: u64,
    /// Stripes that could not be: too many drives are out.
    pub unproven_stripe_count: u64,
    /// Blocks of data set right by comparing.
    pub data_block_count: u64,
    /// Blocks of parity set right.
    pub parity_block_count: u64,
    /// Blocks computed from other drives and written back since the pool was opened, by this and by reads.
    pub mended_block_count: u64,
    pub duration_millis: u64,
}
