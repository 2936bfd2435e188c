//! `ashlar database`: database servers by name, and clones of them.

mod care;
mod change;
mod import;

use ashlar_api::{
    Database as Shown, DatabaseClone, DatabaseCreate, DatabaseDeletion, DatabaseExpiry, DatabasePromotion,
    DatabaseProof, DatabaseReady, DatabaseReset, DatabaseRestore, DatabaseSnapshot, DatabaseStandby,
    DatabaseState, DatabaseTablespace, DatabaseVerify,
};
use ashlar_units::ByteCount;
use clap::Subcommand;

use crate::Context;
use crate::ask::confirm;
use crate::failure::{Failure, Result};
use crate::output::{fields, size as bytes, table, utc};
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
            ashlar database create prod --size 64GiB --log-size 16GiB --port 5440 --version 15\n  \
            ashlar database create prod --tablespace archive=1TiB --temp-size 32GiB"
    )]
    Create {
        /// Name of the database; its volumes are called NAME-data, NAME-log and so on.
        name: String,
        /// Size of the volume for data, which is thin.
        #[arg(long, value_name = "SIZE", value_parser = parse::size, default_value = "64GiB")]
        size: u64,
        /// Put the write-ahead log on a volume of its own, of this size.
        #[arg(long, value_name = "SIZE", value_parser = parse::size)]
        log_size: Option<u64>,
        /// Put temporary files of large sorts and joins on a volume of their own, of this size. Snapshots
        /// leave it out, and in a clone it is empty.
        #[arg(long, value_name = "SIZE", value_parser = parse::size)]
        temp_size: Option<u64>,
        /// Make a tablespace on a volume of its own; may be repeated.
        #[arg(long = "tablespace", value_name = "NAME=SIZE", value_parser = tablespace)]
        tablespaces: Vec<DatabaseTablespace>,
        /// The pool; may be left out when there is one.
        #[arg(long)]
        pool: Option<String>,
        /// Where its server listens, on 127.0.0.1 [default: the first free one from 5433 on].
        #[arg(long)]
        port: Option<u16>,
        /// Major version of PostgreSQL [default: the newest that is installed].
        #[arg(long = "version", value_name = "MAJOR")]
        major: Option<u32>,
        /// Memory of all processes of its server, with cached files [default: no limit].
        #[arg(long, value_name = "SIZE", value_parser = parse::size)]
        memory: Option<u64>,
        /// Processors that its server may keep busy at once, as in 1.5 [default: no limit].
        #[arg(long)]
        cores: Option<f64>,
    },
    Import(Box<import::Import>),
    Follow(Box<import::Follow>),
    /// End the following of a standby: it becomes a database of its own, and its primary forgets it.
    #[command(after_help = "Example:\n  ashlar database promote prod-copy --yes")]
    Promote {
        /// Name of the standby.
        name: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
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
            ashlar database clone prod undo --at -10s --expire 8h\n  \
            ashlar database clone prod dev --password --after-clone mask.sql --database app")]
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
        /// Memory of all processes of its server, with cached files [default: its source's].
        #[arg(long, value_name = "SIZE", value_parser = parse::size)]
        memory: Option<u64>,
        /// Processors that its server may keep busy at once, as in 1.5 [default: its source's].
        #[arg(long)]
        cores: Option<f64>,
        #[command(flatten)]
        care: care::Care,
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
    /// Show or change settings of a database's server. It reads them at once.
    #[command(
        after_help = "Example:\n  ashlar database settings prod work_mem=64MB max_connections=200 --restart\n  \
            ashlar database settings prod --reset work_mem"
    )]
    Settings(change::Settings),
    /// Enlarge volumes of a database with their file systems, while it runs.
    #[command(after_help = "Example:\n  ashlar database resize prod --size 256GiB --log-size 32GiB")]
    Resize(change::Resize),
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
    // tidy: long because it names every verb once.
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        match self.verb {
            Verb::Settings(settings) => settings.run(context),
            Verb::Resize(resize) => resize.run(context),
            Verb::Create {
                name,
                size,
                log_size,
                temp_size,
                tablespaces,
                pool,
                port,
                major,
                memory,
                cores,
            } => {
                let request = DatabaseCreate {
                    name,
                    size_bytes: size,
                    log_size_bytes: log_size,
                    temp_size_bytes: temp_size,
                    tablespaces,
                    pool,
                    port,
                    major_version: major,
                    memory_bytes: memory,
                    cores,
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
            Verb::Import(import) => ready(context, &import.run(context)?),
            Verb::Follow(follow) => ready(context, &follow.run(context)?),
            Verb::Promote { name, yes } => promote(context, &name, yes),
            Verb::Clone { name, clone, at, expire, port, memory, cores, care } => {
                let plain = plain_clone(clone, at, port);
                let request = care.into_request(DatabaseClone {
                    memory_bytes: memory,
                    cores,
                    expires_after_seconds: expire,
                    ..plain
                })?;
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

/// `archive=1TiB`.
fn tablespace(text: &str) -> std::result::Result<DatabaseTablespace, String> {
    let (name, size) = text.split_once('=').ok_or("a tablespace is NAME=SIZE, as in archive=1TiB")?;
    Ok(DatabaseTablespace { name: name.to_string(), size_bytes: parse::size(size)? })
}

fn ready(context: &Context, ready: &DatabaseReady) -> Result<()> {
    Ok(context.output.print(ready, |ready| {
        let DatabaseReady { database, url, took_millis, start_millis, restored, backup, notes } = ready;
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
        text.extend(notes.iter().map(|note| format!("note: {note}\n")));
        text
    })?)
}

fn plain_clone(name: String, snapshot: Option<String>, port: Option<u16>) -> DatabaseClone {
    DatabaseClone {
        memory_bytes: None,
        cores: None,
        expires_after_seconds: None,
        name,
        snapshot,
        port,
        password: None,
        has_fresh_password: false,
        after_clone: None,
        after_clone_database: None,
    }
}

fn promote(context: &Context, name: &str, yes: bool) -> Result<()> {
    confirm(yes, &format!("end the following of `{name}`? It cannot follow again."))?;
    Ok(context.output.print(&context.client()?.database_promote(name)?, promoted)?)
}

fn promoted(done: &DatabasePromotion) -> String {
    let mut text = format!("{}\n{} follows nobody any more\n", done.url, done.database.name);
    text.extend(done.notes.iter().map(|note| format!("{note}\n")));
    text
}

/// How far a database is, or a standby is behind.
fn state_of_now(database: &Shown) -> String {
    let state = state(database);
    match (&database.progress, &database.standby) {
        (Some(found), _) if found.total_bytes > 0 => {
            let percent = (found.done_bytes * 100 / found.total_bytes).min(100);
            format!("{state}: {}, {percent} % of {}", found.stage, bytes(found.total_bytes))
        }
        (Some(found), _) => format!("{state}: {}", found.stage),
        (None, Some(standby)) if database.state == DatabaseState::Running => lag(standby),
        _ => state.to_string(),
    }
}

fn lag(standby: &DatabaseStandby) -> String {
    match standby {
        DatabaseStandby { is_streaming: Some(is_streaming), lag_bytes: Some(behind), lag_millis, .. } => {
            let seconds = lag_millis.unwrap_or(0) as f64 / 1000.0;
            let heard = if *is_streaming { "" } else { ", hears nothing of its primary" };
            format!("standby, {} and {seconds:.1} s behind{heard}", bytes(*behind))
        }
        _ => "standby, does not say how far it is".to_string(),
    }
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
    match (&database.origin, &database.standby) {
        (Some(origin), _) => format!("{}@{}", origin.database, origin.snapshot),
        (None, Some(standby)) => standby.primary.clone(),
        (None, None) => "-".to_string(),
    }
}

fn list(databases: &[Shown]) -> String {
    let row = |database: &Shown| {
        vec![
            database.name.clone(),
            database.pool.clone(),
            format!("{} {}", database.engine, database.major_version),
            state_of_now(database),
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
        ("state", state_of_now(database)),
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
    pairs.extend(database.memory_bytes.map(|bytes| ("memory", ByteCount(bytes).to_string())));
    pairs.extend(database.cores.map(|cores| ("processors", cores.to_string())));
    pairs.extend(
        database.standby.iter().map(|one| ("follows", format!("{} by slot {}", one.primary, one.slot))),
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
    text.extend(deleted.notes.iter().map(|note| format!("{note}\n")));
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
