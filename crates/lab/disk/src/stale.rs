//! Blocks as they were before they were last written, for a liar that hands them out.

use std::collections::BTreeMap;
use std::io;

use ashlar_statistics::random::SplitMix64;

use crate::backing::Backing;
use crate::held::{blocks, parts};
use crate::spec::BLOCK_BYTES;

/// Of so many blocks (256 MiB) it knows the version before; of others it tells the truth. Arbitrary: more
/// than a test writes over.
const BLOCKS_MAX: usize = 1 << 16;

/// What was there before.
#[derive(Debug)]
pub(crate) struct Stale {
    share: f64,
    random: SplitMix64,
    before: BTreeMap<u64, Box<[u8]>>,
}

impl Stale {
    pub(crate) fn new(share: f64, seed: u64) -> Stale {
        Stale { share, random: SplitMix64::new(seed), before: BTreeMap::new() }
    }

    /// Says whether something old was handed out.
    pub(crate) fn read(&mut self, backing: &Backing, offset: u64, into: &mut [u8]) -> io::Result<bool> {
        backing.read(offset, into)?;
        let mut is_old = false;
        if self.random.share() < self.share {
            for (block, within, part) in parts(offset, into.len()) {
                if let Some(bytes) = self.before.get(&block) {
                    is_old |= into[part.clone()] != bytes[within.clone()];
                    into[part].copy_from_slice(&bytes[within]);
                }
            }
        }
        Ok(is_old)
    }

    pub(crate) fn write(&mut self, backing: &Backing, offset: u64, data: &[u8]) -> io::Result<()> {
        for block in blocks(offset, data.len()) {
            if self.before.len() < BLOCKS_MAX || self.before.contains_key(&block) {
                let mut bytes = vec![0; BLOCK_BYTES as usize].into_boxed_slice();
                backing.read(block * BLOCK_BYTES, &mut bytes)?;
                self.before.insert(block, bytes);
            }
        }
        backing.write(offset, data)
    }
}
