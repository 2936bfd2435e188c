//! `ashlar job`: long work, how far it is, and ending it.

use ashlar_api::{Job as View, JobState, ProgressUnit};
use clap::Subcommand;

use crate::Context;
use crate::failure::Result;
use crate::output::{fields, size, table, utc};

/// Show long work that is under way: checks, scrubs, rebuilds, imports and proofs; end one.
///
/// A command that takes long is one of these, and goes on when the command that began it is ended. The array
/// remembers the newest 256 of its present start.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar job list")]
pub struct Job {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List the jobs, the newest last.
    #[command(visible_alias = "ls", after_help = "Example:\n  ashlar job list --json")]
    List,
    /// Show a job: how far it is, and what it found or made.
    #[command(after_help = "Example:\n  ashlar job show 5f0c2a91-7 --json")]
    Show {
        /// Id of the job, as the list has it.
        id: String,
    },
    /// End a job that runs: a scrub, a check, or an import with all that it made. Forget one that has come to
    /// its end.
    #[command(after_help = "Example:\n  ashlar job cancel 5f0c2a91-7")]
    Cancel {
        /// Id of the job, as the list has it.
        id: String,
    },
}

impl Job {
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        match self.verb {
            Verb::List => Ok(context.output.print(&client.jobs()?, |jobs| list(jobs))?),
            Verb::Show { id } => Ok(context.output.print(&client.job(&id)?, show)?),
            Verb::Cancel { id } => Ok(context.output.print(&client.job_cancel(&id)?, show)?),
        }
    }
}

fn list(jobs: &[View]) -> String {
    let row = |job: &View| {
        vec![
            job.id.clone(),
            job.kind.name().to_string(),
            job.object.name.clone(),
            job.state.name().to_string(),
            utc(job.started_unix_millis / 1000),
            progress(job).unwrap_or_else(|| "-".to_string()),
        ]
    };
    let rows: Vec<Vec<String>> = jobs.iter().map(row).collect();
    table(&["ID", "KIND", "OF", "STATE", "STARTED", "PROGRESS"], &[], &rows)
}

fn show(job: &View) -> String {
    let mut pairs = vec![
        ("job", job.id.clone()),
        ("kind", job.kind.name().to_string()),
        ("of", job.object.name.clone()),
        ("state", job.state.name().to_string()),
        ("started", utc(job.started_unix_millis / 1000)),
    ];
    pairs.extend(job.ended_unix_millis.map(|millis| ("ended", utc(millis / 1000))));
    pairs.extend(progress(job).map(|progress| ("progress", progress)));
    pairs.extend(found(job).map(|found| ("found", found)));
    pairs.extend(job.problem.as_ref().map(|problem| ("why", problem.detail.clone())));
    fields(&pairs)
}

/// How far it is.
fn progress(job: &View) -> Option<String> {
    let now = job.progress.as_ref()?;
    let (done, total) = (now.done_count, now.total_count);
    let count = |count: u64| match now.unit {
        ProgressUnit::Bytes => size(count),
        ProgressUnit::Segments => format!("{count} segments"),
    };
    Some(match total {
        0 => now.stage.clone(),
        _ => format!("{}, {} % of {}", now.stage, done.saturating_mul(100) / total, count(total)),
    })
}

/// What it found or made, in a line; `--json` has all of it.
fn found(job: &View) -> Option<String> {
    if job.state != JobState::Done {
        return None;
    }
    let result = job.result.as_ref()?;
    let damaged = |errors: &[String]| match errors {
        [] => "all is well".to_string(),
        [first, ..] => format!("{} damaged places, the first: {first}", errors.len()),
    };
    let of_check = result.check.as_ref().map(|report| damaged(&report.errors));
    let of_scrub = result.scrub.as_ref().map(|report| damaged(&report.check.errors));
    let of_proof = result.proof.as_ref().map(|proof| match proof.findings.first() {
        None => format!("{} is proven", proof.snapshot),
        Some(first) => format!("{} is not proven: {first}", proof.snapshot),
    });
    let of_import = result.database.as_ref().map(|database| format!("database {}", database.name));
    of_check.or(of_scrub).or(of_proof).or(of_import)
}
