//! Volumes: what a host sees as one block device.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a volume's host writes, which decides how blocks are compressed together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Small random writes of a transaction database.
    Oltp,
    /// Mixed use.
    #[default]
    General,
    /// Large sequential writes.
    Bulk,
}

/// How a volume's data are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    Off,
    #[default]
    Lz4,
    Zstd,
}

impl Compression {
    /// The word for it in commands and requests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Compression::Off => "off",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }
}

/// Whether a volume's requests give way to those of others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeClass {
    /// They do not.
    #[default]
    Normal,
    /// While volumes of class normal are at work few of them are served at a time.
    Low,
}

impl VolumeClass {
    /// The word for it in commands and requests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            VolumeClass::Normal => "normal",
            VolumeClass::Low => "low",
        }
    }
}

/// How a volume's floor is kept, since its pool was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct VolumeFloor {
    /// Reads and writes that were served.
    pub request_count: u64,
    /// Those of them that took longer than the floor.
    pub miss_count: u64,
    /// Windows of time in which more than one in a hundred did.
    pub window_missed_count: u64,
    /// So many requests of volumes without a floor, or with a longer one, are served at a time now; absent:
    /// they are not held back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth_count: Option<u32>,
    /// With a depth of 1: each begins no sooner than this after the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_micros: Option<u64>,
}

/// A volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    pub name: String,
    pub pool: String,
    /// Number of the volume in its pool; never used again after a delete.
    pub id: u64,
    /// Size the host sees.
    pub size_bytes: u64,
    pub logical_block_bytes: u32,
    pub profile: Profile,
    pub compression: Compression,
    /// Whether blocks equal to others of the pool are stored once.
    pub dedupe: bool,
    /// Bytes of the volume that hold data. Absent while they are counted anew, after a shrink for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Bytes on the drives of what the volume wrote itself and still refers to, snapshots of it not counted;
    /// of a clone what it wrote since it was made. Limit and reserve go by it.
    #[serde(default)]
    pub own_bytes: u64,
    /// Bytes on the drives that the volume may have of its own at most; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// Bytes of the pool kept for the volume, with what it has of its own already; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve_bytes: Option<u64>,
    /// Requests a second that hosts may make; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<u64>,
    /// Bytes a second that hosts may read and write; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// So many seconds of these rates may be used at once after an idle time; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_seconds: Option<u64>,
    /// Within what time its reads and writes should be answered; absent: it has no floor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor_micros: Option<u64>,
    /// Whether its requests give way to those of others.
    #[serde(default)]
    pub class: VolumeClass,
    /// How its floor is kept; absent without one, and in the answer to a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<VolumeFloor>,
    /// Bytes on the drives that only this volume holds; deleting it gives them back. Absent while it
    /// is being counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique_bytes: Option<u64>,
    /// What the volume was cloned from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    pub created_unix_seconds: u64,
    /// The block device it is attached to on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// A deleted volume that can come back.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DeletedVolume {
    /// The name it had. Another volume may have it by now, and other deleted ones may have had it: `NAME:ID`
    /// tells this one.
    pub name: String,
    pub pool: String,
    /// Number of the volume in its pool.
    pub id: u64,
    /// Size the host saw.
    pub size_bytes: u64,
    /// Bytes of the volume that hold data. Absent while they are counted anew, after a shrink for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// When it was deleted, by this machine's clock at that time.
    pub deleted_unix_seconds: u64,
    /// How long the array has kept it. Only time counts in which the array had the pool open, whatever the
    /// clock says.
    pub kept_seconds: u64,
    /// How much longer it is kept, unless room is needed.
    pub remaining_seconds: u64,
}

/// What a delete did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct VolumeDeletion {
    pub name: String,
    pub pool: String,
    /// Number of the volume in its pool.
    pub id: u64,
    /// How long it can come back; 0: it is gone.
    pub recoverable_seconds: u64,
}

/// Request to bring a deleted volume back.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeUndelete {
    /// Its new name; absent: the one it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Request to create a thin volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeCreate {
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", example = "db")]
    pub name: String,
    /// A multiple of 4096, at most 256 TiB.
    #[schema(example = 68719476736u64, multiple_of = 4096, minimum = 4096)]
    pub size_bytes: u64,
    /// May be left out when there is one pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// 512 or 4096.
    #[serde(default = "logical_block_default")]
    #[schema(default = 4096)]
    pub logical_block_bytes: u32,
    #[serde(default)]
    pub profile: Profile,
    #[serde(default)]
    pub compression: Compression,
    /// Whether blocks equal to others of the pool are stored once.
    #[serde(default)]
    pub dedupe: bool,
    /// Bytes on the drives that the volume may have of its own at most; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// Bytes of the pool kept for the volume, with what it has of its own already; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve_bytes: Option<u64>,
    /// Within what time its reads and writes should be answered, 100 us to 1 s: while they are not,
    /// background work and other volumes are held back. Absent or 0: no floor. Not with class `low`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 2000)]
    pub floor_micros: Option<u64>,
    /// Whether its requests give way to those of others.
    #[serde(default)]
    pub class: VolumeClass,
}

fn logical_block_default() -> u32 {
    4096
}

/// Request to change how a volume's data are reduced from now on, what it may take, what is kept for it, how
/// fast it may be and who goes first; what is absent stays as it is. What is stored already stays as it is; a
/// rebuild of dedupe looks at it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumePolicy {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<Compression>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe: Option<bool>,
    /// Bytes on the drives that the volume may have of its own at most; 0: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// Bytes of the pool kept for the volume, with what it has of its own already; 0: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve_bytes: Option<u64>,
    /// Requests a second that hosts may make, at least 10; 0: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<u64>,
    /// Bytes a second that hosts may read and write, at least 1 MiB; 0: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// So many seconds of these rates may be used at once after an idle time, at most an hour; 0: none. Needs
    /// a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 3600)]
    pub burst_seconds: Option<u64>,
    /// Within what time its reads and writes should be answered, 100 us to 1 s: while they are not,
    /// background work and other volumes are held back; 0: no floor. Not with class `low`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 2000)]
    pub floor_micros: Option<u64>,
    /// Whether its requests give way to those of others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<VolumeClass>,
}

/// Request to change a volume's size.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeResize {
    /// The new size, a multiple of 4096, at most 256 TiB.
    #[schema(multiple_of = 4096, minimum = 4096)]
    pub size_bytes: u64,
    /// Needed to make a volume smaller, which drops the bytes beyond the new end.
    #[serde(default)]
    pub may_shrink: bool,
    /// Cuts off what lies beyond the new end though a file system reaches there, and NBD clients.
    #[serde(default)]
    pub force: bool,
}
