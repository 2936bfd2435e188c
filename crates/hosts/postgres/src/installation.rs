//! The PostgreSQL of this machine: every version that is installed, and the one to use.
//!
//! Looked for in a directory that the caller names (a wheel unpacked, a build of one's own), or else where
//! Debian keeps each major version, where PATH's `pg_config` points, and in `/opt/postgresql/MAJOR`: those
//! are for comparisons, and not chosen while there is another.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use ashlar_programs::Launcher;

use crate::account::Account;
use crate::error::{Error, Result};

/// The programs that this crate runs.
pub const PROGRAMS: [&str; 6] = ["initdb", "pg_ctl", "postgres", "pgbench", "pg_amcheck", "pg_checksums"];
/// Versions before it have no pg_amcheck, and views of other shapes.
pub const MAJOR_MIN: u32 = 14;
/// Where Debian keeps the programs of each version.
const HOMES: &str = "/usr/lib/postgresql";
/// Where versions are that are there to be compared with: no package of the distribution puts any there.
const BESIDE: &str = "/opt/postgresql";
/// A program asked for its version answers at once.
const VERSION_LIMIT: Duration = Duration::from_secs(20);
/// Fetching and installing the distribution's packages.
const INSTALL_LIMIT: Duration = Duration::from_secs(900);

/// Where to look, and for what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// The directory that holds the programs, or the one above it: then nowhere else is looked.
    pub directory: Option<PathBuf>,
    /// Only this major version.
    pub major: Option<u32>,
}

/// Programs of PostgreSQL in one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where they are.
    pub directory: PathBuf,
    /// The first number of the version.
    pub major: u32,
    /// As the server tells it: `15.6`.
    pub version: String,
    /// Which of [`PROGRAMS`] are not there.
    pub missing: Vec<String>,
    /// Where their libraries are, if they do not know it themselves.
    library: Option<PathBuf>,
}

/// An installed PostgreSQL that can be used.
#[derive(Clone)]
pub struct Installation {
    pub(crate) launcher: Arc<Launcher>,
    found: Found,
    /// Who its programs run as; `None` is the caller itself.
    pub account: Option<Account>,
}

impl Installation {
    /// Every version found, the newest first, whether it is complete or not.
    ///
    /// # Errors
    /// When the directory given holds none that runs.
    pub fn all(launcher: &Launcher, search: &Search) -> Result<Vec<Found>> {
        look(launcher, search).map(|(found, _)| found)
    }

    /// The newest version that has all the programs.
    ///
    /// # Errors
    /// When there is none: what was found and what it lacks is in the message, or why none of it runs.
    pub fn find(launcher: &Arc<Launcher>, search: &Search) -> Result<Installation> {
        let (found, broken) = look(launcher, search)?;
        let usable = found.iter().filter(|one| one.is_usable());
        // The first of those that are equal, which is the newest.
        match usable.min_by_key(|one| one.directory.starts_with(BESIDE)) {
            Some(one) => Installation::of(launcher, one),
            None => match broken.into_iter().next().filter(|_| found.is_empty()) {
                Some(error) => Err(error),
                None => Err(Error::environment(nothing_usable(&found, search))),
            },
        }
    }

    /// One that was found.
    ///
    /// # Errors
    /// When there is no account that it may run under.
    pub fn of(launcher: &Arc<Launcher>, found: &Found) -> Result<Installation> {
        Ok(Installation { launcher: launcher.clone(), found: found.clone(), account: Account::choose()? })
    }

    /// The same; where none is found and none was named, installs the distribution's. Tells whether it did.
    ///
    /// # Errors
    /// When there is none and it cannot be installed.
    pub fn ensure(launcher: &Arc<Launcher>, search: &Search) -> Result<(Installation, bool)> {
        // Without an account nothing that could be installed would run.
        Account::choose()?;
        match Self::find(launcher, search) {
            Ok(installation) => Ok((installation, false)),
            Err(error) if search.directory.is_some() || search.major.is_some() => Err(error),
            Err(_none) => {
                install(launcher)?;
                Ok((Self::find(launcher, search)?, true))
            }
        }
    }

    /// The first number of its version.
    #[must_use]
    pub fn major(&self) -> u32 {
        self.found.major
    }

    /// Its version as it tells it: `15.6`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.found.version
    }

    /// Where its programs are.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.found.directory
    }

    /// User and group that its data must belong to, when they are not the caller's own.
    #[must_use]
    pub fn owner(&self) -> Option<(u32, u32)> {
        self.account.map(|account| (account.user, account.group))
    }

    /// One of its programs, to be run under its account.
    #[must_use]
    pub fn program(&self, name: &str) -> Command {
        self.found.program(self.account, name)
    }

    /// The same, run as the caller: it only reads, and what it reads may be another account's.
    #[must_use]
    pub fn program_as_caller(&self, name: &str) -> Command {
        self.found.program(None, name)
    }

    /// What its programs are started with.
    #[must_use]
    pub fn launcher(&self) -> &Arc<Launcher> {
        &self.launcher
    }

    /// The same, but it waits to be told to go on (SIGCONT) before it begins.
    pub(crate) fn paused_program(&self, name: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "kill -STOP $$; exec \"$@\"", "sh"]).arg(self.found.directory.join(name));
        self.found.prepare(self.account, &mut command);
        command
    }

    /// Makes a directory that PostgreSQL may work in.
    ///
    /// # Errors
    /// When it cannot be made or given to the account.
    pub fn make_directory(&self, path: &Path) -> Result<()> {
        fs::create_dir_all(path).map_err(|e| Error::io(&format!("create {}", path.display()), &e))?;
        self.account.map_or(Ok(()), |account| account.own(path))
    }
}

impl Found {
    /// It has all the programs, and is not too old.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.missing.is_empty() && self.major >= MAJOR_MIN
    }

    /// Orders versions: `15.10` is newer than `15.9`.
    fn key(&self) -> (u32, Vec<u32>) {
        let parts = self.version.split('.').map(|part| part.parse().unwrap_or(0));
        (self.major, parts.collect())
    }

    fn program(&self, account: Option<Account>, name: &str) -> Command {
        let mut command = Command::new(self.directory.join(name));
        self.prepare(account, &mut command);
        command
    }

    fn prepare(&self, account: Option<Account>, command: &mut Command) {
        // Settings of the user's own servers are not for ours.
        for name in ["PGDATA", "PGPORT", "PGHOST", "PGUSER", "PGDATABASE", "PGOPTIONS", "PGSERVICE"] {
            command.env_remove(name);
        }
        command.env("LC_ALL", "C");
        if let Some(library) = &self.library {
            command.env("LD_LIBRARY_PATH", library);
        }
        if let Some(account) = account {
            account.apply(command);
            // The caller's home is not the account's, which looks there for certificates and passwords.
            command.env_remove("HOME");
        }
    }
}

/// Every version found, the newest first, and why there is none where one seems to be.
fn look(launcher: &Launcher, search: &Search) -> Result<(Vec<Found>, Vec<Error>)> {
    let account = Account::choose()?;
    let (mut found, mut broken) = (Vec::new(), Vec::new());
    match &search.directory {
        Some(given) => found.push(given_home(launcher, account, given)?),
        // What does not even tell its version is not an installation.
        None => homes(launcher).iter().for_each(|home| match found_in(launcher, account, home) {
            Ok(one) => found.push(one),
            Err(error) => broken.push(error),
        }),
    }
    found.retain(|one| search.major.is_none_or(|major| major == one.major));
    found.sort_by_key(|one| std::cmp::Reverse(one.key()));
    Ok((found, broken))
}

/// Directories in which PostgreSQL may be, each once.
fn homes(launcher: &Launcher) -> Vec<PathBuf> {
    let mut homes = Vec::new();
    for entries in [HOMES, BESIDE].into_iter().filter_map(|home| fs::read_dir(home).ok()) {
        homes.extend(entries.flatten().map(|entry| entry.path().join("bin")));
    }
    let mut configuration = Command::new("pg_config");
    configuration.arg("--bindir");
    // Most machines have no pg_config: it comes with the files for developers.
    if let Ok(finished) = launcher.run(configuration, VERSION_LIMIT) {
        homes.push(PathBuf::from(finished.stdout.trim()));
    }
    homes.retain(|home| home.join("postgres").is_file());
    homes.iter_mut().for_each(|home| *home = fs::canonicalize(&home).unwrap_or_else(|_| home.clone()));
    homes.sort();
    homes.dedup();
    homes
}

/// The programs below a directory that the caller named.
fn given_home(launcher: &Launcher, account: Option<Account>, given: &Path) -> Result<Found> {
    // The launcher works elsewhere, so the name must not depend on where the caller is.
    let given = std::path::absolute(given).map_err(|e| Error::io(&given.display().to_string(), &e))?;
    let homes = [given.clone(), given.join("bin")];
    let home = homes.iter().find(|home| home.join("postgres").is_file()).ok_or_else(|| {
        let shown = given.display();
        Error::environment(format!("{shown}: no PostgreSQL there, name the directory that holds `postgres`"))
    })?;
    found_in(launcher, account, home)
}

/// What is in a directory, if its programs run.
fn found_in(launcher: &Launcher, account: Option<Account>, home: &Path) -> Result<Found> {
    let missing = PROGRAMS.iter().filter(|name| !home.join(name).is_file()).map(|name| name.to_string());
    let mut found = Found {
        directory: home.into(),
        major: 0,
        version: String::new(),
        missing: missing.collect(),
        library: None,
    };
    let mut told = tell_version(launcher, account, &found);
    // Relocatable packages bring their libraries along. Most programs find them by themselves; for the others
    // the way is shown, but only then: a package's libraries are not for the shells and tools of the machine.
    let library = home.parent().map(|above| above.join("lib")).filter(|library| library.is_dir());
    if told.as_ref().is_err_and(|error| error.context.contains("shared librar")) && library.is_some() {
        found.library = library;
        told = tell_version(launcher, account, &found);
    }
    let version = told.map_err(|error| unusable(home, account, &error))?;
    found.major = version.split(|c: char| !c.is_ascii_digit()).next().unwrap_or("").parse().unwrap_or(0);
    found.version = version;
    Ok(found)
}

/// The version that `postgres` tells; the client programs, which need more libraries, must run as well.
fn tell_version(launcher: &Launcher, account: Option<Account>, found: &Found) -> Result<String> {
    let ask = |name: &str| {
        let mut command = found.program(account, name);
        command.arg("--version");
        launcher.run(command, VERSION_LIMIT)
    };
    for client in ["initdb", "pgbench"] {
        if !found.missing.iter().any(|missing| missing == client) {
            ask(client)?;
        }
    }
    Ok(version_in(&ask("postgres")?.stdout).to_string())
}

/// `15.6` of `postgres (PostgreSQL) 15.6 (Debian 15.6-0+deb12u1)`.
pub(crate) fn version_in(told: &str) -> &str {
    told.split_whitespace().nth(2).unwrap_or("?")
}

fn unusable(home: &Path, account: Option<Account>, error: &Error) -> Error {
    let hint = match account {
        Some(account) if error.context.contains("ermission denied") => format!(
            ": user {} must be able to reach it (chmod a+rx it and what is above, or move it below /opt)",
            account.user
        ),
        _ => String::new(),
    };
    Error::environment(format!("PostgreSQL in {} does not run: {error}{hint}", home.display()))
}

fn nothing_usable(found: &[Found], search: &Search) -> String {
    let wanted = match search.major {
        Some(major) => format!("PostgreSQL {major}"),
        None => format!("PostgreSQL {MAJOR_MIN} or newer"),
    };
    let place = search.directory.as_deref().unwrap_or(Path::new(HOMES)).display();
    let mut text = format!("{wanted} is needed below {place}, with {}", PROGRAMS.join(", "));
    for one in found {
        let lack = if one.missing.is_empty() {
            "is too old".to_string()
        } else {
            format!("lacks {}", one.missing.join(", "))
        };
        text.push_str(&format!("; {} in {} {lack}", one.version, one.directory.display()));
    }
    text
}

/// Installs the distribution's packages.
fn install(launcher: &Launcher) -> Result<()> {
    let hint = "install PostgreSQL 14 or newer (on Debian: apt-get install postgresql) and run again";
    if !Path::new("/usr/bin/apt-get").is_file() {
        return Err(Error::environment(format!("PostgreSQL is missing and this is not Debian: {hint}")));
    }
    // The package would make and start a database of its own, which nobody asked for.
    let choice = Path::new("/etc/postgresql-common/createcluster.conf");
    if !choice.exists() {
        fs::create_dir_all("/etc/postgresql-common").map_err(|e| Error::io("/etc/postgresql-common", &e))?;
        fs::write(choice, "create_main_cluster = false\n")
            .map_err(|e| Error::io("createcluster.conf", &e))?;
    }
    let get = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        launcher.run(command, INSTALL_LIMIT)
    };
    let packages = ["install", "-y", "-q", "--no-install-recommends", "postgresql"];
    if get(&packages).is_err() {
        get(&["update", "-q"]).and_then(|_| get(&packages)).map_err(|error| {
            Error::environment(format!("PostgreSQL is missing and apt-get cannot fetch it: {hint}\n{error}"))
        })?;
    }
    Ok(())
}
