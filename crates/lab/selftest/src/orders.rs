//! A database on a disk whose power is cut under load.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ashlar_collect::{Sources, Watched, during};
use ashlar_disk::{Disk, Kind, Spec};
use ashlar_postgres::{Installation, Places, Search, Server, Settings, Value};
use ashlar_workload::driver::{Ending, Observer, Plan, Progress};
use ashlar_workload::orders::conditions::{self, Moment};
use ashlar_workload::orders::ledger::Ledger;
use ashlar_workload::orders::{self, Orders, Size};

use crate::{Error, Stage, Told, Unmade};

const SIZE_BYTES: u64 = 512 << 20;
const SIZE: Size = Size { items: 200, customers_per_district: 30, orders_per_district: 40 };
const CLIENTS: usize = 4;
/// The power is cut so long after the clients begin.
const CUT_AFTER: Duration = Duration::from_secs(2);
/// How long a lie is waited for, and how often it is looked for. Arbitrary: a commit takes milliseconds.
const LIE_WAIT_MAX: Duration = Duration::from_secs(5);
const LOOK_INTERVAL: Duration = Duration::from_micros(100);
const LIMIT: Duration = Duration::from_secs(60);
/// As runs are watched.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// More would change what is measured.
const WATCH_SHARE_MAX: f64 = 0.01;
/// Sockets are told apart by their directory.
const PORT: u16 = 5432;

/// Cuts the power when it is time; a liar's while it lies, because right behind a true flush nothing would be
/// lost.
struct Cutter<'a> {
    disk: &'a Disk,
    is_liar: bool,
}

impl Observer for Cutter<'_> {
    fn second(&mut self, progress: &Progress) {
        if progress.elapsed < CUT_AFTER {
            return;
        }
        let end = Instant::now() + LIE_WAIT_MAX;
        while self.is_liar && Instant::now() < end {
            if self.disk.cut_power_in_lies() {
                return;
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        self.disk.cut_power();
    }
}

/// Where everything is.
struct Site {
    backing: PathBuf,
    mount: PathBuf,
    socket: PathBuf,
}

impl Drop for Site {
    fn drop(&mut self) {
        let _absent = fs::remove_file(&self.backing);
        let _absent = fs::remove_dir(&self.mount);
        let _absent = fs::remove_dir_all(&self.socket);
    }
}

impl Site {
    fn disk(&self, kind: &Kind) -> std::result::Result<Disk, Unmade> {
        let spec =
            Spec { backing: self.backing.clone(), size_bytes: SIZE_BYTES, kind: kind.clone(), seed: 7 };
        Ok(Disk::open(spec)?)
    }

    fn server(&self, installation: &Installation) -> Server {
        let places = Places {
            data: self.mount.join("pgdata"),
            wal: None,
            tablespaces: Vec::new(),
            temporary: None,
            socket: self.socket.clone(),
            port: PORT,
        };
        let settings = Settings::new()
            .with("listen_addresses", "")
            .with("shared_buffers", Value::Bytes(64 << 20))
            .with("max_wal_size", Value::Bytes(128 << 20));
        Server::new(installation, places, settings)
    }
}

/// What was found, and whether it is what must be found.
pub(crate) fn after_power_cut(
    stage: &Stage<'_>,
    kind: &Kind,
    must_lose: bool,
) -> std::result::Result<Told, Unmade> {
    let installation = Installation::ensure(stage.launcher, &Search::default())?.0;
    let at = |name: &str| stage.settings.directory.join(name);
    let site = Site { backing: at("disk"), mount: at("mnt"), socket: at("socket") };
    make(&site.mount)?;
    let disk = site.disk(kind)?;
    disk.format()?;
    disk.mount(&site.mount)?;
    let mut server = site.server(&installation);
    server.initialise()?;
    server.start()?;
    let (promises, watched) = {
        let sources = Sources { servers: vec![server.address()], ..Sources::default() };
        during(&sources, WATCH_INTERVAL, || promised(&server, &Cutter { disk: &disk, is_liar: must_lose }))
    };
    let (ledger, [orders, payments]) = promises?;
    server.abandon();
    drop(server);
    disk.close()?;
    // What is left is looked at through an honest disk over the same bytes.
    let disk = site.disk(&Kind::Plain)?;
    let lost = match disk.mount(&site.mount) {
        Err(error) => Some(format!("the file system cannot be mounted: {error}")),
        Ok(()) => what_is_lost(&mut site.server(&installation), &ledger),
    };
    disk.close()?;
    let count = format!("{orders} orders and {payments} payments that were acknowledged");
    let told = match &lost {
        None => format!("nothing is lost of {count}"),
        Some(what) => format!("of {count}: {what}"),
    };
    let share = share_of_machine(&watched);
    let told = format!("{told}; looking on took {:.2} % of the processors", 100.0 * share);
    Ok((told, lost.is_some() == must_lose && share < WATCH_SHARE_MAX))
}

/// Of what all processors could do meanwhile.
fn share_of_machine(watched: &Watched) -> f64 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    watched.processor_time.as_secs_f64() / (watched.elapsed.as_secs_f64() * processors).max(1e-9)
}

/// Loads, drives, and cuts the power meanwhile; with the orders and payments that were acknowledged.
fn promised(server: &Server, cutter: &Cutter<'_>) -> std::result::Result<(Arc<Ledger>, [u64; 2]), Unmade> {
    let never = AtomicBool::new(false);
    let load = orders::Load { warehouses: 1, size: SIZE, seed: 1, sessions: 2, limit: LIMIT };
    orders::load(&server.address(), &load, &never)?;
    server.query("CHECKPOINT")?;
    cutter.disk.settle()?;
    let ledger = Arc::new(Ledger::begin(&mut server.session()?, None)?);
    let mut settings = orders::Settings::new(1);
    settings.limit = LIMIT;
    let workload = Orders::open(&server.address(), settings, Some(ledger.clone()))?;
    let plan = Plan::closed(CLIENTS, Duration::ZERO, Duration::from_secs(30), 1);
    let outcome = workload.run(&plan, &never, &mut Cutter { ..*cutter })?.outcome;
    let committed = ["new_order", "payment"].map(|kind| outcome.kind(kind).map_or(0, |kind| kind.committed));
    match outcome.ending {
        Ending::Complete | Ending::Stopped => {
            Err(Error::command("the database did not notice that its disk had no power").into())
        }
        Ending::Lost(_) | Ending::Failed(_) => Ok((ledger, committed)),
    }
}

/// `None` where the database comes up, all conditions hold, and all that was acknowledged is there.
fn what_is_lost(server: &mut Server, ledger: &Ledger) -> Option<String> {
    if let Err(error) = server.forget_lock().and_then(|()| server.start().map(drop)) {
        return Some(format!("the database does not come up: {error}"));
    }
    let asked = || -> std::result::Result<Option<String>, Error> {
        let mut session = server.session()?;
        let verdicts = conditions::check(&mut session, Moment::AfterRun)?;
        if let Some(broken) = verdicts.iter().find(|verdict| !verdict.holds) {
            return Ok(Some(format!("condition {} ({}) is broken", broken.number, broken.name)));
        }
        let found = ledger.check(&mut session, ledger.now())?;
        let problem = found.problems.first();
        Ok(problem.map(|problem| format!("{:?}, {} times: {}", problem.kind, problem.count, problem.example)))
    };
    let lost = asked().unwrap_or_else(|error| Some(format!("the database does not answer: {error}")));
    let _stays = server.stop();
    lost
}

fn make(path: &Path) -> std::result::Result<(), Unmade> {
    fs::create_dir_all(path).map_err(|error| Error::io(&path.display().to_string(), &error).into())
}
