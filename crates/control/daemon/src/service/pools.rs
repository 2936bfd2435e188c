//! Pools: create, open at the start, check, export, import, delete.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ashlar_api as api;
use ashlar_units::ByteCount;

use super::Service;
use super::drive_content::say_force;
use super::drive_files;
use super::generations::Overruled;
use super::scrubs::unix_seconds;
use super::users::Taking;
use crate::array::{Contents, LINGER};
use crate::error::{Error, Result};
use crate::names;
use crate::state::KnownPool;
use crate::tag::Seen;

impl Service {
    pub(super) async fn opened_line(&self, name: &str) -> String {
        match self.pool(name).await {
            Ok(api::Pool { recovery: Some(recovery), volume_count, snapshot_count, .. }) => format!(
                "opened in {} ms, {} journal groups replayed, {volume_count} volumes, {snapshot_count} snapshots",
                recovery.millis, recovery.groups_replayed
            ),
            _ => "opened".to_string(),
        }
    }

    /// Opens one pool and indexes its names. Drives in use are waited for a little.
    pub(super) async fn open(
        &self,
        pool: &KnownPool,
        overruled: Overruled,
        patience: Duration,
    ) -> Result<()> {
        let opening = self.opening(overruled);
        let settings = self.settings.now();
        let opened = self.array.pool_open(&pool.name, &pool.drives, &settings, opening, patience);
        let mut contents = opened.await?;
        self.sweep_hidden(&pool.name, &mut contents).await;
        let indexed = self.known().index.replace_pool(&pool.name, &contents);
        if let Err(error) = indexed {
            self.pool_close(&pool.name).await?;
            return Err(error);
        }
        self.note_away_or_tell(&pool.name).await;
        self.figures.is_to_recall(&pool.name);
        self.count_wear().await
    }

    /// Deletes the clones by which an array that was killed had mounted snapshots. One that cannot be deleted
    /// is in nobody's way.
    async fn sweep_hidden(&self, pool: &str, contents: &mut Contents) {
        // Those of this array's own attachments stay: the pool is opened again under them.
        let carriers: BTreeSet<String> =
            self.known().attached.values().map(|slot| slot.carrier.clone()).collect();
        for name in contents.volumes.extract_if(.., |name| names::is_hidden(name)) {
            if carriers.contains(&name) || name == names::FIGURES {
                continue;
            }
            if let Err(error) = self.array.volume_delete(pool, &name).await {
                let what = format!("the clone {name}, by which a snapshot was mounted, stays: {error}");
                self.log.warning(format!("pool {pool}"), what);
            }
        }
    }

    /// All pools, by name.
    pub(crate) async fn pools(&self) -> Result<Vec<api::Pool>> {
        let mut pools = self.array.pools().await?;
        self.fill_wear(&mut pools);
        self.fill_deleted(&mut pools).await?;
        let known = self.known();
        for pool in &mut pools {
            let (volumes, snapshots) = known.index.counts(&pool.name);
            (pool.volume_count, pool.snapshot_count) = (volumes as u64, snapshots as u64);
        }
        let open: BTreeSet<String> = pools.iter().map(|pool| pool.name.clone()).collect();
        for pool in known.pools.iter().filter(|pool| !open.contains(&pool.name)) {
            let (state, reason) = match known.failures.get(&pool.name) {
                Some(reason) => (known.closed_state(&pool.name), reason.as_str()),
                None => (api::PoolState::Opening, "it is being opened"),
            };
            pools.push(failed_view(pool, state, reason));
        }
        for pool in &mut pools {
            let remembered = known.pool(&pool.name);
            pool.scrubbed_unix_seconds = remembered.map(|other| other.scrubbed_unix_seconds);
            let awaited = remembered.map_or(&[][..], |other| &other.awaited_drives);
            for drive in pool.drives.iter_mut().filter(|drive| drive.state == "out") {
                drive.is_awaited = awaited.contains(&drive.id);
            }
            for drive in pool.drives.iter_mut().filter(|drive| drive.path.is_empty()) {
                drive.last_path = remembered.and_then(|other| other.last_paths.get(&drive.id).cloned());
            }
            for drive in pool.drives.iter_mut().filter(|drive| drive.reason.is_none()) {
                let key = (pool.name.clone(), drive.id.clone());
                drive.reason = known.drive_troubles.get(&key).cloned();
            }
        }
        drop(known);
        pools.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(pools)
    }

    /// One pool.
    pub(crate) async fn pool(&self, name: &str) -> Result<api::Pool> {
        let pools = self.pools().await?;
        pools.into_iter().find(|pool| pool.name == name).ok_or_else(|| Error::not_found("pool", name))
    }

    /// Makes a pool, opens it, remembers it.
    pub(crate) async fn pool_create(&self, request: api::PoolCreate) -> Result<api::Pool> {
        names::check("pool", &request.name)?;
        check_drives(request.drives.iter().map(|drive| drive.path.as_str()))?;
        let _turn = self.change().await?;
        self.check_pool_free(&request.name)?;
        for drive in &request.drives {
            self.check_drive_free(&drive.path, None)?;
        }
        let paths: Vec<String> = request.drives.iter().map(|drive| canonical(&drive.path)).collect();
        self.check_below(&paths, None).await?;
        self.check_content(&request.drives).await?;
        let made = files_to_make(&request.drives)?;
        let ready = self.make_ready(&request.drives, None).await?;
        let created = self.array.pool_create(&request).await;
        if let Err(error) = created {
            // What was not there before the attempt is not there after it.
            for path in made {
                let _ = std::fs::remove_file(path);
            }
            ready.restore().await;
            return Err(say_force(error));
        }
        let paths: Vec<String> = paths.iter().map(|path| canonical(path)).collect();
        let pool = known_from_now(&request.name, paths);
        self.open_and_remember(pool, Overruled::default()).await?;
        self.log
            .info(format!("pool {}", request.name), format!("created on {} drives", request.drives.len()));
        self.pool(&request.name).await
    }

    /// Opens a pool that another array exported, or that failed to open.
    pub(crate) async fn pool_import(&self, name: &str, request: api::PoolImport) -> Result<api::Pool> {
        names::check("pool", name)?;
        let _turn = self.change().await?;
        let overruled = Overruled { is_forced: request.force, is_older_accepted: request.accept_older_state };
        let drives = self.drives_to_import(name, request).await?;
        self.open_and_remember(known_from_now(name, drives), overruled).await?;
        self.log.info(format!("pool {name}"), "imported");
        if overruled.is_forced {
            self.log.warning(format!("pool {name}"), "taken over by force, if another array had it open");
        }
        if overruled.is_older_accepted {
            self.log.warning(format!("pool {name}"), "older states of its drives were accepted: check it");
        }
        let pool = self.pool(name).await?;
        for unused in &pool.unused_drives {
            self.log.warning(format!("pool {name}"), format!("not used: {unused}"));
        }
        self.forget_unused(&pool)?;
        Ok(pool)
    }

    /// Once all drives of a pool are found, what was named besides is looked at no more.
    pub(super) fn forget_unused(&self, pool: &api::Pool) -> Result<()> {
        let there = pool.drives.iter().filter(|drive| !drive.is_in_spare_space);
        let drives: Vec<String> = there.map(|drive| drive.path.clone()).collect();
        if drives.iter().any(String::is_empty) {
            return Ok(());
        }
        self.record_drives(&pool.name, drives)
    }

    async fn drives_to_import(&self, name: &str, request: api::PoolImport) -> Result<Vec<String>> {
        let recorded = self.recorded_unless_open(name)?;
        if !request.drives.is_empty() {
            check_drives(request.drives.iter().map(String::as_str))?;
            let drives: Vec<String> = request.drives.iter().map(|path| canonical(path)).collect();
            for drive in &drives {
                self.check_drive_free(drive, None)?;
            }
            let there: Vec<String> = drives.iter().filter(|path| Path::new(path).exists()).cloned().collect();
            self.check_below(&there, None).await?;
            return Ok(drives);
        }
        recorded.ok_or_else(|| {
            Error::unfit(
                format!("no drive of pool `{name}` is named and none is recorded"),
                format!("name every one: `ashlar pool import {name} --drive PATH ...`"),
            )
        })
    }

    /// The drives of a known pool that did not open.
    fn recorded_unless_open(&self, name: &str) -> Result<Option<Vec<String>>> {
        let known = self.known();
        let found = known.pool(name);
        if found.is_some() && !known.failures.contains(name) {
            return Err(Error::new(
                api::ErrorKind::Exists,
                format!("pool `{name}` is open already"),
                "`ashlar pool show` shows it",
            ));
        }
        Ok(found.map(|pool| pool.drives.clone()))
    }

    async fn open_and_remember(&self, pool: KnownPool, overruled: Overruled) -> Result<()> {
        self.open(&pool, overruled, LINGER).await?;
        let mut pools = self.known().pools.clone();
        pools.retain(|other| other.name != pool.name);
        pools.push(pool.clone());
        if let Err(error) = self.state().store_pools(&pools) {
            // A pool that the next start would not open must not take writes now.
            self.known().index.remove_pool(&pool.name);
            self.pool_close(&pool.name).await?;
            let drives: Vec<String> = pool.drives.iter().map(|drive| format!("--drive {drive}")).collect();
            // The pool is on its drives: whoever repeated a create would be refused.
            let mend = error.action.trim_end_matches(", then repeat");
            return Err(Error::new(
                error.kind,
                format!("pool `{}` is there and cannot be remembered ({})", pool.name, error.message),
                format!("{mend}, then `ashlar pool import {} {}`", pool.name, drives.join(" ")),
            ));
        }
        {
            let mut known = self.known();
            known.forget_failure(&pool.name);
            known.pools = pools;
        }
        self.note_away_or_tell(&pool.name).await;
        Ok(())
    }

    /// Notes where drives are, for the next start. Without that it waits for those that are out, too.
    async fn note_away_or_tell(&self, name: &str) {
        if let Err(error) = self.note_away(name).await {
            let what = format!("drives that are missing may not be taken back by themselves: {error}");
            self.log.warning(format!("pool {name}"), what);
        }
    }

    /// Verifies a pool while it serves.
    pub(crate) async fn pool_check(&self, name: &str, is_deep: bool) -> Result<api::CheckReport> {
        self.check_open(name)?;
        let report = self.array.pool_check(name, is_deep).await?;
        if let Some(wrong) = report.parity.map(|parity| parity.wrong_stripe_count).filter(|wrong| *wrong > 0)
        {
            self.log.warning(
                format!("pool {name}"),
                format!("check: {wrong} stripes do not agree with their parity: scrub the pool"),
            );
        }
        match report.errors.first() {
            None => self
                .log
                .info(format!("pool {name}"), format!("check: {} chunks, all well", report.chunk_count)),
            Some(first) => self.log.error(
                format!("pool {name}"),
                format!("check: {} damaged places, the first: {first}", report.errors.len()),
            ),
        }
        Ok(report)
    }

    /// The fingerprint index of a pool.
    pub(crate) async fn pool_dedupe(&self, name: &str) -> Result<api::Dedupe> {
        self.check_open(name)?;
        self.array.pool_dedupe(name).await
    }

    /// Rebuilds, drops or resizes the fingerprint index of a pool.
    pub(crate) async fn pool_dedupe_change(
        &self,
        name: &str,
        request: api::DedupeRequest,
    ) -> Result<api::Dedupe> {
        let _turn = self.change().await?;
        self.check_open(name)?;
        let what = match request.action {
            api::DedupeAction::Rebuild => "dedupe: everything is looked at again",
            api::DedupeAction::Drop => "dedupe: index dropped",
            api::DedupeAction::Resize => "dedupe: index of another size",
        };
        let dedupe = self.array.pool_dedupe_change(name, request).await?;
        self.log.info(format!("pool {name}"), what.to_string());
        Ok(dedupe)
    }

    /// Closes and forgets a pool, also one in use if forced.
    pub(crate) async fn pool_export(&self, name: &str, is_forced: bool) -> Result<()> {
        let _turn = self.change().await?;
        let is_open = self.check_known(name)?;
        self.check_unused(|image| self.is_in_pool(image, name), Taking::All, is_forced).await?;
        let pool = self.pool(name).await?;
        let had_stopped = is_open && !pool.state.takes_writes();
        if let Some(path) = drive_files::deleted(&pool).filter(|_| !is_forced) {
            return Err(Error::new(
                api::ErrorKind::Busy,
                format!("the file of drive {path} was deleted: an export gives up the last that has it open"),
                format!("copy what pool `{name}` holds to another one first, or lose it with --force"),
            ));
        }
        self.forget(name)?;
        if is_open && let Err(error) = self.pool_close(name).await {
            if !had_stopped {
                return Err(error);
            }
            // There was nothing left that could be written: it is closed all the same.
            self.log.warning(format!("pool {name}"), format!("it had stopped before: {}", error.message));
        }
        self.log.info(format!("pool {name}"), "exported");
        Ok(())
    }

    /// Destroys an empty pool.
    pub(crate) async fn pool_delete(&self, name: &str, is_forced: bool, seen: &Seen) -> Result<()> {
        let _turn = self.change().await?;
        self.check_open(name)?;
        if seen.is_said() {
            seen.check(&self.pool(name).await?)?;
        }
        let (volumes, snapshots) = self.known().index.counts(name);
        if volumes + snapshots > 0 {
            return Err(Error::new(
                api::ErrorKind::Busy,
                format!("pool `{name}` holds {volumes} volumes and {snapshots} snapshots"),
                "delete them first",
            )
            .about(api::ObjectKind::Pool, name)
            .because(api::Reason::NotEmpty));
        }
        self.check_unused(|image| self.is_in_pool(image, name), Taking::Content, false).await?;
        let api::Pool { id, deleted_volume_count, drives, .. } = self.pool(name).await?;
        if deleted_volume_count > 0 && !is_forced {
            return Err(Error::new(
                api::ErrorKind::Busy,
                format!(
                    "pool `{name}` holds {deleted_volume_count} deleted volumes that can still come back"
                ),
                "`ashlar volume list --deleted` shows them; give them up with --force",
            )
            .about(api::ObjectKind::Pool, name)
            .because(api::Reason::NotEmpty));
        }
        // Forgotten first: after a crash in between, the drives still carry a pool that can be imported.
        self.forget(name)?;
        self.pool_destroy(name).await?;
        self.forget_generation(&id);
        self.empty_drives(drives.into_iter().map(|drive| drive.path).collect()).await;
        self.log.info(format!("pool {name}"), "deleted");
        Ok(())
    }

    fn forget(&self, name: &str) -> Result<()> {
        let mut pools = self.known().pools.clone();
        pools.retain(|pool| pool.name != name);
        self.state().store_pools(&pools)?;
        let mut known = self.known();
        known.pools = pools;
        known.forget_failure(name);
        known.index.remove_pool(name);
        Ok(())
    }

    fn check_pool_free(&self, name: &str) -> Result<()> {
        if self.known().pools.iter().any(|pool| pool.name == name) {
            return Err(Error::new(
                api::ErrorKind::Exists,
                format!("pool `{name}` exists"),
                "choose another name",
            )
            .about(api::ObjectKind::Pool, name));
        }
        Ok(())
    }

    /// Refuses a drive of a pool that is open, but for the pool `own`: its lock would say the same in other
    /// words.
    pub(super) fn check_drive_free(&self, path: &str, own: Option<&str>) -> Result<()> {
        let path = canonical(path);
        let known = self.known();
        for pool in known.pools.iter().filter(|pool| !known.failures.contains(&pool.name)) {
            if own != Some(pool.name.as_str()) && pool.drives.contains(&path) {
                return Err(Error::new(
                    api::ErrorKind::Exists,
                    format!("drive {path} belongs to pool `{}`", pool.name),
                    "choose another drive",
                ));
            }
        }
        Ok(())
    }

    /// True when a known pool is open.
    pub(super) fn check_known(&self, name: &str) -> Result<bool> {
        let known = self.known();
        if known.pools.iter().any(|pool| pool.name == name) {
            return Ok(!known.failures.contains(name));
        }
        Err(Error::not_found("pool", name))
    }

    /// Refuses a pool that is not open.
    pub(super) fn check_open(&self, name: &str) -> Result<()> {
        if self.check_known(name)? {
            return Ok(());
        }
        let what = match self.known().closed_state(name) {
            api::PoolState::Waiting => "waits for its drives",
            _ => "could not be opened",
        };
        Err(Error::new(
            api::ErrorKind::Closed,
            format!("pool `{name}` {what}"),
            format!(
                "`ashlar pool show {name}` says why, `ashlar pool import {name}` tries again, `ashlar pool export \
                 {name}` forgets it"
            ),
        )
        .about(api::ObjectKind::Pool, name)
        .because(api::Reason::PoolClosed))
    }

    /// True for a volume of the pool, and for an image of a snapshot of it, also one that was deleted while
    /// it is attached.
    fn is_in_pool(&self, image: &str, pool: &str) -> bool {
        let known = self.known();
        let found = match image.split_once('@') {
            Some((_, snapshot)) => known.index.snapshot(snapshot).map(|group| group.pool),
            None => known.index.volume(image),
        };
        let is_attached = known.attached.get(image).is_some_and(|slot| slot.pool == pool);
        is_attached || found.is_ok_and(|found| found == pool)
    }
}

/// The volume of `VOLUME` or `VOLUME@SNAPSHOT`.
pub(super) fn device_volume(name: &str) -> &str {
    name.split_once('@').map_or(name, |(volume, _)| volume)
}

fn known_from_now(name: &str, drives: Vec<String>) -> KnownPool {
    KnownPool {
        name: name.to_string(),
        drives,
        scrubbed_unix_seconds: unix_seconds(),
        awaited_drives: Vec::new(),
        vacant_drives: Vec::new(),
        last_paths: BTreeMap::new(),
    }
}

fn failed_view(pool: &KnownPool, state: api::PoolState, reason: &str) -> api::Pool {
    let drive = |path: &String| {
        let size = size_bytes(Path::new(path));
        api::Drive {
            path: path.clone(),
            size_bytes: *size.as_ref().unwrap_or(&0),
            state: "unknown".to_string(),
            reason: size.err().map(|error| error.to_string()),
            ..api::Drive::default()
        }
    };
    api::Pool {
        name: pool.name.clone(),
        id: String::new(),
        generation: 0,
        state,
        reason: Some(reason.to_string()),
        protection: api::Protection::None,
        drives: pool.drives.iter().map(drive).collect(),
        unused_drives: Vec::new(),
        rebuild: None,
        scrub: None,
        scrubbed_unix_seconds: None,
        rebuild_error: None,
        removal: None,
        space: None,
        provisioned_bytes: 0,
        full_percent: 0,
        volumes_at_limit: Vec::new(),
        segment_numbers_percent: 0,
        volume_count: 0,
        snapshot_count: 0,
        deleted_volume_count: 0,
        recoverable_bytes: None,
        recovery: None,
        counters: Default::default(),
    }
}

/// Size of a file or a block device.
pub(super) fn size_bytes(path: &Path) -> std::io::Result<u64> {
    let kind = std::fs::metadata(path)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(std::io::Error::other("it is neither a file nor a block device"));
    }
    std::fs::File::open(path)?.seek(SeekFrom::End(0))
}

/// Absolute paths, each once.
pub(super) fn check_drives<'a>(paths: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut seen = BTreeSet::new();
    for path in paths {
        if !Path::new(path).is_absolute() || path.contains('\0') {
            return Err(Error::invalid(
                format!("`{}` is not an absolute path of a drive", path.escape_debug()),
                "name the drive from the root, as in /dev/nvme0n1",
            ));
        }
        if !seen.insert(canonical(path)) {
            return Err(Error::unfit(format!("drive {path} is named twice"), "name each drive once"));
        }
    }
    if seen.is_empty() {
        return Err(Error::invalid("no drive is named", "a pool needs at least one drive"));
    }
    Ok(())
}

/// The path without symbolic links, so that one drive has one name; as given while it does not exist.
pub(super) fn canonical(path: &str) -> String {
    std::fs::canonicalize(path)
        .ok()
        .and_then(|found| found.to_str().map(str::to_string))
        .unwrap_or_else(|| path.to_string())
}

/// The files that creating the pool will make. A drive without a size must be there; one with a size
/// must not, because an existing file may be somebody's data.
pub(super) fn files_to_make(drives: &[api::DriveSpec]) -> Result<Vec<PathBuf>> {
    let mut made = Vec::new();
    for drive in drives {
        let path = Path::new(&drive.path);
        match (path.symlink_metadata().is_ok(), drive.size_bytes) {
            (true, Some(_)) => {
                return Err(Error::new(
                    api::ErrorKind::Exists,
                    format!("drive {} exists, so its size is given", drive.path),
                    "leave `size=` out to use it as it is",
                )
                .over_rest("leave `size_bytes` out to use it as it is"));
            }
            (false, None) => {
                return Err(Error::new(
                    api::ErrorKind::NotFound,
                    format!("drive {} does not exist", drive.path),
                    format!("`{},size=10GiB` makes a file", drive.path),
                )
                .over_rest("`size_bytes` makes a file"));
            }
            (false, Some(_)) => {
                check_directory(path)?;
                made.push(path.to_path_buf());
            }
            (true, None) => {}
        }
    }
    check_space(drives)?;
    Ok(made)
}

/// Refuses a file in a directory that is not there.
fn check_directory(path: &Path) -> Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    if directory.is_dir() {
        return Ok(());
    }
    Err(Error::new(
        api::ErrorKind::NotFound,
        format!("drive {}: there is no directory {}", path.display(), directory.display()),
        "make the directory, or choose another place",
    ))
}

/// Refuses files that their file systems cannot hold. A drive's file takes all its space when it is
/// made: a pool must not find its drives full later.
fn check_space(drives: &[api::DriveSpec]) -> Result<()> {
    let mut wanted: BTreeMap<u64, u64> = BTreeMap::new();
    for drive in drives {
        let Some(size_bytes) = drive.size_bytes else { continue };
        let directory = Path::new(&drive.path).parent().unwrap_or(Path::new("/"));
        // What cannot be looked at is refused with its own reason when the file is made.
        let (Ok(space), Ok(found)) = (rustix::fs::statvfs(directory), rustix::fs::stat(directory)) else {
            continue;
        };
        let sum = wanted.entry(found.st_dev).or_default();
        *sum = sum.saturating_add(size_bytes);
        let free_bytes = space.f_bavail.saturating_mul(space.f_frsize);
        if *sum > free_bytes {
            return Err(Error::new(
                api::ErrorKind::NoSpace,
                format!(
                    "drive {} does not fit: {} free in {}",
                    drive.path,
                    ByteCount(free_bytes),
                    directory.display()
                ),
                "choose a smaller size",
            ));
        }
    }
    Ok(())
}
