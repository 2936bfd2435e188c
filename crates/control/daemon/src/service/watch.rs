//! Watches the pools for what no request tells: one that stopped taking writes, damage that was met.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ashlar_api as api;

use super::Service;

/// How often the pools are looked at. Arbitrary: soon enough for a person, nothing for the array.
const INTERVAL: Duration = Duration::from_secs(2);

/// What was last known of a pool.
#[derive(Clone, PartialEq, Eq)]
struct Seen {
    state: api::PoolState,
    damage: u64,
}

impl Service {
    /// Reports changes until the array stops.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut seen = BTreeMap::new();
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // The data shard is gone: the array is stopping.
            let Ok(pools) = self.array.pools().await else { return };
            for pool in &pools {
                self.report(pool, &mut seen);
            }
            seen.retain(|name, _| pools.iter().any(|pool| pool.name == *name));
        }
    }

    fn report(&self, pool: &api::Pool, seen: &mut BTreeMap<String, Seen>) {
        let now = Seen { state: pool.state, damage: pool.counters.get("damage").copied().unwrap_or(0) };
        let before = seen.insert(pool.name.clone(), now.clone());
        let object = format!("pool {}", pool.name);
        let before = before.unwrap_or(Seen { state: api::PoolState::Online, damage: 0 });
        if now.damage > before.damage {
            let message = format!("damage met {} times: `ashlar pool check {}`", now.damage, pool.name);
            self.log.error(object.clone(), message);
        }
        if now.state != before.state {
            match (now.state, &pool.reason) {
                (api::PoolState::Online, _) => self.log.info(object, "online again"),
                (_, Some(reason)) => self.log.error(object, format!("takes no writes: {reason}")),
                (_, None) => self.log.error(object, "takes no writes"),
            }
        }
    }
}
