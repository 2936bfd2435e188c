//! What the note of a held snapshot says.
//!
//! ```text
//! version 1:  u64 when it was put, unix seconds   reason, UTF-8
//! ```
//!
//! A hold of whatever version holds: who cannot read it lets nothing go.

use crate::bytes::{Reader, Writer};

/// Bytes of a reason at most. Arbitrary: a sentence.
pub const HOLD_REASON_BYTES_MAX: usize = 200;
/// The version of what [`Hold::encode`] makes.
pub const HOLD_VERSION: u16 = 1;

/// Why a snapshot must stay.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hold {
    /// When it was put.
    pub unix_seconds: u64,
    /// What a person wrote; may be empty.
    pub reason: String,
}

impl Hold {
    /// The value of its note.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.reason.len() <= HOLD_REASON_BYTES_MAX, "reason of {} bytes", self.reason.len());
        let mut writer = Writer::new();
        writer.u64(self.unix_seconds).put(self.reason.as_bytes());
        writer.into_bytes()
    }

    /// What a note of a hold says, as far as it can be read.
    #[must_use]
    pub fn decode(version: u16, value: &[u8]) -> Hold {
        let mut reader = Reader::new(value);
        match reader.u64() {
            Ok(unix_seconds) if version == HOLD_VERSION => {
                let reason = String::from_utf8_lossy(&value[reader.position()..]).into_owned();
                Hold { unix_seconds, reason }
            }
            _ => Hold::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_survive_the_trip_and_strange_ones_still_hold() {
        let hold = Hold { unix_seconds: 77, reason: "audit of März".to_string() };
        assert_eq!(Hold::decode(HOLD_VERSION, &hold.encode()), hold);
        assert_eq!(Hold::decode(HOLD_VERSION, b"short"), Hold::default());
        assert_eq!(Hold::decode(9, &hold.encode()), Hold::default());
    }
}
