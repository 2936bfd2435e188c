//! `ashlar events`: what changed and what went wrong.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ashlar_api::{ErrorKind, Event, EventLevel, EventsQuery};
use ashlar_client::{Client, Live, Message};

use crate::Context;
use crate::failure::Result;
use crate::output::{Output, utc};
use crate::parse;

/// Show what changed and what went wrong since the array started, newest last.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar events --follow\n  ashlar events --level warning --since 24h")]
pub struct Events {
    /// Go on with new events until Ctrl-C, also when the array starts anew; with --json one object a line.
    #[arg(long, short)]
    follow: bool,
    /// Only events of this level or a worse one: info, warning or error.
    #[arg(long, value_parser = level)]
    level: Option<EventLevel>,
    /// Only events about this object, as in "volume db", or about objects of this kind, as in volume.
    #[arg(long)]
    object: Option<String>,
    /// Only events that are no older than this.
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    since: Option<Duration>,
}

fn level(text: &str) -> std::result::Result<EventLevel, String> {
    let all = [EventLevel::Info, EventLevel::Warning, EventLevel::Error];
    let found = all.into_iter().find(|level| word(*level) == text);
    found.ok_or_else(|| "say info, warning or error".to_string())
}

/// Of no life of an array: whoever names it hears all events.
const FROM_THE_BEGINNING: &str = "none:0";
/// How often a follower looks for an array that does not answer. Arbitrary.
const RETRY: Duration = Duration::from_secs(1);

impl Events {
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        let query = self.query();
        if !self.follow {
            let events = client.events_page(&query)?.items;
            return Ok(context.output.print(&events, |events| events.iter().map(line).collect())?);
        }
        let mut last = FROM_THE_BEGINNING.to_string();
        let mut live = client.live(Some(&last))?;
        loop {
            follow(&mut live, &mut last, &query, context.output)?;
            crate::stderr::line("the array does not answer: waiting for it");
            live = wait_for_array(&client, &last)?;
        }
    }
}

impl Events {
    fn query(&self) -> EventsQuery {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since = self.since.map(|since| now.saturating_sub(since).as_millis() as u64);
        EventsQuery {
            level: self.level,
            object: self.object.clone(),
            since_unix_millis: since,
            ..EventsQuery::default()
        }
    }
}

/// Whether an event is asked for: the array tells a follower of all.
fn is_asked_for(event: &Event, query: &EventsQuery) -> bool {
    let is_about = |wanted: &String| {
        let rest = event.object.strip_prefix(wanted.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    query.level.is_none_or(|level| event.level >= level)
        && query.object.as_ref().is_none_or(is_about)
        && query.since_unix_millis.is_none_or(|since| event.unix_millis >= since)
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
fn follow(live: &mut Live<'_>, last: &mut String, query: &EventsQuery, output: Output) -> Result<()> {
    loop {
        let message = match live.next() {
            Ok(Some(message)) => message,
            Err(error) if error.kind != ErrorKind::Closed => return Err(error.into()),
            Ok(None) | Err(_) => return Ok(()),
        };
        let Message::Event { id, event } = message else { continue };
        *last = id;
        if !is_asked_for(&event, query) {
            continue;
        }
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

fn word(level: EventLevel) -> &'static str {
    match level {
        EventLevel::Info => "info",
        EventLevel::Warning => "warning",
        EventLevel::Error => "error",
    }
}

fn line(event: &Event) -> String {
    let level = word(event.level);
    format!("{}  {level:<7}  {}: {}\n", utc(event.unix_millis / 1000), event.object, event.message)
}
