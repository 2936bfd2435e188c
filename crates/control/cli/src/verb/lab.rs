//! `ashlar lab`: what storage does under a database, measured on any target and judged.

use clap::Subcommand;

use crate::Context;
use crate::failure::Result;

mod doctor;

/// Measure what storage does under a database, on any directory or device.
///
/// Needs no array: it treats an Ashlar volume as one target among others. I/O tests are driven by fio.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar lab doctor --target /mnt/db")]
pub struct Lab {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Doctor(doctor::Doctor),
}

impl Lab {
    pub fn run(self, context: &Context) -> Result<()> {
        match self.verb {
            Verb::Doctor(verb) => verb.run(context),
        }
    }
}
