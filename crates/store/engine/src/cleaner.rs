//! The whole-segment cleaner: marks from all images of a checkpoint and frees segments nobody
//! refers to.
//!
//! It moves nothing yet: a segment with one live chunk stays. What may be freed:
//! 1. Only segments finished before the cut the mark starts from: journal segments older than the
//!    one that holds the cut's position, metadata segments sealed when the cut was published.
//! 2. Since trees are copy-on-write and nothing finds old chunks by content, what no image of the
//!    cut refers to, no later image can refer to.

use std::cell::Cell;

use ashlar_format::Pointer;
use ashlar_format::segment::{SegmentKind, SegmentState};
use ashlar_runtime::sync::Notify;
use ashlar_units::SegmentId;
use rustc_hash::FxHashMap;

use crate::engine::{Inner, Life};
use crate::walk::{Visitor, Walk};
use crate::{Error, ErrorKind, Result};

/// Marks start when this share of the pool was written since the last one, in segments (1/20, the
/// design's 5 % of capacity).
const CONSUMED_FRACTION: u64 = 20;

#[derive(Default)]
pub(crate) struct CleanerState {
    /// Rung after each mark, and when marks cannot help.
    pub(crate) finished: Notify,
    is_wanted: Cell<bool>,
    /// The LSN of the last mark's cut: nothing changed since means nothing to find.
    marked_lsn: Cell<Option<u64>>,
    /// Journal segments opened by the time of the last mark.
    marked_segments: Cell<u64>,
}

impl CleanerState {
    /// Asks for a mark with the next checkpoint.
    pub(crate) fn want_mark(&self) {
        self.is_wanted.set(true);
    }

    pub(crate) fn is_mark_wanted(&self) -> bool {
        self.is_wanted.get()
    }
}

impl Inner {
    /// Whether a mark could find anything: something changed since the last one.
    pub(crate) fn can_clean(&self) -> bool {
        let is_online = *self.life.borrow() == Life::Online;
        is_online && self.cleaner.marked_lsn.get() != Some(self.applied.get().next_lsn.0)
    }

    pub(crate) fn should_mark(&self) -> bool {
        let opened = self.journal.counters().segments;
        let consumed = opened - self.cleaner.marked_segments.get().min(opened);
        let total = self.pool.with_table(|table| table.entries().len() as u64);
        let share = (total / CONSUMED_FRACTION).min(self.pool.cells_available() / 4).max(2);
        self.cleaner.is_wanted.get() || consumed >= share
    }

    /// One mark from the last checkpoint, which was just published. Returns how many segments were
    /// freed; their places are reusable after the next checkpoint.
    pub(crate) async fn mark_and_free(&self) -> Result<u64> {
        let mut checkpointer = self.checkpointer.lock().await;
        // What is dirty in memory refers only to pages of the last checkpoint or to segments too young
        // to be freed, so starting from the roots in the published volume table is enough.
        self.cleaner.is_wanted.set(false);
        let roots = self.published_roots(&mut checkpointer).await?;
        let superblock = self.pool.superblock();
        let candidates = self.candidates(superblock.journal.segment);
        let mut marks = Marks::default();
        for pointer in checkpointer.tables.all() {
            marks.add(pointer);
        }
        let mut walk = Walk::new(self, true);
        for root in roots {
            walk.visit_root(root, &mut marks).await?;
        }
        let mut freed = 0;
        self.pool.with_table_mut(|table| {
            for (segment, live) in &marks.live {
                table.set_live(*segment, *live);
            }
            for segment in candidates {
                if !marks.live.contains_key(&segment) {
                    table.free(segment);
                    freed += 1;
                }
            }
        });
        self.cleaner.marked_lsn.set(Some(superblock.checkpoint.0));
        self.cleaner.marked_segments.set(self.journal.counters().segments);
        let mut counters = self.counters.borrow_mut();
        counters.marks += 1;
        counters.segments_freed += freed;
        Ok(freed)
    }

    /// Sealed segments that the published checkpoint has seen to the end.
    fn candidates(&self, position: SegmentId) -> Vec<SegmentId> {
        self.pool.with_table(|table| {
            let first_group = table.find(position).map_or(0, |entry| entry.birth);
            let is_candidate = |entry: &&ashlar_format::segment::SegmentEntry| {
                entry.state == SegmentState::Sealed
                    && match entry.kind {
                        SegmentKind::Journal => entry.birth < first_group,
                        SegmentKind::Metadata => true,
                    }
            };
            table.entries().iter().filter(is_candidate).map(|entry| entry.segment).collect()
        })
    }

    /// The roots of every image in the published volume table.
    async fn published_roots(
        &self,
        checkpointer: &mut crate::checkpoint::Checkpointer,
    ) -> Result<Vec<Pointer>> {
        let mut roots = Vec::new();
        for (page, located) in checkpointer.tables.volumes.pages().iter().enumerate() {
            if !located.pointer.is_page() {
                continue;
            }
            let identity = checkpointer.tables.volumes.page_identity(page);
            let bytes = crate::metadata::read_page(&self.pool, located.pointer, identity).await?;
            for slot in bytes.chunks_exact(ashlar_format::catalogue::VOLUME_ENTRY_BYTES) {
                let entry = ashlar_format::catalogue::VolumeEntry::decode(slot).map_err(|damage| {
                    Error::new(ErrorKind::Damaged, format!("volume table page {page}: {damage}"))
                })?;
                roots.extend(entry.map(|entry| entry.root).filter(|root| root.is_page()));
            }
        }
        roots.sort_unstable();
        roots.dedup();
        Ok(roots)
    }
}

/// Live bytes by segment. Chunks met through several leaves count several times: an estimate; that a
/// segment is there at all is exact.
#[derive(Default)]
struct Marks {
    live: FxHashMap<SegmentId, u64>,
}

impl Marks {
    fn add(&mut self, pointer: Pointer) {
        *self.live.entry(pointer.segment()).or_default() += pointer.length_bytes_max();
    }
}

impl Visitor for Marks {
    fn page(&mut self, pointer: Pointer) {
        self.add(pointer);
    }

    fn leaf(&mut self, pointers: &[Pointer]) {
        let mut last = Pointer::HOLE;
        for pointer in pointers.iter().filter(|pointer| pointer.is_data()) {
            if pointer.chunk() != last {
                last = pointer.chunk();
                self.add(last);
            }
        }
    }
}
