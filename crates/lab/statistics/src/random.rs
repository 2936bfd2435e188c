//! Random numbers from a seed: whole numbers, shares of one, and times between chance events. The same on
//! every machine and in every version, so that a plan, a report or a simulation can be made again.

use std::time::Duration;

/// SplitMix64 (Steele, Lea and Flood 2014): small, and good enough for addresses and pauses.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// From a seed.
    #[must_use]
    pub fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to `count` - 1, each equally often but for one in 2^64.
    pub fn below(&mut self, count: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(count)) >> 64) as u64
    }

    /// The place of one of `count` things.
    pub fn index(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }

    /// At least 0 and below 1, in steps of 2^-53.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The time to the next of events that come by chance: exponential with this mean.
    pub fn pause(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(-(1.0 - self.share()).ln())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_gives_the_published_numbers() {
        // The first for seed 1234567, as listed at Rosetta Code under "Splitmix64".
        let mut random = SplitMix64::new(1_234_567);
        let first = [random.next(), random.next(), random.next()];
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn shares_and_pauses_have_their_means() {
        let mut random = SplitMix64::new(1);
        let count = 100_000;
        let shares: f64 = (0..count).map(|_| random.share()).sum();
        assert!((shares / f64::from(count) - 0.5).abs() < 0.005);
        let pauses: Duration = (0..count).map(|_| random.pause(Duration::from_millis(5))).sum();
        let mean = pauses.as_secs_f64() / f64::from(count);
        assert!((mean - 0.005).abs() < 0.000_1, "{mean}");
        assert!((0..1000).all(|_| random.below(7) < 7));
    }
}
