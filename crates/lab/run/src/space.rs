//! A run that asks what databases take of a pool: a volume for each is made, the database is copied onto it,
//! the accounts are read, and everything is taken away again, with a look at what stays.
//!
//! The databases to copy from are loaded once, beside the target, so that every run writes the same.

mod figures;
pub(crate) mod words;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ashlar_postgres::{ErrorKind, Installation, Places, Server};
use ashlar_programs::Launcher;
use ashlar_scenario::{Base, Origin, Run, SpaceLoad, Tables, Variant};
use ashlar_target::{Account, Laid, Refusal, Timed, Volumes, free_bytes};

pub(crate) use figures::Factors;
pub use figures::SpaceFigures;

use crate::database::{self, Database, Scratch};
use crate::figures::Figures;
use crate::record::make;
use crate::{Error, Result, jobs};

/// Copies and trims of some GiB may take a while on a slow machine, but not longer.
const LONG: Duration = Duration::from_secs(3600);
/// Arbitrary: less than any database, more than what an array notes for itself.
const OF_OTHERS_MAX: i64 = 1 << 20;
/// Of the servers that change a copy, one after the other.
const SOCKET: &str = "space-socket";
/// Of zeroes that are written at once.
const ZEROES: usize = 1 << 20;

/// The databases that runs copy, stopped.
pub(crate) struct Bases {
    directory: PathBuf,
    launcher: Arc<Launcher>,
}

/// A database on a volume of its own.
struct Placed<'a> {
    base: &'a Base,
    volume: Timed,
    mount: PathBuf,
}

/// What a run needs beside the databases.
pub(crate) struct Ground<'a> {
    pub(crate) volumes: &'a Volumes,
    /// Outside of the target, for mounts and sockets.
    pub(crate) scratch: PathBuf,
    /// Notes what is on the target.
    pub(crate) keep: &'a dyn Fn() -> Result<()>,
}

impl Bases {
    /// Loads every database, each twin with customers of its own.
    pub(crate) fn make(
        launcher: &Arc<Launcher>,
        (directory, records): (&Path, &Path),
        bases: &ashlar_scenario::Bases,
        (seed, stop): (u64, &AtomicBool),
    ) -> Result<Bases> {
        make(directory)?;
        has_room(directory, bases.room_bytes())?;
        for twin in 0..bases.twins as usize {
            for (index, base) in bases.databases.iter().enumerate() {
                let name = named(index, twin);
                let place = directory.join(&name);
                make(&place)?;
                let records = records.join(&name);
                make(&records)?;
                let scratch = Scratch { directory: directory.join(format!("{name}-socket")), records };
                let seed = jobs::mixed(seed, &name);
                let laid = Laid { data: place, log: None };
                let ground = (&laid, scratch, None, None);
                drop(Database::make(launcher, ground, &plain(base), (seed, stop))?);
            }
        }
        Ok(Bases { directory: directory.to_path_buf(), launcher: launcher.clone() })
    }

    /// Makes them, counts what they take, and takes them away.
    pub(crate) fn run(
        &self,
        (run, variant): (&Run, &Variant),
        load: &SpaceLoad,
        ground: &Ground<'_>,
    ) -> Result<Figures> {
        let installation = Installation::ensure(&self.launcher, &ashlar_postgres::Search::default())?.0;
        let before = ground.volumes.settled().map_err(refused)?;
        let begun = Instant::now();
        let placed = self.place(load, ground)?;
        let filled = begun.elapsed();
        if load.origin == Origin::Changed {
            let twins = &placed[load.bases.databases.len()..];
            twins.iter().try_for_each(|one| change(&installation, one, load.change, &ground.scratch))?;
        }
        let names: Vec<String> = placed.iter().map(|one| one.volume.name.clone()).collect();
        if load.snapshots > 0 {
            // What dedupe has not looked at yet would stay in the snapshot as it was.
            ground.volumes.settled().map_err(refused)?;
        }
        for number in 1..=load.snapshots {
            ground.volumes.snapshot_all(&format!("{}-{number}", names[0]), &names).map_err(refused)?;
        }
        (ground.keep)()?;
        let taken = ground.volumes.settled().map_err(refused)? - before;
        let mut offences = Vec::new();
        for one in &placed {
            offences.extend(damage(&installation, one, &ground.scratch)?);
        }
        self.empty(&placed, ground)?;
        let emptied = ground.volumes.settled().map_err(refused)? - before;
        names.iter().rev().try_for_each(|name| ground.volumes.forget(name)).map_err(refused)?;
        let left = ground.volumes.settled().map_err(refused)? - before;
        (ground.keep)()?;
        let _none_was_changed = fs::remove_dir_all(ground.scratch.join(SOCKET));
        alone(&left)?;
        let mean = |time: fn(&Timed) -> Duration| {
            let sum: Duration = placed.iter().map(|one| time(&one.volume)).sum();
            u64::try_from(sum.as_nanos()).unwrap_or(u64::MAX) / placed.len().max(1) as u64
        };
        let space = SpaceFigures {
            engine: format!("PostgreSQL {}", installation.version()),
            databases: placed.len() as u64,
            create_nanos: mean(|volume| volume.create),
            ready_nanos: mean(|volume| volume.ready),
            fill_seconds: filled.as_secs_f64(),
            taken,
            emptied,
            left,
            offences,
        };
        Ok(Figures {
            measured_seconds: filled.as_secs_f64(),
            space: Some(space),
            ..Figures::named(run, variant)
        })
    }

    /// Each on a volume of its own, in the order of the file, twins behind.
    fn place<'a>(&self, load: &'a SpaceLoad, ground: &Ground<'_>) -> Result<Vec<Placed<'a>>> {
        let mut placed = Vec::new();
        for twin in 0..load.bases.twins as usize {
            for (index, base) in load.bases.databases.iter().enumerate() {
                let mount = ground.scratch.join(format!("space-{}", placed.len() + 1));
                let size = load.volume_bytes(base.tables);
                let made = ground.volumes.make_timed(size, &mount, load.has_dedupe);
                (ground.keep)()?;
                let volume = made.map_err(refused)?;
                let of = if load.origin == Origin::Apart { twin } else { 0 };
                self.copy(&named(index, of), &mount)?;
                zeroes(&mount.join("log-of-zeroes"), load.log_bytes(base.tables))?;
                flush(&mount)?;
                placed.push(Placed { base, volume, mount });
            }
        }
        Ok(placed)
    }

    fn copy(&self, name: &str, mount: &Path) -> Result<()> {
        let mut command = Command::new("cp");
        command.arg("-a").arg(self.directory.join(name).join("pgdata")).arg(mount);
        self.launcher.run(command, LONG).map(drop)
    }

    /// Deletes the databases and the snapshots, and has the file systems tell the volumes.
    fn empty(&self, placed: &[Placed<'_>], ground: &Ground<'_>) -> Result<()> {
        ground.volumes.forget_snapshots().map_err(refused)?;
        for one in placed {
            let unable = |error: std::io::Error| Error::io(&one.mount.display().to_string(), &error);
            fs::remove_dir_all(one.mount.join("pgdata")).map_err(unable)?;
            let _where_none_was_asked_for = fs::remove_file(one.mount.join("log-of-zeroes"));
            flush(&one.mount)?;
            let mut command = Command::new("fstrim");
            command.arg(&one.mount);
            self.launcher.run(command, LONG)?;
        }
        Ok(())
    }
}

impl Drop for Bases {
    fn drop(&mut self) {
        let _stays = fs::remove_dir_all(&self.directory);
    }
}

fn named(index: usize, twin: usize) -> String {
    format!("base-{}-{}", index + 1, twin + 1)
}

/// A log that is not used again: what is copied is the database and no leftovers of loading it.
fn plain(base: &Base) -> Base {
    let mut base = base.clone();
    base.settings.entry("wal_recycle".into()).or_insert_with(|| "off".into());
    base
}

/// What was taken is known only where nobody else wrote or deleted: then nothing is left.
fn alone(left: &Account) -> Result<()> {
    match left.stored_bytes.abs() > OF_OTHERS_MAX {
        true => Err(Error::environment(format!(
            "the pool holds {:.1} MB more than before the run, of which nothing is left: somebody else worked \
             on it, and what the run took is not known: wait until nobody does, and go on",
            left.stored_bytes as f64 / 1e6
        ))),
        false => Ok(()),
    }
}

fn refused(refusal: Refusal) -> Error {
    Error::environment(refusal.to_string())
}

fn has_room(directory: &Path, needed: u64) -> Result<()> {
    let shown = directory.display();
    let free = free_bytes(directory).map_err(refused)?;
    match free < needed {
        true => Err(Error::environment(format!(
            "{shown}: {} are needed for the databases that are copied from and {} are free: make room, name \
             another directory with TMPDIR, or take a smaller preset",
            ashlar_report::bytes(needed),
            ashlar_report::bytes(free)
        ))),
        false => Ok(()),
    }
}

/// Written and not merely set aside.
fn zeroes(path: &Path, size: u64) -> Result<()> {
    if size == 0 {
        return Ok(());
    }
    let unable = |error: std::io::Error| Error::io(&path.display().to_string(), &error);
    let mut file = File::create(path).map_err(unable)?;
    let block = vec![0; ZEROES];
    let mut left = size;
    while left > 0 {
        let now = left.min(ZEROES as u64) as usize;
        file.write_all(&block[..now]).map_err(unable)?;
        left -= now as u64;
    }
    file.sync_all().map_err(unable)
}

/// Everything of the file system is on its volume.
fn flush(mount: &Path) -> Result<()> {
    let unable = |error: std::io::Error| Error::io(&mount.display().to_string(), &error);
    let file = File::open(mount).map_err(unable)?;
    rustix::fs::syncfs(&file).map_err(|error| unable(error.into()))
}

fn server(installation: &Installation, placed: &Placed<'_>, scratch: &Path) -> Server {
    let places = Places {
        data: placed.mount.join("pgdata"),
        wal: None,
        tablespaces: Vec::new(),
        temporary: None,
        socket: scratch.join(SOCKET),
        port: database::PORT,
    };
    Server::new(installation, places, database::settings(&plain(placed.base)))
}

/// The latest of the trades are changed, as many as that.
fn change(installation: &Installation, placed: &Placed<'_>, share: f64, scratch: &Path) -> Result<()> {
    let Tables::Broker { .. } = placed.base.tables else {
        return Err(Error::environment("only databases of `broker` are changed"));
    };
    let mut server = server(installation, placed, scratch);
    server.start()?;
    server.query(&change_statements(share))?;
    server.stop()?;
    flush(&placed.mount)
}

/// As they are sent.
pub(crate) fn change_statements(share: f64) -> String {
    format!(
        "UPDATE lab_broker.trade SET charge = charge + 0.01 \
         WHERE id > (SELECT (max(id) * {}::float8)::bigint FROM lab_broker.trade); CHECKPOINT",
        1.0 - share
    )
}

/// Every page of it is read from the volume, and its checksum asked.
fn damage(installation: &Installation, placed: &Placed<'_>, scratch: &Path) -> Result<Option<String>> {
    let server = server(installation, placed, scratch);
    server.forget_pages()?;
    match server.check_pages() {
        Ok(_) => Ok(None),
        Err(error) if error.kind == ErrorKind::Interrupted => Err(error.into()),
        Err(error) => Ok(Some(format!("{}: {error}", placed.volume.name))),
    }
}
