//! Pools that stopped writing are opened again when their drives take writes: by themselves, or when a person
//! says so.
//!
//! A pool stops when a write fails whose outcome nobody knows: what is on its drives then is for an opening
//! to find out. Reads go on until it is closed for that. The opening is the same as after a crash, and
//! devices that doors keep go on with it; what was asked of them in between fails.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ashlar_api as api;

use super::Service;
use super::generations::Overruled;
use crate::array::{LINGER, Stopped};
use crate::error::{Error, Result};

/// How often stopped pools are looked for.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Pauses between attempts: each twice as long as the last. An opening reads the journal, and readers wait.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// Openings after which a person must see to it; an hour and a half.
const ATTEMPTS_MAX: u32 = 24;
/// A pool that wrote for so long has come back.
const SETTLED: Duration = Duration::from_secs(600);
/// A file system with less room than this is full: the opening would fail at its first checkpoint.
const ROOM_BYTES: u64 = 16 << 20;

/// Attempts to open a pool again.
struct Attempts {
    count: u32,
    next: Instant,
}

impl Attempts {
    fn pause(count: u32) -> Duration {
        PAUSE_FIRST.saturating_mul(1 << count.min(16)).min(PAUSE_MAX)
    }
}

impl Service {
    /// Opens a pool again that stopped writing or is not open. One that takes writes is left alone.
    pub(crate) async fn pool_reopen(&self, name: &str) -> Result<api::Pool> {
        let _turn = self.change().await?;
        let is_open = self.check_known(name)?;
        let before = self.pool(name).await?;
        if before.state.takes_writes() {
            return Ok(before);
        }
        if is_open {
            // It goes on being read until an opening may do better.
            self.array.pool_try_writing(name).await.map_err(|error| {
                let what = format!("the drives of pool `{name}` still take no writes: {}", error.message);
                Error::new(error.kind, what, "mend them, then repeat; reads go on")
            })?;
        }
        self.open_again(name, is_open).await?;
        let pool = self.pool(name).await?;
        self.log.info(format!("pool {name}"), format!("opened again: {}", pool.state.name()));
        Ok(pool)
    }

    /// Whoever calls has the turn.
    async fn open_again(&self, name: &str, is_open: bool) -> Result<()> {
        let pool = self.known().pool(name).cloned();
        let Some(pool) = pool else { return Ok(()) };
        if is_open {
            self.pool_let_go(name).await?;
        }
        match self.open(&pool, Overruled::default(), LINGER).await {
            Ok(()) => {
                self.known().forget_failure(name);
                Ok(())
            }
            Err(error) => {
                // It is opened as soon as that works, as at the start.
                if is_open {
                    self.known().index.remove_pool(name);
                    self.wait_from(name, error.message.clone(), Instant::now(), true);
                }
                Err(error)
            }
        }
    }

    /// Opens pools again that stopped writing, when their drives take writes, until the array stops.
    pub(crate) async fn reopen_when_writable(self: Arc<Self>) {
        let mut attempts: BTreeMap<String, Attempts> = BTreeMap::new();
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            // The data shard is gone: the array is stopping.
            let Ok(stopped) = self.array.pools_stopped().await else { return };
            let now = Instant::now();
            attempts.retain(|name, tried| {
                stopped.iter().any(|pool| pool.name == *name) || now < tried.next + SETTLED
            });
            for pool in stopped {
                let tried = attempts.entry(pool.name.clone()).or_insert(Attempts { count: 0, next: now });
                if now >= tried.next && tried.count < ATTEMPTS_MAX && self.is_writable(&pool).await {
                    tried.next = now + Attempts::pause(tried.count);
                    tried.count += 1;
                    self.come_back(&pool, tried.count).await;
                }
            }
        }
    }

    async fn come_back(&self, pool: &Stopped, count: u32) {
        let object = format!("pool {}", pool.name);
        let Ok(_turn) = self.change().await else { return };
        let is_open = self.check_known(&pool.name).unwrap_or(false);
        if !is_open {
            return;
        }
        self.log.info(object.as_str(), "its drives take writes again: it is opened anew");
        let opened = self.open_again(&pool.name, true).await;
        let now = self.pool(&pool.name).await;
        match (opened, now) {
            (Ok(()), Ok(now)) if now.state.takes_writes() => {
                let what = "what failed in between was not written: mount file systems anew that gave up";
                self.log.info(object, format!("takes writes again; {what}"));
            }
            (Ok(()), Ok(now)) => {
                let why = now.reason.unwrap_or_default();
                let end = match count < ATTEMPTS_MAX {
                    true => "it is tried again",
                    false => "it is not tried again by itself",
                };
                self.log.warning(object, format!("still takes no writes: {why}; {end}"));
            }
            (Err(error), _) | (_, Err(error)) => {
                self.log.error(object, format!("not opened again: {error}; it is tried again"));
            }
        }
    }

    /// Whether it is worth an opening: the drives take a write, and there is room where that was why.
    async fn is_writable(&self, pool: &Stopped) -> bool {
        let wanted_room = pool.reason.contains("No space left") || pool.reason.contains("quota");
        if wanted_room && !self.has_room(&pool.name).await {
            return false;
        }
        self.array.pool_try_writing(&pool.name).await.is_ok()
    }

    async fn has_room(&self, name: &str) -> bool {
        let drives: Vec<PathBuf> = self.recorded_drives(name).into_iter().map(PathBuf::from).collect();
        let look = move || {
            drives.iter().filter(|path| path.is_file()).all(|path| {
                rustix::fs::statvfs(path).is_ok_and(|space| {
                    // One without blocks tells nothing of its space.
                    space.f_blocks == 0 || space.f_bavail.saturating_mul(space.f_frsize) >= ROOM_BYTES
                })
            })
        };
        tokio::task::spawn_blocking(look).await.unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit() {
        let seconds: Vec<u64> = (0..11).map(|count| Attempts::pause(count).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(Attempts::pause(ATTEMPTS_MAX), PAUSE_MAX);
    }
}
