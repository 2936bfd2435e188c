//! A set of units of data of limited size that forgets what was used least recently.

use std::collections::BTreeMap;

/// No neighbour.
const NONE: usize = usize::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    unit: u64,
    newer: usize,
    older: usize,
}

/// Least recently used, as a list through a table.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    unit_bytes: u64,
    room: usize,
    /// A tree and not a hash map: the standard's hash maps draw a key from the system.
    index_of: BTreeMap<u64, usize>,
    nodes: Vec<Node>,
    newest: usize,
    oldest: usize,
}

impl Recent {
    /// With room for as many units as fit the size.
    pub(crate) fn new(size_bytes: u64, unit_bytes: u64) -> Recent {
        let room = usize::try_from(size_bytes / unit_bytes).expect("a cache's units fit the memory");
        let (index_of, nodes) = (BTreeMap::new(), Vec::new());
        Recent { unit_bytes, room, index_of, nodes, newest: NONE, oldest: NONE }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.room == 0
    }

    /// The bytes of the whole units that these bytes touch.
    pub(crate) fn around(&self, offset: u64, end: u64) -> (u64, u64) {
        (offset / self.unit_bytes * self.unit_bytes, end.next_multiple_of(self.unit_bytes))
    }

    pub(crate) fn units(&self, offset: u64, end: u64) -> std::ops::Range<u64> {
        offset / self.unit_bytes..end.div_ceil(self.unit_bytes)
    }

    /// Whether all these bytes are there; what is there counts as used.
    pub(crate) fn look_up(&mut self, offset: u64, end: u64) -> bool {
        let mut has_all = !self.is_none();
        if has_all {
            for unit in self.units(offset, end) {
                has_all &= self.refresh(unit);
            }
        }
        has_all
    }

    /// Counts the unit as used if it is there, and says whether.
    pub(crate) fn refresh(&mut self, unit: u64) -> bool {
        let Some(index) = self.index_of.get(&unit).copied() else {
            return false;
        };
        if index != self.newest {
            self.unlink(index);
            self.link(index);
        }
        true
    }

    /// Puts in the units that these bytes touch.
    pub(crate) fn insert_all(&mut self, offset: u64, end: u64) {
        if !self.is_none() {
            self.units(offset, end).for_each(|unit| self.insert(unit));
        }
    }

    /// Puts the unit in, in the place of the oldest if there is no room.
    pub(crate) fn insert(&mut self, unit: u64) {
        if self.is_none() || self.refresh(unit) {
            return;
        }
        let node = Node { unit, newer: NONE, older: NONE };
        let index = if self.nodes.len() < self.room {
            self.nodes.push(node);
            self.nodes.len() - 1
        } else {
            let index = self.oldest;
            self.unlink(index);
            self.index_of.remove(&self.nodes[index].unit);
            self.nodes[index] = node;
            index
        };
        self.index_of.insert(unit, index);
        self.link(index);
    }

    fn unlink(&mut self, index: usize) {
        let Node { newer, older, .. } = self.nodes[index];
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older].newer = newer,
        }
    }

    /// In front of all others.
    fn link(&mut self, index: usize) {
        self.nodes[index].newer = NONE;
        self.nodes[index].older = self.newest;
        match self.newest {
            NONE => self.oldest = index,
            newest => self.nodes[newest].newer = index,
        }
        self.newest = index;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_unit_is_forgotten() {
        let mut recent = Recent::new(3000, 1000);
        (1..=3).for_each(|unit| recent.insert(unit));
        assert!(recent.refresh(1));
        recent.insert(4);
        assert_eq!([1, 2, 3, 4].map(|unit| recent.index_of.contains_key(&unit)), [true, false, true, true]);
        recent.insert(4);
        recent.insert(5);
        assert_eq!([1, 3, 4, 5].map(|unit| recent.refresh(unit)), [true, false, true, true]);
        assert_eq!(recent.nodes.len(), 3);
    }

    #[test]
    fn a_range_is_there_when_every_unit_of_it_is() {
        let mut recent = Recent::new(10_000, 1000);
        (2..=4).for_each(|unit| recent.insert(unit));
        assert!(recent.look_up(2500, 4001));
        assert!(!recent.look_up(1999, 3000));
        assert!(!recent.look_up(4500, 5001));
        assert_eq!(recent.around(2500, 4001), (2000, 5000));
    }

    #[test]
    fn a_cache_of_no_size_holds_nothing() {
        let mut recent = Recent::new(0, 1000);
        recent.insert(1);
        assert!(!recent.look_up(1000, 2000));
    }

    #[test]
    fn it_agrees_with_a_plain_list() {
        let mut random = ashlar_statistics::random::SplitMix64::new(3);
        let mut recent = Recent::new(8, 1);
        let mut list: Vec<u64> = Vec::new();
        for _ in 0..5000 {
            let unit = random.below(20);
            let was_there = list.contains(&unit);
            assert_eq!(recent.refresh(unit), was_there);
            list.retain(|other| *other != unit);
            if was_there || random.below(2) == 0 {
                recent.insert(unit);
                list.insert(0, unit);
                list.truncate(8);
            }
        }
    }
}
