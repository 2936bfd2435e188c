//! How full the file systems of a database's volumes are.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};

use crate::record::Role;
use crate::site::Site;

/// The file system of one volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Usage {
    /// What is on the volume.
    pub role: Role,
    /// Of all files, with what the file system needs for them.
    pub used_bytes: u64,
    /// What a server's account may still write: less than is free, since root keeps a part for itself.
    pub available_bytes: u64,
    /// How large the file system is, but for its own tables.
    pub size_bytes: u64,
}

impl Usage {
    /// How full it is for whoever is not root.
    #[must_use]
    pub fn percent(&self) -> u64 {
        let all = self.used_bytes + self.available_bytes;
        (self.used_bytes * 100).checked_div(all).unwrap_or(0)
    }
}

/// Those of the volumes that are mounted.
pub(crate) fn usage(site: &Site) -> Vec<Usage> {
    let device = |path: &std::path::Path| fs::metadata(path).map(|found| found.dev());
    let around = device(&site.directory).ok();
    let of_role = |role: &Role| {
        let mount = site.mount(role);
        // What is not mounted would show the file system around it.
        if device(&mount).ok() == around {
            return None;
        }
        let found = rustix::fs::statvfs(&mount).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Some(Usage {
            role: role.clone(),
            used_bytes: bytes(found.f_blocks.saturating_sub(found.f_bfree)),
            available_bytes: bytes(found.f_bavail),
            size_bytes: bytes(found.f_blocks),
        })
    };
    site.roles.iter().filter_map(of_role).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_root_keeps_for_itself_is_not_room() {
        let found = Usage { role: Role::Data, used_bytes: 80, available_bytes: 10, size_bytes: 100 };
        assert_eq!(found.percent(), 88);
        let empty = Usage { role: Role::Data, used_bytes: 0, available_bytes: 0, size_bytes: 0 };
        assert_eq!(empty.percent(), 0);
    }
}
