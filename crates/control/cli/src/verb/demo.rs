//! `ashlar demo`: a database living on the array, cloned, reset, robbed of two drives, killed and recovered.

use ashlar_demo::Settings;

use crate::Context;
use crate::failure::{Failure, Result};

/// Play the demo: PostgreSQL on the array, cloned, broken and reset, robbed of two drives, killed and
/// recovered.
///
/// Makes an array of its own in a temporary directory, shows its progress and a table, and removes
/// everything at the end. Takes about five minutes on two cores and 10 GiB, and needs root and PostgreSQL.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar demo --scale 20 --seconds 20")]
pub struct Demo {
    /// Scale of pgbench's database: one unit is 100,000 accounts, about 15 MiB.
    #[arg(long, default_value_t = Settings::SCALE_DEFAULT)]
    scale: u32,
    /// How long the load beside the clone runs, in seconds; each phase around lost drives takes a third.
    #[arg(long, default_value_t = Settings::SECONDS_DEFAULT)]
    seconds: u32,
    /// Leave the array and its database running at the end, and say where they are.
    #[arg(long)]
    keep: bool,
    /// Put a picture of the run (demo.svg) and its figures (demo.json) into this directory.
    #[arg(long, value_name = "DIR")]
    record: Option<std::path::PathBuf>,
}

impl Demo {
    pub fn run(self, _context: &Context) -> Result<()> {
        let binary = std::env::current_exe().map_err(|error| {
            Failure::new(format!("this program's path is unknown ({error}): mount /proc"))
        })?;
        let mut settings = Settings::new(binary);
        settings.scale = self.scale;
        settings.seconds = self.seconds;
        settings.is_kept = self.keep;
        settings.record = self.record;
        ashlar_demo::run(&settings).map_err(|error| Failure::new(error.to_string()))
    }
}
