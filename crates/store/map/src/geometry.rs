//! The tree's fixed shape and the arithmetic of positions in it.

use ashlar_format::Pointer;

/// log2 of the pointers in a page.
const SLOT_BITS: u32 = 9;

/// Pointers in a page: 512 × 8 bytes make one 4 KiB page.
pub const PAGE_POINTERS: usize = 1 << SLOT_BITS;

/// Levels of pages; fixed, so that a root never has to say its height.
pub const LEVELS: u8 = 4;

/// The level of the page a root pointer leads to. Leaves are level 0.
pub const ROOT_LEVEL: u8 = LEVELS - 1;

/// Blocks a tree covers: 256 TiB of 4 KiB blocks.
pub const BLOCKS_MAX: u64 = 1 << (SLOT_BITS * LEVELS as u32);

/// A page in memory.
pub type Page = [Pointer; PAGE_POINTERS];

const _: () = assert!(size_of::<Page>() == 4096);

/// Blocks covered by one slot of a page at `level`; with [`LEVELS`], by a root pointer.
#[inline]
#[must_use]
pub fn slot_span_blocks(level: u8) -> u64 {
    debug_assert!(level <= LEVELS);
    1 << (SLOT_BITS * u32::from(level))
}

/// Which page of its level, counted from the start of the tree, covers `block`.
#[inline]
#[must_use]
pub fn page_index(block: u64, level: u8) -> u64 {
    block / slot_span_blocks(level + 1)
}

/// The slot for `block` in the page at `level` that covers it.
#[inline]
pub(crate) fn slot_of(block: u64, level: u8) -> usize {
    (block / slot_span_blocks(level)) as usize % PAGE_POINTERS
}

/// The first block after the slot of a page at `level` that covers `block`.
#[inline]
pub(crate) fn slot_end(block: u64, level: u8) -> u64 {
    let span = slot_span_blocks(level);
    (block / span + 1) * span
}

/// The end of a range that must lie in the tree.
#[inline]
pub(crate) fn range_end(first_block: u64, count: u64) -> u64 {
    let end = first_block.checked_add(count).expect("the engine checks ranges against the volume's size");
    assert!(end <= BLOCKS_MAX, "blocks {first_block}..{end} reach beyond the tree's {BLOCKS_MAX}");
    end
}
