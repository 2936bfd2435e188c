//! Databases that are brought in from elsewhere. The record is kept before anybody looks at the source, so
//! that whatever is begun is removed by the next start when it is cut short.

use std::path::Path;
use std::time::{Duration, Instant};

use ashlar_api as api;
use ashlar_database::{Follows, Outcome, Part, Primary, Record, Role, Source, Stage, Survey, Work};
use ashlar_units::ByteCount;

use super::super::Service;
use super::late::start_limit;
use super::make::{check_sizes, part, unix_seconds};
use super::{Known, from_database};
use crate::error::{Error, Result};
use crate::log::random_id;
use crate::names;

/// A volume for data when none is named: thin, so large does not cost.
const SIZE_BYTES: u64 = 64 << 30;
/// What a file system takes of a volume, and what a server writes at its first start, by estimate: a
/// twentieth, and a few segments of log.
const MORE_BYTES: u64 = 160 << 20;
/// How long whoever works on an import may take to end it.
const END_MAX: Duration = Duration::from_secs(60);
const END_POLL: Duration = Duration::from_millis(50);
/// A slot's name has letters, digits and `_`, 63 at most (PostgreSQL, 27.2.6).
const SLOT_BYTES_MAX: usize = 63;
/// So much of a random number tells slots apart.
const SLOT_LETTERS: usize = 8;

/// What an import is told.
struct Wanted {
    name: String,
    source: Source,
    size_bytes: Option<u64>,
    log_size_bytes: Option<u64>,
    tablespaces: Vec<api::DatabaseTablespace>,
    pool: Option<String>,
    port: Option<u16>,
    major: Option<u32>,
    start_timeout_seconds: Option<u64>,
}

impl Service {
    /// Brings a database in and starts its server.
    pub(crate) async fn database_import(&self, request: api::DatabaseImport) -> Result<api::DatabaseReady> {
        let source = source_of(&request)?;
        self.bring(Wanted {
            name: request.name,
            source,
            size_bytes: request.size_bytes,
            log_size_bytes: request.log_size_bytes,
            tablespaces: request.tablespaces,
            pool: request.pool,
            port: request.port,
            major: request.major_version,
            start_timeout_seconds: request.start_timeout_seconds,
        })
        .await
    }

    /// Makes a standby of a running server.
    pub(crate) async fn database_follow(&self, request: api::DatabaseFollow) -> Result<api::DatabaseReady> {
        let primary = primary_of(&request.name, &request.primary)?;
        let source = Source::Followed { primary, slot: slot_of(&request.name, &random_id()) };
        self.bring(Wanted {
            name: request.name,
            source,
            size_bytes: request.size_bytes,
            log_size_bytes: request.log_size_bytes,
            tablespaces: request.tablespaces,
            pool: request.pool,
            port: request.port,
            major: None,
            start_timeout_seconds: request.start_timeout_seconds,
        })
        .await
    }

    async fn bring(&self, wanted: Wanted) -> Result<api::DatabaseReady> {
        let since = Instant::now();
        let _alone = self.work_alone(&wanted.name)?;
        let number_taken = self.new_databases.lock().await;
        let (number, port) = self.check_new(&wanted.name, wanted.port).await?;
        let pool = self.pool_for(wanted.pool.as_deref())?;
        let roles = [Some(Role::Data), wanted.log_size_bytes.map(|_| Role::Log)];
        let parts: Vec<Part> = roles.into_iter().flatten().map(|role| part(&wanted.name, &role)).collect();
        self.check_parts_free(&parts)?;
        let mut record = Record::beginning(&wanted.name, port, parts, unix_seconds());
        record.major = wanted.major.unwrap_or(0);
        record.start_timeout_seconds = start_limit(&wanted.name, wanted.start_timeout_seconds)?;
        let mut known = Known { pool, number, record };
        self.keep_record(&known).await?;
        drop(number_taken);
        let made = self.bring_in(&mut known, &wanted).await;
        let notes = made.as_ref().map(|made| made.notes.clone()).unwrap_or_default();
        let started = self.made_or_undone(&mut known, made).await?;
        let what = match &known.record.follows {
            Some(follows) => format!("follows {}, on port {port}", follows.primary),
            None => format!("imported, on port {port}"),
        };
        self.log.info(format!("database {}", known.record.name), what);
        let ready = self.ready(&known, since, &started).await;
        Ok(api::DatabaseReady { notes, ..ready })
    }

    async fn bring_in(&self, known: &mut Known, wanted: &Wanted) -> Result<Outcome> {
        self.make_site(&known.record)?;
        let found = self.work(&self.site(&known.record), Work::Survey(wanted.source.clone())).await?;
        let survey = found.survey.unwrap_or_default();
        let sizes = sizes(wanted, &survey)?;
        self.check_room(&known.pool, &survey, &wanted.name).await?;
        let parts: Vec<Part> = sizes.iter().map(|(role, _)| part(&wanted.name, role)).collect();
        // Before they are in the record: what is in it is removed when this fails.
        parts.iter().try_for_each(|part| names::check("volume", &part.volume))?;
        self.check_parts_free(&parts)?;
        known.record.parts = parts;
        known.record.major = survey.major;
        if let Some(superuser) = &survey.superuser {
            known.record.superuser.clone_from(superuser);
        }
        if let Source::Followed { primary, slot } = &wanted.source {
            known.record.follows = Some(Follows { primary: primary.url.clone(), slot: slot.clone() });
        }
        Self::check_cloneable(&known.record)?;
        // From here on there may be a slot on the primary.
        self.keep_record(known).await?;
        self.make_site(&known.record)?;
        self.make_volumes(known, &sizes, None).await?;
        self.check_wanted(&known.record)?;
        let on_volumes = survey.spaces.iter().map(|space| space.name.clone()).collect::<Vec<_>>().join(", ");
        let work = Work::Bring { source: wanted.source.clone(), survey };
        let brought = self.work(&self.site(&known.record), work).await?;
        self.check_wanted(&known.record)?;
        if let Some(superuser) = brought.superuser {
            known.record.superuser = superuser;
            self.keep_record(known).await?;
        }
        let mut notes = brought.notes;
        if !on_volumes.is_empty() {
            notes.push(format!("its tablespaces have volumes of their own: {on_volumes}"));
        }
        let site = self.site(&known.record);
        match &wanted.source {
            Source::Directory { .. } | Source::Server(_) => {
                let care = ashlar_database::Care { has_own_password: true, script: None };
                self.work(&site, Work::Care(care)).await?;
            }
            Source::Followed { primary, slot } => {
                notes.push(format!("the primary keeps slot {slot} for it, until it is deleted or promoted"));
                if primary.user != known.record.superuser {
                    notes.push(format!("the password of {} is the primary's", known.record.superuser));
                }
            }
            Source::Dump(_) => {}
        }
        let started = self.work(&site, Work::Start).await?;
        Ok(Outcome { notes, ..started })
    }

    /// Refuses what the pool cannot hold, before anything is copied.
    async fn check_room(&self, pool: &str, survey: &Survey, name: &str) -> Result<()> {
        let Some(space) = self.pool(pool).await?.space else { return Ok(()) };
        let in_spaces: u64 = survey.spaces.iter().filter_map(|space| space.bytes).sum();
        let needed = survey.data_bytes + survey.log_bytes + in_spaces;
        // What is dead is made free when somebody writes.
        let free = space.free_bytes + space.dead_bytes;
        if needed <= free {
            return Ok(());
        }
        Err(Error::new(
            api::ErrorKind::NoSpace,
            format!(
                "database `{name}`: about {} are to be copied, and pool `{pool}` has {} free",
                ByteCount(needed),
                ByteCount(free)
            ),
            "add drives to it, or name another with --pool",
        ))
    }

    /// Refuses to go on with what somebody deletes.
    pub(super) fn check_wanted(&self, record: &Record) -> Result<()> {
        if !self.site(record).is_asked_to_end() {
            return Ok(());
        }
        Err(self.made_no_more(&record.name))
    }

    /// Somebody wanted the making of a database to end.
    pub(super) fn made_no_more(&self, name: &str) -> Error {
        if self.is_stopping() {
            return self.stopping();
        }
        let what = format!("database `{name}`: its making was ended on request, and nothing of it is left");
        let ended = Error::new(api::ErrorKind::Cancelled, what, "nothing is in use: repeat it to begin anew");
        ended.because(api::Reason::JobEnded).about(api::ObjectKind::Database, name)
    }

    /// Ends the import of a database that is under way; true when there was one and nothing of it is left.
    pub(in super::super) async fn end_import(&self, name: &str) -> Result<bool> {
        let known = self.database_record(name).await?;
        let is_busy = || self.known().busy_databases.contains(name);
        if known.record.stage != Stage::Making || !is_busy() {
            return Ok(false);
        }
        let site = self.site(&known.record);
        site.ask_to_end().map_err(|error| Error::file("write in", &site.directory, &error))?;
        let end = Instant::now() + END_MAX;
        while is_busy() && Instant::now() < end {
            tokio::time::sleep(END_POLL).await;
        }
        // One that was ready by then is deleted as any other.
        Ok(self.database_record(name).await.is_err())
    }

    /// Has everybody who brings something in, or runs SQL in a copy, end that: the array stops.
    pub(super) async fn end_imports(&self) {
        for known in self.database_records().await.unwrap_or_default() {
            if matches!(known.record.stage, Stage::Making | Stage::Resetting) {
                // Without it the stop waits.
                let _ = self.site(&known.record).ask_to_end();
            }
        }
    }
}

fn source_of(request: &api::DatabaseImport) -> Result<Source> {
    let name = &request.name;
    let wrong = |what: &str| {
        Error::invalid(
            format!("database `{name}`: {what}"),
            "give either --from-directory DIR or --from postgres://USER:PASSWORD@HOST:PORT/DATABASE",
        )
    };
    if request.major_version.is_some() && !request.is_logical {
        return Err(wrong("a copy has the version of its source"));
    }
    let source = match (&request.from_directory, &request.from, request.is_logical) {
        (Some(_), Some(_), _) => return Err(wrong("two sources are named")),
        (None, None, _) => return Err(wrong("no source is named")),
        (Some(_), None, true) => return Err(wrong("a directory cannot be dumped")),
        (Some(path), None, false) => {
            let paths = [Some(path), request.configuration_directory.as_ref()];
            if let Some(path) = paths.into_iter().flatten().find(|path| !Path::new(path).is_absolute()) {
                return Err(Error::invalid(
                    format!("database `{name}`: path `{}` is not absolute", path.escape_debug()),
                    "name it from the root on",
                ));
            }
            Source::Directory {
                path: path.into(),
                configuration: request.configuration_directory.as_ref().map(Into::into),
            }
        }
        (None, Some(url), true) => Source::Dump(primary_of(name, url)?),
        (None, Some(url), false) => Source::Server(primary_of(name, url)?),
    };
    if request.configuration_directory.is_some() && request.from_directory.is_none() {
        return Err(wrong("--config goes with --from-directory"));
    }
    Ok(source)
}

fn primary_of(name: &str, url: &str) -> Result<Primary> {
    Primary::parse(url).map_err(|error| from_database(&format!("database `{name}`"), &error))
}

/// A slot for a standby of this name, which no other standby has, of this array or another: whoever drops it
/// drops nobody else's.
fn slot_of(name: &str, random: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let end: String = random.chars().filter(char::is_ascii_alphanumeric).take(SLOT_LETTERS).collect();
    let name = name.chars().map(letter).take(SLOT_BYTES_MAX - "ashlar__".len() - SLOT_LETTERS);
    format!("ashlar_{}_{}", name.collect::<String>(), end.to_ascii_lowercase())
}

/// The sizes of the volumes; refused when what is to be copied does not fit.
fn sizes(wanted: &Wanted, survey: &Survey) -> Result<Vec<(Role, u64)>> {
    let mut data_bytes = survey.data_bytes;
    if wanted.log_size_bytes.is_none() {
        data_bytes += survey.log_bytes;
    }
    let twice = (data_bytes * 2).next_multiple_of(1 << 30);
    let size = wanted.size_bytes.unwrap_or(SIZE_BYTES.max(twice));
    let mut sizes = vec![(Role::Data, size, data_bytes)];
    sizes.extend(wanted.log_size_bytes.map(|bytes| (Role::Log, bytes, survey.log_bytes)));
    check_named(wanted, survey)?;
    for space in &survey.spaces {
        let named = wanted.tablespaces.iter().find(|one| one.name == space.name);
        // Where nobody says how large it is, its files are counted with the data.
        let twice = (space.bytes.unwrap_or(survey.data_bytes) * 2).next_multiple_of(1 << 30);
        let size = named.map_or(SIZE_BYTES.max(twice), |one| one.size_bytes);
        sizes.push((Role::Tablespace(space.name.clone()), size, space.bytes.unwrap_or(0)));
    }
    let needed = |bytes: u64| bytes + bytes / 20 + MORE_BYTES;
    for (role, size, bytes) in &sizes {
        if *size < needed(*bytes) {
            let option = match role {
                Role::Log => "--log-size",
                Role::Tablespace(_) => "--tablespace",
                Role::Data | Role::Temp => "--size",
            };
            return Err(Error::new(
                api::ErrorKind::NoSpace,
                format!(
                    "database `{}`: its volume of {} needs about {} and would have {}",
                    wanted.name,
                    role.name(),
                    ByteCount(needed(*bytes)),
                    ByteCount(*size)
                ),
                format!("give it more with {option}: volumes are thin"),
            ));
        }
    }
    let sizes: Vec<(Role, u64)> = sizes.into_iter().map(|(role, size, _)| (role, size)).collect();
    check_sizes(&wanted.name, &sizes)?;
    Ok(sizes)
}

/// Refuses sizes of tablespaces that the source has not.
fn check_named(wanted: &Wanted, survey: &Survey) -> Result<()> {
    let has = |name: &str| survey.spaces.iter().any(|space| space.name == name);
    let Some(unknown) = wanted.tablespaces.iter().find(|one| !has(&one.name)) else { return Ok(()) };
    let there: Vec<&str> = survey.spaces.iter().map(|space| space.name.as_str()).collect();
    let there = if there.is_empty() { "none".to_string() } else { there.join(", ") };
    Err(Error::invalid(
        format!("database `{}`: its source has no tablespace `{}`", wanted.name, unknown.name),
        format!("it has {there}; one that is stopped tells no names, but `oid` and a number"),
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_slot_has_letters_that_a_slot_may_have() {
        assert_eq!(slot_of("Prod.eu-1", "1B2c-3d4e5f60"), "ashlar_prod_eu_1_1b2c3d4e");
        assert_eq!(slot_of(&"x".repeat(80), "00000000-").len(), SLOT_BYTES_MAX);
    }

    /// Two standbys had one slot, and the one that was refused dropped it.
    #[test]
    fn no_two_standbys_have_one_slot() {
        let slots = ["a.b", "a-b", "A_b", "a.b"].map(|name| slot_of(name, &random_id()));
        let different: std::collections::BTreeSet<&String> = slots.iter().collect();
        assert_eq!(different.len(), slots.len(), "{slots:?}");
    }

    #[test]
    fn volumes_are_as_large_as_what_comes() {
        let source = Source::Directory { path: "/x".into(), configuration: None };
        let name = "a".to_string();
        let mut wanted = Wanted {
            name,
            source,
            size_bytes: None,
            log_size_bytes: None,
            tablespaces: Vec::new(),
            pool: None,
            port: None,
            major: None,
            start_timeout_seconds: None,
        };
        let survey = Survey { data_bytes: 100 << 30, log_bytes: 1 << 30, ..Survey::default() };
        assert_eq!(sizes(&wanted, &survey).unwrap(), [(Role::Data, 202 << 30)]);
        wanted.size_bytes = Some(50 << 30);
        let error = sizes(&wanted, &survey).unwrap_err();
        assert!(error.message.contains("106.") && error.action.contains("--size"), "{error}");
        assert_eq!(sizes(&wanted, &Survey::default()).unwrap(), [(Role::Data, 50 << 30)]);
    }
}
