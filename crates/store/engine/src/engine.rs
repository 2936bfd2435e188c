//! An open pool: the parts wired together, the tasks that run them, and its end.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use ashlar_block::BlockDevice;
use ashlar_format::catalogue::VolumeKind;
use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_format::superblock::{CELLS_START_BYTES, DriveState};
use ashlar_journal::Journal;
use ashlar_map::BlockCache;
use ashlar_pool::{DriveReport, Pool, PoolSpec};
use ashlar_runtime::sync::{Mutex, Notify, Semaphore};
use ashlar_runtime::{Priority, Runtime};
use ashlar_units::{PoolId, VolumeId};

use crate::admission::CHANGE_BYTES_IN_FLIGHT;
use crate::allowance::Growing;
use crate::apply::{Outcome, Tree};
use crate::check::Checks;
use crate::checkpoint::{Applied, Checkpointer, Cut};
use crate::cleaner::CleanerState;
use crate::dedupe::Dedupe;
use crate::device::VolumeDevice;
use crate::drives::Rebuilds;
use crate::info::{Counters, DriveStatus, PoolStatus, RecoveryReport, SnapshotInfo, Space, VolumeInfo};
use crate::lineage::Lineage;
use crate::listing::Listings;
use crate::media::Media;
use crate::mover::Mover;
use crate::notebook::NotesState;
use crate::precedence::Gate;
use crate::range_lock::RangeLock;
use crate::rates::Turns;
use crate::removal::Removals;
use crate::room::{Full, Lent};
use crate::scrub::Scrubs;
use crate::stages::{SlowRequest, Stages, StagesSnapshot};
use crate::under_way::UnderWay;
use crate::{Error, ErrorKind, Result, Settings};

/// An open pool. Clones are the same pool.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Rc<Inner>,
    pub(crate) lineage: Lineage,
}

/// Where the pool is in its life.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Life {
    Online,
    /// Takes no writes any more, for this reason; reads go on.
    Stopped(String),
    Closing,
    Closed,
}

pub(crate) struct Inner {
    pub(crate) runtime: Runtime,
    pub(crate) pool: Pool,
    pub(crate) media: Media,
    /// What segments hold that were looked at lately.
    pub(crate) listings: Listings,
    pub(crate) settings: Settings,
    pub(crate) tree: RefCell<Tree>,
    pub(crate) cache: RefCell<BlockCache>,
    /// Where chunks are decompressed; held for no longer than one.
    pub(crate) decompressed: RefCell<Vec<u8>>,
    pub(crate) journal: Journal<Outcome>,
    /// Held while a group is applied and while a cut is taken: a cut never sees half a group.
    pub(crate) apply_turn: Mutex<()>,
    pub(crate) applied: Cell<Applied>,
    /// Why a record could not be applied, if one could not.
    pub(crate) apply_failure: RefCell<Option<Error>>,
    pub(crate) checkpointer: Mutex<Checkpointer>,
    pub(crate) checkpoints: CheckpointRequests,
    pub(crate) cleaner: CleanerState,
    pub(crate) dedupe: Dedupe,
    pub(crate) notes: NotesState,
    pub(crate) rebuilds: Rebuilds,
    pub(crate) removals: Removals,
    pub(crate) scrubs: Scrubs,
    pub(crate) checks: Checks,
    pub(crate) mover: Mutex<Mover>,
    /// Credits of host writes taken in, in bytes.
    pub(crate) write_credits: Semaphore,
    pub(crate) write_credits_total: usize,
    /// Of changes without data, in bytes; of their own, because writes of a full pool hold theirs while they
    /// wait for what deletes and unmaps make room for.
    pub(crate) change_credits: Semaphore,
    /// One catalogue change at a time is checked and journalled.
    pub(crate) control_turn: Mutex<()>,
    pub(crate) full: Full,
    pub(crate) growing: Growing,
    pub(crate) turns: Turns,
    /// Who goes before whom.
    pub(crate) gate: Gate,
    pub(crate) lent: Cell<Option<Lent>>,
    /// Which blocks are being written.
    pub(crate) ranges: RangeLock,
    pub(crate) under_way: UnderWay,
    /// Nothing waits for rates any more: the pool is about to close.
    pub(crate) is_hurried: Cell<bool>,
    pub(crate) counters: RefCell<Counters>,
    pub(crate) stages: Stages,
    pub(crate) life: RefCell<Life>,
    applier_ended: Notify,
    is_applier_ended: Cell<bool>,
    /// Background tasks that hold the pool open.
    tasks: Cell<usize>,
    task_ended: Notify,
    /// A later program set a feature or a note that allows reading only.
    pub(crate) must_only_read: bool,
    pub(crate) recovery: RecoveryReport,
}

/// See [`Inner::as_task`].
pub(crate) struct AsTask<'a>(&'a Inner);

impl Drop for AsTask<'_> {
    fn drop(&mut self) {
        self.0.tasks.set(self.0.tasks.get() - 1);
        self.0.task_ended.notify_waiters();
    }
}

/// Who wants a checkpoint and how many there were.
pub(crate) struct CheckpointRequests {
    pub(crate) wanted: Notify,
    /// Cuts taken so far; a request is served by the first cut after it.
    pub(crate) cuts: Cell<u64>,
    pub(crate) published: Cell<u64>,
    /// The LSN of the last published cut.
    pub(crate) published_lsn: Cell<u64>,
}

/// What recovery hands over.
pub(crate) struct Parts {
    pub(crate) runtime: Runtime,
    pub(crate) media: Media,
    pub(crate) settings: Settings,
    pub(crate) tree: RefCell<Tree>,
    pub(crate) applied: Applied,
    pub(crate) resume_offset: Option<u64>,
    pub(crate) checkpointer: Checkpointer,
    pub(crate) recovery: RecoveryReport,
    /// Why the pool may only be read, if it may.
    pub(crate) only_read: Option<String>,
    /// Whatever becomes of its drives.
    pub(crate) must_only_read: bool,
}

impl Engine {
    /// Makes a pool. Refuses drives that carry one.
    pub async fn create_pool(runtime: &Runtime, spec: PoolSpec) -> Result<PoolId> {
        crate::control::check_name("pool", &spec.name)?;
        Ok(Pool::create(runtime, &spec).await?)
    }

    /// Refuses a drive that carries a pool which somebody has open at this moment.
    pub async fn check_not_served(runtime: &Runtime, path: &str) -> Result<()> {
        Ok(ashlar_pool::check_not_served(runtime, path).await?)
    }

    /// Opens the pool on these drives, replaying its journal.
    pub async fn open(runtime: &Runtime, drives: &[String], settings: Settings) -> Result<Engine> {
        let parts = crate::recovery::recover(runtime, drives, settings).await?;
        Ok(Engine::start(parts))
    }

    // tidy: long because it names every part once.
    fn start(parts: Parts) -> Engine {
        let Parts {
            runtime,
            media,
            settings,
            tree,
            applied,
            resume_offset,
            checkpointer,
            recovery,
            only_read,
            must_only_read,
        } = parts;
        let pool = media.pool.clone();
        let wanted = Notify::new();
        let journal = Journal::start(&pool, applied.end, resume_offset, applied.next_lsn, wanted.clone());
        // Credits bound what a full pool may still have to take in after admission: two segments.
        let credits = settings.write_bytes_in_flight.min(pool.segment_bytes() * 2) as usize;
        let inner = Rc::new(Inner {
            listings: Listings::default(),
            cache: RefCell::new(BlockCache::new(settings.cache_bytes as usize)),
            decompressed: RefCell::default(),
            tree,
            journal,
            apply_turn: Mutex::new(()),
            applied: Cell::new(applied),
            apply_failure: RefCell::default(),
            checkpointer: Mutex::new(checkpointer),
            checkpoints: CheckpointRequests {
                wanted,
                cuts: Cell::new(0),
                published: Cell::new(0),
                published_lsn: Cell::new(applied.next_lsn.0),
            },
            cleaner: CleanerState::default(),
            dedupe: Dedupe::new(&runtime, &settings, &pool),
            notes: NotesState::default(),
            rebuilds: Rebuilds::default(),
            removals: Removals::default(),
            scrubs: Scrubs::default(),
            checks: Checks::default(),
            mover: Mutex::new(Mover::new(&pool)),
            write_credits: Semaphore::new(credits),
            write_credits_total: credits,
            change_credits: Semaphore::new(CHANGE_BYTES_IN_FLIGHT),
            control_turn: Mutex::new(()),
            full: Full::default(),
            growing: Growing::default(),
            turns: Turns::default(),
            gate: Gate::new(&runtime),
            lent: Cell::default(),
            ranges: RangeLock::default(),
            under_way: UnderWay::default(),
            is_hurried: Cell::new(false),
            counters: RefCell::default(),
            stages: Stages::default(),
            life: RefCell::new(Life::Online),
            applier_ended: Notify::new(),
            is_applier_ended: Cell::new(false),
            tasks: Cell::new(0),
            task_ended: Notify::new(),
            must_only_read,
            recovery,
            pool,
            media,
            settings,
            runtime,
        });
        inner.start_tasks();
        if let Some(why) = only_read {
            inner.stop(&Error::new(ErrorKind::Medium, why));
        }
        let lineage = Lineage::default();
        lineage.go_on(&inner);
        Engine { inner, lineage }
    }

    /// Holds no request back any more: what waits for its turn goes on. Before doors close that wait for it.
    pub fn hurry(&self) {
        self.inner.is_hurried.set(true);
        self.inner.gate.open();
    }

    /// Waits until writes of a volume are over that began before, also those of hosts that have left: nothing
    /// of them comes behind. Its rates do not hold these up.
    ///
    /// # Errors
    /// When there is no such volume.
    pub async fn volume_drain(&self, name: &str) -> Result<()> {
        let volume = self.inner.volume_id(name)?;
        self.inner.under_way.drain(volume).await;
        Ok(())
    }

    /// Finishes what is in flight, writes a last checkpoint and lets go of the drives.
    pub async fn close(&self) -> Result<()> {
        let inner = &self.inner;
        let before = std::mem::replace(&mut *inner.life.borrow_mut(), Life::Closing);
        if matches!(before, Life::Closing | Life::Closed) {
            return Err(Error::new(ErrorKind::Closed, "the pool is closing already"));
        }
        inner.cleaner.finished.notify_waiters();
        inner.cleaner.news.notify_one();
        inner.release_scrub();
        inner.gate.open();
        inner.removals.wake.notify_waiters();
        inner.journal.close();
        while !inner.is_applier_ended.get() {
            inner.applier_ended.notified().await;
        }
        let result = match before {
            // Nothing was written, and nothing is left to write.
            Life::Stopped(_) if inner.pool.is_read_only() => Ok(()),
            Life::Stopped(reason) => Err(Error::new(ErrorKind::Medium, reason)),
            Life::Online | Life::Closing | Life::Closed => inner.last_checkpoint().await,
        };
        *inner.life.borrow_mut() = Life::Closed;
        inner.checkpoints.wanted.notify_one();
        inner.cleaner.wake.notify_one();
        inner.dedupe.ring();
        while inner.tasks.get() > 0 {
            inner.task_ended.notified().await;
        }
        inner.pool.settle().await;
        result
    }

    /// Wipes the pool off its drives. Volumes must be gone first, or `is_forced`.
    pub async fn destroy(&self, is_forced: bool) -> Result<()> {
        let volumes = self.volumes().len();
        if volumes > 0 && !is_forced {
            let what = format!("pool {} still has {volumes} volumes", self.name());
            return Err(Error::new(ErrorKind::Busy, what).and_do("delete them first"));
        }
        self.close().await?;
        Ok(self.inner.pool.destroy().await?)
    }

    /// The pool's name.
    #[must_use]
    pub fn name(&self) -> String {
        self.inner.pool.superblock().name
    }

    /// A block device: `volume`, or `volume@snapshot` to read only.
    #[must_use]
    pub fn device(&self, name: &str) -> Option<Rc<dyn BlockDevice>> {
        Some(Rc::new(VolumeDevice::new(self.lineage.clone(), self.image_named(name)?)))
    }

    /// What `VOLUME` or `VOLUME@SNAPSHOT` is, for who wants to find it again.
    #[must_use]
    pub fn identity(&self, name: &str) -> Option<ashlar_block::Identity> {
        let pool = self.pool_number();
        Some(ashlar_block::Identity { pool, image: self.image_named(name)?.0 })
    }

    /// The pool's own number.
    #[must_use]
    pub fn pool_number(&self) -> u128 {
        self.inner.pool.superblock().pool.0
    }

    pub(crate) fn image_named(&self, name: &str) -> Option<VolumeId> {
        let tree = self.inner.tree.borrow();
        Some(match name.split_once('@') {
            None => tree.catalogue.volume(name)?.id,
            Some((volume, snapshot)) => tree.catalogue.image(volume, snapshot)?.id,
        })
    }

    /// Names of all volumes, sorted.
    #[must_use]
    pub fn device_names(&self) -> Vec<String> {
        self.inner.tree.borrow().catalogue.volumes().map(|entry| entry.name.clone()).collect()
    }

    /// All volumes.
    #[must_use]
    pub fn volumes(&self) -> Vec<VolumeInfo> {
        let tree = self.inner.tree.borrow();
        tree.catalogue.volumes().map(|entry| crate::control::volume_info(&tree, entry)).collect()
    }

    /// All snapshots.
    #[must_use]
    pub fn snapshots(&self) -> Vec<SnapshotInfo> {
        let tree = self.inner.tree.borrow();
        tree.catalogue
            .snapshots()
            .map(|(name, images)| crate::control::snapshot_info(&tree, name, &images))
            .collect()
    }

    /// The names of the snapshots that hold each of these volumes. Those of a former volume of the same name
    /// do not: it was another one.
    #[must_use]
    pub fn snapshots_holding(&self, volumes: &[String]) -> Vec<String> {
        let tree = self.inner.tree.borrow();
        let id_of = |name: &String| tree.catalogue.volume(name).map(|entry| entry.id);
        let Some(ids) = volumes.iter().map(id_of).collect::<Option<Vec<VolumeId>>>() else {
            return Vec::new();
        };
        let mut names = Vec::new();
        for (name, images) in tree.catalogue.snapshots() {
            if ids.iter().all(|id| images.iter().any(|image| image.origin == *id)) {
                names.push(name.clone());
            }
        }
        names
    }

    /// Fails when the pool takes no changes.
    pub fn check_online(&self) -> Result<()> {
        self.inner.check_online()
    }

    /// Where the time of hosts' requests went since the pool was opened.
    #[must_use]
    pub fn stages(&self) -> StagesSnapshot {
        self.inner.stages_snapshot()
    }

    /// The slowest requests of the last five minutes, the slowest first.
    #[must_use]
    pub fn slow_requests(&self) -> Vec<SlowRequest> {
        self.inner.slow_requests()
    }

    /// The pool as it is now.
    #[must_use]
    pub fn status(&self) -> PoolStatus {
        let inner = &self.inner;
        // Another array may have taken the pool over while nobody wrote.
        if let Some(taken) = inner.pool.taken_over() {
            inner.stop(&taken.into());
        }
        let superblock = inner.pool.superblock();
        let state = match &*inner.life.borrow() {
            Life::Online => "online".to_string(),
            Life::Stopped(reason) => format!("read-only: {reason}"),
            Life::Closing => "closing".to_string(),
            Life::Closed => "closed".to_string(),
        };
        PoolStatus {
            name: superblock.name,
            id: superblock.pool.to_string(),
            generation: superblock.generation,
            state,
            cleaner_trouble: inner.cleaner.mark_trouble(),
            space: inner.space(),
            writes_waiting_for_room: inner.full.waiting(),
            volumes_at_limit: inner.volumes_at_limit(),
            provisioned_bytes: inner.provisioned_bytes(),
            full_percent: inner.full_percent(),
            segment_numbers_percent: inner.segment_numbers_percent(),
            segment_bytes: inner.pool.segment_bytes(),
            protection: superblock.protection,
            drives: drive_statuses(&inner.pool),
            unused_drives: inner.pool.unused_drives(),
            recovery: inner.recovery.clone(),
            counters: inner.counters_now(),
            cache_bytes_used: inner.cache.borrow().bytes_used() as u64,
            map_bytes_used: inner.tree.borrow().arena.bytes_used() as u64,
            dedupe: inner.dedupe.status(),
        }
    }
}

/// The superblock areas of drives of these sizes; one that is no more has none.
pub(crate) fn superblock_bytes(drives: impl Iterator<Item = u64>) -> u64 {
    drives.filter(|bytes| *bytes > 0).count() as u64 * CELLS_START_BYTES
}

fn drive_statuses(pool: &Pool) -> Vec<DriveStatus> {
    let moving = pool.drive_moving();
    let reports = pool.drive_reports().into_iter().enumerate();
    reports.map(|(number, report)| drive_status(report, moving == Some(number))).collect()
}

fn drive_status(report: DriveReport, is_moving: bool) -> DriveStatus {
    let DriveReport { id, path, size_bytes, state, reason, away, is_in_spare_space, counters } = report;
    let state = match state {
        DriveState::InService if is_moving => "moving",
        DriveState::InService if is_in_spare_space => "spare",
        DriveState::InService => "online",
        DriveState::Rebuilding => "rebuilding",
        DriveState::Out => "out",
        DriveState::Leaving => "leaving",
        DriveState::Gone => "gone",
    };
    let (id, state) = (format!("{id:032x}"), state.to_string());
    DriveStatus { id, path, size_bytes, state, reason, away, is_in_spare_space, counters }
}

impl Inner {
    fn start_tasks(self: &Rc<Self>) {
        let applier = self.clone();
        self.runtime.spawn(Priority::Journal, async move {
            applier.run_applier().await;
            applier.is_applier_ended.set(true);
            applier.applier_ended.notify_waiters();
            applier.applier_ended.notify_one();
        });
        let checkpoints = self.clone();
        self.spawn(Priority::Destage, async move { checkpoints.run_checkpoints().await });
        let cleaner = self.clone();
        self.spawn(Priority::Background, async move { cleaner.run_cleaner().await });
        let deduper = self.clone();
        self.spawn(Priority::Background, async move { deduper.run_deduper().await });
        // Weak: a closed pool must not stay open until the next tick.
        let weak = Rc::downgrade(self);
        let (runtime, interval) = (self.runtime.clone(), self.settings.checkpoint_interval);
        self.runtime.spawn(Priority::Background, async move {
            loop {
                runtime.sleep(interval).await;
                let Some(inner) = Weak::upgrade(&weak) else { return };
                inner.checkpoints.wanted.notify_one();
            }
        });
        // What the last session deleted may have been forgotten with its end: look once.
        self.cleaner.want_mark();
        self.recount_if_unknown();
        self.resume_rebuilds();
        self.resume_removal();
    }

    /// Runs a task that `close` waits for.
    pub(crate) fn spawn(self: &Rc<Self>, priority: Priority, work: impl Future<Output = ()> + 'static) {
        let inner = self.clone();
        self.tasks.set(self.tasks.get() + 1);
        self.runtime.spawn(priority, async move {
            work.await;
            inner.tasks.set(inner.tasks.get() - 1);
            inner.task_ended.notify_waiters();
        });
    }

    /// `close` waits for whoever holds this, too.
    pub(crate) fn as_task(&self) -> AsTask<'_> {
        self.tasks.set(self.tasks.get() + 1);
        AsTask(self)
    }

    /// True once the pool is on its way out: long background work ends early.
    pub(crate) fn is_closing(&self) -> bool {
        matches!(&*self.life.borrow(), Life::Closing | Life::Closed)
    }

    /// Ends long background work of a pool on its way out.
    pub(crate) fn check_not_closing(&self) -> Result<()> {
        if self.is_closing() { Err(Error::new(ErrorKind::Closed, "the pool is closing")) } else { Ok(()) }
    }

    /// Fails when the pool takes no changes: also between a failed write and the stop that follows it. What
    /// failed may be on the drives all the same, so nothing is told as done after it, not even what changes
    /// nothing.
    pub(crate) fn check_online(&self) -> Result<()> {
        let read_only =
            |reason: &str| Err(Error::new(ErrorKind::Medium, format!("the pool is read-only: {reason}")));
        match &*self.life.borrow() {
            Life::Online => self.journal.failure().map_or(Ok(()), |failure| read_only(&failure.context)),
            Life::Stopped(reason) => read_only(reason),
            Life::Closing | Life::Closed => Err(Error::new(ErrorKind::Closed, "the pool is closed")),
        }
    }

    /// Stops all changes, for this reason.
    pub(crate) fn stop(&self, error: &Error) {
        let mut life = self.life.borrow_mut();
        if *life == Life::Online {
            *life = Life::Stopped(error.context.clone());
        }
        drop(life);
        self.pool.fence();
        self.journal
            .fail(ashlar_journal::Error::new(ashlar_journal::ErrorKind::Medium, error.context.clone()));
        // Writes that wait for the cleaner: it will not come.
        self.cleaner.news.notify_one();
        self.cleaner.finished.notify_waiters();
    }

    async fn run_checkpoints(self: Rc<Self>) {
        loop {
            self.checkpoints.wanted.notified().await;
            match &*self.life.borrow() {
                Life::Online => {}
                Life::Stopped(_) => continue,
                Life::Closing | Life::Closed => return,
            }
            if let Err(error) = self.checkpoint_if_news().await {
                if error.kind == ErrorKind::NoSpace {
                    // Nothing is lost: the journal holds it all. Deletes and unmap go on and the
                    // next round tries again. Writes that wait for room are told that there is none.
                    self.cleaner.finished.notify_waiters();
                    continue;
                }
                if error.kind == ErrorKind::Closed && self.is_closing() {
                    // Close writes the last checkpoint.
                    return;
                }
                self.stop(&error);
            }
        }
    }

    async fn checkpoint_if_news(self: &Rc<Self>) -> Result<()> {
        let has_news = self.applied.get().next_lsn.0 != self.checkpoints.published_lsn.get();
        if has_news {
            self.checkpoint_now(false).await?;
        }
        if self.should_mark() && !self.cleaner.is_running() {
            self.cleaner.wake.notify_one();
        }
        self.cleaner.news.notify_one();
        self.recount_if_unknown();
        Ok(())
    }

    /// Takes a cut and makes it durable.
    pub(crate) async fn checkpoint_now(&self, is_clean: bool) -> Result<()> {
        let mut checkpointer = self.checkpointer.lock().await;
        self.check_applies()?;
        if !is_clean {
            // Nothing may follow the last, clean one.
            self.check_not_closing()?;
        }
        let cut = {
            let _turn = self.apply_turn.lock().await;
            let mut tree = self.tree.borrow_mut();
            self.checkpoints.cuts.set(self.checkpoints.cuts.get() + 1);
            Cut::take(&mut tree, self.applied.get(), is_clean)
        };
        let lsn = cut.applied.next_lsn;
        let number = self.checkpoints.cuts.get();
        checkpointer.write(cut, &self.tree).await?;
        self.checkpoints.published.set(number);
        self.checkpoints.published_lsn.set(lsn.0);
        self.cleaner.is_ahead.set(false);
        self.dedupe.checkpoint_published(number);
        let mut counters = self.counters.borrow_mut();
        counters.checkpoints += 1;
        counters.pages_written = checkpointer.stream.pages_written;
        counters.delta_pages_written = checkpointer.stream.delta_pages_written;
        counters.metadata_bytes_written = checkpointer.stream.bytes_written;
        drop(counters);
        self.journal.checkpoint_published();
        Ok(())
    }

    /// The checkpoint that closes the pool, known to be on every drive.
    async fn last_checkpoint(&self) -> Result<()> {
        self.checkpoint_now(true).await?;
        Ok(self.pool.confirm_superblock().await?)
    }

    fn counters_now(&self) -> Counters {
        let journal = self.journal.counters();
        let cache = self.cache.borrow().counters();
        Counters {
            journal_groups: journal.groups,
            journal_queued_max: journal.queued_max,
            journal_bytes_written: journal.written_bytes,
            cache_hits: cache.hits,
            cache_misses: cache.misses,
            mended_blocks: self.pool.mended_blocks(),
            ..*self.counters.borrow()
        }
    }

    fn space(&self) -> Space {
        let cells = self.pool.cells();
        let size = self.pool.segment_bytes();
        let drives = self.pool.drives();
        let physical_bytes: u64 = drives.iter().map(|(_, bytes)| bytes).sum();
        let superblock_bytes = superblock_bytes(drives.iter().map(|(_, bytes)| *bytes));
        let reserve = self.reserve_segments().min(cells.available());
        let kept = self.kept_segments(None).min(cells.available() - reserve);
        let journal = u64::from(cells.journal > 0);
        let dead_bytes = self.pool.with_table(|table| {
            let marked = table.entries().iter().filter(|entry| entry.live_units > 0);
            marked.map(|entry| size.saturating_sub(u64::from(entry.live_units) * PLACE_UNIT_BYTES)).sum()
        });
        Space {
            physical_bytes,
            free_bytes: (cells.available() - reserve - kept) * size,
            kept_bytes: kept * size,
            data_bytes: (cells.journal - journal + cells.moved) * size,
            metadata_bytes: cells.metadata * size,
            journal_bytes: journal * size,
            reserve_bytes: reserve * size,
            freed_bytes: cells.freed_only() * size,
            dead_bytes,
            superblock_bytes,
            unusable_bytes: physical_bytes
                - superblock_bytes
                - cells.total * size
                - self.pool.parity_bytes()
                - self.pool.spare_bytes(),
            parity_bytes: self.pool.parity_bytes(),
            spare_bytes: self.pool.spare_bytes(),
        }
    }

    fn provisioned_bytes(&self) -> u64 {
        let tree = self.tree.borrow();
        tree.catalogue.volumes().fold(0, |sum: u64, volume| sum.saturating_add(volume.size_bytes))
    }

    /// An estimate: what died since the last mark still counts as alive.
    fn full_percent(&self) -> u8 {
        let space = self.space();
        let beside = space.superblock_bytes + space.unusable_bytes + space.parity_bytes + space.spare_bytes;
        let usable = space.physical_bytes - beside - space.reserve_bytes;
        let alive = usable.saturating_sub(space.free_bytes + space.freed_bytes + space.dead_bytes);
        (alive * 100 / usable.max(1)).min(100) as u8
    }

    /// The identity of a live volume.
    pub(crate) fn volume_id(&self, name: &str) -> Result<VolumeId> {
        let tree = self.tree.borrow();
        match tree.catalogue.volume(name) {
            Some(entry) if entry.kind == VolumeKind::Volume => Ok(entry.id),
            _ => Err(Error::new(ErrorKind::NotFound, format!("there is no volume {name}"))
                .and_do("`ashlar volume list` shows what there is")),
        }
    }
}
