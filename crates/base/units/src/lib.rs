//! Sizes, addresses and identities as types, with checked conversions.
//!
//! Used by every crate. A bare `u64` for a size or an address needs a comment elsewhere; here the
//! conversions are named and say their rounding. Nothing in this crate does I/O.

mod identity;
mod planted;
mod size;

pub use identity::{DriveIndex, Lsn, PoolId, SegmentId, VolumeId};
pub use planted::{Fault, planted};
#[cfg(feature = "planted-faults")]
pub use planted::{plant, reached};
pub use size::{ByteCount, ParseSizeError};

/// Bytes in a block: the store's unit of mapping and reduction.
///
/// 4 KiB because it is the page of every host we serve and the atom of flash drives; a smaller
/// block doubles the map, a larger one makes 4 KiB host writes read-modify-write.
pub const BLOCK_BYTES: u64 = 4096;

/// The same as [`BLOCK_BYTES`], for indexing memory.
pub const BLOCK_BYTES_USIZE: usize = BLOCK_BYTES as usize;
