//! Everything the daemon asks of the engine, and nothing else: the one module that names its types.
//!
//! Engines live on the data shard and never leave it. A request travels there as a closure, finds
//! the shard's pools in a thread-local, and its answer comes back in the API's types.

mod content;
mod dedupe;
mod deleted;
mod difference;
mod drives;
mod exports;
mod kept_figures;
mod notes;
mod reopen;
mod space;
mod volumes;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Mutex;
use std::time::Duration;

use ashlar_api as api;
use ashlar_block::{BlockDevice, Catalogue};
use ashlar_engine::{Counters, Engine, Lineage, Opening, Settings as EngineSettings};
use ashlar_runtime::sync::Notify;
use ashlar_runtime::{DriverChoice, LocalFuture, NotDone, Remote, Runtime, ShardSettings, ShardThread};
use ashlar_telemetry::Registry;

use crate::doors::Servers;
use crate::error::{BEGIN_ANEW, Error, Result};
use crate::names;
use crate::settings::{IoDriver, Settings};
use volumes::volume_view;

pub(crate) use deleted::Deleted;
pub(crate) use kept_figures::SERIES_BYTES_MAX;
pub(crate) use notes::RecordNote;
pub(crate) use reopen::Stopped;

/// Pause before the data shard is told again to stop while too much is under way on it. Arbitrary.
const FULL_RETRY: Duration = Duration::from_millis(10);

/// What the data shard owns.
#[derive(Default)]
pub(crate) struct Shard {
    engines: RefCell<BTreeMap<String, Engine>>,
    /// Of pools that were let go to be opened again.
    lineages: RefCell<BTreeMap<String, Lineage>>,
    pub(crate) registry: Rc<Registry>,
    pub(crate) servers: Servers,
    stop: Notify,
}

thread_local! {
    /// Set on the data shard's thread only; other threads would find an empty one.
    static SHARD: Rc<Shard> = Rc::default();
}

/// Names are unique over all pools, so the doors see one flat list.
impl Catalogue for Shard {
    fn device(&self, name: &str) -> Option<Rc<dyn BlockDevice>> {
        self.engines.borrow().values().find_map(|engine| engine.device(name))
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.engines.borrow().values().flat_map(|engine| engine.device_names()).collect();
        names.retain(|name| !names::is_hidden(name));
        names.sort();
        names
    }

    fn identity(&self, name: &str) -> Option<ashlar_block::Identity> {
        self.engines.borrow().values().find_map(|engine| engine.identity(name))
    }
}

impl Shard {
    fn engine(&self, pool: &str) -> Result<Engine> {
        let engine = self.engines.borrow().get(pool).cloned();
        engine.ok_or_else(|| {
            Error::new(
                api::ErrorKind::Closed,
                format!("pool `{pool}` is not open"),
                format!("`ashlar pool show {pool}` says why"),
            )
            .about(api::ObjectKind::Pool, pool)
            .because(api::Reason::PoolClosed)
        })
    }
}

/// The data shard, seen from the control side.
pub(crate) struct Array {
    remote: Remote,
    driver_line: String,
    thread: Mutex<Option<ShardThread>>,
}

/// What a pool was when it was closed.
pub(crate) struct Closed {
    pub(crate) id: String,
    pub(crate) generation: u64,
    pub(crate) drives: Vec<api::Drive>,
}

/// What a pool holds, for the index of names.
pub(crate) struct Contents {
    pub(crate) volumes: Vec<String>,
    /// Each with its volumes.
    pub(crate) snapshots: Vec<(String, Vec<String>)>,
}

impl Array {
    /// Starts the data shard.
    pub(crate) fn start(settings: &Settings) -> std::io::Result<Array> {
        let shard = ShardSettings {
            name: "data".to_string(),
            driver: match settings.io_driver {
                IoDriver::Auto => DriverChoice::Auto,
                IoDriver::Uring => DriverChoice::Uring,
                IoDriver::Threads => DriverChoice::Threads,
            },
            buffer_pool_bytes: settings.buffer_bytes as usize,
            cpu: None,
        };
        let thread = ashlar_runtime::start_shard(shard, |_runtime| {
            let shard = SHARD.with(Rc::clone);
            Box::pin(async move { shard.stop.notified().await })
        })?;
        Ok(Array {
            remote: thread.remote(),
            driver_line: thread.driver_line(),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Which driver does input and output, and why.
    pub(crate) fn driver_line(&self) -> &str {
        &self.driver_line
    }

    /// Runs `work` on the data shard.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(Runtime, Rc<Shard>) -> LocalFuture<'static, Result<T>> + Send + 'static,
    ) -> Result<T> {
        let answer = self.remote.run(move |runtime| work(runtime, SHARD.with(Rc::clone)));
        answer.await.unwrap_or_else(|why| {
            Err(match why {
                NotDone::ShardGone => Error::stopping(),
                NotDone::ShardFull => Error::overloaded(),
            })
        })
    }

    /// Ends the data shard; every pool is closed already.
    pub(crate) async fn stop(&self) {
        let ring = || {
            self.remote.run(|_| {
                let shard = SHARD.with(Rc::clone);
                Box::pin(async move { shard.stop.notify_one() })
            })
        };
        // Gone already is as good as stopped.
        while ring().await == Err(NotDone::ShardFull) {
            tokio::time::sleep(FULL_RETRY).await;
        }
        let thread = self.thread.lock().expect("no holder of this lock panics").take();
        if let Some(thread) = thread {
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }

    /// Opens the pool that is on these drives, runs recovery, and returns its name.
    pub(crate) async fn pool_open(
        &self,
        name: &str,
        drives: &[String],
        settings: &Settings,
        opening: Opening,
        patience: Duration,
    ) -> Result<Contents> {
        let (name, drives) = (name.to_string(), drives.to_vec());
        let engine_settings = EngineSettings {
            cache_bytes: settings.cache_bytes,
            map_cache_bytes: settings.map_cache_bytes,
            dedupe_index_bytes_max: settings.dedupe_index_bytes.in_bytes(),
            dedupe_run_blocks_min: settings.dedupe_run_blocks_min,
            no_space_wait: Duration::from_secs(u64::from(settings.no_space_wait_seconds)),
            dedupe_sample_shift: settings.dedupe_sample_shift,
            may_only_read: true,
            opening,
            ..EngineSettings::default()
        };
        self.run(move |runtime, shard| {
            Box::pin(async move {
                let lineage = shard.lineages.borrow().get(&name).cloned().unwrap_or_default();
                let engine = open_patiently(&runtime, &drives, &engine_settings, lineage, patience)
                    .await
                    .map_err(from_engine)?;
                let found = engine.status().name;
                if found != name {
                    engine.close().await.map_err(from_engine)?;
                    return Err(Error::invalid(
                        format!("the drives carry pool `{found}`, not `{name}`"),
                        format!("`ashlar pool import {found}` with the same drives"),
                    ));
                }
                let contents = Contents {
                    volumes: engine.volumes().into_iter().map(|volume| volume.name).collect(),
                    snapshots: engine
                        .snapshots()
                        .into_iter()
                        .map(|image| (image.name, image.volumes))
                        .collect(),
                };
                shard.lineages.borrow_mut().remove(&name);
                shard.engines.borrow_mut().insert(name, engine);
                shard.refresh_exports(&runtime);
                Ok(contents)
            })
        })
        .await
    }

    /// Refuses a drive that carries a pool which another array has open at this moment.
    pub(crate) async fn check_not_served(&self, path: String) -> Result<()> {
        self.run(move |runtime, _| {
            Box::pin(async move { Engine::check_not_served(&runtime, &path).await.map_err(from_engine) })
        })
        .await
    }

    /// Makes a pool on drives; it is not open yet.
    pub(crate) async fn pool_create(&self, wanted: &api::PoolCreate) -> Result<()> {
        let spec = ashlar_engine::PoolSpec {
            name: wanted.name.clone(),
            drives: wanted
                .drives
                .iter()
                .map(|drive| ashlar_engine::DriveSpec {
                    path: drive.path.clone(),
                    create_size_bytes: drive.size_bytes,
                })
                .collect(),
            protection: match wanted.protection {
                api::Protection::None => ashlar_engine::Protection::None,
                api::Protection::Single => ashlar_engine::Protection::Single,
                api::Protection::Dual => ashlar_engine::Protection::Dual,
            },
            segment_bytes: None,
            width: wanted.width,
            spares: wanted.spare_count.unwrap_or(0),
        };
        self.run(move |runtime, _| {
            Box::pin(async move { Engine::create_pool(&runtime, spec).await.map(drop).map_err(from_engine) })
        })
        .await
    }

    /// Closes a pool: drained, checkpointed, its drives let go.
    ///
    /// Answers with how the last write left it.
    pub(crate) async fn pool_close(&self, name: &str) -> Result<Closed> {
        let name = name.to_string();
        self.run(move |runtime, shard| {
            Box::pin(async move {
                let engine = shard.engine(&name)?;
                // Out of the doors' sight first: new requests find no device while it drains.
                shard.engines.borrow_mut().remove(&name);
                shard.refresh_exports(&runtime);
                engine.close().await.map_err(from_engine)?;
                let status = engine.status();
                let drives = drives::views(status.drives);
                Ok(Closed { id: status.id, generation: status.generation, drives })
            })
        })
        .await
    }

    /// Closes a pool and takes it off its drives.
    pub(crate) async fn pool_destroy(&self, name: &str) -> Result<()> {
        let name = name.to_string();
        self.run(move |runtime, shard| {
            Box::pin(async move {
                let engine = shard.engine(&name)?;
                shard.engines.borrow_mut().remove(&name);
                shard.refresh_exports(&runtime);
                engine.destroy(false).await.map_err(from_engine)
            })
        })
        .await
    }

    /// Walks every root of a pool.
    pub(crate) async fn pool_check(&self, name: &str, is_deep: bool) -> Result<api::CheckReport> {
        let name = name.to_string();
        self.run(move |runtime, shard| {
            Box::pin(async move {
                let engine = shard.engine(&name)?;
                let start = runtime.now();
                let (report, parity) = match is_deep {
                    true => engine.check_deep().await.map(|(report, parity)| (report, Some(parity))),
                    false => engine.check().await.map(|report| (report, None)),
                }
                .map_err(from_engine)?;
                let mut view = check_view(name, report, (runtime.now() - start).as_millis() as u64);
                view.parity = parity.map(|parity| api::ParityCheck {
                    stripe_count: parity.stripes,
                    unproven_stripe_count: parity.unproven_stripes,
                    wrong_stripe_count: parity.wrong_stripes,
                });
                Ok(view)
            })
        })
        .await
    }

    /// Bytes that the newest check of a pool has verified, and how many there are.
    pub(crate) async fn pool_check_progress(&self, name: &str) -> Result<Option<(u64, u64)>> {
        self.with_pool(name, |engine, _| Box::pin(async move { Ok(engine.check_progress()) })).await
    }

    /// Ends the checks of a pool before their time.
    pub(crate) async fn pool_check_end(&self, name: &str) -> Result<()> {
        self.with_pool(name, |engine, _| {
            Box::pin(async move {
                engine.check_end();
                Ok(())
            })
        })
        .await
    }

    /// Holds the scrub of a pool, lets it go on, or ends it.
    pub(crate) async fn pool_scrub_change(&self, name: &str, action: api::ScrubAction) -> Result<()> {
        self.with_pool(name, move |engine, _| {
            Box::pin(async move {
                match action {
                    api::ScrubAction::Pause => engine.scrub_pause(true),
                    api::ScrubAction::Resume => engine.scrub_pause(false),
                    api::ScrubAction::Stop => engine.scrub_stop(),
                }
            })
        })
        .await
    }

    /// Checks a pool and compares it with its parity.
    pub(crate) async fn pool_scrub(&self, name: &str) -> Result<api::ScrubReport> {
        let name = name.to_string();
        self.run(move |runtime, shard| {
            Box::pin(async move {
                let engine = shard.engine(&name)?;
                let start = runtime.now();
                let report = engine.scrub().await.map_err(from_engine)?;
                let millis = (runtime.now() - start).as_millis() as u64;
                Ok(api::ScrubReport {
                    check: check_view(name, report.check, millis),
                    stripe_count: report.parity.stripes,
                    unproven_stripe_count: report.parity.unproven_stripes,
                    data_block_count: report.parity.data_blocks,
                    parity_block_count: report.parity.parity_blocks,
                    mended_block_count: report.mended_blocks,
                    duration_millis: millis,
                })
            })
        })
        .await
    }

    /// The open pools.
    pub(crate) async fn pools(&self) -> Result<Vec<api::Pool>> {
        self.run(|_, shard| {
            Box::pin(async move { Ok(shard.engines.borrow().values().map(pool_view).collect()) })
        })
        .await
    }

    /// The volumes of all open pools, without those that are hidden.
    pub(crate) async fn volumes(&self) -> Result<Vec<api::Volume>> {
        self.run(|_, shard| {
            Box::pin(async move {
                let engines = shard.engines.borrow();
                let all = engines.iter().flat_map(|(pool, engine)| {
                    let volumes = engine.volumes().into_iter();
                    let shown = volumes.filter(|volume| !names::is_hidden(&volume.name));
                    shown.map(|volume| {
                        let floor = engine.floor_status(&volume.name).map(volumes::floor_view);
                        api::Volume { floor, ..volume_view(pool, volume) }
                    })
                });
                Ok(all.collect())
            })
        })
        .await
    }

    /// What deleting a volume would give back; `None` when that takes too long to find out.
    pub(crate) async fn unique_bytes(&self, pool: &str, name: &str) -> Result<Option<u64>> {
        let (pool, name) = (pool.to_string(), name.to_string());
        self.run(move |_, shard| {
            Box::pin(async move {
                let engine = shard.engine(&pool)?;
                engine.unique_bytes(&name).await.map_err(from_engine)
            })
        })
        .await
    }

    /// The snapshots of all open pools, those of each in the order in which they were taken.
    pub(crate) async fn snapshots(&self) -> Result<Vec<api::Snapshot>> {
        self.run(|_, shard| {
            Box::pin(async move {
                let engines = shard.engines.borrow();
                let all = engines.iter().flat_map(|(pool, engine)| {
                    let mut snapshots = engine.snapshots();
                    snapshots.sort_by_key(|snapshot| snapshot.order);
                    snapshots.into_iter().map(|snapshot| snapshot_view(pool, snapshot))
                });
                Ok(all.collect())
            })
        })
        .await
    }

    /// The names of the snapshots of a pool that hold each of these volumes, and not former ones of their
    /// names.
    pub(crate) async fn snapshots_holding(
        &self,
        pool: &str,
        volumes: Vec<String>,
    ) -> Result<BTreeSet<String>> {
        self.with_pool(pool, move |engine, _| {
            Box::pin(async move { Ok(engine.snapshots_holding(&volumes).into_iter().collect()) })
        })
        .await
    }

    /// The names of one pool's snapshots.
    pub(crate) async fn snapshots_of(&self, pool: &str) -> Result<BTreeSet<String>> {
        self.with_pool(pool, |engine, _| {
            Box::pin(
                async move { Ok(engine.snapshots().into_iter().map(|snapshot| snapshot.name).collect()) },
            )
        })
        .await
    }

    /// Runs `work` with the engine of a pool; the shape of every change below.
    async fn with_pool<T: Send + 'static>(
        &self,
        pool: &str,
        work: impl FnOnce(Engine, String) -> LocalFuture<'static, ashlar_engine::Result<T>> + Send + 'static,
    ) -> Result<T> {
        let pool = pool.to_string();
        self.run(move |_, shard| {
            Box::pin(async move {
                let engine = shard.engine(&pool)?;
                work(engine, pool).await.map_err(from_engine)
            })
        })
        .await
    }

    pub(crate) async fn volume_create(&self, pool: &str, request: api::VolumeCreate) -> Result<api::Volume> {
        let (terms, spec) = (volumes::terms_of_new(&request), volumes::spec_of(request));
        self.with_pool(pool, move |engine, pool| {
            Box::pin(async move { Ok(volume_view(&pool, engine.volume_create_on(spec, terms).await?)) })
        })
        .await
    }

    pub(crate) async fn volume_resize(&self, pool: &str, name: &str, size_bytes: u64) -> Result<api::Volume> {
        let name = name.to_string();
        self.with_pool(pool, move |engine, pool| {
            Box::pin(async move { Ok(volume_view(&pool, engine.volume_resize(&name, size_bytes).await?)) })
        })
        .await
    }

    pub(crate) async fn volume_set(
        &self,
        pool: &str,
        name: &str,
        request: api::VolumePolicy,
    ) -> Result<api::Volume> {
        let name = name.to_string();
        let policy = volumes::policy_of(&request);
        self.with_pool(pool, move |engine, pool| {
            Box::pin(async move { Ok(volume_view(&pool, engine.volume_set(&name, policy).await?)) })
        })
        .await
    }

    /// Lends a volume a part of its pool's reserve.
    pub(crate) async fn lend_reserve(&self, pool: &str, name: &str) -> Result<()> {
        let name = name.to_string();
        self.with_pool(pool, move |engine, _| Box::pin(async move { engine.lend_reserve(&name) })).await
    }

    /// Waits until writes of a volume are over that began before; its rates hold these up no more. Snapshots
    /// take none.
    pub(crate) async fn volume_drain(&self, pool: &str, name: &str) -> Result<()> {
        if name.contains('@') {
            return Ok(());
        }
        let name = name.to_string();
        self.with_pool(pool, move |engine, _| Box::pin(async move { engine.volume_drain(&name).await })).await
    }

    /// Holds no request back any more, in any pool: the array is about to stop.
    pub(crate) async fn hurry(&self) {
        let hurry = self.run(|_, shard| {
            Box::pin(async move {
                shard.engines.borrow().values().for_each(Engine::hurry);
                Ok(())
            })
        });
        // An array without its shard has nothing to hurry.
        let _ = hurry.await;
    }

    pub(crate) async fn volume_delete(&self, pool: &str, name: &str) -> Result<()> {
        let (pool, name) = (pool.to_string(), name.to_string());
        self.run(move |_, shard| {
            Box::pin(async move {
                shard.engine(&pool)?.volume_delete(&name).await.map_err(from_engine)?;
                shard.registry.forget(&name);
                Ok(())
            })
        })
        .await
    }

    pub(crate) async fn snapshot_create(
        &self,
        pool: &str,
        request: api::SnapshotCreate,
    ) -> Result<api::Snapshot> {
        self.with_pool(pool, move |engine, pool| {
            Box::pin(async move {
                Ok(snapshot_view(&pool, engine.snapshot_create(&request.name, &request.volumes).await?))
            })
        })
        .await
    }

    /// Refuses a pool that takes no changes.
    pub(crate) async fn check_online(&self, pool: &str) -> Result<()> {
        self.with_pool(pool, |engine, _| Box::pin(async move { engine.check_online() })).await
    }

    pub(crate) async fn snapshots_delete(&self, pool: &str, names: Vec<String>) -> Result<()> {
        self.with_pool(pool, move |engine, _| Box::pin(async move { engine.snapshots_delete(&names).await }))
            .await
    }

    pub(crate) async fn snapshot_restore(
        &self,
        pool: &str,
        name: &str,
        backup: Option<String>,
    ) -> Result<()> {
        let name = name.to_string();
        self.with_pool(pool, move |engine, _| {
            Box::pin(async move {
                match backup {
                    Some(backup) => engine.snapshot_restore_keeping(&name, &backup).await,
                    None => engine.snapshot_restore(&name).await,
                }
            })
        })
        .await
    }

    pub(crate) async fn clone_create(
        &self,
        pool: &str,
        request: api::CloneCreate,
    ) -> Result<Vec<api::Volume>> {
        self.with_pool(pool, move |engine, pool| {
            Box::pin(async move {
                let terms = volumes::terms_of_clone(&request);
                let clones = engine.clone_create_on(&request.name, &request.from, terms).await?;
                Ok(clones.into_iter().map(|volume| volume_view(&pool, volume)).collect())
            })
        })
        .await
    }

    /// What a host would learn of `VOLUME` or `VOLUME@SNAPSHOT`.
    pub(crate) async fn geometry(&self, name: &str) -> Result<Option<ashlar_block::Geometry>> {
        let name = name.to_string();
        self.run(move |_, shard| {
            Box::pin(async move { Ok(shard.device(&name).map(|device| device.geometry())) })
        })
        .await
    }

    /// Where the time of requests went so far, by pool.
    pub(crate) async fn stages(&self) -> Result<BTreeMap<String, ashlar_engine::StagesSnapshot>> {
        self.run(|_, shard| {
            Box::pin(async move {
                let engines = shard.engines.borrow();
                Ok(engines.iter().map(|(pool, engine)| (pool.clone(), engine.stages())).collect())
            })
        })
        .await
    }

    /// The slowest requests of the last minutes, the slowest first.
    pub(crate) async fn slow_requests(&self) -> Result<Vec<(String, ashlar_engine::SlowRequest)>> {
        let slow = self.run(|_, shard| {
            Box::pin(async move {
                let engines = shard.engines.borrow();
                let of_pool = |(pool, engine): (&String, &ashlar_engine::Engine)| {
                    let slow = engine.slow_requests().into_iter();
                    slow.map(|request| (pool.clone(), request)).collect::<Vec<_>>()
                };
                Ok(engines.iter().flat_map(of_pool).collect::<Vec<_>>())
            })
        });
        let mut slow = slow.await?;
        slow.sort_by_key(|(_, request)| std::cmp::Reverse(request.total));
        Ok(slow)
    }

    /// What hosts did so far.
    pub(crate) async fn counters(&self) -> Result<ashlar_telemetry::Snapshot> {
        self.run(|_, shard| Box::pin(async move { Ok(shard.registry.snapshot()) })).await
    }
}

/// What a pool lacks though it is online.
fn what_lacks(status: &ashlar_engine::PoolStatus) -> Option<String> {
    let no_space_back = status.cleaner_trouble.as_ref().map(|why| {
        let name = &status.name;
        format!("no space comes back: {why}: `ashlar pool check {name}` names what to delete or restore")
    });
    let all: Vec<String> = [drives::lack(status), no_space_back].into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join("; "))
}

// tidy: long because it is one view, told field by field.
fn pool_view(engine: &Engine) -> api::Pool {
    let status = engine.status();
    let (state, reason) = match status.state.as_str() {
        "online" => (api::PoolState::Online, what_lacks(&status)),
        why => (api::PoolState::ReadOnly, Some(reopen::reason(engine, &status.name, why))),
    };
    let rebuild = drives::rebuild_view(&status, engine.rebuild_status());
    let drives = drives::views(status.drives);
    let state = with_drives(state, &drives);
    let scrub = |now: ashlar_engine::ScrubStatus| api::Scrub {
        done_segment_count: now.done_segments,
        total_segment_count: now.total_segments,
        elapsed_millis: now.elapsed_millis,
        is_paused: now.is_paused,
    };
    api::Pool {
        name: status.name,
        id: status.id,
        generation: status.generation,
        state,
        reason,
        protection: match status.protection {
            ashlar_engine::Protection::None => api::Protection::None,
            ashlar_engine::Protection::Single => api::Protection::Single,
            ashlar_engine::Protection::Dual => api::Protection::Dual,
        },
        rebuild,
        drives,
        unused_drives: status.unused_drives,
        rebuild_error: engine.rebuild_error(),
        removal: engine.removal_status().map(drives::removal_view),
        scrub: engine.scrub_status().map(scrub),
        scrubbed_unix_seconds: None,
        space: Some(api::Space {
            physical_bytes: status.space.physical_bytes,
            free_bytes: status.space.free_bytes,
            kept_bytes: status.space.kept_bytes,
            data_bytes: status.space.data_bytes,
            metadata_bytes: status.space.metadata_bytes,
            dead_bytes: status.space.dead_bytes,
            journal_bytes: status.space.journal_bytes,
            reserve_bytes: status.space.reserve_bytes,
            superblock_bytes: status.space.superblock_bytes,
            unusable_bytes: status.space.unusable_bytes,
            parity_bytes: status.space.parity_bytes,
            spare_bytes: status.space.spare_bytes,
            freed_bytes: status.space.freed_bytes,
        }),
        provisioned_bytes: status.provisioned_bytes,
        volumes_at_limit: status.volumes_at_limit,
        full_percent: status.full_percent,
        segment_numbers_percent: status.segment_numbers_percent,
        // Counted by the index of names: with ten thousand snapshots this shard has better things to do.
        volume_count: 0,
        snapshot_count: 0,
        deleted_volume_count: 0,
        recoverable_bytes: None,
        recovery: Some(api::Recovery {
            millis: status.recovery.millis,
            groups_replayed: status.recovery.groups_replayed,
            records_replayed: status.recovery.records_replayed,
            steps: status
                .recovery
                .steps
                .into_iter()
                .map(|(name, micros)| api::RecoveryStep { name, micros })
                .collect(),
        }),
        counters: counter_views(&status.counters, status.cache_bytes_used, status.map_bytes_used)
            .chain([("writes_waiting_for_room", status.writes_waiting_for_room)])
            .chain(dedupe::counter_views(&status.dedupe))
            .map(|(name, value)| (name.to_string(), value))
            .collect(),
    }
}

/// A pool that serves without some of its drives is degraded.
fn with_drives(state: api::PoolState, drives: &[api::Drive]) -> api::PoolState {
    match state {
        api::PoolState::Online if !drives.iter().all(api::Drive::is_served) => api::PoolState::Degraded,
        state => state,
    }
}

fn check_view(pool: String, report: ashlar_engine::CheckReport, duration_millis: u64) -> api::CheckReport {
    let ashlar_engine::CheckReport { pages, chunks, live_bytes, errors } = report;
    api::CheckReport {
        pool,
        page_count: pages,
        chunk_count: chunks,
        live_bytes,
        duration_millis,
        errors,
        parity: None,
    }
}

// tidy: long because it names every counter once.
fn counter_views(
    counters: &Counters,
    cache_bytes_used: u64,
    map_bytes_used: u64,
) -> impl Iterator<Item = (&'static str, u64)> + use<> {
    // Taken apart without `..`, so that a new counter of the engine is not forgotten here.
    let Counters {
        checkpoints,
        pages_written,
        delta_pages_written,
        metadata_bytes_written,
        journal_groups,
        journal_queued_max,
        journal_bytes_written,
        host_bytes_written,
        writes_waited_for_room,
        writes_refused_for_room,
        writes_refused_by_limit,
        requests_held_back,
        requests_gave_precedence,
        host_bytes_read,
        stored_bytes,
        zero_blocks,
        copied_blocks,
        incompressible_blocks,
        uncompressed_blocks,
        cache_hits,
        cache_misses,
        segments_freed,
        segments_emptied,
        moved_bytes,
        left_behind_chunks,
        recompressed_saved_bytes,
        trimmed_blocks,
        mended_blocks,
        marks,
        damage,
    } = *counters;
    [
        ("checkpoints", checkpoints),
        ("pages_written", pages_written),
        ("delta_pages_written", delta_pages_written),
        ("metadata_bytes_written", metadata_bytes_written),
        ("journal_groups", journal_groups),
        ("journal_queued_max", journal_queued_max),
        ("journal_bytes_written", journal_bytes_written),
        ("host_bytes_written", host_bytes_written),
        ("writes_waited_for_room", writes_waited_for_room),
        ("writes_refused_for_room", writes_refused_for_room),
        ("writes_refused_by_limit", writes_refused_by_limit),
        ("requests_held_back", requests_held_back),
        ("requests_gave_precedence", requests_gave_precedence),
        ("host_bytes_read", host_bytes_read),
        ("stored_bytes", stored_bytes),
        ("zero_blocks", zero_blocks),
        ("copied_blocks", copied_blocks),
        ("incompressible_blocks", incompressible_blocks),
        ("uncompressed_blocks", uncompressed_blocks),
        ("cache_hits", cache_hits),
        ("cache_misses", cache_misses),
        ("segments_freed", segments_freed),
        ("segments_emptied", segments_emptied),
        ("moved_bytes", moved_bytes),
        ("left_behind_chunks", left_behind_chunks),
        ("recompressed_saved_bytes", recompressed_saved_bytes),
        ("trimmed_blocks", trimmed_blocks),
        ("mended_blocks", mended_blocks),
        ("marks", marks),
        ("damage", damage),
        ("cache_bytes_used", cache_bytes_used),
        ("map_bytes_used", map_bytes_used),
    ]
    .into_iter()
}

fn snapshot_view(pool: &str, snapshot: ashlar_engine::SnapshotInfo) -> api::Snapshot {
    api::Snapshot {
        name: snapshot.name,
        pool: pool.to_string(),
        volumes: snapshot.volumes,
        created_unix_seconds: snapshot.created_unix_seconds,
        size_bytes: snapshot.size_bytes,
        hold: snapshot
            .hold
            .map(|hold| api::SnapshotHold { reason: hold.reason, since_unix_seconds: hold.unix_seconds }),
    }
}

/// A killed array's io_uring lets go of drives and sockets only when the kernel has wound it up: 35 to
/// 65 ms after the process was gone, measured under load. A start right behind it must wait, not fail.
pub(crate) const LINGER: Duration = Duration::from_secs(5);
/// How often to look; arbitrary, short against what is waited for.
pub(crate) const LINGER_STEP: Duration = Duration::from_millis(10);

/// Opens a pool; drives in use get the time a killed predecessor needs to let go of them.
async fn open_patiently(
    runtime: &Runtime,
    drives: &[String],
    settings: &EngineSettings,
    lineage: Lineage,
    patience: Duration,
) -> ashlar_engine::Result<Engine> {
    let end = runtime.now() + patience;
    loop {
        match Engine::open_again(runtime, drives, settings.clone(), lineage.clone()).await {
            Err(error) if error.kind == ashlar_engine::ErrorKind::Busy && runtime.now() < end => {
                runtime.sleep(LINGER_STEP).await;
            }
            result => return result,
        }
    }
}

/// The engine says what and why; what to do follows from its kind.
pub(crate) fn from_engine(error: ashlar_engine::Error) -> Error {
    use ashlar_engine::ErrorKind;
    let (kind, action) = match error.kind {
        ErrorKind::Invalid => (api::ErrorKind::Invalid, "mend the request"),
        ErrorKind::NotFound => (api::ErrorKind::NotFound, "the list commands show what there is"),
        ErrorKind::Exists => (api::ErrorKind::Exists, "choose another name"),
        ErrorKind::NoSpace => (api::ErrorKind::NoSpace, "delete or unmap what is no longer needed"),
        ErrorKind::Damaged => (
            api::ErrorKind::Damaged,
            "`ashlar inspect --salvage` copies what can be read; restore the rest from a backup",
        ),
        ErrorKind::Medium => (api::ErrorKind::Medium, "look at the drive and the kernel's log"),
        ErrorKind::ReadOnly => {
            (api::ErrorKind::ReadOnly, "`ashlar pool show` says why the pool takes no writes")
        }
        ErrorKind::Busy => (api::ErrorKind::Busy, "end that use first, then repeat"),
        ErrorKind::Closed => (api::ErrorKind::Closed, "`ashlar pool list` says whether the pool is open"),
        ErrorKind::Cancelled => (api::ErrorKind::Cancelled, BEGIN_ANEW),
    };
    let told = Error::new(kind, error.context, error.action.unwrap_or_else(|| action.to_string()));
    match kind {
        // What is wrong with values alone was told before the engine was asked.
        api::ErrorKind::Invalid => told.because(api::Reason::DoesNotFit),
        api::ErrorKind::Cancelled => told.because(api::Reason::JobEnded),
        _ => told,
    }
}
