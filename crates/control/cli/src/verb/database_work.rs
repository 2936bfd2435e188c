//! `ashlar database-work`: a process that works on a database for an array. The array starts it.

use crate::Context;
use crate::failure::{Failure, Result};

/// Do what an array tells on standard input.
#[derive(clap::Args)]
pub struct DatabaseWork {}

impl DatabaseWork {
    /// Runs until it is done.
    pub fn run(self, context: &Context) -> Result<()> {
        ashlar_daemon::run_database_process(&context.state).map_err(|error| {
            Failure::new(format!("work on a database for {}: {error}", context.state.display()))
        })
    }
}
