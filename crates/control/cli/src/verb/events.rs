//! `ashlar events`: what changed and what went wrong.

use std::io::Write;
use std::time::Duration;

use ashlar_api::{ErrorKind, Event, EventLevel};
use ashlar_client::{Client, Live, Message};

use crate::Context;
use crate::failure::Result;
use crate::output::{Output, utc};

/// Show what changed and what went wrong since the array started, newest last.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar events --follow")]
pub struct Events {
    /// Go on with new events until Ctrl-C, also when the array starts anew; with --json one object a line.
    #[arg(long, short)]
    follow: bool,
}

/// Of no life of an array: whoever names it hears all events.
const FROM_THE_BEGINNING: &str = "none:0";
/// How often a follower looks for an array that does not answer. Arbitrary.
const RETRY: Duration = Duration::from_secs(1);

impl Events {
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        if !self.follow {
            let events = client.events(0)?;
            return Ok(context.output.print(&events, |events| events.iter().map(line).collect())?);
        }
        let mut last = FROM_THE_BEGINNING.to_string();
        let mut live = client.live(Some(&last))?;
        loop {
            follow(&mut live, &mut last, context.output)?;
            crate::stderr::line("the array does not answer: waiting for it");
            live = wait_for_array(&client, &last)?;
        }
    }
}

fn wait_for_array<'a>(client: &'a Client, last: &str) -> Result<Live<'a>> {
    loop {
        std::thread::sleep(RETRY);
        match client.live(Some(last)) {
            Err(error) if error.kind == ErrorKind::Closed => {}
            other => return Ok(other?),
        }
    }
}

/// Prints events until the array ends the stream, or is gone.
fn follow(live: &mut Live<'_>, last: &mut String, output: Output) -> Result<()> {
    loop {
        let message = match live.next() {
            Ok(Some(message)) => message,
            Err(error) if error.kind != ErrorKind::Closed => return Err(error.into()),
            Ok(None) | Err(_) => return Ok(()),
        };
        let Message::Event { id, event } = message else { continue };
        *last = id;
        let mut out = std::io::stdout().lock();
        if output.is_json() {
            let json = serde_json::to_string(&event).expect("events are plain data");
            writeln!(out, "{json}")?;
        } else {
            out.write_all(line(&event).as_bytes())?;
        }
        out.flush()?;
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
