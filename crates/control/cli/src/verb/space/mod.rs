//! `ashlar space`: where the bytes are, what deleting would give back, who holds what, what more data
//! would take.

mod estimate;
mod holders;
mod reclaim;
mod report;

use clap::{Args, Subcommand};

use crate::Context;
use crate::failure::Result;
use crate::output::micros;

/// Show where all bytes are; without a verb for each pool, volume and snapshot.
///
/// The parts of a pool sum to its physical bytes. Stranded are blocks that nothing refers to any more but
/// that were compressed together with some that are: they go when the cleaner moves those. Parts are
/// counted by walking every volume and snapshot
/// in the background, after a checkpoint; --quick answers at once with what the cleaner's last mark knew,
/// and names what is an estimate.
#[derive(Args)]
#[command(
    after_help = "Example:\n  ashlar space --json | jq '.[].parts'\n  ashlar space reclaim db monday --json\n  \
        ashlar space holders db\n  ashlar space estimate /dev/sdb"
)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Space {
    #[command(flatten)]
    report: report::Report,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Subcommand)]
enum Verb {
    Reclaim(reclaim::Reclaim),
    Holders(holders::Holders),
    Estimate(estimate::Estimate),
}

/// How long a count may take.
#[derive(Args)]
struct Within {
    /// Count no longer than this many seconds, 1 to 3600.
    #[arg(long, value_name = "SECONDS", default_value_t = ashlar_api::WITHIN_SECONDS_DEFAULT)]
    within: u64,
}

impl Space {
    pub fn run(self, context: &Context) -> Result<()> {
        match self.verb {
            None => self.report.run(context),
            Some(Verb::Reclaim(verb)) => verb.run(context),
            Some(Verb::Holders(verb)) => verb.run(context),
            Some(Verb::Estimate(verb)) => verb.run(context),
        }
    }
}

/// What every answer ends with.
fn counted(duration_millis: u64) -> String {
    format!("in {}, exact at a checkpoint taken first", micros(duration_millis * 1000))
}
