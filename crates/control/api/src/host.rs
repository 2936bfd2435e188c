//! Hosts that come in over iSCSI, and the volumes that are exported to them.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The largest number of a unit at its target.
pub const UNIT_MAX: u16 = 16_383;

/// A name and the secret that proves it (CHAP).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChapLogin {
    #[schema(example = "db1")]
    pub user: String,
    /// 12 to 255 bytes; Windows takes no more than 16. Never shown again.
    pub secret: String,
}

/// Never shows the secret.
impl fmt::Debug for ChapLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChapLogin({:?})", self.user)
    }
}

/// Request to let a host in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostCreate {
    #[schema(example = "db1")]
    pub name: String,
    /// Its iSCSI name: of its file `initiatorname.iscsi`, or as its settings have it.
    #[schema(example = "iqn.1993-08.org.debian:01:2f6b9d8a51c")]
    pub initiator: String,
    /// The pool that remembers it, and whose volumes it may see. Needed where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// What it proves when it logs in. Without, only its name counts, which anybody may give.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap: Option<ChapLogin>,
    /// What the array proves to it, if it asks. Only beside `chap`, with another secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual_chap: Option<ChapLogin>,
}

/// Request to change what a host proves. What is absent stays. Sessions that are there stay, too: who logs in
/// from now on proves what is said here.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostChange {
    /// What it proves when it logs in, in place of what it proved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap: Option<ChapLogin>,
    /// It proves nothing any more, and nothing is proven to it. Refused while an address off loopback is
    /// open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_chap: bool,
    /// What the array proves to it, if it asks, with another secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual_chap: Option<ChapLogin>,
    /// Nothing is proven to it any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_mutual_chap: bool,
}

/// A host. Its secrets are never shown.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Host {
    pub name: String,
    pub pool: String,
    /// Its iSCSI name, in small letters.
    pub initiator: String,
    /// The name it proves by a secret; absent: it proves nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap_user: Option<String>,
    /// The name that the array proves to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual_chap_user: Option<String>,
    /// The volumes it sees.
    pub volumes: Vec<String>,
    /// Where it is logged in from now.
    pub sessions: Vec<HostSession>,
    pub created_unix_seconds: u64,
}

/// A session of a host with the target of its pool.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct HostSession {
    /// Where it comes from.
    #[schema(example = "192.0.2.17:41222")]
    pub address: String,
    pub connected_seconds: u64,
    /// Commands without an answer.
    pub in_flight_count: u64,
}

/// Request to export a volume.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExportCreate {
    #[schema(example = "db")]
    pub volume: String,
    /// Who sees it. None named: every host that comes in; on loopback that is everybody.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Its number at the target, 0 to 16383; absent: the next that is free.
    #[serde(rename = "lun", default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<u16>,
    /// The block that hosts address, 512 or 4096; absent: the volume's logical block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_bytes: Option<u32>,
}

/// A volume as hosts reach it over iSCSI.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Export {
    pub volume: String,
    pub pool: String,
    /// The iSCSI name of the pool.
    #[schema(example = "iqn.2026-11.io.ashlar:main-5a80c1d3")]
    pub target: String,
    /// Its number there.
    #[serde(rename = "lun")]
    pub unit: u16,
    /// Its name among all SCSI units: Linux has it as `/dev/disk/by-id/wwn-0x...`.
    #[schema(example = "0x3465391958fc61f1")]
    pub wwn: String,
    /// The block that hosts address.
    pub block_bytes: u32,
    /// Who sees it; nobody named: every host that comes in.
    pub hosts: Vec<String>,
    /// Where hosts come in; none: the setting `iscsi_listen` names none.
    pub addresses: Vec<String>,
    /// Sessions of hosts that see it.
    pub session_count: u64,
    pub created_unix_seconds: u64,
}
