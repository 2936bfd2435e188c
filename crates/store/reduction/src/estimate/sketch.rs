//! The sketch: fingerprints of all blocks, of which those whose value falls in a sample are kept.
//!
//! ```text
//! fingerprints of a target   0 ├──kept──┤────────────────────────── not kept ─────────────────┤ 2^64
//!                              └ when full: the upper half goes, and the sampling rate halves ┘
//! ```
//!
//! A fingerprint is in the sample or not wherever its block stands, so all copies of a block are
//! counted together; sampling places instead would miss most copies. With S fingerprints kept at a
//! rate p the number of distinct blocks is S / p, with the variance S (1 - p) / p². As long as nothing
//! was dropped, p is 1 and the count is exact.

use std::collections::{BTreeMap, BTreeSet};

use super::interval::{DEVIATIONS, Interval};

/// Fingerprints kept at most. An interval is then 0.2 to 0.3 % of the distinct blocks to either side
/// (1.96 / √S, S between half and all of this), counts are exact up to 4 GiB of distinct data, and
/// memory stays near 100 MiB.
const KEPT_MAX: usize = 1 << 20;

/// Neighbours kept for each of these fingerprints, on average. Most blocks have one on each side; a
/// block that is everywhere may have any number.
const NEIGHBOURS_MAX: usize = 4;

/// Says "nothing here" instead of a neighbour; [`Sketch::add`] never keeps it.
const NOTHING: u64 = 0;

/// Fingerprints of the blocks of one target, in their order.
pub(super) struct Sketch {
    kept_max: usize,
    /// The rate is 2^-level: fingerprints whose upper `level` bits are zero are kept.
    level: u32,
    /// Fingerprints in the sample, with the copies that a dedupe with runs of two would store.
    kept: BTreeMap<u64, u64>,
    neighbours: BTreeSet<(u64, Neighbour)>,
    blocks: u64,
    before: u64,
    current: u64,
}

/// Who stood before or after a block. The lower half of its fingerprint: a wrong match in 2^32 saves a
/// third of the memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Neighbour {
    Before(u32),
    After(u32),
}

/// What a dedupe by content would keep.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Dedupe {
    /// Blocks looked at that are not zero.
    pub data_blocks: u64,
    /// How many different ones there are: what is stored when every equal block is found.
    pub distinct_blocks: Interval,
    /// What is stored when a block counts as equal only together with the block before or after it:
    /// the two have been neighbours before. An index that leads to one place of each block finds no
    /// more runs than that.
    pub stored_blocks_run_2: Interval,
}

impl Sketch {
    pub(super) fn new() -> Sketch {
        Sketch::with_limit(KEPT_MAX)
    }

    pub(super) fn with_limit(kept_max: usize) -> Sketch {
        assert!(kept_max > 0, "a sketch that keeps nothing tells nothing");
        Sketch {
            kept_max,
            level: 0,
            kept: BTreeMap::new(),
            neighbours: BTreeSet::new(),
            blocks: 0,
            before: NOTHING,
            current: NOTHING,
        }
    }

    /// The next block's fingerprint.
    pub(super) fn add(&mut self, fingerprint: u64) {
        let fingerprint = fingerprint.max(NOTHING + 1);
        self.blocks += 1;
        self.settle(fingerprint);
        (self.before, self.current) = (self.current, fingerprint);
    }

    /// The next block is no neighbour of the one before: zeroes or something unread are in between.
    pub(super) fn gap(&mut self) {
        self.settle(NOTHING);
        (self.before, self.current) = (NOTHING, NOTHING);
    }

    /// Counts the current block, now that both of its neighbours are known.
    fn settle(&mut self, after: u64) {
        if self.current == NOTHING || !self.is_sampled(self.current) {
            return;
        }
        let is_run_before = self.is_known(self.before, Neighbour::Before);
        let is_run_after = self.is_known(after, Neighbour::After);
        let is_stored = !is_run_before && !is_run_after;
        *self.kept.entry(self.current).or_default() += u64::from(is_stored);
        while self.kept.len() > self.kept_max || self.neighbours.len() > self.kept_max * NEIGHBOURS_MAX {
            self.level += 1;
            let end = 1 << (64 - self.level);
            self.kept.split_off(&end);
            self.neighbours.split_off(&(end, Neighbour::Before(0)));
        }
    }

    /// True when the current block stood beside `other` before; from now on it did.
    fn is_known(&mut self, other: u64, side: fn(u32) -> Neighbour) -> bool {
        other != NOTHING && !self.neighbours.insert((self.current, side(other as u32)))
    }

    fn is_sampled(&self, fingerprint: u64) -> bool {
        self.level == 0 || fingerprint >> (64 - self.level) == 0
    }

    pub(super) fn finish(mut self) -> Dedupe {
        self.gap();
        let rate = 0.5_f64.powi(self.level as i32);
        let distinct = self.kept.len() as f64;
        let stored: u64 = self.kept.values().sum();
        let squares: f64 = self.kept.values().map(|stored| (*stored as f64).powi(2)).sum();
        Dedupe {
            data_blocks: self.blocks,
            distinct_blocks: self.scaled(distinct, distinct, rate),
            stored_blocks_run_2: self.scaled(stored as f64, squares, rate),
        }
    }

    /// A total over the sample scaled up to everything. Each fingerprint is in the sample with the
    /// probability `rate`, so the variance is (1 - rate) / rate² times the sum of the squares.
    fn scaled(&self, total: f64, squares: f64, rate: f64) -> Interval {
        let half_width = DEVIATIONS * ((1.0 - rate) * squares).sqrt() / rate;
        // What was kept is there, and nothing is stored twice.
        let range = (self.kept.len() as f64, self.blocks as f64);
        Interval::around(total / rate, half_width, range)
    }
}
