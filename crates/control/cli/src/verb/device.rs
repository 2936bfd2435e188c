//! `ashlar device`: a process that works on a device for an array. The array starts it.

use crate::Context;
use crate::failure::{Failure, Result};

/// Take the steps that an array tells on standard input.
#[derive(clap::Args)]
pub struct Device {}

impl Device {
    /// Runs until they are taken.
    pub fn run(self, context: &Context) -> Result<()> {
        ashlar_daemon::attach::run_device_process(&context.state).map_err(|error| {
            Failure::new(format!("work on a device for {}: {error}", context.state.display()))
        })
    }
}
