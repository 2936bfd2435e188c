//! Traces of a pool on a drive that may no longer carry one: told by the first bytes of a block, without the
//! pool's key.
//!
//! Asked before a drive is taken. They prove nothing about what the pool held, and no reader goes by them.

use crate::{group, page, segment, superblock};

/// True for the first block of a superblock's slot, whole or damaged.
#[must_use]
pub fn is_superblock(block: &[u8]) -> bool {
    first_u64(block) == Some(superblock::SLOT_MAGIC)
}

/// True for a block with which a segment, a group of the journal or a page record begins.
#[must_use]
pub fn is_of_segment(block: &[u8]) -> bool {
    let word = block.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    first_u64(block) == Some(segment::HEADER_MAGIC) || [Some(group::MAGIC), Some(page::MAGIC)].contains(&word)
}

fn first_u64(block: &[u8]) -> Option<u64> {
    block.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_pool_writes_is_a_trace() {
        for block in [&[0; 4096][..], &[0xff; 4096], b"", b"ASHL", &[7; 5]] {
            assert!(!is_superblock(block) && !is_of_segment(block));
        }
        let begins = |magic: &[u8]| [magic, &[0; 4000]].concat();
        assert!(is_superblock(&begins(&superblock::SLOT_MAGIC.to_le_bytes())));
        assert!(is_of_segment(&begins(&segment::HEADER_MAGIC.to_le_bytes())));
        assert!(is_of_segment(&begins(&group::MAGIC.to_le_bytes())));
        assert!(is_of_segment(&begins(&page::MAGIC.to_le_bytes())));
    }
}
