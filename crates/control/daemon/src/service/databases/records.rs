//! The records of databases, and who works on which.

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, TcpListener};

use ashlar_api as api;
use ashlar_database::{EngineKind, Origin, Part, Record, Stage};
use ashlar_engine::{NOTE_VALUE_BYTES_MAX, NoteKind};

use super::super::Service;
use super::make::part;
use crate::error::{Error, Result};
use crate::names;

/// Longest name of a database: `NAME.proof.origin-2` is a snapshot's, and `NAME.proof-data` a volume's.
const NAME_BYTES_MAX: usize = 46;
/// Room for logs and answers of programs. Arbitrary.
const STATE_ROOM_BYTES_MIN: u64 = 1 << 20;
/// What the array puts behind the name of a database for a copy of its own.
pub(super) const PROOF: &str = ".proof";

/// A database that a pool remembers.
#[derive(Clone)]
pub(in super::super) struct Known {
    pub(super) pool: String,
    pub(super) number: u64,
    pub(super) record: Record,
}

/// Where a database is noted, and which volumes it has.
pub(in super::super) struct Place {
    pub(in super::super) pool: String,
    pub(in super::super) number: u64,
    pub(in super::super) name: String,
    pub(in super::super) volumes: Vec<String>,
}

/// A database that somebody works on. Dropped, others may.
pub(in super::super) struct Busy<'a> {
    service: &'a Service,
    name: String,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.service.known().busy_databases.remove(&self.name);
    }
}

impl Service {
    /// What the open pools remember.
    pub(super) async fn database_records(&self) -> Result<Vec<Known>> {
        let notes = self.array.record_notes(NoteKind::Database).await?;
        let known = |note: crate::array::RecordNote| {
            let record = serde_json::from_slice(&note.value).ok()?;
            Some(Known { pool: note.pool, number: note.number, record })
        };
        Ok(notes.into_iter().filter_map(known).collect())
    }

    /// Where the databases are, and on which volumes.
    pub(in super::super) async fn database_places(&self) -> Result<Vec<Place>> {
        let place = |known: Known| Place {
            pool: known.pool,
            number: known.number,
            name: known.record.name.clone(),
            volumes: known.record.volumes(),
        };
        Ok(self.database_records().await?.into_iter().map(place).collect())
    }

    pub(super) async fn database_record(&self, name: &str) -> Result<Known> {
        let all = self.database_records().await?;
        all.into_iter()
            .find(|known| known.record.name == name)
            .ok_or_else(|| self.not_there("database", name))
    }

    /// Refuses what would leave a database without one of its volumes.
    pub(in super::super) async fn check_of_no_database(&self, volume: &str) -> Result<()> {
        let has_it = |known: &Known| known.record.parts.iter().any(|part| part.volume == volume);
        let Some(owner) = self.database_records().await?.into_iter().find(has_it) else { return Ok(()) };
        let name = owner.record.name;
        Err(Error::new(
            api::ErrorKind::Busy,
            format!("volume `{volume}` is of database `{name}`"),
            format!("`ashlar database delete {name}` deletes both; --force leaves the database without it"),
        ))
    }

    /// Writes a record down.
    pub(super) async fn keep_record(&self, known: &Known) -> Result<()> {
        let value = written(&known.record)?;
        let bytes = value.len();
        if bytes > NOTE_VALUE_BYTES_MAX {
            return Err(too_long(&known.record.name, bytes));
        }
        let is_new = known.record.stage == Stage::Making;
        self.array.record_note_put(NoteKind::Database, &known.pool, known.number, value, is_new).await
    }

    /// Refuses a database of which no clone could be written down: that names its source's volumes, too.
    pub(super) fn check_cloneable(record: &Record) -> Result<()> {
        let name = format!("{}{PROOF}", record.name);
        let snapshot = "x".repeat(names::NAME_BYTES_MAX);
        let database = record.name.clone();
        let origin = Origin { database, snapshot, is_own: true, volumes: record.kept_parts() };
        let parts: Vec<Part> = record.parts.iter().map(|own| part(&name, &own.role)).collect();
        parts.iter().try_for_each(|part| names::check("volume", &part.volume))?;
        let clone = Record { name, parts, origin: Some(origin), ..record.clone() };
        let bytes = written(&clone)?.len();
        if bytes > NOTE_VALUE_BYTES_MAX { Err(too_long(&record.name, bytes)) } else { Ok(()) }
    }

    pub(super) async fn set_stage(&self, known: &mut Known, stage: Stage) -> Result<()> {
        known.record.stage = stage;
        self.keep_record(known).await
    }

    pub(super) async fn forget_record(&self, known: &Known) -> Result<()> {
        self.known().database_troubles.remove(&known.record.name);
        self.array.record_note_delete(NoteKind::Database, &known.pool, known.number).await
    }

    /// One at a time works on a database.
    pub(super) fn work_alone(&self, name: &str) -> Result<Busy<'_>> {
        if self.is_stopping() {
            return Err(self.stopping());
        }
        if !self.known().busy_databases.insert(name.to_string()) {
            return Err(Error::new(
                api::ErrorKind::Busy,
                format!("database `{name}` is being worked on"),
                "wait a moment and repeat",
            )
            .about(api::ObjectKind::Database, name)
            .because(api::Reason::WorkedOn));
        }
        Ok(Busy { service: self, name: name.to_string() })
    }

    /// The first port that a database gets by itself.
    fn port_first(&self) -> u16 {
        u16::try_from(self.settings.now().database_port_first).unwrap_or(u16::MAX)
    }

    /// Refuses a port that a database cannot get, or not while it runs.
    pub(super) async fn check_new_port(&self, known: &Known, port: u16, must_stop: bool) -> Result<()> {
        let name = &known.record.name;
        if known.record.engine == EngineKind::None {
            let what = format!("database `{name}` has no server that listens");
            return Err(Error::invalid(what, "leave --port out"));
        }
        if port == known.record.port {
            return Ok(());
        }
        if must_stop {
            let what =
                format!("database `{name}`: its server runs, and listens elsewhere from its next start on");
            return Err(Error::invalid(what, "say --restart as well, or stop it first"));
        }
        check_port(&self.database_records().await?, port)
    }

    /// A number, a port and a name that nobody has yet: until the record is kept nobody else may ask.
    pub(super) async fn check_new(&self, name: &str, port: Option<u16>) -> Result<(u64, u16)> {
        names::check("database", name)?;
        self.check_state_room()?;
        if name.strip_suffix(PROOF).unwrap_or(name).len() > NAME_BYTES_MAX {
            return Err(Error::invalid(
                format!("`{name}` is too long for a database: its volumes are named after it"),
                format!("use at most {NAME_BYTES_MAX} bytes"),
            ));
        }
        let all = self.database_records().await?;
        if let Some(other) = all.iter().find(|known| known.record.name == name) {
            return Err(Error::exists("database", name, &other.pool));
        }
        let number = all.iter().map(|known| known.number).max().unwrap_or(0) + 1;
        let taken: BTreeSet<u16> = all.iter().map(|known| known.record.port).collect();
        let port = match port {
            Some(port) => {
                check_port(&all, port)?;
                Some(port)
            }
            None => (self.port_first()..=u16::MAX).find(|port| !taken.contains(port) && is_free(*port)),
        };
        let no_port = || Error::new(api::ErrorKind::Busy, "no port is free", "end what listens");
        Ok((number, port.ok_or_else(no_port)?))
    }

    /// Servers and programs keep their logs and answers in the state directory: where that is full a whole
    /// database looks damaged.
    pub(super) fn check_state_room(&self) -> Result<()> {
        let directory = self.state().directory();
        let space = rustix::fs::statvfs(directory);
        if space.is_ok_and(|space| space.f_bavail.saturating_mul(space.f_frsize) < STATE_ROOM_BYTES_MIN) {
            return Err(Error::file("write below", directory, &io::ErrorKind::StorageFull.into()));
        }
        Ok(())
    }
}

fn written(record: &Record) -> Result<Vec<u8>> {
    serde_json::to_vec(record).map_err(|error| {
        let what = format!("record of database `{}`: {error}", record.name);
        Error::new(api::ErrorKind::Invalid, what, "tell the authors")
    })
}

fn too_long(name: &str, bytes: usize) -> Error {
    Error::invalid(
        format!(
            "database `{name}`: its volumes, settings and commands are too many to be kept: {bytes} bytes of \
             {NOTE_VALUE_BYTES_MAX}, with what a clone's record has besides"
        ),
        "make it with fewer tablespaces or a shorter name, or keep long settings in the server's own files",
    )
}

/// Refuses a port that is somebody's, or that only root may have.
fn check_port(all: &[Known], port: u16) -> Result<()> {
    if port < api::PORT_MIN {
        let what = format!("port {port} is not for a server that does not run as root");
        return Err(Error::invalid(what, format!("name one of {} to 65535, or leave it out", api::PORT_MIN)));
    }
    let owner = all.iter().find(|known| known.record.port == port);
    if owner.is_none() && is_free(port) {
        return Ok(());
    }
    let program = "another program".to_string();
    let who = owner.map_or(program, |known| format!("database `{}`", known.record.name));
    let what = format!("port {port} is taken by {who}");
    Err(Error::new(api::ErrorKind::Busy, what, "name another with --port, or leave it out"))
}

/// Whether nobody listens there.
fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
