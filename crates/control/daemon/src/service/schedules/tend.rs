//! Schedules over the life of an array: every second it is asked which are due.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::super::Service;
use super::super::scrubs::unix_seconds;
use super::records::{Known, own_snapshots};

/// How often what the rules do not keep is looked for. Arbitrary: going through all snapshots costs the data
/// shard a moment.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

impl Service {
    /// Takes what is due and deletes what is not kept, until the array stops.
    pub(crate) async fn tend_schedules(self: Arc<Self>) {
        let mut swept_at = Instant::now();
        let mut sweeping: Option<tokio::task::JoinHandle<()>> = None;
        while !self.is_stopping() {
            tokio::time::sleep(until_next_second()).await;
            // The data shard is gone, or has too much to do: the next second shows which.
            let Ok(all) = self.schedule_records().await else { continue };
            self.schedules.forget_others(|name| all.iter().any(|known| known.record.name == name));
            if all.is_empty() {
                continue;
            }
            self.take_all_due(&all).await;
            let is_sweeping = sweeping.as_ref().is_some_and(|task| !task.is_finished());
            if !is_sweeping && swept_at.elapsed() >= SWEEP_INTERVAL {
                swept_at = Instant::now();
                sweeping = Some(tokio::spawn(self.clone().sweep(all)));
            }
        }
    }

    async fn take_all_due(self: &Arc<Self>, all: &[Known]) {
        let mut due = Vec::new();
        for known in all.iter().filter(|known| !known.record.is_paused) {
            let (may_try, last) =
                self.schedules.with(&known.record, |mind| (mind.may_try(Instant::now()), mind.last));
            if !may_try {
                continue;
            }
            let last = match last {
                Some(last) => last,
                None => {
                    let Ok(last) = self.last_taken(known).await else { continue };
                    self.schedules.with(&known.record, |mind| mind.last = Some(last));
                    last
                }
            };
            if known.record.every.is_due(last, unix_seconds()) {
                due.push(known);
            }
        }
        if due.is_empty() {
            return;
        }
        let Ok(pools) = self.array.pools().await else { return };
        let full: BTreeMap<&str, u8> =
            pools.iter().map(|pool| (pool.name.as_str(), pool.full_percent)).collect();
        for known in due {
            let Some(full_percent) = full.get(known.pool.as_str()) else { continue };
            if self.has_room_for(known, *full_percent) && self.schedules.begin(&known.record.name) {
                tokio::spawn(self.clone().take_due(known.clone()));
            }
        }
    }

    /// When the last of its snapshots that are there was taken, or when it was made.
    async fn last_taken(&self, known: &Known) -> crate::error::Result<u64> {
        let snapshots = self.snapshots().await?;
        let own = own_snapshots(known, &snapshots);
        Ok(own.last().map_or(known.record.created_unix_seconds, |one| one.created_unix_seconds))
    }
}

/// Snapshots are taken where a second begins: what is in one of 13:05:07 was there when that second began.
fn until_next_second() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_micros(u64::from(1_000_000 - since.subsec_micros()))
}
