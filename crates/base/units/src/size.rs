//! Byte counts: arithmetic that says its rounding, parsing and printing.

use std::fmt;
use std::str::FromStr;

use crate::BLOCK_BYTES;

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct ByteCount(pub u64);

/// Why a size could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseSizeError(String);

impl fmt::Display for ParseSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a size: write a number and a unit, as in 64GiB or 512MiB", self.0)
    }
}

impl std::error::Error for ParseSizeError {}

/// Unit names and their bytes, largest first so that printing finds the best fit.
const BINARY_UNITS: [(&str, u64); 5] =
    [("PiB", 1 << 50), ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

const PARSED_UNITS: [(&str, u64); 17] = [
    ("pib", 1 << 50),
    ("tib", 1 << 40),
    ("gib", 1 << 30),
    ("mib", 1 << 20),
    ("kib", 1 << 10),
    ("pb", 1_000_000_000_000_000),
    ("tb", 1_000_000_000_000),
    ("gb", 1_000_000_000),
    ("mb", 1_000_000),
    ("kb", 1_000),
    ("p", 1 << 50),
    ("t", 1 << 40),
    ("g", 1 << 30),
    ("m", 1 << 20),
    ("k", 1 << 10),
    ("b", 1),
    ("", 1),
];

impl ByteCount {
    /// Whole blocks that cover these bytes.
    #[must_use]
    pub fn to_blocks_ceil(self) -> u64 {
        self.0.div_ceil(BLOCK_BYTES)
    }

    /// The bytes of this many blocks; `None` when it does not fit.
    #[must_use]
    pub fn from_blocks(blocks: u64) -> Option<ByteCount> {
        blocks.checked_mul(BLOCK_BYTES).map(ByteCount)
    }

    /// True when this is a multiple of `unit`.
    #[must_use]
    pub fn is_multiple_of(self, unit: u64) -> bool {
        self.0.is_multiple_of(unit)
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, unit) in BINARY_UNITS {
            if self.0 >= unit {
                let text = format!("{:.2}", self.0 as f64 / unit as f64);
                let text = text.trim_end_matches('0').trim_end_matches('.');
                return f.pad(&format!("{text} {name}"));
            }
        }
        f.pad(&format!("{} B", self.0))
    }
}

impl FromStr for ByteCount {
    type Err = ParseSizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = || ParseSizeError(text.to_string());
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits);
        let unit = unit.trim().to_ascii_lowercase();
        let (_, factor) = PARSED_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(fail)?;
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(*factor).map(ByteCount).ok_or_else(fail);
        }
        let value: f64 = number.parse().map_err(|_| fail())?;
        let bytes = value * *factor as f64;
        // 2^63 is far above any volume; beyond it the float no longer names exact bytes.
        if !bytes.is_finite() || !(0.0..9.2e18).contains(&bytes) {
            return Err(fail());
        }
        Ok(ByteCount(bytes.round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_people_write_them() {
        for (text, bytes) in [
            ("64GiB", 64 << 30),
            ("10 GB", 10_000_000_000),
            ("4096", 4096),
            ("1.5MiB", 3 << 19),
            ("8k", 8192),
        ] {
            assert_eq!(text.parse::<ByteCount>(), Ok(ByteCount(bytes)), "{text}");
        }
    }

    #[test]
    fn nonsense_sizes_are_refused() {
        for text in ["", "GiB", "-1", "1..2", "9999999999999TiB", "12 parsecs", "1e400"] {
            assert!(text.parse::<ByteCount>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_print_in_binary_units() {
        assert_eq!(ByteCount(64 << 30).to_string(), "64 GiB");
        assert_eq!(ByteCount(1536).to_string(), "1.5 KiB");
        assert_eq!(ByteCount(0).to_string(), "0 B");
    }
}
