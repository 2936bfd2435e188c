//! Attachments: volumes as block devices of the machine the array runs on.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A file system to make on a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FileSystem {
    Ext4,
    Xfs,
}

/// What an attachment outlives.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outlives {
    /// Every end of the array: its requests wait for the next one.
    Crash,
    /// An end in order, not a crash: the kernel is older than 6.9.
    Stop,
    /// No end of the array.
    #[default]
    Nothing,
}

/// An attached volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Attachment {
    pub volume: String,
    #[schema(example = "/dev/loop0")]
    pub device: String,
    /// Where its file system is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<String>,
    #[serde(default)]
    pub outlives: Outlives,
}

/// Request to attach a volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachRequest {
    pub volume: String,
    /// Makes this file system first; refused when the volume holds anything but zeroes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<FileSystem>,
    /// Formats whatever the volume holds, which is lost.
    #[serde(default)]
    pub force: bool,
    /// Lets NBD clients and users of the volume's file write to it meanwhile. Only for hosts that are made to
    /// share a device.
    #[serde(default)]
    pub shared: bool,
    /// Absolute path of a directory to mount on; it is made when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<String>,
    /// Mounts without `nosuid`: set-uid programs on the volume take effect. For root over the socket only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allows_suid: bool,
    /// Mounts without `nodev`: device files on the volume take effect. For root over the socket only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allows_devices: bool,
    /// Ends with the machine or the array: it is not attached again at the next start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub once: bool,
}

impl AttachRequest {
    /// The device alone.
    #[must_use]
    pub fn plain(volume: &str) -> AttachRequest {
        AttachRequest {
            volume: volume.to_string(),
            format: None,
            force: false,
            shared: false,
            mount: None,
            allows_suid: false,
            allows_devices: false,
            once: false,
        }
    }
}
