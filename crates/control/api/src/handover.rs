//! Clones that run on another machine: its host has their volumes over iSCSI.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where a clone is that does not run on the array's machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DatabaseAway {
    /// The host that has its volumes.
    #[schema(example = "db1")]
    pub host: String,
    pub since_unix_seconds: u64,
}

/// What a machine needs to run a clone that is away at it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DatabaseHandover {
    pub name: String,
    /// The host that has its volumes.
    #[schema(example = "db1")]
    pub host: String,
    pub since_unix_seconds: u64,
    /// The iSCSI name of the pool.
    #[schema(example = "iqn.2026-11.io.ashlar:main-5a80c1d3")]
    pub target: String,
    /// Where the host comes in.
    #[schema(example = json!(["192.0.2.10:3260"]))]
    pub addresses: Vec<String>,
    /// What the host calls itself when it proves who it is; absent: it proves nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap_user: Option<String>,
    /// What the array calls itself when it proves who it is; absent: it need not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual_chap_user: Option<String>,
    /// The major version of its server.
    #[schema(example = 15)]
    pub major_version: u32,
    /// Where the server's programs are on the array's machine.
    #[schema(example = "/usr/lib/postgresql/15/bin")]
    pub programs: String,
    /// The account of its files on the array's machine.
    #[schema(example = "postgres")]
    pub account: String,
    pub user_id: u32,
    pub group_id: u32,
    /// Where its server listens.
    pub port: u16,
    /// Its data directory, on the volume of data.
    pub data_directory: String,
    /// Where its server's socket is, on no volume.
    pub socket_directory: String,
    pub volumes: Vec<DatabaseHandoverVolume>,
    /// A script that does all of it, for root on that machine, with words about each step. It holds no
    /// secret, and has a line for that of the host.
    pub script: String,
}

/// A volume of a clone that is away.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DatabaseHandoverVolume {
    /// What is on it: `data`, `log`, `temp`, or `tablespace-` and the name of one.
    pub role: String,
    pub volume: String,
    /// Its number at the target.
    #[serde(rename = "lun")]
    pub unit: u16,
    /// Its name among all SCSI units: Linux has it as `/dev/disk/by-id/wwn-0x...`.
    #[schema(example = "0x3465391958fc61f1")]
    pub wwn: String,
    #[schema(example = "ext4")]
    pub file_system: String,
    /// Where it is to be mounted: its files name each other by that.
    pub mount: String,
}
