//! Scrubs: on request, and by themselves when the last is too long ago.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ashlar_api as api;

use super::Service;
use crate::error::Result;

/// How often the schedule is looked at. Arbitrary: a scrub is due on a day, not at an hour.
const INTERVAL: Duration = Duration::from_secs(600);
const DAY_SECONDS: u64 = 24 * 60 * 60;
const DAY: Duration = Duration::from_secs(DAY_SECONDS);

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
    pub(crate) async fn scrub_when_due(self: Arc<Self>) {
        // One that failed or was stopped is tried again the next day, whatever becomes of the machine's
        // clock.
        let mut tried: BTreeMap<String, Instant> = BTreeMap::new();
        loop {
            tokio::time::sleep(INTERVAL).await;
            let interval_days = self.settings.now().scrub_interval_days;
            if interval_days == 0 {
                continue;
            }
            let interval_seconds = u64::from(interval_days) * DAY_SECONDS;
            // The data shard is gone: the array is stopping.
            let Ok(pools) = self.array.pools().await else { return };
            let open = |name: &str| pools.iter().any(|pool| pool.name == name && pool.scrub.is_none());
            let known = self.known().pools.clone();
            for pool in known.iter().filter(|pool| open(&pool.name)) {
                let was_tried = tried.get(&pool.name).is_some_and(|then| then.elapsed() < DAY);
                if was_tried || !is_due(pool.scrubbed_unix_seconds, unix_seconds(), interval_seconds) {
                    continue;
                }
                tried.insert(pool.name.clone(), Instant::now());
                let object = format!("pool {}", pool.name);
                let why = match pool.scrubbed_unix_seconds > unix_seconds() {
                    true => "the last is told to be in the future: the machine's clock was wrong".to_string(),
                    false => format!("the last is {interval_days} days ago"),
                };
                self.log.info(object.as_str(), format!("scrub: {why}"));
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

/// Whether a scrub is due. A time of the future was taken from a clock that was wrong: it counts as never.
fn is_due(scrubbed: u64, now: u64, interval_seconds: u64) -> bool {
    now.checked_sub(scrubbed).is_none_or(|since| since >= interval_seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The harm: a clock that was ten years ahead once ended scrubs for ten years.
    #[test]
    fn a_scrub_of_the_future_counts_as_none() {
        let (now, days) = (1_800_000_000, 30 * DAY_SECONDS);
        assert!(!is_due(now, now, days));
        assert!(!is_due(now - days + 1, now, days));
        assert!(is_due(now - days, now, days));
        assert!(is_due(now + 1, now, days));
        assert!(is_due(now + 10 * 365 * DAY_SECONDS, now, days));
        assert!(is_due(u64::MAX, now, days));
        assert!(is_due(0, now, days));
        // A clock before 1970 reads 0.
        assert!(is_due(now, 0, days));
        assert!(!is_due(0, 0, days));
    }
}
