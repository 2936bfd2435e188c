//! `ashlar lab run ashlar/selftest`: the lab held against disks that lie.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ashlar_programs::Launcher;
use ashlar_selftest::{Answer, Selftest, Settings};

use crate::Context;
use crate::failure::{Failure, Result};
use crate::stderr;

/// Where it works when nobody names a directory.
const DIRECTORY_DEFAULT: &str = "/var/tmp";

pub(super) fn run(context: &Context, target: Option<String>, output: &Path) -> Result<()> {
    let output = crate::parse::absolute(output)?;
    let unmade = |at: &Path, error: std::io::Error| Failure::Unable(format!("{}: {error}", at.display()));
    fs::create_dir(&output).map_err(|error| unmade(&output, error))?;
    let below = PathBuf::from(target.unwrap_or_else(|| DIRECTORY_DEFAULT.to_string()));
    let own = below.join(format!("{}{}-selftest", ashlar_target::OWN_PREFIX, std::process::id()));
    fs::create_dir(&own).map_err(|error| unmade(&own, error))?;
    let records = output.join("fio");
    fs::create_dir(&records).map_err(|error| unmade(&records, error))?;
    let signals = ashlar_programs::heed_signals()?;
    let launcher = Arc::new(Launcher::new(output.clone(), output.clone(), signals));
    let settings = Settings { directory: own.clone(), records };
    let found = ashlar_selftest::selftest(&settings, &launcher, &mut |name| stderr::line(name.to_string()));
    let _stays = fs::remove_dir_all(&own);
    let found = found?;
    let json = serde_json::to_string_pretty(&found).unwrap_or_default();
    for (name, text) in [("result.json", json), ("report.html", found.html()), ("junit.xml", found.junit())] {
        let at = output.join(name);
        fs::write(&at, text).map_err(|error| unmade(&at, error))?;
    }
    context.output.print(&found, Selftest::text)?;
    match found.answer() {
        Answer::Passed => Ok(()),
        Answer::Failed => Err(Failure::Finding(found.headline())),
        Answer::CannotTell => Err(Failure::Part(found.headline())),
    }
}
