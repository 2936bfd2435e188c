//! Users of a volume: everybody and everything that has it, or an image of it, open.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a volume is used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UseKind {
    /// It is attached as a block device of this machine.
    Attachment,
    /// Its file system is mounted.
    Mount,
    /// Another device of this machine stands on it: device-mapper, md, swap, a further loop device.
    Device,
    /// A process has its device or its file open.
    Process,
    /// An NBD client has it open.
    Nbd,
    /// A host that sees it is logged in over iSCSI.
    Iscsi,
    /// Somebody who cannot be named has its file or its device open.
    Unknown,
}

/// One user of a volume or of a snapshot's image of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ToSchema)]
pub struct VolumeUser {
    /// VOLUME, or VOLUME@SNAPSHOT.
    #[schema(example = "db")]
    pub volume: String,
    pub kind: UseKind,
    /// Who, in words.
    #[schema(example = "process 4711 (dd) has /dev/loop0 open")]
    pub who: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_id: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_name: Option<String>,
    /// The mount point, device or file that is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Where an NBD client or a host is: an address, or a process of this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// What ends this use.
    #[schema(example = "`ashlar detach db`")]
    pub action: String,
}

/// What `disconnect` did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Disconnected {
    /// NBD clients that were cut off.
    pub cut: Vec<VolumeUser>,
    /// Who still uses the volume.
    pub remaining: Vec<VolumeUser>,
}
