//! The accounts: which pool a name is in, and one answer where a set lies in several.

use std::collections::BTreeMap;
use std::time::Duration;

use ashlar_api as api;

use super::Service;
use super::index::Index;
use crate::error::{Error, Result};

impl Service {
    /// Where a pool's bytes are; a quick answer comes at once, by the last mark.
    pub(crate) async fn pool_space(
        &self,
        pool: &str,
        is_quick: bool,
        within_seconds: u64,
    ) -> Result<api::PoolSpace> {
        let within = check_within(within_seconds)?;
        let within = (!is_quick).then_some(within);
        self.check_open(pool)?;
        self.array.pool_space(pool, within).await
    }

    /// What deleting a set would give back. Pools share nothing, so their answers add up.
    pub(crate) async fn reclaim(&self, request: api::ReclaimRequest) -> Result<api::Reclaim> {
        let within = check_within(request.within_seconds)?;
        let mut by_pool: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for name in request.names {
            by_pool.entry(self.pool_of(&name).await?).or_default().push(name);
        }
        let mut answer: Option<api::Reclaim> = None;
        for (pool, names) in by_pool {
            let part = self.array.reclaim(&pool, names, within).await?;
            answer = Some(match answer {
                None => part,
                Some(sum) => add(sum, part),
            });
        }
        answer.ok_or_else(|| {
            Error::invalid("nothing is named", "name the volumes and snapshots that would be deleted")
        })
    }

    /// What keeps the space of a volume or snapshot.
    pub(crate) async fn holders(&self, name: &str, within_seconds: u64) -> Result<api::Holders> {
        let within = check_within(within_seconds)?;
        let pool = self.pool_of(name).await?;
        self.array.holders(&pool, name, within).await
    }

    /// The pool of `VOLUME`, `SNAPSHOT` or `VOLUME@SNAPSHOT`, with or without its kind in front, or of
    /// `VOLUME:ID`, a deleted volume.
    async fn pool_of(&self, name: &str) -> Result<String> {
        if let Some(pool) = self.pool_of_deleted(name).await? {
            return Ok(pool);
        }
        let found = match name.split_once('@') {
            Some((volume, snapshot)) => self.pool_of_image(volume, snapshot),
            None => {
                let known = self.known();
                pool_of_object(&known.index, name)
            }
        };
        found.map_err(|error| self.or_not_open(error))
    }

    /// What is not found may be in a pool that did not open.
    pub(super) fn or_not_open(&self, error: Error) -> Error {
        let known = self.known();
        if error.kind != api::ErrorKind::NotFound {
            return error;
        }
        let Some(pool) = known.failures.first() else { return error };
        let action = format!(
            "{}; pool `{pool}` could not be opened and may hold it: `ashlar pool show {pool}` says why",
            error.action
        );
        Error { action, ..error }
    }
}

fn pool_of_object(index: &Index, name: &str) -> Result<String> {
    if let Some(volume) = name.strip_prefix("volume:") {
        return index.volume(volume);
    }
    if let Some(snapshot) = name.strip_prefix("snapshot:") {
        return index.snapshot(snapshot).map(|group| group.pool);
    }
    match (index.volume(name), index.snapshot(name)) {
        (Ok(_), Ok(_)) => Err(Error::unfit(
            format!("`{name}` is a volume and a snapshot"),
            format!("say `volume:{name}` or `snapshot:{name}`"),
        )),
        (Ok(pool), Err(_)) => Ok(pool),
        (Err(_), Ok(group)) => Ok(group.pool),
        (Err(_), Err(_)) => Err(Error::new(
            api::ErrorKind::NotFound,
            format!("neither a volume nor a snapshot `{name}` exists"),
            "`ashlar volume list` and `ashlar snapshot list` show those there are",
        )),
    }
}

pub(super) fn check_within(seconds: u64) -> Result<Duration> {
    if !(1..=api::WITHIN_SECONDS_MAX).contains(&seconds) {
        return Err(Error::invalid(
            format!("{seconds} seconds is no time to count within"),
            format!("allow 1 to {}", api::WITHIN_SECONDS_MAX),
        ));
    }
    Ok(Duration::from_secs(seconds))
}

fn add(mut sum: api::Reclaim, part: api::Reclaim) -> api::Reclaim {
    sum.members.extend(part.members);
    sum.held.extend(part.held);
    sum.chunk_bytes += part.chunk_bytes;
    sum.chunk_count += part.chunk_count;
    sum.map_page_bytes += part.map_page_bytes;
    sum.map_page_count += part.map_page_count;
    sum.kept_bytes += part.kept_bytes;
    sum.duration_millis += part.duration_millis;
    sum
}
