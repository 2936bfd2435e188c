//! `ashlar database`: database servers by name, and clones of them.

mod care;
mod change;
mod diff;
mod handover;
mod hooks;
mod import;
mod shown;
mod waits;

use ashlar_api::{
    DatabaseClone, DatabaseCreate, DatabaseExpiry, DatabasePromotion, DatabaseReady, DatabaseReset,
    DatabaseRestore, DatabaseSnapshot, DatabaseStart, DatabaseTablespace, DatabaseVerify, VolumeClass,
};
use clap::Subcommand;
use shown::{deletion, list, proof_lines, show};

use crate::Context;
use crate::ask::confirm;
use crate::failure::{Failure, Result};
use crate::output::utc;
use crate::parse;
use crate::verb::volume::ClassName;

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
            ashlar database create prod --tablespace archive=1TiB --temp-size 32GiB\n  \
            ashlar database create shop --engine none --account mysql --freeze /etc/shop/freeze --thaw /etc/shop/thaw"
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
        /// Within what time reads and writes of that volume should be answered: while they are not, others
        /// are held back, as `ashlar volume set --floor` says.
        #[arg(long, value_name = "TIME", value_parser = parse::floor, requires = "log_size")]
        log_floor: Option<u64>,
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
        /// How long its server's start may take, with its recovery; after that nothing of it is left
        /// [default: 180s].
        #[arg(long, value_name = "TIME", value_parser = ashlar_schedule::term)]
        start_timeout: Option<u64>,
        #[command(flatten)]
        grow: change::Grow,
        #[command(flatten)]
        hooks: Box<hooks::Hooks>,
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
    #[command(
        after_help = "Example:\n  ashlar database start prod\n  ashlar database start prod --start-timeout 1h"
    )]
    Start {
        /// Name of the database.
        name: String,
        /// How long its server's start may take, with its recovery; after that it is ended and stays
        /// stopped [default: as before, at first 180s].
        #[arg(long, value_name = "TIME", value_parser = ashlar_schedule::term)]
        start_timeout: Option<u64>,
    },
    /// Stop the server of a database. It stays stopped until somebody starts it.
    #[command(after_help = "Example:\n  ashlar database stop prod")]
    Stop {
        /// Name of the database.
        name: String,
    },
    /// Take a snapshot of databases at one instant, without stopping them.
    #[command(after_help = "Example:\n  ashlar database snapshot prod before-upgrade\n  \
            ashlar database snapshot orders,billing month-end\n  \
            ashlar database snapshot prod test-base --checkpoint")]
    Snapshot {
        /// Databases of one pool.
        #[arg(value_name = "NAME[,NAME...]")]
        databases: String,
        /// Name of the snapshot [default: the first database's name and the time].
        snapshot: Option<String>,
        /// Have their servers make a checkpoint first: clones of the snapshot recover at once.
        #[arg(long)]
        checkpoint: bool,
    },
    /// Make a database of the content of another, at no space, and start its server.
    ///
    /// A time is 13:05:07 (today or, when that is still to come, yesterday), 2026-11-28T13:05:07Z or -10s, in
    /// UTC by the clock of the array's machine. It means the newest snapshot of that second or before.
    #[command(after_help = "Example:\n  ashlar database clone prod dev\n  \
            ashlar database clone prod audit --at before-upgrade --port 5500\n  \
            ashlar database clone prod undo --at 13:05:07\n  \
            ashlar database clone prod undo --at -10s --expire 8h\n  \
            ashlar database clone prod dev --password --after-clone mask.sql --database app\n  \
            ashlar database clone prod test --class normal\n  \
            ashlar database clone prod test --host db1 > test.sh")]
    Clone {
        /// Name of the database that is cloned.
        name: String,
        /// Name of the clone.
        clone: String,
        /// As it was in this snapshot, or at this time [default: as it is now].
        #[arg(long, value_name = "SNAPSHOT|TIME", allow_hyphen_values = true)]
        at: Option<String>,
        /// Have the source's server make a checkpoint first: the clone recovers at once.
        #[arg(long, conflicts_with = "at")]
        checkpoint: bool,
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
        /// How long its server's start may take, with its recovery; after that nothing of the clone is
        /// left [default: its source's].
        #[arg(long, value_name = "TIME", value_parser = ashlar_schedule::term)]
        start_timeout: Option<u64>,
        /// Whether requests of its volumes give way to those of others, now and after each reset.
        #[arg(long, value_enum, value_name = "CLASS", default_value = "low")]
        class: ClassName,
        /// Run it on another machine: export its volumes to this host, and print a script for that machine.
        #[arg(long, value_name = "HOST")]
        host: Option<String>,
        #[command(flatten)]
        care: Box<care::Care>,
    },
    Handover(handover::Handover),
    Return(handover::Return),
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
        /// How long its server's start may take, with its recovery; after that it is ended and stays
        /// stopped [default: as before].
        #[arg(long, value_name = "TIME", value_parser = ashlar_schedule::term)]
        start_timeout: Option<u64>,
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
        /// How long its server's start may take, with its recovery; after that it is ended and stays
        /// stopped [default: as before].
        #[arg(long, value_name = "TIME", value_parser = ashlar_schedule::term)]
        start_timeout: Option<u64>,
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
    Diff(diff::Diff),
    /// Show or change settings of a database's server. It reads them at once.
    #[command(
        after_help = "Example:\n  ashlar database settings prod work_mem=64MB max_connections=200 --restart\n  \
            ashlar database settings prod --reset work_mem\n  \
            ashlar database settings prod --port 5499 --restart"
    )]
    Settings(change::Settings),
    Commands(hooks::Change),
    Waits(waits::Waits),
    /// Enlarge volumes of a database with their file systems, while it runs, or have them grow by themselves.
    #[command(after_help = "Example:\n  ashlar database resize prod --size 256GiB --log-size 32GiB\n  \
            ashlar database resize prod --auto-grow --auto-grow-max 1TiB")]
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
    /// Stop a database and delete it with its volumes. Clones of it stay, and so do its snapshots.
    #[command(after_help = "Example:\n  ashlar database delete dev --yes\n  \
            ashlar database delete prod --with-schedules --yes")]
    Delete {
        /// Name of the database.
        name: String,
        /// Delete its schedules, too. Those of other databases as well go on without it.
        #[arg(long)]
        with_schedules: bool,
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
            Verb::Diff(diff) => diff.run(context),
            Verb::Handover(handover) => handover.run(context),
            Verb::Return(back) => back.run(context),
            Verb::Settings(settings) => settings.run(context),
            Verb::Commands(change) => change.run(context),
            Verb::Waits(waits) => waits.run(context),
            Verb::Resize(resize) => resize.run(context),
            Verb::Create {
                name,
                size,
                log_size,
                log_floor,
                temp_size,
                tablespaces,
                pool,
                port,
                major,
                memory,
                cores,
                start_timeout,
                grow,
                hooks,
            } => {
                let (engine, hooks) = hooks.into_request();
                let request = DatabaseCreate {
                    name,
                    size_bytes: size,
                    log_size_bytes: log_size,
                    log_floor_micros: log_floor,
                    temp_size_bytes: temp_size,
                    tablespaces,
                    pool,
                    port,
                    major_version: major,
                    memory_bytes: memory,
                    cores,
                    start_timeout_seconds: start_timeout,
                    engine,
                    hooks,
                    auto_grow: grow.is_wanted(),
                    auto_grow_max_bytes: grow.auto_grow_max,
                };
                ready(context, &client.database_create(&request)?)
            }
            Verb::List => Ok(context.output.print(&client.databases()?, |all| list(all))?),
            Verb::Show { name } => Ok(context.output.print(&client.database(&name)?, show)?),
            Verb::Url { name } => {
                Ok(context.output.print(&client.database_url(&name)?, |found| format!("{}\n", found.url))?)
            }
            Verb::Start { name, start_timeout } => {
                let request = DatabaseStart { start_timeout_seconds: start_timeout };
                ready(context, &client.database_start(&name, &request)?)
            }
            Verb::Stop { name } => Ok(context.output.print(&client.database_stop(&name)?, show)?),
            Verb::Snapshot { databases, snapshot, checkpoint } => {
                let databases: Vec<String> = databases.split(',').map(str::to_string).collect();
                let name = snapshot.unwrap_or_else(|| name_of_now(&databases[0]));
                let taken = client.database_snapshot(&DatabaseSnapshot { name, databases, checkpoint })?;
                Ok(context.output.print(&taken, |taken| {
                    format!("snapshot {} of {}\n", taken.name, taken.volumes.join(" "))
                })?)
            }
            Verb::Import(import) => ready(context, &import.run(context)?),
            Verb::Follow(follow) => ready(context, &follow.run(context)?),
            Verb::Promote { name, yes } => promote(context, &name, yes),
            Verb::Clone {
                name,
                clone,
                at,
                checkpoint,
                expire,
                port,
                memory,
                cores,
                start_timeout,
                class,
                host,
                care,
            } => {
                let plain = plain_clone(clone, at, port);
                let request = care.into_request(DatabaseClone {
                    checkpoint,
                    memory_bytes: memory,
                    cores,
                    expires_after_seconds: expire,
                    start_timeout_seconds: start_timeout,
                    class: class.into(),
                    host,
                    ..plain
                })?;
                ready(context, &client.database_clone(&name, &request)?)
            }
            Verb::Expire { name, after, never: _ } => {
                let request = DatabaseExpiry { expires_after_seconds: after };
                Ok(context.output.print(&client.database_expire(&name, &request)?, show)?)
            }
            Verb::Reset { name, to, latest, start_timeout, yes } => {
                confirm(yes, &format!("reset database `{name}`? What it holds is lost."))?;
                let request = DatabaseReset { snapshot: to, latest, start_timeout_seconds: start_timeout };
                ready(context, &client.database_reset(&name, &request)?)
            }
            Verb::Restore { name, to, start_timeout, yes } => {
                let question = format!("stop database `{name}` and set it back to `{to}`?");
                confirm(yes, &question)?;
                let request = DatabaseRestore { snapshot: to, start_timeout_seconds: start_timeout };
                ready(context, &client.database_restore(&name, &request)?)
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
            Verb::Delete { name, with_schedules, yes } => {
                let too = if with_schedules { " and its schedules" } else { "" };
                confirm(yes, &format!("stop database `{name}` and delete it with its volumes{too}?"))?;
                let deleted = client.database_delete(&name, with_schedules)?;
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
        let DatabaseReady { database, url, took_millis, start_millis, restored, backup, notes, handover } =
            ready;
        if let Some(handover) = handover {
            return handover.script.clone();
        }
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
        checkpoint: false,
        memory_bytes: None,
        cores: None,
        expires_after_seconds: None,
        start_timeout_seconds: None,
        name,
        snapshot,
        port,
        password: None,
        has_fresh_password: false,
        after_clone: None,
        after_clone_database: None,
        class: VolumeClass::Low,
        host: None,
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

/// `prod-20261128T130507Z`.
fn name_of_now(database: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let digits: Vec<char> =
        utc(now.map_or(0, |since| since.as_secs())).chars().filter(char::is_ascii_digit).collect();
    let (day, time) = digits.split_at(digits.len().min(8));
    format!("{database}-{}T{}Z", day.iter().collect::<String>(), time.iter().collect::<String>())
}
