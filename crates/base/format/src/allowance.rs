//! What the note of a volume's limit or reserve says: a number of bytes on the drives.
//!
//! ```text
//! version 1:  u64 bytes
//! ```
//!
//! Of another version it says nothing: who cannot read it obeys less, and nothing is lost by that.

use crate::bytes::{Reader, Writer};

/// The version of what [`encode`] makes.
pub const ALLOWANCE_VERSION: u16 = 1;

/// The value of the note.
#[must_use]
pub fn encode(bytes: u64) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u64(bytes);
    writer.into_bytes()
}

/// The bytes that a note says, if it can be read.
#[must_use]
pub fn decode(version: u16, value: &[u8]) -> Option<u64> {
    Reader::new(value).u64().ok().filter(|_| version == ALLOWANCE_VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_survives_the_trip_and_a_strange_one_says_nothing() {
        assert_eq!(decode(ALLOWANCE_VERSION, &encode(10 << 30)), Some(10 << 30));
        assert_eq!(decode(ALLOWANCE_VERSION, b"short"), None);
        assert_eq!(decode(2, &encode(10 << 30)), None);
    }
}
