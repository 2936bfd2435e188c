//! Finds the counters of a volume and a door, and takes snapshots of all of them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::counters::{Counters, CountersSnapshot};

/// All counters of one shard.
#[derive(Default)]
pub struct Registry {
    counters: RefCell<BTreeMap<(&'static str, String), Rc<Counters>>>,
}

impl Registry {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Registry {
        Registry::default()
    }

    /// The counters of this volume through this door (`nbd`, `fuse`), made at the first call. Targets
    /// keep the result for as long as a connection lives, so this is not on the path of a request.
    #[must_use]
    pub fn counters(&self, door: &'static str, volume: &str) -> Rc<Counters> {
        let mut counters = self.counters.borrow_mut();
        Rc::clone(counters.entry((door, volume.to_string())).or_default())
    }

    /// Drops the counters of a volume that was deleted; a later volume of the same name starts at zero.
    pub fn forget(&self, volume: &str) {
        self.counters.borrow_mut().retain(|(_, name), _| name != volume);
    }

    /// The present counts of everything.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let counters = self.counters.borrow();
        Snapshot {
            entries: counters
                .iter()
                .map(|((door, volume), counters)| SnapshotEntry {
                    door: (*door).to_string(),
                    volume: volume.clone(),
                    counters: counters.snapshot(),
                })
                .collect(),
        }
    }
}

/// One volume through one door in a [`Snapshot`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotEntry {
    /// The door, `nbd` or `fuse`.
    pub door: String,
    /// The volume's name.
    pub volume: String,
    /// What was counted.
    pub counters: CountersSnapshot,
}

/// Everything a shard had counted at one moment, ordered by door and volume.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Snapshot {
    /// The entries, ordered by door, then volume.
    pub entries: Vec<SnapshotEntry>,
}

impl Snapshot {
    /// Adds what another shard counted.
    pub fn merge(&mut self, other: &Snapshot) {
        for theirs in &other.entries {
            let key = (theirs.door.as_str(), theirs.volume.as_str());
            match self.entries.binary_search_by(|e| (e.door.as_str(), e.volume.as_str()).cmp(&key)) {
                Ok(index) => self.entries[index].counters.merge(&theirs.counters),
                Err(index) => self.entries.insert(index, theirs.clone()),
            }
        }
    }

    /// The sum over all doors for one volume.
    #[must_use]
    pub fn volume(&self, name: &str) -> CountersSnapshot {
        let mut total = CountersSnapshot::default();
        for entry in self.entries.iter().filter(|entry| entry.volume == name) {
            total.merge(&entry.counters);
        }
        total
    }
}
