//! PostgreSQL: found or installed, started on a directory, asked, loaded, checked.

use crate::error::{Error, ErrorKind, Result};
use crate::wire::{Connection, Rows};
use ashlar_programs::{Finished, Launcher, Running};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Programs of PostgreSQL the demo needs beside the server's own.
const PROGRAMS: [&str; 6] = ["initdb", "pg_ctl", "postgres", "pgbench", "pg_amcheck", "pg_checksums"];
/// Where distributions keep the programs of each version.
const HOMES: &str = "/usr/lib/postgresql";
/// Loading and checking some GiB may take a while on a slow machine, but not longer.
const LONG: Duration = Duration::from_secs(900);
/// Starting includes replaying the database's log.
const START_LIMIT: Duration = Duration::from_secs(180);

/// Load of pgbench: sessions, and threads that drive them.
const CLIENTS: &str = "16";
const THREADS: &str = "2";

/// The server's settings. Durability is PostgreSQL's default: every commit waits for its flush.
const SETTINGS: &str = "
listen_addresses = ''
unix_socket_permissions = 0777
shared_buffers = 256MB
dynamic_shared_memory_type = mmap
max_connections = 60
max_wal_size = 2GB
checkpoint_timeout = 5min
wal_level = minimal
max_wal_senders = 0
autovacuum_naptime = 30s
";

/// The unprivileged account the database runs under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) user: u32,
    pub(crate) group: u32,
}

/// An installed PostgreSQL.
#[derive(Clone)]
pub(crate) struct Installation {
    launcher: Arc<Launcher>,
    home: PathBuf,
    pub(crate) version: String,
    pub(crate) account: Account,
}

impl Installation {
    /// Finds PostgreSQL, or installs the distribution's.
    pub(crate) fn ensure(launcher: &Arc<Launcher>) -> Result<(Self, bool)> {
        let mut is_installed_now = false;
        let home = match newest_home(Path::new(HOMES)) {
            Some(home) => home,
            None => {
                install(launcher)?;
                is_installed_now = true;
                newest_home(Path::new(HOMES)).ok_or_else(|| {
                    Error::environment(format!(
                        "PostgreSQL 14 or newer is needed below {HOMES}, with {}",
                        PROGRAMS.join(", ")
                    ))
                })?
            }
        };
        let accounts = fs::read_to_string("/etc/passwd").map_err(|e| Error::io("/etc/passwd", e))?;
        let account = account_in(&accounts, "postgres").or_else(|| account_in(&accounts, "nobody"));
        let account = account.ok_or_else(|| {
            Error::environment(
                "neither an account `postgres` nor `nobody`: PostgreSQL refuses to run as root",
            )
        })?;
        let finished = launcher.run(versioned(&home), LONG)?;
        let version = finished.stdout.split_whitespace().nth(2).unwrap_or("?").to_string();
        Ok((Self { launcher: launcher.clone(), home, version, account }, is_installed_now))
    }

    /// A program of PostgreSQL, to be run under its account.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.home.join(name));
        command.uid(self.account.user).gid(self.account.group).env_remove("PGDATA").env("LC_ALL", "C");
        command
    }
}

fn versioned(home: &Path) -> Command {
    let mut command = Command::new(home.join("postgres"));
    command.arg("--version");
    command
}

/// The newest version that has all the programs.
fn newest_home(homes: &Path) -> Option<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for entry in fs::read_dir(homes).ok()?.flatten() {
        let home = entry.path().join("bin");
        let Ok(version) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        if PROGRAMS.iter().all(|program| home.join(program).is_file()) {
            found.push((version, home));
        }
    }
    found.into_iter().max().map(|(_, home)| home)
}

fn install(launcher: &Arc<Launcher>) -> Result<()> {
    let hint = "install PostgreSQL 14 or newer (on Debian: apt-get install postgresql) and run again";
    if !Path::new("/usr/bin/apt-get").is_file() {
        return Err(Error::environment(format!("PostgreSQL is missing and this is not Debian: {hint}")));
    }
    // The package would make and start a database of its own, which nobody asked for.
    let choice = Path::new("/etc/postgresql-common/createcluster.conf");
    if !choice.exists() {
        fs::create_dir_all("/etc/postgresql-common").map_err(|e| Error::io("/etc/postgresql-common", e))?;
        fs::write(choice, "create_main_cluster = false\n").map_err(|e| Error::io("createcluster.conf", e))?;
    }
    let get = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        launcher.run(command, LONG)
    };
    let packages = ["install", "-y", "-q", "--no-install-recommends", "postgresql"];
    if get(&packages).is_err() {
        get(&["update", "-q"]).and_then(|_| get(&packages)).map_err(|error| {
            Error::environment(format!("PostgreSQL is missing and apt-get cannot fetch it: {hint}\n{error}"))
        })?;
    }
    Ok(())
}

/// User and group of an account in the format of /etc/passwd.
pub(crate) fn account_in(passwd: &str, name: &str) -> Option<Account> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut numbers = line.split(':').skip(2).take(2).map(str::parse::<u32>);
    let (Some(Ok(user)), Some(Ok(group))) = (numbers.next(), numbers.next()) else { return None };
    Some(Account { user, group })
}

/// One database server on one data directory. Dropping it stops the server at once.
pub(crate) struct Server {
    installation: Installation,
    data: PathBuf,
    socket: PathBuf,
    port: u16,
    is_running: bool,
}

impl Server {
    /// A server on `data`, reached through a socket in `socket`.
    pub(crate) fn new(installation: &Installation, data: PathBuf, socket: PathBuf, port: u16) -> Self {
        Self { installation: installation.clone(), data, socket, port, is_running: false }
    }

    /// Makes an empty database with checksums, its log in `wal`.
    pub(crate) fn initialise(&self, wal: &Path) -> Result<()> {
        let mut command = self.installation.program("initdb");
        command.args([
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-locale",
            "--data-checksums",
            "-D",
        ]);
        command.arg(&self.data).arg("-X").arg(wal);
        self.installation.launcher.run(command, LONG)?;
        let path = self.data.join("postgresql.conf");
        let mut text = fs::read_to_string(&path).map_err(|e| Error::io("postgresql.conf", e))?;
        text.push_str(SETTINGS);
        fs::write(&path, text).map_err(|e| Error::io("postgresql.conf", e))
    }

    /// Turns a copy of another server's files into this server's: the log is elsewhere now, and the
    /// process that the copied lock file names is not ours.
    pub(crate) fn adopt(&self, wal: &Path) -> Result<()> {
        let link = self.data.join("pg_wal");
        fs::remove_file(&link).map_err(|e| Error::io("remove the copied link to the log", e))?;
        std::os::unix::fs::symlink(wal, &link).map_err(|e| Error::io("link the log", e))?;
        self.forget_lock()
    }

    fn control(&self, arguments: &[&str], limit: Duration) -> Result<Finished> {
        let mut command = self.installation.program("pg_ctl");
        command.arg("-D").arg(&self.data).args(arguments);
        Ok(self.installation.launcher.run(command, limit)?)
    }

    /// Starts the server and waits until it answers, which includes replaying its log.
    pub(crate) fn start(&mut self) -> Result<Duration> {
        let options = format!("-p {} -k {}", self.port, self.socket.display());
        let log = self.log();
        self.is_running = true;
        let limit = START_LIMIT.as_secs().to_string();
        let arguments = ["-w", "-s", "-t", &limit, "-l", &log.to_string_lossy(), "-o", &options, "start"];
        match self.control(&arguments, START_LIMIT + Duration::from_secs(10)) {
            Ok(finished) => Ok(finished.took),
            Err(error) if error.kind == ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let text = fs::read_to_string(&log).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                let tail = lines[lines.len().saturating_sub(8)..].join("\n    ");
                Err(Error { context: format!("{error}\n  its log:\n    {tail}"), ..error })
            }
        }
    }

    /// The server's own log, kept outside the array: it must survive it.
    pub(crate) fn log(&self) -> PathBuf {
        self.socket.join("server.log")
    }

    /// Stops the server after a last checkpoint.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.control(&["-w", "-s", "-m", "fast", "-t", "120", "stop"], Duration::from_secs(130))?;
        self.is_running = false;
        Ok(())
    }

    /// Stops the server without a word to its files, which may be gone.
    pub(crate) fn abandon(&mut self) {
        if std::mem::replace(&mut self.is_running, false) {
            // Ends in an error when the data directory cannot be read any more; the site's sweep ends
            // every process that works in it.
            let _ =
                self.control(&["-w", "-s", "-m", "immediate", "-t", "10", "stop"], Duration::from_secs(15));
            crate::site::end_database(&self.data);
        }
    }

    /// Removes the lock files that the dead server could not, of its data and of its socket. PostgreSQL
    /// would see through them itself, unless nobody has collected the dead process yet, as happens in
    /// containers without an init.
    pub(crate) fn forget_lock(&self) -> Result<()> {
        let of_socket = self.socket.join(format!(".s.PGSQL.{}.lock", self.port));
        for lock in [self.data.join("postmaster.pid"), of_socket] {
            match fs::remove_file(&lock) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io(&lock.display().to_string(), error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Leaves the server running when the demo ends.
    pub(crate) fn leave(mut self) {
        self.is_running = false;
    }

    /// Runs one statement.
    pub(crate) fn query(&self, statement: &str) -> Result<Rows> {
        let context = |e| Error::io(&format!("`{statement}`"), e);
        let mut connection = Connection::open(&self.socket, self.port, LONG).map_err(context)?;
        connection.query(statement).map_err(context)
    }

    /// Where clients find the server.
    pub(crate) fn address(&self) -> (&Path, u16) {
        (&self.socket, self.port)
    }

    fn client(&self, program: &str) -> Command {
        let mut command = self.installation.program(program);
        command.arg("-h").arg(&self.socket).args(["-p", &self.port.to_string(), "-U", "postgres"]);
        command
    }

    /// Fills pgbench's tables.
    pub(crate) fn fill(&self, scale: u32) -> Result<Duration> {
        let mut command = self.client("pgbench");
        command.args(["-i", "-q", "-s", &scale.to_string(), "postgres"]);
        Ok(self.installation.launcher.run(command, LONG)?.took)
    }

    /// Starts pgbench's TPC-B-like load; every transaction is logged below `log_prefix`.
    pub(crate) fn load(&self, seconds: u32, log_prefix: &Path) -> Result<Running> {
        let mut command = self.client("pgbench");
        command.args(["-n", "-c", CLIENTS, "-j", THREADS, "-T", &seconds.to_string(), "-l", "--log-prefix"]);
        command.arg(log_prefix).arg("postgres");
        Ok(self.installation.launcher.start("pgbench", command)?)
    }

    /// Ends the load by closing its sessions: unlike a killed pgbench, one that loses them writes its log
    /// to the end.
    pub(crate) fn end_load(&self, running: Running, limit: Duration) -> Result<()> {
        let sessions = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
             where application_name = 'pgbench'";
        self.query(sessions)?;
        self.installation.launcher.wait_from(running, Instant::now(), limit)?;
        Ok(())
    }

    /// Drops the database's files from this machine's page cache, so that what is read next comes from
    /// the array. Pages that are yet to be written stay.
    pub(crate) fn forget_pages(&self) -> Result<()> {
        let mut waiting = vec![self.data.join("base")];
        while let Some(path) = waiting.pop() {
            let context = |e| Error::io(&path.display().to_string(), e);
            if path.is_dir() {
                let entries = fs::read_dir(&path).map_err(context)?;
                waiting.extend(entries.flatten().map(|entry| entry.path()));
                continue;
            }
            // The database removes files at any time.
            let Ok(file) = fs::File::open(&path) else { continue };
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)
                .map_err(|e| context(e.into()))?;
        }
        Ok(())
    }

    /// pg_amcheck: every table's rows and every index's structure.
    pub(crate) fn check_relations(&self) -> Result<Duration> {
        let mut command = self.client("pg_amcheck");
        command.args(["--install-missing", "-j", "2", "-d", "postgres"]);
        Ok(self.installation.launcher.run(command, LONG)?.took)
    }

    /// pg_checksums: every page of the stopped server.
    pub(crate) fn check_pages(&self) -> Result<Duration> {
        let mut command = self.installation.program("pg_checksums");
        command.args(["--check", "-D"]).arg(&self.data);
        Ok(self.installation.launcher.run(command, LONG)?.took)
    }

    /// pgbench's invariant: the four sums are equal at every consistent instant. Returns the number
    /// of transactions in the history.
    pub(crate) fn check_sums(&self) -> Result<u64> {
        let rows = self.query(
            "select (select sum(abalance) from pgbench_accounts), (select sum(tbalance) from pgbench_tellers), \
             (select sum(bbalance) from pgbench_branches), coalesce(sum(delta), 0), count(*) from pgbench_history",
        )?;
        let row: Vec<&str> =
            rows.first().into_iter().flatten().map(|v| v.as_deref().unwrap_or("null")).collect();
        let [accounts, tellers, branches, history, count] = row[..] else {
            return Err(Error::proof("the balances cannot be read"));
        };
        if accounts != tellers || tellers != branches || branches != history {
            return Err(Error::proof(format!(
                "balances differ: accounts {accounts}, tellers {tellers}, branches {branches}, history {history}"
            )));
        }
        count.parse().map_err(|_| Error::proof(format!("history count {count:?}")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let launcher = self.installation.launcher.clone();
        let _cleaning = launcher.clean();
        self.abandon();
    }
}
