//! The life of an array, from the lock on its state directory to the last closed pool.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ashlar_api::ErrorKind;
use ashlar_fuse::Left;
use ashlar_keeper::notify_supervisor;
use ashlar_runtime::{DriverChoice, ShardSettings};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::array::Array;
use crate::attach;
use crate::error::{Error, Result};
use crate::keeping::{Keeping, Pause};
use crate::log::{Log, announce};
use crate::messenger::Messengers;
use crate::process::{Descriptors, machine_stops};
use crate::server::{Server, Tokens};
use crate::service::{Order, Service};
use crate::settings::{self, Settings, Source};
use crate::sockets::{self, Group};
use crate::state::{State, VOLUMES};
use crate::subprocess;
use crate::watchdog;

/// What the command line says.
pub struct Options {
    /// The state directory.
    pub state: PathBuf,
    /// A settings file.
    pub config: Option<PathBuf>,
    /// The API's TCP address, over the settings file's.
    pub api: Option<String>,
    /// The addresses of iSCSI, over the settings file's; none: as that says.
    pub iscsi_listen: Vec<String>,
}

/// Threads of the control path. Two, so that one long answer does not hold up all others.
const CONTROL_THREADS: usize = 2;
/// What systemd is asked for beyond its own limit of a start, again each second while drives are waited for.
const START_EXTENSION: Duration = Duration::from_secs(30);
/// How often a running array looks whether there is a pool to wait for. Arbitrary.
const LATE_INTERVAL: Duration = Duration::from_secs(1);
/// How long the end waits for threads that still work. Whatever they do was given up already.
const THREADS_WAIT_MAX: Duration = Duration::from_secs(1);
/// Status of a process that a second signal ended, as shells count it: 128 + SIGINT.
const STATUS_INTERRUPTED: i32 = 130;

/// Runs an array until SIGTERM, SIGINT or an order. Returns when everything is closed in order; an upgrade
/// returns only when the other program could not be run.
pub fn serve(options: Options) -> Result<()> {
    match live_once(options)? {
        Order::Stop => Ok(()),
        Order::Upgrade(program) => Err(become_program(&program)),
    }
}

/// Runs another program in this process: whoever supervises it sees no end.
fn become_program(program: &Path) -> Error {
    let error = std::process::Command::new(program).args(std::env::args_os().skip(1)).exec();
    Error::new(
        ErrorKind::Medium,
        format!("run {}: {error}", program.display()),
        "start the array again; what is attached waits for it",
    )
}

fn live_once(options: Options) -> Result<Order> {
    // A reload reads it again, from wherever.
    let config = options.config.map(std::path::absolute).transpose();
    let config =
        config.map_err(|error| Error::invalid(format!("--config: {error}"), "name the settings file"))?;
    let source = Source { config, api: options.api, iscsi_listen: options.iscsi_listen };
    let settings = source.load()?;
    let places = settings.places().map_err(|why| Error::invalid(why, "mend the settings file"))?;
    let group = Group::named(&settings.socket_group)?;
    sockets::restrict_umask();
    let descriptors = Descriptors::raise();
    let stream = std::env::var_os("JOURNAL_STREAM").map(|stream| stream.to_string_lossy().into_owned());
    let log = Arc::new(Log::new(settings.log_format, stream.as_deref()));
    let state = State::open(&options.state)?;
    sockets::open_way(&state, group)?;
    // Before the first thread is made: threads inherit it.
    if let Err(error) = attach::set_io_flusher() {
        log.warning(
            "memory",
            format!("{error}: attached volumes may stall while this machine swaps; grant CAP_SYS_RESOURCE"),
        );
    }
    let (keeping, left) = find_left(&state, &settings, &log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(CONTROL_THREADS)
        .thread_name("control")
        .enable_all()
        .build()
        .map_err(|error| no_threads(&error))?;
    let array = Array::start(&settings).map_err(|error| no_shard(&error))?;
    announce(&io_line(array.driver_line()));
    let live_settings = settings::Live::new(source, settings.clone());
    let service = Arc::new(Service::new(state, live_settings, places, array, keeping, log)?);
    let lived = runtime.block_on(live(service, Doorkeeper { settings, group, descriptors }, left));
    // A thread that hangs in a system call must not keep the process.
    runtime.shutdown_timeout(THREADS_WAIT_MAX);
    lived
}

/// What the last array left with the keeper. Where that is nothing, what it left attached is removed before
/// anything is opened.
fn find_left(state: &State, settings: &Settings, log: &Log) -> Result<(Keeping, Option<(Left, Pause)>)> {
    let wait = u64::from(settings.attach_wait_seconds);
    let (keeping, left) = Keeping::find(state, (wait > 0).then(|| Duration::from_secs(wait)))?;
    let volumes = state.path(VOLUMES);
    // Somebody may have unmounted it meanwhile; who asks about a mount that waits would wait himself.
    let is_mounted = attach::is_listed(&volumes).unwrap_or(true);
    let left = left.filter(|_| is_mounted);
    let left = left.map(|(descriptors, pause)| Left::new(descriptors).map(|left| (left, pause))).transpose();
    match left {
        Ok(Some(left)) => return Ok((keeping, Some(left))),
        Ok(None) => {}
        Err(error) => log.error("keeper", format!("{error}: what is attached ends")),
    }
    keeping.forget();
    clean_stale(state, log)?;
    Ok((keeping, None))
}

/// What a killed array left attached is removed.
fn clean_stale(state: &State, log: &Log) -> Result<()> {
    // What its processes were about to do is done then, or never will be.
    let _ = subprocess::wait_for_all(state.directory());
    let report = attach::clean_stale(state.directory()).map_err(|error| match error.kind {
        attach::ErrorKind::Busy => Error::new(
            ErrorKind::Busy,
            error.to_string(),
            "stop that array first (`pgrep -a ashlar`); its lock file or socket was removed",
        ),
        _ => Error::new(
            ErrorKind::Medium,
            format!("clear what a killed array left in {}: {error}", state.directory().display()),
            "unmount and detach it by hand (findmnt, losetup -l), then start again",
        ),
    })?;
    for directory in &report.unmounted {
        log.warning("attach", format!("unmounted {}, left by a killed array", directory.display()));
    }
    for device in &report.detached {
        log.warning("attach", format!("detached {}, left by a killed array", device.display()));
    }
    for attach::Kept { directory, other } in &report.kept {
        let (directory, other) = (directory.display(), other.display());
        let what = format!(
            "{directory} stays mounted, though a killed array left it: something else is mounted on {other}"
        );
        log.warning("attach", format!("{what}; `umount {other}`, then `umount {directory}`"));
    }
    for line in &report.lingering {
        log.warning("attach", format!("{line}: it goes when its last user goes"));
    }
    Ok(())
}

/// What the doors are opened by.
struct Doorkeeper {
    settings: Settings,
    group: Option<Group>,
    descriptors: Descriptors,
}

async fn live(service: Arc<Service>, doorkeeper: Doorkeeper, left: Option<(Left, Pause)>) -> Result<Order> {
    let mut signals = Signals::new()?;
    // From here on a hang-up does not end the process; before it is ready it is remembered.
    let hangup = signal(SignalKind::hangup()).map_err(|error| no_threads(&error))?;
    let messengers = Messengers::start(&service);
    let (opened, is_stop_asked) = open_unless_interrupted(&service, &doorkeeper, left, &mut signals).await;
    let server = match opened {
        Ok(server) => server,
        Err(error) => {
            service.stop(true, false).await;
            messengers.finish(true).await;
            return Err(error);
        }
    };
    let mut order = Order::Stop;
    if !is_stop_asked {
        tokio::spawn(service.clone().watch());
        tokio::spawn(service.clone().watch_figures());
        tokio::spawn(service.clone().keep_figures());
        tokio::spawn(service.clone().keep_uses());
        tokio::spawn(service.clone().watch_certificate());
        tokio::spawn(service.clone().keep_deleted());
        tokio::spawn(service.clone().scrub_when_due());
        tokio::spawn(service.clone().spare_when_lost());
        tokio::spawn(service.clone().reload_at(hangup));
        tokio::spawn(service.clone().reopen_when_writable());
        tokio::spawn(service.clone().take_back_awaited());
        tokio::spawn(service.clone().tend_schedules());
        tokio::spawn(service.clone().tend_objectives());
        tokio::spawn(get_ready(service.clone()));
        order = tokio::select! {
            () = signals.next() => Order::Stop,
            order = service.ordered() => order,
        };
    }
    let may_leave = tell_end(&service, &order).await;
    tokio::spawn(async move {
        signals.next().await;
        // Acknowledged writes are in the journal: the next start replays them.
        std::process::exit(STATUS_INTERRUPTED);
    });
    let is_clean = service.stop(may_leave, order != Order::Stop).await;
    server.stop(&service).await;
    service.log.info("array", "stopped");
    // What is attached waits for the next program.
    messengers.finish(order == Order::Stop).await;
    if is_clean || order != Order::Stop {
        return Ok(order);
    }
    Err(Error::new(
        ErrorKind::Medium,
        "the array did not stop cleanly",
        "its log says what; no acknowledged write is lost",
    ))
}

/// Tells that the array stops, or goes on as another program. False where the whole machine stops: nobody
/// comes to serve what is attached, so it is not left behind.
async fn tell_end(service: &Arc<Service>, order: &Order) -> bool {
    if let Order::Upgrade(_) = order {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        tell_supervisor(service, &format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
        return true;
    }
    tell_supervisor(service, "STOPPING=1");
    service.log.info("array", "stopping; a second signal ends it at once");
    let is_last = std::env::var_os("NOTIFY_SOCKET").is_some() && machine_stops().await;
    if is_last {
        service.log.info("array", "the machine stops: what is attached is detached");
    }
    !is_last
}

/// Waits for pools whose drives are late, then tells that the array is ready. All else serves meanwhile.
async fn get_ready(service: Arc<Service>) {
    let extend = || {
        let micros = START_EXTENSION.as_micros();
        tell_supervisor(&service, &format!("EXTEND_TIMEOUT_USEC={micros}\nSTATUS=waits for drives of pools"));
    };
    if !service.open_late(extend).await {
        return;
    }
    service.attach_again().await;
    service.tell_unattached();
    tokio::spawn(service.clone().tend_databases());
    tokio::spawn(service.clone().expire_databases());
    tokio::spawn(service.clone().grow_databases());
    service.log.info("array", "ready");
    service.note_ready();
    tell_supervisor(&service, "READY=1");
    feed_watchdog(&service);
    // A pool that stopped and could not be opened again is waited for as well.
    while service.open_late(|| ()).await {
        service.attach_again().await;
        tokio::time::sleep(LATE_INTERVAL).await;
    }
}

/// Pools, doors, API: whatever fails for itself alone is reported and the rest goes on.
async fn open(
    service: &Arc<Service>,
    doorkeeper: &Doorkeeper,
    left: Option<(Left, Pause)>,
) -> Result<Server> {
    let Doorkeeper { settings, group, descriptors } = doorkeeper;
    // First of all: a start that fails leaves them to the next.
    service.recall_attachments(left.is_some()).await;
    // Before any door: one that cannot ask who comes is not opened.
    let tokens = Tokens::load_or_make(service.state(), settings)?;
    service.open_known().await?;
    if let Some((left, pause)) = left {
        service.clone().resume(left, pause).await;
    }
    let closed = service.closed_pools();
    service
        .doors
        .start_nbd(&service.array, settings, *group, *descriptors, closed.clone(), &service.log)
        .await;
    // NBD for other machines: its relay runs until the process ends.
    let clients_max = descriptors.nbd.min(settings.nbd_clients_max as usize);
    service.doors.open_nbd_tls(service, settings, clients_max, closed).await;
    service.open_iscsi().await;
    Server::start(service, settings, *group, *descriptors, tokens).await
}

/// Opens everything. A signal meanwhile is remembered (a recovery is short, and cutting it would only
/// repeat it); a second one ends the process.
async fn open_unless_interrupted(
    service: &Arc<Service>,
    doorkeeper: &Doorkeeper,
    left: Option<(Left, Pause)>,
    signals: &mut Signals,
) -> (Result<Server>, bool) {
    let mut opening = std::pin::pin!(open(service, doorkeeper, left));
    tokio::select! {
        opened = &mut opening => return (opened, false),
        () = signals.next() => {}
    }
    service.log.info("array", "stops when it has started; a second signal ends it at once");
    tokio::select! {
        opened = &mut opening => (opened, true),
        () = signals.next() => std::process::exit(STATUS_INTERRUPTED),
    }
}

fn tell_supervisor(service: &Service, message: &str) {
    let socket = std::env::var_os("NOTIFY_SOCKET");
    if let Err(error) = notify_supervisor(socket.as_deref(), message) {
        service.log.warning("systemd", format!("NOTIFY_SOCKET does not hear us: {error}"));
    }
}

/// Beats for systemd's watchdog, if it asked for that (`WatchdogSec` of the unit).
fn feed_watchdog(service: &Arc<Service>) {
    let variable = |name: &str| std::env::var(name).ok();
    let (micros, process) = (variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"));
    let Some(patience) = watchdog::patience(micros.as_deref(), process.as_deref()) else { return };
    let service = service.clone();
    tokio::spawn(async move {
        watchdog::feed(&service.array, patience, || tell_supervisor(&service, "WATCHDOG=1")).await;
    });
}

/// The signals that end an array.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Signals> {
        let listen = |kind| signal(kind).map_err(|error| no_threads(&error));
        Ok(Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

fn no_threads(error: &std::io::Error) -> Error {
    Error::new(
        ErrorKind::Medium,
        format!("start the control threads: {error}"),
        "raise the limits of threads and open files",
    )
}

fn no_shard(error: &std::io::Error) -> Error {
    Error::new(
        ErrorKind::Medium,
        format!("start the data shard: {error}"),
        "set io_driver to \"auto\" or \"threads\"; `ashlar doctor` says what this machine allows",
    )
}

/// The line that says which driver does the I/O, with its name in front.
fn io_line(line: &str) -> String {
    if line.starts_with("io: ") { line.to_string() } else { format!("io: {line}") }
}

/// Which driver the data shard would use here, and why.
pub fn probe_io_driver() -> std::io::Result<String> {
    let settings = ShardSettings {
        name: "probe".to_string(),
        driver: DriverChoice::Auto,
        buffer_pool_bytes: 4 << 20,
        cpu: None,
    };
    let shard = ashlar_runtime::start_shard(settings, |_| Box::pin(std::future::ready(())))?;
    let line = shard.driver_line();
    shard.join();
    Ok(line)
}
