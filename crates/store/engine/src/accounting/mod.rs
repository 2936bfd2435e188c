//! The accounts of a pool: where its bytes are, what deleting would give back, who holds what.
//!
//! ```text
//! turn     the cleaner waits; there is an end in time                      (turn)
//! freeze   a checkpoint; every root and the segment table as it says       (frozen)
//! census   every map page and chunk once: who refers to it, what it takes  (census, sharing, lengths)
//! answer   parts that sum to physical, what a set gives back, who holds what  (report, reclaim, holding)
//! ```
//!
//! Invariants:
//! 1. An answer speaks of one checkpoint. What is written meanwhile is told apart, not guessed.
//! 2. A chunk's bytes are those of its record where it is now, counted once however many leaves refer
//!    to it. So what is predicted for a delete is what goes with it, to the byte. (What stays may get
//!    smaller, often because of that very delete: the cleaner trims what it moves or compresses it anew.
//!    And dedupe may share other blocks in between.)
//! 3. Nothing is deleted, and nothing waits for a count but the cleaner, for a bounded time.

mod census;
mod families;
mod frozen;
mod holding;
mod info;
mod lengths;
mod reclaim;
mod report;
mod sharing;
mod turn;

#[cfg(test)]
mod deletion_tests;
#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::time::Duration;

use ashlar_format::catalogue::VolumeEntry;
use ashlar_runtime::sync::oneshot;
use ashlar_runtime::{LocalFuture, Priority};

use crate::engine::{Engine, Inner};
use crate::{Error, ErrorKind, Result};

pub(crate) use frozen::Frozen;
pub use info::{
    Holder, HoldersReport, ReclaimReport, SpaceParts, SpaceReport, VolumeSpace, WalkedSpace, WalkedVolume,
};
pub(crate) use turn::Turn;

/// What a volume holds alone is told along with other things: longer than this nobody waits for it.
const UNIQUE_WITHIN: Duration = Duration::from_secs(2);

impl Engine {
    /// Where the pool's bytes are, counted by walking every image. `Busy` when that takes longer.
    pub async fn space_report(&self, within: Duration) -> Result<SpaceReport> {
        self.count(move |inner| {
            Box::pin(async move {
                let turn = Turn::begin(&inner, within).await?;
                report::walked(&turn, &Frozen::take(&inner).await?).await
            })
        })
        .await
    }

    /// The same by the cleaner's last mark, at once: what is alive and dead is an estimate.
    pub async fn space_estimate(&self) -> Result<SpaceReport> {
        report::estimate(&self.inner, &Frozen::take(&self.inner).await?)
    }

    /// What deleting all these together would give back: `VOLUME`, `SNAPSHOT`, `VOLUME@SNAPSHOT`.
    pub async fn reclaim(&self, names: &[String], within: Duration) -> Result<ReclaimReport> {
        let names = names.to_vec();
        self.count(move |inner| {
            Box::pin(async move {
                let turn = Turn::begin(&inner, within).await?;
                let frozen = Frozen::take(&inner).await?;
                let set = reclaim::resolve_set(&frozen, &names)?;
                reclaim::reclaim(&turn, &frozen, &set).await
            })
        })
        .await
    }

    /// Who keeps the space of a volume or snapshot.
    pub async fn holders(&self, name: &str, within: Duration) -> Result<HoldersReport> {
        let name = name.to_string();
        self.count(move |inner| {
            Box::pin(async move {
                let turn = Turn::begin(&inner, within).await?;
                let frozen = Frozen::take(&inner).await?;
                let asked = frozen.resolve(&name)?;
                holding::holders(&turn, &frozen, &asked).await
            })
        })
        .await
    }

    /// Bytes of chunks that only this volume refers to; `None` when that takes too long to find out.
    pub async fn unique_bytes(&self, name: &str) -> Result<Option<u64>> {
        let id = self.inner.volume_id(name)?;
        self.bytes_only_of(move |entry| entry.id == id).await
    }

    /// Bytes of chunks that only deleted volumes refer to which may come back: what giving up all of them
    /// gives back. `None` when that takes too long to find out.
    pub async fn recoverable_bytes(&self) -> Result<Option<u64>> {
        if self.inner.tree.borrow().catalogue.deleted().next().is_none() {
            return Ok(Some(0));
        }
        self.bytes_only_of(|entry| entry.deleted().is_some()).await
    }

    async fn bytes_only_of(&self, is_asked: impl Fn(&VolumeEntry) -> bool + 'static) -> Result<Option<u64>> {
        let answer = self.count(move |inner| {
            Box::pin(async move {
                let turn = Turn::begin(&inner, UNIQUE_WITHIN).await?;
                let frozen = Frozen::take(&inner).await?;
                reclaim::unique_bytes(&turn, &frozen, is_asked).await
            })
        });
        match answer.await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind == ErrorKind::Busy => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Runs a count in the background; `close` waits for its end, which comes soon then.
    pub(crate) async fn count<T: 'static>(
        &self,
        work: impl FnOnce(Rc<Inner>) -> LocalFuture<'static, Result<T>>,
    ) -> Result<T> {
        self.inner.check_not_closing()?;
        let (sender, answer) = oneshot();
        let work = work(self.inner.clone());
        self.inner.spawn(Priority::Background, async move {
            // Who asked may be gone.
            let _ = sender.send(work.await);
        });
        answer.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Closed, "the pool is closing")))
    }
}
