//! Spare space takes the place of drives that are lost for long.
//!
//! A drive that comes back after a minute is restored in its share of a minute; one that does not leaves the
//! pool with less to lose. So spare space waits for as long as the settings say. A drive that somebody took
//! out of service is somebody's work under way: nothing is done about it until the array is restarted, which
//! does not remember why a drive was out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ashlar_api as api;

use super::Service;

/// How often drives are looked at; arbitrary, short against how long spare space waits.
const INTERVAL: Duration = Duration::from_secs(1);

/// Since when drives are out, by their identity.
type Losses = BTreeMap<String, Instant>;

impl Service {
    /// Has spare space take the place of drives that are lost for long, until the array stops.
    pub(crate) async fn spare_when_lost(self: Arc<Self>) {
        let mut losses = Losses::new();
        loop {
            tokio::time::sleep(INTERVAL).await;
            let after_seconds = self.settings.now().spare_after_seconds;
            if after_seconds == 0 {
                losses.clear();
                continue;
            }
            let after = Duration::from_secs(u64::from(after_seconds));
            // The data shard is gone: the array is stopping.
            let Ok(pools) = self.array.pools().await else { return };
            for pool in &pools {
                let has_room = pool.space.as_ref().is_some_and(|space| space.spare_bytes > 0);
                if let Some(number) = lost_for(&pool.drives, has_room, after, &mut losses) {
                    self.restore_to_spare_space(pool, number, after_seconds).await;
                }
            }
            let is_out = |id: &str| pools.iter().flat_map(|pool| &pool.drives).any(|drive| drive.id == id);
            losses.retain(|id, _| is_out(id));
        }
    }

    async fn restore_to_spare_space(&self, pool: &api::Pool, number: u32, after_seconds: u32) {
        let object = format!("pool {}", pool.name);
        let Ok(_turn) = self.change().await else { return };
        // Whoever had the turn before may have brought it back: one that serves is not to leave for that.
        let is_out = |drive: &api::Drive| drive.number == Some(number) && drive.state == "out";
        if !self.pool(&pool.name).await.is_ok_and(|now| now.drives.iter().any(is_out)) {
            return;
        }
        match self.array.drive_remove(&pool.name, number).await {
            Ok(()) => {
                let line =
                    format!("drive {number} was lost {after_seconds} s ago: spare space takes its place");
                self.log.info(object, line);
            }
            Err(error) => self.log.warning(object, format!("spare space for drive {number}: {error}")),
        }
    }
}

/// A drive that is out for so long, if spare space could take its place. It is told once for each such time.
fn lost_for(drives: &[api::Drive], has_room: bool, after: Duration, losses: &mut Losses) -> Option<u32> {
    let mut lost = None;
    for drive in drives {
        let is_lost = drive.state == "out" && drive.reason.as_deref() != Some(api::TAKEN_OUT);
        if !is_lost || !has_room {
            losses.remove(&drive.id);
            continue;
        }
        let since = *losses.entry(drive.id.clone()).or_insert_with(Instant::now);
        if since.elapsed() >= after && lost.is_none() {
            losses.remove(&drive.id);
            lost = drive.number;
        }
    }
    lost
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drives(reason: &str) -> Vec<api::Drive> {
        let out = api::Drive {
            number: Some(1),
            id: "b".to_string(),
            state: "out".to_string(),
            reason: Some(reason.to_string()),
            ..api::Drive::default()
        };
        let online =
            api::Drive { number: Some(0), id: "a".to_string(), state: "online".into(), ..out.clone() };
        vec![online, out]
    }

    #[test]
    fn spare_space_takes_the_place_of_what_is_lost_and_not_of_what_was_taken_out() {
        let mut losses = Losses::new();
        let (now, hour) = (Duration::ZERO, Duration::from_secs(3600));
        assert_eq!(lost_for(&drives("it failed"), true, now, &mut losses), Some(1));
        assert_eq!(lost_for(&drives("it failed"), false, now, &mut losses), None, "no spare space");
        assert_eq!(lost_for(&drives(api::TAKEN_OUT), true, now, &mut losses), None);
        assert_eq!(lost_for(&drives("it failed"), true, hour, &mut losses), None, "it may come back");
        assert_eq!(losses.len(), 1);
        assert_eq!(lost_for(&drives("it failed"), true, now, &mut losses), Some(1));
    }
}
