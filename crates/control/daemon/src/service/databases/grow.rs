//! Volumes of databases that grow by themselves when their file systems are nearly full.
//!
//! ```text
//!  look (by a process) ──► 85 % full? ──► volume 25 % larger ──► file system takes all of it
//!                                                            └► refused: before the next start
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ashlar_api as api;
use ashlar_database::{AutoGrow, Outcome, Stage, Usage, Work};
use ashlar_units::{BLOCK_BYTES, ByteCount};

use super::super::Service;
use super::{Known, check_ready};
use crate::error::{Error, Result};
use crate::tag::Seen;

/// From here on a volume grows, by so much. Arbitrary: there is time left to grow, and not every few minutes.
const AT_PERCENT: u64 = 85;
const STEP_PERCENT: u64 = 25;
/// Smaller steps are not worth it. Arbitrary.
const STEP_BYTES_MIN: u64 = 64 << 20;
/// How often somebody thinks of it, looks, and looks where one is more than so full. Arbitrary.
const TICK: Duration = Duration::from_secs(5);
const LOOK_INTERVAL: Duration = Duration::from_secs(60);
const NEAR_PERCENT: u64 = 70;
/// Where one could not grow it is tried again after so long. Arbitrary.
const RETRY_INTERVAL: Duration = Duration::from_secs(600);

/// What a look found.
#[derive(Default)]
struct Looked {
    percent_max: u64,
    /// Why a volume does not grow.
    troubles: BTreeMap<String, String>,
}

/// What the array has in mind of a database whose volumes grow.
struct Mind {
    /// Of this database, with this wish: another is looked at at once.
    of: (u64, Option<u64>),
    next: Instant,
    told: BTreeMap<String, String>,
    look: Option<tokio::task::JoinHandle<Looked>>,
}

impl Mind {
    fn new(of: (u64, Option<u64>)) -> Mind {
        Mind { of, next: Instant::now(), told: BTreeMap::new(), look: None }
    }
}

/// The wish in a request.
pub(super) fn grow_wanted(
    database: &str,
    is_wanted: bool,
    size_bytes_max: Option<u64>,
) -> Result<Option<AutoGrow>> {
    match (is_wanted, size_bytes_max) {
        (false, Some(_)) => Err(Error::invalid(
            format!("database `{database}`: a largest size is named for volumes that do not grow"),
            "ask for auto-grow, too, or leave the size out",
        )),
        (false, None) => Ok(None),
        (true, size_bytes_max) => {
            let size_bytes_max = size_bytes_max.map(|bytes| bytes / BLOCK_BYTES * BLOCK_BYTES);
            Ok(Some(AutoGrow { size_bytes_max, waiting: Vec::new() }))
        }
    }
}

/// A clone's volumes grow as its source's do.
pub(super) fn of_clone(source: AutoGrow) -> AutoGrow {
    AutoGrow { waiting: Vec::new(), ..source }
}

pub(super) fn view(wanted: &AutoGrow) -> api::DatabaseAutoGrow {
    api::DatabaseAutoGrow {
        at_percent: AT_PERCENT,
        step_percent: STEP_PERCENT,
        max_bytes: wanted.size_bytes_max,
        waiting: wanted.waiting.clone(),
    }
}

/// The next size of a volume; `None` where it is as large as it may be.
fn next_size(now: u64, max: Option<u64>) -> Option<u64> {
    let step = (now / 100 * STEP_PERCENT).max(STEP_BYTES_MIN);
    let next = now.saturating_add(step).next_multiple_of(BLOCK_BYTES);
    let next = max.map_or(next, |max| next.min(max));
    (next > now).then_some(next)
}

impl Service {
    /// Has volumes grow until the array stops.
    pub(crate) async fn grow_databases(self: Arc<Self>) {
        let mut minds: BTreeMap<String, Mind> = BTreeMap::new();
        while !self.is_stopping() {
            tokio::time::sleep(TICK).await;
            if !self.may_tend_databases.load(Ordering::Acquire) {
                continue;
            }
            let Ok(all) = self.database_records().await else { continue };
            let growing: Vec<Known> = all.into_iter().filter(|one| one.record.auto_grow.is_some()).collect();
            minds.retain(|name, _| growing.iter().any(|known| known.record.name == *name));
            for known in growing {
                let record = &known.record;
                let of = (
                    record.created_unix_seconds,
                    record.auto_grow.as_ref().and_then(|one| one.size_bytes_max),
                );
                let mind = minds.entry(record.name.clone()).or_insert_with(|| Mind::new(of));
                if mind.of != of {
                    *mind = Mind::new(of);
                }
                self.look_in_turn(known, mind).await;
            }
        }
    }

    /// A look that does not come back keeps no other database from growing.
    async fn look_in_turn(self: &Arc<Self>, known: Known, mind: &mut Mind) {
        match mind.look.take() {
            Some(look) if !look.is_finished() => {
                mind.look = Some(look);
                return;
            }
            Some(look) => {
                let looked = look.await.unwrap_or_default();
                self.tell_troubles(&known.record.name, &looked, &mind.told);
                mind.next = Instant::now() + until_next(&looked);
                mind.told = looked.troubles;
            }
            None => {}
        }
        let record = &known.record;
        // One that died of a full volume is to run: it does when there is room again.
        let is_there = record.stage == Stage::Ready
            && record.away.is_none()
            && (record.is_wanted || self.site(record).is_running());
        if is_there && Instant::now() >= mind.next {
            mind.look = Some(tokio::spawn(self.clone().look_and_grow(known)));
        }
    }

    fn tell_troubles(&self, name: &str, looked: &Looked, told: &BTreeMap<String, String>) {
        let object = format!("database {name}");
        for (volume, why) in &looked.troubles {
            if told.get(volume) != Some(why) {
                self.log.error(object.clone(), why.clone());
            }
        }
    }

    async fn look_and_grow(self: Arc<Self>, known: Known) -> Looked {
        let site = self.site(&known.record);
        // One that is just being stopped is looked at the next time.
        let Ok(Outcome { usage, .. }) = self.work(&site, Work::LookAtUsage).await else {
            return Looked::default();
        };
        let mut looked =
            Looked { percent_max: usage.iter().map(Usage::percent).max().unwrap_or(0), ..Looked::default() };
        for full in usage.iter().filter(|one| one.percent() >= AT_PERCENT) {
            let Some(part) = known.record.parts.iter().find(|part| part.role == full.role) else { continue };
            if let Err(error) = self.grow_by_itself(&known.record.name, &part.volume, full.percent()).await
                && error.kind != api::ErrorKind::Busy
            {
                looked.troubles.insert(part.volume.clone(), error.to_string());
            }
        }
        looked
    }

    async fn grow_by_itself(&self, name: &str, volume: &str, percent: u64) -> Result<()> {
        let _alone = self.work_alone(name)?;
        let mut known = self.database_record(name).await?;
        check_ready(&known.record)?;
        let Some(wanted) = known.record.auto_grow.clone() else { return Ok(()) };
        if !known.record.parts.iter().any(|part| part.volume == volume) {
            return Ok(());
        }
        let before = self.volume(volume).await?.size_bytes;
        let is_larger_already = wanted.waiting.iter().any(|one| one == volume);
        let size_bytes =
            if is_larger_already { Some(before) } else { next_size(before, wanted.size_bytes_max) };
        let Some(size_bytes) = size_bytes else {
            return Err(Error::new(
                api::ErrorKind::NoSpace,
                format!("volume {volume} is nearly full and has its largest size, {}", ByteCount(before)),
                format!("give it more: `ashlar database resize {name} --auto-grow-max SIZE`"),
            ));
        };
        if !is_larger_already {
            // Written first: where this is cut short, the file system grows before the next start.
            self.set_waiting(&mut known, volume, true).await?;
            let request = api::VolumeResize { size_bytes, may_shrink: false, force: false };
            if let Err(error) = self.volume_resize(volume, request, &Seen::Unsaid).await {
                self.set_waiting(&mut known, volume, false).await?;
                return Err(error);
            }
        }
        self.grow_mounted(name, volume).await.map_err(|error| {
            let why: Vec<&str> = error.message.split_whitespace().collect();
            let what = format!(
                "volume {volume} is nearly full and has {} now, but its file system does not grow: {}",
                ByteCount(size_bytes),
                why.join(" ")
            );
            let action = format!(
                "growing ext4 while it is mounted takes the right CAP_SYS_RESOURCE; without it `ashlar database \
                 stop {name}` and `ashlar database start {name}` let it grow"
            );
            Error::new(api::ErrorKind::Medium, what, action)
        })?;
        self.set_waiting(&mut known, volume, false).await?;
        let what = format!(
            "volume {volume} was {percent} % full: grown from {} to {}",
            ByteCount(before),
            ByteCount(size_bytes)
        );
        self.log.info(format!("database {name}"), what);
        Ok(())
    }

    /// Writes down that a volume is larger than its file system, or is not any more.
    pub(super) async fn set_waiting(&self, known: &mut Known, volume: &str, is_waiting: bool) -> Result<()> {
        let Some(wanted) = &mut known.record.auto_grow else { return Ok(()) };
        let was_waiting = wanted.waiting.iter().any(|one| one == volume);
        if was_waiting == is_waiting {
            return Ok(());
        }
        match is_waiting {
            true => wanted.waiting.push(volume.to_string()),
            false => wanted.waiting.retain(|one| one != volume),
        }
        self.keep_record(known).await
    }

    /// Mounts a database's volumes and starts its server; file systems that wait for that grow first.
    pub(super) async fn start_grown(&self, known: &mut Known) -> Result<Outcome> {
        self.grow_waiting(known).await;
        self.start_server(&known.record).await
    }

    /// Has file systems grow that did not while they were mounted. One that does not now does not keep the
    /// server from starting.
    pub(super) async fn grow_waiting(&self, known: &mut Known) {
        let waiting = known.record.auto_grow.as_ref().map_or(Vec::new(), |wanted| wanted.waiting.clone());
        if waiting.is_empty() || self.site(&known.record).is_running() {
            return;
        }
        let object = format!("database {}", known.record.name);
        for volume in waiting {
            let grown = match self.unmount_parts(&known.record).await {
                Ok(()) => self.grow_unmounted(&volume).await,
                Err(error) => Err(error),
            };
            let grown = match grown {
                Ok(()) => self.set_waiting(known, &volume, false).await,
                Err(error) => Err(error),
            };
            match grown {
                Ok(()) => {
                    self.log.info(object.clone(), format!("the file system of volume {volume} has grown"))
                }
                Err(error) => {
                    let what = format!("the file system of volume {volume} does not grow: {error}");
                    self.log.error(object.clone(), what);
                }
            }
        }
    }
}

fn until_next(looked: &Looked) -> Duration {
    match looked.percent_max {
        _ if !looked.troubles.is_empty() => RETRY_INTERVAL,
        NEAR_PERCENT.. => TICK,
        _ => LOOK_INTERVAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_grows_by_a_quarter_up_to_its_largest_size() {
        assert_eq!(next_size(100 << 20, None), Some(164 << 20), "at least so much");
        let large = next_size(1 << 40, None).unwrap_or(0);
        assert!(large.abs_diff(5 << 38) < 1 << 20 && large.is_multiple_of(BLOCK_BYTES), "{large}");
        assert_eq!(next_size(1 << 30, Some(1100 << 20)), Some(1100 << 20));
        assert_eq!(next_size(1 << 30, Some(1 << 30)), None);
        assert_eq!(next_size(2 << 30, Some(1 << 30)), None, "never smaller");
    }

    #[test]
    fn the_fuller_the_sooner_it_is_looked_at() {
        let looked = |percent_max| Looked { percent_max, ..Looked::default() };
        assert_eq!(until_next(&looked(20)), LOOK_INTERVAL);
        assert_eq!(until_next(&looked(80)), TICK);
        let troubles = [("v".to_string(), "no".to_string())].into();
        assert_eq!(until_next(&Looked { percent_max: 99, troubles }), RETRY_INTERVAL);
    }
}
