//! The estimator on data whose truth is known: exact where everything is seen, and intervals that
//! hold the truth where only a part is.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use super::sketch::Sketch;
use super::*;
use crate::{Codec, Profile};

const BLOCK: usize = BLOCK_BYTES_USIZE;
const REGION: usize = REGION_BYTES as usize;

fn clock() -> Duration {
    Duration::ZERO
}

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ self.0 >> 29
    }

    /// A block that does not compress.
    fn block(&mut self) -> Vec<u8> {
        (0..BLOCK / 8).flat_map(|_| self.next().to_le_bytes()).collect()
    }

    /// A block of which the first `bytes` do not compress and the others do.
    fn half(&mut self, bytes: usize) -> Vec<u8> {
        let mut block = self.block();
        block[bytes..].fill(b'x');
        block
    }
}

/// Passes all regions in; `wanted` of them are drawn.
fn estimate(data: &[u8], wanted: u64, coverage: Coverage) -> Estimate {
    let regions = data.len().div_ceil(REGION) as u64;
    let mut draw = Draw::new(regions, wanted);
    let mut estimator = Estimator::new(&clock);
    for (index, region) in data.chunks(REGION).enumerate() {
        let is_drawn = draw.is_next_drawn();
        if coverage == Coverage::All || is_drawn {
            estimator.add(index as u64 * 16, region, is_drawn);
        } else {
            estimator.gap();
        }
    }
    let region_blocks = (data.len() / BLOCK) as u64;
    estimator.finish(Population { coverage, regions, region_blocks, hole_blocks: 0 })
}

fn all(data: &[u8]) -> Estimate {
    estimate(data, u64::MAX, Coverage::All)
}

fn case(estimate: &Estimate, profile: Profile, codec: Codec) -> CaseEstimate {
    *estimate.cases.iter().find(|case| case.profile == profile && case.codec == codec).unwrap()
}

fn holds(interval: Interval, truth: f64) -> bool {
    assert!(interval.low <= interval.value && interval.value <= interval.high, "{interval:?}");
    interval.low <= truth && truth <= interval.high
}

#[test]
fn zeroes_take_nothing() {
    let estimate = all(&vec![0; 3 * REGION]);
    assert_eq!(estimate.zero_share, Interval::exact(1.0));
    assert_eq!(estimate.dedupe.data_blocks, 0);
    for case in estimate.cases {
        assert_eq!((case.ratio, case.stored_bytes), (None, Interval::exact(0.0)));
    }
}

#[test]
fn holes_are_zero_blocks_that_nobody_reads() {
    let mut estimator = Estimator::new(&clock);
    estimator.add(0, &Numbers(1).block(), true);
    let population = Population { coverage: Coverage::All, regions: 1, region_blocks: 1, hole_blocks: 3 };
    assert_eq!(estimator.finish(population).zero_share, Interval::exact(0.75));
    let empty = Population { coverage: Coverage::All, regions: 0, region_blocks: 0, hole_blocks: 9 };
    assert_eq!(Estimator::new(&clock).finish(empty).zero_share, Interval::exact(1.0));
}

#[test]
fn what_does_not_compress_costs_a_header_and_alignment_for_each_block() {
    let mut numbers = Numbers(2);
    let data: Vec<u8> = (0..32).flat_map(|_| numbers.block()).collect();
    for case in all(&data).cases {
        assert_eq!(case.stored_bytes, Interval::exact(32.0 * 4160.0), "{:?}", case.codec);
        assert_eq!(case.ratio.unwrap().value, 4096.0 / 4160.0);
    }
}

#[test]
fn chunks_that_compress_take_what_the_codec_gives_and_a_header() {
    // One chunk of 16 KiB: the truth is one call of the codec, rounded up with its header to 64 bytes.
    let mut numbers = Numbers(3);
    let data: Vec<u8> = (0..4).flat_map(|_| numbers.half(2048)).collect();
    let estimate = all(&data);
    for codec in [Codec::Lz4, Codec::Zstd] {
        let length = crate::compress(codec, &data, &mut vec![0; data.len()]).unwrap();
        let stored = (length + 32).next_multiple_of(64) as f64;
        for profile in [Profile::Oltp, Profile::General] {
            assert_eq!(case(&estimate, profile, codec).stored_bytes, Interval::exact(stored));
        }
    }
}

#[test]
fn half_zeroes_are_half_the_blocks() {
    let mut numbers = Numbers(4);
    let data: Vec<u8> =
        (0..64).flat_map(|index| if index % 2 == 0 { vec![0; BLOCK] } else { numbers.half(1024) }).collect();
    let estimate = all(&data);
    assert_eq!(estimate.zero_share, Interval::exact(0.5));
    assert_eq!(estimate.dedupe.data_blocks, 32);
    // Zeroes end chunks, so each block is one, at either chunk size.
    let oltp = case(&estimate, Profile::Oltp, Codec::Lz4);
    assert_eq!(oltp.stored_bytes, case(&estimate, Profile::General, Codec::Lz4).stored_bytes);
    assert!((3.0..4.0).contains(&oltp.ratio.unwrap().value), "{oltp:?}");
}

#[test]
fn nothing_equal_and_all_equal_are_told_apart() {
    let mut numbers = Numbers(5);
    let block = numbers.block();
    let equal: Vec<u8> = (0..100).flat_map(|_| block.clone()).collect();
    let dedupe = all(&equal).dedupe;
    assert_eq!((dedupe.data_blocks, dedupe.distinct_blocks), (100, Interval::exact(1.0)));
    let unequal: Vec<u8> = (0..100).flat_map(|_| numbers.block()).collect();
    let dedupe = all(&unequal).dedupe;
    assert_eq!(dedupe.distinct_blocks, Interval::exact(100.0));
    assert_eq!(dedupe.stored_blocks_run_2, Interval::exact(100.0));
}

/// The sketch of fingerprints given as numbers; 0 is a gap.
fn sketch(kept_max: usize, fingerprints: impl IntoIterator<Item = u64>) -> Dedupe {
    let mut sketch = Sketch::with_limit(kept_max);
    for fingerprint in fingerprints {
        if fingerprint == 0 { sketch.gap() } else { sketch.add(fingerprint) }
    }
    sketch.finish()
}

#[test]
fn a_run_of_two_needs_a_neighbour_that_was_one_before() {
    let stored = |list: &[u64]| sketch(1000, list.iter().copied()).stored_blocks_run_2.value;
    // A copy of three: found whole.
    assert_eq!(stored(&[1, 2, 3, 9, 1, 2, 3]), 4.0);
    // One equal block between others is stored again.
    assert_eq!(stored(&[1, 2, 3, 9, 2, 8]), 6.0);
    // Zeroes in between: no neighbours, the first time or the second.
    assert_eq!(stored(&[1, 0, 2, 9, 1, 2]), 5.0);
    assert_eq!(stored(&[1, 2, 9, 1, 0, 2]), 5.0);
    // A block in two surroundings is found in both.
    assert_eq!(stored(&[5, 1, 9, 5, 2, 8, 5, 1, 7, 5, 2]), 7.0);
}

/// Fingerprints with a known truth: blocks repeat in runs of random length from earlier places.
fn repeating(seed: u64, count: usize) -> Vec<u64> {
    let mut numbers = Numbers(seed);
    let mut list: Vec<u64> = Vec::new();
    while list.len() < count {
        let length = 1 + (numbers.next() >> 33) as usize % 5;
        if list.len() > 100 && numbers.next() >> 63 == 0 {
            let from = (numbers.next() >> 20) as usize % (list.len() - length);
            list.extend_from_within(from..from + length);
        } else {
            list.extend((0..length).map(|_| mixed(numbers.next())));
        }
    }
    list
}

/// Spread over all 64 bits, as fingerprints are.
fn mixed(number: u64) -> u64 {
    ashlar_format::checksum(7, &number.to_le_bytes())
}

/// Distinct blocks, and blocks stored with runs of two, by remembering everything: where each pair of
/// neighbours was first.
fn truth(list: &[u64]) -> (f64, f64) {
    let mut first: BTreeMap<[u64; 2], usize> = BTreeMap::new();
    for (at, pair) in list.windows(2).enumerate() {
        first.entry([pair[0], pair[1]]).or_insert(at);
    }
    let is_run = |at: usize| {
        let before = at > 0 && first[&[list[at - 1], list[at]]] + 1 < at;
        before || list.get(at + 1).is_some_and(|after| first[&[list[at], *after]] < at)
    };
    let stored = (0..list.len()).filter(|at| !is_run(*at)).count();
    let distinct: BTreeSet<u64> = list.iter().copied().collect();
    (distinct.len() as f64, stored as f64)
}

#[test]
fn a_sketch_that_never_filled_counts_exactly() {
    let list = repeating(11, 3000);
    let (distinct, stored) = truth(&list);
    let dedupe = sketch(10_000, list);
    assert_eq!(dedupe.distinct_blocks, Interval::exact(distinct));
    assert_eq!(dedupe.stored_blocks_run_2, Interval::exact(stored));
}

#[test]
fn a_full_sketch_holds_the_truth_in_its_interval() {
    // 95 % of intervals hold the truth: of 20 at least 16 do but for one case in 400.
    let (mut distinct_held, mut run_held) = (0, 0);
    for seed in 0..20 {
        let list = repeating(100 + seed, 6000);
        let (distinct, stored) = truth(&list);
        let dedupe = sketch(1024, list);
        assert!(!dedupe.distinct_blocks.is_exact(), "the sketch must have dropped some");
        let width = (dedupe.distinct_blocks.high - dedupe.distinct_blocks.low) / distinct;
        assert!(width < 0.2, "an interval of {width} tells nothing");
        distinct_held += u32::from(holds(dedupe.distinct_blocks, distinct));
        run_held += u32::from(holds(dedupe.stored_blocks_run_2, stored));
    }
    assert!(distinct_held >= 16 && run_held >= 16, "{distinct_held} and {run_held} of 20");
}

/// Regions that differ: some random, some that compress, some of zeroes, some half of each.
fn mixture(seed: u64, regions: usize) -> Vec<u8> {
    let mut numbers = Numbers(seed);
    let mut data = Vec::new();
    for _ in 0..regions {
        let kind = numbers.next() >> 62;
        for block in 0..16 {
            data.extend(match kind {
                0 => numbers.block(),
                1 => vec![0; BLOCK],
                2 => numbers.half(1024),
                _ if block < 8 => numbers.half(3000),
                _ => vec![0; BLOCK],
            });
        }
    }
    data
}

#[test]
fn intervals_from_a_sample_hold_what_the_whole_gives() {
    let (mut ratios, mut stored, mut zeroes) = (0, 0, 0);
    for seed in 0..20 {
        let data = mixture(1000 + seed, 400);
        let truth = all(&data);
        assert!(truth.zero_share.is_exact() && truth.cases.iter().all(|case| case.stored_bytes.is_exact()));
        let sampled = estimate(&data, 100, Coverage::Drawn);
        assert_eq!(sampled.drawn_bytes, 100 * REGION_BYTES);
        zeroes += u32::from(holds(sampled.zero_share, truth.zero_share.value));
        let (found, known) =
            (case(&sampled, Profile::Oltp, Codec::Lz4), case(&truth, Profile::Oltp, Codec::Lz4));
        ratios += u32::from(holds(found.ratio.unwrap(), known.ratio.unwrap().value));
        stored += u32::from(holds(found.stored_bytes, known.stored_bytes.value));
        let width = (found.stored_bytes.high - found.stored_bytes.low) / known.stored_bytes.value;
        assert!(width < 0.5, "an interval of {width} tells nothing");
    }
    assert!(ratios >= 16 && stored >= 16 && zeroes >= 16, "{ratios}, {stored} and {zeroes} of 20");
}

#[test]
fn with_everything_read_only_the_ratio_is_estimated() {
    let data = mixture(77, 300);
    let truth = all(&data);
    let sampled = estimate(&data, 100, Coverage::All);
    assert_eq!(sampled.zero_share, truth.zero_share);
    assert_eq!(sampled.dedupe, truth.dedupe);
    for (found, known) in sampled.cases.iter().zip(&truth.cases) {
        assert!(!found.stored_bytes.is_exact());
        assert!(holds(found.stored_bytes, known.stored_bytes.value), "{found:?} {known:?}");
    }
}

#[test]
fn a_sample_of_equals_does_not_claim_to_be_exact() {
    // 1 of 500 regions is not zero, and 50 are drawn.
    let mut data = vec![0; 500 * REGION];
    data[77 * REGION] = 1;
    let sampled = estimate(&data, 50, Coverage::Drawn);
    assert!(sampled.zero_share.low < 0.96 && sampled.zero_share.high == 1.0, "{sampled:?}");
    assert!(sampled.cases[0].stored_bytes.high > 0.0);
}

#[test]
fn a_draw_takes_as_many_as_wanted_from_everywhere() {
    for (regions, wanted) in [(1, 1), (10, 0), (1000, 100), (1000, 999), (5, 9)] {
        let mut draw = Draw::new(regions, wanted);
        let drawn: Vec<u64> = (0..regions).filter(|_| draw.is_next_drawn()).collect();
        assert_eq!(drawn.len() as u64, wanted.min(regions));
    }
    let mut draw = Draw::new(10_000, 1000);
    let mut tenths = [0; 10];
    for region in 0..10_000 {
        tenths[region / 1000] += u32::from(draw.is_next_drawn());
    }
    // 100 expected in each tenth, with a deviation of 9.
    assert!(tenths.iter().all(|count| (60..140).contains(count)), "{tenths:?}");
}
