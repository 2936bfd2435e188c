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
            ashlar clone create test --from db@before-upgrade\n  \
            ashlar clone create test --from db --limit 20GiB --class low")]
    Create {
        /// Name of the new volume; a snapshot of several volumes yields NAME-VOLUME for each.
        name: String,
        /// SNAPSHOT, VOLUME@SNAPSHOT, or VOLUME (an unnamed snapshot is taken).
        #[arg(long, value_name = "SOURCE")]
        from: String,
        #[command(flatten)]
        allowance: volume::Allowance,
        #[command(flatten)]
        precedence: volume::Precedence,
    },
}

impl Clone {
    pub fn run(self, context: &Context) -> Result<()> {
        let Verb::Create { name, from, allowance, precedence } = self.verb;
        let request = CloneCreate {
            name,
            from,
            limit_bytes: allowance.limit,
            reserve_bytes: allowance.reserve,
            floor_micros: precedence.floor,
            class: precedence.class(),
        };
        let volumes = context.client()?.clone_create(&request)?;
        Ok(context.output.print(&volumes, |volumes| volume::list(volumes))?)
    }
}
