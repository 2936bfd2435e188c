//! What `ashlar database clone` has done to a clone before others reach it.

use std::path::PathBuf;

use ashlar_api::DatabaseClone;

use super::import::first_line;
use crate::failure::{Failure, Result};

/// A password of its own, and SQL that masks what is in it.
#[derive(clap::Args)]
pub struct Care {
    /// Give the clone's superuser a password of its own: the first line of FILE, or a fresh one.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    password: Option<Option<PathBuf>>,
    /// Run this file with psql before anybody reaches the clone over the network, and at each reset. When a
    /// statement fails there is no clone.
    #[arg(long, value_name = "SQLFILE")]
    after_clone: Option<PathBuf>,
    /// The database that SQLFILE runs in [default: postgres].
    #[arg(long, value_name = "DATABASE", requires = "after_clone")]
    database: Option<String>,
}

impl Care {
    /// Puts it into a request.
    pub fn into_request(self, request: DatabaseClone) -> Result<DatabaseClone> {
        let read = |path: PathBuf| {
            std::fs::read_to_string(&path)
                .map_err(|error| Failure::new(format!("read {}: {error}: check the path", path.display())))
        };
        Ok(DatabaseClone {
            has_fresh_password: self.password == Some(None),
            password: self.password.flatten().map(|path| first_line(&path)).transpose()?,
            after_clone: self.after_clone.map(read).transpose()?,
            after_clone_database: self.database,
            ..request
        })
    }
}
