//! `ashlar space`: where space goes.

mod estimate;

use clap::Subcommand;

use crate::Context;
use crate::failure::Result;

/// Estimate what data would take on the array.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar space estimate /dev/sdb")]
pub struct Space {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Estimate(estimate::Estimate),
}

impl Space {
    pub fn run(self, context: &Context) -> Result<()> {
        match self.verb {
            Verb::Estimate(verb) => verb.run(context),
        }
    }
}
