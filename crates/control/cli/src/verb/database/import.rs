//! `ashlar database import` and `follow`: databases that are brought in from elsewhere, and how far that is.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use ashlar_api::{DatabaseFollow, DatabaseImport, DatabaseReady, DatabaseState, DatabaseTablespace};
use ashlar_client::Client;

use crate::Context;
use crate::failure::{Failure, Result};
use crate::parse;
use crate::progress::{Progress, line};

/// How often the array is asked how far it is. Arbitrary: often enough to see it move.
const ASK_INTERVAL: Duration = Duration::from_millis(300);

/// Bring a database in: a stopped server's directory, a running server, or a dump of one. Its source is only
/// read.
///
/// A directory is copied, with its settings; a running server gives a base backup, which needs a user who may
/// replicate. Whatever of the settings leads out of the copy is taken out and told, or refused. The superuser
/// gets a fresh password, which `url` shows. Ctrl-C ends the import, and nothing of it is left.
#[derive(clap::Args)]
#[command(
    disable_version_flag = true,
    after_help = "Example:\n  ashlar database import prod --from-directory /var/lib/postgresql/15/main\n  \
        ashlar database import prod --from postgres://copier@db1:5432/postgres --password-file copier.password\n  \
        ashlar database import app --from postgres://app@db.example.com/app?sslmode=require --logical \
        --password-file app.password"
)]
pub struct Import {
    /// Name of the database; its volumes are called NAME-data and NAME-log.
    name: String,
    /// The data directory of a stopped server of this machine.
    #[arg(long, value_name = "DIR", required_unless_present = "from", conflicts_with = "from")]
    from_directory: Option<PathBuf>,
    /// Where its settings are [default: DIR, or where Debian keeps them].
    #[arg(long, value_name = "DIR", requires = "from_directory")]
    config: Option<PathBuf>,
    /// A running server: postgres://USER:PASSWORD@HOST:PORT/DATABASE.
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// The first line of this file is the password of the server's user; it is in no list of processes.
    #[arg(long, value_name = "FILE", requires = "from")]
    password_file: Option<PathBuf>,
    /// Dump the one database that URL names, instead of a base backup: without roles and passwords.
    #[arg(long, requires = "from")]
    logical: bool,
    /// With --logical, the major version of the copy [default: the newest that is installed].
    #[arg(long = "version", value_name = "MAJOR", requires = "logical")]
    major: Option<u32>,
    #[command(flatten)]
    place: Place,
}

/// Make a standby of a running server: it streams the primary's log, so that clones of it are seconds old.
///
/// The primary keeps a replication slot for it, named ashlar_NAME, until it is deleted or promoted.
/// Snapshots, clones and proofs are made of it as of any database; a clone is a primary of its own.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar database follow prod-copy --primary \
        postgres://copier@db1:5432/postgres --password-file copier.password\n  \
        ashlar database clone prod-copy dev")]
pub struct Follow {
    /// Name of the standby; its volumes are called NAME-data and NAME-log.
    name: String,
    /// The server to follow: postgres://USER:PASSWORD@HOST:PORT/DATABASE.
    #[arg(long, value_name = "URL")]
    primary: String,
    /// The first line of this file is the password of the primary's user; it is in no list of processes.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

/// Where it comes to be.
#[derive(clap::Args)]
struct Place {
    /// Size of the volume for data, which is thin [default: 64 GiB, or twice what is there].
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    size: Option<u64>,
    /// Put the write-ahead log on a volume of its own, of this size.
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    log_size: Option<u64>,
    /// How large the volume of a tablespace is; may be repeated [default: 64 GiB, or twice what is there].
    #[arg(long = "tablespace", value_name = "NAME=SIZE", value_parser = super::tablespace)]
    tablespaces: Vec<DatabaseTablespace>,
    /// The pool; may be left out when there is one.
    #[arg(long)]
    pool: Option<String>,
    /// Where its server listens, on 127.0.0.1 [default: the first free one from 5433 on].
    #[arg(long)]
    port: Option<u16>,
    /// How long its server's start may take, with its recovery; after that nothing of it is left
    /// [default: 180s].
    #[arg(long, value_name = "TIME", value_parser = ashlar_schedule::term)]
    start_timeout: Option<u64>,
}

impl Import {
    pub fn run(self, context: &Context) -> Result<DatabaseReady> {
        let absolute = |path: Option<PathBuf>| match path {
            Some(path) => Ok::<_, Failure>(Some(parse::absolute(&path)?.display().to_string())),
            None => Ok(None),
        };
        let from = self.from.map(|url| with_password(url, self.password_file.as_deref())).transpose()?;
        let request = DatabaseImport {
            name: self.name,
            from_directory: absolute(self.from_directory)?,
            configuration_directory: absolute(self.config)?,
            from,
            is_logical: self.logical,
            size_bytes: self.place.size,
            log_size_bytes: self.place.log_size,
            tablespaces: self.place.tablespaces,
            pool: self.place.pool,
            port: self.place.port,
            major_version: self.major,
            start_timeout_seconds: self.place.start_timeout,
        };
        watched(context, &request.name, |client| client.database_import(&request))
    }
}

impl Follow {
    pub fn run(self, context: &Context) -> Result<DatabaseReady> {
        let request = DatabaseFollow {
            name: self.name,
            primary: with_password(self.primary, self.password_file.as_deref())?,
            size_bytes: self.place.size,
            log_size_bytes: self.place.log_size,
            tablespaces: self.place.tablespaces,
            pool: self.place.pool,
            port: self.place.port,
            start_timeout_seconds: self.place.start_timeout,
        };
        watched(context, &request.name, |client| client.database_follow(&request))
    }
}

/// The first line of a file.
pub fn first_line(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("read {}: {error}: check the path", path.display())))?;
    let line = text.lines().next().unwrap_or("").to_string();
    if line.is_empty() {
        return Err(Failure::new(format!("{} holds no password in its first line", path.display())));
    }
    Ok(line)
}

/// The address with the password of a file in it.
fn with_password(url: String, file: Option<&Path>) -> Result<String> {
    let Some(file) = file else { return Ok(url) };
    let password = first_line(file)?;
    let end = url.find("://").map_or(0, |at| at + 3);
    let authority = url[end..].find(['/', '?']).map_or(url.len(), |at| end + at);
    let Some(at) = url[..authority].rfind('@').filter(|_| end > 0) else {
        return Err(Failure::new(
            "the address names no user: write it as postgres://USER@HOST:PORT/DATABASE",
        ));
    };
    if url[end..at].contains(':') {
        return Err(Failure::new(
            "a password is in the address and in --password-file: leave one of them out",
        ));
    }
    let encoded: String = password.bytes().map(|byte| format!("%{byte:02X}")).collect();
    Ok(format!("{}:{encoded}{}", &url[..at], &url[at..]))
}

/// Asks for something long that makes a database, shows meanwhile how far it is, and has it ended on Ctrl-C.
pub fn watched<T>(
    context: &Context,
    name: &str,
    ask: impl FnOnce(&Client) -> ashlar_client::Result<T>,
) -> Result<T> {
    let client = context.client()?;
    let watcher = context.client()?;
    let signals = ashlar_programs::heed_signals().map_err(|error| Failure::new(error.to_string()))?;
    let (over, is_over) = mpsc::channel::<()>();
    let watched = name.to_string();
    let shown = std::thread::spawn(move || watch(&watcher, &watched, &signals, &is_over));
    let done = ask(&client);
    drop(over);
    // It shows and decides nothing.
    let _ignored = shown.join();
    Ok(done?)
}

fn watch(client: &Client, name: &str, signals: &Arc<AtomicBool>, is_over: &mpsc::Receiver<()>) {
    let mut progress = Progress::new("import", 0);
    let mut stage = (String::new(), Duration::ZERO);
    while is_over.recv_timeout(ASK_INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout) {
        let Ok(database) = client.database(name) else { continue };
        // One of that name that is not being made is somebody else's.
        if signals.load(Ordering::Relaxed) && database.state == DatabaseState::Making {
            // What became of it is told by the request that is waited for.
            let _ = client.database_delete(name, false);
            break;
        }
        let Some(found) = database.progress else { continue };
        if stage.0 != found.stage {
            stage = (found.stage.clone(), progress.elapsed());
        }
        progress.show_line(|elapsed| match found.total_bytes {
            0 => found.stage.clone(),
            total => line(&found.stage, found.done_bytes.min(total), total, elapsed.saturating_sub(stage.1)),
        });
    }
    progress.end();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_password_of_a_file_comes_into_the_address() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "p@/\n").unwrap();
        let path = file.path().to_path_buf();
        let with = |url: &str| with_password(url.to_string(), Some(&path));
        assert_eq!(with("postgres://u@h:1/d?x=@").unwrap(), "postgres://u:%70%40%2F@h:1/d?x=@");
        assert!(with("postgres://u:p@h/d").is_err());
        assert!(with("postgres://h/d").is_err());
        assert!(with("u@h").is_err());
    }
}
