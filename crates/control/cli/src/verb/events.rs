//! `ashlar events`: what changed and what went wrong.

use std::io::Write;
use std::time::Duration;

use ashlar_api::{Event, EventLevel};

use crate::Context;
use crate::failure::Result;
use crate::output::utc;

/// Show what changed and what went wrong since the array started, newest last.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar events --follow")]
pub struct Events {
    /// Go on with new events until Ctrl-C; with --json one object a line.
    #[arg(long, short)]
    follow: bool,
}

/// How often a follower asks. Arbitrary: quick for a person, nothing for the array.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(500);

impl Events {
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        if !self.follow {
            let events = client.events(0)?;
            return Ok(context.output.print(&events, |events| events.iter().map(line).collect())?);
        }
        let mut after = 0;
        loop {
            let events = client.events(after)?;
            let mut out = std::io::stdout().lock();
            for event in &events {
                after = event.sequence;
                if context.output.is_json() {
                    let json = serde_json::to_string(event).expect("events are plain data");
                    writeln!(out, "{json}")?;
                } else {
                    out.write_all(line(event).as_bytes())?;
                }
            }
            out.flush()?;
            drop(out);
            std::thread::sleep(FOLLOW_INTERVAL);
        }
    }
}

fn line(event: &Event) -> String {
    let level = match event.level {
        EventLevel::Info => "info",
        EventLevel::Warning => "warning",
        EventLevel::Error => "error",
    };
    format!("{}  {level:<7}  {}: {}\n", utc(event.unix_millis / 1000), event.object, event.message)
}
