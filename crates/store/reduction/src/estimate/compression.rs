//! What regions would take on drives, compressed as the write path does it.

use std::time::Duration;

use ashlar_format::catalogue::Profile;
use ashlar_format::chunk::CHUNK_HEADER_BYTES;
use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_units::BLOCK_BYTES_USIZE;

use super::Clock;
use super::interval::{Interval, RatioSums};
use crate::{Codec, INPUT_BYTES_MAX, compress, cut};

/// What is tried on every region drawn. `bulk` cuts as `general` does.
const CASES: [(Profile, Codec); 4] = [
    (Profile::Oltp, Codec::Lz4),
    (Profile::Oltp, Codec::Zstd),
    (Profile::General, Codec::Lz4),
    (Profile::General, Codec::Zstd),
];

/// One codec at one chunk size, over the regions drawn so far.
struct Case {
    profile: Profile,
    codec: Codec,
    /// Bytes stored for bytes of data, zero blocks left out.
    of_data: RatioSums,
    /// Bytes stored for all bytes.
    of_all: RatioSums,
    spent: Duration,
}

/// What a volume of one profile with one codec would store.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CaseEstimate {
    /// The profile, which decides the longest chunk.
    pub profile: Profile,
    /// The codec.
    pub codec: Codec,
    /// Bytes of data for one byte stored, headers and alignment counted, zero blocks left out.
    /// `None` when there is no data to compress.
    pub ratio: Option<Interval>,
    /// Bytes that all of the target would take.
    pub stored_bytes: Interval,
    /// Processor time to compress 1 GiB of its data.
    pub compress_per_gib: Option<Duration>,
}

/// All cases over the regions drawn.
pub(super) struct Compression {
    cases: Vec<Case>,
    scratch: Vec<u8>,
}

impl Compression {
    pub(super) fn new() -> Compression {
        let case = |(profile, codec)| Case {
            profile,
            codec,
            of_data: RatioSums::default(),
            of_all: RatioSums::default(),
            spent: Duration::ZERO,
        };
        Compression { cases: CASES.map(case).into(), scratch: vec![0; INPUT_BYTES_MAX] }
    }

    /// Compresses one region every way there is.
    pub(super) fn add(&mut self, clock: Clock<'_>, block: u64, region: &[u8]) {
        for case in &mut self.cases {
            let (mut data, mut stored) = (0, 0);
            let start = clock();
            for run in cut(case.profile, block, region).filter(|run| !run.is_zero) {
                data += run.bytes.len() as u64;
                stored += stored_bytes(case.codec, run.bytes, &mut self.scratch);
            }
            case.spent += clock().saturating_sub(start);
            case.of_data.add(data, stored);
            case.of_all.add(region.len() as u64, stored);
        }
    }

    /// `data_bytes` is known where everything was read; then only the ratio is an estimate.
    pub(super) fn finish(
        self,
        population_regions: u64,
        population_bytes: u64,
        data_bytes: Option<u64>,
    ) -> Vec<CaseEstimate> {
        let estimate = |case: Case| {
            let of_data = case.of_data.ratio(population_regions);
            let stored_bytes = match (data_bytes, of_data) {
                (Some(bytes), Some(share)) => share.map(|share| share * bytes as f64),
                // No data among the regions drawn, or an unknown amount in the others.
                _ => of_all(&case, population_regions, population_bytes),
            };
            CaseEstimate {
                profile: case.profile,
                codec: case.codec,
                ratio: of_data.map(Interval::inverse),
                stored_bytes,
                compress_per_gib: per_gib(case.spent, case.of_data.x_total()),
            }
        };
        self.cases.into_iter().map(estimate).collect()
    }
}

fn of_all(case: &Case, population_regions: u64, population_bytes: u64) -> Interval {
    let share = case.of_all.ratio(population_regions).unwrap_or(Interval::exact(0.0));
    share.map(|share| share * population_bytes as f64)
}

/// What a chunk takes on a drive. The rule of the engine's write path: a chunk that does not compress
/// is stored block by block, each block with a header and on a place of its own.
fn stored_bytes(codec: Codec, data: &[u8], scratch: &mut [u8]) -> u64 {
    let placed = |payload: usize| ((CHUNK_HEADER_BYTES + payload) as u64).next_multiple_of(PLACE_UNIT_BYTES);
    match compress(codec, data, &mut scratch[..data.len()]) {
        Some(length) => placed(length),
        None => (data.len() / BLOCK_BYTES_USIZE) as u64 * placed(BLOCK_BYTES_USIZE),
    }
}

/// Time for each GiB; `None` when there were no bytes.
pub(super) fn per_gib(spent: Duration, bytes: u64) -> Option<Duration> {
    (bytes > 0).then(|| spent.mul_f64((1u64 << 30) as f64 / bytes as f64))
}
