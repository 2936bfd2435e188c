//! `ashlar database`: database servers by name, and clones of them.

use ashlar_api::{
    Database as Shown, DatabaseClone, DatabaseCreate, DatabaseDeletion, DatabaseExpiry, DatabaseProof,
    DatabaseReady, DatabaseReset, DatabaseRestore, DatabaseSnapshot, DatabaseState, DatabaseVerify,
};
use clap::Subcommand;

use crate::Context;
use crate::ask::confirm;
use crate::failure::{Failure, Result};
use crate::output::{fields, table, utc};
use crate::parse;

/// Databases by name: made, cloned in seconds, reset, restored. Their servers are PostgreSQL.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar database create prod --size 64GiB\n  \
        ashlar database clone prod dev\n  psql \"$(ashlar database url dev)\"\n  \
        ashlar database reset dev --latest")]
pub struct Database {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make an empty database and start its server.
    #[command(
        disable_version_flag = true,
        after_help = "Example:\n  ashlar database create prod --size 64GiB\n  \
            ashlar database create prod --size 64GiB --log-size 16GiB --port 5440 --version 15"
    )]
    Create {
        /// Name of the database; its volumes are called NAME-data and NAME-log.
        name: String,
        /// Size of the volume for data, which is thin.
        #[arg(long, value_name = "SIZE", value_parser = parse::size, default_value = "64GiB")]
        size: u64,
        /// Put the write-ahead log on a volume of its own, of this size.
        #[arg(long, value_name = "SIZE", value_parser = parse::size)]
        log_size: Option<u64>,
        /// The pool; may be left out when there is one.
        #[arg(long)]
        pool: Option<String>,
        /// Where its server listens, on 127.0.0.1 [default: the first free one from 5433 on].
        #[arg(long)]
        port: Option<u16>,
        /// Major version of PostgreSQL [default: the newest that is installed].
        #[arg(long = "version", value_name = "MAJOR")]
        major: Option<u32>,
    },
    /// All databases.
    #[command(after_help = "Example:\n  ashlar database list --json")]
    List,
    /// One database with its volumes.
    #[command(after_help = "Example:\n  ashlar database show prod")]
    Show {
        /// Name of the database.
        name: String,
    },
    /// Print where a database is found, with the password of its superuser.
    #[command(after_help = "Example:\n  ashlar database url dev\n  psql \"$(ashlar database url dev)\"")]
    Url {
        /// Name of the database.
        name: String,
    },
    /// Start the server of a database; its volumes are mounted where they are not.
    #[command(after_help = "Example:\n  ashlar database start prod")]
    Start {
        /// Name of the database.
        name: String,
    },
    /// Stop the server of a database. It stays stopped until somebody starts it.
    #[command(after_help = "Example:\n  ashlar database stop prod")]
    Stop {
        /// Name of the database.
        name: String,
    },
    /// Take a snapshot of databases at one instant, without stopping them.
    #[command(after_help = "Example:\n  ashlar database snapshot prod before-upgrade\n  \
            ashlar database snapshot orders,billing month-end")]
    Snapshot {
        /// Databases of one pool.
        #[arg(value_name = "NAME[,NAME...]")]
        databases: String,
        /// Name of the snapshot [default: the first database's name and the time].
        snapshot: Option<String>,
    },
    /// Make a database of the content of another, at no space, and start its server.
    ///
    /// A time is 13:05:07 (today or, when that is still to come, yesterday), 2026-11-28T13:05:07Z or -10s, in
    /// UTC by the clock of the array's machine. It means the newest snapshot of that second or before.
    #[command(after_help = "Example:\n  ashlar database clone prod dev\n  \
            ashlar database clone prod audit --at before-upgrade --port 5500\n  \
            ashlar database clone prod undo --at 13:05:07\n  \
            ashlar database clone prod undo --at -10s --expire 8h")]
    Clone {
        /// Name of the database that is cloned.
        name: String,
        /// Name of the clone.
        clone: String,
        /// As it was in this snapshot, or at this time [default: as it is now].
        #[arg(long, value_name = "SNAPSHOT|TIME", allow_hyphen_values = true)]
        at: Option<String>,
        /// Delete the clone after so long; an event tells of it before.
        #[arg(long, value_name = "TIME", value_parser = ashlar_schedule::term)]
        expire: Option<u64>,
        /// Where the clone's server listens, on 127.0.0.1 [default: the first free one from 5433 on].
        #[arg(long)]
        port: Option<u16>,
    },
    /// Give a clone the content of its origin anew: what it holds is lost. Its name and port stay.
    #[command(
        after_help = "Example:\n  ashlar database reset dev\n  ashlar database reset dev --latest --yes"
    )]
    Reset {
        /// Name of the clone.
        name: String,
        /// As its origin was in this snapshot, or at this time [default: the one that the clone was last made
        /// from].
        #[arg(long, value_name = "SNAPSHOT|TIME", conflicts_with = "latest", allow_hyphen_values = true)]
        to: Option<String>,
        /// As its origin is now.
        #[arg(long)]
        latest: bool,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Set a database back to a snapshot of its volumes. What it was before is kept in another snapshot.
    #[command(after_help = "Example:\n  ashlar database restore prod --to before-upgrade")]
    Restore {
        /// Name of the database.
        name: String,
        /// The snapshot, or a time: the newest snapshot of that second or before.
        #[arg(long, value_name = "SNAPSHOT|TIME", allow_hyphen_values = true)]
        to: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Prove that a snapshot recovers: a server starts on a clone of it, and everything in it is checked.
    ///
    /// The clone is removed again. Ends with status 4 when something is wrong.
    #[command(
        after_help = "Example:\n  ashlar database verify prod\n  ashlar database verify prod@before-upgrade"
    )]
    Verify {
        /// The database as it is, or one of its snapshots, or the newest at a time: prod@-1h.
        #[arg(value_name = "NAME[@SNAPSHOT|TIME]")]
        name: String,
    },
    /// Set when a clone is deleted, or that it never is.
    ///
    /// An event tells of it an hour before, or a tenth of the time if that is less.
    #[command(
        after_help = "Example:\n  ashlar database expire dev --after 8h\n  ashlar database expire dev --never"
    )]
    Expire {
        /// Name of the clone.
        name: String,
        /// So long from now.
        #[arg(long, value_name = "TIME", value_parser = ashlar_schedule::term)]
        #[arg(required_unless_present = "never", conflicts_with = "never")]
        after: Option<u64>,
        /// Keep it.
        #[arg(long)]
        never: bool,
    },
    /// Stop a database and delete it with its volumes. Clones of it stay.
    #[command(after_help = "Example:\n  ashlar database delete dev --yes")]
    Delete {
        /// Name of the database.
        name: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
}

impl Database {
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        match self.verb {
            Verb::Create { name, size, log_size, pool, port, major } => {
                let request = DatabaseCreate {
                    name,
                    size_bytes: size,
                    log_size_bytes: log_size,
                    pool,
                    port,
                    major_version: major,
                };
                ready(context, &client.database_create(&request)?)
            }
            Verb::List => Ok(context.output.print(&client.databases()?, |all| list(all))?),
            Verb::Show { name } => Ok(context.output.print(&client.database(&name)?, show)?),
            Verb::Url { name } => {
                Ok(context.output.print(&client.database_url(&name)?, |found| format!("{}\n", found.url))?)
            }
            Verb::Start { name } => ready(context, &client.database_start(&name)?),
            Verb::Stop { name } => Ok(context.output.print(&client.database_stop(&name)?, show)?),
            Verb::Snapshot { databases, snapshot } => {
                let databases: Vec<String> = databases.split(',').map(str::to_string).collect();
                let name = snapshot.unwrap_or_else(|| name_of_now(&databases[0]));
                let taken = client.database_snapshot(&DatabaseSnapshot { name, databases })?;
                Ok(context.output.print(&taken, |taken| {
                    format!("snapshot {} of {}\n", taken.name, taken.volumes.join(" "))
                })?)
            }
            Verb::Clone { name, clone, at, expire, port } => {
                let request =
                    DatabaseClone { name: clone, snapshot: at, port, expires_after_seconds: expire };
                ready(context, &client.database_clone(&name, &request)?)
            }
            Verb::Expire { name, after, never: _ } => {
                let request = DatabaseExpiry { expires_after_seconds: after };
                Ok(context.output.print(&client.database_expire(&name, &request)?, show)?)
            }
            Verb::Reset { name, to, latest, yes } => {
                confirm(yes, &format!("reset database `{name}`? What it holds is lost."))?;
                ready(context, &client.database_reset(&name, &DatabaseReset { snapshot: to, latest })?)
            }
            Verb::Restore { name, to, yes } => {
                let question = format!("stop database `{name}` and set it back to `{to}`?");
                confirm(yes, &question)?;
                ready(context, &client.database_restore(&name, &DatabaseRestore { snapshot: to })?)
            }
            Verb::Verify { name } => {
                let (name, snapshot) = match name.split_once('@') {
                    Some((name, snapshot)) => (name.to_string(), Some(snapshot.to_string())),
                    None => (name, None),
                };
                let proof = client.database_verify(&name, &DatabaseVerify { snapshot })?;
                context.output.print(&proof, proof_lines)?;
                match proof.findings.len() {
                    0 => Ok(()),
                    count => Err(Failure::Finding(format!(
                        "{} is not proven: {count} finding{}",
                        proof.snapshot,
                        if count == 1 { "" } else { "s" }
                    ))),
                }
            }
            Verb::Delete { name, yes } => {
                confirm(yes, &format!("stop database `{name}` and delete it with its volumes?"))?;
                let deleted = client.database_delete(&name)?;
                Ok(context.output.print(&deleted, deletion)?)
            }
        }
    }
}

fn ready(context: &Context, ready: &DatabaseReady) -> Result<()> {
    Ok(context.output.print(ready, |ready| {
        let DatabaseReady { database, url, took_millis, start_millis, restored, backup } = ready;
        let seconds = |millis: &u64| *millis as f64 / 1000.0;
        let (took, start) = (seconds(took_millis), seconds(start_millis));
        let mut text = format!(
            "{url}\n{} is ready after {took:.1} s, of which its server's start took {start:.1} s\n",
            database.name
        );
        if let Some(origin) = &database.origin {
            text.push_str(&format!("as {} was in snapshot {}\n", origin.database, origin.snapshot));
        }
        if let Some(expires) = database.expires_unix_seconds {
            text.push_str(&format!("it is deleted {}\n", utc(expires)));
        }
        if let Some(restored) = restored {
            text.push_str(&format!("it was set back to snapshot {restored}\n"));
        }
        if let Some(backup) = backup {
            text.push_str(&format!("what it was before is snapshot {backup}\n"));
        }
        text
    })?)
}

fn state(database: &Shown) -> &'static str {
    match database.state {
        DatabaseState::Making => "being made",
        DatabaseState::Busy => "busy",
        DatabaseState::Running => "running",
        DatabaseState::Stopped => "stopped",
        DatabaseState::Failed => "failed",
        DatabaseState::Resetting => "being reset",
        DatabaseState::Deleting => "being deleted",
    }
}

fn origin(database: &Shown) -> String {
    database
        .origin
        .as_ref()
        .map_or_else(|| "-".to_string(), |origin| format!("{}@{}", origin.database, origin.snapshot))
}

fn list(databases: &[Shown]) -> String {
    let row = |database: &Shown| {
        vec![
            database.name.clone(),
            database.pool.clone(),
            format!("{} {}", database.engine, database.major_version),
            state(database).to_string(),
            database.port.to_string(),
            origin(database),
            database.expires_unix_seconds.map_or("-".to_string(), utc),
        ]
    };
    let rows: Vec<Vec<String>> = databases.iter().map(row).collect();
    table(&["NAME", "POOL", "ENGINE", "STATE", "PORT", "ORIGIN", "EXPIRES"], &[4], &rows)
}

fn show(database: &Shown) -> String {
    let mut pairs = vec![
        ("name", database.name.clone()),
        ("pool", database.pool.clone()),
        ("engine", format!("{} {}", database.engine, database.major_version)),
        ("state", state(database).to_string()),
        ("port", database.port.to_string()),
        ("origin", origin(database)),
        ("created", utc(database.created_unix_seconds)),
    ];
    pairs.extend(database.expires_unix_seconds.map(|time| ("expires", utc(time))));
    pairs.extend(
        database
            .volumes
            .iter()
            .map(|one| (one.role.as_str(), format!("volume {} on {}", one.volume, one.mount))),
    );
    pairs.extend(database.proofs.iter().map(|proof| ("proof", proof_line(proof))));
    fields(&pairs)
}

fn proof_lines(proof: &DatabaseProof) -> String {
    let mut text = format!("{}\n", proof_line(proof));
    text.extend(proof.findings.iter().map(|finding| format!("  {finding}\n")));
    text.extend(proof.notes.iter().map(|note| format!("  note: {note}\n")));
    text
}

fn proof_line(proof: &DatabaseProof) -> String {
    let seconds = |millis: u64| millis as f64 / 1000.0;
    let verdict = if proof.findings.is_empty() { "proven" } else { "NOT proven" };
    format!(
        "{}: {verdict} {}, recovery {:.1} s, {} errors, took {:.1} s",
        proof.snapshot,
        utc(proof.proven_unix_seconds),
        seconds(proof.start_millis),
        proof.findings.len(),
        seconds(proof.took_millis)
    )
}

fn deletion(deleted: &DatabaseDeletion) -> String {
    let mut text = format!("deleted database {} with volumes {}\n", deleted.name, deleted.volumes.join(" "));
    if deleted.recoverable_seconds > 0 {
        let hours = deleted.recoverable_seconds / 3600;
        text.push_str(&format!("`ashlar volume undelete` brings the volumes back for {hours} hours\n"));
    }
    if !deleted.clones.is_empty() {
        text.push_str(&format!("its clones stay: {}\n", deleted.clones.join(" ")));
    }
    text
}

/// `prod-20261128T130507Z`.
fn name_of_now(database: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let digits: Vec<char> =
        utc(now.map_or(0, |since| since.as_secs())).chars().filter(char::is_ascii_digit).collect();
    let (day, time) = digits.split_at(digits.len().min(8));
    format!("{database}-{}T{}Z", day.iter().collect::<String>(), time.iter().collect::<String>())
}
