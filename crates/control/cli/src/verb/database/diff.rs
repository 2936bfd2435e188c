//! `ashlar database diff`: what differs between two databases, by relation.

use ashlar_api::{DIFF_COPIES, DatabaseDiff, DatabaseDiffRequest, RelationChange, RelationDiff};

use super::import::watched;
use crate::Context;
use crate::failure::Result;
use crate::output::{size, table};

/// Name the tables and indexes that differ between two databases, or snapshots of them.
///
/// Both are cloned, and the clones' servers replay their logs: what is compared is what each would go on
/// with. Pages are read only where the volumes' maps differ. The clones are removed again.
///
/// A page differs when a byte of it does. So a table that was only read may differ in a few pages, by what
/// PostgreSQL notes in rows that it looked at. Temporary files and settings are left out. Ctrl-C ends it.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar database diff prod dev\n  \
        ashlar database diff prod@before-upgrade prod --json | jq -r '.relations[].name'")]
pub struct Diff {
    /// The database as it is, or one of its snapshots, or the newest at a time: prod@-1h.
    #[arg(value_name = "NAME[@SNAPSHOT|TIME]")]
    a: String,
    /// The same of another database of the pool, or of the same one.
    #[arg(value_name = "NAME[@SNAPSHOT|TIME]")]
    b: String,
    /// List PostgreSQL's own catalogues one by one, too.
    #[arg(long)]
    system: bool,
}

impl Diff {
    pub fn run(self, context: &Context) -> Result<()> {
        let (name, snapshot) = split(self.a);
        let (with, with_snapshot) = split(self.b);
        let request = DatabaseDiffRequest { snapshot, with, with_snapshot };
        let copy = format!("{name}{}", DIFF_COPIES[0]);
        let diff = watched(context, &copy, |client| client.database_diff(&name, &request))?;
        Ok(context.output.print(&diff, |diff| text(diff, self.system))?)
    }
}

fn split(name: String) -> (String, Option<String>) {
    match name.split_once('@') {
        Some((name, snapshot)) => (name.to_string(), Some(snapshot.to_string())),
        None => (name, None),
    }
}

fn text(diff: &DatabaseDiff, has_system: bool) -> String {
    let row = |what: String, kind: &str, change: &str, pages: u64, bytes: u64| {
        vec![what, kind.to_string(), change.to_string(), pages.to_string(), size(bytes)]
    };
    let is_shown = |one: &&RelationDiff| has_system || !one.is_system;
    let mut rows: Vec<Vec<String>> = diff
        .relations
        .iter()
        .filter(is_shown)
        .map(|one| {
            let bytes = one.different_bytes;
            row(name(one), &one.kind, change(diff, one.change).as_str(), one.different_pages_count, bytes)
        })
        .collect();
    let system: Vec<&RelationDiff> =
        diff.relations.iter().filter(|one| one.is_system && !has_system).collect();
    if !system.is_empty() {
        let what = format!("{} of PostgreSQL's catalogues", system.len());
        let pages = system.iter().map(|one| one.different_pages_count).sum();
        let bytes = system.iter().map(|one| one.different_bytes).sum();
        rows.push(row(what, "system", "changed", pages, bytes));
    }
    for files in &diff.files {
        let kind = if files.name == "pg_wal" { "log" } else { "files" };
        rows.push(row(
            files.name.clone(),
            kind,
            "changed",
            files.different_pages_count,
            files.different_bytes,
        ));
    }
    if rows.is_empty() {
        return format!("{} and {} are equal, page by page\n", diff.a, diff.b);
    }
    table(&["NAME", "KIND", "CHANGE", "PAGES", "BYTES"], &[3, 4], &rows)
}

/// `postgres: public.orders_pkey (of public.orders)`.
fn name(one: &RelationDiff) -> String {
    let database = one.database.as_ref().map_or(String::new(), |database| format!("{database}: "));
    let of = one.of.as_ref().map_or(String::new(), |of| format!(" (of {of})"));
    format!("{database}{}{of}", one.name)
}

fn change(diff: &DatabaseDiff, change: RelationChange) -> String {
    match change {
        RelationChange::Changed => "changed".to_string(),
        RelationChange::Rewritten => "rewritten".to_string(),
        RelationChange::OnlyInA => format!("only in {}", diff.a),
        RelationChange::OnlyInB => format!("only in {}", diff.b),
    }
}
