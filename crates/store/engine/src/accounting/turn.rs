//! A count's turn: how long it may go on, and what waits for it.
//!
//! While a count walks, nothing it may still have to read must be freed: the cleaner begins no round.
//! Checkpoints and writes go on all the time: holding the checkpointer instead would stall writers once the
//! journal has nowhere to go.

use std::time::Duration;

use ashlar_runtime::Instant;
use ashlar_runtime::sync::MutexGuard;

use crate::engine::Inner;
use crate::{Error, ErrorKind, Result};

/// When writes wait for the cleaner, a count that has taken this long gives way. Arbitrary: far below
/// what hosts take for an outage.
const GIVE_WAY_AFTER: Duration = Duration::from_secs(2);

/// The right to walk. The cleaner frees nothing while it is held.
pub(crate) struct Turn<'a> {
    pub(crate) inner: &'a Inner,
    _cleaner_waits: MutexGuard<'a, ()>,
    started: Instant,
    within: Duration,
    pub(super) give_way_after: Duration,
}

impl<'a> Turn<'a> {
    /// Waits for its turn; the time counts from then on.
    pub(crate) async fn begin(inner: &'a Inner, within: Duration) -> Result<Turn<'a>> {
        let cleaner_waits = inner.hold_cleaner().await?;
        let started = inner.runtime.now();
        Ok(Turn { inner, _cleaner_waits: cleaner_waits, started, within, give_way_after: GIVE_WAY_AFTER })
    }

    /// Before each page, or as many chunks as half of one leads to: lets others run, and ends what may
    /// not go on. With 32 pages at a time, and one table of all chunks, a host waited 667 ms beside
    /// counts of 300,000 chunks; so up to 110 ms, on a machine in use by others.
    pub(crate) async fn step(&self) -> Result<()> {
        self.inner.runtime.yield_now().await;
        self.inner.check_not_closing()?;
        let taken = self.inner.runtime.now() - self.started;
        if taken >= self.within {
            let what = format!("counting took longer than {} ms", self.within.as_millis());
            return Err(Error::new(ErrorKind::Busy, what));
        }
        if taken >= self.give_way_after && self.is_cleaner_needed() {
            let what = "counting gave way to the cleaner: the pool has no room left for writes";
            return Err(Error::new(ErrorKind::Busy, what));
        }
        Ok(())
    }

    fn is_cleaner_needed(&self) -> bool {
        let kept = self.inner.reserve_segments() + self.inner.kept_segments(None);
        self.inner.pool.cells_available() <= kept && self.inner.can_clean()
    }
}
