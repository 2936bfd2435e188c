//! Seeded chance: every random decision of a simulated run comes from here.

/// A small generator (SplitMix64): statistically ample for drawing faults and workloads, and the
/// same on every machine.
#[derive(Clone, Debug)]
pub struct Chance {
    state: u64,
}

/// Scrambles a number; used for seeds, digests and block content.
#[must_use]
pub fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Chance {
    /// A generator whose draws depend on `seed` alone.
    #[must_use]
    pub fn new(seed: u64) -> Chance {
        Chance { state: mix(seed) }
    }

    /// An independent generator; drawing from it does not disturb this one's later draws.
    #[must_use]
    pub fn fork(&mut self, label: u64) -> Chance {
        Chance::new(self.next() ^ mix(label))
    }

    /// Any number.
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `bound`, which is at least 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a draw needs at least one outcome");
        // The bias of the remainder is below 2^-32 for the bounds drawn here.
        self.next() % bound
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "empty range {low}..={high}");
        low + self.below(high - low + 1)
    }

    /// True once in `of` draws.
    pub fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    /// True with this many chances in a thousand.
    pub fn per_mille(&mut self, chances: u64) -> bool {
        self.below(1000) < chances
    }

    /// One of `items`, which is not empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// An index drawn by weight; at least one weight is above zero.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
        let total: u64 = weights.iter().sum();
        let mut draw = self.below(total);
        for (index, weight) in weights.iter().enumerate() {
            if draw < *weight {
                return index;
            }
            draw -= weight;
        }
        unreachable!("the draw is below the sum of the weights")
    }
}
