//! The records of hosts and exports, as notebooks keep them.

use ashlar_api::ChapLogin;
use ashlar_block::Identity;
use ashlar_iscsi::chap::Credential;
use serde::{Deserialize, Serialize};

/// What the names of targets begin with (RFC 7143 4.2.7.5): a pool's name stands behind it.
const TARGET_PREFIX: &str = "iqn.2026-11.io.ashlar:";

/// A host that may come in. Kept as a note whose value is never shown: it holds secrets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostRecord {
    pub(crate) name: String,
    /// Its iSCSI name, in small letters.
    pub(crate) initiator: String,
    /// What it proves to us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chap: Option<ChapLogin>,
    /// What we prove to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mutual_chap: Option<ChapLogin>,
    pub(crate) created_unix_seconds: u64,
}

/// An export of the volume that its note is about.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ExportRecord {
    /// Its address at the target.
    pub(crate) unit: u16,
    pub(crate) block_bytes: u32,
    /// Who sees it; nobody named: everybody who comes in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) hosts: Vec<String>,
    pub(crate) created_unix_seconds: u64,
}

/// A host that an open pool remembers.
#[derive(Clone)]
pub(crate) struct NotedHost {
    pub(crate) pool: String,
    pub(crate) number: u64,
    pub(crate) record: HostRecord,
}

/// An export that an open pool remembers, of a volume that is there.
#[derive(Clone)]
pub(crate) struct NotedExport {
    pub(crate) pool: String,
    pub(crate) volume: String,
    pub(crate) identity: Identity,
    pub(crate) record: ExportRecord,
}

/// The target that a pool is.
#[derive(Clone)]
pub(crate) struct NotedTarget {
    pub(crate) name: String,
    pub(crate) pool: String,
}

impl NotedExport {
    /// The unit before a change is the unit behind it.
    pub(crate) fn is_same_unit(&self, other: &NotedExport) -> bool {
        self.identity == other.identity && self.record.block_bytes == other.record.block_bytes
    }

    /// Whether a host sees it; `None` is whoever is no host of the pool.
    pub(crate) fn is_for(&self, host: Option<&str>) -> bool {
        let hosts = &self.record.hosts;
        hosts.is_empty() || host.is_some_and(|host| hosts.iter().any(|one| one == host))
    }
}

/// A login as the protocol takes it. Records hold none that it refuses.
pub(crate) fn credential(login: &ChapLogin) -> Option<Credential> {
    Credential::new(&login.user, login.secret.as_bytes()).ok()
}

/// The name of a pool's target. It must be that of no other in the world (RFC 7143 4.2.7.1), and two arrays
/// may both have a pool `main`: the pool's own number tells them apart. Names of iSCSI have small letters,
/// digits, dots and dashes (RFC 3722).
pub(crate) fn target_name(pool: &str, number: u128) -> String {
    let small = pool.to_ascii_lowercase().replace('_', "-");
    format!("{TARGET_PREFIX}{small}-{:08x}", number >> 96)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_names_that_every_initiator_takes_and_no_two_pools_share() {
        assert_eq!(target_name("main", 0x89ab_cdef << 96), "iqn.2026-11.io.ashlar:main-89abcdef");
        let odd = target_name("My_Pool.1", 0x0123_4567 << 96);
        assert_eq!(odd, "iqn.2026-11.io.ashlar:my-pool.1-01234567");
        assert_ne!(target_name("a", 1 << 96), target_name("a", 2 << 96));
    }

    #[test]
    fn an_export_that_names_nobody_is_for_everybody() {
        let export = |hosts: &[&str]| NotedExport {
            pool: "main".to_string(),
            volume: "db".to_string(),
            identity: Identity { pool: 1, image: 1 },
            record: ExportRecord {
                unit: 0,
                block_bytes: 512,
                hosts: hosts.iter().map(|host| (*host).to_string()).collect(),
                created_unix_seconds: 0,
            },
        };
        assert!(export(&[]).is_for(None) && export(&[]).is_for(Some("a")));
        assert!(export(&["a", "b"]).is_for(Some("b")));
        assert!(!export(&["a"]).is_for(Some("b")) && !export(&["a"]).is_for(None));
    }
}
