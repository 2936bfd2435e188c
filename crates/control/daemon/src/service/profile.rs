//! What the requests of a volume look like.

use std::time::Duration;

use ashlar_api as api;
use ashlar_figures::io_profile;
use ashlar_telemetry::CountersSnapshot;

use super::Service;
use crate::error::{Error, Result};

impl Service {
    /// Of all requests since the array started, or of those of so many seconds from now on.
    pub(crate) async fn volume_profile(&self, volume: &str, seconds: Option<u64>) -> Result<api::IoProfile> {
        if let Some(seconds) = seconds.filter(|seconds| !(1..=api::LOOK_SECONDS_MAX).contains(seconds)) {
            let what = format!("requests of volume `{volume}` cannot be counted for {seconds} s");
            return Err(Error::invalid(what, format!("choose from 1 to {} s", api::LOOK_SECONDS_MAX)));
        }
        let mut before = CountersSnapshot::default();
        if let Some(seconds) = seconds {
            before = self.counted_of(volume).await?;
            tokio::time::sleep(Duration::from_secs(seconds)).await;
        }
        let now = self.counted_of(volume).await?;
        Ok(io_profile(volume, seconds, &now.since(&before)))
    }

    async fn counted_of(&self, volume: &str) -> Result<CountersSnapshot> {
        let found = self.known().index.volume(volume);
        found.map_err(|error| self.or_not_open(error))?;
        Ok(self.array.counters().await?.volume(volume))
    }
}
