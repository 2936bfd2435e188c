//! `ashlar support-bundle`: what somebody needs to see who helps, in one file without secrets.

mod array;
mod bundle;
mod machine;
mod secrets;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use self::bundle::Bundle;
use self::secrets::Secrets;
use super::doctor;
use crate::Context;
use crate::failure::{Failure, Result};
use crate::output::{size, utc};

/// Write what helps to find a fault into one file: versions, settings, status, drives, events, metrics.
///
/// The file is a tar archive (`tar xzf FILE`). It also holds what `ashlar doctor` finds, the journal of the
/// units and lines of the kernel about drives and file systems. Tokens, passwords, keys and what databases
/// hold are left out. Names of volumes and databases, paths and host names are not: look through it before
/// you send it. Exit status 3 when the array does not answer: the file then holds what the machine tells.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar support-bundle\n  ashlar support-bundle /tmp/ashlar.tar.gz")]
pub struct SupportBundle {
    /// The file to make [default: ashlar-support-TIME.tar.gz here].
    file: Option<PathBuf>,
}

#[derive(Serialize)]
struct Made {
    file: String,
    bytes: u64,
    /// Files in it.
    contents: Vec<String>,
    /// What is not in it, and why.
    missing: Vec<String>,
}

impl SupportBundle {
    pub fn run(self, context: &Context) -> Result<()> {
        context.only_here("support-bundle")?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let path = self.file.unwrap_or_else(|| default_name(now));
        // Before anything is collected: it takes seconds, and in vain where the file cannot be made.
        let file = bundle::create(&path)?;
        let client = context.client();
        let settings = client.as_ref().ok().and_then(|client| client.settings().ok());
        let mut bundle = Bundle::new(Secrets::known(context, settings.as_ref()));
        bundle.json("about.json", &machine::about(context, now));
        bundle.json("doctor.json", &doctor::findings(context));
        machine::collect(context, &mut bundle);
        let answered = client.map_err(|failure| failure.to_string()).and_then(|client| {
            array::collect(&client, settings.as_ref(), &mut bundle).map_err(|error| error.to_string())
        });
        if let Err(why) = &answered {
            bundle.miss("array", why);
        }
        let bytes = bundle.write(file, now).map_err(|error| {
            // Half a bundle helps nobody.
            let _ = std::fs::remove_file(&path);
            Failure::new(format!("write {}: {error}: free space, or name another file", path.display()))
        })?;
        let made = Made {
            file: path.display().to_string(),
            bytes,
            contents: bundle.names(),
            missing: bundle.missing().to_vec(),
        };
        context.output.print(&made, text)?;
        match answered {
            Ok(()) => Ok(()),
            Err(why) => Err(Failure::Part(format!("the bundle holds nothing of the array: {why}"))),
        }
    }
}

fn default_name(now: u64) -> PathBuf {
    let digits: String = utc(now).chars().filter(char::is_ascii_digit).collect();
    Path::new(&format!("ashlar-support-{digits}.tar.gz")).to_path_buf()
}

fn text(made: &Made) -> String {
    let mut text = format!("{} ({}, {} files)\n", made.file, size(made.bytes), made.contents.len());
    for one in &made.missing {
        text += &format!("not in it: {one}\n");
    }
    text +=
        "no tokens, passwords or keys are in it; names and paths are: look through it before you send it\n";
    text
}
