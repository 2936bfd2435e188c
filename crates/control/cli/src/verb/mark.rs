//! `ashlar mark`: moments on the time line, with words to them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ashlar_api::{Mark as Shown, MarkCreate, MarksQuery};
use clap::Subcommand;

use crate::Context;
use crate::failure::Result;
use crate::output::{table, utc};
use crate::parse;

/// Moments on the time line, which the console's charts show: what somebody did, and what happened by itself.
///
/// Besides those that people make, each snapshot, job, and event of level warning or error is a mark: the
/// newest 200 of each. The newest 500 that people made are kept, also over a restart.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar mark add \"version 4.2 goes live\" --database prod\n  \
        ashlar mark list --since 24h")]
pub struct Mark {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make a mark.
    #[command(after_help = "Example:\n  ashlar mark add \"version 4.2 goes live\" --database prod\n  \
        ashlar mark add \"cable changed\" --at 13:05")]
    Add {
        /// One line of at most 200 letters.
        text: String,
        /// It is about this volume. Without this and --database about the whole array.
        #[arg(long, conflicts_with = "database")]
        volume: Option<String>,
        /// It is about this database.
        #[arg(long)]
        database: Option<String>,
        /// When it was, in UTC: 13:05:07, 2026-11-28T13:05:07Z or -10m [default: now].
        #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
        at: Option<u64>,
    },
    /// The marks there are, the newest last.
    #[command(visible_alias = "ls", after_help = "Example:\n  ashlar mark list --since 24h --json")]
    List {
        /// Only marks that are no older than this.
        #[arg(long, value_name = "TIME", value_parser = parse::duration)]
        since: Option<Duration>,
    },
    /// Delete a mark that was made by hand.
    #[command(after_help = "Example:\n  ashlar mark delete 7")]
    Delete {
        /// Id of the mark, as the list has it.
        id: String,
    },
}

impl Mark {
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        match self.verb {
            Verb::Add { text, volume, database, at } => {
                let unix_millis = at.map(|seconds| seconds * 1000);
                let request = MarkCreate { text, volume, database, unix_millis };
                context.output.print(&client.mark_create(&request)?, |mark| format!("mark {}\n", mark.id))?;
            }
            Verb::List { since } => {
                let since_unix_millis = since.map(|since| now().saturating_sub(since).as_millis() as u64);
                let query = MarksQuery { since_unix_millis, ..MarksQuery::default() };
                context.output.print(&client.marks_page(&query)?.items, |all| list(all))?;
            }
            Verb::Delete { id } => {
                client.mark_delete(&id)?;
                context.output.done("deleted mark", &id)?;
            }
        }
        Ok(())
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn moment(text: &str) -> std::result::Result<u64, String> {
    let found = ashlar_schedule::moment(text, now().as_secs())?;
    found.ok_or_else(|| format!("`{text}` is no time: write 13:05:07, 2026-11-28T13:05:07Z or -10m, in UTC"))
}

fn list(marks: &[Shown]) -> String {
    let row = |mark: &Shown| {
        vec![
            utc(mark.unix_millis / 1000),
            mark.kind.name().to_string(),
            mark.object.clone().unwrap_or_else(|| "array".to_string()),
            mark.id.clone(),
            mark.text.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = marks.iter().map(row).collect();
    table(&["TIME", "KIND", "ABOUT", "ID", "TEXT"], &[], &rows)
}
