//! Series outlive the array: each pool keeps those of its volumes, and that of all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use ashlar_figures::Slot;

use super::Service;
use crate::array::SERIES_BYTES_MAX;

/// How often they are written. Arbitrary: what a killed array forgets.
const INTERVAL: Duration = Duration::from_secs(60);

impl Service {
    /// Reads what pools keep, and keeps more again and again, until the array stops.
    pub(crate) async fn keep_figures(self: Arc<Self>) {
        let mut told = self.recall_figures().await.unwrap_or_default();
        loop {
            tokio::time::sleep(INTERVAL).await;
            if self.is_stopping() {
                return;
            }
            let why = self.keep_all_figures().await.unwrap_or_default();
            // A pool that is full or failed is told of by others, too.
            if !why.is_empty() && why != told {
                self.log.warning("array", format!("charts are not kept over a restart: {why}"));
            }
            told = why;
        }
    }

    /// Keeps them now; why some are not.
    pub(super) async fn keep_all_figures(&self) -> Option<String> {
        let mut why = self.recall_figures().await;
        let recalled = self.kept_in().clone();
        for (pool, last) in recalled {
            let own: BTreeSet<String> = self.known().index.volumes_of(&pool).into_iter().collect();
            let of_pool = format!("pool:{pool}");
            let is_own = |object: &str| match object.strip_prefix("volume:") {
                Some(volume) => own.contains(volume),
                None => object == "array" || object == of_pool,
            };
            let slot = Slot { sequence: last + 1, series: self.figures.series(is_own, SERIES_BYTES_MAX) };
            if slot.series.is_empty() {
                continue;
            }
            match self.array.figures_keep(&pool, slot).await {
                Ok(()) => drop(self.kept_in().get_mut(&pool).map(|number| *number = last + 1)),
                Err(error) => why = Some(error.message),
            }
        }
        why
    }

    /// Takes in what pools keep that were opened since; why some could not. In such a one nothing is kept in
    /// place of what could not be read.
    async fn recall_figures(&self) -> Option<String> {
        let open = self.open_pools();
        self.kept_in().retain(|pool, _| open.contains(pool));
        let mut why = None;
        for pool in open {
            if self.kept_in().contains_key(&pool) {
                continue;
            }
            match self.array.figures_kept(&pool).await {
                Ok(found) => {
                    self.kept_in().insert(pool, found.as_ref().map_or(0, |slot| slot.sequence));
                    found.inspect(|slot| self.figures.recall(&slot.series));
                }
                Err(error) => why = Some(error.message),
            }
        }
        why
    }

    fn kept_in(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.figures.kept.lock().expect("no holder of this lock panics")
    }
}
