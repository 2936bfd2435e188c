//! Drawing regions at random, without replacement and in order of their place.
//!
//! Knuth, "The Art of Computer Programming", volume 2, section 3.4.2, algorithm S: each region is
//! taken with the probability still wanted / still to come. It needs no memory, and a scan that reads
//! everything passes the drawn regions on its way.

/// Says of one region after the other whether it is drawn.
#[derive(Clone, Debug)]
pub struct Draw {
    to_come: u64,
    wanted: u64,
    state: u64,
}

/// The same target gives the same estimate: draws differ only by the number of regions. Arbitrary.
const SEED: u64 = 0x0065_7374_696d_6174;

impl Draw {
    /// Draws `wanted` of `regions`, or all when there are fewer.
    #[must_use]
    pub fn new(regions: u64, wanted: u64) -> Draw {
        Draw { to_come: regions, wanted: wanted.min(regions), state: SEED }
    }

    /// How many are drawn in all, from now on.
    #[must_use]
    pub fn wanted(&self) -> u64 {
        self.wanted
    }

    /// Whether the next region is drawn.
    ///
    /// # Panics
    /// After the last region.
    pub fn is_next_drawn(&mut self) -> bool {
        assert!(self.to_come > 0, "asked for more regions than there are");
        // The high half of the product is uniform below `to_come` but for one part in 2^64 / regions.
        let at = (u128::from(self.random()) * u128::from(self.to_come)) >> 64;
        let is_drawn = at < u128::from(self.wanted);
        self.to_come -= 1;
        self.wanted -= u64::from(is_drawn);
        is_drawn
    }

    /// SplitMix64 (Steele, Lea and Flood 2014): enough for sampling, and needs no crate.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }
}
