//! Round trips, the cross-check of two LZ4 implementations, and rubbish.
#![allow(clippy::unwrap_used)]

use crate::{Codec, INPUT_BYTES_MAX, compress, decompress, is_zero};

/// SplitMix64: small, seeded, good enough for test data.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }

    /// Runs of copies, literals and constants in random proportion: compressible to a random degree.
    fn page(&mut self, length: usize) -> Vec<u8> {
        let mut page = Vec::new();
        let literal_weight = self.below(8);
        while page.len() < length {
            let run = 1 + self.below(200);
            match self.below(10) {
                choice if choice < literal_weight => page.extend(self.bytes(run)),
                8 => page.extend(std::iter::repeat_n(self.next() as u8, run)),
                _ if page.is_empty() => page.push(7),
                _ => {
                    let start = self.below(page.len());
                    let copied: Vec<u8> = page[start..].iter().copied().cycle().take(run).collect();
                    page.extend(copied);
                }
            }
        }
        page.truncate(length);
        page
    }
}

const CODECS: [Codec; 2] = [Codec::Lz4, Codec::Zstd];

fn try_length(random: &mut Random) -> usize {
    match random.below(3) {
        0 => 4096 * (1 + random.below(16)),
        1 => random.below(300),
        _ => random.below(INPUT_BYTES_MAX + 1),
    }
}

#[test]
fn what_was_compressed_comes_back() {
    let mut random = Random(1);
    let mut shrunk = 0;
    for _ in 0..1500 {
        let length = try_length(&mut random);
        let input = random.page(length);
        for codec in CODECS {
            let mut out = vec![0xaa; input.len()];
            let Some(length) = compress(codec, &input, &mut out) else { continue };
            shrunk += 1;
            assert!(length <= input.len() - (input.len() / 16).max(64));
            let mut back = vec![0x55; input.len()];
            decompress(codec, &out[..length], &mut back).unwrap();
            assert!(back == input, "{codec:?} of {} bytes", input.len());
        }
    }
    assert!(shrunk > 1000, "only {shrunk} inputs shrank: the test data is too random");
}

/// Two independent implementations must read each other's output.
#[test]
fn both_lz4_implementations_agree() {
    let mut random = Random(2);
    for _ in 0..1000 {
        let length = 4096 * (1 + random.below(16));
        let input = random.page(length);
        let mut out = vec![0; input.len()];
        if let Some(length) = compress(Codec::Lz4, &input, &mut out) {
            let mut back = vec![0; input.len()];
            assert_eq!(lz4_flex::block::decompress_into(&out[..length], &mut back).unwrap(), input.len());
            assert!(back == input);
        }
        let other = lz4_flex::block::compress(&input);
        if other.len() <= INPUT_BYTES_MAX {
            let mut back = vec![0; input.len()];
            decompress(Codec::Lz4, &other, &mut back).unwrap();
            assert!(back == input);
        }
    }
}

/// The output buffer is the front of a larger one filled with a pattern: the rest must stay.
#[test]
fn rubbish_is_refused_and_nothing_outside_is_touched() {
    let mut random = Random(3);
    let mut refused = 0;
    for round in 0..20_000 {
        let codec = CODECS[round % 2];
        let page = random.page(4096);
        let mut compressed = vec![0; 4096];
        let mut rubbish = match compress(codec, &page, &mut compressed) {
            Some(length) if round % 3 != 0 => compressed[..length].to_vec(),
            _ => {
                let length = random.below(500);
                random.bytes(length)
            }
        };
        for _ in 0..random.below(4) {
            if rubbish.is_empty() {
                break;
            }
            let at = random.below(rubbish.len());
            match random.below(3) {
                0 => rubbish[at] ^= 1 << random.below(8),
                1 => rubbish.truncate(at),
                _ => rubbish.insert(at, 0xff),
            }
        }
        let expected = [1, 100, 4096, 8192][random.below(4)];
        let mut out = vec![0x5a; expected + 64];
        refused += usize::from(decompress(codec, &rubbish, &mut out[..expected]).is_err());
        assert!(out[expected..].iter().all(|byte| *byte == 0x5a));
    }
    assert!(refused > 10_000);
}

#[test]
fn wrong_lengths_are_errors() {
    let input = vec![3; 8192];
    for codec in CODECS {
        let mut out = vec![0; 8192];
        let length = compress(codec, &input, &mut out).unwrap();
        for expected in [0, 1, 8191, 8193, INPUT_BYTES_MAX, INPUT_BYTES_MAX + 1] {
            let error = decompress(codec, &out[..length], &mut vec![0; expected]).unwrap_err();
            assert_eq!(error.expected_bytes, expected);
        }
        decompress(codec, &[], &mut vec![0; 4096]).unwrap_err();
    }
    assert_eq!(decompress(Codec::None, &[1, 2], &mut [0; 3]).unwrap_err().found_bytes, Some(2));
    let mut out = [0; 2];
    decompress(Codec::None, &[1, 2], &mut out).unwrap();
    assert_eq!(out, [1, 2]);
}

#[test]
fn random_and_tiny_input_is_left_alone() {
    let mut random = Random(4);
    for codec in [Codec::None, Codec::Lz4, Codec::Zstd] {
        for length in [0, 1, 63, 64, 65, 4096, 32_768, INPUT_BYTES_MAX] {
            let input = random.bytes(length);
            assert_eq!(compress(codec, &input, &mut vec![0; length]), None, "{codec:?} {length}");
        }
        assert_eq!(compress(codec, &[0; 4096], &mut []), None);
    }
}

/// Data without repeats within a block but with repeated blocks looks random byte by byte; Zstandard
/// must still be tried.
#[test]
fn a_repeated_random_block_is_still_compressed() {
    let block = Random(5).bytes(4096);
    let input = block.repeat(4);
    for codec in CODECS {
        let length = compress(codec, &input, &mut vec![0; input.len()]).unwrap();
        assert!(length < 6000, "{codec:?} gave {length}");
    }
}

#[test]
fn one_bit_anywhere_makes_a_block_not_zero() {
    for length in [0, 1, 7, 8, 127, 128, 129, 512, 4096, 4099] {
        let mut block = vec![0u8; length + 1];
        assert!(is_zero(&block[..length]));
        assert!(is_zero(&block[1..]), "unaligned");
        for at in 0..length {
            block[at] = 1 << (at % 8);
            assert!(!is_zero(&block[..length]), "length {length} byte {at}");
            block[at] = 0;
        }
    }
}
