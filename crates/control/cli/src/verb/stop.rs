//! `ashlar stop`: the end of the array, in order.

use std::time::{Duration, Instant};

use ashlar_api::StopRequest;

use crate::Context;
use crate::ask::confirm;
use crate::failure::{Failure, Result};

/// An array takes at most so long, however much hangs (TimeoutStopSec of the unit).
const END_MAX: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(20);

/// Stop the array in order, as SIGTERM does; returns when it has ended.
///
/// What is attached stays: its requests wait for the next array, `attach_wait_seconds` of the settings at
/// most. With --detach everything is unmounted and detached first, and is attached again at the next start.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar stop --detach")]
pub struct Stop {
    /// Unmount and detach every volume first; refused, with nothing changed, while one is in use.
    #[arg(long)]
    detach: bool,
    /// Take volumes out of sight although they are in use.
    #[arg(long, requires = "detach")]
    force: bool,
    /// Do not ask, where --force makes it necessary.
    #[arg(long)]
    yes: bool,
}

impl Stop {
    pub fn run(self, context: &Context) -> Result<()> {
        if self.force {
            confirm(self.yes, "detach volumes under their users? They may lose what they write.")?;
        }
        let client = context.client()?;
        let before = client.status()?;
        client.stop(StopRequest { detach: self.detach, force: self.force })?;
        let end = Instant::now() + END_MAX;
        // Gone, or another one at the same place.
        while client.status().is_ok_and(|now| now.started_unix_millis == before.started_unix_millis)
            || is_running(before.process_id)
        {
            if Instant::now() >= end {
                let (process, seconds) = (before.process_id, END_MAX.as_secs());
                return Err(Failure::new(format!(
                    "the array (process {process}) still stops after {seconds} s: its log says what it waits for"
                )));
            }
            std::thread::sleep(POLL);
        }
        Ok(context.output.done("stopped array", &before.state_directory)?)
    }
}

/// Whether a process of this machine is there and no zombie.
fn is_running(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}
