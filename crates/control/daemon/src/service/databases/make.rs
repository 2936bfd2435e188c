//! Making databases: empty ones, and clones.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ashlar_api as api;
use ashlar_database::{EngineKind, Limits, Origin, Outcome, Part, Record, Role, Site, Stage, Work};
use ashlar_units::ByteCount;

use super::super::Service;
use super::care::{Asked, needs_password};
use super::expire::expiry_in;
use super::grow::grow_wanted;
use super::late::start_limit;
use super::{Known, check_ready, hooks};
use crate::error::{Error, Result};
use crate::names;

/// An empty database of PostgreSQL has 40 MB of files and a few segments of log, of 16 MiB each.
const DATA_BYTES_MIN: u64 = 256 << 20;
const LOG_BYTES_MIN: u64 = 128 << 20;
/// The kernel gives shares of a tenth of a second.
const CORES_MIN: f64 = 0.1;
const CORES_MAX: f64 = 4096.0;
/// Room for a file system, and for something in it.
const OTHER_BYTES_MIN: u64 = 64 << 20;

impl Service {
    /// Makes an empty database and starts its server.
    pub(crate) async fn database_create(&self, request: api::DatabaseCreate) -> Result<api::DatabaseReady> {
        let since = Instant::now();
        let _alone = self.work_alone(&request.name)?;
        let number_taken = self.new_databases.lock().await;
        let (engine, hooks) = hooks::wanted(&request)?;
        let (number, port) = self.check_new(&request.name, request.port).await?;
        let pool = self.pool_for(request.pool.as_deref())?;
        let sizes = sizes_of(&request)?;
        let parts: Vec<Part> = sizes.iter().map(|(role, _)| part(&request.name, role)).collect();
        self.check_parts_free(&parts)?;
        let mut record = Record::beginning(&request.name, port, parts, unix_seconds());
        record.engine = engine;
        record.hooks = hooks;
        record.port = port_of(engine, port);
        record.limits = limits(&request.name, request.memory_bytes, request.cores)?;
        record.start_timeout_seconds = start_limit(&request.name, request.start_timeout_seconds)?;
        record.auto_grow = grow_wanted(&request.name, request.auto_grow, request.auto_grow_max_bytes)?;
        Self::check_cloneable(&record)?;
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
        if let Err(error) = self.keep_record(&known).await {
            self.remove_site(&known.record);
            return Err(error);
        }
        drop(number_taken);
        let made = self.make_empty(&known, &sizes, request.log_floor_micros).await;
        let started = self.made_or_undone(&mut known, made).await?;
        let what = match engine {
            EngineKind::Postgres => format!("created, on port {port}"),
            EngineKind::None => "created, without a server".to_string(),
        };
        self.log.info(format!("database {}", known.record.name), what);
        Ok(self.ready(&known, since, &started).await)
    }

    async fn make_empty(
        &self,
        known: &Known,
        sizes: &[(Role, u64)],
        log_floor_micros: Option<u64>,
    ) -> Result<Outcome> {
        self.make_volumes(known, sizes, log_floor_micros).await?;
        let site = self.site(&known.record);
        self.work(&site, Work::Make).await?;
        self.work(&site, Work::Start).await
    }

    /// Makes the volumes of a database, and mounts them.
    pub(super) async fn make_volumes(
        &self,
        known: &Known,
        sizes: &[(Role, u64)],
        log_floor_micros: Option<u64>,
    ) -> Result<()> {
        for (role, size_bytes) in sizes {
            let floor_micros = log_floor_micros.filter(|_| *role == Role::Log);
            self.make_empty_part(known, role, *size_bytes, floor_micros).await?;
        }
        self.mount_parts(&known.record, |_| true).await
    }

    async fn make_empty_part(
        &self,
        known: &Known,
        role: &Role,
        size_bytes: u64,
        floor_micros: Option<u64>,
    ) -> Result<()> {
        let request = api::VolumeCreate {
            name: part(&known.record.name, role).volume,
            size_bytes,
            pool: Some(known.pool.clone()),
            logical_block_bytes: 4096,
            profile: api::Profile::Oltp,
            compression: api::Compression::default(),
            dedupe: false,
            limit_bytes: None,
            reserve_bytes: None,
            floor_micros,
            class: class_of(&known.record),
        };
        self.volume_create(request).await.map(drop)
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
        hooks::check_clone(&from.record, &request)?;
        self.check_handover(&from, &request).await?;
        let expiry = expiry_in(&request.name, request.expires_after_seconds)?;
        let start_limit = start_limit(&request.name, request.start_timeout_seconds)?;
        let kept = from.record.kept_parts();
        let snapshot = self.snapshot_meant_if_any(request.snapshot.clone(), source, &kept).await?;
        if let Some(snapshot) = &snapshot {
            self.check_snapshot_of(snapshot, source, &kept)?;
        }
        if snapshot.is_some() && request.checkpoint {
            let what =
                format!("database `{}`: a snapshot is named, which no checkpoint changes", request.name);
            return Err(Error::invalid(what, "leave one of them out"));
        }
        let limits = limits(&request.name, request.memory_bytes, request.cores)?.or(from.record.limits);
        let has_password = self.site(&from.record).password().is_some();
        let asked = Asked::of(&request, needs_password(&from.record, has_password))?;
        let mut known =
            self.begin_clone(&from, &request.name, snapshot, request.port, limits, &asked).await?;
        // Written down with the next stage: one whose making is cut short is removed anyway.
        known.record.expiry = expiry;
        known.record.is_clone_of_class_normal = request.class == api::VolumeClass::Normal;
        known.record.start_timeout_seconds = start_limit.or(known.record.start_timeout_seconds);
        let made = self.make_clone(&known, &from.record, &asked, request.checkpoint).await;
        let (made, handover) = match (made, &request.host) {
            (Ok(started), Some(host)) => match self.hand_over(&mut known, &started, host).await {
                Ok(handover) => (Ok(started), Some(Box::new(handover))),
                Err(error) => (Err(error), None),
            },
            (made, _) => (made, None),
        };
        let started = self.made_or_undone(&mut known, made).await?;
        let place = request.host.map_or(String::new(), |host| format!(" of host {host}"));
        let what = format!("cloned from {source}, on port {}{place}", known.record.port);
        self.log.info(format!("database {}", known.record.name), what);
        Ok(api::DatabaseReady { handover, ..self.ready(&known, since, &started).await })
    }

    async fn make_clone(
        &self,
        known: &Known,
        source: &Record,
        asked: &Asked,
        is_behind_checkpoint: bool,
    ) -> Result<Outcome> {
        self.keep_care(known, asked).await?;
        if is_behind_checkpoint {
            self.checkpoint(std::slice::from_ref(&source.name)).await?;
        }
        self.copy_origin(&known.record).await?;
        self.make_empty_parts(known, source).await?;
        self.start_copy(known).await
    }

    /// Takes the snapshot that a clone is made of, if it is its own, and makes its volumes.
    pub(super) async fn copy_origin(&self, record: &Record) -> Result<()> {
        if let Some(Origin { database, snapshot, is_own: true, volumes }) = &record.origin {
            let volumes = volumes.iter().map(|part| part.volume.clone()).collect();
            // A reset that was cut short has it already.
            if self.known().index.check_snapshot_free(snapshot).is_ok() {
                let request = api::SnapshotCreate { name: snapshot.clone(), volumes };
                self.snapshot_held(std::slice::from_ref(database), request, true).await?;
            }
        }
        let Some(origin) = &record.origin else { return Err(not_a_clone(&record.name)) };
        for own in record.parts.iter().filter(|part| part.role.is_kept()) {
            let Some(of_source) = origin.volumes.iter().find(|part| part.role == own.role) else { continue };
            let from = format!("{}@{}", of_source.volume, origin.snapshot);
            let request = api::CloneCreate {
                name: own.volume.clone(),
                from,
                limit_bytes: None,
                reserve_bytes: None,
                floor_micros: None,
                class: class_of(record),
            };
            self.clone_create(request).await?;
        }
        Ok(())
    }

    /// Makes the volumes of a clone that hold nothing of its source, as large as the source's.
    pub(super) async fn make_empty_parts(&self, known: &Known, source: &Record) -> Result<()> {
        for of_source in source.parts.iter().filter(|part| !part.role.is_kept()) {
            let size_bytes = self.volume(&of_source.volume).await?.size_bytes;
            self.make_empty_part(known, &of_source.role, size_bytes, None).await?;
        }
        Ok(())
    }

    /// Mounts a clone's volumes. What it shares with no source is empty as long as it is being made.
    pub(super) async fn mount_copy(&self, record: &Record) -> Result<()> {
        self.mount_parts(record, |role| record.stage == Stage::Making && !role.is_kept()).await
    }

    /// Mounts a clone's volumes, makes the files its own, and starts its server.
    pub(super) async fn start_copy(&self, known: &Known) -> Result<Outcome> {
        let record = &known.record;
        let Some(origin) = &record.origin else { return Err(not_a_clone(&record.name)) };
        self.mount_copy(record).await?;
        let site = self.site(record);
        let from = self.site_directory(&origin.database);
        self.work(&site, Work::Adopt { from }).await?;
        self.take_care(known).await?;
        self.work(&site, Work::Start).await
    }

    /// Ends the making of a database, or removes what there is of it.
    pub(super) async fn made_or_undone(&self, known: &mut Known, made: Result<Outcome>) -> Result<Outcome> {
        let made = match made {
            Ok(started) => self.set_stage(known, Stage::Ready).await.map(|()| started),
            Err(error) => Err(error),
        };
        // What its programs say of their end is no trouble of theirs then.
        let is_asked_to_end = made.is_err() && self.site(&known.record).is_asked_to_end();
        if made.is_err() {
            self.undo(known).await;
        }
        if is_asked_to_end {
            return Err(self.made_no_more(&known.record.name));
        }
        let gone =
            |error: Error| Error { message: format!("{}; nothing of it is left", error.message), ..error };
        made.map_err(|error| if error.is_late { gone(error) } else { error })
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

/// Copies give way to what they are copies of, unless somebody wants it otherwise.
fn class_of(record: &Record) -> api::VolumeClass {
    match record.origin {
        Some(_) if !record.is_clone_of_class_normal => api::VolumeClass::Low,
        Some(_) | None => api::VolumeClass::Normal,
    }
}

pub(super) fn not_a_clone(name: &str) -> Error {
    Error::invalid(
        format!("database `{name}` is no clone"),
        format!("`ashlar database restore {name} --to SNAPSHOT` sets it back to a snapshot of its own"),
    )
}

/// The volumes that are asked for, and how large each is to be.
fn sizes_of(request: &api::DatabaseCreate) -> Result<Vec<(Role, u64)>> {
    let is_floor_wanted = request.log_floor_micros.is_some_and(|micros| micros > 0);
    if is_floor_wanted && request.log_size_bytes.is_none() {
        let what = format!("database `{}`: a floor of its log needs a volume for the log", request.name);
        return Err(Error::unfit(what, "name `--log-size`, or leave `--log-floor` out"));
    }
    let mut sizes = vec![(Role::Data, request.size_bytes)];
    sizes.extend(request.log_size_bytes.map(|bytes| (Role::Log, bytes)));
    for tablespace in &request.tablespaces {
        let role = Role::Tablespace(tablespace.name.clone());
        check_tablespace(&request.name, &tablespace.name)?;
        if sizes.iter().any(|(other, _)| *other == role) {
            let what = format!("tablespace `{}` is named twice", tablespace.name);
            return Err(Error::invalid(what, "name each once"));
        }
        sizes.push((role, tablespace.size_bytes));
    }
    sizes.extend(request.temp_size_bytes.map(|bytes| (Role::Temp, bytes)));
    check_sizes(&request.name, &sizes)?;
    Ok(sizes)
}

/// A name that PostgreSQL takes without quotes, and that fits into the name of a volume.
fn check_tablespace(database: &str, name: &str) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let is_good = name.bytes().next().is_some_and(|first| first.is_ascii_lowercase())
        && name.bytes().all(is_plain)
        && !name.starts_with("pg_");
    if !is_good {
        return Err(Error::invalid(
            format!("`{name}` is no name for a tablespace"),
            "begin with a lowercase letter, then letters, digits and `_`; `pg_` is PostgreSQL's own",
        ));
    }
    let volume = part(database, &Role::Tablespace(name.to_string())).volume;
    names::check("volume", &volume)
}

/// What a server may use of the machine, where that is enough for one.
pub(super) fn limits(name: &str, memory_bytes: Option<u64>, cores: Option<f64>) -> Result<Option<Limits>> {
    if let Some(bytes) = memory_bytes.filter(|bytes| *bytes < api::MEMORY_BYTES_MIN) {
        let what = format!("database `{name}`: {} of memory is too little for a server", ByteCount(bytes));
        return Err(Error::invalid(what, format!("give it at least {}", ByteCount(api::MEMORY_BYTES_MIN))));
    }
    if let Some(cores) = cores.filter(|cores| !(CORES_MIN..=CORES_MAX).contains(cores)) {
        let what = format!("database `{name}`: {cores} is no number of processors");
        return Err(Error::invalid(what, "give it 0.1 or more, as in --cores 1.5"));
    }
    let is_limited = memory_bytes.is_some() || cores.is_some();
    Ok(is_limited.then_some(Limits { memory_bytes, cores }))
}

/// Refuses volumes in which an empty database does not fit with its first log.
pub(super) fn check_sizes(name: &str, sizes: &[(Role, u64)]) -> Result<()> {
    let least = |role: &Role| match role {
        Role::Data => DATA_BYTES_MIN,
        Role::Log => LOG_BYTES_MIN,
        Role::Tablespace(_) | Role::Temp => OTHER_BYTES_MIN,
    };
    match sizes.iter().find(|(role, bytes)| *bytes < least(role)) {
        None => Ok(()),
        Some((role, bytes)) => Err(Error::invalid(
            format!(
                "database `{name}`: {} is too small for its volume of {}",
                ByteCount(*bytes),
                role.name()
            ),
            format!("give it at least {}: the volume is thin", ByteCount(least(role))),
        )),
    }
}

/// Where a server listens; without one there is none.
pub(super) fn port_of(engine: EngineKind, port: u16) -> u16 {
    if engine == EngineKind::None { 0 } else { port }
}

pub(super) fn part(database: &str, role: &Role) -> Part {
    Part { role: role.clone(), volume: format!("{database}-{}", role.name()) }
}

pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
