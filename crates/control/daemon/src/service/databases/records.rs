//! The records of databases, and who works on which.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};

use ashlar_api as api;
use ashlar_database::{Record, Stage};
use ashlar_engine::NoteKind;

use super::super::Service;
use crate::error::{Error, Result};
use crate::names;

/// Longest name of a database: `NAME-data` is a volume's.
const NAME_BYTES_MAX: usize = 58;

/// A database that a pool remembers.
#[derive(Clone)]
pub(in super::super) struct Known {
    pub(super) pool: String,
    pub(super) number: u64,
    pub(super) record: Record,
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

    pub(super) async fn database_record(&self, name: &str) -> Result<Known> {
        let all = self.database_records().await?;
        all.into_iter()
            .find(|known| known.record.name == name)
            .ok_or_else(|| Error::not_found("database", name))
    }

    /// Writes a record down.
    pub(super) async fn keep_record(&self, known: &Known) -> Result<()> {
        let value = serde_json::to_vec(&known.record).map_err(|error| {
            Error::new(api::ErrorKind::Invalid, format!("record of a database: {error}"), "tell the authors")
        })?;
        self.array.record_note_put(NoteKind::Database, &known.pool, known.number, value).await
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
            return Err(Error::stopping());
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

    /// A number, a port and a name that nobody has yet: until the record is kept nobody else may ask.
    pub(super) async fn check_new(&self, name: &str, port: Option<u16>) -> Result<(u64, u16)> {
        names::check("database", name)?;
        if name.len() > NAME_BYTES_MAX {
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
        let owner = |port| all.iter().find(|known| known.record.port == port);
        let port = match port {
            Some(port) if owner(port).is_some() || !is_free(port) => {
                let who = owner(port).map_or("another program".to_string(), |known| {
                    format!("database `{}`", known.record.name)
                });
                return Err(Error::new(
                    api::ErrorKind::Busy,
                    format!("port {port} is taken by {who}"),
                    "name another with --port, or leave it out",
                ));
            }
            Some(port) => Some(port),
            None => (self.port_first()..=u16::MAX).find(|port| !taken.contains(port) && is_free(*port)),
        };
        let no_port = || Error::new(api::ErrorKind::Busy, "no port is free", "end what listens");
        Ok((number, port.ok_or_else(no_port)?))
    }
}

/// Whether nobody listens there.
fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
