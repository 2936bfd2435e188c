//! What storing given data would take, estimated from a part of it: `ashlar space estimate`.
//!
//! Whoever reads the data passes it in regions of 64 KiB, in order, and says which of them were drawn
//! ([`Draw`]). Nothing here reads or writes a target; the clock is the caller's.
//!
//! **Zero blocks** are counted in every region read.
//!
//! **Compression** is measured on the drawn regions with the write path's own rules ([`crate::cut`],
//! [`crate::compress`], headers, alignment). Chunks never cross a region, so regions are independent,
//! and the share of all drawn regions estimates that of all regions, with an interval from the spread
//! between them (`interval.rs`). That compression can be told from a random sample, and how large it
//! must be, is shown by Harnik, Kat, Margalit, Sotnikov and Traeger, "To Zip or not to Zip", FAST 2013.
//!
//! **Dedupe** cannot be told from a sample of places: copies of a block are rarely drawn together, and
//! essentially all data must be inspected (Harnik, Margalit, Naor, Sotnikov and Vernik, "Estimation of
//! Deduplication Ratios in Large Data Sets", MSST 2012). So every block is read and fingerprinted, and
//! memory is bounded by keeping the fingerprints that fall in a sample of their own values, as in
//! Harnik, Hershcovitch, Shatsky, Epstein and Kat, "Sketching Volume Capacities in Deduplicated
//! Storage", FAST 2019; the sampling rate is halved when the sample is full (Flajolet, "On Adaptive
//! Sampling", Computing 43, 1990). See `sketch.rs`. When only drawn regions were read
//! ([`Coverage::Drawn`]), the copies found among them are a lower bound and nothing more.
//!
//! Not counted: records (26 B for each chunk) and headers of journal groups, map pages (8 B for each
//! block), segments that wait for the cleaner. They depend on how hosts write.

mod compression;
mod draw;
mod interval;
mod sketch;

#[cfg(test)]
mod tests;

use std::time::Duration;

use ashlar_format::chunk::CHUNK_REGION_BLOCKS;
use ashlar_units::{BLOCK_BYTES, BLOCK_BYTES_USIZE};

pub use compression::CaseEstimate;
use compression::{Compression, per_gib};
pub use draw::Draw;
use interval::RatioSums;
pub use interval::{CONFIDENCE_PERCENT, Interval};
pub use sketch::Dedupe;
use sketch::Sketch;

use crate::is_zero;

/// What is drawn and passed in: no chunk crosses it.
pub const REGION_BYTES: u64 = CHUNK_REGION_BLOCKS * BLOCK_BYTES;

const _: () = assert!(REGION_BYTES as usize <= crate::INPUT_BYTES_MAX, "a region fits the scratch buffer");

/// Seeds the fingerprints, so that they equal no checksum on a drive.
const FINGERPRINT_SEED: u64 = 0x6669_6e67_6572;

/// Processor time of this thread since any fixed moment.
pub type Clock<'c> = &'c dyn Fn() -> Duration;

/// Which regions were passed in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coverage {
    /// All that may hold data.
    All,
    /// Those that were drawn.
    Drawn,
}

/// What the target consists of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Population {
    /// Which regions were passed in.
    pub coverage: Coverage,
    /// Regions that may hold data: those of which some were drawn.
    pub regions: u64,
    /// Whole blocks in them.
    pub region_blocks: u64,
    /// Blocks outside of them, known to be zero without reading them.
    pub hole_blocks: u64,
}

/// Takes a target's regions and estimates what storing it would take.
pub struct Estimator<'c> {
    clock: Clock<'c>,
    compression: Compression,
    sketch: Sketch,
    /// Bytes of zero blocks for all bytes, region by region.
    zeroes: RatioSums,
    data_blocks: u64,
    drawn_bytes: u64,
    fingerprinting: Duration,
}

/// What storing a target would take.
#[derive(Clone, PartialEq, Debug)]
pub struct Estimate {
    /// Share of zero blocks, holes included.
    pub zero_share: Interval,
    /// Codecs and chunk sizes.
    pub cases: Vec<CaseEstimate>,
    /// Dedupe by content, among the blocks passed in.
    pub dedupe: Dedupe,
    /// Processor time to look for zeroes in and fingerprint 1 GiB of data.
    pub fingerprint_per_gib: Option<Duration>,
    /// Bytes on which the codecs were measured.
    pub drawn_bytes: u64,
}

impl<'c> Estimator<'c> {
    /// An estimator that has seen nothing.
    #[must_use]
    pub fn new(clock: Clock<'c>) -> Estimator<'c> {
        Estimator {
            clock,
            compression: Compression::new(),
            sketch: Sketch::new(),
            zeroes: RatioSums::default(),
            data_blocks: 0,
            drawn_bytes: 0,
            fingerprinting: Duration::ZERO,
        }
    }

    /// Takes the region that begins at `block`: whole blocks, at most [`REGION_BYTES`].
    ///
    /// # Panics
    /// When it is not a region.
    pub fn add(&mut self, block: u64, region: &[u8], is_drawn: bool) {
        assert!(block.is_multiple_of(CHUNK_REGION_BLOCKS), "block {block} begins no region");
        assert!(region.len() as u64 <= REGION_BYTES, "a region of {} bytes", region.len());
        assert!(
            region.len().is_multiple_of(BLOCK_BYTES_USIZE),
            "{} bytes are not whole blocks",
            region.len()
        );
        let start = (self.clock)();
        let fingerprints: Vec<Option<u64>> =
            region.chunks_exact(BLOCK_BYTES_USIZE).map(fingerprint).collect();
        self.fingerprinting += (self.clock)().saturating_sub(start);
        let data_blocks = fingerprints.iter().flatten().count() as u64;
        for fingerprint in fingerprints {
            match fingerprint {
                Some(fingerprint) => self.sketch.add(fingerprint),
                None => self.sketch.gap(),
            }
        }
        self.data_blocks += data_blocks;
        self.zeroes.add(region.len() as u64, region.len() as u64 - data_blocks * BLOCK_BYTES);
        if is_drawn {
            self.drawn_bytes += region.len() as u64;
            self.compression.add(self.clock, block, region);
        }
    }

    /// The next region is not the neighbour of the last one.
    pub fn gap(&mut self) {
        self.sketch.gap();
    }

    /// The estimate, when every region of the population that was to be passed in was.
    #[must_use]
    pub fn finish(self, population: Population) -> Estimate {
        let blocks = population.region_blocks + population.hole_blocks;
        let zero_share = match self.zeroes.ratio(population.regions) {
            Some(share) => share.map(|share| {
                let zero_blocks = share.min(1.0) * population.region_blocks as f64;
                (zero_blocks + population.hole_blocks as f64) / blocks as f64
            }),
            None => Interval::exact(1.0),
        };
        let is_all = population.coverage == Coverage::All;
        let region_bytes = population.region_blocks * BLOCK_BYTES;
        let data_bytes = self.data_blocks * BLOCK_BYTES;
        Estimate {
            zero_share,
            cases: self.compression.finish(population.regions, region_bytes, is_all.then_some(data_bytes)),
            dedupe: self.sketch.finish(),
            fingerprint_per_gib: per_gib(self.fingerprinting, data_bytes),
            drawn_bytes: self.drawn_bytes,
        }
    }
}

/// `None` for zeroes, which are not stored.
fn fingerprint(block: &[u8]) -> Option<u64> {
    (!is_zero(block)).then(|| ashlar_format::checksum(FINGERPRINT_SEED, block))
}
