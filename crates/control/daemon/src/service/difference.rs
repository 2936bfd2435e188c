//! What differs between two volumes or images: of one pool, in pages.

use std::time::Instant;

use ashlar_api as api;
use ashlar_units::BLOCK_BYTES;

use super::Service;
use super::space::check_within;
use crate::error::{Error, Result};

impl Service {
    /// All bytes that differ from there on, and so many ranges of them.
    pub(crate) async fn volume_diff(
        &self,
        a: String,
        b: String,
        from_bytes: u64,
        ranges_count: u64,
        within_seconds: u64,
    ) -> Result<api::VolumeDiff> {
        let since = Instant::now();
        let within = check_within(within_seconds)?;
        if !(1..=api::RANGES_MAX).contains(&ranges_count) {
            let what = format!("{ranges_count} is no number of ranges to list");
            return Err(Error::invalid(what, format!("list 1 to {}", api::RANGES_MAX)));
        }
        if !from_bytes.is_multiple_of(BLOCK_BYTES) {
            let what = format!("a list of what differs cannot begin at byte {from_bytes}");
            return Err(Error::invalid(
                what,
                "begin at a multiple of 4096, such as the last answer's next one",
            ));
        }
        let pool = self.pool_to_compare(&a).await?;
        let other = self.pool_to_compare(&b).await?;
        if pool != other {
            return Err(apart(&format!("`{a}` is in pool `{pool}` and `{b}` in pool `{other}`")));
        }
        let from_block = from_bytes / BLOCK_BYTES;
        let images = [a.as_str(), b.as_str()];
        let found = self.array.difference(&pool, images, from_block, ranges_count as usize, within).await?;
        let range = |run: std::ops::Range<u64>| api::ByteRange {
            offset_bytes: run.start * BLOCK_BYTES,
            length_bytes: (run.end - run.start) * BLOCK_BYTES,
        };
        Ok(api::VolumeDiff {
            a_size_bytes: found.one_bytes,
            b_size_bytes: found.other_bytes,
            from_bytes,
            different_bytes: found.blocks * BLOCK_BYTES,
            ranges: found.runs.into_iter().map(range).collect(),
            next_bytes: found.next_block.map(|block| block * BLOCK_BYTES),
            duration_millis: since.elapsed().as_millis() as u64,
            a,
            b,
        })
    }

    /// The pool of a volume or of an image; a snapshot alone may be of several volumes.
    async fn pool_to_compare(&self, name: &str) -> Result<String> {
        let found = match name.split_once('@') {
            Some((volume, snapshot)) => self.pool_of_image(volume, snapshot),
            None => self.known().index.volume(name),
        };
        found.map_err(|error| self.or_not_open(error))
    }
}

/// Maps of two pools have nothing in common.
pub(super) fn apart(which: &str) -> Error {
    Error::unfit(
        format!("{which}: what differs is found within one pool only"),
        "compare what they hold by their files",
    )
}
