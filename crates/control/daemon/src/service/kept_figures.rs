//! Series outlive the array: each pool keeps those of its volumes, and that of all of them.

use std::sync::Arc;
use std::time::Duration;

use super::Service;
use crate::array::SERIES_BYTES_MAX;

/// How often they are written. Arbitrary: what a killed array forgets.
const INTERVAL: Duration = Duration::from_secs(60);

impl Service {
    /// Keeps them again and again until the array stops.
    pub(crate) async fn keep_figures(self: Arc<Self>) {
        let mut told = String::new();
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
        let mut why = None;
        for pool in self.open_pools() {
            let own: Vec<String> = self.known().index.volumes_of(&pool);
            let of_pool = format!("pool:{pool}");
            let is_own = |object: &str| match object.strip_prefix("volume:") {
                Some(volume) => own.iter().any(|one| one == volume),
                None => object == "array" || object == of_pool,
            };
            let series = self.figures.kept(is_own, SERIES_BYTES_MAX);
            if series.is_empty() {
                continue;
            }
            if let Err(error) = self.array.figures_keep(&pool, series).await {
                why = Some(error.message);
            }
        }
        why
    }

    /// Takes in what a pool kept. What cannot be read is not there: no pool stays closed for its charts.
    pub(super) async fn recall_figures(&self, pool: &str) {
        match self.array.figures_kept(pool).await {
            Ok(Some(series)) => self.figures.recall(&series),
            Ok(None) => {}
            Err(error) => self.log.warning(format!("pool {pool}"), error.message),
        }
    }
}
