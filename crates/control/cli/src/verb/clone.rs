//! `ashlar clone`: writable volumes made from a snapshot.

use ashlar_api::CloneCreate;
use clap::Subcommand;

use crate::Context;
use crate::failure::Result;
use crate::parse;
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
            ashlar clone create test --from db --limit 20GiB")]
    Create {
        /// Name of the new volume; a snapshot of several volumes yields NAME-VOLUME for each.
        name: String,
        /// SNAPSHOT, VOLUME@SNAPSHOT, or VOLUME (an unnamed snapshot is taken).
        #[arg(long, value_name = "SOURCE")]
        from: String,
        /// Bytes on the drives that it may have of its own at most, compressed.
        ///
        /// Its own is what it wrote itself and still refers to, not what it found when it was made. At the
        /// limit a write that needs more room fails at once with "no space"; writing over what it has, unmaps
        /// and zeroes go on.
        #[arg(long, value_name = "BYTES", value_parser = parse::allowance)]
        limit: Option<u64>,
        /// Bytes on the drives that are kept for it, its own included.
        ///
        /// To the other volumes the pool is full before they take what is kept and not used yet. Refused when
        /// the pool has not so much free.
        #[arg(long, value_name = "BYTES", value_parser = parse::allowance)]
        reserve: Option<u64>,
    },
}

impl Clone {
    pub fn run(self, context: &Context) -> Result<()> {
        let Verb::Create { name, from, limit, reserve } = self.verb;
        let request = CloneCreate { name, from, limit_bytes: limit, reserve_bytes: reserve };
        let volumes = context.client()?.clone_create(&request)?;
        Ok(context.output.print(&volumes, |volumes| volume::list(volumes))?)
    }
}
