//! One database server on one data directory: made, started, asked, stopped, or left for dead.
//!
//! It is reached through a socket in a directory of its own, so any number of servers live beside each other
//! and none listens on the network unless a setting says so.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ashlar_programs::Finished;
use rustix::process::{Pid, Signal, kill_process};

use crate::adopt::links;
use crate::error::{Error, ErrorKind, Result};
use crate::installation::Installation;
use crate::leftovers::Leftovers;
use crate::limits::{Group, Limitation};
use crate::processes::{end_processes, processes_below, servers_below};
use crate::session::{Address, Rows, Session};
use crate::settings::{Settings, replace};

/// Loading and checking some GiB may take a while on a slow machine, but not longer.
pub(crate) const LONG: Duration = Duration::from_secs(900);
/// Starting includes replaying the database's log. Arbitrary; `set_start_limit` gives it another.
const START_LIMIT: Duration = Duration::from_secs(180);
/// Stopping includes a last checkpoint.
const STOP_LIMIT: Duration = Duration::from_secs(120);
/// A server that is told to end at once and does not is ended by signals.
const ABANDON_LIMIT: Duration = Duration::from_secs(10);
/// How much longer than its own limit `pg_ctl` may take.
const CONTROL_SLACK: Duration = Duration::from_secs(10);
/// What initdb is told to call the first superuser.
const SUPERUSER: &str = "postgres";
/// Of the server's log in an error, from its end.
const TAIL_LINES: usize = 8;

/// Where a server's files are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The data directory.
    pub data: PathBuf,
    /// The directory of the write-ahead log; `None` is inside the data directory.
    pub wal: Option<PathBuf>,
    /// Directories of tablespaces.
    pub tablespaces: Vec<PathBuf>,
    /// The directory of temporary files; `None` is inside the data directory.
    pub temporary: Option<PathBuf>,
    /// The directory of its socket and of what it says.
    pub socket: PathBuf,
    /// Tells sockets in one directory apart.
    pub port: u16,
}

/// One database server. Dropping it stops the server at once.
pub struct Server {
    pub(crate) installation: Installation,
    pub(crate) places: Places,
    pub(crate) settings: Settings,
    pub(crate) group: Option<Group>,
    pub(crate) limitation: Limitation,
    pub(crate) leftovers: Leftovers,
    is_running: bool,
    /// Who made the database: the superuser that always is there.
    superuser: String,
    /// It listens on its socket alone, whatever its settings say.
    is_private: bool,
    start_limit: Duration,
    /// The data directory without links, as the kernel names it: its processes are found by it, also when
    /// it cannot be read any more.
    work: PathBuf,
}

impl Server {
    /// A server at `places`; nothing is done yet.
    #[must_use]
    pub fn new(installation: &Installation, places: Places, settings: Settings) -> Server {
        let work = places.data.clone();
        Server {
            installation: installation.clone(),
            places,
            work,
            settings,
            group: None,
            limitation: Limitation::NotAsked,
            leftovers: Leftovers::default(),
            is_running: false,
            superuser: SUPERUSER.to_string(),
            is_private: false,
            start_limit: START_LIMIT,
        }
    }

    /// Names the database's first superuser, where that is not `postgres`.
    pub fn set_superuser(&mut self, name: &str) {
        self.superuser = name.to_string();
    }

    /// Has it listen on its socket alone from the next start on, whatever its settings say.
    pub fn set_private(&mut self, is_private: bool) {
        self.is_private = is_private;
    }

    /// How long its start may take, with the replay of its log. `pg_ctl` counts whole seconds.
    pub fn set_start_limit(&mut self, limit: Duration) {
        self.start_limit = limit;
    }

    pub(crate) fn superuser(&self) -> &str {
        &self.superuser
    }

    /// Makes an empty database with checksums, and the directories that it works in.
    ///
    /// # Errors
    /// When a directory cannot be made or holds something already.
    pub fn initialise(&self) -> Result<()> {
        self.make(&["-A", "trust"])
    }

    /// The same; over the network its superuser needs this password. Whoever reaches its socket does not.
    ///
    /// # Errors
    /// When a directory cannot be made or holds something already.
    pub fn initialise_guarded(&self, password: &str) -> Result<()> {
        let file = self.places.socket.join("initial-password");
        self.installation.make_directory(&self.places.socket)?;
        replace(&file, password, self.installation.account)?;
        let shown = format!("--pwfile={}", file.display());
        let made = self.make(&["--auth-local=trust", "--auth-host=scram-sha-256", &shown]);
        fs::remove_file(&file).map_err(|e| Error::io(&format!("remove {}", file.display()), &e))?;
        made
    }

    fn make(&self, authentication: &[&str]) -> Result<()> {
        let Places { data, wal, tablespaces, socket, temporary, .. } = &self.places;
        for directory in [data, socket].into_iter().chain(wal).chain(tablespaces).chain(temporary) {
            self.installation.make_directory(directory)?;
        }
        let mut command = self.installation.program("initdb");
        command.args(["-U", SUPERUSER, "-E", "UTF8", "--no-locale", "--data-checksums"]).args(authentication);
        command.arg("-D").arg(data);
        if let Some(wal) = wal {
            command.arg("-X").arg(wal);
        }
        self.installation.launcher.run(command, LONG)?;
        if let Some(temporary) = temporary {
            links::link_temporary(data, temporary, self.installation.account)?;
        }
        self.settings.write(data, self.installation.account)
    }

    /// Changes the settings from the next start on.
    pub fn set(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Writes them where the server reads them at its start, or when it is told to.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn write_settings(&self) -> Result<()> {
        self.settings.write(&self.places.data, self.installation.account)
    }

    /// Has the server's program say whether it knows a setting and takes a value.
    ///
    /// # Errors
    /// When it does not: with its words.
    pub fn check_setting(&self, name: &str, value: &str) -> Result<()> {
        Settings::new().with(name, value).text()?;
        let mut command = self.installation.program("postgres");
        command.arg("-D").arg(&self.places.data).args(["-C", name, "-c", &format!("{name}={value}")]);
        match self.installation.launcher.run(command, LONG) {
            Ok(_) => Ok(()),
            Err(error) => Err(Error::environment(last_words(&error.to_string(), name))),
        }
    }

    /// What it is started with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Where its files are.
    #[must_use]
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// What it is a server of.
    #[must_use]
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// Whether it was started and neither stopped nor given up since.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.is_running
    }

    fn control(&self, arguments: &[&str], limit: Duration) -> Result<Finished> {
        let mut command = self.installation.program("pg_ctl");
        command.arg("-D").arg(&self.places.data).args(arguments);
        Ok(self.installation.launcher.run(command, limit + CONTROL_SLACK)?)
    }

    /// Starts the server and waits until it answers, which includes replaying its log.
    ///
    /// # Errors
    /// When it does not start: the end of its log is in the message. One that did not answer within its time
    /// is late, and ends when it is dropped.
    pub fn start(&mut self) -> Result<Duration> {
        let Places { data, socket, port, .. } = self.places.clone();
        self.work = fs::canonicalize(&data).map_err(|e| Error::io(&data.display().to_string(), &e))?;
        let others = servers_below(&self.work);
        if !self.is_running && !others.is_empty() {
            let shown = data.display();
            return Err(Error::environment(format!(
                "{shown}: {} processes work in it already",
                others.len()
            )));
        }
        self.settings.write(&data, self.installation.account)?;
        self.installation.make_directory(&socket)?;
        let private = if self.is_private { " -c listen_addresses=" } else { "" };
        let (log, options) = (self.log(), format!("-p {port} -k {}{private}", quoted(&socket)));
        let limit = self.start_limit.as_secs().to_string();
        let words = ["-w", "-s", "-t", &limit, "-o", &options, "start", "-l"].map(OsStr::new);
        let arguments = [&["-D".as_ref(), data.as_os_str()], &words[..], &[log.as_os_str()]].concat();
        self.is_running = true;
        let since = Instant::now();
        let said_before = fs::metadata(&log).map_or(0, |found| found.len());
        let started = self.run_limited("pg_ctl", &arguments, self.start_limit + CONTROL_SLACK);
        match started {
            Ok(finished) => {
                self.leftovers = Leftovers::default();
                Ok(finished.took)
            }
            Err(error) if error.kind == ErrorKind::Interrupted => Err(error),
            Err(_) if since.elapsed() >= self.start_limit => Err(self.late(said_before)),
            Err(error) => Err(self.with_log(error)),
        }
    }

    /// What it said before this start is left out.
    fn late(&self, said_before: u64) -> Error {
        let text = fs::read(self.log()).unwrap_or_default();
        let new = text.get(said_before as usize..).unwrap_or_default();
        let text = String::from_utf8_lossy(new);
        let last = text.lines().rev().find_map(|line| line.split_once("LOG:")).map(|(_, words)| words.trim());
        let last = last.map_or(String::new(), |words| format!("; last it said: {words}"));
        let seconds = self.start_limit.as_secs();
        Error { kind: ErrorKind::Late, context: format!("its server did not start within {seconds} s{last}") }
    }

    fn with_log(&self, error: Error) -> Error {
        let text = fs::read(self.log()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n    ");
        Error { context: format!("{error}\n  its log:\n    {tail}"), ..error }
    }

    /// The server's own log, kept apart from its data: it must survive them.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.places.socket.join("server.log")
    }

    /// Stops the server after a last checkpoint.
    ///
    /// # Errors
    /// When it does not stop: then it still runs.
    pub fn stop(&mut self) -> Result<()> {
        let limit = STOP_LIMIT.as_secs().to_string();
        self.control(&["-w", "-s", "-m", "fast", "-t", &limit, "stop"], STOP_LIMIT)
            .map_err(|error| self.with_log(error))?;
        self.is_running = false;
        Ok(())
    }

    /// Stops the server without a word to its files, which may be gone.
    pub fn abandon(&mut self) {
        if std::mem::replace(&mut self.is_running, false) {
            self.leftovers = Leftovers::of(&self.places.data, &self.work);
            let limit = ABANDON_LIMIT.as_secs().to_string();
            // Ends in an error when the data directory cannot be read any more: signals reach what is left.
            let _ = self.control(&["-w", "-s", "-m", "immediate", "-t", &limit, "stop"], ABANDON_LIMIT);
            end_processes(&self.work, |_| true, &[Signal::QUIT, Signal::KILL]);
            self.group.iter().for_each(Group::end_all);
        }
    }

    /// Kills every process of the server with SIGKILL, as a crash would; it may be started again.
    ///
    /// # Errors
    /// When it does not run, or a process outlives the signal.
    pub fn kill(&mut self) -> Result<()> {
        self.leftovers = Leftovers::of(&self.places.data, &self.work);
        let first = self.postmaster().ok_or_else(|| {
            let data = self.places.data.display();
            Error::command(format!("kill -9 the server in {data}: it does not run"))
        })?;
        // The first process goes first: it would take the end of another for a crash to recover from.
        kill_process(first, Signal::KILL)
            .map_err(|e| Error::io("kill -9 the server's first process", &e.into()))?;
        end_processes(&self.work, |_| true, &[Signal::KILL]);
        let left = processes_below(&self.work);
        if !left.is_empty() {
            let data = self.places.data.display();
            return Err(Error::command(format!("{} processes in {data} outlive SIGKILL", left.len())));
        }
        self.is_running = false;
        self.forget_lock()
    }

    /// The server's first process, if it is there.
    #[must_use]
    pub fn postmaster(&self) -> Option<Pid> {
        let lock = fs::read_to_string(self.places.data.join("postmaster.pid")).ok()?;
        let pid = Pid::from_raw(lock.lines().next()?.trim().parse().ok()?)?;
        processes_below(&self.work).iter().any(|(one, _)| *one == pid).then_some(pid)
    }

    /// Removes the lock files that the dead server could not, of its data and of its socket. PostgreSQL would
    /// see through them itself, unless nobody has collected the dead process yet, as happens in containers
    /// without an init.
    ///
    /// # Errors
    /// When one is there and cannot be removed.
    pub fn forget_lock(&self) -> Result<()> {
        let of_socket = self.places.socket.join(format!(".s.PGSQL.{}.lock", self.places.port));
        for lock in [self.places.data.join("postmaster.pid"), of_socket] {
            match fs::remove_file(&lock) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io(&format!("remove {}", lock.display()), &error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Leaves the server running when the caller ends.
    pub fn leave(mut self) {
        self.is_running = false;
        self.leftovers = Leftovers::default();
        self.group.take().into_iter().for_each(Group::leave);
    }

    /// Where clients find the server.
    #[must_use]
    pub fn address(&self) -> Address {
        self.address_of("postgres")
    }

    /// Where they find one of its databases.
    #[must_use]
    pub fn address_of(&self, database: &str) -> Address {
        let Places { socket, port, .. } = &self.places;
        let (directory, database) = (socket.clone(), database.into());
        match self.superuser.as_str() {
            SUPERUSER => Address::Socket { directory, port: *port, database },
            user => Address::SocketAs { directory, port: *port, database, user: user.into() },
        }
    }

    /// A session in the database `postgres`, which waits long for an answer.
    ///
    /// # Errors
    /// When the server is not there, or refuses.
    pub fn session(&self) -> Result<Session> {
        Session::open(&self.address(), "ashlar", LONG)
    }

    /// Runs statements in a session of their own.
    ///
    /// # Errors
    /// When the server is not there, or refuses.
    pub fn query(&self, statements: &str) -> Result<Rows> {
        self.session()?.run(statements)
    }

    /// Waits until the server answers, as after a crash of one of its processes.
    ///
    /// # Errors
    /// When it does not answer within `limit`: its last words are in the message.
    pub fn wait_until_it_answers(&self, limit: Duration) -> Result<Duration> {
        let start = Instant::now();
        loop {
            let left = limit.saturating_sub(start.elapsed()).max(Duration::from_millis(100));
            let asked =
                Session::open(&self.address(), "ashlar", left).and_then(|mut one| one.run("select 1"));
            match asked {
                Ok(_) => return Ok(start.elapsed()),
                Err(error) if start.elapsed() >= limit => return Err(self.with_log(error)),
                Err(_not_yet) => self.installation.launcher.sleep(Duration::from_millis(20))?,
            }
        }
    }

    /// Makes a tablespace in a directory outside of the data directory.
    ///
    /// # Errors
    /// When the directory cannot be made or the server refuses.
    pub fn create_tablespace(&mut self, name: &str, directory: &Path) -> Result<()> {
        self.installation.make_directory(directory)?;
        let place = directory.display().to_string().replace('\'', "''");
        let name = name.replace('"', "\"\"");
        self.query(&format!("create tablespace \"{name}\" location '{place}'"))?;
        if !self.places.tablespaces.iter().any(|known| known == directory) {
            self.places.tablespaces.push(directory.into());
        }
        Ok(())
    }
}

/// A path as one word of a shell: pg_ctl hands its options to one.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

impl Drop for Server {
    fn drop(&mut self) {
        let launcher = self.installation.launcher.clone();
        let _cleaning = launcher.clean();
        self.abandon();
        self.leftovers.remove();
    }
}

/// What a program said last, without the time and its name.
fn last_words(said: &str, setting: &str) -> String {
    let fatal = said.lines().rev().find_map(|line| line.split_once("FATAL:"));
    fatal.map_or_else(|| format!("setting {setting}: {said}"), |(_, words)| words.trim().to_string())
}
