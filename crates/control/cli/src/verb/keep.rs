//! `ashlar keep`: the keeper of an array's attachments. The array starts it.

use crate::Context;
use crate::failure::{Failure, Result};

/// Hold the descriptors of attached volumes for an array.
#[derive(clap::Args)]
pub struct Keep {}

impl Keep {
    /// Runs until there is nothing to hold.
    pub fn run(self, context: &Context) -> Result<()> {
        ashlar_keeper::run(&context.state)
            .map_err(|error| Failure::new(format!("keep for {}: {error}", context.state.display())))
    }
}
