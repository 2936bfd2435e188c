//! Cutting written data into chunks: the one rule that the write path and the estimate share.
//!
//! ```text
//! blocks     d d d d d d 0 0 0 d d d ...      a chunk ends at the profile's length, at a region's
//! runs      └─chunk─┘└ch┘└zero─┘└─── ...      end (64 KiB), before a zero block, at the data's end
//! ```

use ashlar_format::catalogue::Profile;
use ashlar_format::chunk::CHUNK_REGION_BLOCKS;
use ashlar_units::{BLOCK_BYTES, BLOCK_BYTES_USIZE};

use crate::is_zero;

/// The most blocks of one chunk: 32 KiB. Larger chunks compress little better and cost more to read
/// back for one block.
const CHUNK_BLOCKS: u64 = 8;
/// For volumes of database pages: 16 KiB.
const CHUNK_BLOCKS_OLTP: u64 = 4;

/// The most blocks of one chunk of a volume of this profile.
#[must_use]
pub fn chunk_blocks_max(profile: Profile) -> u64 {
    match profile {
        Profile::Oltp => CHUNK_BLOCKS_OLTP,
        Profile::General | Profile::Bulk => CHUNK_BLOCKS,
    }
}

/// Neighbouring blocks that are stored as one: compressed together, or zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run<'a> {
    /// The first block's place in the volume.
    pub block: u64,
    /// Every block is zero; the run may be of any length.
    pub is_zero: bool,
    /// The blocks.
    pub bytes: &'a [u8],
}

/// Cuts `data`, whole blocks that begin at `block` of a volume, into runs that cover it in order.
///
/// # Panics
/// When `data` is not whole blocks.
pub fn cut(profile: Profile, block: u64, data: &[u8]) -> impl Iterator<Item = Run<'_>> {
    assert!(data.len().is_multiple_of(BLOCK_BYTES_USIZE), "{} bytes are not whole blocks", data.len());
    Cut { profile, block, rest: data, next_is_zero: None }
}

struct Cut<'a> {
    profile: Profile,
    block: u64,
    rest: &'a [u8],
    /// Of the first block of `rest`, where the run before has looked at it: each block is read once.
    next_is_zero: Option<bool>,
}

impl<'a> Iterator for Cut<'a> {
    type Item = Run<'a>;

    fn next(&mut self) -> Option<Run<'a>> {
        let mut blocks = self.rest.chunks_exact(BLOCK_BYTES_USIZE);
        let first = blocks.next()?;
        let zero = self.next_is_zero.take().unwrap_or_else(|| is_zero(first));
        let mut length = 1;
        let limit = if zero { u64::MAX } else { chunk_end(self.profile, self.block) - self.block };
        for other in blocks {
            if length == limit {
                break;
            }
            if is_zero(other) != zero {
                self.next_is_zero = Some(!zero);
                break;
            }
            length += 1;
        }
        let (bytes, rest) = self.rest.split_at((length * BLOCK_BYTES) as usize);
        let run = Run { block: self.block, is_zero: zero, bytes };
        (self.block, self.rest) = (self.block + length, rest);
        Some(run)
    }
}

/// Where a chunk that starts at `block` must end: chunk size, region boundary.
fn chunk_end(profile: Profile, block: u64) -> u64 {
    let region_end = (block / CHUNK_REGION_BLOCKS + 1) * CHUNK_REGION_BLOCKS;
    (block + chunk_blocks_max(profile)).min(region_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs as (block, blocks, is zero) of data given as one letter a block, `0` for zeroes.
    fn runs(profile: Profile, block: u64, letters: &str) -> Vec<(u64, u64, bool)> {
        let data: Vec<u8> = letters
            .bytes()
            .flat_map(|byte| [if byte == b'0' { 0 } else { byte }; BLOCK_BYTES_USIZE])
            .collect();
        let runs: Vec<Run<'_>> = cut(profile, block, &data).collect();
        assert_eq!(
            runs.iter().map(|run| run.bytes).collect::<Vec<_>>().concat(),
            data,
            "runs cover the data"
        );
        runs.iter().map(|run| (run.block, run.bytes.len() as u64 / BLOCK_BYTES, run.is_zero)).collect()
    }

    #[test]
    fn chunks_are_as_long_as_the_profile_lets_them() {
        assert_eq!(runs(Profile::Oltp, 0, "abcdefghi"), [(0, 4, false), (4, 4, false), (8, 1, false)]);
        assert_eq!(runs(Profile::General, 0, "abcdefghi"), [(0, 8, false), (8, 1, false)]);
    }

    #[test]
    fn no_chunk_crosses_a_region_but_zeroes_do() {
        assert_eq!(runs(Profile::General, 14, "abcdef"), [(14, 2, false), (16, 4, false)]);
        assert_eq!(runs(Profile::General, 14, "000000"), [(14, 6, true)]);
    }

    #[test]
    fn zero_blocks_end_a_chunk() {
        assert_eq!(
            runs(Profile::Oltp, 4, "ab0cd00"),
            [(4, 2, false), (6, 1, true), (7, 2, false), (9, 2, true)]
        );
        assert_eq!(runs(Profile::Oltp, 0, ""), []);
    }
}
