//! `ashlar audit`: who changed what.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ashlar_api::{AuditEntry, AuditQuery, Order};

use crate::Context;
use crate::failure::Result;
use crate::output::{table, utc};
use crate::parse;

/// Show who changed what, and who was not let in, the newest last.
///
/// Every request that could change something is written down with who asked, from where, and how it ended;
/// what requests hold is not, so no secret is in it. The record is in audit.log of the state directory.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar audit --since 24h\n  ashlar audit --who \"user ada\" --refused")]
pub struct Audit {
    /// Only what this one did, as in "user ada", "token backup" or "uid 0".
    #[arg(long)]
    who: Option<String>,
    /// Only entries that are no older than this, e.g. 90m, 24h or 7d.
    #[arg(long, value_name = "TIME", value_parser = parse::days)]
    since: Option<Duration>,
    /// Only what was refused or failed.
    #[arg(long)]
    refused: bool,
    /// So many of the newest at most.
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,
}

impl Audit {
    pub fn run(self, context: &Context) -> Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let query = AuditQuery {
            limit: Some(self.limit),
            order: Some(Order::Descending),
            who: self.who,
            since_unix_millis: self.since.map(|since| now.saturating_sub(since).as_millis() as u64),
            is_refused: self.refused.then_some(true),
            ..AuditQuery::default()
        };
        let mut entries = context.client()?.audit_page(&query)?.items;
        entries.reverse();
        Ok(context.output.print(&entries, |entries| list(entries))?)
    }
}

fn list(entries: &[AuditEntry]) -> String {
    let row = |entry: &AuditEntry| {
        let object = entry.object.as_ref();
        let left_out = match entry.left_out_count {
            0 => String::new(),
            count => format!("; {count} more were refused before it"),
        };
        vec![
            utc(entry.unix_millis / 1000),
            entry.who.clone(),
            entry.address.clone().unwrap_or_else(|| "socket".to_string()),
            entry.status.to_string(),
            format!("{} {}", entry.method, entry.path),
            object.map_or_else(String::new, |object| format!("{} {}", object.kind.word(), object.name)),
            format!("{}{left_out}", entry.reason.clone().unwrap_or_default()),
        ]
    };
    let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
    table(&["TIME", "WHO", "FROM", "STATUS", "REQUEST", "ABOUT", "WHY"], &[3], &rows)
}
