//! The life of a pool's drives: replaced, brought back, taken out, removed, and what is said when they
//! change.
//!
//! Which drives are a pool's stands on the drives; the state file only says where to look for them, and may
//! name more places than there are drives. So a drive's path is recorded before it joins, and the list is
//! put right afterwards: a crash in between finds every drive again.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};

use ashlar_api as api;

use super::Service;
use super::drive_content::{Joining, Ready, say_force};
use super::pools::{canonical, check_drives, files_to_make};
use crate::error::{Error, Result};

impl Service {
    /// Adds drives to a pool.
    pub(crate) async fn drives_add(&self, name: &str, request: api::DrivesAdd) -> Result<api::Pool> {
        check_drives(request.drives.iter().map(|drive| drive.path.as_str()))?;
        let _turn = self.change().await?;
        let pool = self.pool(name).await?;
        let place = |drive: api::DriveSpec| api::DriveSpec { path: canonical_to_be(&drive.path), ..drive };
        let drives: Vec<api::DriveSpec> = request.drives.into_iter().map(place).collect();
        let paths: Vec<String> = drives.iter().map(|drive| drive.path.clone()).collect();
        for path in &paths {
            self.check_joins(&pool, None, path)?;
        }
        let joining = Joining { pool: &pool, number: None };
        self.check_below(&paths, Some(&joining)).await?;
        self.check_content(&drives).await?;
        let made = files_to_make(&drives)?;
        let ready = self.make_ready(&drives, Some(&joining)).await?;
        let joined = self.join(name, &paths, self.array.drives_add(name, &drives)).await;
        if let Err(error) = joined {
            let has_joined = |pool: api::Pool| pool.drives.iter().any(|now| paths.contains(&now.path));
            self.put_back_unless(name, made, ready, has_joined).await;
            return Err(say_force(error));
        }
        let (count, all) = (paths.len(), pool.drives.len() + paths.len());
        self.log
            .info(format!("pool {name}"), format!("{count} drives added: {}; {all} now", paths.join(", ")));
        self.told(name, false).await
    }

    /// What was not there before an attempt is not there after it, unless the pool writes to it.
    async fn put_back_unless(
        &self,
        name: &str,
        made: Vec<PathBuf>,
        ready: Ready,
        has_joined: impl FnOnce(api::Pool) -> bool,
    ) {
        if self.pool(name).await.map_or(true, has_joined) {
            return;
        }
        for path in made {
            let _ = std::fs::remove_file(path);
        }
        ready.restore().await;
    }

    /// Puts a new drive in the place of another.
    pub(crate) async fn drive_replace(
        &self,
        name: &str,
        number: u32,
        request: api::DriveSpec,
    ) -> Result<api::Pool> {
        check_drives(std::iter::once(request.path.as_str()))?;
        let _turn = self.change().await?;
        let (pool, drive) = self.find_drive(name, number).await?;
        // Whoever is quicker than the watch must not be why nobody is told that it failed.
        self.report_drives(&pool, false);
        if drive.state == "rebuilding" {
            return Err(Error::new(
                api::ErrorKind::Busy,
                format!("drive {number} of pool `{name}` is rebuilding"),
                format!(
                    "wait until `ashlar pool show {name}` shows it online, or take it out of service first: \
                     `ashlar pool offline-drive {name} {number}`"
                ),
            ));
        }
        let with = api::DriveSpec { path: canonical_to_be(&request.path), ..request };
        self.check_joins(&pool, Some(number), &with.path)?;
        let joining = Joining { pool: &pool, number: Some(number) };
        self.check_below(std::slice::from_ref(&with.path), Some(&joining)).await?;
        self.check_content(std::slice::from_ref(&with)).await?;
        let made = files_to_make(std::slice::from_ref(&with))?;
        let ready = self.make_ready(std::slice::from_ref(&with), Some(&joining)).await?;
        let joined = self
            .join(name, std::slice::from_ref(&with.path), self.array.drive_replace(name, number, &with))
            .await;
        if let Err(error) = joined {
            let is_new = |now: &api::Drive| now.path != drive.path || now.state != drive.state;
            let has_joined =
                |pool: api::Pool| pool.drives.iter().any(|now| now.path == with.path && is_new(now));
            self.put_back_unless(name, made, ready, has_joined).await;
            return Err(say_force(error));
        }
        self.told(name, false).await
    }

    /// Takes a drive back into service.
    pub(crate) async fn drive_online(
        &self,
        name: &str,
        number: u32,
        request: api::DriveOnline,
    ) -> Result<api::Pool> {
        if let Some(path) = &request.path {
            check_drives(std::iter::once(path.as_str()))?;
        }
        let _turn = self.change().await?;
        if self.is_leaving(name, number).await? {
            self.array.drive_stay(name, number).await?;
            return self.told(name, true).await;
        }
        let (pool, drive) = self.find_drive(name, number).await?;
        self.report_drives(&pool, false);
        let wanted = request.path.as_deref().map(canonical);
        if drive.is_in_spare_space {
            return Err(Error::new(
                api::ErrorKind::Busy,
                format!("drive {number} of pool `{name}` is no more: spare space holds what was on it"),
                format!(
                    "`ashlar pool replace-drive {name} {number} --with PATH` puts a drive in its place again"
                ),
            ));
        }
        if drive.state != "out" {
            return match wanted {
                Some(path) if path != drive.path => Err(Error::new(
                    api::ErrorKind::Busy,
                    format!("drive {number} of pool `{name}` is {} at {}", drive.state, drive.path),
                    format!("`ashlar pool offline-drive {name} {number}` takes it out of service first"),
                )),
                _ => Ok(pool),
            };
        }
        let places = match wanted {
            Some(path) => vec![path],
            None if !drive.path.is_empty() => vec![drive.path],
            None => self.places_without_a_drive(&pool),
        };
        let mut refusals: Vec<Error> = Vec::new();
        for path in places {
            self.check_returns(&pool, number, &path).await?;
            match self
                .join(name, std::slice::from_ref(&path), self.array.drive_online(name, number, &path))
                .await
            {
                Ok(()) => return self.told(name, false).await,
                Err(error) => refusals.push(error),
            }
        }
        if refusals.len() == 1 {
            return Err(refusals.remove(0));
        }
        let mut why: Vec<&str> = refusals.iter().map(|error| error.message.as_str()).collect();
        why.dedup();
        Err(Error::new(
            api::ErrorKind::NotFound,
            match why.is_empty() {
                true => format!("drive {number} of pool `{name}` has no recorded path"),
                false => {
                    format!("drive {number} of pool `{name}` is at no recorded path ({})", why.join("; "))
                }
            },
            format!("say where it is: `ashlar pool online-drive {name} {number} --drive PATH`"),
        ))
    }

    /// Takes a drive out of service.
    pub(crate) async fn drive_offline(&self, name: &str, number: u32) -> Result<api::Pool> {
        let _turn = self.change().await?;
        let (pool, drive) = self.find_drive(name, number).await?;
        if drive.state == "out" && !drive.is_awaited {
            return Ok(pool);
        }
        let lacking = pool.drives.iter().filter(|other| !other.is_served()).count();
        if drive.is_served() && lacking >= survives(pool.protection) {
            return Err(Error::new(
                api::ErrorKind::Busy,
                format!(
                    "drive {number} of pool `{name}` is needed: {lacking} of {} drives are out or rebuilding",
                    pool.drives.len()
                ),
                format!("wait until `ashlar pool show {name}` shows the others online"),
            ));
        }
        self.array.drive_offline(name, number).await?;
        self.told(name, true).await
    }

    /// Lets a drive leave.
    pub(crate) async fn drive_remove(&self, name: &str, number: u32) -> Result<api::Pool> {
        let turn = self.change().await?;
        self.check_open(name)?;
        let pool = self.pool(name).await?;
        numbered(&pool, number)?;
        // Without protection the others may have to win room first, for as long as the cleaner takes.
        let _turn = (survives(pool.protection) > 0).then_some(turn);
        self.array.drive_remove(name, number).await?;
        self.told(name, true).await
    }

    async fn is_leaving(&self, name: &str, number: u32) -> Result<bool> {
        self.check_open(name)?;
        let state = numbered(&self.pool(name).await?, number)?.state;
        Ok(["leaving", "moving"].contains(&state.as_str()))
    }

    /// A drive of an open pool whose drives may come and go.
    async fn find_drive(&self, name: &str, number: u32) -> Result<(api::Pool, api::Drive)> {
        self.check_open(name)?;
        let pool = self.pool(name).await?;
        let drive = numbered(&pool, number)?;
        if pool.protection == api::Protection::None {
            return Err(Error::unfit(
                format!("pool `{name}` has no protection: it needs all its drives"),
                format!(
                    "`ashlar pool add-drive {name} --drive PATH` takes another in, and then `ashlar pool \
                     remove-drive {name} {number}` lets this one leave; a pool made with `--protection \
                     single` or `dual` can do without some"
                ),
            ));
        }
        Ok((pool, drive))
    }

    /// Refuses a drive that is another one of this pool, or another open pool's.
    fn check_joins(&self, pool: &api::Pool, number: Option<u32>, path: &str) -> Result<()> {
        let mut others = pool.drives.iter().filter(|drive| number.is_none() || drive.number != number);
        if let Some(api::Drive { number: Some(other), .. }) = others.find(|drive| drive.path == path) {
            return Err(Error::new(
                api::ErrorKind::Exists,
                format!("drive {path} is drive {other} of pool `{}`", pool.name),
                "choose another drive",
            ));
        }
        self.check_drive_free(path, Some(&pool.name))
    }

    /// Refuses a path at which no drive of this pool can be.
    pub(super) async fn check_returns(&self, pool: &api::Pool, number: u32, path: &str) -> Result<()> {
        self.check_joins(pool, Some(number), path)?;
        if !Path::new(path).exists() {
            return Ok(());
        }
        let joining = Joining { pool, number: Some(number) };
        self.check_below(&[path.to_string()], Some(&joining)).await
    }

    /// Recorded places at which no drive of the pool was found.
    fn places_without_a_drive(&self, pool: &api::Pool) -> Vec<String> {
        let mut places = self.recorded_drives(&pool.name);
        places.retain(|place| !pool.drives.iter().any(|drive| drive.path == *place));
        places
    }

    pub(super) fn recorded_drives(&self, name: &str) -> Vec<String> {
        self.known().pool(name).map(|pool| pool.drives.clone()).unwrap_or_default()
    }

    fn last_paths(&self, name: &str) -> BTreeMap<String, String> {
        self.known().pool(name).map(|pool| pool.last_paths.clone()).unwrap_or_default()
    }

    /// Lets drives join: their paths are recorded first, and what is no longer needed forgotten afterwards.
    pub(super) async fn join(
        &self,
        name: &str,
        paths: &[String],
        work: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        let before = self.recorded_drives(name);
        let mut wider = before.clone();
        wider.extend(paths.iter().filter(|path| !before.contains(path)).cloned());
        self.record_drives(name, wider)?;
        let joined = work.await;
        let Ok(pool) = self.pool(name).await else { return joined };
        let mut drives: Vec<String> = pool.drives.iter().map(|drive| drive.path.clone()).collect();
        if pool.drives.iter().any(|drive| drive.path.is_empty() && !drive.is_in_spare_space) {
            drives.extend(before);
        }
        if pool.drives.iter().any(|drive| drive.state == "moving") {
            // It takes the place of another when it has everything.
            drives.extend(paths.iter().cloned());
        }
        let mut seen = std::collections::BTreeSet::new();
        drives.retain(|path| !path.is_empty() && seen.insert(path.clone()));
        if let Err(error) = self.record_drives(name, drives) {
            // One place too many is recorded, which costs a look at the next start.
            self.log.warning(format!("pool {name}"), format!("its former drives stay recorded: {error}"));
        }
        joined
    }

    /// Replaces the recorded paths of a pool; durable when this returns.
    pub(super) fn record_drives(&self, name: &str, drives: Vec<String>) -> Result<()> {
        let mut pools = self.known().pools.clone();
        let Some(pool) = pools.iter_mut().find(|pool| pool.name == name) else { return Ok(()) };
        if pool.drives == drives {
            return Ok(());
        }
        pool.vacant_drives.retain(|path| drives.contains(path));
        pool.drives = drives;
        self.state().store_pools(&pools)?;
        self.known().pools = pools;
        Ok(())
    }

    /// The pool after a change of its drives, which is logged.
    pub(super) async fn told(&self, name: &str, is_asked: bool) -> Result<api::Pool> {
        self.count_wear().await?;
        self.note_away(name).await?;
        let pool = self.pool(name).await?;
        self.report_drives(&pool, is_asked);
        Ok(pool)
    }

    /// Says which drives changed their state since the last time; `is_asked` when somebody wanted it so.
    pub(super) fn report_drives(&self, pool: &api::Pool, is_asked: bool) {
        let numbered = pool.drives.iter().filter_map(|drive| Some((drive.number?, drive)));
        let now: BTreeMap<u32, (String, String)> = numbered
            .clone()
            .map(|(number, drive)| (number, (drive.state.clone(), drive.path.clone())))
            .collect();
        let last_paths = self.last_paths(&pool.name);
        let mut before = self.known().drive_states.insert(pool.name.clone(), now).unwrap_or_default();
        let object = format!("pool {}", pool.name);
        for (index, drive) in numbered {
            let before = before.remove(&index).map(|(state, _)| state);
            let is_gone_long_since = before.is_none() && drive.state == "spare";
            let before = before.unwrap_or_else(|| "online".to_string());
            if drive.state == before || is_gone_long_since {
                continue;
            }
            let path = match (drive.path.as_str(), last_paths.get(&drive.id)) {
                ("", _) if drive.is_in_spare_space => "in spare space".to_string(),
                ("", Some(last)) => format!("not found, it was at {last}"),
                ("", None) => "not found".to_string(),
                (path, _) => path.to_string(),
            };
            let drive_line = format!("drive {index} ({path})");
            match drive.state.as_str() {
                "online" if before == "moving" => self.log.info(
                    object.as_str(),
                    format!("{drive_line} is in service, and nothing is on its way elsewhere any more"),
                ),
                "online" if before == "leaving" => {
                    self.log.info(object.as_str(), format!("{drive_line} stays: it was taken back"));
                }
                "online" => self.log.info(object.as_str(), format!("{drive_line} is back in service")),
                "leaving" => self.log.info(
                    object.as_str(),
                    format!("{drive_line} is leaving: `ashlar pool show {}` tells how far", pool.name),
                ),
                "spare" => self.log.info(
                    object.as_str(),
                    format!(
                        "drive {index} is no more: spare space holds what was on it; `ashlar pool replace-drive \
                         {} {index} --with PATH` gives it a drive again",
                        pool.name
                    ),
                ),
                "moving" => self.log.info(
                    object.as_str(),
                    format!("{drive_line} is being moved: `ashlar pool show {}` tells how far", pool.name),
                ),
                "rebuilding" => self.log.info(
                    object.as_str(),
                    format!("{drive_line} is rebuilding: `ashlar pool show {}` tells how far", pool.name),
                ),
                _ if is_asked => self.log.info(object.as_str(), format!("{drive_line} was taken out of service")),
                _ => self.log.error(
                    object.as_str(),
                    format!(
                        "{drive_line} is out of service: {}; once that is mended `ashlar pool online-drive {name} {index}`, else \
                         `ashlar pool replace-drive {name} {index} --with PATH`",
                        drive.reason.as_deref().unwrap_or("it is not known why"),
                        name = pool.name
                    ),
                ),
            }
        }
        for (number, (_, path)) in before {
            let line = format!("drive {number} ({path}) has left: nothing of the pool is on it any more");
            self.log.info(object.as_str(), line);
        }
    }
}

/// The drive of that number.
pub(super) fn numbered(pool: &api::Pool, number: u32) -> Result<api::Drive> {
    let found = pool.drives.iter().find(|drive| drive.number == Some(number)).cloned();
    found.ok_or_else(|| {
        Error::new(
            api::ErrorKind::NotFound,
            format!("pool `{}` has no drive {number}", pool.name),
            format!("`ashlar pool show {}` shows its drives with their numbers", pool.name),
        )
        .about(api::ObjectKind::Drive, format!("{}/{number}", pool.name))
    })
}

/// Drives that a pool can do without.
fn survives(protection: api::Protection) -> usize {
    match protection {
        api::Protection::None => 0,
        api::Protection::Single => 1,
        api::Protection::Dual => 2,
    }
}

/// The path without symbolic links, also of a file that is yet to be made.
fn canonical_to_be(path: &str) -> String {
    let given = Path::new(path);
    match (given.symlink_metadata(), given.parent(), given.file_name()) {
        (Err(_), Some(directory), Some(name)) => {
            let whole: Option<PathBuf> = std::fs::canonicalize(directory).ok().map(|found| found.join(name));
            whole.and_then(|whole| whole.to_str().map(str::to_string)).unwrap_or_else(|| path.to_string())
        }
        _ => canonical(path),
    }
}
