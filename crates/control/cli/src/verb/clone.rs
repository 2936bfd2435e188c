//! `ashlar clone`: writable volumes made from a snapshot.

use ashlar_api::CloneCreate;
use clap::Subcommand;

use crate::Context;
use crate::failure::Result;
use crate::verb::volume;

/// Make writable volumes from a snapshot, at no space.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar clone create test --from before-upgrade")]
pub struct Clone {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make a clone. It is a volume like any other and outlives its snapshot.
    #[command(after_help = "Example:\n  ashlar clone create test --from before-upgrade\n  \
            ashlar clone create test --from db@before-upgrade\n  ashlar clone create test --from db")]
    Create {
        /// Name of the new volume; a snapshot of several volumes yields NAME-VOLUME for each.
        name: String,
        /// SNAPSHOT, VOLUME@SNAPSHOT, or VOLUME (an unnamed snapshot is taken).
        #[arg(long, value_name = "SOURCE")]
        from: String,
    },
}

impl Clone {
    pub fn run(self, context: &Context) -> Result<()> {
        let Verb::Create { name, from } = self.verb;
        let volumes = context.client()?.clone_create(&CloneCreate { name, from })?;
        Ok(context.output.print(&volumes, |volumes| volume::list(volumes))?)
    }
}
