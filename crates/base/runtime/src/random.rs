//! The shard's own random numbers (xoshiro256**), so that a seed repeats a run.

/// A small fast generator; not for secrets.
pub(crate) struct Random {
    state: [u64; 4],
}

/// One step of SplitMix64: spreads a poor seed over 64 good bits.
fn split_mix(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Random {
    pub(crate) fn from_seed(mut seed: u64) -> Random {
        Random { state: core::array::from_fn(|_| split_mix(&mut seed)) }
    }

    pub(crate) fn from_system() -> Random {
        let mut seed = [0u8; 8];
        // SAFETY: the pointer and length describe `seed`, which outlives the call.
        let got = unsafe { libc::getrandom(seed.as_mut_ptr().cast(), seed.len(), 0) };
        if got != 8 {
            // The kernel refused (very old or sandboxed): the clock still separates two runs.
            seed = crate::clock::monotonic_nanos().to_le_bytes();
        }
        Random::from_seed(u64::from_le_bytes(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below `bound` (which is not zero).
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}
