//! PostgreSQL as an engine.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ashlar_postgres::{
    Account, Adoption, Installation, Limitation, Rows, Search, Server, Session, Waits, end_processes,
    put_before_access_rules, servers_below, take_settings_out,
};
use ashlar_programs::Launcher;
use rustix::process::{Pid, Signal, kill_process};

use crate::care::{Care, care, set_password};
use crate::difference::{self, FileDifference, Named, Pieces};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::import::{self, Source, Survey};
use crate::isolation::stand_apart;
use crate::progress::interrupt_when_asked;
use crate::proof::prove;
use crate::record::{Limits, Role, ServerFound};
use crate::settings;
use crate::site::Site;
use crate::standby::{self, Standing};
use crate::take_back;
use crate::task::Outcome;
use crate::tls;
use crate::waits;

/// Where the superuser's password is on the volume of data: it goes along with snapshots and clones.
const PASSWORD: &str = "ashlar-password";
const PASSWORD_BYTES: usize = 18;
/// How long what was killed may take to be gone. Arbitrary.
const END_MAX: Duration = Duration::from_secs(5);
const END_POLL: Duration = Duration::from_millis(5);
/// What a server that was its source leaves in a copy and must not go on in it: slots hold back the log for
/// readers that do not come, and the last two make a standby.
const SLOTS: &str = "pg_replslot";
const LEFT_BY_SOURCE: [&str; 3] = ["postmaster.opts", "standby.signal", "recovery.signal"];

/// How long a checkpoint may take that somebody waits for. Arbitrary.
const CHECKPOINT_MAX: Duration = Duration::from_secs(600);
/// How long a question may take.
const ASK_MAX: Duration = Duration::from_secs(60);

/// A session in a database, whatever that says of how long its sessions may work.
pub(crate) fn session_in(server: &Server, database: &str) -> Result<Session> {
    let mut session = Session::open(&server.address_of(database), "ashlar", ASK_MAX)?;
    session.run("set statement_timeout = 0")?;
    Ok(session)
}

/// Asks a running server, in the one database that every server has.
pub(crate) fn ask(server: &Server, statement: &str) -> Result<Rows> {
    Ok(session_in(server, "template1")?.run(statement)?)
}

/// A PostgreSQL server at a site.
pub struct Postgres {
    site: Site,
    installation: Installation,
    /// The programs that it runs end when this is set.
    is_interrupted: Arc<AtomicBool>,
}

impl Postgres {
    /// Finds the programs of the site's version.
    pub fn at(site: &Site) -> Result<Postgres> {
        let is_interrupted = Arc::new(AtomicBool::new(false));
        let installation = programs_until(site, site.major, &is_interrupted)?;
        Ok(Postgres { site: site.clone(), installation, is_interrupted })
    }

    pub(crate) fn server(&self) -> Server {
        let mut server = Server::new(
            &self.installation,
            self.site.places(),
            settings::settings(&self.site, self.installation.major()),
        );
        server.set_superuser(&self.site.superuser);
        if let Some(seconds) = self.site.start_timeout_seconds {
            server.set_start_limit(Duration::from_secs(seconds));
        }
        server
    }

    /// The same, which nobody reaches over the network.
    pub(crate) fn private_server(&self) -> Server {
        let mut server = self.server();
        server.set_private(true);
        server
    }

    pub(crate) fn site(&self) -> &Site {
        &self.site
    }

    pub(crate) fn installation(&self) -> &Installation {
        &self.installation
    }

    pub(crate) fn outcome(&self) -> Outcome {
        let (user, group) = self.installation.owner().unwrap_or_default();
        let found = ServerFound {
            programs: self.installation.directory().display().to_string(),
            account: Account::name_of(user).unwrap_or_else(|| user.to_string()),
            user,
            group,
        };
        Outcome { major: self.installation.major(), server: Some(found), ..Outcome::default() }
    }

    fn data(&self) -> PathBuf {
        self.site.places().data
    }

    /// Only a running server can make them.
    fn make_tablespaces(&self) -> Result<()> {
        let tablespaces = self.site.tablespaces();
        if tablespaces.is_empty() {
            return Ok(());
        }
        let mut server = self.server();
        server.start()?;
        for (name, files) in tablespaces {
            server.create_tablespace(&name, &files)?;
        }
        Ok(server.stop()?)
    }

    /// Where the password is that belongs to the files beside it.
    pub(crate) fn password_on_volume(&self) -> PathBuf {
        self.site.mount(&Role::Data).join(PASSWORD)
    }

    /// Where the server finds the password of its primary.
    pub(crate) fn pass_file(&self) -> PathBuf {
        self.site.mount(&Role::Data).join(standby::PASS_FILE)
    }

    /// Hands a file over to the server's account.
    pub(crate) fn give(&self, path: &Path) -> Result<()> {
        let Some((user, group)) = self.installation.owner() else { return Ok(()) };
        std::os::unix::fs::lchown(path, Some(user), Some(group))
            .map_err(|error| failed("give away", path, &error))
    }

    /// Lets the array and those with the superuser's password in.
    pub(crate) fn let_in(&self, superuser: &str) -> Result<()> {
        Ok(put_before_access_rules(&self.data(), self.installation.account, superuser)?)
    }

    /// Makes files that were brought in the database's own.
    pub(crate) fn adopt_import(&self) -> Result<()> {
        self.forget_source()?;
        self.server().adopt(&Adoption::default())?;
        Ok(())
    }

    /// Makes what was written to its volumes durable.
    pub(crate) fn sync(&self) -> Result<()> {
        for role in &self.site.roles {
            let mount = self.site.mount(role);
            let sync = || rustix::fs::syncfs(File::open(&mount)?).map_err(io::Error::from);
            sync().map_err(|error| failed("make durable", &mount, &error))?;
        }
        Ok(())
    }

    /// Where a tablespace lies that is not on the database's own volumes: a log that was replayed made it.
    fn foreign_tablespace(&self) -> Option<PathBuf> {
        let links = fs::read_dir(self.data().join("pg_tblspc")).into_iter().flatten().flatten();
        let mut targets = links.filter_map(|link| fs::read_link(link.path()).ok());
        targets.find(|target| !target.starts_with(&self.site.directory))
    }

    /// Removes what a server that was the source of these files left in them.
    fn forget_source(&self) -> Result<()> {
        let data = self.data();
        for name in LEFT_BY_SOURCE {
            remove_file(&data.join(name))?;
        }
        let slots = data.join(SLOTS);
        if fs::symlink_metadata(&slots).is_ok_and(|found| found.file_type().is_symlink()) {
            let what = format!("{} is a link: what it leads to is not the copy's", slots.display());
            return Err(Error::refused(what, "make it a directory in the source, then repeat"));
        }
        for slot in fs::read_dir(slots).into_iter().flatten().flatten() {
            fs::remove_dir_all(slot.path()).map_err(|error| failed("remove", &slot.path(), &error))?;
        }
        Ok(())
    }

    /// The password on the volume is the one that counts: it belongs to the files beside it.
    fn copy_password(&self) -> Result<()> {
        let (from, to) = (self.site.mount(&Role::Data).join(PASSWORD), self.site.password_file());
        match fs::read_to_string(&from) {
            Ok(text) => write_secret(&to, &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => remove_file(&to),
            Err(error) => Err(failed("read", &from, &error)),
        }
    }
}

impl Engine for Postgres {
    fn programs(&self) -> Outcome {
        self.outcome()
    }

    fn make(&mut self) -> Result<()> {
        let password = new_password().map_err(|error| failed("read", Path::new("/dev/urandom"), &error))?;
        write_secret(&self.site.mount(&Role::Data).join(PASSWORD), &password)?;
        self.server().initialise_guarded(&password)?;
        self.make_tablespaces()?;
        close(&self.site.places().socket)?;
        self.copy_password()
    }

    fn adopt(&mut self, from: &Path) -> Result<()> {
        self.forget_source()?;
        // A clone of a standby knows its primary's password no more than the primary.
        remove_file(&self.pass_file())?;
        tls::forget(&self.site)?;
        take_settings_out(&self.data(), self.installation.account, |name, _| settings::is_of_source(name))?;
        let moves = vec![(from.to_path_buf(), self.site.directory.clone())];
        self.server().adopt(&Adoption { moves, shared: Vec::new() })?;
        Ok(())
    }

    fn start(&mut self) -> Result<Outcome> {
        self.copy_password()?;
        let mut outcome = self.programs();
        if self.site.follows.is_some() {
            standby::copy_pass_file(self)?;
        }
        let mut server = self.server();
        if server.postmaster().is_some() {
            return Ok(outcome);
        }
        if servers_below(&self.data()).is_empty() {
            server.forget_lock()?;
        }
        if let Err(error) = stand_apart() {
            outcome
                .notes
                .push(format!("its processes are not kept apart from those of other servers: {error}"));
        }
        if let Some(Limits { memory_bytes, cores }) = self.site.limits {
            server.limit(&ashlar_postgres::Limits { memory_bytes, cores, cpuset: None })?;
        }
        outcome.start_millis = server.start()?.as_millis() as u64;
        if self.site.is_clone
            && let Some(link) = self.foreign_tablespace()
        {
            server.abandon();
            let what = format!("its log names a tablespace outside of its volumes, {}", link.display());
            let action =
                "take a newer snapshot of the source, which is refused for that, or drop the tablespace";
            return Err(Error::refused(what, action));
        }
        if let Limitation::NotLimited(why) = server.limitation() {
            outcome.notes.push(format!("its memory and processors are not limited: {why}"));
        }
        close(&self.site.places().socket)?;
        server.leave();
        Ok(outcome)
    }

    fn stop(&mut self) -> Result<()> {
        let mut server = self.server();
        if server.postmaster().is_some() {
            server.stop()?;
        }
        Ok(())
    }

    fn check_settings(&mut self) -> Result<()> {
        settings::check(&self.server(), &self.site)
    }

    fn take_settings(&mut self) -> Result<Vec<String>> {
        settings::take(&self.server())
    }

    fn waiting_settings(&mut self) -> Result<Vec<String>> {
        settings::waiting(&self.server())
    }

    fn prove(&mut self) -> Result<Outcome> {
        let _watch = interrupt_when_asked(&self.site, &self.is_interrupted);
        let proven = prove(self.server(), self.programs());
        if self.site.is_asked_to_end() {
            return Err(Error::refused("its proof was ended before it was done", "begin it again"));
        }
        proven
    }

    fn checkpoint(&mut self) -> Result<()> {
        let address = self.server().address_of("template1");
        let mut session = Session::open(&address, "ashlar", CHECKPOINT_MAX)?;
        session.run("set statement_timeout = 0")?;
        session.run("checkpoint")?;
        Ok(())
    }

    fn recover(&mut self) -> Result<()> {
        difference::recover(self)
    }

    fn take_back(&mut self) -> Result<()> {
        take_back::take_back(self)
    }

    fn compare(&self, other: &Site, changed: &[Pieces]) -> Result<Vec<FileDifference>> {
        difference::compare(&self.site, other, changed)
    }

    fn name_files(&mut self, stems: &BTreeSet<String>) -> Result<Vec<Named>> {
        difference::name_files(self, stems)
    }

    fn bring(&mut self, source: &Source, survey: &Survey) -> Result<Outcome> {
        import::bring(self, source, survey)
    }

    fn care(&mut self, wanted: &Care) -> Result<()> {
        care(self, wanted)
    }

    fn give_password(&mut self) -> Result<()> {
        if self.site.password().is_some() {
            return Ok(());
        }
        let password = new_password().map_err(|error| failed("read", Path::new("/dev/urandom"), &error))?;
        set_password(&self.server(), &password)?;
        write_secret(&self.password_on_volume(), &password)?;
        self.copy_password()
    }

    fn standing(&self) -> Result<Standing> {
        standby::standing(&self.server())
    }

    fn waits(&self, millis: u64) -> Result<Waits> {
        waits::waits(&self.server(), millis)
    }

    fn promote(&mut self) -> Result<()> {
        standby::promote(&self.server())
    }

    fn leave_primary(&mut self) -> Result<()> {
        standby::leave_primary(self)
    }
}

/// Ends a database's server and whatever programs work for it. Needs none of its programs, which may be gone.
pub(crate) fn end_all(site: &Site) -> Result<()> {
    let data = site.places().data;
    let account = ashlar_postgres::Account::choose()?;
    end_processes(&data, |_| true, &[Signal::QUIT, Signal::KILL]);
    // Programs that a process started which was killed meanwhile: initdb, pg_ctl, pg_basebackup.
    let end = Instant::now() + END_MAX;
    while Instant::now() < end {
        let left = naming(&data, account.map_or(0, |account| account.user));
        if left.is_empty() {
            break;
        }
        for one in left {
            // It may have ended since.
            let _ = kill_process(one, Signal::KILL);
        }
        std::thread::sleep(END_POLL);
    }
    Ok(())
}

/// The programs of a major version, or the newest.
pub(crate) fn programs(site: &Site, major: Option<u32>) -> Result<Installation> {
    programs_until(site, major, &Arc::new(AtomicBool::new(false)))
}

/// The same; what they run ends when this is set.
fn programs_until(site: &Site, major: Option<u32>, is_interrupted: &Arc<AtomicBool>) -> Result<Installation> {
    let words = site.places().socket.join("programs");
    fs::create_dir_all(&words).map_err(|error| failed("make", &words, &error))?;
    let launcher = Arc::new(Launcher::new(PathBuf::from("/"), words, is_interrupted.clone()));
    Installation::find(&launcher, &Search { directory: None, major }).map_err(|error| {
        let action = "install it (on Debian: apt-get install postgresql), or name another with --version";
        Error::refused(error.to_string(), action)
    })
}

/// The processes of a user whose command line names a directory, or something in it.
fn naming(directory: &Path, user: u32) -> Vec<Pid> {
    let name = directory.as_os_str().as_encoded_bytes();
    let names = |pid: &Pid| {
        let is_of_user = |found: fs::Metadata| found.uid() == user;
        if !fs::metadata(format!("/proc/{}", pid.as_raw_nonzero())).is_ok_and(is_of_user) {
            return false;
        }
        let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
        line.windows(name.len()).any(|words| words == name)
    };
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    pids.filter(names).collect()
}

/// Who reaches the socket is the superuser without a password: only the server's account and root do.
pub(crate) fn close(directory: &Path) -> Result<()> {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700))
        .map_err(|error| failed("close", directory, &error))
}

/// Letters and digits, which need no quotes in a connection string.
pub(crate) fn new_password() -> io::Result<String> {
    let mut bytes = [0; PASSWORD_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let letters: Vec<char> = ('a'..='z').chain('A'..='Z').chain('0'..='9').collect();
    Ok(bytes.iter().map(|byte| letters[usize::from(*byte) % letters.len()]).collect())
}

pub(crate) fn write_secret(path: &Path, text: &str) -> Result<()> {
    let write = || {
        let mut options = File::options();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(|error| failed("write", path, &error))
}

pub(crate) fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path, &error)),
        _ => Ok(()),
    }
}

pub(crate) fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::failed(format!("{what} {}: {error}", path.display()), "")
}
