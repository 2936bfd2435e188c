//! `ashlar lab verify`: a result held against what it was made from.

use std::path::PathBuf;

use ashlar_run::Verified;

use crate::Context;
use crate::failure::{Failure, Result};

/// Work the figures and the report of a result out again from what is kept, and tell what differs.
///
/// Measures and changes nothing. The figures of each run come from fio's own output, or from the model of
/// drives once more; the pages come from the figures. Exit status 4: something differs.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar lab verify ashlar-lab-fujitsu-throughput-xs")]
pub struct Verify {
    /// The directory that `ashlar lab run` made.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Verify {
    pub fn run(self, context: &Context) -> Result<()> {
        let directory = crate::parse::absolute(&self.directory)?;
        let first = if ashlar_run::is_paper(&directory) {
            let verified = ashlar_run::verify_paper(&directory)?;
            let text = |all: &Vec<Verified>| all.iter().map(Verified::text).collect::<Vec<_>>().join("\n\n");
            context.output.print(&verified, text)?;
            verified.into_iter().flat_map(|one| one.differences).next()
        } else {
            let verified = ashlar_run::verify(&directory)?;
            context.output.print(&verified, Verified::text)?;
            verified.differences.into_iter().next()
        };
        match first {
            Some(first) => Err(Failure::Finding(format!("{}: {first}", self.directory.display()))),
            None => Ok(()),
        }
    }
}
