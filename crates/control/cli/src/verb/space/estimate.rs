//! `ashlar space estimate`: what data would take on the array, before they are moved there.

mod files;
mod report;
mod scan;
mod target;

use ashlar_reduction::estimate::REGION_BYTES;

use crate::Context;
use crate::failure::{Failure, Result};
use crate::parse;
use crate::progress::Progress;

/// Estimate what storing TARGET on the array would take: zero blocks, compression, dedupe.
///
/// Reads TARGET and writes nothing. Everything is read once, because dedupe cannot be told from a
/// part; the codecs are tried on a random part of it. With --quick only that part is read, and
/// dedupe is reported as a lower bound. Every estimate comes with its 95 % interval.
///
/// TARGET is a block device, a file, or a directory (the files in it, without what is mounted
/// below); for these no array is needed. A name that is no path is a volume of the array, or
/// VOLUME@SNAPSHOT, which does not change while it is read.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar space estimate /var/lib/postgresql/15/main\n  \
    ashlar space estimate /dev/sdb --quick --sample-bytes 512MiB\n  \
    ashlar space estimate db@before-upgrade --json | jq .dedupe")]
pub struct Estimate {
    /// Block device, file, directory, VOLUME or VOLUME@SNAPSHOT.
    target: String,
    /// Read only the random part.
    #[arg(long)]
    quick: bool,
    /// Size of the random part: regions of 64 KiB. All of a smaller TARGET.
    #[arg(long, value_name = "SIZE", default_value = "2GiB", value_parser = sample)]
    sample_bytes: u64,
}

/// With fewer regions than 128 an interval from their spread says little.
const SAMPLE_BYTES_MIN: u64 = 128 * REGION_BYTES;

fn sample(text: &str) -> std::result::Result<u64, String> {
    let bytes = parse::size(text)?;
    if bytes < SAMPLE_BYTES_MIN {
        return Err(format!("a sample below {} tells too little", crate::output::size(SAMPLE_BYTES_MIN)));
    }
    Ok(bytes)
}

impl Estimate {
    pub fn run(self, context: &Context) -> Result<()> {
        let mut target = target::open(&self.target, context)?;
        if target.content.size_bytes() == 0 {
            return Err(Failure::new(format!(
                "{} `{}` is empty: there is nothing to estimate",
                target.kind, self.target
            )));
        }
        let plan = scan::Plan::new(target.content.as_mut(), self.sample_bytes, self.quick)?;
        let mut progress = Progress::new("space estimate", plan.read_bytes());
        let scanned = scan::scan(target.content.as_mut(), &plan, &mut |done| progress.show(done));
        progress.end();
        let report = report::Report::new(&self.target, &target, &plan, &scanned?, progress.elapsed());
        Ok(context.output.print(&report, report::text)?)
    }
}
