//! Where a database is on this machine.
//!
//! ```text
//! DIRECTORY/run          its socket, its log, and what programs said
//! DIRECTORY/data         the volume of its data, mounted: pgdata/, ashlar-password
//! DIRECTORY/log          the volume of its log, mounted: pg_wal/
//! DIRECTORY/tablespace-X the volume of tablespace X, mounted: files/
//! DIRECTORY/temp         the volume of temporary files, mounted: files/
//! DIRECTORY/password     a copy of what is on the volume
//! DIRECTORY/primary      a copy of the password of a standby's primary
//! DIRECTORY/primary-root.crt  a copy of the certificates that the primary's is checked against
//! DIRECTORY/progress     how far the work on it is
//! DIRECTORY/cancel       somebody wants that work to end
//! DIRECTORY/started      its command `start` was run, since this start of the machine
//! DIRECTORY/frozen       a snapshot was begun, and its command `thaw` not run since
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use ashlar_postgres::{Places, servers_below};
use serde::{Deserialize, Serialize};

use crate::hooked;
use crate::progress::{CANCEL, PROGRESS, PROGRESS_ASIDE, Progress};
use crate::record::{EngineKind, Follows, Hooks, Limits, Record, Role, superuser_of_ours};
use crate::url::encoded;

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
    /// Its first superuser.
    #[serde(default = "superuser_of_ours")]
    pub superuser: String,
    /// What it follows as a standby.
    #[serde(default)]
    pub follows: Option<Follows>,
    /// How long its server's start may take; `None` is the usual.
    #[serde(default)]
    pub start_timeout_seconds: Option<u64>,
    /// Commands that stand for a server that Ashlar does not know.
    #[serde(default)]
    pub hooks: Option<Hooks>,
}

impl Site {
    /// Of a record, in this directory.
    #[must_use]
    pub fn of(record: &Record, directory: PathBuf) -> Site {
        Site {
            directory,
            name: record.name.clone(),
            engine: record.engine,
            // Of one that is being imported nobody knows it at first.
            major: (record.major > 0).then_some(record.major),
            port: record.port,
            roles: record.parts.iter().map(|part| part.role.clone()).collect(),
            is_clone: record.origin.is_some(),
            settings: record.settings.clone(),
            limits: record.limits,
            superuser: record.superuser.clone(),
            follows: record.follows.clone(),
            start_timeout_seconds: record.start_timeout_seconds,
            hooks: record.hooks.clone(),
        }
    }

    /// Where the volume of a role is mounted.
    #[must_use]
    pub fn mount(&self, role: &Role) -> PathBuf {
        self.directory.join(role.name())
    }

    /// Where the files of a tablespace or the temporary ones are: beside what a file system has of its own.
    pub(crate) fn files_on(&self, role: &Role) -> PathBuf {
        self.mount(role).join("files")
    }

    /// Its tablespaces' names, and where their files are.
    pub(crate) fn tablespaces(&self) -> Vec<(String, PathBuf)> {
        let of_role = |role: &Role| match role {
            Role::Tablespace(name) => Some((name.clone(), self.files_on(role))),
            _ => None,
        };
        self.roles.iter().filter_map(of_role).collect()
    }

    /// Where temporary files are, if they have a volume of their own.
    pub(crate) fn temporary(&self) -> Option<PathBuf> {
        self.roles.contains(&Role::Temp).then(|| self.files_on(&Role::Temp))
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

    /// Where its log is, when it has a volume of its own.
    pub(crate) fn log(&self) -> Option<PathBuf> {
        self.places().wal // tidy: word because PostgreSQL calls it so
    }

    /// Whether processes of its server are there, or its command `start` was run since the machine's start.
    /// Asks the kernel's table or the directory beside the volumes, not the volumes.
    #[must_use]
    pub fn is_running(&self) -> bool {
        match self.engine {
            EngineKind::Postgres => !servers_below(&self.places().data).is_empty(),
            EngineKind::None => hooked::is_started(self),
        }
    }

    /// Whether a snapshot of it was begun, and its command `thaw` not run since.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.frozen_file().exists()
    }

    pub(crate) fn frozen_file(&self) -> PathBuf {
        self.directory.join("frozen")
    }

    pub(crate) fn started_file(&self) -> PathBuf {
        self.directory.join("started")
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

    /// Where clients of this machine find it; without a server of ours the directory of its data.
    #[must_use]
    pub fn url(&self) -> String {
        if self.engine == EngineKind::None {
            return self.mount(&Role::Data).display().to_string();
        }
        let password = self.password().map_or(String::new(), |password| format!(":{}", encoded(&password)));
        format!("postgres://{}{password}@127.0.0.1:{}/postgres", encoded(&self.superuser), self.port)
    }

    /// The copy of the password of its primary, readable while the volume is not.
    pub(crate) fn primary_file(&self) -> PathBuf {
        self.directory.join("primary")
    }

    /// The certificates that its primary's is checked against.
    pub(crate) fn root_file(&self) -> PathBuf {
        self.directory.join("primary-root.crt")
    }

    /// The files beside its volumes.
    #[must_use]
    pub fn files(&self) -> [PathBuf; 8] {
        let all = [
            "password",
            "primary",
            "primary-root.crt",
            PROGRESS,
            PROGRESS_ASIDE,
            CANCEL,
            "started",
            "frozen",
        ];
        all.map(|name| self.directory.join(name))
    }

    /// How far the work on it is, where somebody says so.
    #[must_use]
    pub fn progress(&self) -> Option<Progress> {
        serde_json::from_slice(&fs::read(self.directory.join(PROGRESS)).ok()?).ok()
    }

    /// Asks whoever works on it to end.
    ///
    /// # Errors
    /// When the file that asks cannot be written.
    pub fn ask_to_end(&self) -> std::io::Result<()> {
        fs::write(self.directory.join(CANCEL), "")
    }

    /// Work on it begins anew, whatever was asked before.
    pub fn forget_asked_end(&self) {
        // Where there is none, nobody asked.
        let _ = fs::remove_file(self.directory.join(CANCEL));
    }

    /// Whether somebody asked.
    #[must_use]
    pub fn is_asked_to_end(&self) -> bool {
        self.directory.join(CANCEL).exists()
    }

    /// Gives it a password from the next care on.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn keep_password(&self, password: &str) -> crate::Result<()> {
        crate::postgres::write_secret(&self.password_file(), password)
    }
}
