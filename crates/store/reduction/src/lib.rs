//! Cutting data into chunks, their compression, finding equal blocks, and estimates: no I/O.
//!
//! The engine's write path calls [`cut`] for each write and [`compress`] for each chunk; its read path
//! calls [`decompress`] on a chunk whose checksum it has verified. [`estimate`] applies the same rules
//! to data that are not on an array. On the two paths nothing here allocates per call: codec contexts
//! are made once per thread and hold nothing from one call to the next, so the same input gives the
//! same output always.
//!
//! `unsafe` is confined to `lz4.rs`, which calls the C library.

mod cut;
mod error;
pub mod estimate;
mod fingerprint;
mod index;
mod lz4;
mod zero;
mod zstandard;

#[cfg(test)]
mod tests;

pub use ashlar_format::catalogue::Profile;
pub use ashlar_format::chunk::Codec;
pub use cut::{Run, chunk_blocks_max, cut};
pub use error::DecompressError;
pub use fingerprint::{FINGERPRINT_KEY_BYTES, Fingerprint, FingerprintKey};
pub use index::{BlockPlace, FingerprintIndex};
pub use zero::is_zero;

/// A saving below one part in this many is not worth decoding for on every read (arbitrary; the
/// length class of a pointer rounds to 256 B, which is this fraction of a 4 KiB block).
const SAVING_FRACTION_MIN: usize = 16;

/// A saving below this many bytes cannot free a place unit of the segment (64 B).
const SAVING_BYTES_MIN: usize = 64;

/// The longest input taken: a chunk has at most 16 blocks of 4 KiB.
pub const INPUT_BYTES_MAX: usize = 64 << 10;

/// Compresses `input` into the front of `out` and returns the compressed length.
///
/// `None` means: store `input` as it is. That is so for [`Codec::None`], and when the result would
/// not save at least a sixteenth and 64 bytes, or would not fit `out`. An `out` of `input.len()` bytes
/// is always large enough. After `None` the content of `out` is unspecified.
///
/// # Panics
/// When `input` is longer than [`INPUT_BYTES_MAX`].
#[must_use]
pub fn compress(codec: Codec, input: &[u8], out: &mut [u8]) -> Option<usize> {
    assert!(input.len() <= INPUT_BYTES_MAX, "chunk of {} bytes exceeds {INPUT_BYTES_MAX}", input.len());
    let saving_min = (input.len() / SAVING_FRACTION_MIN).max(SAVING_BYTES_MIN);
    let length_max = input.len().checked_sub(saving_min)?.min(out.len());
    if length_max == 0 {
        return None;
    }
    let out = &mut out[..length_max];
    let length = match codec {
        Codec::None => None,
        Codec::Lz4 => lz4::compress(input, out),
        Codec::Zstd => zstandard::compress(input, out),
    }?;
    assert!(length <= length_max, "codec {codec:?} wrote {length} bytes into {length_max}");
    Some(length)
}

/// Decompresses `input` into exactly `out`.
///
/// The caller has verified the checksum, so an error here means damage before the checksum was made
/// or a wrong header. Any input is safe: nothing is read or written out of bounds, and `out` is
/// unspecified after an error.
pub fn decompress(codec: Codec, input: &[u8], out: &mut [u8]) -> Result<(), DecompressError> {
    let (compressed_bytes, expected_bytes) = (input.len(), out.len());
    let error = |found_bytes| DecompressError { codec, compressed_bytes, expected_bytes, found_bytes };
    // Longer than any chunk, or nothing at all: the codecs' own limits are never reached.
    if out.is_empty() || out.len() > INPUT_BYTES_MAX || input.len() > INPUT_BYTES_MAX {
        return Err(error(None));
    }
    let found = match codec {
        Codec::None if input.len() == out.len() => {
            out.copy_from_slice(input);
            Some(input.len())
        }
        Codec::None => Some(input.len()),
        Codec::Lz4 => lz4::decompress(input, out),
        Codec::Zstd => zstandard::decompress(input, out),
    };
    if found == Some(expected_bytes) { Ok(()) } else { Err(error(found)) }
}
