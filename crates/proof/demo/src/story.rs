//! What the demo shows, in order: a database by name, build, load, clone, lose drives, lose the array, crash,
//! recover, prove.

use crate::array::{Array, find_number};
use crate::by_name;
use crate::closing::{self, Figures, percent};
use crate::database::{check_sums, load, server_at};
use crate::drives::{Act, DRIVE_COUNT, PARITY_COUNT, drive_path};
use crate::error::{Error, Result};
use crate::ledger::{self, Ledger, Mark};
use crate::picture::Record;
use crate::progress::{Progress, bytes, count, millis, say};
use crate::settings::Settings;
use crate::site::{Site, loops_below, mounts_below};
use ashlar_postgres::{Adoption, Installation, LoadLog, RelationCheck, Search, Server};
use ashlar_programs::Launcher;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Rows of one unit of pgbench's scale with their index, measured: 15 MiB.
const SCALE_UNIT_BYTES: u64 = 15 << 20;
/// Room for the database's log, the history and what the load overwrites.
const ROOM_BYTES: u64 = 4 << 30;
/// Files written over twice: the two new drives are made before the old ones are removed.
const SPARE_COUNT: u64 = PARITY_COUNT;
/// The load runs alone for a while before the snapshot, so that caches and log are in their stride.
const BEFORE_SNAPSHOT: Duration = Duration::from_secs(8);
/// How long a load runs before the array is killed. Any moment will do.
const BEFORE_KILL: Duration = Duration::from_secs(8);
/// The load that sees the array killed and started again, in seconds.
const PAUSE_LOAD_SECONDS: u32 = 20;
/// Clients of a dead database give up within this time.
const GIVE_UP_LIMIT: Duration = Duration::from_secs(60);

/// The runs of the load, in order.
pub(crate) const LOADS: [&str; 4] = ["load", "drives", "pause", "crash"];

/// The stage: where things are.
struct Stage {
    data: PathBuf,
    wal: PathBuf,
    copy_data: PathBuf,
    copy_wal: PathBuf,
}

pub(crate) fn play(settings: &Settings, site: &Site) -> Result<()> {
    let progress = Progress::new();
    let mut figures = Figures::default();
    let (postgres, is_new) = Installation::ensure(site.launcher(), &Search::default())?;
    let how = if is_new { "installed" } else { "found" };
    progress.step(&format!("PostgreSQL {} {how}", postgres.version()));

    // Declared before the servers, so that an early end stops them first.
    let mut array = Array::new(site, &settings.binary)?;
    build(&mut array, site, settings, &progress)?;
    figures.by_name = by_name::play(&array, site, &postgres, &progress)?;
    make_volumes(&array, settings, &progress)?;
    let stage = Stage {
        data: site.directory("mnt/data", None)?,
        wal: site.directory("mnt/wal", None)?,
        copy_data: site.directory("mnt/copy-data", None)?,
        copy_wal: site.directory("mnt/copy-wal", None)?,
    };
    array.attach("data", &stage.data, true)?;
    array.attach("wal", &stage.wal, true)?;
    progress.result("volumes data and wal attached, ext4, mounted");

    let owner = postgres.owner();
    let run = site.directory("run-main", owner)?;
    let data = site.directory("mnt/data/pgdata", owner)?;
    let wal = site.directory("mnt/wal/pg_wal", owner)?;
    let mut server = server_at(&postgres, data, Some(wal), run, 5432);
    server.initialise()?;
    server.start()?;
    progress.step(&format!(
        "database on the array (page checksums on, log on its own volume); pgbench fills scale {}, {}",
        settings.scale,
        bytes(u64::from(settings.scale) * SCALE_UNIT_BYTES)
    ));
    figures.fill = server.fill(settings.scale)?;
    server.query(ledger::TABLE)?;
    server.query("checkpoint")?;
    progress.result(&format!("filled in {:.0} s", figures.fill.as_secs_f64()));

    let mark =
        load_and_clone(&mut array, site, &postgres, &server, &stage, settings, &progress, &mut figures)?;
    let drive_bytes = drive_bytes(settings);
    let phase = Duration::from_secs(u64::from(settings.seconds.div_ceil(3)));
    let act = Act { array: &array, site, server: &server, progress: &progress, phase, drive_bytes };
    let (mark, losses) = act.play(mark)?;
    figures.transactions += losses.transactions;
    figures.losses = Some(losses);
    let mark = pause(&mut array, site, &server, mark, &progress, &mut figures)?;
    crash(&mut array, site, &mut server, &stage, mark, &progress, &mut figures)?;
    say(&format!("\n{}", closing::table(&array, &figures, settings)?));
    if let Some(directory) = &settings.record {
        let log = |name: &&str| Ok(LoadLog::read(&server.places().socket.join(name))?);
        let runs: Vec<LoadLog> = LOADS.iter().map(log).collect::<Result<_>>()?;
        Record::new(&runs, progress.take_events()).write(directory)?;
        say(&format!("picture and figures of this run: {}\n", directory.display()));
    }
    finish(array, server, site, settings, &progress)
}

/// Size of each drive: with those of parity set aside there is room for everything, twice over.
fn drive_bytes(settings: &Settings) -> u64 {
    let usable_bytes = 2 * u64::from(settings.scale) * SCALE_UNIT_BYTES + ROOM_BYTES;
    (usable_bytes / (DRIVE_COUNT - PARITY_COUNT)).next_multiple_of(1 << 20)
}

/// The array and its pool.
fn build(array: &mut Array, site: &Site, settings: &Settings, progress: &Progress) -> Result<()> {
    let drive_bytes = drive_bytes(settings);
    let pool_bytes = drive_bytes * DRIVE_COUNT;
    let needed_bytes = pool_bytes + drive_bytes * SPARE_COUNT;
    let free_bytes = site.free_bytes()?;
    if free_bytes < needed_bytes {
        return Err(Error::environment(format!(
            "{} has {} free, the demo may need {}: choose a smaller --scale or another TMPDIR",
            site.base().display(),
            bytes(free_bytes),
            bytes(needed_bytes)
        )));
    }
    let took = array.start()?;
    progress.step(&format!("array started in {}, state in {}", millis(took), site.base().display()));
    site.directory("drives", None)?;
    let mut arguments: Vec<String> =
        ["pool", "create", "demo", "--protection", "dual"].map(String::from).to_vec();
    for number in 0..DRIVE_COUNT as usize {
        arguments.push("--drive".into());
        let path = drive_path(site, number);
        arguments.push(format!("{},size={}MiB", path.display(), drive_bytes >> 20));
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    array.run(&arguments)?;
    progress.result(&format!(
        "pool of {DRIVE_COUNT} file-backed drives ({}) that may lose any {PARITY_COUNT}: {} % of it is usable",
        bytes(pool_bytes),
        percent(DRIVE_COUNT - PARITY_COUNT, DRIVE_COUNT)
    ));
    Ok(())
}

/// Volumes for a server that the array knows nothing of.
fn make_volumes(array: &Array, settings: &Settings, progress: &Progress) -> Result<()> {
    let volume_gib = ((2 * u64::from(settings.scale) * SCALE_UNIT_BYTES) >> 30) + 8;
    array.run(&["volume", "create", "data", "--size", &format!("{volume_gib}GiB"), "--profile", "oltp"])?;
    array.run(&["volume", "create", "wal", "--size", "8GiB", "--profile", "oltp"])?;
    progress.step(&format!("by hand: thin volumes data ({volume_gib} GiB) and wal (8 GiB)"));
    Ok(())
}

/// The measured load; while it runs, a snapshot of both volumes becomes a second database.
#[allow(clippy::too_many_arguments)] // The story's cast; a struct of them would only rename it.
fn load_and_clone(
    array: &mut Array,
    site: &Site,
    postgres: &Installation,
    server: &Server,
    stage: &Stage,
    settings: &Settings,
    progress: &Progress,
    figures: &mut Figures,
) -> Result<Mark> {
    let launcher = site.launcher();
    let prefix = server.places().socket.join(LOADS[0]);
    progress.step(&format!(
        "pgbench TPC-B-like load, 16 sessions, {} s; a ledger client beside it",
        settings.seconds
    ));
    let running = server.start_load(&load(settings.seconds, &prefix))?;
    let ledger = Ledger::start(&server.address(), None);
    launcher.sleep(BEFORE_SNAPSHOT.min(Duration::from_secs(u64::from(settings.seconds) / 2)))?;

    let before = ledger.mark();
    progress.mark("snapshot and clone");
    figures.snapshot = array.run(&["snapshot", "create", "noon", "data", "wal"])?.took;
    let after = ledger.mark();
    progress.result(&format!(
        "snapshot of both volumes at one instant, under load: {}",
        millis(figures.snapshot)
    ));
    figures.clone = array.run(&["clone", "create", "copy", "--from", "noon"])?.took;
    progress.result(&format!("writable clones made of it: {}", millis(figures.clone)));
    check_clone(array, site, postgres, stage, (&before, &after), progress, figures)?;

    let limit = Duration::from_secs(u64::from(settings.seconds)) + GIVE_UP_LIMIT;
    let finished = launcher.wait(running, limit)?;
    if !finished.status.success() {
        return Err(finished.error("pgbench").into());
    }
    let load = LoadLog::read(&prefix)?.load();
    progress.result(&format!("load done: {:.0} tps, p99 {}", load.tps, millis(load.p99)));
    figures.transactions = load.transactions;
    figures.load = Some(load);
    Ok(ledger.stop())
}

/// Starts a second server on the clones and examines it; the first one goes on under load.
fn check_clone(
    array: &mut Array,
    site: &Site,
    postgres: &Installation,
    stage: &Stage,
    (before, after): (&Mark, &Mark),
    progress: &Progress,
    figures: &mut Figures,
) -> Result<()> {
    figures.attach = array.attach("copy-data", &stage.copy_data, false)?;
    figures.attach += array.attach("copy-wal", &stage.copy_wal, false)?;
    progress.result(&format!("clones attached and mounted: {}", millis(figures.attach)));
    let run = site.directory("run-copy", postgres.owner())?;
    let (data, wal) = (stage.copy_data.join("pgdata"), stage.copy_wal.join("pg_wal"));
    let mut copy = server_at(postgres, data, Some(wal), run, 5433);
    copy.adopt(&Adoption::default())?;
    figures.clone_recovery = copy.start()?;
    progress.mark("second database on the clone");
    progress
        .result(&format!("second PostgreSQL on the clones, recovered in {}", millis(figures.clone_recovery)));
    let history = check_sums(&copy)?;
    progress.result(&format!("clone: balances agree at one instant, {} transactions", count(history)));
    ledger::check(&copy.query(ledger::SUMMARY)?, before, after)?;
    progress.result("clone: the ledger holds all commits before the snapshot and none begun after it");
    let took = copy.check_relations(&RelationCheck::default())?;
    progress.result(&format!("clone: pg_amcheck finds no fault ({:.0} s)", took.as_secs_f64()));
    copy.query("insert into ledger select 99, n, 'written to the clone' from generate_series(1, 10000) n")?;
    copy.query("update pgbench_branches set filler = 'clone'")?;
    copy.query("checkpoint")?;
    copy.stop()?;
    let took = copy.check_pages()?;
    progress.result(&format!("clone: written to, stopped, pg_checksums good ({:.0} s)", took.as_secs_f64()));
    array.detach("copy-wal")?;
    array.detach("copy-data")
}

/// Kills the array under load and starts it again: the database sees a pause.
fn pause(
    array: &mut Array,
    site: &Site,
    server: &Server,
    before: Mark,
    progress: &Progress,
    figures: &mut Figures,
) -> Result<Mark> {
    let launcher: &Launcher = site.launcher();
    let prefix = server.places().socket.join(LOADS[2]);
    progress.step("load again, then kill -9 of the array in the middle of it, and a start");
    let postmaster = server.postmaster();
    let running = server.start_load(&load(PAUSE_LOAD_SECONDS, &prefix))?;
    let ledger = Ledger::start(&server.address(), Some(before));
    launcher.sleep(BEFORE_KILL)?;
    progress.mark("kill -9 of the array: a pause");
    array.kill()?;
    array.start()?;
    let waited = find_number(&array.json(&["status"])?, "handover_pause_millis");
    let finished = launcher.wait(running, Duration::from_secs(PAUSE_LOAD_SECONDS.into()) + GIVE_UP_LIMIT)?;
    if !finished.status.success() {
        return Err(finished.error("pgbench").into());
    }
    if server.postmaster() != postmaster {
        return Err(Error::proof("the database did not outlive the array".to_string()));
    }
    let waited = waited.ok_or_else(|| Error::proof("nothing was handed to the next array".to_string()))?;
    figures.pause = Duration::from_millis(waited);
    figures.transactions += LoadLog::read(&prefix)?.load().transactions;
    progress.result(&format!(
        "the database goes on: no client met an error, its volumes waited {}",
        millis(figures.pause)
    ));
    Ok(ledger.stop())
}

/// Kills the array, its keeper and the database under load, brings them back, and proves that nothing
/// acknowledged is missing.
// tidy: long because it is one story, told in order.
fn crash(
    array: &mut Array,
    site: &Site,
    server: &mut Server,
    stage: &Stage,
    before: Mark,
    progress: &Progress,
    figures: &mut Figures,
) -> Result<()> {
    let launcher: &Launcher = site.launcher();
    let prefix = server.places().socket.join(LOADS[3]);
    progress.step("load again, then kill -9 of array, keeper and database in the middle of it");
    let running = server.start_load(&load(600, &prefix))?;
    let ledger = Ledger::start(&server.address(), Some(before));
    launcher.sleep(BEFORE_KILL)?;
    progress.mark("kill -9 of array and database");
    array.kill()?;
    site.end_keeper();
    let killed = Instant::now();
    launcher.wait(running, GIVE_UP_LIMIT).map_err(|e| Error::from(e).after("the crash"))?;
    server.abandon();
    let list = ledger.stop();
    let acknowledged = LoadLog::read(&prefix)?.load().transactions;
    progress.result(&format!(
        "all killed; clients had been promised {} ledger commits and {} transactions",
        count(list.total()),
        count(figures.transactions + acknowledged)
    ));
    clear_mounts(site)?;

    let restarted = Instant::now();
    figures.array_restart = array.start()?;
    let pool = array.json(&["pool", "show", "demo"])?;
    figures.array_recovery = pool.get("recovery").and_then(|recovery| find_number(recovery, "millis"));
    wait_for_mounts(site, [&stage.data, &stage.wal])?;
    progress.result(&format!(
        "array back: serving {} after its start, volumes mounted after {}",
        millis(figures.array_restart),
        millis(restarted.elapsed())
    ));
    server.forget_lock()?;
    figures.database_recovery = server.start()?;
    progress.mark("database back, nothing lost");
    progress.result(&format!(
        "database recovered in {}, {} after the kill",
        millis(figures.database_recovery),
        millis(killed.elapsed())
    ));
    let rows = server.query(ledger::SUMMARY)?;
    ledger::check(&rows, &list, &list)?;
    figures.commits = list.total();
    progress.result(&format!("all {} acknowledged ledger commits are there", count(figures.commits)));
    let history = check_sums(server)?;
    figures.transactions += acknowledged;
    if history < figures.transactions {
        return Err(Error::proof(format!(
            "pgbench was promised {} transactions, the history holds {history}",
            figures.transactions
        )));
    }
    progress.result(&format!(
        "all {} acknowledged transactions are there, balances agree",
        count(figures.transactions)
    ));
    let took = server.check_relations(&RelationCheck::default())?;
    progress.result(&format!("pg_amcheck finds no fault ({:.0} s)", took.as_secs_f64()));
    Ok(())
}

/// Takes down the file systems whose array died: every access to them fails now.
fn clear_mounts(site: &Site) -> Result<()> {
    let launcher = site.launcher();
    for (point, kind) in mounts_below(site.base()).into_iter().rev() {
        if kind == "ext4" {
            let mut command = std::process::Command::new("umount");
            command.arg(&point);
            launcher.run(command, GIVE_UP_LIMIT)?;
        }
    }
    Ok(())
}

/// The array attaches and mounts by itself what was attached before.
fn wait_for_mounts(site: &Site, directories: [&PathBuf; 2]) -> Result<()> {
    let end = Instant::now() + GIVE_UP_LIMIT;
    loop {
        let mounts = mounts_below(site.base());
        if directories.iter().all(|directory| mounts.iter().any(|(point, _)| point == *directory)) {
            return Ok(());
        }
        if Instant::now() >= end {
            return Err(Error::proof("the array did not mount again what was mounted".to_string()));
        }
        site.launcher().sleep(Duration::from_millis(5))?;
    }
}

/// Takes everything down in order and proves that nothing is left; or leaves it standing.
fn finish(
    mut array: Array,
    mut server: Server,
    site: &Site,
    settings: &Settings,
    progress: &Progress,
) -> Result<()> {
    if settings.is_kept {
        server.leave();
        array.leave();
        return Ok(());
    }
    server.stop()?;
    array.detach("wal")?;
    array.detach("data")?;
    array.stop()?;
    let (mounts, loops) = (mounts_below(site.base()), loops_below(site.base()));
    if !mounts.is_empty() || !loops.is_empty() {
        return Err(Error::proof(format!(
            "left behind after detach: mounts {mounts:?}, loop devices {loops:?}"
        )));
    }
    progress.result("stopped and detached; nothing left behind. Every proof held.");
    Ok(())
}
