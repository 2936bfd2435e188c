//! Drives that were missing when their pool was opened are taken back into service when they come.
//!
//! ```text
//!   in service ──► awaited         the pool was opened without it
//!   awaited ──► rebuilding         it is at a recorded path
//!   awaited ──► out                a person: `ashlar pool offline-drive`
//! ```
//!
//! One that a person took out, or that failed, stays out: what was wrong with it is not over because it is
//! there. A pool's superblock does not tell these apart at the next opening, so who is awaited stands in the
//! state file, and with it at which paths no drive serves: the next start does not wait for those.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ashlar_api as api;
use ashlar_engine::Away;

use super::Service;
use super::drives::numbered;
use super::late::are_there;
use crate::error::{Error, Result};
use crate::state::KnownPool;

/// How often awaited drives are looked for. Arbitrary: a look asks the system for one file's size.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// Pause before what is at a path and was refused is tried again. Arbitrary: an attempt reads superblocks.
const ATTEMPT_PAUSE: Duration = Duration::from_secs(30);

/// Why what is at a path was refused, and when, by pool and path.
type Refusals = BTreeMap<(String, String), (Instant, String)>;

impl Service {
    /// Takes awaited drives back when they come, until the array stops.
    pub(crate) async fn take_back_awaited(self: Arc<Self>) {
        let mut refusals = Refusals::new();
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            // The data shard is gone: the array is stopping.
            let Ok(pools) = self.array.pools().await else { return };
            for pool in pools {
                // What a person said counts also where it cannot be written down: the next look tries again.
                let is_noted = self.note_away_in_turn(&pool).await.is_ok();
                if !is_noted || self.awaited(&pool.name).is_empty() {
                    continue;
                }
                let Ok(pool) = self.pool(&pool.name).await else { continue };
                if pool.state.takes_writes() && pool.drives.iter().any(|drive| drive.is_awaited) {
                    self.look_for(&pool, &mut refusals).await;
                }
            }
        }
    }

    async fn note_away_in_turn(&self, pool: &api::Pool) -> Result<()> {
        let Some(known) = self.known().pool(&pool.name).cloned() else {
            return Ok(());
        };
        let is_whole = pool.drives.iter().all(|drive| drive.state != "out");
        let is_same = match is_whole {
            true => known.awaited_drives.is_empty(),
            false => {
                let away = self.array.drives_away(&pool.name).await?;
                still_awaited(away, &known.awaited_drives) == known.awaited_drives
            }
        };
        let is_same = is_same && last_paths(&known.last_paths, pool) == known.last_paths;
        if is_same && vacant(&known.drives, pool) == known.vacant_drives {
            return Ok(());
        }
        let _turn = self.change().await?;
        self.note_away(&pool.name).await
    }

    /// Writes down which drives of a pool are awaited, and where none serves. Whoever calls has the turn.
    pub(super) async fn note_away(&self, name: &str) -> Result<()> {
        // One that is just made or imported is noted when it is known.
        if self.known().pool(name).is_none() {
            return Ok(());
        }
        let away = self.array.drives_away(name).await?;
        let shown = self.pool(name).await?;
        let mut pools = self.known().pools.clone();
        let Some(pool) = pools.iter_mut().find(|pool| pool.name == name) else { return Ok(()) };
        let awaited = still_awaited(away, &pool.awaited_drives);
        let vacant = vacant(&pool.drives, &shown);
        let last_paths = last_paths(&pool.last_paths, &shown);
        let noted = KnownPool { awaited_drives: awaited, vacant_drives: vacant, last_paths, ..pool.clone() };
        if *pool == noted {
            return Ok(());
        }
        *pool = noted;
        self.state().store_pools(&pools)?;
        self.known().pools = pools;
        Ok(())
    }

    fn awaited(&self, name: &str) -> Vec<String> {
        self.known().pool(name).map(|pool| pool.awaited_drives.clone()).unwrap_or_default()
    }

    /// Takes back what is at a recorded path and was not refused a moment ago.
    async fn look_for(&self, pool: &api::Pool, refusals: &mut Refusals) {
        // One that serves, or that failed and stays out, is none of the drives that are awaited.
        let is_known =
            |path: &String| pool.drives.iter().any(|drive| drive.path == *path && !drive.is_awaited);
        let mut paths = self.recorded_drives(&pool.name);
        paths.retain(|path| !is_known(path));
        for (path, is_there) in paths.iter().zip(are_there(&paths).await) {
            let place = (pool.name.clone(), path.clone());
            if !is_there {
                // Whatever comes next is tried at once.
                refusals.remove(&place);
                continue;
            }
            let before = refusals.get(&place);
            if before.is_some_and(|(when, _)| when.elapsed() < ATTEMPT_PAUSE) {
                continue;
            }
            let before = before.map(|(_, why)| why.clone());
            match self.take_back(pool, path).await {
                Ok(()) => drop(refusals.remove(&place)),
                Err(error) => {
                    let why = error.to_string();
                    if before.as_ref() != Some(&why) {
                        let what = format!("what is at {path} is not taken back: {why}; it is tried again");
                        self.log.warning(format!("pool {}", pool.name), what);
                    }
                    refusals.insert(place, (Instant::now(), why));
                }
            }
        }
    }

    /// Takes back the drive at a path, whichever of those that are awaited it is.
    async fn take_back(&self, pool: &api::Pool, path: &str) -> Result<()> {
        let mut refusal: Option<Error> = None;
        for drive in pool.drives.iter().filter(|drive| drive.is_awaited) {
            let is_elsewhere = !drive.path.is_empty() && drive.path != path;
            let Some(number) = drive.number.filter(|_| !is_elsewhere) else { continue };
            match self.drive_take_back(&pool.name, number, path).await {
                Ok(()) => return Ok(()),
                Err(error) => refusal = Some(error),
            }
        }
        refusal.map_or(Ok(()), Err)
    }

    async fn drive_take_back(&self, name: &str, number: u32, path: &str) -> Result<()> {
        let _turn = self.change().await?;
        // A person may have taken it out, or back, meanwhile.
        let pool = self.pool(name).await?;
        if !numbered(&pool, number)?.is_awaited {
            return Ok(());
        }
        self.check_returns(&pool, number, path).await?;
        let places = [path.to_string()];
        self.join(name, &places, self.array.drive_online(name, number, path)).await?;
        let what = format!("drive {number} came, at {path}: it is taken back into service");
        self.log.info(format!("pool {name}"), what);
        self.told(name, false).await.map(|_| ())
    }
}

/// The recorded paths at which no drive serves.
fn vacant(recorded: &[String], pool: &api::Pool) -> Vec<String> {
    let serves = |path: &String| pool.drives.iter().any(|drive| drive.path == *path && drive.state != "out");
    recorded.iter().filter(|path| !serves(path)).cloned().collect()
}

/// Where each drive of a pool is, or was before.
fn last_paths(before: &BTreeMap<String, String>, pool: &api::Pool) -> BTreeMap<String, String> {
    let path_of = |drive: &api::Drive| match drive.path.is_empty() {
        true => before.get(&drive.id).cloned(),
        false => Some(drive.path.clone()),
    };
    pool.drives.iter().filter_map(|drive| Some((drive.id.clone(), path_of(drive)?))).collect()
}

/// Of the drives that are away, those that are awaited: missed at the opening, or at an earlier one.
fn still_awaited(away: Vec<(String, Away)>, before: &[String]) -> Vec<String> {
    let is_awaited = |(id, why): &(String, Away)| match why {
        Away::Missed => true,
        Away::Before => before.contains(id),
    };
    away.into_iter().filter(is_awaited).map(|(id, _)| id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_is_awaited_that_was_missed_now_or_earlier() {
        let away = || vec![("a".to_string(), Away::Missed), ("b".to_string(), Away::Before)];
        assert_eq!(still_awaited(away(), &[]), ["a"]);
        assert_eq!(still_awaited(away(), &["b".to_string(), "c".to_string()]), ["a", "b"]);
        assert!(
            still_awaited(Vec::new(), &["b".to_string()]).is_empty(),
            "it serves, failed or was taken out"
        );
    }
}
