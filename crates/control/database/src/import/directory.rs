//! From the data directory of a stopped server of this machine.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use ashlar_postgres::{Installation, processes_below};

use super::{Survey, failed, programs_of, settings, spaces};
use crate::error::{Error, Result};
use crate::postgres::Postgres;
use crate::progress::Teller;
use crate::site::Site;
use crate::task::Outcome;

/// What a server that runs leaves there, and what it makes anew at its start.
const LEFT_OUT: [&str; 4] = ["postmaster.pid", "postmaster.opts", "pg_stat_tmp", "pg_replslot"];
const PIECE_BYTES: usize = 1 << 20;
/// Directories within each other. Arbitrary: PostgreSQL has four.
const DEPTH_MAX: u32 = 32;

/// Looks at it.
pub(super) fn survey(site: &Site, path: &Path, configuration: Option<&Path>) -> Result<Survey> {
    let shown = path.display();
    let path = fs::canonicalize(path)
        .map_err(|error| Error::refused(format!("directory {shown}: {error}"), "check the path"))?;
    let version = fs::read_to_string(path.join("PG_VERSION")).map_err(|error| {
        let action = "name the directory that holds PG_VERSION, base and global";
        Error::refused(format!("{shown} is no data directory of PostgreSQL: PG_VERSION: {error}"), action)
    })?;
    let major = version.trim().parse::<u32>().map_err(|_| {
        let what = format!("{shown} is of PostgreSQL {}, which is too old", version.trim());
        Error::refused(
            what,
            "upgrade it with pg_upgrade, or import it with --logical from its running server",
        )
    })?;
    check_stopped(&path)?;
    let installation = programs_of(site, major, &shown.to_string())?;
    check_shut_down(&installation, &path)?;
    settings::find_files(&path, configuration, major)?;
    let spaces = spaces::of_links(site, &path, |location| bytes_below(location, 0))?;
    let log_bytes = bytes_below(&path.join("pg_wal"), 0)?;
    let in_spaces: u64 = spaces.iter().filter_map(|space| space.bytes).sum();
    let data_bytes = bytes_below(&path, 0)?.saturating_sub(log_bytes + in_spaces);
    Ok(Survey { major, data_bytes, log_bytes, spaces, ..Survey::default() })
}

/// Nobody works there.
fn check_stopped(path: &Path) -> Result<()> {
    let lock = fs::read_to_string(path.join("postmaster.pid")).unwrap_or_default();
    let first = lock.lines().next().and_then(|line| line.trim().parse::<u32>().ok());
    let is_server = |pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        ["postgres", "postmaster"].contains(&name.trim())
    };
    if !processes_below(path).is_empty() || first.as_ref().is_some_and(is_server) {
        return Err(Error::refused(
            format!("a server works in {}", path.display()),
            "stop it first, or import it while it runs with --from postgres://USER:PASSWORD@HOST:PORT/DATABASE",
        ));
    }
    Ok(())
}

/// Its last server ended in order.
fn check_shut_down(installation: &Installation, path: &Path) -> Result<()> {
    let mut command = installation.program_as_caller("pg_controldata");
    command.arg("-D").arg(path);
    let said = command.output().map_err(|error| failed("run pg_controldata on", path, &error))?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let state = text.lines().find_map(|line| line.strip_prefix("Database cluster state:"));
    let shown = path.display();
    match state.map(str::trim) {
        Some("shut down") => Ok(()),
        Some(state @ "shut down in recovery") => Err(Error::refused(
            format!("{shown} is of a standby ({state})"),
            "promote it first, or use `ashlar database follow` with its primary",
        )),
        Some(state) => Err(Error::refused(
            format!("the server of {shown} was not shut down in order: {state}"),
            "start it once and stop it: pg_ctl stop -m fast",
        )),
        None => {
            let why = String::from_utf8_lossy(&said.stderr).trim().to_string();
            Err(Error::refused(format!("pg_controldata cannot read {shown}: {why}"), "check the directory"))
        }
    }
}

/// Bytes of the files below a directory, links followed.
fn bytes_below(directory: &Path, depth: u32) -> Result<u64> {
    check_depth(directory, depth)?;
    let entries = fs::read_dir(directory).map_err(|error| failed("read", directory, &error))?;
    let mut bytes = 0;
    for entry in entries {
        let path = entry.map_err(|error| failed("read", directory, &error))?.path();
        // A link that leads nowhere is told of when it is copied.
        let Ok(found) = fs::metadata(&path) else { continue };
        if found.is_dir() {
            bytes += bytes_below(&path, depth + 1)?;
        } else if found.is_file() {
            // A block that is written in part takes a whole one.
            bytes += found.len().next_multiple_of(4096);
        }
    }
    Ok(bytes)
}

fn check_depth(directory: &Path, depth: u32) -> Result<()> {
    if depth <= DEPTH_MAX {
        return Ok(());
    }
    Err(Error::refused(
        format!("{}: directories are {DEPTH_MAX} deep: does a link lead back?", directory.display()),
        "remove that link",
    ))
}

/// Copies it, and makes it a database of ours.
pub(super) fn bring(
    postgres: &mut Postgres,
    path: &Path,
    configuration: Option<&Path>,
    survey: &Survey,
    teller: &mut Teller,
) -> Result<Outcome> {
    let path = fs::canonicalize(path).map_err(|error| failed("find", path, &error))?;
    check_stopped(&path)?;
    let (places, log) = (postgres.site().places(), postgres.site().log());
    let owner = postgres.installation().owner();
    let in_spaces: u64 = survey.spaces.iter().filter_map(|space| space.bytes).sum();
    teller.stage("copies the directory", survey.data_bytes + survey.log_bytes + in_spaces)?;
    let mut copy = Copy { owner, teller, left_out: vec![path.join("pg_wal")] };
    copy.left_out.extend(LEFT_OUT.iter().map(|name| path.join(name)));
    let links = path.join(spaces::LINKS);
    copy.left_out.extend(survey.spaces.iter().map(|space| links.join(&space.link)));
    copy.directory(&path, &places.data, 0)?;
    for name in ["pg_stat_tmp", "pg_replslot"] {
        copy.make_directory(&places.data.join(name))?;
    }
    let link = places.data.join("pg_wal");
    copy.directory(&path.join("pg_wal"), log.as_deref().unwrap_or(&link), 0)?;
    if let Some(log) = &log {
        symlink(log, &link).map_err(|error| failed("link", &link, &error))?;
        copy.own(&link)?;
    }
    for space in &survey.spaces {
        let (files, link) = (space.files(postgres.site()), places.data.join(spaces::LINKS).join(&space.link));
        copy.directory(&space.location, &files, 0)?;
        symlink(&files, &link).map_err(|error| failed("link", &link, &error))?;
        copy.own(&link)?;
    }
    // A server that was started meanwhile has changed what was copied.
    check_stopped(&path)?;
    check_shut_down(postgres.installation(), &path)?;
    let files = settings::find_files(&path, configuration, survey.major)?;
    settings::copy_files(&places.data, &files, &mut |from, to| copy.file(from, to))?;
    copy.teller.stage("makes it a database of its own", 0)?;
    let notes = settings::take_over(postgres, true)?;
    // Before any program reads its settings: they may name the source.
    postgres.adopt_import()?;
    let superuser = first_superuser(postgres, &places.data)?;
    postgres.let_in(&superuser)?;
    postgres.sync()?;
    Ok(Outcome { superuser: Some(superuser), notes, ..postgres.outcome() })
}

/// A copy under way.
struct Copy<'a> {
    owner: Option<(u32, u32)>,
    teller: &'a mut Teller,
    left_out: Vec<PathBuf>,
}

impl Copy<'_> {
    fn directory(&mut self, from: &Path, to: &Path, depth: u32) -> Result<()> {
        check_depth(from, depth)?;
        self.make_directory(to)?;
        let entries = fs::read_dir(from).map_err(|error| failed("read", from, &error))?;
        for entry in entries {
            let entry = entry.map_err(|error| failed("read", from, &error))?;
            let (path, to) = (entry.path(), to.join(entry.file_name()));
            if self.left_out.contains(&path) || entry.file_name().to_string_lossy().starts_with("pgsql_tmp") {
                continue;
            }
            let found = fs::metadata(&path).map_err(|error| failed("look at", &path, &error))?;
            if found.is_dir() {
                self.directory(&path, &to, depth + 1)?;
            } else if found.is_file() {
                self.file(&path, &to)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, from: &Path, to: &Path) -> Result<()> {
        let mut source = File::open(from).map_err(|error| failed("read", from, &error))?;
        let mut options = File::options();
        let mut target = options.write(true).create(true).truncate(true).mode(0o600).open(to);
        let target = target.as_mut().map_err(|error| failed("write", to, error))?;
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let bytes = match source.read(&mut piece) {
                Ok(0) => break,
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed("read", from, &error)),
            };
            target.write_all(&piece[..bytes]).map_err(|error| failed("write", to, &error))?;
            self.teller.done(bytes as u64)?;
        }
        self.own(to)
    }

    fn make_directory(&self, path: &Path) -> Result<()> {
        let make = || {
            fs::create_dir_all(path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o700))
        };
        make().map_err(|error| failed("make", path, &error))?;
        self.own(path)
    }

    fn own(&self, path: &Path) -> Result<()> {
        let Some((user, group)) = self.owner else { return Ok(()) };
        lchown(path, Some(user), Some(group)).map_err(|error| failed("give away", path, &error))
    }
}

/// The first superuser of a stopped server: it is asked without its name, by a server for one.
fn first_superuser(postgres: &Postgres, data: &Path) -> Result<String> {
    let mut command = postgres.installation().program("postgres");
    command.args(["--single", "-c", "log_statement=none", "-c", "logging_collector=off"]);
    command.arg("-c").arg(format!("data_directory={}", data.display())).arg("-D").arg(data);
    command.arg("template1").current_dir("/");
    let said =
        super::run_with_input(postgres.site(), command, "select rolname from pg_authid where oid = 10\n")?;
    let name = said.stdout.lines().find_map(|line| line.split_once("rolname = \"")?.1.split_once("\"\t"));
    match name {
        Some((name, _)) => Ok(name.to_string()),
        None => {
            let tail: Vec<&str> = said.stderr.lines().rev().take(4).collect();
            let tail: Vec<&str> = tail.into_iter().rev().collect();
            Err(Error::failed(
                format!("its copy does not start: {}", tail.join("; ")),
                "mend the source, then repeat",
            ))
        }
    }
}
