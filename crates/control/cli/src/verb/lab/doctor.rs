//! `ashlar lab doctor`: what a database may expect of a place.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ashlar_doctor::{Examination, Grade, Length, Settings, examine};
use ashlar_programs::Launcher;
use ashlar_units::ByteCount;

use crate::Context;
use crate::failure::{Failure, Result};
use crate::{parse, stderr};

/// Tell what a database may expect of a directory or a device, in ten minutes.
///
/// How long a commit waits, also while a checkpoint writes; whether fsync reaches the drive; how much can be
/// asked before answers take long; whether what was written comes back. It works in a directory of its own,
/// which it removes, and takes a quarter of the free space, 8 GiB at most. Needs fio.
///
/// Exit status: 0 nothing is bad, 4 something is, 3 it was interrupted, 2 it could not begin.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar lab doctor --target /var/lib/postgresql --output doctor\n  \
    ashlar lab doctor --target block:/dev/sdx --destroy --time 1m")]
pub struct Doctor {
    /// A directory, a device as block:/dev/NAME, or a volume of a pool as ashlar:POOL or ashlar:POOL/VOLUME.
    #[arg(long, value_name = "TARGET")]
    target: String,
    /// How long it takes, about: in less than ten minutes rare delays are not met.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = length)]
    time: Length,
    /// Space to use [default: a quarter of what is free, at most 8 GiB for ten minutes].
    #[arg(long, value_name = "SIZE", value_parser = parse::bytes)]
    size: Option<ByteCount>,
    /// Overwrite the device, or the volume that exists: everything on it is lost.
    #[arg(long)]
    destroy: bool,
    /// Keep a page (report.html), the figures (result.json), and fio's jobs and output in this new directory.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

impl Doctor {
    pub fn run(self, context: &Context) -> Result<()> {
        // fio works in it: a relative path would be looked for there.
        let directory = match &self.output {
            Some(named) => parse::absolute(named)?,
            None => std::env::temp_dir().join(format!("ashlar-lab-{}", std::process::id())),
        };
        // One of its own: results are never mixed.
        std::fs::create_dir(&directory).map_err(|error| unable(&directory, &error))?;
        let result = self.examine_into(context, &directory);
        if self.output.is_none() || result.is_err() {
            let _gone = std::fs::remove_dir_all(&directory);
        }
        let examination = result?;
        context.output.print(&examination, Examination::text)?;
        if let Some(why) = &examination.ended_early {
            return Err(Failure::Part(format!("{}: ended early: {why}", examination.target)));
        }
        match examination.findings.iter().find(|finding| finding.grade == Grade::Bad) {
            Some(bad) => {
                Err(Failure::Finding(format!("{}: {} {}", examination.target, bad.question, bad.value)))
            }
            None => Ok(()),
        }
    }

    fn examine_into(&self, context: &Context, directory: &Path) -> Result<Examination> {
        let records = directory.join("fio");
        std::fs::create_dir(&records).map_err(|error| unable(&records, &error))?;
        let examination = self.examine(context, &records)?;
        if self.output.is_some() {
            keep(directory, &examination)?;
        }
        Ok(examination)
    }

    fn examine(&self, context: &Context, records: &Path) -> Result<Examination> {
        let signals = ashlar_programs::heed_signals()?;
        let launcher = Arc::new(Launcher::new(records.to_path_buf(), records.to_path_buf(), signals));
        let settings = Settings {
            target: self.target.clone(),
            access: super::access(context, self.destroy, std::iter::once(&self.target))?,
            length: self.time,
            size_bytes: self.size.map(|size| size.0),
            records: records.to_path_buf(),
        };
        Ok(examine(&settings, &launcher, &mut |progress| stderr::line(format_args!("{}", progress.line())))?)
    }
}

fn keep(directory: &Path, examination: &Examination) -> Result<()> {
    let json = serde_json::to_string_pretty(examination).expect("results are plain data");
    for (name, text) in
        [("report.html", examination.html()), ("result.json", json), ("summary.txt", examination.text())]
    {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(|error| unable(&path, &error))?;
    }
    stderr::line(format_args!("kept in {}", directory.display()));
    Ok(())
}

fn length(text: &str) -> std::result::Result<Length, String> {
    Length::about(parse::duration(text)?).ok_or_else(|| "give a time from 10s to 24h".to_string())
}

fn unable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Unable(format!("{}: {error}", path.display()))
}
