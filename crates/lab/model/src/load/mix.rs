//! What is asked of an array: which share are reads, how large, where.

use crate::error::{Error, Result};
use crate::{Kind, Request};
use ashlar_statistics::random::SplitMix64;

/// Where the next request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Any block of the region, each as likely.
    Random,
    /// The block behind the last one, for all users together; from the region's end back to its start.
    Sequential,
}

/// A mix of requests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mix {
    /// From 0 to 1.
    pub read_share: f64,
    /// The size of every request; offsets are multiples of it from the region's start.
    pub block_bytes: u64,
    /// Random or sequential.
    pub order: Order,
    /// Where the region begins.
    pub region_start_bytes: u64,
    /// How large the region is. What is beyond the last whole block of it is not used.
    pub region_bytes: u64,
}

/// Requests of a mix, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    mix: Mix,
    blocks: u64,
    next_block: u64,
    random: SplitMix64,
}

impl Mix {
    /// Random reads of a size over the first bytes of an array.
    #[must_use]
    pub fn random_reads(block_bytes: u64, region_bytes: u64) -> Mix {
        Mix { read_share: 1.0, block_bytes, order: Order::Random, region_start_bytes: 0, region_bytes }
    }
}

impl Source {
    pub(crate) fn new(mix: &Mix, capacity_bytes: u64, seed: u64) -> Result<Source> {
        if !(0.0..=1.0).contains(&mix.read_share) {
            return Err(Error::load(format!("a read share of {}: allowed is 0 to 1", mix.read_share)));
        }
        if mix.block_bytes == 0 || mix.region_bytes < mix.block_bytes {
            let Mix { block_bytes, region_bytes, .. } = mix;
            return Err(Error::load(format!(
                "no block of {block_bytes} bytes in a region of {region_bytes}"
            )));
        }
        let end = mix.region_start_bytes.saturating_add(mix.region_bytes);
        if end > capacity_bytes {
            return Err(Error::load(format!(
                "the region ends at {end}, the array holds {capacity_bytes} bytes"
            )));
        }
        let blocks = mix.region_bytes / mix.block_bytes;
        Ok(Source { mix: *mix, blocks, next_block: 0, random: SplitMix64::new(seed) })
    }

    pub(crate) fn next(&mut self) -> Request {
        let kind = if self.random.share() < self.mix.read_share { Kind::Read } else { Kind::Write };
        let block = match self.mix.order {
            Order::Random => self.random.below(self.blocks),
            Order::Sequential => self.next_block,
        };
        self.next_block = (block + 1) % self.blocks;
        let offset_bytes = self.mix.region_start_bytes + block * self.mix.block_bytes;
        Request { kind, offset_bytes, length_bytes: self.mix.block_bytes }
    }
}
