//! Who may still write: back-pressure by bytes in flight, and a clean end when the pool is full.
//!
//! Deletes, unmap and checkpoints pass: they need little and they are what makes room again.

use ashlar_runtime::sync::Permit;

use crate::engine::Inner;
use crate::metadata::RECORD_BYTES_MAX;
use crate::{Error, ErrorKind, Result};

/// The reserve: a fiftieth of the pool, at least this many segments. Deletes and checkpoints of a
/// full pool take two or three before the cleaner gives more back.
const RESERVE_SEGMENTS_MIN: u64 = 6;
const RESERVE_FRACTION: u64 = 50;

/// Cleaning rounds without gain that a write waits for before it is told that the pool is full.
const CLEANING_ROUNDS: usize = 2;

impl Inner {
    /// Segments host writes never take.
    pub(crate) fn reserve_segments(&self) -> u64 {
        let total = self.pool.with_table(|table| table.entries().len() as u64);
        (total / RESERVE_FRACTION).max(RESERVE_SEGMENTS_MIN).min(total / 4)
    }

    /// Waits for the right to have `bytes` in flight. `NoSpace` when the pool is full and cleaning
    /// does not help.
    pub(crate) async fn admit(&self, bytes: usize) -> Result<Permit> {
        self.check_online()?;
        let permit = self.write_credits.acquire(bytes.min(self.write_credits_total)).await;
        let mut rounds_in_vain = 0;
        while !self.has_room() {
            if rounds_in_vain == CLEANING_ROUNDS || !self.can_clean() {
                return Err(Error::new(
                    ErrorKind::NoSpace,
                    "the pool is full: delete or unmap something, or add a drive",
                ));
            }
            let finished = self.cleaner.finished.notified();
            self.cleaner.want_room();
            self.checkpoints.wanted.notify_one();
            finished.await;
            if self.cleaner.gained() == 0 {
                rounds_in_vain += 1;
            }
            self.check_online()?;
        }
        Ok(permit)
    }

    /// Room for what is in flight, the reserve, and the map pages that wait to be written.
    fn has_room(&self) -> bool {
        let dirty = self.tree.borrow().arena.dirty_count() as u64 * RECORD_BYTES_MAX;
        let owed = self.reserve_segments() + dirty.div_ceil(self.pool.segment_bytes());
        self.pool.cells_available() > owed
    }
}
