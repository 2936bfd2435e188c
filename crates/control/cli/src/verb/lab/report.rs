//! `ashlar lab report`: the report made again.

use std::path::PathBuf;

use super::run::{finish, finish_paper};
use crate::Context;
use crate::failure::Result;

/// Make the report of a run again from what is kept. Measures nothing.
///
/// Exit status as of `ashlar lab run`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar lab report ashlar-lab-fujitsu-throughput-xs")]
pub struct Report {
    /// The directory that `ashlar lab run` made.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Report {
    pub fn run(self, context: &Context) -> Result<()> {
        let directory = crate::parse::absolute(&self.directory)?;
        if ashlar_run::is_paper(&directory) {
            return finish_paper(context, &ashlar_run::report_paper(&directory)?);
        }
        finish(context, &ashlar_run::report(&directory)?)
    }
}
