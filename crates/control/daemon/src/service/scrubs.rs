//! Scrubs: on request, and by themselves when the last is too long ago.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ashlar_api as api;

use super::Service;
use crate::error::Result;

/// How often the schedule is looked at. Arbitrary: a scrub is due on a day, not at an hour.
const INTERVAL: Duration = Duration::from_secs(600);
const DAY_SECONDS: u64 = 24 * 60 * 60;

impl Service {
    /// Checks a pool and compares every segment with its parity.
    pub(crate) async fn pool_scrub(&self, name: &str) -> Result<api::ScrubReport> {
        self.check_open(name)?;
        let report = self.array.pool_scrub(name).await?;
        let set_right = report.data_block_count + report.parity_block_count;
        let errors = report.check.errors.len();
        let line = format!(
            "scrub: {} chunks, {} stripes, {set_right} blocks set right, {errors} damaged places",
            report.check.chunk_count, report.stripe_count
        );
        match errors {
            0 => self.log.info(format!("pool {name}"), line),
            _ => self.log.error(format!("pool {name}"), line),
        }
        self.note_scrubbed(name).await?;
        Ok(report)
    }

    /// Holds the scrub of a pool, lets it go on, or ends it.
    pub(crate) async fn pool_scrub_change(&self, name: &str, action: api::ScrubAction) -> Result<api::Pool> {
        self.check_open(name)?;
        self.array.pool_scrub_change(name, action).await?;
        self.log.info(format!("pool {name}"), format!("scrub: {}", done(action)));
        self.pool(name).await
    }

    async fn note_scrubbed(&self, name: &str) -> Result<()> {
        let _turn = self.change().await?;
        let mut pools = self.known().pools.clone();
        let Some(pool) = pools.iter_mut().find(|pool| pool.name == name) else { return Ok(()) };
        pool.scrubbed_unix_seconds = unix_seconds();
        self.state().store_pools(&pools)?;
        self.known().pools = pools;
        Ok(())
    }

    /// Scrubs pools when the last time is as long ago as the settings say, one after the other, until the
    /// array stops.
    pub(crate) async fn scrub_when_due(self: Arc<Self>, interval_days: u16) {
        if interval_days == 0 {
            return;
        }
        let interval_seconds = u64::from(interval_days) * DAY_SECONDS;
        // One that failed or was stopped is tried again the next day.
        let mut tried: BTreeMap<String, u64> = BTreeMap::new();
        loop {
            tokio::time::sleep(INTERVAL).await;
            // The data shard is gone: the array is stopping.
            let Ok(pools) = self.array.pools().await else { return };
            let open = |name: &str| pools.iter().any(|pool| pool.name == name && pool.scrub.is_none());
            let known = self.known().pools.clone();
            for pool in known.iter().filter(|pool| open(&pool.name)) {
                let seconds_since = |then: u64| unix_seconds().saturating_sub(then);
                let was_tried = tried.get(&pool.name).is_some_and(|then| seconds_since(*then) < DAY_SECONDS);
                if was_tried || seconds_since(pool.scrubbed_unix_seconds) < interval_seconds {
                    continue;
                }
                tried.insert(pool.name.clone(), unix_seconds());
                let object = format!("pool {}", pool.name);
                self.log.info(object.as_str(), format!("scrub: the last is {interval_days} days ago"));
                if let Err(error) = self.pool_scrub(&pool.name).await {
                    self.log.warning(object, format!("scrub: {error}"));
                }
            }
        }
    }
}

fn done(action: api::ScrubAction) -> &'static str {
    match action {
        api::ScrubAction::Pause => "paused",
        api::ScrubAction::Resume => "resumed",
        api::ScrubAction::Stop => "stopped",
    }
}

/// Now, by the machine's clock.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
