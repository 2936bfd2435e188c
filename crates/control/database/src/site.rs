//! Where a database is on this machine.
//!
//! ```text
//! DIRECTORY/run          its socket, its log, and what programs said
//! DIRECTORY/data         the volume of its data, mounted: pgdata/, ashlar-password
//! DIRECTORY/log          the volume of its log, mounted: pg_wal/
//! DIRECTORY/tablespace-X the volume of tablespace X, mounted: files/
//! DIRECTORY/temp         the volume of temporary files, mounted: files/
//! DIRECTORY/password     a copy of what is on the volume
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use ashlar_postgres::{Places, processes_below};
use serde::{Deserialize, Serialize};

use crate::record::{EngineKind, Limits, Record, Role};

/// A database in a directory of this machine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Site {
    /// Its directory, without links.
    pub directory: PathBuf,
    /// Its name.
    pub name: String,
    /// What kind of server it has.
    pub engine: EngineKind,
    /// The major version of its server; `None` is the newest there is.
    pub major: Option<u32>,
    /// Where its server listens.
    pub port: u16,
    /// Which volumes it has.
    pub roles: Vec<Role>,
    /// It is a copy of another.
    pub is_clone: bool,
    /// Settings that are kept with it.
    pub settings: BTreeMap<String, String>,
    /// What its server may use of the machine.
    pub limits: Option<Limits>,
}

impl Site {
    /// Of a record, in this directory.
    #[must_use]
    pub fn of(record: &Record, directory: PathBuf) -> Site {
        Site {
            directory,
            name: record.name.clone(),
            engine: record.engine,
            major: Some(record.major),
            port: record.port,
            roles: record.parts.iter().map(|part| part.role.clone()).collect(),
            is_clone: record.origin.is_some(),
            settings: record.settings.clone(),
            limits: record.limits,
        }
    }

    /// Where the volume of a role is mounted.
    #[must_use]
    pub fn mount(&self, role: &Role) -> PathBuf {
        self.directory.join(role.name())
    }

    /// Where the files of a tablespace or the temporary ones are: beside what a file system has of its own.
    pub(crate) fn files(&self, role: &Role) -> PathBuf {
        self.mount(role).join("files")
    }

    /// Its tablespaces' names, and where their files are.
    pub(crate) fn tablespaces(&self) -> Vec<(String, PathBuf)> {
        let of_role = |role: &Role| match role {
            Role::Tablespace(name) => Some((name.clone(), self.files(role))),
            _ => None,
        };
        self.roles.iter().filter_map(of_role).collect()
    }

    /// Where temporary files are, if they have a volume of their own.
    pub(crate) fn temporary(&self) -> Option<PathBuf> {
        self.roles.contains(&Role::Temp).then(|| self.files(&Role::Temp))
    }

    /// Where the server finds its files.
    #[must_use]
    pub fn places(&self) -> Places {
        let has_log = self.roles.contains(&Role::Log);
        Places {
            data: self.mount(&Role::Data).join("pgdata"),
            wal: has_log.then(|| self.mount(&Role::Log).join("pg_wal")), // tidy: word because PostgreSQL calls it so
            tablespaces: self.tablespaces().into_iter().map(|(_, files)| files).collect(),
            temporary: self.temporary(),
            socket: self.directory.join("run"),
            port: self.port,
        }
    }

    /// Whether processes of its server are there. Asks the kernel's table alone, not the volume.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !processes_below(&self.places().data).is_empty()
    }

    /// The password of its superuser, where one is known.
    #[must_use]
    pub fn password(&self) -> Option<String> {
        fs::read_to_string(self.password_file()).ok().map(|text| text.trim().to_string())
    }

    /// The copy that is readable while the volume is not.
    pub(crate) fn password_file(&self) -> PathBuf {
        self.directory.join("password")
    }

    /// Where clients of this machine find it.
    #[must_use]
    pub fn url(&self) -> String {
        let password = self.password().map_or(String::new(), |password| format!(":{password}"));
        format!("postgres://postgres{password}@127.0.0.1:{}/postgres", self.port)
    }
}
