//! Watches the pools for what no request tells: one that stopped taking writes, drives that failed or are
//! rebuilt, damage that was met or mended, one that gets full.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ashlar_api as api;

use super::Service;
use super::drive_files::DriveFiles;
use super::forecast::Forecast;
use crate::doors::Doors;

/// How often the pools are looked at. Arbitrary: soon enough for a person, nothing for the array.
const INTERVAL: Duration = Duration::from_secs(1);
/// Looks between two lines about mended blocks. Arbitrary: a drive that rots mends for hours.
const MENDED_PAUSE: u32 = 60;
/// Looks after which a rebuild that is not under way has failed. Arbitrary: between two there is a moment
/// without one.
const STALLED_LOOKS: u32 = 3;

/// A pool that is this full, in per cent, is worth a word each time it gets there: the first is when the
/// cleaner starts to work for its room, the last but one when writes get slow.
const FULL_PERCENTS: [u8; 4] = [80, 90, 95, FULL_PERCENT];
/// From here on writes wait for room.
pub(super) const FULL_PERCENT: u8 = 99;
/// So is one that has used this much of its segment numbers. They only grow, and do so slowly: one line for
/// each, and one more at each start of the array.
const NUMBERS_PERCENTS: [u8; 4] = [api::SEGMENT_NUMBERS_PERCENT_LATE, 95, 99, 100];
/// It must be this much emptier before it is worth a word again.
const FULL_PERCENT_BACK: u8 = 2;

/// What helps in a pool that gets full.
const ADVICE: &str = "`ashlar space` tells what takes it, `ashlar space reclaim` what deleting gives back";

/// What was last known of a pool.
#[derive(Clone, PartialEq, Eq)]
struct Seen {
    takes_writes: bool,
    damage: u64,
    /// Mended blocks that were told, and looks until more may be.
    mended: u64,
    mended_pause: u32,
    /// Looks in a row at a drive to be rebuilt and no rebuild.
    stalled: u32,
    /// Why a drive does not leave.
    removal_trouble: Option<String>,
    /// How many of [`FULL_PERCENTS`] it has passed.
    fullness: usize,
    /// Writes that found it full, so far.
    found_full: u64,
    /// Volumes that are at their limit.
    at_limit: Vec<String>,
    /// When it will be full at the speed of the last hour.
    forecast: Forecast,
    /// How many of [`NUMBERS_PERCENTS`] it has passed.
    numbers: usize,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen {
            takes_writes: true,
            damage: 0,
            mended: 0,
            mended_pause: 0,
            stalled: 0,
            removal_trouble: None,
            fullness: 0,
            found_full: 0,
            at_limit: Vec::new(),
            forecast: Forecast::default(),
            numbers: 0,
        }
    }
}

/// Thresholds passed: upwards at once, downwards only when it is well below.
fn fullness(before: usize, percent: u8) -> usize {
    let passed = |percent: u8| FULL_PERCENTS.iter().filter(|limit| percent >= **limit).count();
    passed(percent).max(before.min(passed(percent.saturating_add(FULL_PERCENT_BACK))))
}

fn numbers(percent: u8) -> usize {
    NUMBERS_PERCENTS.iter().filter(|limit| percent >= **limit).count()
}

impl Service {
    /// Reports changes until the array stops.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut seen = BTreeMap::new();
        let mut files = DriveFiles::default();
        let mut keeper_trouble = None;
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // Whoever changes drives tells of it; what is read here must not be from before that.
            let turn = self.changes.try_lock();
            // The data shard is gone: the array is stopping.
            let Ok(pools) = self.array.pools().await else { return };
            let Ok(()) = Doors::tell_notices(&self.array, &self.log).await else { return };
            for pool in &pools {
                self.report(pool, &mut seen);
                if turn.is_ok() {
                    self.report_drives(pool, false);
                    self.forget_left(pool);
                }
            }
            if turn.is_ok() {
                self.watch_wear(&pools);
                self.watch_generations(&pools);
                if !self.is_stopping() {
                    // An address may come later than the array does: with its network.
                    self.open_iscsi().await;
                }
            }
            files.watch(&pools, &self.log).await;
            self.known().drive_troubles = files.troubles();
            // The next look tries again; who attaches or detaches is told of the same trouble.
            let _untold = self.forget_gone().await;
            self.watch_keeper(&mut keeper_trouble);
            let is_there = |name: &str| pools.iter().any(|pool| pool.name == name);
            seen.retain(|name, _| is_there(name));
            self.known().drive_states.retain(|name, _| is_there(name));
        }
    }

    /// Drives that left are looked for no more, once none is missing and nothing is on its way to a new one.
    fn forget_left(&self, pool: &api::Pool) {
        if !pool.drives.iter().all(|drive| drive.is_served() && drive.state != "moving") {
            return;
        }
        if let Err(error) = self.forget_unused(pool) {
            // One place too many is recorded, which costs a look at the next start.
            self.log
                .warning(format!("pool {}", pool.name), format!("its former drives stay recorded: {error}"));
        }
    }

    /// One line for each threshold that was passed, however fast.
    fn report_fullness(&self, object: &str, pool: &api::Pool, before: usize, now: usize) {
        if now < before {
            self.log.info(object, format!("{} % full, less than before", pool.full_percent));
        }
        for percent in &FULL_PERCENTS[before.min(now)..now] {
            match percent {
                FULL_PERCENT.. => {
                    let seconds = self.settings.now().no_space_wait_seconds;
                    let what = format!("full: a write waits {seconds} s for room and is refused then");
                    let way_out = "delete or unmap something, or `ashlar pool add-drive`";
                    self.log.error(object, format!("{what}; {way_out}; {ADVICE}"));
                }
                95.. => {
                    let what = format!("{percent} % full: writes are slow and will be refused soon");
                    self.log.error(object, format!("{what}; {ADVICE}"));
                }
                _ => self.log.warning(object, format!("{percent} % full; {ADVICE}")),
            }
        }
    }

    /// One line when a volume's limit is reached, and one when it is well below it again.
    fn report_limits(&self, before: &[String], now: &[String]) {
        for name in now.iter().filter(|name| !before.contains(name)) {
            let what = "at its limit: what it has may be written over, and writes that need room are refused";
            let way_out = format!("delete and unmap in it, or `ashlar volume set {name} --limit`");
            self.log.warning(format!("volume {name}"), format!("{what}; {way_out}"));
        }
        for name in before.iter().filter(|name| !now.contains(name)) {
            self.log.info(format!("volume {name}"), "not at its limit any more");
        }
    }

    fn report_forecast(&self, object: &str, pool: &api::Pool, forecast: &mut Forecast) {
        let Some(space) = &pool.space else { return };
        let free = space.free_bytes + space.freed_bytes + space.dead_bytes;
        let alive = space.usable_bytes().saturating_sub(free);
        if let Some(left) = forecast.look(Instant::now(), alive, space.usable_bytes()) {
            let hours = left.as_secs() / 3600;
            let what = format!("at the speed of the last hour it is full in {hours} to {} hours", hours + 1);
            self.log.warning(object, format!("{what}; {ADVICE}"));
        }
    }

    fn report_numbers(&self, object: &str, pool: &api::Pool) {
        let percent = pool.segment_numbers_percent;
        let advice = "no cleaning gives them back: copy its volumes to a new pool";
        match percent {
            100.. => self.log.error(
                object,
                format!("its segment numbers are used up: writes are refused, reads go on; {advice}"),
            ),
            _ => self.log.warning(object, format!("{percent} % of its segment numbers are used; {advice}")),
        }
    }

    fn report(&self, pool: &api::Pool, seen: &mut BTreeMap<String, Seen>) {
        let before = seen.get(&pool.name).cloned();
        let before = before.unwrap_or_default();
        let counter = |name: &str| pool.counters.get(name).copied().unwrap_or(0);
        let mended = counter("mended_blocks");
        let is_mended = mended > before.mended && before.mended_pause == 0;
        let is_stalled =
            pool.rebuild.is_none() && pool.drives.iter().any(|drive| drive.state == "rebuilding");
        let found_full = counter("writes_waited_for_room") + counter("writes_refused_for_room");
        // Room for the reserve and for what waits to be written is kept: writes are refused a little earlier.
        let percent = if found_full > before.found_full { 100 } else { pool.full_percent };
        let mut forecast = before.forecast.clone();
        let object = format!("pool {}", pool.name);
        self.report_forecast(&object, pool, &mut forecast);
        let now = Seen {
            takes_writes: pool.state.takes_writes(),
            damage: counter("damage"),
            mended: if is_mended { mended } else { before.mended },
            mended_pause: if is_mended { MENDED_PAUSE } else { before.mended_pause.saturating_sub(1) },
            stalled: if is_stalled { before.stalled.saturating_add(1) } else { 0 },
            removal_trouble: pool.removal.as_ref().and_then(|removal| removal.trouble.clone()),
            fullness: fullness(before.fullness, percent),
            found_full,
            at_limit: pool.volumes_at_limit.clone(),
            forecast,
            numbers: numbers(pool.segment_numbers_percent),
        };
        seen.insert(pool.name.clone(), now.clone());
        if is_mended {
            let what = "blocks of drives were wrong or unreadable and were written anew from the others";
            self.log.warning(object.as_str(), format!("{} {what}", mended - before.mended));
        }
        if now.stalled == STALLED_LOOKS {
            let why = pool.rebuild_error.as_deref().unwrap_or("it is not known why");
            let again =
                "taken out and back in again (`ashlar pool offline-drive`, `online-drive`), it starts anew";
            self.log.error(object.as_str(), format!("a drive's rebuild does not go on: {why}; {again}"));
        }
        if let (Some(why), Some(removal)) = (&now.removal_trouble, &pool.removal)
            && now.removal_trouble != before.removal_trouble
        {
            let (number, name) = (removal.drive_number, &pool.name);
            let what = format!("drive {number} does not leave: {why}; it is tried again");
            let back = format!("`ashlar pool online-drive {name} {number}` takes it back");
            self.log.warning(object.as_str(), format!("{what}; {back}"));
        }
        self.report_fullness(&object, pool, before.fullness, now.fullness);
        self.report_limits(&before.at_limit, &now.at_limit);
        if now.numbers > before.numbers {
            self.report_numbers(&object, pool);
        }
        if now.damage > before.damage {
            let message = format!("damage met {} times: `ashlar pool check {}`", now.damage, pool.name);
            self.log.error(object.clone(), message);
        }
        if now.takes_writes != before.takes_writes {
            match (now.takes_writes, &pool.reason) {
                (true, _) => self.log.info(object, format!("{} again", pool.state.name())),
                (_, Some(reason)) => self.log.error(object, format!("takes no writes: {reason}")),
                (_, None) => self.log.error(object, "takes no writes"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{fullness, numbers};

    #[test]
    fn segment_numbers_are_told_of_from_ninety_per_cent_on() {
        assert_eq!([0, 89, 90, 94, 95, 99, 100].map(numbers), [0, 0, 1, 1, 2, 3, 4]);
    }

    #[test]
    fn a_pool_at_a_threshold_does_not_chatter() {
        let mut passed = 0;
        let mut changes = 0;
        for percent in [70, 79, 80, 79, 80, 79, 78, 81, 90, 89, 91, 77, 76] {
            let now = fullness(passed, percent);
            changes += usize::from(now != passed);
            passed = now;
        }
        assert_eq!((passed, changes), (0, 3));
        assert_eq!(fullness(0, 100), 4);
        assert_eq!(fullness(4, 97), 4);
        assert_eq!(fullness(4, 96), 3);
    }
}
