//! Dedupe: finds blocks written lately that are on the drives already, and lets them share one chunk.
//!
//! ```text
//! write     fingerprints while the journal writes; queued once applied     (write_path, queue)
//! look up   what the map says now; entries of the index; both chunks read  (window, chunks)
//! compare   the bytes; then the neighbours on both sides                    (window)
//! decide    runs long enough, chunks given up as a whole, nothing condemned (window)
//! journal   `Share`: these blocks become that pointer, if they still are this one
//! ```
//!
//! One task for each pool, behind the acknowledgement: no host waits for it. Nothing here is truth.
//! Index, queue and key are memory; a restart loses savings to come, and the pass over the maps of
//! volumes with dedupe brings the index back (`rebuild`). Volumes without dedupe cost nothing: no
//! fingerprint, no entry, and no index where none has it.
//!
//! The chunks given up are dead like any chunk written over; the cleaner frees them. Snapshots keep
//! the pointers they have.
//!
//! Why a share never leads to a place that is freed. A target T is a block of a chunk, by the address
//! that was born at, in segment S. T may be dead: an index entry keeps nothing alive.
//! 1. `Share` is decided, noted in the list of shares and submitted between two awaits
//!    (`submit_share`), and only if S is in the pool, or the relocation table knows T in a container
//!    that is, and T is not condemned. Segment numbers are never used twice, so T's bytes are those
//!    that were compared, whenever that was.
//! 2. A cycle of the cleaner takes the list and condemns its candidates between two awaits, too. So
//!    each share comes before the start of a cycle or behind it.
//! 3. Before: T is in the list, unless a checkpoint published since holds the share. The cycle marks
//!    the list along with the roots of the published checkpoint, so it finds T alive, and its sweep
//!    keeps T's relocation if there is one. It matters not whether the share is applied, still in the
//!    journal, or will turn out to be overtaken.
//! 4. Behind: S was in the pool and no candidate, or the mark had found T alive already. What is no
//!    candidate is not freed by this cycle; what is alive by its mark stays or moves, in all of its
//!    rounds, and whatever moves is found through the relocation table by its old address. The
//!    cleaner trims chunks by the same marks of blocks that clear T. Cycles with eager death leave marked
//!    chunks behind; in those the mark clears nothing (`cleaner/deaths.rs`). T's chunk may have been
//!    trimmed by a cycle that came and went since it was read: then it moved, and the relocation table's
//!    epoch with it, and the share is not made.
//! 5. A next cycle starts from a checkpoint that holds the share, or finds it in the list. Hence no
//!    cycle ever frees the target of a share that anything refers to.
//! 6. Crash: what a plan freed is used again only after a checkpoint that the plan was part of. Records
//!    replayed from there on were decided before the crash under the rules above, against that plan and
//!    all before it. T itself was applied before it was shared, so its group precedes the share's in
//!    the journal's chain. The list starts empty: recovery ends with a checkpoint.
//! 7. The pointer is one that a map has: for what is in S as it was written the header tells it; for
//!    what was moved (and maybe compressed anew) the map of its writer does, or it is a miss. So all
//!    pointers to a chunk are equal, length class included.
//!
//! Invariants:
//! 1. A block's content never changes through a share: equal bytes were read from both chunks, and the
//!    record does nothing unless the block still refers to the very chunk that was read.
//! 2. `submit_share` is the only place that refers to what it found by content.

mod chunks;
mod control;
mod queue;
mod rebuild;
mod shares;
mod window;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ashlar_format::superblock::INCOMPATIBLE_SHARES;
use ashlar_pool::Pool;
use ashlar_reduction::{Fingerprint, FingerprintIndex, FingerprintKey};
use ashlar_runtime::Runtime;
use ashlar_runtime::sync::Notify;
use ashlar_units::{BLOCK_BYTES, BLOCK_BYTES_USIZE, VolumeId};

use crate::engine::{Inner, Life};
use crate::info::{DedupeCounters, DedupeStatus};
use crate::{Result, Settings};
use chunks::ChunkReader;
use queue::Queue;
use rebuild::Rebuild;
use shares::ShareList;
pub(crate) use shares::ShareNumber;

/// Bytes of index for each block of the pool: 8 for its entry, and as many for buckets filled unevenly.
const INDEX_BYTES_PER_BLOCK: u64 = 16;

/// What dedupe knows of one pool.
pub(crate) struct Dedupe {
    key: FingerprintKey,
    /// Made when it is first needed.
    index: RefCell<Option<FingerprintIndex>>,
    index_bytes_max: Cell<u64>,
    pool_blocks: u64,
    run_blocks_min: usize,
    sample_shift: u8,
    queue: RefCell<Queue>,
    /// Runs that met what was condemned while a mark was under way: it may be found alive.
    postponed: RefCell<Queue>,
    rebuild: RefCell<Option<Rebuild>>,
    pub(crate) shares: ShareList,
    /// Rung when there is something to do.
    wake: Notify,
    counters: RefCell<DedupeCounters>,
}

impl Dedupe {
    pub(crate) fn new(runtime: &Runtime, settings: &Settings, pool: &Pool) -> Dedupe {
        let bytes: u64 = pool.drives().iter().map(|(_, bytes)| bytes).sum();
        Dedupe {
            key: FingerprintKey::draw(|| runtime.random()),
            index: RefCell::new(None),
            index_bytes_max: Cell::new(settings.dedupe_index_bytes_max),
            pool_blocks: bytes / BLOCK_BYTES,
            run_blocks_min: usize::from(settings.dedupe_run_blocks_min.clamp(1, 16)),
            sample_shift: settings.dedupe_sample_shift.min(8),
            queue: RefCell::default(),
            postponed: RefCell::default(),
            rebuild: RefCell::new(None),
            shares: ShareList::default(),
            wake: Notify::new(),
            counters: RefCell::default(),
        }
    }

    /// Has the task look again: there is work, or the pool is closing.
    pub(crate) fn ring(&self) {
        self.wake.notify_one();
        self.shares.ring();
    }

    /// The fingerprints of whole blocks; `None` while dedupe is off.
    pub(crate) fn fingerprints(&self, data: &[u8]) -> Option<Vec<Fingerprint>> {
        let is_on = self.index_bytes_max.get() > 0;
        is_on.then(|| data.chunks_exact(BLOCK_BYTES_USIZE).map(|block| self.key.of(block)).collect())
    }

    /// These blocks were written and are acknowledged.
    pub(crate) fn note_written(&self, volume: VolumeId, first_block: u64, fingerprints: Vec<Fingerprint>) {
        let dropped = self.queue.borrow_mut().push(volume, first_block, fingerprints);
        self.counters.borrow_mut().dropped += dropped;
        self.wake.notify_one();
    }

    /// What was shared before the cut of this number is in the published checkpoint.
    pub(crate) fn checkpoint_published(&self, cut: u64) {
        self.shares.published(cut);
        if self.rebuild.borrow().is_some() {
            self.wake.notify_one();
        }
    }

    /// The cleaner knows what is alive, or has ended: what waited for it is looked at again.
    pub(crate) fn marked(&self) {
        let postponed = std::mem::take(&mut *self.postponed.borrow_mut());
        let dropped = self.queue.borrow_mut().append(postponed);
        self.counters.borrow_mut().dropped += dropped;
        self.wake.notify_one();
    }

    /// Whether there is work that a running cycle of the cleaner may be in the way of.
    pub(crate) fn waits_for_cleaner(&self) -> bool {
        self.postponed.borrow().blocks() > 0 || self.rebuild.borrow().is_some()
    }

    pub(crate) fn status(&self) -> DedupeStatus {
        let index = self.index.borrow();
        DedupeStatus {
            index_entries: index.as_ref().map_or(0, FingerprintIndex::count),
            index_bytes: index.as_ref().map_or(0, FingerprintIndex::bytes_max),
            index_bytes_max: self.index_bytes_max.get(),
            queued_blocks: self.queue.borrow().blocks() + self.postponed.borrow().blocks(),
            rebuild_percent: self.rebuild.borrow().as_ref().map(Rebuild::percent),
            counters: *self.counters.borrow(),
        }
    }

    fn count(&self, change: impl FnOnce(&mut DedupeCounters)) {
        change(&mut self.counters.borrow_mut());
    }

    /// The index, made now if there is none; `None` while dedupe is off.
    fn with_index<T>(&self, use_it: impl FnOnce(&mut FingerprintIndex) -> T) -> Option<T> {
        let bytes_max = self.index_bytes_max.get();
        if bytes_max == 0 {
            return None;
        }
        let mut index = self.index.borrow_mut();
        let bytes = bytes_max.min(self.pool_blocks * INDEX_BYTES_PER_BLOCK);
        let index = index.get_or_insert_with(|| FingerprintIndex::new(bytes, self.sample_shift));
        Some(use_it(index))
    }
}

impl Inner {
    /// Looks for equal blocks until the pool closes: what was written lately first, then the rebuild.
    pub(crate) async fn run_deduper(self: Rc<Self>) {
        let mut reader = ChunkReader::new(self.pool.key());
        if self.tree.borrow().catalogue.volumes().any(|entry| entry.dedupe) {
            // The index was lost with the last session.
            self.begin_rebuild();
        }
        loop {
            if self.is_closing() {
                return;
            }
            let is_online = *self.life.borrow() == Life::Online;
            let queued = if is_online { self.dedupe.queue.borrow_mut().pop() } else { None };
            if let Some(run) = queued {
                self.dedupe_queued(run, &mut reader).await;
                self.runtime.yield_now().await;
            } else if !(is_online && self.rebuild_step(&mut reader).await) {
                reader.clear();
                self.dedupe.wake.notified().await;
            }
        }
    }

    async fn dedupe_queued(&self, run: queue::Run, reader: &mut ChunkReader) {
        let queue::Run { volume, first_block, fingerprints } = run;
        let wanted = fingerprints.iter().copied().map(Some).collect();
        let met_condemned = self.dedupe_run(volume, first_block, wanted, reader).await;
        if met_condemned {
            let is_marking = self.cleaner.condemned.is_marking();
            let queue = if is_marking { &self.dedupe.postponed } else { &self.dedupe.queue };
            let dropped = queue.borrow_mut().push(volume, first_block, fingerprints);
            self.dedupe.count(|counters| counters.dropped += dropped);
            self.cleaner.news.notify_one();
        }
    }

    /// How many blocks a volume has, if equal ones are to be found in it.
    fn blocks_to_dedupe(&self, volume: VolumeId) -> Option<u64> {
        let tree = self.tree.borrow();
        let entry = tree.catalogue.get(volume)?;
        let is_wanted = entry.is_alive_volume() && entry.dedupe;
        is_wanted.then_some(entry.size_bytes / BLOCK_BYTES)
    }

    /// Sees to it that the superblock tells of records that older programs do not know, before the
    /// first of them is journalled.
    pub(crate) async fn allow_share_records(&self) -> Result<()> {
        self.allow_feature(INCOMPATIBLE_SHARES).await
    }
}
