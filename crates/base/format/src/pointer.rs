//! The 8-byte self-locating pointer: where a block's chunk or a map page lives.
//!
//! ```text
//! 63..62 kind          0 hole · 1 zero · 2 data · 3 page
//! 61..32 segment       30 bits, virtual segment number
//! 31..12 offset        20 bits, in units of 64 bytes
//! 11..4  length class  8 bits, (bytes on media rounded up to 256) / 256 - 1
//!  3..0  block index   4 bits, the block's place in its chunk
//! ```
//!
//! A read needs the map leaf, then the segment table (memory), then the drive: no per-chunk table.
//! Segment number 0x3fff_ffff is never on a drive: a page pointer with it names a page in memory.

use std::fmt;

use ashlar_units::SegmentId;

/// Chunks and records start on multiples of this many bytes within a segment.
pub const PLACE_UNIT_BYTES: u64 = 64;
/// Lengths in a pointer are rounded up to this many bytes.
pub const LENGTH_UNIT_BYTES: u64 = 256;
/// The longest run a pointer can name.
pub const POINTED_BYTES_MAX: u64 = 256 * LENGTH_UNIT_BYTES;
/// The largest segment a pointer can address.
pub const SEGMENT_BYTES_MAX: u64 = (1 << 20) * PLACE_UNIT_BYTES;
/// Segment numbers stay below this; the value itself marks pages that are only in memory.
pub const SEGMENT_IN_MEMORY: u32 = 0x3fff_ffff;

/// What a pointer points at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PointerKind {
    /// Nothing: never written or unmapped. At an inner level: the whole subtree.
    Hole,
    /// Zeroes, written. At an inner level: the whole subtree.
    Zero,
    /// A block of a chunk.
    Data,
    /// A map page.
    Page,
}

/// A self-locating pointer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Pointer(pub u64);

impl Pointer {
    /// Nothing is mapped.
    pub const HOLE: Pointer = Pointer(0);
    /// Zeroes are mapped.
    pub const ZERO: Pointer = Pointer(1 << 62);

    /// A pointer to the first block of a chunk.
    #[must_use]
    pub fn data(segment: SegmentId, offset_bytes: u64, length_bytes: u64) -> Pointer {
        Pointer(2 << 62 | Self::place(segment, offset_bytes, length_bytes))
    }

    /// A pointer to a page record.
    #[must_use]
    pub fn page(segment: SegmentId, offset_bytes: u64, length_bytes: u64) -> Pointer {
        Pointer(3 << 62 | Self::place(segment, offset_bytes, length_bytes))
    }

    /// A pointer to a page that is not on a drive yet.
    #[must_use]
    pub fn in_memory(page: u32) -> Pointer {
        Pointer(3 << 62 | u64::from(SEGMENT_IN_MEMORY) << 32 | u64::from(page))
    }

    fn place(segment: SegmentId, offset_bytes: u64, length_bytes: u64) -> u64 {
        assert!(segment.0 < SEGMENT_IN_MEMORY, "segment number {segment} is out of range");
        assert!(
            offset_bytes.is_multiple_of(PLACE_UNIT_BYTES),
            "offset {offset_bytes} is not on a place unit"
        );
        assert!(offset_bytes < SEGMENT_BYTES_MAX, "offset {offset_bytes} is beyond any segment");
        assert!((1..=POINTED_BYTES_MAX).contains(&length_bytes), "length {length_bytes} is out of range");
        let class = length_bytes.div_ceil(LENGTH_UNIT_BYTES) - 1;
        u64::from(segment.0) << 32 | (offset_bytes / PLACE_UNIT_BYTES) << 12 | class << 4
    }

    /// What it points at.
    #[inline]
    #[must_use]
    pub fn kind(self) -> PointerKind {
        match self.0 >> 62 {
            0 => PointerKind::Hole,
            1 => PointerKind::Zero,
            2 => PointerKind::Data,
            _ => PointerKind::Page,
        }
    }

    /// True for a block of a chunk.
    #[inline]
    #[must_use]
    pub fn is_data(self) -> bool {
        self.0 >> 62 == 2
    }

    /// True for a map page, on a drive or in memory.
    #[inline]
    #[must_use]
    pub fn is_page(self) -> bool {
        self.0 >> 62 == 3
    }

    /// The page number of a page that is only in memory.
    #[inline]
    #[must_use]
    pub fn as_in_memory(self) -> Option<u32> {
        (self.0 >> 32 == (3 << 30 | SEGMENT_IN_MEMORY as u64)).then_some(self.0 as u32)
    }

    /// The virtual segment. Meaningful for data and page pointers on a drive.
    #[inline]
    #[must_use]
    pub fn segment(self) -> SegmentId {
        SegmentId((self.0 >> 32) as u32 & SEGMENT_IN_MEMORY)
    }

    /// Where in the segment, in bytes.
    #[inline]
    #[must_use]
    pub fn offset_bytes(self) -> u64 {
        (self.0 >> 12 & 0xf_ffff) * PLACE_UNIT_BYTES
    }

    /// Where it was born, as one number: segment, then offset. What is journalled later has a larger one.
    #[inline]
    #[must_use]
    pub fn birth_place(self) -> u64 {
        self.0 << 2 >> 14
    }

    /// How many bytes at most, rounded up to [`LENGTH_UNIT_BYTES`].
    #[inline]
    #[must_use]
    pub fn length_bytes_max(self) -> u64 {
        ((self.0 >> 4 & 0xff) + 1) * LENGTH_UNIT_BYTES
    }

    /// The block's place in its chunk.
    #[inline]
    #[must_use]
    pub fn block_index(self) -> usize {
        (self.0 & 0xf) as usize
    }

    /// The same chunk, another block of it.
    #[inline]
    #[must_use]
    pub fn with_block_index(self, index: usize) -> Pointer {
        debug_assert!(index < 16);
        Pointer(self.0 & !0xf | index as u64)
    }

    /// The chunk's address: the same for all its blocks.
    #[inline]
    #[must_use]
    pub fn chunk(self) -> Pointer {
        Pointer(self.0 & !0xf)
    }
}

impl fmt::Debug for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind(), self.as_in_memory()) {
            (PointerKind::Hole, _) => write!(f, "hole"),
            (PointerKind::Zero, _) => write!(f, "zero"),
            (_, Some(page)) => write!(f, "memory page {page}"),
            (kind, None) => write!(
                f,
                "{kind:?} segment {} offset {} length {} block {}",
                self.segment(),
                self.offset_bytes(),
                self.length_bytes_max(),
                self.block_index()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_pointer_come_back() {
        let pointer = Pointer::data(SegmentId(0x2abc_def0), 64 * 0xf_fffe, 40_000).with_block_index(9);
        assert_eq!(pointer.kind(), PointerKind::Data);
        assert_eq!(pointer.segment(), SegmentId(0x2abc_def0));
        assert_eq!(pointer.offset_bytes(), 64 * 0xf_fffe);
        assert_eq!(pointer.length_bytes_max(), 40_192);
        assert_eq!(pointer.block_index(), 9);
        assert_eq!(pointer.chunk().block_index(), 0);
        assert_eq!(pointer.as_in_memory(), None);
    }

    #[test]
    fn memory_pages_are_told_from_media_pages() {
        assert_eq!(Pointer::in_memory(77).as_in_memory(), Some(77));
        assert!(Pointer::in_memory(0).is_page());
        assert_eq!(Pointer::page(SegmentId(5), 0, 100).as_in_memory(), None);
        assert_eq!(Pointer::ZERO.kind(), PointerKind::Zero);
        assert_eq!(Pointer::HOLE.kind(), PointerKind::Hole);
    }
}
