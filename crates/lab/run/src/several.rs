//! Several databases at once, on servers of their own: started one after the other while those before go on,
//! and measured together when all of them are there.
//!
//! ```text
//! one    │ starts │ warm-up ───────────────────────────▶ │ measured │
//! two    │        │ starts │ warm-up ──────────────────▶ │ measured │
//! three  │        │        │ starts │ warm-up ─────────▶ │ measured │
//! ```
//! The rate of a run is the sum, its latencies are those of all transactions, and each database is told.

mod figures;
mod versions;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ashlar_postgres::{Address, Adoption, ColdStart, Limits, Places, Server, Statistics};
use ashlar_programs::Launcher;
use ashlar_scenario::{Place, Plan, Rate, Run, Servers, SeveralLoad, Variant};
use ashlar_target::Laid;
use ashlar_workload::broker::{self, Broker};
use ashlar_workload::driver::{self, Loop, Observer, Phase};

pub use figures::EachFigures;
pub(crate) use versions::{check as check_versions, choose as chosen};

use crate::bases::FromBase;
use crate::copies::{Kept, Promises};
use crate::database::{self, ANSWER_LIMIT, Ledger, Scratch};
use crate::figures::Figures;
use crate::record::make;
use crate::{Error, Result, jobs};

/// Servers with databases, stopped between runs.
pub(crate) struct Several {
    servers: Vec<Server>,
    bases: Servers,
    seed: u64,
    /// They were not loaded.
    from: Option<FromBase>,
    /// Behind the servers, which write there to their end.
    _scratches: Vec<Scratch>,
}

/// What one database came to.
struct Driven {
    found: broker::Figures,
    kept: Kept,
}

/// Processor time of all servers when the measured phase began and ended.
#[derive(Default)]
struct Watch {
    seconds: Mutex<Vec<Option<f64>>>,
}

impl Several {
    /// Makes the servers where the target has room for them and loads the databases, or takes what a base has
    /// of them; they are stopped at the end.
    pub(crate) fn make(
        launcher: &Arc<Launcher>,
        (laid, sockets, records, from): (&Laid, &Path, &Path, Option<FromBase>),
        bases: &Servers,
        (seed, stop): (u64, &AtomicBool),
    ) -> Result<Several> {
        let installations = versions::choose(launcher, bases)?;
        let (mut servers, mut scratches) = (Vec::new(), Vec::new());
        for ((name, base), installation) in bases.servers.iter().zip(&installations) {
            let records = records.join(name);
            make(&records)?;
            let socket = sockets.with_extension(name);
            let places = Places {
                data: laid.data.join(format!("pgdata-{name}")),
                wal: laid.log.as_ref().map(|log| log.join(format!("wal-{name}"))),
                tablespaces: Vec::new(),
                temporary: None,
                socket: socket.clone(),
                port: database::PORT,
            };
            scratches.push(Scratch { directory: socket, records });
            let mut server = Server::new(installation, places, database::settings(base));
            if let Some(memory) = base.memory {
                server.limit(&Limits { memory_bytes: Some(memory.0), ..Limits::default() })?;
            }
            match &from {
                Some(_) => server.adopt(&Adoption::default()).map(drop)?,
                None => server.initialise()?,
            }
            servers.push(server);
        }
        let is_loaded = from.is_some();
        let mut several = Several { servers, bases: bases.clone(), seed, from, _scratches: scratches };
        if is_loaded {
            return Ok(several);
        }
        (0..several.servers.len()).try_for_each(|index| several.load(index, stop))?;
        Ok(several)
    }

    /// Of all servers.
    pub(crate) fn addresses(&self) -> Vec<Address> {
        self.servers.iter().map(Server::address).collect()
    }

    /// All databases of one server.
    fn load(&mut self, index: usize, stop: &AtomicBool) -> Result<()> {
        let sessions = std::thread::available_parallelism().map_or(1, usize::from);
        self.servers[index].start()?;
        for place in self.bases.databases.iter().filter(|place| place.server == index) {
            let server = &self.servers[index];
            server.query(&format!("CREATE DATABASE \"{}\"", place.name))?;
            let address = server.address_of(&place.name);
            // Of its own, so that no two databases have the same customers.
            let seed = jobs::mixed(self.seed, &place.name);
            database::load_broker(&address, place.tables, (seed, sessions, stop))?;
        }
        self.servers[index].query("CHECKPOINT")?;
        Ok(self.servers[index].stop()?)
    }

    /// Starts the servers cold and the databases one after the other, and asks everything of each behind it.
    pub(crate) fn run(
        &mut self,
        (run, variant): (&Run, &Variant),
        load: &SeveralLoad,
        (plan, seed): (&Plan, u64),
        stop: &AtomicBool,
    ) -> Result<Figures> {
        let started = load.users.len();
        let used = |index: &usize| self.bases.databases[..started].iter().any(|one| one.server == *index);
        let used: Vec<usize> = (0..self.servers.len()).filter(used).collect();
        let mut cold: Vec<ColdStart> = Vec::new();
        for index in &used {
            cold.push(self.servers[*index].cold_start()?);
        }
        let before = self.statistics(&used)?;
        let watch = Watch::default();
        let driven = self.drive(load, (plan, seed), (&watch, stop))?;
        let statistics = self.statistics(&used)?;
        let statistics: Vec<Statistics> =
            statistics.iter().zip(&before).filter_map(|(after, before)| after.since(before).ok()).collect();
        used.iter().try_for_each(|index| self.servers[*index].stop())?;
        let servers: Vec<&Server> = used.iter().map(|index| &self.servers[*index]).collect();
        let places = &self.bases.databases[..started];
        let each = places.iter().zip(&load.users).zip(&driven).map(|((place, users), driven)| {
            let version = self.servers[place.server].installation().version();
            let server = &self.bases.servers[place.server].0;
            EachFigures::of((place, server, version), *users, driven)
        });
        let of_servers = figures::OfServers {
            servers: &servers,
            cold,
            statistics,
            processor_seconds: watch.processor_seconds(),
        };
        let mut told = figures::told((run, variant), load, (each.collect(), &driven), of_servers);
        told.database.iter_mut().for_each(|database| database.base = self.from.clone());
        Ok(told)
    }

    fn statistics(&self, used: &[usize]) -> Result<Vec<Statistics>> {
        used.iter().map(|index| Ok(self.servers[*index].statistics()?)).collect()
    }

    /// A thread for each, which waits for its turn.
    fn drive(
        &self,
        load: &SeveralLoad,
        (plan, seed): (&Plan, u64),
        (watch, stop): (&Watch, &AtomicBool),
    ) -> Result<Vec<Driven>> {
        let started = load.users.len();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..started)
                .map(|index| {
                    let wait = load.stagger * index as u32;
                    let warm_up = plan.warmup + load.stagger * (started - 1 - index) as u32;
                    let place = &self.bases.databases[index];
                    let seed = jobs::mixed(seed, &place.name);
                    let users = load.users[index];
                    let mut asked = driver::Plan::closed(users as usize, warm_up, plan.measure, seed);
                    if let Some(Rate(rate)) = load.rate {
                        asked.pace = Loop::Open { per_second: rate * users as f64 };
                    }
                    // One looks at the servers for all.
                    let watch = (index == 0).then_some(watch);
                    scope.spawn(move || {
                        sleep(wait, stop);
                        self.drive_one(place, &asked, (watch, stop))
                    })
                })
                .collect();
            let driven = threads.into_iter().map(|thread| thread.join().expect("a panic ends the process"));
            let driven: Vec<Result<Driven>> = driven.collect();
            driven.into_iter().collect()
        })
    }

    fn drive_one(
        &self,
        place: &Place,
        asked: &driver::Plan,
        (watch, stop): (Option<&Watch>, &AtomicBool),
    ) -> Result<Driven> {
        let server = &self.servers[place.server];
        let address = server.address_of(&place.name);
        let within = |error: Error| Error { context: format!("{}: {}", place.name, error.context), ..error };
        let mut session = ashlar_postgres::Session::open(&address, "ashlar lab", ANSWER_LIMIT)?;
        broker::cleanup(&mut session).map_err(Error::from).map_err(within)?;
        let ledger = Arc::new(Ledger::begin(&mut session)?);
        let mut settings = broker::Settings::new(self.seed);
        settings.limit = ANSWER_LIMIT;
        let workload = Broker::open(&address, settings, Some(ledger.clone()))?;
        let mut watching = Watching { watch, servers: &self.servers };
        let found = workload.run(asked, stop, &mut watching).map_err(Error::from).map_err(within)?;
        database::ended(&found.outcome).map_err(within)?;
        let (now, ()) = ledger.mark_while(|| ());
        let kept = ledger.look(&mut session, now).map_err(within)?;
        Ok(Driven { found, kept })
    }
}

/// Ends early when somebody asked to stop.
fn sleep(time: Duration, stop: &AtomicBool) {
    let end = std::time::Instant::now() + time;
    while std::time::Instant::now() < end && !stop.load(std::sync::atomic::Ordering::SeqCst) {
        let left = end.saturating_duration_since(std::time::Instant::now());
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

/// The driver's observer that looks at the servers' processor time.
struct Watching<'a> {
    watch: Option<&'a Watch>,
    servers: &'a [Server],
}

impl Observer for Watching<'_> {
    fn began(&mut self, phase: Phase) {
        let Some(watch) = self.watch.filter(|_| phase != Phase::WarmUp) else { return };
        let used = self.servers.iter().filter(|server| server.is_running()).map(|server| {
            let usage = server.usage().ok().flatten()?;
            Some(usage.cpu?.as_secs_f64())
        });
        let sum = used.sum::<Option<f64>>();
        watch.seconds.lock().unwrap_or_else(PoisonError::into_inner).push(sum);
    }
}

impl Watch {
    /// In the measured phase; `None` where it is not counted.
    fn processor_seconds(&self) -> Option<f64> {
        match self.seconds.lock().unwrap_or_else(PoisonError::into_inner)[..] {
            [Some(first), Some(last)] => Some(last - first),
            _ => None,
        }
    }
}
