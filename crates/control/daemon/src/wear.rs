//! How worn drives are: bytes written over their lives, what they may take, and when that is used up.
//!
//! The data path counts what is written to a drive since it was opened. [`Ledger`] adds that up by the
//! drives' identities, so that a count outlives openings of the pool and ends with the drive: another one in
//! its place has another identity. The ledger does no I/O; `service/wear.rs` feeds and stores it.

use std::collections::BTreeMap;

use ashlar_api as api;
use serde::{Deserialize, Serialize};

use crate::nvme::Health;

/// What the log tells of a drive, once each: in time to order another, and in time to put it in.
const WORN_PERCENTS: [u32; 2] = [80, 95];
/// Shorter than this a rate says nothing of the next years: days differ, hours differ more.
const RATE_SECONDS_MIN: u64 = 24 * 60 * 60;
/// How often growth is written to the state file: what a killed array may forget, against writes of the
/// drive that holds it. Arbitrary.
const STORE_INTERVAL_SECONDS: u64 = 60;
/// Lives kept of drives that are in no pool now and may come back with an import. Arbitrary.
const LIVES_MAX: usize = 1024;
/// TOML's integers are signed.
pub(crate) const BYTES_MAX: u64 = i64::MAX as u64;

/// What is remembered of a drive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Life {
    /// The drive's identity in its pool.
    pub(crate) id: String,
    pub(crate) written_bytes: u64,
    pub(crate) counted_since_unix_seconds: u64,
    /// When it was last in an open pool.
    #[serde(default)]
    pub(crate) seen_unix_seconds: u64,
    /// What may be written to it, as declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) endurance_bytes: Option<u64>,
    /// The highest of [`WORN_PERCENTS`] that the log told.
    #[serde(default)]
    pub(crate) told_percent: u32,
}

/// What of a drive's present opening is in its life.
struct Counted {
    pool: String,
    written_bytes: u64,
    is_out: bool,
}

impl Counted {
    /// What was written since. A drive that came back, or whose count fell, was opened anew.
    fn growth(&self, drive: &api::Drive) -> u64 {
        let is_opened_anew = self.is_out && drive.state != "out" || drive.written_bytes < self.written_bytes;
        if is_opened_anew { drive.written_bytes } else { drive.written_bytes - self.written_bytes }
    }
}

/// The lives of all drives this array knows.
#[derive(Default)]
pub(crate) struct Ledger {
    lives: BTreeMap<String, Life>,
    counted: BTreeMap<String, Counted>,
    /// What drives report of themselves, as far as they were asked; `None` for those that do not.
    health: BTreeMap<String, Option<Health>>,
    has_changed: bool,
    /// More than growth has changed.
    is_urgent: bool,
    stored_unix_seconds: u64,
}

/// A drive that passed one of the percentages.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Passed {
    pub(crate) number: u32,
    pub(crate) path: String,
    pub(crate) worn_percent: u32,
}

impl Ledger {
    /// A ledger of what the state file remembers.
    pub(crate) fn new(lives: Vec<Life>) -> Ledger {
        let lives = lives.into_iter().map(|life| (life.id.clone(), life)).collect();
        Ledger { lives, ..Ledger::default() }
    }

    /// Adds what was written to a pool's drives, given with their counts since they were opened.
    pub(crate) fn count(&mut self, pool: &str, drives: &[api::Drive], now: u64) {
        for drive in drives.iter().filter(|drive| !drive.id.is_empty()) {
            let growth = self.growth(drive);
            let life = self.lives.entry(drive.id.clone()).or_insert_with(|| {
                self.is_urgent = true;
                Life {
                    id: drive.id.clone(),
                    written_bytes: 0,
                    counted_since_unix_seconds: now,
                    seen_unix_seconds: now,
                    endurance_bytes: None,
                    told_percent: 0,
                }
            });
            life.written_bytes = life.written_bytes.saturating_add(growth).min(BYTES_MAX);
            self.has_changed |= growth > 0 || self.is_urgent;
            let counted = Counted {
                pool: pool.to_string(),
                written_bytes: drive.written_bytes,
                is_out: drive.state == "out",
            };
            self.counted.insert(drive.id.clone(), counted);
        }
    }

    fn growth(&self, drive: &api::Drive) -> u64 {
        self.counted.get(&drive.id).map_or(drive.written_bytes, |counted| counted.growth(drive))
    }

    /// A pool was closed: the next opening counts from zero.
    pub(crate) fn closed(&mut self, pool: &str) {
        self.counted.retain(|_, counted| counted.pool != pool);
    }

    /// A pool is no more, and the identities of its drives with it.
    pub(crate) fn destroyed(&mut self, pool: &str) {
        let counted = &self.counted;
        self.lives.retain(|id, _| counted.get(id).is_none_or(|counted| counted.pool != pool));
        self.closed(pool);
        (self.has_changed, self.is_urgent) = (true, true);
    }

    /// Puts into a drive's view, whose `written_bytes` are those since it was opened, what its life is.
    pub(crate) fn fill(&self, drive: &mut api::Drive, now: u64) {
        let Some(life) = self.lives.get(&drive.id) else { return };
        drive.written_bytes = life.written_bytes.saturating_add(self.growth(drive));
        drive.counted_since_unix_seconds = Some(life.counted_since_unix_seconds);
        drive.endurance_bytes = life.endurance_bytes;
        if let Some(Some(health)) = self.health.get(&drive.id) {
            drive.reported_worn_percent = Some(health.used_percent);
            drive.reported_written_bytes = health.written_bytes;
        }
        drive.worn_percent = worn_percent(drive);
        let counted_seconds = now.saturating_sub(life.counted_since_unix_seconds);
        drive.worn_out_unix_seconds = bytes_left(drive)
            .and_then(|left| seconds_left(left, drive.written_bytes, counted_seconds))
            .map(|seconds| now.saturating_add(seconds));
    }

    /// Declares what may be written to a drive; answers what was declared before.
    pub(crate) fn set_endurance(&mut self, id: &str, endurance_bytes: Option<u64>) -> Option<u64> {
        let life = self.lives.get_mut(id)?;
        // Against another endurance it may pass the same percentage again.
        life.told_percent = 0;
        (self.has_changed, self.is_urgent) = (true, true);
        std::mem::replace(&mut life.endurance_bytes, endurance_bytes)
    }

    /// Drives that passed a percentage which nobody was told of.
    pub(crate) fn passed(&mut self, drives: &[api::Drive], now: u64) -> Vec<Passed> {
        let mut all = Vec::new();
        for drive in drives {
            let mut filled = drive.clone();
            self.fill(&mut filled, now);
            let (Some(worn_percent), Some(number)) = (filled.worn_percent, filled.number) else { continue };
            let percent = WORN_PERCENTS.into_iter().filter(|percent| worn_percent >= *percent).max();
            let Some(life) = self.lives.get_mut(&drive.id) else { continue };
            if let Some(percent) = percent.filter(|percent| *percent > life.told_percent) {
                life.told_percent = percent;
                (self.has_changed, self.is_urgent) = (true, true);
                all.push(Passed { number, path: filled.path, worn_percent });
            }
        }
        all
    }

    /// True when a drive was not asked for its health yet.
    pub(crate) fn lacks_health(&self, drives: &[api::Drive]) -> bool {
        drives.iter().any(|drive| !drive.id.is_empty() && !self.health.contains_key(&drive.id))
    }

    /// What all drives of open pools report of themselves.
    pub(crate) fn set_health(&mut self, health: BTreeMap<String, Option<Health>>) {
        self.health = health;
    }

    /// True when it is time to store it.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        // A clock that was set back must not put it off.
        let is_time = now.abs_diff(self.stored_unix_seconds) >= STORE_INTERVAL_SECONDS;
        self.has_changed && (self.is_urgent || is_time)
    }

    /// True when something is not stored.
    pub(crate) fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// What to store.
    pub(crate) fn begin_storing(&mut self, now: u64) -> Vec<Life> {
        for id in self.counted.keys() {
            if let Some(life) = self.lives.get_mut(id) {
                life.seen_unix_seconds = now;
            }
        }
        while self.lives.len() > LIVES_MAX.max(self.counted.len()) {
            let absent = self.lives.values().filter(|life| !self.counted.contains_key(&life.id));
            let Some(oldest) = absent.min_by_key(|life| life.seen_unix_seconds) else { break };
            let id = oldest.id.clone();
            self.lives.remove(&id);
        }
        (self.has_changed, self.is_urgent) = (false, false);
        self.stored_unix_seconds = now;
        self.lives.values().cloned().collect()
    }

    /// What was to be stored is not; it is tried again when it is time.
    pub(crate) fn not_stored(&mut self) {
        self.has_changed = true;
    }
}

/// What a drive reports counts: it knows what it amplifies, and what came before this array.
fn worn_percent(drive: &api::Drive) -> Option<u32> {
    let declared = drive.endurance_bytes.map(|endurance| {
        let percent = u128::from(drive.written_bytes) * 100 / u128::from(endurance.max(1));
        u32::try_from(percent).unwrap_or(u32::MAX)
    });
    drive.reported_worn_percent.or(declared)
}

/// What may yet be written. A drive that reports less than one per cent says nothing of it, and the declared
/// endurance does.
fn bytes_left(drive: &api::Drive) -> Option<u64> {
    match (drive.reported_worn_percent, drive.reported_written_bytes) {
        (Some(percent @ 1..), Some(written)) => {
            let left =
                u128::from(written) * u128::from(100_u32.saturating_sub(percent)) / u128::from(percent);
            Some(u64::try_from(left).unwrap_or(u64::MAX))
        }
        _ => drive.endurance_bytes.map(|endurance| endurance.saturating_sub(drive.written_bytes)),
    }
}

/// The straight line: how long `left` bytes last at the rate so far. `None` while that is no rate.
fn seconds_left(left_bytes: u64, written_bytes: u64, counted_seconds: u64) -> Option<u64> {
    if left_bytes == 0 {
        return Some(0);
    }
    if counted_seconds < RATE_SECONDS_MIN || written_bytes == 0 {
        return None;
    }
    let seconds = u128::from(left_bytes) * u128::from(counted_seconds) / u128::from(written_bytes);
    Some(u64::try_from(seconds).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
