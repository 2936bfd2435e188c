//! `ashlar inspect`: a second reader of a pool's drives, which needs no array and changes nothing.

mod text;

use std::path::{Path, PathBuf};

use ashlar_inspect::{DeepReport, ImageCheck, Outcome, Pool, Report, SalvageOptions, SalvageReport};
use serde::Serialize;

use crate::Context;
use crate::failure::{Failure, Result};
use crate::parse;

/// Tell what is on the drives of a pool, what of it is damaged, and save what can be saved.
///
/// PATHs are drives or drive files of one pool that no array serves; of one that is served the
/// answer may be out of date. Drives may be missing or damaged. Nothing is ever written to them,
/// and the code that reads them is not the array's own.
///
/// Without options: drives and their superblocks, segments, volumes, snapshots and the journal,
/// from the pool's tables. --volume reads a volume and verifies every chunk, --deep everything:
/// all volumes and snapshots, segment headers, relocations, and settled stripes against parity.
///
/// --salvage writes each volume as a sparse raw image DIR/NAME.img with all that can be read and
/// verified, the journal applied, and DIR/report.json with the ranges that are gone and why. A
/// range that is gone reads as zeroes in the image: what is not in the report is as it was.
///
/// Drives that lack something, while parity makes up for it, damage nothing. They are findings all
/// the same: which drive, what it lacks, and how many more may fail.
///
/// Exit status: 0 whole, 3 something is damaged or gone, 4 nothing is, but fewer drives may fail than
/// the pool's protection promises, 1 nothing could be read or saved. With --salvage 0 says that
/// everything was saved, whatever drives lack.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar inspect /srv/d0.img /srv/d1.img /srv/d2.img\n  \
    ashlar inspect /srv/d?.img --volume db --volume db@before-upgrade\n  \
    ashlar inspect /srv/d0.img /srv/d1.img --salvage /mnt/rescue --snapshots")]
pub struct Inspect {
    /// Drives of one pool.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Read and verify this volume, or VOLUME@SNAPSHOT; with --salvage save only these.
    #[arg(long, value_name = "NAME")]
    volume: Vec<String>,
    /// Read and verify everything.
    #[arg(long, conflicts_with_all = ["volume", "salvage"])]
    deep: bool,
    /// Write images of volumes to this directory.
    #[arg(long, value_name = "DIR")]
    salvage: Option<PathBuf>,
    /// With --salvage: snapshots too, as DIR/VOLUME@SNAPSHOT.img.
    #[arg(long, requires = "salvage")]
    snapshots: bool,
}

/// What is printed without --salvage.
#[derive(Serialize)]
struct Found {
    #[serde(flatten)]
    report: Report,
    /// Images read because of --volume.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    verified: Vec<ImageCheck>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deep: Option<DeepReport>,
}

impl Found {
    /// Whether nothing that was read is damaged or gone.
    fn is_whole(&self) -> bool {
        let is_deep_whole = self.deep.as_ref().is_none_or(DeepReport::is_whole);
        let is_read_whole = self.verified.iter().all(|image| image.gone_bytes == 0);
        self.report.damage.is_empty() && is_read_whole && is_deep_whole
    }
}

/// What an array frees and uses anew while it is read looks damaged: so often a pool that is served is read
/// before that is said. Arbitrary.
const SERVED_TRIES: u32 = 10;

/// What salvage leaves beside the images.
const REPORT_FILE: &str = "report.json";

impl Inspect {
    pub fn run(self, context: &Context) -> Result<()> {
        match &self.salvage {
            Some(directory) => self.salvage(context, &Pool::open(&self.paths)?, &parse::absolute(directory)?),
            None => self.inspect(context),
        }
    }

    fn find(&self, pool: &Pool) -> Result<Found> {
        let mut verified = Vec::new();
        for name in &self.volume {
            verified.push(pool.verify(name)?);
        }
        let deep = self.deep.then(|| pool.check_deep());
        Ok(Found { report: pool.report(), verified, deep })
    }

    fn inspect(&self, context: &Context) -> Result<()> {
        let mut pool = Pool::open(&self.paths)?;
        let mut found = self.find(&pool)?;
        for _ in 1..SERVED_TRIES {
            if found.is_whole() || !pool.is_served() {
                break;
            }
            pool = Pool::open(&self.paths)?;
            found = self.find(&pool)?;
        }
        context.output.print(&found, text::found)?;
        let (name, redundancy) = (&found.report.pool.name, &found.report.redundancy);
        if found.is_whole() && redundancy.is_full() {
            return Ok(());
        }
        if found.is_whole() {
            let (left, promised) = (redundancy.drives_left, redundancy.drives_promised);
            return Err(Failure::Finding(format!(
                "pool `{name}` is whole, but {left} more of its drives may fail, not {promised}: see above; \
                 bring the drives back, replace them or rebuild them"
            )));
        }
        Err(Failure::Part(format!(
            "pool `{name}` is damaged: see above; `ashlar inspect ... --salvage DIR` saves what is left"
        )))
    }

    fn salvage(&self, context: &Context, pool: &Pool, directory: &Path) -> Result<()> {
        let options = SalvageOptions { names: self.volume.clone(), with_snapshots: self.snapshots };
        let report = pool.salvage(directory, &options)?;
        write_report(directory, &report)?;
        context.output.print(&report, text::salvaged)?;
        let (name, shown) = (&report.pool, directory.join(REPORT_FILE));
        match report.outcome {
            Outcome::Whole => Ok(()),
            Outcome::Part => Err(Failure::Part(format!(
                "pool `{name}` was saved in part: {} names what is gone",
                shown.display()
            ))),
            Outcome::Nothing => Err(Failure::new(format!(
                "nothing of pool `{name}` could be saved: name more of its drives ({} says why)",
                shown.display()
            ))),
        }
    }
}

fn write_report(directory: &Path, report: &SalvageReport) -> Result<()> {
    let path = directory.join(REPORT_FILE);
    let json = serde_json::to_string_pretty(report).expect("results are plain data");
    std::fs::write(&path, json + "\n")
        .map_err(|error| Failure::new(format!("write {}: {error}", path.display())))
}
