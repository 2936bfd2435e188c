//! Known pools at the start: opened at once where their drives are there, else as soon as they are.
//!
//! ```text
//!   known ──► opened
//!     │ drives missing or in use
//!     ▼
//!   waiting ──► opened      all drives are there, or a moment is over and the pool can do without
//!     │ late_drive_minutes
//!     ▼
//!   failed ──► opened       a person: `ashlar pool import`
//! ```
//!
//! Drives are looked for by their recorded paths, once a second: that needs no help of the system, and finds
//! files on a file system that is mounted late as well as devices.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ashlar_api as api;

use super::Service;
use super::generations::Overruled;
use super::pools::size_bytes;
use crate::error::{Error, Result};
use crate::state::KnownPool;

/// How long the start waits for drives in use before it goes on without their pool: a killed array lets go of
/// them when the kernel has ended what was in flight, which takes tens of milliseconds mostly.
const FIRST_WAIT_MAX: Duration = Duration::from_secs(2);
/// How long a question about databases waits for such a pool, and how often it looks. Arbitrary.
const SOON_MAX: Duration = Duration::from_secs(10);
const SOON_POLL: Duration = Duration::from_millis(20);
/// How often drives are looked for. Arbitrary.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long one look at the drives of a pool may take: a drive's file may lie where nobody answers.
const LOOK_MAX: Duration = Duration::from_secs(5);
/// Pause between attempts while nothing changes that could be seen. Arbitrary: an attempt reads superblocks.
const ATTEMPT_PAUSE: Duration = Duration::from_secs(10);
const MINUTE_SECONDS: u64 = 60;

/// A pool that is opened when its drives are there.
#[derive(Clone)]
pub(super) struct Wait {
    /// When it is given up.
    end: Instant,
    /// From when on it is opened without some of its drives, if it can do without.
    degraded_from: Instant,
    /// When it was last tried, and which of its drives were there.
    tried: Option<(Instant, Vec<bool>)>,
    /// They were in use then: that ends unseen.
    was_busy: bool,
}

impl Wait {
    /// Whether an attempt may do better than the last.
    fn is_due(&self, there: &[bool], now: Instant) -> bool {
        if !there.contains(&true) || (there.contains(&false) && now < self.degraded_from) {
            return false;
        }
        self.was_busy
            || self.tried.as_ref().is_none_or(|(when, before)| {
                before != there || now.saturating_duration_since(*when) >= ATTEMPT_PAUSE
            })
    }
}

impl Service {
    /// Opens every known pool whose drives are there. Others are waited for in the background, or reported
    /// with their reason; the rest goes on.
    pub(crate) async fn open_known(&self) -> Result<()> {
        let pools = self.state().load_pools()?;
        self.known().pools = pools.clone();
        self.load_wear();
        self.load_generations();
        self.look_at_marks();
        let begun = Instant::now();
        let waits = self.settings.now().late_drive_minutes > 0;
        for pool in &pools {
            let there = drives_there(pool).await;
            let missing = missing(pool, &there);
            // Where none served before none need come.
            let is_expected = |(path, _): &(&String, &bool)| !pool.vacant_drives.contains(path);
            let is_as_before =
                pool.drives.iter().zip(&there).filter(is_expected).all(|(_, is_there)| *is_there);
            let is_patient = self.settings.now().missing_drive_wait_seconds > 0 || !there.contains(&true);
            if waits && !is_as_before && is_patient {
                self.begin_wait(pool, format!("waits for {}", missing.join(", ")), begun, false);
                continue;
            }
            let patience = FIRST_WAIT_MAX.saturating_sub(begun.elapsed());
            match self.open(pool, Overruled::default(), patience).await {
                Ok(()) => self.tell_opened(pool).await,
                Err(error) if waits && may_pass(&error, &there) => {
                    let is_busy = error.kind == api::ErrorKind::Busy;
                    self.begin_wait(pool, error.message, begun, is_busy);
                }
                Err(error) => self.tell_failed(pool, &error),
            }
        }
        Ok(())
    }

    async fn tell_opened(&self, pool: &KnownPool) {
        self.log.info(format!("pool {}", pool.name), self.opened_line(&pool.name).await);
    }

    fn tell_failed(&self, pool: &KnownPool, error: &Error) {
        self.log.error(format!("pool {}", pool.name), format!("not opened: {error}"));
        let mut known = self.known();
        known.waits.remove(&pool.name);
        known.failures.insert(pool.name.clone(), error.to_string());
    }

    fn begin_wait(&self, pool: &KnownPool, reason: String, begun: Instant, was_busy: bool) {
        let minutes = self.settings.now().late_drive_minutes;
        let what = format!("{reason}; tried again for {minutes} min");
        self.log.warning(format!("pool {}", pool.name), what);
        self.wait_from(&pool.name, reason, begun, was_busy);
    }

    /// Enters a pool that is not open among those that are opened when their drives are there.
    pub(super) fn wait_from(&self, name: &str, reason: String, begun: Instant, was_busy: bool) {
        let seconds = |count: u64| Duration::from_secs(count);
        let wait = Wait {
            end: begun + seconds(u64::from(self.settings.now().late_drive_minutes) * MINUTE_SECONDS),
            degraded_from: begun + seconds(u64::from(self.settings.now().missing_drive_wait_seconds)),
            tried: None,
            was_busy,
        };
        let mut known = self.known();
        known.failures.insert(name.to_string(), reason);
        known.waits.insert(name.to_string(), wait);
    }

    /// Waits a moment for pools whose drives were in use at the start: those come within seconds, and whoever
    /// asks meanwhile is not to hear that what is in them does not exist.
    pub(crate) async fn wait_for_pools(&self) {
        let end = Instant::now() + SOON_MAX;
        while self.opens_soon() && Instant::now() < end && !self.is_stopping() {
            tokio::time::sleep(SOON_POLL).await;
        }
    }

    fn opens_soon(&self) -> bool {
        self.known().waits.values().any(|wait| wait.was_busy)
    }

    /// Why something that pools remember is not found: there is none, or its pool may not be open.
    pub(super) fn not_there(&self, what: &str, name: &str) -> Error {
        let known = self.known();
        if let Some(pool) = known.waits.keys().next() {
            return Error::new(
                api::ErrorKind::Closed,
                format!("{what} `{name}` is not known yet: pool `{pool}` waits for its drives"),
                format!("repeat it once that is open: `ashlar pool show {pool}` says what is missing"),
            );
        }
        let error = Error::not_found(what, name);
        match known.failures.first() {
            None => error,
            Some(pool) => Error {
                action: format!("it may be in pool `{pool}`, which is not open: `ashlar pool show {pool}`"),
                ..error
            },
        }
    }

    /// Opens pools whose drives come late, until none is waited for; `beat` is called while it waits. False
    /// when the array stops meanwhile.
    pub(crate) async fn open_late(self: &Arc<Self>, beat: impl Fn()) -> bool {
        loop {
            if self.is_stopping() {
                return false;
            }
            let waiting: Vec<String> = self.known().waits.keys().cloned().collect();
            if waiting.is_empty() {
                return true;
            }
            beat();
            tokio::time::sleep(LOOK_INTERVAL).await;
            for name in waiting {
                if self.is_stopping() {
                    return false;
                }
                self.look_again(&name).await;
            }
        }
    }

    /// Opens a pool if its drives are there now, gives it up if its time is over.
    async fn look_again(&self, name: &str) {
        let Some(pool) = self.known().pool(name).cloned() else { return };
        let there = drives_there(&pool).await;
        let now = Instant::now();
        let Some(wait) = self.known().waits.get(name).cloned() else { return };
        if !wait.is_due(&there, now) {
            if now >= wait.end {
                self.stop_waiting_for(&pool, &missing(&pool, &there));
            }
            return;
        }
        let Ok(_turn) = self.change().await else { return };
        // A person may have opened or forgotten it meanwhile.
        if !self.known().waits.contains_key(name) {
            return;
        }
        match self.open(&pool, Overruled::default(), Duration::ZERO).await {
            Ok(()) => {
                self.known().forget_failure(name);
                self.tell_opened(&pool).await;
            }
            Err(error) if may_pass(&error, &there) && now < wait.end => {
                let mut known = self.known();
                if let Some(wait) = known.waits.get_mut(name) {
                    wait.tried = Some((now, there));
                    wait.was_busy = error.kind == api::ErrorKind::Busy;
                }
                known.failures.insert(name.to_string(), error.message);
            }
            Err(error) => self.tell_failed(&pool, &error),
        }
    }

    fn stop_waiting_for(&self, pool: &KnownPool, missing: &[String]) {
        let known_reason = self.known().failures.get(&pool.name).cloned().unwrap_or_default();
        let reason = match missing {
            [] => known_reason,
            missing => format!("{} did not come", missing.join(", ")),
        };
        let minutes = self.settings.now().late_drive_minutes;
        let error = Error::new(
            api::ErrorKind::NotFound,
            format!("{reason}; it was waited for {minutes} min"),
            format!("bring the drives back, then `ashlar pool import {}`", pool.name),
        );
        self.tell_failed(pool, &error);
    }
}

/// Whether what went wrong may be over by itself: all else needs a person.
fn may_pass(error: &Error, there: &[bool]) -> bool {
    match error.kind {
        api::ErrorKind::Busy | api::ErrorKind::NotFound | api::ErrorKind::Medium => true,
        _ => there.contains(&false),
    }
}

async fn drives_there(pool: &KnownPool) -> Vec<bool> {
    are_there(&pool.drives).await
}

/// At which paths there is a drive. A device without a medium is none.
pub(super) async fn are_there(paths: &[String]) -> Vec<bool> {
    let count = paths.len();
    let paths = paths.to_vec();
    let look =
        move || paths.iter().map(|path| size_bytes(Path::new(path)).is_ok_and(|size| size > 0)).collect();
    let looked = tokio::time::timeout(LOOK_MAX, tokio::task::spawn_blocking(look)).await;
    looked.ok().and_then(std::result::Result::ok).unwrap_or_else(|| vec![false; count])
}

fn missing(pool: &KnownPool, there: &[bool]) -> Vec<String> {
    let pairs = pool.drives.iter().zip(there);
    pairs.filter(|(_, is_there)| !**is_there).map(|(path, _)| format!("drive {path}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_made_when_it_may_do_better_than_the_last() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let wait = |tried: Option<(Instant, Vec<bool>)>, was_busy| Wait {
            end: now + 600 * second,
            degraded_from: now + 15 * second,
            tried,
            was_busy,
        };
        let untried = wait(None, false);
        assert!(untried.is_due(&[true, true], now));
        assert!(!untried.is_due(&[false, false], now + 60 * second), "nothing to open");
        assert!(!untried.is_due(&[true, false], now), "the other may come");
        assert!(untried.is_due(&[true, false], now + 15 * second));
        let tried = wait(Some((now, vec![true, false])), false);
        assert!(!tried.is_due(&[true, false], now + 16 * second - ATTEMPT_PAUSE));
        assert!(tried.is_due(&[true, true], now + second), "it came");
        assert!(tried.is_due(&[true, false], now + 15 * second));
        assert!(wait(Some((now, vec![true])), true).is_due(&[true], now + second), "in use before");
    }
}
