//! The array as a whole: status, counters, events, metrics.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use ashlar_api as api;
use ashlar_telemetry::{Operation, Snapshot};

use super::Service;
use super::deleted::counter;
use super::watch::FULL_PERCENT;
use crate::asker::{Asker, Who};
use crate::error::Result;
use crate::places::Caller;
use crate::{metrics, process};

/// The ids of operations that guests may not use.
static ROOT_OPERATIONS: LazyLock<Vec<String>> =
    LazyLock::new(|| api::root_operations().into_keys().collect());
/// Those of them that are for nobody else.
static ROOT_ONLY_OPERATIONS: LazyLock<Vec<String>> =
    LazyLock::new(|| api::root_only_operations().into_keys().collect());

impl Service {
    /// The array as a whole.
    pub(crate) async fn status(&self) -> Result<api::Status> {
        let pools = self.pools().await?;
        Ok(api::Status {
            version: env!("CARGO_PKG_VERSION").to_string(),
            process_id: std::process::id(),
            state_directory: self.state().directory().display().to_string(),
            uptime_seconds: self.started.elapsed().as_secs(),
            io_driver: self.array.driver_line().to_string(),
            memory_resident_bytes: process::memory_resident_bytes(),
            cpu_micros: process::cpu_micros(),
            pools: pools.into_iter().map(summary).collect(),
            doors: self.doors.list(&self.array).await?,
            attachment_count: self.attachments().len() as u64,
            boot_id: self.boot_id.clone(),
            started_unix_millis: self.started_unix_millis,
            handover_pause_millis: self.handover_pause.get().map(|pause| pause.as_millis() as u64),
        })
    }

    /// What somebody may do.
    pub(crate) fn session(&self, asker: &Asker) -> api::Session {
        let settings = self.settings.now();
        let is_owner = asker.caller == Caller::Owner;
        let places = |of: &[String]| (!is_owner).then(|| of.to_vec());
        let name = |name: &String| Some(name.clone());
        let (user, token) = match &asker.who {
            Who::User { name: user, .. } => (name(user), None),
            Who::Token { name: token, .. } => (None, name(token)),
            Who::Peer { .. } | Who::File => (None, None),
        };
        api::Session {
            caller: match asker.caller {
                Caller::Owner => api::CallerKind::Owner,
                Caller::Person => api::CallerKind::Person,
                Caller::Guest => api::CallerKind::Guest,
            },
            role: asker.role,
            user,
            token,
            refused_operations: refused_operations(asker),
            drive_places: places(&settings.guest_drives),
            mount_places: places(&settings.guest_mounts),
            boot_id: self.boot_id.clone(),
        }
    }

    /// The start is over.
    pub(crate) fn note_ready(&self) {
        self.is_ready.store(true, Ordering::Release);
    }

    /// Why no work is to be sent to this array, a line each.
    pub(crate) async fn reasons_not_ready(&self) -> Vec<String> {
        if self.is_stopping() {
            return vec!["the array is stopping".to_string()];
        }
        let mut reasons = Vec::new();
        if !self.is_ready.load(Ordering::Acquire) {
            reasons.push("the array starts".to_string());
        }
        match self.pools().await {
            Ok(pools) => reasons.extend(pools.iter().filter_map(reason_of_pool)),
            Err(error) => reasons.push(error.to_string()),
        }
        reasons
    }

    /// What hosts did, by volume and door.
    pub(crate) async fn io(&self) -> Result<Vec<api::DoorIo>> {
        Ok(io_views(&self.array.counters().await?))
    }

    /// Everything as Prometheus reads it.
    pub(crate) async fn metrics(&self) -> Result<String> {
        let readings = metrics::Readings {
            status: self.status().await?,
            pools: self.pools().await?,
            volumes: self.volumes().await?,
            counters: self.array.counters().await?,
            crowds: self.doors.crowds(&self.array).await?,
            schedules: self.schedule_readings().await?,
            objectives: self.objectives().await?,
        };
        Ok(metrics::text(&readings))
    }
}

/// The ids of operations that are refused to somebody, in order.
fn refused_operations(asker: &Asker) -> Vec<String> {
    let for_root: &[String] = match asker.caller {
        Caller::Owner => &[],
        Caller::Person => &ROOT_ONLY_OPERATIONS,
        Caller::Guest => &ROOT_OPERATIONS,
    };
    let is_other = |operation: &str| asker.only.is_some_and(|only| !only.covers(operation));
    let others = api::operations_by_place().into_values().filter(|operation| is_other(operation));
    let above = api::operations_above(asker.role).into_iter().map(str::to_string);
    let all: BTreeSet<String> = for_root.iter().cloned().chain(others).chain(above).collect();
    all.into_iter().collect()
}

fn takes_writes(state: api::PoolState) -> bool {
    matches!(state, api::PoolState::Online | api::PoolState::Degraded)
}

/// Why hosts cannot write to a pool.
fn reason_of_pool(pool: &api::Pool) -> Option<String> {
    let (name, state) = (&pool.name, pool.state.name());
    if !takes_writes(pool.state) {
        let reason = pool.reason.as_deref().unwrap_or("`ashlar pool show` tells more");
        return Some(format!("pool {name}: {state}: {reason}"));
    }
    let is_full = pool.full_percent >= FULL_PERCENT || counter(pool, "writes_waiting_for_room") > 0;
    is_full.then(|| {
        format!("pool {name}: full: writes wait for room and are refused then: delete or unmap something")
    })
}

fn summary(pool: api::Pool) -> api::PoolSummary {
    let space = pool.space.unwrap_or_default();
    api::PoolSummary {
        name: pool.name,
        state: pool.state,
        reason: pool.reason,
        physical_bytes: space.physical_bytes,
        free_bytes: space.free_bytes,
        full_percent: pool.full_percent,
        volume_count: pool.volume_count,
        snapshot_count: pool.snapshot_count,
        recovery: pool.recovery,
    }
}

fn io_views(counters: &Snapshot) -> Vec<api::DoorIo> {
    let mut views: Vec<api::DoorIo> = counters
        .entries
        .iter()
        .map(|entry| api::DoorIo {
            volume: entry.volume.clone(),
            door: entry.door.clone(),
            operations: Operation::ALL
                .into_iter()
                .map(|operation| {
                    let counted = entry.counters.of(operation);
                    api::OperationIo {
                        operation: operation.name().to_string(),
                        count: counted.completed,
                        errors: counted.failed,
                        bytes: counted.bytes,
                        latency_micros_p50: counted.latency.quantile(0.5).as_micros() as u64,
                        latency_micros_p99: counted.latency.quantile(0.99).as_micros() as u64,
                        latency_micros_max: counted.latency.max().as_micros() as u64,
                    }
                })
                .collect(),
        })
        .collect();
    views.sort_by(|a, b| (&a.volume, &a.door).cmp(&(&b.volume, &b.door)));
    views
}
