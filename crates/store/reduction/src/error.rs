//! Why a chunk could not be decompressed.

use std::fmt;

use crate::Codec;

/// A compressed chunk that does not decode to the length its header says. It is damage: the caller
/// reports the chunk and tries another copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecompressError {
    /// The codec the header named.
    pub codec: Codec,
    /// Bytes given to the codec.
    pub compressed_bytes: usize,
    /// Bytes the header promised.
    pub expected_bytes: usize,
    /// Bytes the codec produced; `None` when it refused the input.
    pub found_bytes: Option<usize>,
}

impl fmt::Display for DecompressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} chunk of {} bytes does not decode to {} bytes: ",
            self.codec, self.compressed_bytes, self.expected_bytes
        )?;
        match self.found_bytes {
            Some(found) => write!(f, "got {found}"),
            None => write!(f, "malformed"),
        }
    }
}

impl std::error::Error for DecompressError {}
