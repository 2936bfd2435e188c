//! Which pool holds which name.

use std::collections::BTreeMap;

use crate::array::Contents;
use crate::error::{Error, Result};

/// Names of volumes and snapshots over all open pools.
#[derive(Default)]
pub(super) struct Index {
    volumes: BTreeMap<String, String>,
    snapshots: BTreeMap<String, Group>,
}

/// A snapshot's pool and volumes.
#[derive(Clone)]
pub(super) struct Group {
    pub(super) pool: String,
    pub(super) volumes: Vec<String>,
}

impl Index {
    /// Adds what a pool holds; refuses, changing nothing, when a name is held by another pool.
    pub(super) fn add_pool(&mut self, pool: &str, contents: &Contents) -> Result<()> {
        let volume = contents.volumes.iter().find_map(|name| self.volumes.get_key_value(name));
        if let Some((name, other)) = volume {
            return Err(held_twice("volume", name, pool, other));
        }
        let snapshot = contents.snapshots.iter().find_map(|(name, _)| self.snapshots.get_key_value(name));
        if let Some((name, other)) = snapshot {
            return Err(held_twice("snapshot", name, pool, &other.pool));
        }
        for name in &contents.volumes {
            self.add_volume(name, pool);
        }
        for (name, volumes) in &contents.snapshots {
            self.add_snapshot(name, pool, volumes);
        }
        Ok(())
    }

    /// The same for a pool that may be known from an earlier opening.
    pub(super) fn replace_pool(&mut self, pool: &str, contents: &Contents) -> Result<()> {
        self.remove_pool(pool);
        self.add_pool(pool, contents)
    }

    pub(super) fn remove_pool(&mut self, pool: &str) {
        self.volumes.retain(|_, holder| holder != pool);
        self.snapshots.retain(|_, group| group.pool != pool);
    }

    pub(super) fn add_volume(&mut self, name: &str, pool: &str) {
        self.volumes.insert(name.to_string(), pool.to_string());
    }

    /// The volumes of a pool.
    pub(super) fn volumes_of(&self, pool: &str) -> Vec<String> {
        let of_pool = self.volumes.iter().filter(|(_, holder)| *holder == pool);
        of_pool.map(|(volume, _)| volume.clone()).collect()
    }

    pub(super) fn remove_volume(&mut self, name: &str) {
        self.volumes.remove(name);
    }

    pub(super) fn add_snapshot(&mut self, name: &str, pool: &str, volumes: &[String]) {
        let group = Group { pool: pool.to_string(), volumes: volumes.to_vec() };
        self.snapshots.insert(name.to_string(), group);
    }

    pub(super) fn remove_snapshot(&mut self, name: &str) {
        self.snapshots.remove(name);
    }

    /// The pool of a volume.
    pub(super) fn volume(&self, name: &str) -> Result<String> {
        self.volumes.get(name).cloned().ok_or_else(|| self.no_volume(name))
    }

    /// The pool and the volumes of a snapshot.
    pub(super) fn snapshot(&self, name: &str) -> Result<Group> {
        self.snapshots.get(name).cloned().ok_or_else(|| self.no_snapshot(name))
    }

    /// What to do instead, where a name is a snapshot's or an image's.
    fn no_volume(&self, name: &str) -> Error {
        let error = Error::not_found("volume", name);
        if let Some(group) = self.snapshots.get(name) {
            let images: Vec<String> =
                group.volumes.iter().map(|volume| format!("`{volume}@{name}`")).collect();
            let action = format!(
                "`{name}` is a snapshot: what it holds is {}, and `ashlar snapshot` has its verbs",
                images.join(", ")
            );
            return Error { action, ..error };
        }
        match self.image(name) {
            Some((_, snapshot)) => Error {
                action: format!(
                    "it is read-only, in snapshot `{snapshot}`: `ashlar clone create NAME --from {name}` makes \
                     a volume of it, and `ashlar snapshot` has the snapshot's verbs"
                ),
                ..error
            },
            None => error,
        }
    }

    /// The same, where a name is a volume's or an image's.
    fn no_snapshot(&self, name: &str) -> Error {
        let error = Error::not_found("snapshot", name);
        if let Some((volume, snapshot)) = self.image(name) {
            let action = format!("`{snapshot}` is the snapshot's name, `{name}` its image of `{volume}`");
            return Error { action, ..error };
        }
        if self.volumes.contains_key(name) {
            let action =
                format!("`{name}` is a volume; `ashlar snapshot list` shows the snapshots there are");
            return Error { action, ..error };
        }
        error
    }

    /// The volume and the snapshot of `VOLUME@SNAPSHOT`, if there is such an image.
    fn image<'a>(&self, name: &'a str) -> Option<(&'a str, &'a str)> {
        let (volume, snapshot) = name.split_once('@')?;
        let group = self.snapshots.get(snapshot)?;
        group.volumes.iter().any(|own| own == volume).then_some((volume, snapshot))
    }

    /// The name of the next snapshot that a restore takes of what was there before.
    pub(super) fn name_of_backup(&self) -> String {
        const BEGINNING: &str = "auto-before-restore-";
        let numbers =
            self.snapshots.keys().filter_map(|name| name.strip_prefix(BEGINNING)?.parse::<u32>().ok());
        let next = u64::from(numbers.max().unwrap_or(0)) + 1;
        format!("{BEGINNING}{next}")
    }

    /// Whether a snapshot holds a volume of this name.
    pub(super) fn has_images_of(&self, volume: &str) -> bool {
        self.snapshots.values().any(|group| group.volumes.iter().any(|name| name == volume))
    }

    /// The volumes and snapshots of a pool.
    pub(super) fn counts(&self, pool: &str) -> (usize, usize) {
        let volumes = self.volumes.values().filter(|holder| *holder == pool).count();
        (volumes, self.snapshots.values().filter(|group| group.pool == pool).count())
    }

    /// Refuses a name that is taken.
    pub(super) fn check_volume_free(&self, name: &str) -> Result<()> {
        self.volumes.get(name).map_or(Ok(()), |pool| Err(Error::exists("volume", name, pool)))
    }

    /// Refuses a name that is taken.
    pub(super) fn check_snapshot_free(&self, name: &str) -> Result<()> {
        self.snapshots.get(name).map_or(Ok(()), |group| Err(Error::exists("snapshot", name, &group.pool)))
    }
}

fn held_twice(what: &str, name: &str, pool: &str, other: &str) -> Error {
    Error::new(
        ashlar_api::ErrorKind::Exists,
        format!("pool `{pool}` and pool `{other}` both hold a {what} `{name}`"),
        "serve them by two arrays (two state directories), or delete one of the two",
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn who_takes_a_snapshot_for_a_volume_is_told_its_images() {
        let mut index = Index::default();
        index.add_volume("db", "main");
        index.add_snapshot("monday", "main", &["db".to_string(), "wal".to_string()]);
        let action = |found: Result<String>| found.unwrap_err().action;
        assert!(action(index.volume("monday")).contains("`db@monday`, `wal@monday`"));
        assert!(action(index.volume("db@monday")).contains("snapshot `monday`"));
        assert!(action(index.volume("x@monday")).contains("volume list"));
        let action = |name: &str| index.snapshot(name).err().unwrap().action;
        assert!(action("wal@monday").contains("`monday`"));
        assert!(action("db").contains("`db` is a volume"));
        assert!(action("nope").contains("snapshot list"));
    }

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
