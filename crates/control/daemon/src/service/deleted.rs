//! Deleted volumes: how long they can come back, and who goes first when room is needed.
//!
//! The decision is made here, the engine only carries it out. Time is counted and not read: a deleted volume
//! ages while this array has its pool open and looks at it, by the monotonic clock, and what it has aged is
//! written to the pool now and then. So a clock of the wall that is wrong, is set forward or back, or jumps
//! over a restart makes nothing go early; nor does an array that was off. It is kept longer then.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ashlar_api as api;

use super::Service;
use super::users::Taking;
use crate::array::Deleted;
use crate::error::{Error, Result};
use crate::names;
use crate::tag::Seen;

/// How often deleted volumes are looked at. Arbitrary: room must come soon, before writes fail.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often their age is made durable. Arbitrary: a restart makes them younger by so much at most, and one
/// small write to the pool is nothing.
const STORE_INTERVAL: Duration = Duration::from_secs(600);
/// From so full on, in per cent, deleted volumes are given up before their time: what nobody uses must not
/// make the cleaner move more and more for each write.
const ROOM_PERCENT: u8 = 85;
/// One of so many goes at a time, the oldest, and at least one: of many small ones a single one is no room.
const GIVEN_UP_ONE_IN: usize = 8;
/// Marks of the cleaner until what was given up counts as dead: the one under way may have begun before.
const MARKS_UNTIL_SEEN: u64 = 2;
/// How often what deleted volumes hold alone is counted again though none came or went. Arbitrary.
const COUNT_INTERVAL: Duration = Duration::from_secs(600);
const HOUR_SECONDS: u64 = 60 * 60;

/// A deleted volume as it was seen first.
#[derive(Clone, Debug)]
struct Sighting {
    /// Which delete of the volume it is: when it was told to be.
    deleted_unix_seconds: u64,
    /// How old it was then, and when that was.
    seconds_before: u64,
    first_seen: Instant,
    /// What the pool has of its age.
    seconds_stored: u64,
}

impl Sighting {
    fn seconds(&self, now: Instant) -> u64 {
        self.seconds_before + now.saturating_duration_since(self.first_seen).as_secs()
    }
}

/// The age of every deleted volume, by pool and number.
#[derive(Default, Debug)]
struct Ages {
    sightings: BTreeMap<(String, u64), Sighting>,
}

impl Ages {
    /// Takes note of all deleted volumes there are now.
    fn look(&mut self, deleted: &[Deleted], now: Instant) {
        let key = |one: &Deleted| (one.pool.clone(), one.id);
        let there: BTreeMap<(String, u64), &Deleted> = deleted.iter().map(|one| (key(one), one)).collect();
        // A pool that was exported and one that came back, or a volume that was deleted anew, start anew.
        self.sightings.retain(|key, sighting| {
            there.get(key).is_some_and(|one| {
                one.deleted_unix_seconds == sighting.deleted_unix_seconds
                    && one.seen_seconds >= sighting.seconds_stored
            })
        });
        for (key, one) in there {
            self.sightings.entry(key).or_insert(Sighting {
                deleted_unix_seconds: one.deleted_unix_seconds,
                seconds_before: one.seen_seconds,
                first_seen: now,
                seconds_stored: one.seen_seconds,
            });
        }
    }

    fn seconds(&self, one: &Deleted, now: Instant) -> u64 {
        let sighting = self.sightings.get(&(one.pool.clone(), one.id));
        sighting.map_or(one.seen_seconds, |sighting| sighting.seconds(now))
    }

    fn forget(&mut self, pool: &str, id: u64) {
        self.sightings.remove(&(pool.to_string(), id));
    }

    /// What each pool is to write down.
    fn to_store(&self, now: Instant) -> BTreeMap<String, BTreeMap<u64, u64>> {
        let mut pools = BTreeMap::<String, BTreeMap<u64, u64>>::new();
        for ((pool, id), sighting) in &self.sightings {
            pools.entry(pool.clone()).or_default().insert(*id, sighting.seconds(now));
        }
        pools
    }

    fn stored(&mut self, pool: &str, seconds: &BTreeMap<u64, u64>) {
        for (id, seconds) in seconds {
            if let Some(sighting) = self.sightings.get_mut(&(pool.to_string(), *id)) {
                sighting.seconds_stored = *seconds;
            }
        }
    }
}

/// What was given up last for want of room: nothing more goes before its space had time to come back.
struct GivenUp {
    marks: u64,
}

/// What a pool's deleted volumes hold alone, when they were these.
struct Counted {
    ids: Vec<u64>,
    at: Instant,
    bytes: Option<u64>,
}

/// What the array remembers of deleted volumes.
#[derive(Default)]
pub(super) struct Keeper {
    ages: Mutex<Ages>,
    counted: Mutex<BTreeMap<String, Counted>>,
}

impl Keeper {
    fn ages(&self) -> MutexGuard<'_, Ages> {
        self.ages.lock().expect("no holder of this lock panics")
    }

    fn counted(&self) -> MutexGuard<'_, BTreeMap<String, Counted>> {
        self.counted.lock().expect("no holder of this lock panics")
    }
}

/// Those whose time is over, then the oldest where the pool needs room.
fn due<'a>(deleted: &'a [Deleted], ages: &Ages, keep_seconds: u64, now: Instant) -> Vec<&'a Deleted> {
    deleted.iter().filter(|one| ages.seconds(one, now) >= keep_seconds).collect()
}

/// Those that go first.
fn oldest<'a>(deleted: &'a [Deleted], ages: &Ages, pool: &str, now: Instant) -> Vec<&'a Deleted> {
    let mut of_pool: Vec<&Deleted> = deleted.iter().filter(|one| one.pool == pool).collect();
    of_pool.sort_by_key(|one| (std::cmp::Reverse(ages.seconds(one, now)), one.id));
    of_pool.truncate(of_pool.len().div_ceil(GIVEN_UP_ONE_IN));
    of_pool
}

impl Service {
    fn keep_seconds(&self) -> u64 {
        u64::from(self.settings.now().deleted_volumes_hours) * HOUR_SECONDS
    }

    /// The deleted volumes that can come back, the one kept longest first.
    pub(crate) async fn deleted_volumes(&self) -> Result<Vec<api::DeletedVolume>> {
        let deleted = self.array.deleted_volumes().await?;
        let now = Instant::now();
        let mut ages = self.keeper.ages();
        ages.look(&deleted, now);
        let mut views: Vec<api::DeletedVolume> = deleted
            .into_iter()
            .map(|one| {
                let kept_seconds = ages.seconds(&one, now);
                api::DeletedVolume {
                    name: one.name,
                    pool: one.pool,
                    id: one.id,
                    size_bytes: one.size_bytes,
                    written_bytes: one.written_bytes,
                    deleted_unix_seconds: one.deleted_unix_seconds,
                    kept_seconds,
                    remaining_seconds: self.keep_seconds().saturating_sub(kept_seconds),
                }
            })
            .collect();
        // Of two in one second the one made last was deleted last, most likely.
        views.sort_by_key(|one| (std::cmp::Reverse(one.kept_seconds), one.deleted_unix_seconds, one.id));
        Ok(views)
    }

    /// Deletes a volume, also one in use if forced. It can come back, unless it is to go now.
    pub(crate) async fn volume_delete(
        &self,
        name: &str,
        is_forced: bool,
        is_now: bool,
        seen: &Seen,
    ) -> Result<api::VolumeDeletion> {
        let _turn = self.change().await?;
        let pool = self.known().index.volume(name)?;
        self.check_volume_seen(name, seen).await?;
        // First: who is logged in loses more than an export.
        self.check_unused(|image| image == name, Taking::All, is_forced).await?;
        if !is_forced {
            self.check_not_exported(name, "or overrule it with --force").await?;
        }
        let recoverable_seconds = if is_now { 0 } else { self.keep_seconds() };
        let id = if recoverable_seconds == 0 {
            let volumes = self.array.volumes().await?;
            let id = volumes.into_iter().find(|volume| volume.name == name).map_or(0, |volume| volume.id);
            self.array.volume_delete(&pool, name).await?;
            self.log.info(format!("volume {name}"), "deleted for good");
            id
        } else {
            let deleted = self.array.volume_set_aside(&pool, name).await.map_err(no_room_to_keep)?;
            let hours = self.settings.now().deleted_volumes_hours;
            let back = format!("`ashlar volume undelete {name}` brings it back for {hours} hours");
            self.log.info(format!("volume {name}"), format!("deleted; {back}"));
            self.keeper.ages().forget(&pool, deleted.id);
            deleted.id
        };
        self.known().index.remove_volume(name);
        self.array.refresh_exports().await?;
        if self.known().index.has_images_of(name) {
            self.name_images_anew(&pool).await?;
        }
        Ok(api::VolumeDeletion { name: name.to_string(), pool, id, recoverable_seconds })
    }

    /// The same for a volume that is no database's.
    pub(crate) async fn volume_delete_alone(
        &self,
        name: &str,
        is_forced: bool,
        is_now: bool,
        seen: &Seen,
    ) -> Result<api::VolumeDeletion> {
        if !is_forced {
            self.check_of_no_database(name).await?;
        }
        self.volume_delete(name, is_forced, is_now, seen).await
    }

    /// Brings a deleted volume back.
    pub(crate) async fn volume_undelete(
        &self,
        which: &str,
        request: api::VolumeUndelete,
    ) -> Result<api::Volume> {
        let _turn = self.change().await?;
        let deleted = self.find_deleted(which).await?;
        // The one deleted last: people notice at once.
        let one = deleted.last().ok_or_else(|| no_such(which))?;
        let name = request.name.unwrap_or_else(|| one.name.clone());
        names::check("volume", &name)?;
        self.known().index.check_volume_free(&name).map_err(|error| Error {
            action: format!("give it another name: `ashlar volume undelete {which} --as NAME`"),
            ..error
        })?;
        let volume = self.array.volume_undelete(&one.pool, one.id, &name).await?;
        self.keeper.ages().forget(&one.pool, one.id);
        self.known().index.add_volume(&name, &one.pool);
        self.array.refresh_exports().await?;
        self.name_images_anew(&one.pool).await?;
        let was = if name == one.name { String::new() } else { format!("; it was {}", one.name) };
        self.log.info(format!("volume {name}"), format!("undeleted{was}"));
        Ok(volume)
    }

    /// Gives up a deleted volume at a person's word.
    pub(crate) async fn deleted_volume_purge(&self, which: &str) -> Result<()> {
        let _turn = self.change().await?;
        let deleted = self.find_deleted(which).await?;
        let [one] = &deleted[..] else {
            let ids: Vec<String> = deleted.iter().map(|one| format!("{}:{}", one.name, one.id)).collect();
            return Err(match ids.is_empty() {
                true => no_such(which),
                false => Error::unfit(
                    format!("there are {} deleted volumes `{which}`", ids.len()),
                    format!("say which: {}", ids.join(", ")),
                ),
            });
        };
        self.array.deleted_give_up(&one.pool, one.id).await?;
        self.keeper.ages().forget(&one.pool, one.id);
        self.log.info(format!("volume {}", one.name), "given up: it cannot come back");
        Ok(())
    }

    /// The deleted volumes of this name, or the one of this name and number; the one deleted last at the end.
    async fn find_deleted(&self, which: &str) -> Result<Vec<api::DeletedVolume>> {
        let (name, id) = match which.split_once(':') {
            Some((name, id)) => (name, Some(id.parse::<u64>().map_err(|_| no_such(which))?)),
            None => (which, None),
        };
        let mut deleted = self.deleted_volumes().await?;
        deleted.retain(|one| one.name == name && id.is_none_or(|id| id == one.id));
        Ok(deleted)
    }

    /// The pool of a deleted volume that is named with its number.
    pub(super) async fn pool_of_deleted(&self, which: &str) -> Result<Option<String>> {
        if !which.contains(':') {
            return Ok(None);
        }
        // `volume:NAME` and the like say something else.
        let found = self.find_deleted(which).await;
        Ok(found.ok().and_then(|deleted| deleted.into_iter().next()).map(|one| one.pool))
    }

    /// Images are called by their volumes' names.
    async fn name_images_anew(&self, pool: &str) -> Result<()> {
        let snapshots = self.array.snapshots().await?;
        let mut known = self.known();
        for snapshot in snapshots.iter().filter(|snapshot| snapshot.pool == pool) {
            known.index.add_snapshot(&snapshot.name, pool, &snapshot.volumes);
        }
        Ok(())
    }

    /// Gives up deleted volumes when their time is over or their room is needed, until the array stops.
    pub(crate) async fn keep_deleted(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut given_up = BTreeMap::new();
        let mut stored_at = Instant::now();
        loop {
            ticks.tick().await;
            let Ok(deleted) = self.array.deleted_volumes().await else { return };
            let now = Instant::now();
            self.keeper.ages().look(&deleted, now);
            let over: Vec<Deleted> = {
                let ages = self.keeper.ages();
                due(&deleted, &ages, self.keep_seconds(), now).into_iter().cloned().collect()
            };
            for one in &over {
                self.give_up(one, "its time is over").await;
            }
            if over.is_empty() {
                self.make_room(&deleted, &mut given_up).await;
            }
            self.count_recoverable(&deleted).await;
            if stored_at.elapsed() >= STORE_INTERVAL {
                stored_at = Instant::now();
                self.store_ages().await;
            }
        }
    }

    async fn give_up(&self, one: &Deleted, why: &str) {
        let object = format!("volume {}", one.name);
        match self.array.deleted_give_up(&one.pool, one.id).await {
            Ok(()) => self.log.info(object, format!("deleted before, given up: {why}")),
            // Somebody brought it back in this moment.
            Err(error) if error.kind == api::ErrorKind::NotFound => {}
            // A pool that takes no changes keeps what it has; it is tried again.
            Err(_) => {}
        }
    }

    /// Some at a time, and the next when the space of those before had time to come back.
    async fn make_room(&self, deleted: &[Deleted], given_up: &mut BTreeMap<String, GivenUp>) {
        if deleted.is_empty() {
            return;
        }
        let Ok(pools) = self.array.pools().await else { return };
        for pool in pools.iter().filter(|pool| needs_room(pool)) {
            let marks = counter(pool, "marks");
            if given_up.get(&pool.name).is_some_and(|before| marks < before.marks + MARKS_UNTIL_SEEN) {
                continue;
            }
            let first = oldest(deleted, &self.keeper.ages(), &pool.name, Instant::now());
            for one in first {
                given_up.insert(pool.name.clone(), GivenUp { marks });
                let why = format!("pool {} is {} % full and needs its room", pool.name, pool.full_percent);
                self.log.warning(
                    format!("pool {}", pool.name),
                    format!("gives up deleted volume {} early", one.name),
                );
                self.give_up(one, &why).await;
            }
        }
        given_up.retain(|name, _| pools.iter().any(|pool| pool.name == *name));
    }

    /// Writes down how old deleted volumes are.
    pub(super) async fn store_ages(&self) {
        let to_store = self.keeper.ages().to_store(Instant::now());
        for (pool, seconds) in to_store {
            // A pool that takes no changes gives up nothing either.
            if self.array.deleted_seen(&pool, seconds.clone()).await.is_ok() {
                self.keeper.ages().stored(&pool, &seconds);
            }
        }
    }

    /// Counts what deleted volumes hold alone, where others are deleted than at the last count.
    async fn count_recoverable(&self, deleted: &[Deleted]) {
        let mut pools = BTreeMap::<&str, Vec<u64>>::new();
        for one in deleted {
            pools.entry(&one.pool).or_default().push(one.id);
        }
        self.keeper.counted().retain(|pool, _| pools.contains_key(pool.as_str()));
        for (pool, ids) in pools {
            let is_known = self
                .keeper
                .counted()
                .get(pool)
                .is_some_and(|counted| counted.ids == ids && counted.at.elapsed() < COUNT_INTERVAL);
            if !is_known {
                let bytes = self.array.recoverable_bytes(pool).await.unwrap_or(None);
                let counted = Counted { ids, at: Instant::now(), bytes };
                self.keeper.counted().insert(pool.to_string(), counted);
            }
        }
    }

    /// How many deleted volumes pools have, and what these hold.
    pub(super) async fn fill_deleted(&self, pools: &mut [api::Pool]) -> Result<()> {
        let deleted = self.array.deleted_volumes().await?;
        let counted = self.keeper.counted();
        for pool in pools {
            let ids: Vec<u64> =
                deleted.iter().filter(|one| one.pool == pool.name).map(|one| one.id).collect();
            pool.deleted_volume_count = ids.len() as u64;
            pool.recoverable_bytes = match ids.is_empty() {
                true => Some(0),
                false => {
                    counted.get(&pool.name).filter(|known| known.ids == ids).and_then(|known| known.bytes)
                }
            };
        }
        Ok(())
    }
}

fn no_such(which: &str) -> Error {
    Error::new(
        api::ErrorKind::NotFound,
        format!("there is no deleted volume `{which}`"),
        "`ashlar volume list --deleted` shows those there are",
    )
    .about(api::ObjectKind::DeletedVolume, which)
}

/// A pool that is nearly full, or in which hosts wait.
fn needs_room(pool: &api::Pool) -> bool {
    pool.full_percent >= ROOM_PERCENT || counter(pool, "writes_waiting_for_room") > 0
}

pub(super) fn counter(pool: &api::Pool, name: &str) -> u64 {
    pool.counters.get(name).copied().unwrap_or(0)
}

/// The pool has no room to keep anything.
fn no_room_to_keep(error: Error) -> Error {
    match error.kind {
        api::ErrorKind::NoSpace => Error { action: "delete it for good with --now".to_string(), ..error },
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(HOUR_SECONDS);

    fn deleted(id: u64, deleted_unix_seconds: u64, seen_seconds: u64) -> Deleted {
        Deleted {
            pool: "main".to_string(),
            id,
            name: "db".to_string(),
            size_bytes: 4096,
            written_bytes: Some(0),
            deleted_unix_seconds,
            seen_seconds,
        }
    }

    fn due_ids(there: &[Deleted], ages: &Ages, now: Instant) -> Vec<u64> {
        due(there, ages, 24 * HOUR_SECONDS, now).iter().map(|one| one.id).collect()
    }

    /// The wall's clock was ten years ahead at the delete, or ten years behind, or stands at 1970: what it
    /// said never counts.
    #[test]
    fn a_wrong_clock_makes_nothing_go_early_and_keeps_nothing_for_years() {
        let start = Instant::now();
        for told in [0, 1, 1_790_000_000, 4_000_000_000, u64::MAX] {
            let there = [deleted(1, told, 0)];
            let mut ages = Ages::default();
            ages.look(&there, start);
            assert!(due_ids(&there, &ages, start + 23 * HOUR).is_empty(), "{told}");
            assert_eq!(due_ids(&there, &ages, start + 24 * HOUR), [1], "{told}");
        }
    }

    /// Only what was seen counts, and what was stored of it survives a restart.
    #[test]
    fn time_in_which_the_array_was_off_does_not_count() {
        let start = Instant::now();
        let there = [deleted(1, 1_790_000_000, 0)];
        let mut ages = Ages::default();
        ages.look(&there, start);
        let stored = ages.to_store(start + 20 * HOUR)["main"][&1];
        assert_eq!(stored, 20 * HOUR_SECONDS);
        // Whatever the clock of the wall says by now.
        let mut next = Ages::default();
        let there = [deleted(1, 1_790_000_000, stored)];
        next.look(&there, start);
        assert!(due_ids(&there, &next, start + 3 * HOUR).is_empty());
        assert_eq!(due_ids(&there, &next, start + 4 * HOUR), [1]);
    }

    #[test]
    fn a_volume_that_came_back_and_is_deleted_again_has_its_whole_time() {
        let start = Instant::now();
        let mut ages = Ages::default();
        ages.look(&[deleted(1, 1_790_000_000, 0)], start);
        ages.stored("main", &BTreeMap::from([(1, 3600)]));
        // Not even gone between two looks; the clock of the wall may have been set back to the same second.
        for again in [deleted(1, 1_790_000_100, 0), deleted(1, 1_790_000_000, 0)] {
            ages.look(std::slice::from_ref(&again), start + 20 * HOUR);
            assert_eq!(ages.seconds(&again, start + 21 * HOUR), HOUR_SECONDS);
            ages.stored("main", &BTreeMap::from([(1, 3600)]));
        }
        ages.look(&[], start + 22 * HOUR);
        assert!(ages.sightings.is_empty());
    }

    #[test]
    fn room_comes_from_the_one_kept_longest_first() {
        let start = Instant::now();
        let mut ages = Ages::default();
        let there = [deleted(9, 5, 100), deleted(2, 4_000_000_000, 7_000), deleted(3, 1, 0)];
        let many: Vec<Deleted> = (20..40).map(|id| deleted(id, 1, 100 + id)).collect();
        ages.look(&[&there[..], &many[..]].concat(), start);
        let ids = |there: &[Deleted], pool| -> Vec<u64> {
            oldest(there, &ages, pool, start).into_iter().map(|one| one.id).collect()
        };
        assert_eq!(ids(&there, "main"), [2]);
        assert!(ids(&there, "other").is_empty());
        assert_eq!(ids(&many, "main"), [39, 38, 37]);
    }
}
