//! Random numbers from a seed: every client, and every part of a load, has a generator of its own.

use std::time::Duration;

use rand::{Rng, RngExt};
use rand_pcg::Pcg64;

/// Times drawn from the negative exponential distribution are cut at so many times their mean
/// (as in the rules that `orders` derives from; one draw in 22,000 is).
const EXPONENTIAL_CUT: f64 = 10.0;

const ALPHANUMERIC: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// A generator: the same seed and stream give the same numbers.
pub struct Random(Pcg64);

impl Random {
    /// The generator of one stream of a seed.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Random {
        // The state is mixed too: streams of PCG that only differ in their increment are related.
        let first = mixed(seed ^ mixed(stream));
        let second = mixed(first ^ seed.rotate_left(32));
        let state = (u128::from(first) << 64) | u128::from(second);
        Random(Pcg64::new(state, (u128::from(seed) << 64) | u128::from(stream)))
    }

    /// Uniform from `low` to `high`, both included.
    ///
    /// # Panics
    /// When `high` is below `low`.
    pub fn between(&mut self, low: i32, high: i32) -> i32 {
        self.0.random_range(low..=high)
    }

    /// Uniform from `low` to `high`, both included.
    ///
    /// # Panics
    /// When `high` is below `low`.
    pub fn between_wide(&mut self, low: i64, high: i64) -> i64 {
        self.0.random_range(low..=high)
    }

    /// Uniform from 0 to below 1.
    pub fn share(&mut self) -> f64 {
        self.0.random()
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Whether something happens that does so in `percent` of all cases.
    pub fn is_percent(&mut self, percent: f64) -> bool {
        self.share() * 100.0 < percent
    }

    /// A time from the negative exponential distribution, cut at ten times its mean.
    pub fn exponential_cut(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(self.exponential().min(EXPONENTIAL_CUT))
    }

    /// From the negative exponential distribution with mean 1.
    pub fn exponential(&mut self) -> f64 {
        // 1 - share is never zero.
        -(1.0 - self.share()).ln()
    }

    /// Appends `min` to `max` letters and digits.
    pub fn letters(&mut self, min: i32, max: i32, text: &mut Vec<u8>) {
        self.symbols(min, max, ALPHANUMERIC, text);
    }

    /// Appends `count` digits.
    pub fn digits(&mut self, count: i32, text: &mut Vec<u8>) {
        self.symbols(count, count, b"0123456789", text);
    }

    fn symbols(&mut self, min: i32, max: i32, symbols: &[u8], text: &mut Vec<u8>) {
        let mut left = if min == max { min } else { self.between(min, max) };
        while left > 0 {
            let mut bits = self.bits();
            for _ in 0..left.min(4) {
                // 16 bits times the number of symbols: no symbol is favoured by more than 0.1 %.
                text.push(symbols[((bits & 0xFFFF) as usize * symbols.len()) >> 16]);
                bits >>= 16;
            }
            left -= 4;
        }
    }

    /// Puts the items into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.0.random_range(0..=last);
            items.swap(last, other);
        }
    }
}

/// Not uniform: some values come much more often than others, as customers and goods do.
///
/// `(((rand(0..=a) | rand(low..=high)) + c) mod (high - low + 1)) + low`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NonUniform {
    /// How strong the preference is.
    pub a: i32,
    /// The smallest value.
    pub low: i32,
    /// The largest value.
    pub high: i32,
    /// Which values are preferred.
    pub c: i32,
}

impl NonUniform {
    /// A value.
    pub fn draw(&self, random: &mut Random) -> i32 {
        let drawn = random.between(0, self.a) | random.between(self.low, self.high);
        ((drawn + self.c) % (self.high - self.low + 1)) + self.low
    }
}

/// Spreads the bits of a number over all 64 (the finaliser of SplitMix64).
pub(crate) const fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_stream_say_which_numbers_come() {
        let drawn = |seed, stream| {
            let mut random = Random::new(seed, stream);
            (0..8).map(|_| random.bits()).collect::<Vec<_>>()
        };
        assert_eq!(drawn(1, 2), drawn(1, 2));
        assert_ne!(drawn(1, 2), drawn(1, 3));
        assert_ne!(drawn(1, 2), drawn(2, 2));
        // Results are repeated by their seed on other machines and by later versions: these never change.
        assert_eq!(drawn(1, 2)[..2], [5566165273055303062, 8061971546427301407], "the generator changed");
    }

    #[test]
    fn times_are_exponential_and_cut() {
        let mut random = Random::new(3, 0);
        let mean = Duration::from_secs(10);
        let times: Vec<f64> = (0..200_000).map(|_| random.exponential_cut(mean).as_secs_f64()).collect();
        let measured = times.iter().sum::<f64>() / times.len() as f64;
        assert!((9.9..10.1).contains(&measured), "{measured}");
        let above_mean = times.iter().filter(|time| **time > 10.0).count() as f64 / times.len() as f64;
        assert!((0.36..0.375).contains(&above_mean), "1/e, not {above_mean}");
        let longest = times.iter().copied().fold(0.0, f64::max);
        assert!((95.0..=100.0).contains(&longest), "{longest}");
    }

    #[test]
    fn what_is_not_uniform_stays_in_its_range_and_prefers_some() {
        let mut random = Random::new(4, 0);
        let items = NonUniform { a: 8191, low: 1, high: 1000, c: 77 };
        let mut counts = [0_u32; 1001];
        for _ in 0..100_000 {
            counts[items.draw(&mut random) as usize] += 1;
        }
        assert_eq!(counts[0], 0);
        assert_eq!(counts.iter().sum::<u32>(), 100_000);
        let most = counts.iter().max().copied().unwrap_or(0);
        assert!(most > 500, "a hundred would be uniform, {most} were drawn");
    }

    #[test]
    fn letters_are_of_all_kinds_and_of_the_lengths_asked_for() {
        let mut random = Random::new(5, 0);
        let mut lengths = std::collections::BTreeSet::new();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..2000 {
            let mut text = Vec::new();
            random.letters(3, 9, &mut text);
            lengths.insert(text.len());
            seen.extend(text);
        }
        assert_eq!(lengths.into_iter().collect::<Vec<_>>(), (3..=9).collect::<Vec<_>>());
        assert_eq!(seen.len(), 62);
    }
}
