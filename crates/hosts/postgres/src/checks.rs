//! PostgreSQL's own checks of its files, by its own programs.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::server::Server;

/// Over what a role or a database says of its sessions: a check may take its time, and makes the extension
/// that it needs.
const OPTIONS: &str = "-c statement_timeout=0 -c lock_timeout=0 -c idle_session_timeout=0 \
    -c default_transaction_read_only=off";

/// Hundreds of GiB may take hours; whoever does not want to wait for them interrupts the launcher.
const CHECK_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How thoroughly tables and indexes are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationCheck {
    /// The databases; none is all of them.
    pub databases: Vec<String>,
    /// Also that every row of a table is in each of its indexes: it takes several times as long.
    pub is_heap_all_indexed: bool,
    /// Sessions that check at once.
    pub jobs: u32,
}

impl Default for RelationCheck {
    /// The database `postgres`, rows and the structure of indexes, two sessions.
    fn default() -> RelationCheck {
        RelationCheck { databases: vec!["postgres".into()], is_heap_all_indexed: false, jobs: 2 }
    }
}

impl Server {
    /// pg_amcheck: every table's rows and every index's structure. It needs the extension amcheck, which
    /// Debian has in `postgresql-contrib`.
    ///
    /// # Errors
    /// When a fault is found, or the program fails: what it said is in the message.
    pub fn check_relations(&self, check: &RelationCheck) -> Result<Duration> {
        let mut command = self.client("pg_amcheck");
        command.env("PGOPTIONS", OPTIONS);
        command.args(["--install-missing", "-j", &check.jobs.to_string()]);
        if check.is_heap_all_indexed {
            command.arg("--heapallindexed");
        }
        for database in &check.databases {
            command.args(["-d", database]);
        }
        if check.databases.is_empty() {
            command.arg("--all");
        }
        Ok(self.installation.launcher.run(command, CHECK_MAX)?.took)
    }

    /// pg_checksums: every page of the stopped server.
    ///
    /// # Errors
    /// When the server runs, a page is damaged, or the program fails.
    pub fn check_pages(&self) -> Result<Duration> {
        if self.is_running() {
            let data = self.places.data.display();
            return Err(Error::command(format!("check the pages of {data}: stop the server first")));
        }
        let mut command = self.installation.program("pg_checksums");
        command.args(["--check", "-D"]).arg(&self.places.data);
        Ok(self.installation.launcher.run(command, CHECK_MAX)?.took)
    }
}
