//! Lanes: a drive that serves only so many requests at a time, so that one waits for others.

use std::collections::BTreeMap;

/// When each lane of each drive is free again; without a number of lanes nobody waits.
#[derive(Default)]
pub(super) struct Lanes {
    count: Option<usize>,
    free_at_nanos: BTreeMap<u32, Vec<u64>>,
}

impl Lanes {
    #[cfg(test)]
    pub(super) fn new(count: usize) -> Lanes {
        assert!(count > 0, "a drive without a lane serves nothing");
        Lanes { count: Some(count), free_at_nanos: BTreeMap::new() }
    }

    /// When a request ends that comes now and takes so long by itself.
    pub(super) fn end_of(&mut self, drive: u32, now_nanos: u64, nanos: u64) -> u64 {
        let Some(count) = self.count else { return now_nanos + nanos };
        let lanes = self.free_at_nanos.entry(drive).or_insert_with(|| vec![0; count]);
        let lane = lanes.iter_mut().min().expect("there is a lane");
        *lane = (*lane).max(now_nanos) + nanos;
        *lane
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_waits_for_the_lane_that_is_free_first() {
        let mut lanes = Lanes::new(2);
        assert_eq!([lanes.end_of(0, 10, 5), lanes.end_of(0, 10, 9), lanes.end_of(0, 11, 5)], [15, 19, 20]);
        assert_eq!(lanes.end_of(1, 11, 5), 16, "each drive has its own");
        assert_eq!(Lanes::default().end_of(0, 10, 5), 15);
    }
}
