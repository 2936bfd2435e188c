//! `ashlar lab import`: a result that was made on another machine.

use std::path::PathBuf;

use ashlar_run::Imported;

use crate::Context;
use crate::failure::{Failure, Result};

/// Take in a result that another machine made, and verify it; then it can be compared and shown.
///
/// Every figure is worked out again from what is kept beside it, as `ashlar lab verify` does. Exit status 4:
/// something differs, and nothing is taken in.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar lab export result > result.json      (on the other machine)\n  \
        ashlar lab import result.json -o theirs\n  ashlar lab compare ours theirs")]
pub struct Import {
    /// A copy of the directory that `ashlar lab run` made, or the file that `ashlar lab export DIR` printed.
    #[arg(value_name = "DIR|FILE")]
    from: PathBuf,
    /// A new directory for it.
    #[arg(short = 'o', long, value_name = "DIR")]
    output: PathBuf,
}

impl Import {
    pub fn run(self, context: &Context) -> Result<()> {
        let output = crate::parse::absolute(&self.output)?;
        let imported = ashlar_run::import(&crate::parse::absolute(&self.from)?, &output)?;
        if let Some(first) = imported.verified.differences.first() {
            return Err(Failure::Finding(format!("{}: {first}: nothing was taken in", self.from.display())));
        }
        Ok(context.output.print(&imported, Imported::text)?)
    }
}
