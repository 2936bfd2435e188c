//! By a dump of one database of a running server, for services that let nobody copy their files.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::server::Asker;
use super::{Survey, programs};
use crate::error::{Error, Result};
use crate::postgres::Postgres;
use crate::progress::Teller;
use crate::site::Site;
use crate::task::Outcome;
use crate::url::Primary;

/// How often the programs are looked after.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Of what a program says.
const WORDS_BYTES_MAX: u64 = 1 << 20;

/// What a program said.
pub(crate) struct Said {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) is_good: bool,
}

/// Runs a program that reads this text, until it ends or somebody asks the work on the site to end.
pub(crate) fn run_with_input(site: &Site, mut command: Command, text: &str) -> Result<Said> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |error: std::io::Error| Error::failed(format!("run {name}: {error}"), "");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let input = child.stdin.take();
    // Of this very process, whoever has its number later.
    let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
    let process = process.map_err(|error| failed(error.into()))?;
    let is_done = AtomicBool::new(false);
    let said = thread::scope(|scope| {
        // One that ends before it has read all says why.
        scope.spawn(move || input.map(|mut input| input.write_all(text.as_bytes())));
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                if site.is_asked_to_end() {
                    let _ended_by_itself = pidfd_send_signal(&process, Signal::TERM);
                }
                thread::sleep(LOOK_INTERVAL);
            }
        });
        let said = child.wait_with_output();
        is_done.store(true, Ordering::Relaxed);
        said
    });
    let said = said.map_err(failed)?;
    if site.is_asked_to_end() {
        return Err(Error::refused(format!("{name} was ended: so was the work that it was for"), ""));
    }
    let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Said { stdout: words(&said.stdout), stderr: words(&said.stderr), is_good: said.status.success() })
}

/// Looks at it. The copy is of the site's version, or of the newest that is installed.
pub(super) fn survey(site: &Site, primary: &Primary) -> Result<Survey> {
    let installation = programs(site, site.major)?;
    let asker = Asker::new(&installation, primary);
    let rows = asker.ask(
        "select current_setting('server_version_num')::int / 10000, pg_database_size(current_database())",
    )?;
    let [major, bytes] = &rows.first().cloned().unwrap_or_default()[..] else {
        return Err(Error::failed(format!("primary {}: it answered something else", asker.shown()), ""));
    };
    let major: u32 = major.parse().unwrap_or(0);
    if major > installation.major() {
        return Err(Error::refused(
            format!(
                "primary {} is of PostgreSQL {major}, and only {} is installed here",
                asker.shown(),
                installation.major()
            ),
            format!("install PostgreSQL {major} or newer, and name it with --version"),
        ));
    }
    Ok(Survey {
        major: installation.major(),
        data_bytes: bytes.parse::<u64>().unwrap_or(0) + (64 << 20),
        log_bytes: 128 << 20,
        superuser: None,
        settings: Vec::new(),
        spaces: Vec::new(),
    })
}

/// Makes an empty database and fills it.
pub(super) fn bring(
    postgres: &mut Postgres,
    primary: &Primary,
    survey: &Survey,
    teller: &mut Teller,
) -> Result<Outcome> {
    use crate::engine::Engine;
    teller.stage("makes an empty database", 0)?;
    postgres.make()?;
    let mut server = postgres.private_server();
    server.start()?;
    crate::postgres::close(&server.places().socket)?;
    let asker = Asker::new(postgres.installation(), primary);
    let rows = asker.ask(
        "select current_database(), pg_encoding_to_char(encoding), datcollate, datctype \
         from pg_database where datname = current_database()",
    )?;
    let [name, encoding, collate, ctype] = &rows.first().cloned().unwrap_or_default()[..] else {
        return Err(Error::failed(format!("primary {}: it answered something else", asker.shown()), ""));
    };
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    if name != "postgres" {
        server.query(&format!(
            "create database \"{}\" template template0 encoding {} lc_collate {} lc_ctype {}",
            name.replace('"', "\"\""),
            quoted(encoding),
            quoted(collate),
            quoted(ctype)
        ))?;
    }
    teller.stage("restores a dump", survey.data_bytes)?;
    let mut dump = asker.client("pg_dump")?;
    dump.args(["-Fc", "--no-password", "--no-owner", "--no-privileges", "-d", &primary.url]);
    let mut restore = server.client("pg_restore");
    restore.args(["--no-owner", "--no-privileges", "--exit-on-error", "-d", name]);
    pipe(dump, restore, &asker, teller)?;
    server.query("vacuum analyze")?;
    server.stop()?;
    let notes = vec![format!(
        "database {name} of it has the dump: roles, passwords and other databases of the source are not in it, \
         everything belongs to the superuser"
    )];
    Ok(Outcome { notes, ..postgres.outcome() })
}

/// Runs one program into another.
fn pipe(mut from: Command, mut to: Command, asker: &Asker, teller: &mut Teller) -> Result<()> {
    let failed = |error: std::io::Error| Error::failed(format!("run pg_dump and pg_restore: {error}"), "");
    for command in [&mut from, &mut to] {
        command.current_dir("/").stderr(Stdio::piped());
    }
    let mut from = Ending(from.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?);
    let output = from.0.stdout.take().map_or_else(Stdio::null, Stdio::from);
    let mut to = Ending(to.stdin(output).stdout(Stdio::null()).spawn().map_err(failed)?);
    let words = [from.0.stderr.take().map(listen), to.0.stderr.take().map(listen)];
    let is_running = |one: &mut Ending| one.0.try_wait().is_ok_and(|status| status.is_none());
    while is_running(&mut from) || is_running(&mut to) {
        teller.look()?;
        thread::sleep(LOOK_INTERVAL);
    }
    let [of_dump, of_restore] = words.map(|heard| heard.and_then(|one| one.join().ok()).unwrap_or_default());
    let is_good = |one: &mut Ending| one.0.wait().is_ok_and(|status| status.success());
    let (is_dumped, is_restored) = (is_good(&mut from), is_good(&mut to));
    // Whichever gave up first has the other give up.
    if !is_dumped && (is_restored || !of_dump.contains("Broken pipe")) {
        return Err(asker.refusal(&of_dump));
    }
    if !is_restored {
        let said = of_restore.lines().find(|line| line.contains("error:")).unwrap_or(&of_restore);
        return Err(Error::refused(
            format!("pg_restore: {}", said.trim_start_matches("pg_restore: ")),
            "install what it misses here (an extension's package, most often), then repeat",
        ));
    }
    Ok(())
}

fn listen(mut from: std::process::ChildStderr) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.by_ref().take(WORDS_BYTES_MAX).read_to_end(&mut bytes);
        // The rest is read so that nobody waits.
        let _ = std::io::copy(&mut from, &mut std::io::sink());
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// A program that ends with this.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
