//! Makes a new input from an old one.

use crate::coverage::{self, Pair};
use crate::random::Random;

/// No input grows beyond this: the largest structures under test are a few blocks.
const INPUT_BYTES_MAX: usize = 64 << 10;

/// Values at the edges of what fields hold.
const EDGES: [u64; 20] = [
    0,
    1,
    2,
    7,
    8,
    15,
    16,
    17,
    63,
    64,
    255,
    256,
    511,
    4095,
    4096,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    u64::MAX,
];

/// One to eight changes to `parent`; `partner` lends bytes.
pub fn mutate(parent: &[u8], partner: &[u8], random: &mut Random) -> Vec<u8> {
    let mut input = parent.to_vec();
    let pairs = coverage::pairs();
    // Few changes keep what the parent reached; now and then many are needed at once.
    for _ in 0..1 << random.below(4) {
        mutate_once(&mut input, partner, &pairs, random);
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

fn mutate_once(input: &mut Vec<u8>, partner: &[u8], pairs: &[Pair], random: &mut Random) {
    if input.is_empty() {
        input.push(random.next() as u8);
    }
    let at = random.below(input.len());
    match random.below(12) {
        0 => input[at] ^= 1 << random.below(8),
        1 => input[at] = random.next() as u8,
        2 => input[at] = input[at].wrapping_add(1 + random.below(16) as u8).wrapping_sub(8),
        3 | 4 => put_number(input, at, random),
        5..=7 => answer_comparison(input, pairs, random),
        8 => {
            let end = (at + 1 + short_length(random)).min(input.len());
            input.drain(at..end);
        }
        9 => {
            let bytes: Vec<u8> = (0..=short_length(random)).map(|_| random.next() as u8).collect();
            input.splice(at..at, bytes);
        }
        10 => {
            let from = random.below(partner.len());
            let to = (from + 1 + short_length(random)).min(partner.len());
            input.splice(at..at, partner[from..to].iter().copied());
        }
        _ => {
            let end = (at + 1 + short_length(random)).min(input.len());
            let copy = input[at..end].to_vec();
            let target = random.below(input.len());
            input.splice(target..target, copy);
        }
    }
}

/// Short runs are the common case, long ones happen.
fn short_length(random: &mut Random) -> usize {
    let bits = random.below(9);
    random.below(1 << bits)
}

fn put_number(input: &mut [u8], at: usize, random: &mut Random) {
    let width = 1 << random.below(4);
    let value = EDGES[random.below(EDGES.len())];
    put(input, at, width, value, random.below(2) == 0);
}

fn put(input: &mut [u8], at: usize, width: usize, value: u64, is_little_endian: bool) {
    if at + width > input.len() {
        return;
    }
    let bytes = value.to_le_bytes();
    input[at..at + width].copy_from_slice(&bytes[..width]);
    if !is_little_endian {
        input[at..at + width].reverse();
    }
}

/// The last run compared two values: where the input holds one of them, put the other (or a
/// neighbour of it, for the sake of `<`). This is how magics and lengths are guessed right.
fn answer_comparison(input: &mut [u8], pairs: &[Pair], random: &mut Random) {
    let Some(pair) = pairs.get(random.below(pairs.len())) else { return };
    let (found, wanted) =
        if random.below(2) == 0 { (pair.first, pair.second) } else { (pair.second, pair.first) };
    let wanted = wanted.wrapping_add([0, 0, 0, 1, u64::MAX][random.below(5)]);
    let width = usize::from(pair.width_bytes);
    let is_little_endian = random.below(2) == 0;
    let mut needle = found.to_le_bytes()[..width].to_vec();
    if !is_little_endian {
        needle.reverse();
    }
    let places: Vec<usize> = input
        .windows(width)
        .enumerate()
        .filter(|(_, window)| *window == needle)
        .map(|(at, _)| at)
        .take(64)
        .collect();
    if let Some(at) = places.get(random.below(places.len())) {
        put(input, *at, width, wanted, is_little_endian);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_inputs_and_they_differ_from_the_parent() {
        let run = |seed| {
            let mut random = Random::new(seed);
            (0..100).map(|_| mutate(&[1, 2, 3, 4], &[9; 40], &mut random)).collect::<Vec<_>>()
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
        assert!(run(7).iter().filter(|input| **input != [1, 2, 3, 4]).count() > 80);
    }

    #[test]
    fn a_compared_value_is_written_over_the_one_it_was_compared_with() {
        let pairs = [Pair { width_bytes: 4, first: 0x0403_0201, second: 0xdead_beef }];
        let mut random = Random::new(3);
        let is_hit = (0..100).any(|_| {
            let mut input = vec![0, 1, 2, 3, 4, 0];
            answer_comparison(&mut input, &pairs, &mut random);
            input == [0, 0xef, 0xbe, 0xad, 0xde, 0]
        });
        assert!(is_hit);
    }

    #[test]
    fn inputs_never_outgrow_their_bound() {
        let mut random = Random::new(1);
        let mut input = vec![0; INPUT_BYTES_MAX - 1];
        for _ in 0..200 {
            input = mutate(&input, &[0; 1000], &mut random);
            assert!(input.len() <= INPUT_BYTES_MAX);
        }
    }
}
