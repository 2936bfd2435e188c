//! Figures of what hosts do: each second while somebody watches, and for the series every ten.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ashlar_api as api;
use ashlar_engine::{KindStages, Stage, StagesSnapshot};
use ashlar_figures::{ByVolume, History, Judged, bounds_micros, by_volume, rates, stage_times, sum};
use ashlar_telemetry::CountersSnapshot;
use tokio::sync::{Notify, watch};

use super::Service;
use crate::error::{Error, Result};
use crate::names;

/// Time between two figures.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);
/// Time between two looks when nobody watches: the shortest step of a series.
const STEP: Duration = Duration::from_secs(api::HistoryRange::Hour.step_seconds());

/// Who watches, and what was seen.
pub(crate) struct Live {
    /// `None`: nothing more comes.
    newest: watch::Sender<Option<Arc<api::Figures>>>,
    came: Notify,
    history: Mutex<History>,
    /// Pools whose series were read since they were opened, and the number of the last slot of each.
    pub(super) kept: Mutex<BTreeMap<String, u64>>,
}

impl Default for Live {
    fn default() -> Live {
        let (came, newest) = (Notify::new(), watch::Sender::new(None));
        Live { newest, came, history: Mutex::default(), kept: Mutex::default() }
    }
}

impl Live {
    /// Figures from now on. A `None` among them is the end.
    pub(crate) fn watch(&self) -> watch::Receiver<Option<Arc<api::Figures>>> {
        let newest = self.newest.subscribe();
        self.came.notify_one();
        newest
    }

    /// Series as bytes.
    pub(super) fn series(&self, is_wanted: impl Fn(&str) -> bool, bytes_max: usize) -> Vec<u8> {
        self.history.lock().expect("no holder of this lock panics").kept(is_wanted, bytes_max)
    }

    /// A pool was opened: what it keeps is read before anything new is kept in it.
    pub(super) fn is_to_recall(&self, pool: &str) {
        self.kept.lock().expect("no holder of this lock panics").remove(pool);
    }

    pub(super) fn recall(&self, series: &[u8]) {
        self.history.lock().expect("no holder of this lock panics").recall(series);
    }

    /// How an objective of volumes fares, and how slow one of a hundred requests is now.
    pub(super) fn judge(&self, objective: &api::ObjectiveSet, volumes: &[String]) -> (Judged, Option<u64>) {
        let objects: Vec<String> = volumes.iter().map(|volume| format!("volume:{volume}")).collect();
        let now = unix_millis();
        let history = self.history.lock().expect("no holder of this lock panics");
        (history.judge(objective, &objects, now), history.p99_now(objective, &objects, now))
    }

    /// Ends all streams.
    pub(super) fn end(&self) {
        self.newest.send_replace(None);
    }
}

/// What the array had counted at one moment.
struct Look {
    at: Instant,
    unix_millis: u64,
    volumes: ByVolume,
    pools: Vec<PoolLook>,
    stages: BTreeMap<String, StagesSnapshot>,
}

struct PoolLook {
    name: String,
    full_percent: u8,
    read_bytes: u64,
    written_bytes: u64,
}

impl Service {
    /// Looks again and again until the array stops.
    pub(crate) async fn watch_figures(self: Arc<Self>) {
        let mut before = self.look().await.ok();
        loop {
            let is_watched = self.figures.newest.receiver_count() > 0;
            let is_somebody_new = tokio::select! {
                () = tokio::time::sleep(if is_watched { INTERVAL } else { STEP }) => false,
                () = self.figures.came.notified() => true,
            };
            if is_somebody_new && is_watched {
                continue;
            }
            // The data shard is gone: the array is stopping.
            let Ok(now) = self.look().await else { return };
            if let Some(before) = &before {
                let pools = self.pools_of(&now.volumes);
                let counted = counted(before, &now);
                self.remember(before, &now, &counted, &pools);
                if is_watched {
                    let figures = figures(before, &now, &counted, &pools);
                    self.figures.newest.send_replace(Some(Arc::new(figures)));
                }
            }
            before = Some(now);
        }
    }

    /// The slowest requests of the last minutes.
    pub(crate) async fn slow_requests(&self) -> Result<Vec<api::SlowRequest>> {
        let now = unix_millis();
        let view = |(pool, slow): (String, ashlar_engine::SlowRequest)| {
            let times = Stage::ALL.iter().zip(slow.times).filter(|(_, time)| !time.is_zero());
            api::SlowRequest {
                pool,
                volume: slow.volume,
                operation: if slow.is_write { "write" } else { "read" }.to_string(),
                offset_bytes: slow.offset,
                length_bytes: slow.length,
                unix_millis: now.saturating_sub(slow.ago.as_millis() as u64),
                micros: slow.total.as_micros() as u64,
                stages: times
                    .map(|(stage, time)| (stage.name().to_string(), time.as_micros() as u64))
                    .collect(),
            }
        };
        Ok(self.array.slow_requests().await?.into_iter().map(view).collect())
    }

    /// Where the console is to listen; 0 for any free port.
    pub(crate) fn console_port(&self) -> u16 {
        u16::try_from(self.settings.now().console_port).unwrap_or(0)
    }

    /// A series, oldest point first.
    pub(crate) fn history(&self, object: &str, range: api::HistoryRange) -> Result<api::History> {
        self.check_has_figures(object)?;
        let history = self.figures.history.lock().expect("no holder of this lock panics");
        let points = history.points(object, range);
        Ok(api::History { object: object.to_string(), range, step_seconds: range.step_seconds(), points })
    }

    /// How long requests took, step by step.
    pub(crate) fn latencies(&self, object: &str, range: api::HistoryRange) -> Result<api::Latencies> {
        self.check_has_figures(object)?;
        let history = self.figures.history.lock().expect("no holder of this lock panics");
        Ok(api::Latencies {
            object: object.to_string(),
            range,
            step_seconds: range.step_seconds(),
            bounds_micros: bounds_micros(),
            steps: history.latencies(object, range),
        })
    }

    fn check_has_figures(&self, object: &str) -> Result<()> {
        match object.split_once(':') {
            None if object == "array" => Ok(()),
            Some(("pool", pool)) if self.known().pool(pool).is_some() => Ok(()),
            Some(("pool", pool)) => Err(Error::not_found("pool", pool)),
            Some(("volume", volume)) => self.known().index.volume(volume).map(drop),
            _ => {
                let what = format!("`{}` is no object with figures", object.escape_debug());
                Err(Error::invalid(what, "name `array`, `pool:NAME` or `volume:NAME`"))
            }
        }
    }

    async fn look(&self) -> Result<Look> {
        let pools = self.array.pools().await?.into_iter().map(|pool| PoolLook {
            full_percent: pool.full_percent,
            read_bytes: pool.drives.iter().map(|drive| drive.read_bytes).sum(),
            written_bytes: pool.drives.iter().map(|drive| drive.written_bytes).sum(),
            name: pool.name,
        });
        let pools = pools.collect();
        let mut volumes = by_volume(&self.array.counters().await?);
        // What the array itself writes is no host's.
        volumes.remove(names::FIGURES);
        let stages = self.array.stages().await?;
        Ok(Look { at: Instant::now(), unix_millis: unix_millis(), volumes, pools, stages })
    }

    /// The pool of each volume; what is mounted of a snapshot has none here.
    fn pools_of(&self, volumes: &ByVolume) -> BTreeMap<String, String> {
        let known = self.known();
        let pool = |name: &String| Some((name.clone(), known.index.volume(name).ok()?));
        volumes.keys().filter_map(pool).collect()
    }

    /// What was counted is added up, not counters: those of a volume that is deleted are gone.
    fn remember(&self, before: &Look, now: &Look, counted: &ByVolume, pools: &BTreeMap<String, String>) {
        let mut history = self.figures.history.lock().expect("no holder of this lock panics");
        let (from, to) = (before.unix_millis, now.unix_millis);
        history.add("array", from, to, &sum(counted.values()));
        for pool in &now.pools {
            history.add(&format!("pool:{}", pool.name), from, to, &of_pool(counted, pools, &pool.name));
        }
        for (volume, counted) in counted.iter().filter(|(volume, _)| pools.contains_key(*volume)) {
            history.add(&format!("volume:{volume}"), from, to, counted);
        }
        drop(history);
        let known = self.known();
        let mut history = self.figures.history.lock().expect("no holder of this lock panics");
        history.keep(|object| match object.split_once(':') {
            Some(("volume", volume)) => known.index.volume(volume).is_ok(),
            Some((_, pool)) => now.pools.iter().any(|one| one.name == pool),
            None => true,
        });
    }
}

fn of_pool(volumes: &ByVolume, pools: &BTreeMap<String, String>, pool: &str) -> CountersSnapshot {
    let is_in = |volume: &String| pools.get(volume).is_some_and(|holder| holder == pool);
    sum(volumes.iter().filter(|(volume, _)| is_in(volume)).map(|(_, counters)| counters))
}

pub(crate) fn unix_millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Where the time of one kind of request went between two looks.
fn stages_of(
    before: &Look,
    now: &Look,
    pool: &str,
    kind: impl Fn(&StagesSnapshot) -> &KindStages,
) -> Vec<api::StageTime> {
    let (Some(then), Some(now)) = (before.stages.get(pool), now.stages.get(pool)) else { return Vec::new() };
    let (then, now) = (kind(then), kind(now));
    let requests = now.total.since(&then.total).count();
    let pairs = Stage::ALL.iter().zip(then.stages.iter().zip(&now.stages));
    stage_times(requests, pairs.map(|(stage, (then, now))| (stage.name(), then, now)))
}

/// What was counted of each volume between two looks. Who came in between began at nothing.
fn counted(before: &Look, now: &Look) -> ByVolume {
    let nothing = CountersSnapshot::default();
    let of_volume = |(volume, counters): (&String, &CountersSnapshot)| {
        (volume.clone(), counters.since(before.volumes.get(volume).unwrap_or(&nothing)))
    };
    now.volumes.iter().map(of_volume).collect()
}

fn figures(before: &Look, now: &Look, counted: &ByVolume, pools: &BTreeMap<String, String>) -> api::Figures {
    let interval = now.at.duration_since(before.at);
    let each_second = |now: u64, then: u64| now.saturating_sub(then) as f64 / interval.as_secs_f64();
    let pool_figures = now.pools.iter().map(|pool| {
        let then = before.pools.iter().find(|one| one.name == pool.name).unwrap_or(pool);
        api::PoolFigures {
            pool: pool.name.clone(),
            full_percent: pool.full_percent,
            rates: rates(&of_pool(counted, pools, &pool.name), interval),
            drive_read_bytes_per_second: each_second(pool.read_bytes, then.read_bytes),
            drive_write_bytes_per_second: each_second(pool.written_bytes, then.written_bytes),
            read_stages: stages_of(before, now, &pool.name, |stages| &stages.reads),
            write_stages: stages_of(before, now, &pool.name, |stages| &stages.writes),
        }
    });
    let of_volume = |(volume, counted): (&String, &CountersSnapshot)| api::VolumeFigures {
        volume: volume.clone(),
        rates: rates(counted, interval),
    };
    api::Figures {
        unix_millis: now.unix_millis,
        interval_millis: interval.as_millis() as u64,
        array: rates(&sum(counted.values()), interval),
        pools: pool_figures.collect(),
        volumes: counted
            .iter()
            .filter(|(volume, counted)| pools.contains_key(*volume) && !counted.is_idle())
            .map(of_volume)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use ashlar_telemetry::{Counters, Operation};

    use super::*;

    /// The harm: what all volumes had counted fell when one was deleted, and the rest of them was taken for
    /// the requests of one moment.
    #[test]
    fn a_volume_that_is_deleted_takes_no_others_requests_along() {
        let counters = Counters::new();
        let read = |times: u64| {
            (0..times).for_each(|_| counters.completed(Operation::Read, 4096, Duration::from_micros(100)));
            counters.snapshot()
        };
        let look = |volumes: ByVolume| Look {
            at: Instant::now(),
            unix_millis: 0,
            volumes,
            pools: Vec::new(),
            stages: BTreeMap::new(),
        };
        let both = [("stays".to_string(), read(1000)), ("goes".to_string(), read(0))];
        let before = look(both.into_iter().collect());
        let now = look([("stays".to_string(), read(3))].into_iter().collect());
        let counted = sum(counted(&before, &now).values());
        assert_eq!(counted.of(Operation::Read).completed, 3);
    }
}
