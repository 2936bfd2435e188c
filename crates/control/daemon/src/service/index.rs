//! Which pool holds which name.

use std::collections::BTreeMap;

use crate::array::Contents;
use crate::error::{Error, Result};

/// Names of volumes and snapshots over all open pools.
#[derive(Default)]
pub(super) struct Index {
    volumes: BTreeMap<String, String>,
    snapshots: BTreeMap<String, String>,
}

impl Index {
    /// Adds what a pool holds; refuses, changing nothing, when a name is held by another pool.
    pub(super) fn add_pool(&mut self, pool: &str, contents: &Contents) -> Result<()> {
        for (what, index, names) in
            [("volume", &self.volumes, &contents.volumes), ("snapshot", &self.snapshots, &contents.snapshots)]
        {
            if let Some((name, other)) = names.iter().find_map(|name| index.get_key_value(name)) {
                return Err(Error::new(
                    ashlar_api::ErrorKind::Exists,
                    format!("pool `{pool}` and pool `{other}` both hold a {what} `{name}`"),
                    "serve them by two arrays (two state directories), or delete one of the two",
                ));
            }
        }
        self.volumes.extend(contents.volumes.iter().map(|name| (name.clone(), pool.to_string())));
        self.snapshots.extend(contents.snapshots.iter().map(|name| (name.clone(), pool.to_string())));
        Ok(())
    }

    pub(super) fn remove_pool(&mut self, pool: &str) {
        self.volumes.retain(|_, holder| holder != pool);
        self.snapshots.retain(|_, holder| holder != pool);
    }

    pub(super) fn add_volume(&mut self, name: &str, pool: &str) {
        self.volumes.insert(name.to_string(), pool.to_string());
    }

    pub(super) fn remove_volume(&mut self, name: &str) {
        self.volumes.remove(name);
    }

    pub(super) fn add_snapshot(&mut self, name: &str, pool: &str) {
        self.snapshots.insert(name.to_string(), pool.to_string());
    }

    pub(super) fn remove_snapshot(&mut self, name: &str) {
        self.snapshots.remove(name);
    }

    /// The pool of a volume.
    pub(super) fn volume(&self, name: &str) -> Result<String> {
        self.volumes.get(name).cloned().ok_or_else(|| Error::not_found("volume", name))
    }

    /// The pool of a snapshot.
    pub(super) fn snapshot(&self, name: &str) -> Result<String> {
        self.snapshots.get(name).cloned().ok_or_else(|| Error::not_found("snapshot", name))
    }

    /// The volumes and snapshots of a pool.
    pub(super) fn counts(&self, pool: &str) -> (usize, usize) {
        let count =
            |index: &BTreeMap<String, String>| index.values().filter(|holder| *holder == pool).count();
        (count(&self.volumes), count(&self.snapshots))
    }

    /// The volumes of a pool.
    pub(super) fn volumes_of(&self, pool: &str) -> Vec<String> {
        self.volumes.iter().filter(|(_, holder)| *holder == pool).map(|(name, _)| name.clone()).collect()
    }

    /// Refuses a name that is taken.
    pub(super) fn check_volume_free(&self, name: &str) -> Result<()> {
        self.volumes.get(name).map_or(Ok(()), |pool| Err(Error::exists("volume", name, pool)))
    }

    /// Refuses a name that is taken.
    pub(super) fn check_snapshot_free(&self, name: &str) -> Result<()> {
        self.snapshots.get(name).map_or(Ok(()), |pool| Err(Error::exists("snapshot", name, pool)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_pool_that_brings_a_taken_name_adds_nothing() {
        let contents = |volumes: &[&str]| Contents {
            volumes: volumes.iter().map(|name| (*name).to_string()).collect(),
            snapshots: Vec::new(),
        };
        let mut index = Index::default();
        index.add_pool("one", &contents(&["a", "b"])).unwrap();
        assert!(index.add_pool("two", &contents(&["c", "b"])).is_err());
        assert!(index.volume("c").is_err());
        index.remove_pool("one");
        index.add_pool("two", &contents(&["c", "b"])).unwrap();
        assert_eq!(index.volume("b").unwrap(), "two");
        assert_eq!(index.counts("two"), (2, 0));
    }
}
