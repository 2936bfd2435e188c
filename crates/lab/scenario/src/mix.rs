//! Mixes of I/O: which operations of which size, in shares by count or by bytes.
//!
//! Papers give shares by bytes, drivers want them by count. Below the file everything is by count.

use ashlar_units::ByteCount;
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::quantity::literal;

/// One kind of I/O and its share of the whole.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    #[serde(rename = "op")]
    pub operation: Operation,
    pub pattern: Pattern,
    #[serde(rename = "bs", deserialize_with = "literal")]
    pub size: ByteCount,
    #[serde(deserialize_with = "literal")]
    pub share: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    Read,
    Write,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    Random,
    Sequential,
}

/// What the shares of a mix are shares of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MixBy {
    #[default]
    Count,
    Bytes,
}

/// Every drive's smallest address; an I/O is a whole number of them.
const SECTOR_BYTES: u64 = 512;

/// How far the shares may be from 1 together: what rounding to three digits leaves.
const SHARE_TOLERANCE: f64 = 0.001;

/// The mix with shares by count that sum to 1.
pub fn share_by_count(mix: &[Part], by: MixBy) -> Result<Vec<Part>> {
    check(mix)?;
    let weight = |part: &Part| match by {
        MixBy::Count => part.share,
        MixBy::Bytes => part.share / part.size.0 as f64,
    };
    let total: f64 = mix.iter().map(weight).sum();
    Ok(mix.iter().map(|part| Part { share: weight(part) / total, ..*part }).collect())
}

fn check(mix: &[Part]) -> Result<()> {
    let total: f64 = mix.iter().map(|part| part.share).sum();
    if (total - 1.0).abs() > SHARE_TOLERANCE {
        return Err(Error::file(format!("mix: the shares sum to {total}, not to 1")));
    }
    for part in mix {
        if part.share == 0.0 || !part.size.is_multiple_of(SECTOR_BYTES) {
            let (share, size) = (part.share, part.size.0);
            let reason =
                format!("mix: share {share} of {size} B; shares are above 0 and sizes whole sectors");
            return Err(Error::file(reason));
        }
    }
    Ok(())
}

/// The mean size of an I/O, in bytes, of a mix by count.
#[must_use]
pub fn bytes_mean(mix: &[Part]) -> f64 {
    mix.iter().map(|part| part.share * part.size.0 as f64).sum()
}

/// The share of all bytes that is written, of a mix by count.
#[must_use]
pub fn written_share(mix: &[Part]) -> f64 {
    let written = mix.iter().filter(|part| part.operation == Operation::Write);
    written.map(|part| part.share * part.size.0 as f64).sum::<f64>() / bytes_mean(mix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(operation: Operation, size: u64, share: f64) -> Part {
        Part { operation, pattern: Pattern::Random, size: ByteCount(size), share }
    }

    #[test]
    fn kaminarios_mix_fits_its_numbers_by_bytes() {
        let mix = [part(Operation::Read, 8192, 0.7), part(Operation::Read, 65_536, 0.3)];
        let by_count = share_by_count(&mix, MixBy::Bytes).unwrap();
        let shares: Vec<String> = by_count.iter().map(|part| format!("{:.3}", part.share)).collect();
        assert_eq!(shares, ["0.949", "0.051"]);
        let mean = bytes_mean(&by_count);
        assert_eq!(format!("{:.2}", mean / 1024.0), "10.85");
        // What the paper reports at 125,000 IOPS is 1.4 GB/s; by count it would be 3.1 GB/s.
        assert_eq!(format!("{:.2}", 125_000.0 * mean / 1e9), "1.39");
        let as_count = share_by_count(&mix, MixBy::Count).unwrap();
        assert_eq!(format!("{:.1}", 125_000.0 * bytes_mean(&as_count) / 1e9), "3.2");
    }

    #[test]
    fn the_written_share_is_by_bytes() {
        let mix = [part(Operation::Read, 8192, 0.5), part(Operation::Write, 24_576, 0.5)];
        assert_eq!(written_share(&mix), 0.75);
    }

    #[test]
    fn shares_sum_to_1_and_sizes_are_sectors() {
        for mix in [
            vec![],
            vec![part(Operation::Read, 8192, 0.7)],
            vec![part(Operation::Read, 8000, 1.0)],
            vec![part(Operation::Read, 8192, 1.0), part(Operation::Write, 8192, 0.0)],
        ] {
            assert!(share_by_count(&mix, MixBy::Count).is_err(), "{mix:?}");
        }
    }
}
