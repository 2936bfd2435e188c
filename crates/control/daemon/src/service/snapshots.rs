//! Snapshots, holds and clones.

use std::collections::{BTreeMap, BTreeSet};

use ashlar_api as api;

use super::Service;
use super::users::Taking;
use crate::error::{Error, Result};
use crate::names;
use crate::tag::Seen;

impl Service {
    /// All snapshots, the oldest first; those of a pool in the order in which they were taken.
    pub(crate) async fn snapshots(&self) -> Result<Vec<api::Snapshot>> {
        Ok(oldest_first(self.array.snapshots().await?))
    }

    /// One snapshot.
    pub(crate) async fn snapshot(&self, name: &str) -> Result<api::Snapshot> {
        self.known().index.snapshot(name)?;
        let snapshots = self.snapshots().await?;
        snapshots.into_iter().find(|s| s.name == name).ok_or_else(|| Error::not_found("snapshot", name))
    }

    /// Takes a snapshot of volumes of one pool at one instant, because a person wants it.
    pub(crate) async fn snapshot_create(&self, request: api::SnapshotCreate) -> Result<api::Snapshot> {
        self.check_not_of_schedule(&request.name).await?;
        self.snapshot_make(request).await
    }

    /// The same, whatever it is called.
    pub(super) async fn snapshot_make(&self, request: api::SnapshotCreate) -> Result<api::Snapshot> {
        let snapshot = self.snapshot_take(request).await?;
        self.log.info(
            format!("snapshot {}", snapshot.name),
            format!("created of {}", snapshot.volumes.join(" ")),
        );
        Ok(snapshot)
    }

    /// The same without a word.
    pub(super) async fn snapshot_take(&self, request: api::SnapshotCreate) -> Result<api::Snapshot> {
        names::check("snapshot", &request.name)?;
        let _turn = self.change().await?;
        let pool = self.pool_of_group(&request)?;
        let snapshot = self.array.snapshot_create(&pool, request).await?;
        self.known().index.add_snapshot(&snapshot.name, &pool, &snapshot.volumes);
        Ok(snapshot)
    }

    pub(super) fn pool_of_group(&self, request: &api::SnapshotCreate) -> Result<String> {
        let known = self.known();
        known.index.check_snapshot_free(&request.name)?;
        let mut pools = Vec::new();
        for (position, volume) in request.volumes.iter().enumerate() {
            if request.volumes[..position].contains(volume) {
                return Err(Error::invalid(
                    format!("volume `{volume}` is named twice"),
                    "name each volume once",
                ));
            }
            pools.push(known.index.volume(volume)?);
        }
        let Some(first) = pools.first() else {
            return Err(Error::invalid("no volume is named", "name one or more volumes of one pool"));
        };
        match pools.iter().find(|pool| *pool != first) {
            None => Ok(first.clone()),
            Some(other) => Err(Error::unfit(
                format!("the volumes lie in pools `{first}` and `{other}`"),
                "one snapshot holds volumes of one pool: take one in each",
            )),
        }
    }

    /// Deletes snapshots, those of a pool together. All are checked first, and none is deleted where
    /// one cannot be; a pool that fails meanwhile keeps what it had not deleted.
    pub(crate) async fn snapshots_delete(&self, request: api::SnapshotsDelete) -> Result<()> {
        self.snapshots_remove(request, true, &Seen::Unsaid).await
    }

    /// Deletes one that is as somebody saw it.
    pub(crate) async fn snapshot_delete(&self, name: &str, is_forced: bool, seen: &Seen) -> Result<()> {
        let request = api::SnapshotsDelete { names: vec![name.to_string()], force: is_forced };
        self.snapshots_remove(request, true, seen).await
    }

    /// Deletes snapshots that are as somebody saw them; each is told or none.
    pub(super) async fn snapshots_remove(
        &self,
        request: api::SnapshotsDelete,
        is_told: bool,
        seen: &Seen,
    ) -> Result<()> {
        let _turn = self.change().await?;
        for name in &request.names {
            self.check_snapshot_seen(name, seen).await?;
        }
        let of_pools = self.by_pool(&request.names)?;
        self.check_not_held(&request.names).await?;
        self.check_not_needed(&request.names, request.force).await?;
        let is_meant = |image: &str| {
            image
                .split_once('@')
                .is_some_and(|(_, snapshot)| request.names.iter().any(|name| name == snapshot))
        };
        self.check_unused(is_meant, Taking::All, request.force).await?;
        for pool in of_pools.keys() {
            self.array.check_online(pool).await?;
        }
        let (mut count, all) = (0, of_pools.values().map(Vec::len).sum::<usize>());
        for (pool, names) in of_pools {
            let done = self.array.snapshots_delete(&pool, names.clone()).await;
            let left = if done.is_ok() { BTreeSet::new() } else { self.array.snapshots_of(&pool).await? };
            for name in names.iter().filter(|name| !left.contains(*name)) {
                self.known().index.remove_snapshot(name);
                if is_told {
                    self.log.info(format!("snapshot {name}"), "deleted");
                }
                count += 1;
            }
            done.map_err(|error| only_some_deleted(error, count, all))?;
        }
        Ok(())
    }

    /// Refuses a snapshot that is not as somebody saw it.
    async fn check_snapshot_seen(&self, name: &str, seen: &Seen) -> Result<()> {
        if seen.is_said() {
            seen.check(&self.snapshot(name).await?)?;
        }
        Ok(())
    }

    /// Refuses where one of these is held, also in another pool than the first.
    async fn check_not_held(&self, names: &[String]) -> Result<()> {
        let snapshots = self.snapshots().await?;
        let held = snapshots.iter().filter(|snapshot| names.contains(&snapshot.name));
        let held: Vec<(&String, &api::SnapshotHold)> =
            held.filter_map(|snapshot| Some((&snapshot.name, snapshot.hold.as_ref()?))).collect();
        let Some((first, hold)) = held.first() else { return Ok(()) };
        let why = if hold.reason.is_empty() { String::new() } else { format!(" ({})", hold.reason) };
        let more = if held.len() > 1 { format!(", and {} more", held.len() - 1) } else { String::new() };
        Err(Error::new(
            api::ErrorKind::Busy,
            format!("snapshot `{first}` is held{why}{more}: none was deleted"),
            format!("`ashlar snapshot release {first}` ends that"),
        )
        .about(api::ObjectKind::Snapshot, first.as_str())
        .because(api::Reason::Held))
    }

    /// Holds a snapshot: nobody and nothing deletes it until it is released.
    pub(crate) async fn snapshot_hold(
        &self,
        name: &str,
        request: api::HoldRequest,
        seen: &Seen,
    ) -> Result<api::Snapshot> {
        if request.reason.chars().any(char::is_control) {
            return Err(Error::invalid("the reason holds control characters", "write it in one line"));
        }
        let _turn = self.change().await?;
        let pool = self.known().index.snapshot(name)?.pool;
        self.check_snapshot_seen(name, seen).await?;
        let why = if request.reason.is_empty() { String::new() } else { format!(": {}", request.reason) };
        let snapshot = self.array.snapshot_hold(&pool, name, request.reason).await?;
        self.log.info(format!("snapshot {name}"), format!("held{why}"));
        Ok(snapshot)
    }

    /// Ends the hold of a snapshot, if there is one.
    pub(crate) async fn snapshot_release(&self, name: &str, seen: &Seen) -> Result<api::Snapshot> {
        let _turn = self.change().await?;
        let pool = self.known().index.snapshot(name)?.pool;
        self.check_snapshot_seen(name, seen).await?;
        let snapshot = self.array.snapshot_release(&pool, name).await?;
        self.log.info(format!("snapshot {name}"), "released");
        Ok(snapshot)
    }

    fn by_pool(&self, names: &[String]) -> Result<BTreeMap<String, Vec<String>>> {
        if names.is_empty() {
            return Err(Error::invalid("no snapshot is named", "name one or more snapshots"));
        }
        let mut of_pools = BTreeMap::<String, Vec<String>>::new();
        for name in BTreeSet::from_iter(names) {
            of_pools.entry(self.known().index.snapshot(name)?.pool).or_default().push(name.clone());
        }
        Ok(of_pools)
    }

    /// Sets a snapshot's volumes back to it, and keeps what they were in another if wanted.
    pub(crate) async fn snapshot_restore(
        &self,
        name: &str,
        is_forced: bool,
        is_kept: bool,
    ) -> Result<api::Restored> {
        // Before it is this one's turn: a write may wait for room until others have deleted.
        let volumes = self.known().index.snapshot(name)?.volumes;
        self.drain_all(&volumes).await;
        let _turn = self.change().await?;
        let snapshot = self.known().index.snapshot(name)?;
        // A mounted file system would go on with what it remembers and destroy what came back.
        let is_meant = |image: &str| snapshot.volumes.iter().any(|volume| volume == image);
        self.check_unused(is_meant, Taking::Content, is_forced).await?;
        let backup = is_kept.then(|| self.known().index.name_of_backup());
        self.array.snapshot_restore(&snapshot.pool, name, backup.clone()).await?;
        if let Some(backup) = &backup {
            self.known().index.add_snapshot(backup, &snapshot.pool, &snapshot.volumes);
        }
        // A volume that was deleted since is back, or is not: ask.
        for volume in self.array.volumes().await? {
            self.known().index.add_volume(&volume.name, &volume.pool);
        }
        let kept = backup.as_ref().map_or_else(
            || "; nothing is kept of what they were".to_string(),
            |backup| format!("; what they were is snapshot {backup}"),
        );
        let volumes = snapshot.volumes.join(" ");
        self.log.info(format!("snapshot {name}"), format!("restored to {volumes}{kept}"));
        Ok(api::Restored { snapshot: name.to_string(), volumes: snapshot.volumes, backup })
    }

    /// Makes writable volumes from a snapshot or a volume.
    pub(crate) async fn clone_create(&self, request: api::CloneCreate) -> Result<Vec<api::Volume>> {
        names::check("clone", &request.name)?;
        let _turn = self.change().await?;
        let pool = self.pool_of_origin(&request)?;
        let from = request.from.clone();
        let clones = self.array.clone_create(&pool, request).await?;
        for clone in &clones {
            self.known().index.add_volume(&clone.name, &pool);
            self.log.info(format!("volume {}", clone.name), format!("cloned from {from}"));
        }
        Ok(clones)
    }

    /// The pool of `VOLUME@SNAPSHOT`.
    pub(super) fn pool_of_image(&self, volume: &str, snapshot: &str) -> Result<String> {
        let found = self.known().index.snapshot(snapshot)?;
        if found.volumes.iter().any(|name| name == volume) {
            return Ok(found.pool);
        }
        Err(Error::new(
            api::ErrorKind::NotFound,
            format!("snapshot `{snapshot}` holds no volume `{volume}`"),
            format!("it holds {}", found.volumes.join(", ")),
        ))
    }

    /// Finds the origin's pool and refuses names that are taken in any pool.
    fn pool_of_origin(&self, request: &api::CloneCreate) -> Result<String> {
        if let Some((volume, snapshot)) = request.from.split_once('@') {
            self.known().index.check_volume_free(&request.name)?;
            return self.pool_of_image(volume, snapshot);
        }
        let known = self.known();
        if let Ok(found) = known.index.snapshot(&request.from) {
            for name in clone_names(&request.name, &found.volumes) {
                names::check("clone", &name)?;
                known.index.check_volume_free(&name)?;
            }
            return Ok(found.pool);
        }
        known.index.check_volume_free(&request.name)?;
        known.index.volume(&request.from).map_err(|_| {
            Error::new(
                api::ErrorKind::NotFound,
                format!("neither a snapshot nor a volume `{}` exists", request.from),
                "`ashlar snapshot list` and `ashlar volume list` show those there are",
            )
        })
    }
}

/// A failure on the way, with what was deleted before it.
fn only_some_deleted(error: Error, deleted: usize, all: usize) -> Error {
    match deleted {
        0 => error,
        _ => Error {
            message: format!(
                "{}; {deleted} of the {all} snapshots are deleted, the others are not",
                error.message
            ),
            ..error
        },
    }
}

/// The names a clone's volumes get: its own, or NAME-VOLUME for each volume of a group.
fn clone_names(name: &str, volumes: &[String]) -> Vec<String> {
    match volumes {
        [_] => vec![name.to_string()],
        several => several.iter().map(|volume| format!("{name}-{volume}")).collect(),
    }
}

/// By the time at which they were taken. Those of a pool come in their order and stay in it, whatever the
/// clock was set to meanwhile.
fn oldest_first(snapshots: Vec<api::Snapshot>) -> Vec<api::Snapshot> {
    let mut latest: BTreeMap<String, u64> = BTreeMap::new();
    let mut timed: Vec<(u64, api::Snapshot)> = Vec::with_capacity(snapshots.len());
    for snapshot in snapshots {
        let time = latest.entry(snapshot.pool.clone()).or_default();
        *time = snapshot.created_unix_seconds.max(*time);
        timed.push((*time, snapshot));
    }
    timed.sort_by_key(|(time, _)| *time);
    timed.into_iter().map(|(_, snapshot)| snapshot).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(name: &str, pool: &str, created_unix_seconds: u64) -> api::Snapshot {
        let (name, pool) = (name.to_string(), pool.to_string());
        api::Snapshot { name, pool, volumes: Vec::new(), created_unix_seconds, size_bytes: 0, hold: None }
    }

    /// A clock that was set back made the newest snapshot the oldest.
    #[test]
    fn snapshots_of_a_pool_keep_their_order_whatever_the_clock_was_set_to() {
        let all = vec![
            taken("first", "main", 2_000),
            taken("back", "main", 1_000),
            taken("last", "main", 3_000),
            taken("elsewhere", "other", 1_500),
        ];
        let names: Vec<String> = oldest_first(all).into_iter().map(|snapshot| snapshot.name).collect();
        assert_eq!(names, ["elsewhere", "first", "back", "last"]);
    }
}
