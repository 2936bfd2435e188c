//! Making databases: empty ones, and clones.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ashlar_api as api;
use ashlar_database::{EngineKind, Origin, Outcome, Part, Record, Role, Site, Stage, Work};
use ashlar_units::ByteCount;

use super::super::Service;
use super::expire::expiry_in;
use super::{Known, check_ready};
use crate::error::{Error, Result};

/// An empty database of PostgreSQL has 40 MB of files and a few segments of log, of 16 MiB each.
const DATA_BYTES_MIN: u64 = 256 << 20;
const LOG_BYTES_MIN: u64 = 128 << 20;

impl Service {
    /// Makes an empty database and starts its server.
    pub(crate) async fn database_create(&self, request: api::DatabaseCreate) -> Result<api::DatabaseReady> {
        let since = Instant::now();
        let _alone = self.work_alone(&request.name)?;
        let number_taken = self.new_databases.lock().await;
        let (number, port) = self.check_new(&request.name, request.port).await?;
        let pool = self.pool_for(request.pool.as_deref())?;
        let mut sizes = vec![(Role::Data, request.size_bytes)];
        sizes.extend(request.log_size_bytes.map(|bytes| (Role::Log, bytes)));
        check_sizes(&request.name, &sizes)?;
        let parts: Vec<Part> = sizes.iter().map(|(role, _)| part(&request.name, *role)).collect();
        self.check_parts_free(&parts)?;
        let mut record = Record {
            name: request.name.clone(),
            engine: EngineKind::Postgres,
            major: 0,
            port,
            parts,
            origin: None,
            stage: Stage::Making,
            is_wanted: true,
            created_unix_seconds: unix_seconds(),
            outdated: Vec::new(),
            expiry: None,
        };
        self.make_site(&record)?;
        let found = self.work(&Site { major: request.major_version, ..self.site(&record) }, Work::Find).await;
        record.major = match found {
            Ok(found) => found.major,
            Err(error) => {
                self.remove_site(&record);
                return Err(error);
            }
        };
        let mut known = Known { pool, number, record };
        self.keep_record(&known).await?;
        drop(number_taken);
        let made = self.make_empty(&known, &sizes).await;
        let started = self.made_or_undone(&mut known, made).await?;
        self.log.info(format!("database {}", known.record.name), format!("created, on port {port}"));
        Ok(self.ready(&known, since, &started).await)
    }

    async fn make_empty(&self, known: &Known, sizes: &[(Role, u64)]) -> Result<Outcome> {
        for (role, size_bytes) in sizes {
            let request = api::VolumeCreate {
                name: part(&known.record.name, *role).volume,
                size_bytes: *size_bytes,
                pool: Some(known.pool.clone()),
                logical_block_bytes: 4096,
                profile: api::Profile::Oltp,
                compression: api::Compression::default(),
                dedupe: false,
                limit_bytes: None,
                reserve_bytes: None,
            };
            self.volume_create(request).await?;
        }
        self.mount_parts(&known.record, Some(api::FileSystem::Ext4)).await?;
        let site = self.site(&known.record);
        self.work(&site, Work::Make).await?;
        self.work(&site, Work::Start).await
    }

    /// Makes a database of the content of another, and starts its server.
    pub(crate) async fn database_clone(
        &self,
        source: &str,
        request: api::DatabaseClone,
    ) -> Result<api::DatabaseReady> {
        let since = Instant::now();
        let _alone = self.work_alone(&request.name)?;
        let from = self.database_record(source).await?;
        check_ready(&from.record)?;
        let expiry = expiry_in(&request.name, request.expires_after_seconds)?;
        let snapshot = self.snapshot_meant_if_any(request.snapshot, source, &from.record.parts).await?;
        if let Some(snapshot) = &snapshot {
            self.check_snapshot_of(snapshot, source, &from.record.parts)?;
        }
        let mut known = self.begin_clone(&from, &request.name, snapshot, request.port).await?;
        // Written down with the next stage: one whose making is cut short is removed anyway.
        known.record.expiry = expiry;
        let made = self.make_clone(&known.record).await;
        let started = self.made_or_undone(&mut known, made).await?;
        let what = format!("cloned from {source}, on port {}", known.record.port);
        self.log.info(format!("database {}", known.record.name), what);
        Ok(self.ready(&known, since, &started).await)
    }

    async fn make_clone(&self, record: &Record) -> Result<Outcome> {
        self.copy_origin(record).await?;
        self.start_copy(record).await
    }

    /// Takes the snapshot that a clone is made of, if it is its own, and makes its volumes.
    pub(super) async fn copy_origin(&self, record: &Record) -> Result<()> {
        if let Some(Origin { snapshot, is_own: true, volumes, .. }) = &record.origin {
            let volumes = volumes.iter().map(|part| part.volume.clone()).collect();
            // A reset that was cut short has it already.
            if self.known().index.check_snapshot_free(snapshot).is_ok() {
                self.snapshot_create(api::SnapshotCreate { name: snapshot.clone(), volumes }).await?;
            }
        }
        let Some(origin) = &record.origin else { return Err(not_a_clone(&record.name)) };
        for (own, of_source) in record.parts.iter().zip(&origin.volumes) {
            let from = format!("{}@{}", of_source.volume, origin.snapshot);
            let name = own.volume.clone();
            self.clone_create(api::CloneCreate { name, from, limit_bytes: None, reserve_bytes: None })
                .await?;
        }
        Ok(())
    }

    /// Mounts a clone's volumes, makes the files its own, and starts its server.
    pub(super) async fn start_copy(&self, record: &Record) -> Result<Outcome> {
        let Some(origin) = &record.origin else { return Err(not_a_clone(&record.name)) };
        self.mount_parts(record, None).await?;
        let site = self.site(record);
        let from = self.site_directory(&origin.database);
        self.work(&site, Work::Adopt { from }).await?;
        self.work(&site, Work::Start).await
    }

    /// Ends the making of a database, or removes what there is of it.
    async fn made_or_undone(&self, known: &mut Known, made: Result<Outcome>) -> Result<Outcome> {
        let made = match made {
            Ok(started) => self.set_stage(known, Stage::Ready).await.map(|()| started),
            Err(error) => Err(error),
        };
        if made.is_err() {
            self.undo(known).await;
        }
        made
    }

    /// Removes what there is of a database that was being made. What cannot be removed now is tried again at
    /// the next start.
    pub(super) async fn undo(&self, known: &Known) {
        let object = format!("database {}", known.record.name);
        match self.remove_all(known, true).await {
            Ok(_) => self.log.info(object, "what there was of it is removed"),
            Err(error) => {
                let what =
                    format!("what there is of it is not all removed, and is at the next start: {error}");
                self.log.error(object, what);
            }
        }
    }

    pub(super) fn check_parts_free(&self, parts: &[Part]) -> Result<()> {
        parts.iter().try_for_each(|part| self.known().index.check_volume_free(&part.volume))
    }

    /// Refuses a snapshot that does not hold all volumes of a database.
    pub(super) fn check_snapshot_of(&self, snapshot: &str, database: &str, parts: &[Part]) -> Result<()> {
        let group = self.known().index.snapshot(snapshot)?;
        match parts.iter().find(|part| !group.volumes.contains(&part.volume)) {
            None => Ok(()),
            Some(missing) => Err(Error::invalid(
                format!(
                    "snapshot `{snapshot}` is not one of database `{database}`: it does not hold volume `{}`",
                    missing.volume
                ),
                "`ashlar snapshot list` shows which volumes each holds",
            )),
        }
    }
}

pub(super) fn not_a_clone(name: &str) -> Error {
    Error::invalid(
        format!("database `{name}` is no clone"),
        format!("`ashlar database restore {name} --to SNAPSHOT` sets it back to a snapshot of its own"),
    )
}

/// Refuses volumes in which an empty database does not fit with its first log.
fn check_sizes(name: &str, sizes: &[(Role, u64)]) -> Result<()> {
    let least = |role| match role {
        Role::Data => DATA_BYTES_MIN,
        Role::Log => LOG_BYTES_MIN,
    };
    match sizes.iter().find(|(role, bytes)| *bytes < least(*role)) {
        None => Ok(()),
        Some((role, bytes)) => Err(Error::invalid(
            format!(
                "database `{name}`: {} is too small for its volume of {}",
                ByteCount(*bytes),
                role.name()
            ),
            format!("give it at least {}: the volume is thin", ByteCount(least(*role))),
        )),
    }
}

pub(super) fn part(database: &str, role: Role) -> Part {
    Part { role, volume: format!("{database}-{}", role.name()) }
}

pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
