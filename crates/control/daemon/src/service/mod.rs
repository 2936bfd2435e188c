//! What the API's operations do: checks, the engine's work, the state file, the log.
//!
//! Changes run one after another under one lock, so that names stay unique over all pools and the
//! state file tells the truth; reading never waits for them. An index of names answers "which pool"
//! without asking the data shard, which matters with ten thousand snapshots.

mod access;
mod attachments;
mod awaited;
mod clients;
mod databases;
mod deleted;
mod difference;
mod drive_content;
mod drive_files;
mod drives;
mod ends;
mod exports;
mod failures;
mod figures;
mod forecast;
mod generations;
mod hosts;
mod index;
mod jobs;
mod kept_figures;
mod lab;
mod late;
mod marks;
mod objectives;
mod orders;
mod pools;
mod profile;
mod reload;
mod reopen;
mod resume;
mod schedules;
mod scrubs;
mod snapshots;
mod space;
mod spares;
mod status;
mod stop;
mod users;
mod volumes;
mod watch;
mod wear;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ashlar_api as api;

use crate::access::Access;
use crate::array::Array;
use crate::audit::Audit;
use crate::console::Console;
use crate::doors::Doors;
use crate::error::{Error, Result};
use crate::gate::Gate;
use crate::jobs::Jobs;
use crate::keeping::Keeping;
use crate::log::Log;
use crate::places::Places;
use crate::repeats::Repeats;
use crate::settings;
use crate::state::{KnownPool, State};

pub use databases::run_database_process;
pub(crate) use failures::ClosedPools;
pub(crate) use figures::{INTERVAL as FIGURES_INTERVAL, unix_millis};
use index::Index;
pub(crate) use orders::Order;
pub use orders::own_program;

/// The array as the API sees it.
pub(crate) struct Service {
    pub(crate) log: Arc<Log>,
    pub(crate) array: Array,
    pub(crate) doors: Doors,
    pub(crate) places: Places,
    pub(crate) settings: settings::Live,
    state: State,
    started: Instant,
    started_unix_millis: u64,
    /// One change at a time.
    changes: tokio::sync::Mutex<()>,
    known: Mutex<Known>,
    /// Snapshots mounted so far: the numbers of the clones they are mounted by.
    snapshots_mounted: AtomicU64,
    wear: wear::Gauge,
    generations: generations::Generations,
    keeper: deleted::Keeper,
    keeping: Keeping,
    /// What a person wants the array to do.
    orders: tokio::sync::watch::Sender<Option<Order>>,
    /// How long attached volumes waited for this array.
    handover_pause: OnceLock<Duration>,
    /// One at a time gives a new database its number and its port.
    new_databases: tokio::sync::Mutex<()>,
    schedules: schedules::Live,
    pub(crate) figures: figures::Live,
    pub(crate) console: Console,
    /// Users and tokens.
    pub(crate) access: Arc<Access>,
    /// Who changed what.
    pub(crate) audit: Audit,
    /// TLS of the API.
    pub(crate) gate: Gate,
    /// Requests that may come twice.
    pub(crate) repeats: Repeats,
    /// Long work that requests asked for.
    pub(crate) jobs: Jobs,
    /// Another one for each start of the array.
    pub(crate) boot_id: String,
    /// Known pools are open, or their wait is over.
    is_ready: AtomicBool,
    /// False while all volumes are to be detached.
    may_tend_databases: AtomicBool,
    /// Nothing new is begun.
    is_stopping: AtomicBool,
    /// What was under way at the stop is over, or was given up: nothing changes any more.
    is_closed: AtomicBool,
}

/// What the control side remembers about pools and names.
#[derive(Default)]
struct Known {
    pools: Vec<KnownPool>,
    /// Why a known pool is not open.
    failures: failures::Failures,
    /// Which of these are opened as soon as their drives are there.
    waits: std::collections::BTreeMap<String, late::Wait>,
    index: Index,
    /// The states and paths of each open pool's drives that the log told last, by their numbers.
    drive_states: std::collections::BTreeMap<String, std::collections::BTreeMap<u32, (String, String)>>,
    /// What somebody did to the file of a drive that is served, by pool and the drive's identity.
    drive_troubles: std::collections::BTreeMap<(String, String), String>,
    /// Volumes that are attached or about to be: they are not deleted, restored or exported.
    attached: std::collections::BTreeMap<String, Slot>,
    /// What was attached before the start and is to be again, by volume.
    to_attach: std::collections::BTreeMap<String, resume::Return>,
    /// Databases that somebody works on.
    busy_databases: std::collections::BTreeSet<String>,
    /// Why a database is not as it is to be, where that is tried again.
    database_troubles: std::collections::BTreeMap<String, String>,
}

impl Known {
    /// What a known pool is that is not open.
    fn closed_state(&self, pool: &str) -> api::PoolState {
        match self.waits.contains_key(pool) {
            true => api::PoolState::Waiting,
            false => api::PoolState::Failed,
        }
    }

    fn pool(&self, name: &str) -> Option<&KnownPool> {
        self.pools.iter().find(|pool| pool.name == name)
    }

    /// Whether a known pool is open, or is being opened.
    fn is_opened(&self, pool: &str) -> bool {
        !self.failures.contains(pool)
    }

    /// A pool is open, or not ours any more.
    fn forget_failure(&mut self, pool: &str) {
        self.failures.remove(pool);
        self.waits.remove(pool);
    }
}

/// A volume in the table of attachments.
struct Slot {
    /// `None` while it is being attached or detached.
    attachment: Option<api::Attachment>,
    /// The volume whose file carries the device: itself, or the hidden clone a snapshot is mounted by.
    carrier: String,
    pool: String,
    /// How it was asked for.
    request: api::AttachRequest,
    /// A detach told that its file system lost what was written to it; the next one goes on.
    is_loss_told: bool,
}

impl Slot {
    /// Of a volume that is about to be attached.
    fn new(request: &api::AttachRequest, pool: String) -> Slot {
        let carrier = request.volume.clone();
        // Attached again it is not made anew.
        let request = api::AttachRequest { format: None, force: false, ..request.clone() };
        Slot { attachment: None, carrier, pool, request, is_loss_told: false }
    }
}

impl Service {
    /// Which known pools are not open.
    pub(crate) fn closed_pools(&self) -> ClosedPools {
        self.known().failures.closed()
    }

    /// A service over a data shard; no pool is open yet.
    pub(crate) fn new(
        state: State,
        settings: settings::Live,
        places: Places,
        array: Array,
        keeping: Keeping,
        log: Arc<Log>,
    ) -> Result<Service> {
        let access = Arc::new(Access::load(&state, &log)?);
        let audit = Audit::new(state.directory(), log.clone());
        let doors = Doors::new(&state, &settings.now());
        let boot_id = log.boot_id().to_string();
        Ok(Service {
            log,
            array,
            doors,
            places,
            settings,
            state,
            started: Instant::now(),
            started_unix_millis: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_millis() as u64),
            changes: tokio::sync::Mutex::new(()),
            known: Mutex::default(),
            snapshots_mounted: AtomicU64::new(0),
            wear: wear::Gauge::default(),
            generations: generations::Generations::default(),
            keeper: deleted::Keeper::default(),
            keeping,
            orders: tokio::sync::watch::Sender::new(None),
            handover_pause: OnceLock::new(),
            new_databases: tokio::sync::Mutex::new(()),
            schedules: schedules::Live::default(),
            figures: figures::Live::default(),
            console: Console::default(),
            access,
            audit,
            gate: Gate::default(),
            repeats: Repeats::default(),
            jobs: Jobs::default(),
            boot_id,
            is_ready: AtomicBool::new(false),
            may_tend_databases: AtomicBool::new(true),
            is_stopping: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        })
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no holder of this lock panics")
    }

    /// Waits for its turn to change something. Refused once the array has stopped to where nothing changes;
    /// before that work that is under way may come to its end.
    async fn change(&self) -> Result<tokio::sync::MutexGuard<'_, ()>> {
        let turn = self.changes.lock().await;
        if self.is_closed() {
            return Err(self.stopping());
        }
        Ok(turn)
    }

    /// Why nothing new is begun.
    pub(crate) fn stopping(&self) -> Error {
        let goes_on = matches!(&*self.orders.borrow(), Some(Order::Upgrade(_)));
        if goes_on { Error::going_on() } else { Error::stopping() }
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    fn open_pools(&self) -> Vec<String> {
        let known = self.known();
        let is_open = |pool: &&KnownPool| !known.failures.contains(&pool.name);
        known.pools.iter().filter(is_open).map(|pool| pool.name.clone()).collect()
    }
}
