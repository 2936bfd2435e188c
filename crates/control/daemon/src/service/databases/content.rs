//! Another content for a database: a clone is reset, a database is restored.

use std::path::PathBuf;
use std::time::Instant;

use ashlar_api as api;
use ashlar_database::{Origin, Outcome, Part, Record, Role, Stage, Work};

use super::super::Service;
use super::late::start_limit;
use super::make::not_a_clone;
use super::needed::origin_gone;
use super::standbys::check_leads;
use super::{Known, check_ready};
use crate::error::Result;
use crate::tag::Seen;

impl Service {
    /// Gives a clone the content of its origin.
    pub(crate) async fn database_reset(
        &self,
        name: &str,
        request: api::DatabaseReset,
    ) -> Result<api::DatabaseReady> {
        let since = Instant::now();
        let limit = start_limit(name, request.start_timeout_seconds)?;
        let _alone = self.work_alone(name)?;
        let mut known = self.database_record(name).await?;
        // One that does not come to its end is begun anew, from this snapshot or another.
        if known.record.stage != Stage::Resetting {
            check_ready(&known.record)?;
        }
        check_leads(&known.record)?;
        let Some(origin) = known.record.origin.clone() else { return Err(not_a_clone(name)) };
        let before = origin.clone();
        let fresh = match (request.latest, request.snapshot) {
            (true, _) => {
                let source = self.database_record(&origin.database).await?;
                check_ready(&source.record)?;
                Origin { snapshot: self.name_of_origin(name), is_own: true, ..origin }
            }
            (false, Some(snapshot)) => {
                let snapshot = self.snapshot_meant(&snapshot, &origin.database, &origin.volumes).await?;
                self.check_snapshot_of(&snapshot, &origin.database, &origin.volumes)?;
                let is_own = origin.is_own && snapshot == origin.snapshot;
                Origin { snapshot, is_own, ..origin }
            }
            (false, None) => {
                self.check_snapshot_of(&origin.snapshot, &origin.database, &origin.volumes)
                    .map_err(|error| origin_gone(name, error))?;
                origin
            }
        };
        if fresh.snapshot != before.snapshot && before.is_own {
            known.record.outdated.push(before.snapshot);
        }
        self.check_origin_is_there(&fresh)?;
        let limit_before = known.record.start_timeout_seconds;
        known.record.origin = Some(fresh);
        known.record.is_wanted = true;
        known.record.start_timeout_seconds = limit.or(known.record.start_timeout_seconds);
        self.set_stage(&mut known, Stage::Resetting).await?;
        let started = self.reset_content(&mut known).await;
        if started.is_err() {
            self.forget_limit(&mut known, limit_before).await?;
        }
        let started = started?;
        self.log.info(format!("database {name}"), "reset");
        Ok(self.ready(&known, since, &started).await)
    }

    /// May be begun again wherever it was cut short.
    pub(super) async fn reset_content(&self, known: &mut Known) -> Result<Outcome> {
        self.check_origin_is_there(
            known.record.origin.as_ref().ok_or_else(|| not_a_clone(&known.record.name))?,
        )?;
        self.site(&known.record).forget_asked_end();
        let _ended = self.work(&self.site(&known.record), Work::End).await?;
        self.unmount_parts(&known.record).await?;
        self.delete_parts(&known.record.kept_parts(), true).await?;
        self.copy_origin(&known.record).await?;
        let started = self.start_copy(known).await;
        let started = self.started_or_late(known, started).await?;
        for snapshot in std::mem::take(&mut known.record.outdated) {
            self.drop_own_snapshot(&snapshot).await;
        }
        self.set_stage(known, Stage::Ready).await?;
        Ok(started)
    }

    /// Refuses what a clone cannot be made of, before anything of the clone goes.
    fn check_origin_is_there(&self, origin: &Origin) -> Result<()> {
        let known = self.known();
        // One of its own is taken then, or was by a reset that was cut short.
        if origin.is_own && known.index.check_snapshot_free(&origin.snapshot).is_ok() {
            return origin.volumes.iter().try_for_each(|part| known.index.volume(&part.volume).map(drop));
        }
        known.index.snapshot(&origin.snapshot).map(drop)
    }

    /// A name for the next snapshot that a clone is made of.
    pub(super) fn name_of_origin(&self, name: &str) -> String {
        let known = self.known();
        let plain = format!("{name}.origin");
        let numbered = (2..).map(|number| format!("{name}.origin-{number}"));
        let mut names = std::iter::once(plain).chain(numbered);
        names.find(|name| known.index.check_snapshot_free(name).is_ok()).unwrap_or_default()
    }

    /// Sets a database back to a snapshot of its volumes, and keeps what it was before in another.
    pub(crate) async fn database_restore(
        &self,
        name: &str,
        request: api::DatabaseRestore,
    ) -> Result<api::DatabaseReady> {
        let since = Instant::now();
        let limit = start_limit(name, request.start_timeout_seconds)?;
        let _alone = self.work_alone(name)?;
        let mut known = self.database_record(name).await?;
        check_ready(&known.record)?;
        check_leads(&known.record)?;
        let kept = known.record.kept_parts();
        let snapshot = self.snapshot_meant(&request.snapshot, name, &kept).await?;
        self.check_snapshot_of(&snapshot, name, &kept)?;
        let is_alone = self.known().index.snapshot(&snapshot)?.volumes.len() == kept.len();
        if !is_alone {
            let what = format!("snapshot `{snapshot}` holds volumes of others, too");
            let action = format!("`ashlar database clone {name} NEW --at {snapshot}` shows what it holds");
            return Err(crate::error::Error::invalid(what, action));
        }
        let site = self.site(&known.record);
        self.work(&site, Work::Stop).await?;
        self.unmount_parts(&known.record).await?;
        let restored = self.snapshot_restore(&snapshot, false, true).await;
        let limit_before = known.record.start_timeout_seconds;
        // Whether or not it was restored, the database goes on.
        known.record.is_wanted = true;
        known.record.start_timeout_seconds = limit.or(known.record.start_timeout_seconds);
        self.keep_record(&known).await?;
        let started = self.start_grown(&mut known).await;
        let started = self.started_or_late(&mut known, started).await;
        if started.is_err() {
            self.forget_limit(&mut known, limit_before).await?;
        }
        let (restored, started) = (restored?, started?);
        self.log.info(format!("database {name}"), format!("restored to snapshot {snapshot}"));
        let ready = self.ready(&known, since, &started).await;
        Ok(api::DatabaseReady { restored: Some(restored.snapshot), backup: restored.backup, ..ready })
    }

    /// Mounts a database's volumes where they are not, and starts its server.
    pub(super) async fn start_server(&self, record: &Record) -> Result<Outcome> {
        self.make_site(record)?;
        self.mount_parts(record, |_| false).await?;
        self.work(&self.site(record), Work::Start).await
    }

    /// Mounts the volumes that are not mounted; those that are new get a file system first.
    pub(super) async fn mount_parts(&self, record: &Record, is_new: impl Fn(&Role) -> bool) -> Result<()> {
        let site = self.site(record);
        for part in &record.parts {
            let mount = site.mount(&part.role).display().to_string();
            let attached = self.attachments().into_iter().find(|one| one.volume == part.volume);
            match attached {
                Some(attached)
                    if attached.mount.as_ref() == Some(&mount)
                        && is_mounted(&mount)
                        && !is_read_only(&mount) =>
                {
                    continue;
                }
                // An attach that was cut short left it, perhaps mounted; or its file system met a full pool.
                Some(_) => self.detach(&part.volume, false).await?,
                None => {}
            }
            let format = is_new(&part.role).then_some(api::FileSystem::Ext4);
            self.attach(attach_request(&part.volume, format, Some(mount))).await?;
        }
        Ok(())
    }

    /// Unmounts and detaches the volumes, and those that were to be attached are not.
    pub(super) async fn unmount_parts(&self, record: &Record) -> Result<()> {
        for part in record.parts.iter().rev() {
            if self.do_not_attach(&part.volume) {
                continue;
            }
            match self.detach(&part.volume, false).await {
                Err(error) if error.kind != api::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Deletes the volumes that are there.
    pub(super) async fn delete_parts(&self, parts: &[Part], is_now: bool) -> Result<u64> {
        let mut seconds = 0;
        for part in parts {
            match self.volume_delete(&part.volume, false, is_now, &Seen::Unsaid).await {
                Ok(deletion) => seconds = deletion.recoverable_seconds,
                Err(error) if error.kind == api::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(seconds)
    }

    /// The snapshot that a clone was made of, where it was taken for that and nobody else uses it.
    pub(super) async fn drop_own_snapshot(&self, snapshot: &str) {
        if self.hand_on_snapshot(snapshot).await {
            return;
        }
        let request = api::SnapshotsDelete { names: vec![snapshot.to_string()], force: false };
        match self.snapshots_delete(request).await {
            Ok(()) => {}
            Err(error) if error.kind == api::ErrorKind::NotFound => {}
            Err(error) => {
                let what = format!("stays, though the clone that it was taken for is gone: {error}");
                self.log.warning(format!("snapshot {snapshot}"), what);
            }
        }
    }

    /// The directory of a database on this machine, and where its volumes are mounted.
    pub(super) fn make_site(&self, record: &Record) -> Result<()> {
        let site = self.site(record);
        let mounts: Vec<PathBuf> = record.parts.iter().map(|part| site.mount(&part.role)).collect();
        self.state().open_site(&site.directory, mounts.into_iter())
    }

    /// Removes it. What is mounted there is not looked into.
    pub(super) fn remove_site(&self, record: &Record) {
        let site = self.site(record);
        for part in &record.parts {
            let _ = std::fs::remove_dir(site.mount(&part.role));
        }
        let _ = std::fs::remove_dir_all(site.places().socket);
        for file in site.files() {
            let _ = std::fs::remove_file(file);
        }
        let _ = std::fs::remove_dir(&site.directory);
    }
}

pub(super) fn attach_request(
    volume: &str,
    format: Option<api::FileSystem>,
    mount: Option<String>,
) -> api::AttachRequest {
    api::AttachRequest {
        volume: volume.to_string(),
        format,
        force: false,
        shared: false,
        mount,
        allows_suid: false,
        allows_devices: false,
        once: false,
    }
}

/// Whether a file system takes no writes any more, as one that could not write its journal. Asks the kernel's
/// table, not the file system.
fn is_read_only(directory: &str) -> bool {
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let options = options_of(&table, directory);
    options.split(',').any(|one| ["ro", "emergency_ro", "shutdown"].contains(&one))
}

/// DEVICE DIRECTORY TYPE OPTIONS ... (fstab(5)); of several on one directory the last one counts.
fn options_of<'a>(table: &'a str, directory: &str) -> &'a str {
    let escaped = directory.replace('\\', "\\134").replace(' ', "\\040");
    let of_line = |line: &'a str| {
        let mut words = line.split(' ');
        (words.nth(1)? == escaped).then(|| words.nth(1)).flatten()
    };
    table.lines().rev().find_map(of_line).unwrap_or_default()
}

/// Whether it is still mounted where it was: an array that was killed within a detach, or a person,
/// may have unmounted it.
fn is_mounted(directory: &str) -> bool {
    crate::attach::is_listed(std::path::Path::new(directory)).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_of_the_last_mount_on_a_directory() {
        let table = "/dev/loop1 /s/my\\040db/data ext4 rw,nosuid 0 0\n/dev/loop2 /s/b ext4 rw,emergency_ro 0 0\n\
                     /dev/loop1 /s/my\\040db/data ext4 ro,nosuid 0 0\n";
        assert_eq!(options_of(table, "/s/my db/data"), "ro,nosuid");
        assert_eq!(options_of(table, "/s/b"), "rw,emergency_ro");
        assert_eq!(options_of(table, "/s"), "");
    }
}
