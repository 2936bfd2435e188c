//! The cleaner: finds what is dead, frees segments without anything alive, empties those with little.
//!
//! One cycle at a time, in the background, beside everything else:
//!
//! ```text
//! start    the roots of the published checkpoint and the segments finished by then     (checkpointer held)
//! mark     every page below the roots once: the lines of each segment in which something alive begins
//! sweep    relocation entries of what is dead go; what they still name is alive in its container
//! choose   segments without marks are free; of the others the best by cost and benefit are emptied, and all
//!          that are on a drive that leaves
//! evacuate what is alive in them, and did not die meanwhile, is copied to containers, verified on the way;
//!          of chunks the blocks that something refers to
//! apply    relocation entries in, emptied segments out, at once                        (checkpointer held)
//! publish  a checkpoint makes it durable; only then are the places used again
//! keep up  the last four again, a little at a time, as hosts take room, until so much was written that
//!          another mark is worth it
//! ```
//!
//! What may be freed or emptied:
//! 1. Only segments finished before the cut the mark starts from: journal segments older than the
//!    one that holds the cut's position, metadata segments and containers sealed by then. Not those
//!    with pages of a checkpoint that was given up since: trees refer to them.
//! 2. What no image of the cut refers to, no later image can refer to. Trees are copy-on-write, so only
//!    dedupe could make it untrue: it finds old chunks by content. What it shared since the cut is
//!    marked along with the roots, and from the start of a cycle to its end what the cycle may free is
//!    condemned: dedupe leaves it alone (the argument stands in `dedupe/mod.rs`). For the record that a
//!    DELTA page is a difference from this takes an argument of its own: see the map's module `lineage`.
//!    All of this holds for each block of a chunk: those without a reference stay behind when the chunk
//!    moves (it is trimmed).
//! 3. Pointers never change: they name the address a chunk was born at, in maps and in its header. The
//!    relocation table leads from there to where it is. So emptying a segment rewrites no map page,
//!    however many snapshots share it, and readers need no lock: one that met the old place fails the
//!    check of its header and looks again.

mod condemned;
mod deaths;
mod evacuate;
mod keep_up;
mod marks;
mod recompress;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use ashlar_format::Pointer;
use ashlar_format::catalogue::VolumeEntry;
use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_format::relocation::Relocation;
use ashlar_format::segment::{SegmentEntry, SegmentKind, SegmentState};
use ashlar_format::superblock::{INCOMPATIBLE_SHARES, JournalPosition};
use ashlar_runtime::sync::{Mutex, MutexGuard, Notify};
use ashlar_units::{Fault, SegmentId, planted};
use rustc_hash::FxHashMap;

use crate::engine::{Inner, Life};
use crate::relocations::Found;
use crate::walk::Walk;
use crate::{Error, ErrorKind, Result};
use condemned::Condemned;
pub(crate) use deaths::Deaths;
use evacuate::{Choice, MOVED_SEGMENTS_MAX, Plan, Reason};
use marks::Marks;
pub(crate) use marks::taken_bytes;

/// A cycle starts when this share of the pool was written since the last one, in segments (1/20, the
/// design's 5 % of capacity).
const CONSUMED_FRACTION: u64 = 20;

/// What hosts take while a mark is made, when nothing is moved, is won before it: up to this share of the
/// pool. Arbitrary: beyond it they are slowed down.
const MARK_FRACTION: u64 = 32;

/// Pages of the relocation table to look at before others get a turn.
const PAGES_PER_TURN: u64 = 32;

/// Cycles after which a pool that has no more room than before is full, although each of them won something:
/// what it freed, its own checkpoint took. Arbitrary: what one frees may be to use only two later.
const STANDING_CYCLES: u64 = 8;

/// Rounds of moving that follow one mark at most.
const ROUNDS_MAX: usize = 8;

/// And for a drive that leaves: 24 GiB of it at full segment size. Arbitrary: a mark of everything is worth
/// more than eight rounds, and what is dead by the end of many is moved for nothing.
const VACATING_ROUNDS_MAX: usize = 32;

#[derive(Default)]
pub(crate) struct CleanerState {
    /// Rung after each cycle, and when cycles cannot help.
    pub(crate) finished: Notify,
    /// Rung when a cycle should start.
    pub(crate) wake: Notify,
    /// Rung when a cycle that keeps up should look again.
    pub(crate) news: Notify,
    /// A cycle has won what was wanted, and waits for news.
    is_waiting: Cell<bool>,
    /// Journal segments opened while the last mark was made.
    opened_meanwhile: Cell<u64>,
    is_wanted: Cell<bool>,
    /// Cycles begun and ended since the start.
    begun: Cell<u64>,
    ended: Cell<u64>,
    /// How many of the last ones to end won nothing.
    in_vain: Cell<u64>,
    /// How many of the last ones to end left no more room than there had been.
    standing: Cell<u64>,
    /// The most free segments at the end of a cycle since hosts took any.
    most_spare: Cell<u64>,
    /// Journal segments opened by the end of the last cycle.
    opened_by_end: Cell<u64>,
    /// Writes wait for room.
    is_urgent: Cell<bool>,
    /// The LSN of the last cycle's cut: nothing changed since means nothing to find.
    marked_lsn: Cell<Option<u64>>,
    /// Journal segments opened by the time of the last cycle.
    marked_segments: Cell<u64>,
    /// The LSN at which a write last asked for a cycle of its own before it was refused, and the cycles begun
    /// by then.
    tried: Cell<Option<(u64, u64)>>,
    /// Segments won by the last cycle.
    gained: Cell<u64>,
    /// What died since the running cycle's cut.
    pub(crate) deaths: RefCell<Deaths>,
    /// Segments with damage: left alone until the next opening.
    damaged: RefCell<BTreeSet<SegmentId>>,
    /// What the running cycle may free.
    pub(crate) condemned: Condemned,
    /// Why the last cycle did not empty all that is on a drive that leaves, if something was in its way.
    vacating_trouble: RefCell<Option<String>>,
    /// Why the last mark could not be made, if it could not.
    mark_trouble: RefCell<Option<String>>,
    /// Held during each round, the checkpoint at its end included.
    round: Mutex<()>,
    /// What a round freed is not published yet.
    pub(crate) is_ahead: Cell<bool>,
}

impl CleanerState {
    /// Asks for a cycle after the next checkpoint.
    pub(crate) fn want_mark(&self) {
        self.is_wanted.set(true);
        self.news.notify_one();
    }

    /// Asks for room, for writes that wait: from the cycle under way if it can, or else another.
    pub(crate) fn want_room(&self) {
        self.is_urgent.set(true);
        self.news.notify_one();
    }

    /// Writes wait for room.
    pub(crate) fn is_urgent(&self) -> bool {
        self.is_urgent.get()
    }

    /// Somebody waits for a cycle.
    fn is_asked_for(&self) -> bool {
        self.is_wanted.get() || self.is_urgent.get()
    }

    /// A cycle is under way.
    pub(crate) fn is_running(&self) -> bool {
        self.begun.get() != self.ended.get()
    }

    /// Cycles begun since the start.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.get()
    }

    /// Cycles ended since the start.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.get()
    }

    /// Whether the last `cycles` to end won nothing, and began after so many had.
    pub(crate) fn is_in_vain(&self, cycles: u64, begun_before: u64) -> bool {
        self.in_vain.get() >= cycles && self.ended.get() >= begun_before + cycles
    }

    /// The same of cycles that won no more than they took themselves.
    pub(crate) fn stands_still(&self, begun_before: u64) -> bool {
        self.is_standing() && self.ended.get() >= begun_before + STANDING_CYCLES
    }

    /// One cycle more since the last change, before a write is refused: the number of cycles that may not
    /// have seen it. The first who asks causes it, and all who ask before its end wait for it.
    pub(crate) fn try_once_more(&self, lsn: u64) -> Option<u64> {
        let begun_before = match self.tried.get() {
            Some((tried_lsn, begun_before)) if tried_lsn == lsn => begun_before,
            Some(_) | None => self.begun(),
        };
        self.tried.set(Some((lsn, begun_before)));
        (self.ended() <= begun_before).then_some(begun_before)
    }

    fn is_standing(&self) -> bool {
        self.standing.get() >= STANDING_CYCLES
    }

    fn begin(&self) {
        self.begun.set(self.begun.get() + 1);
    }

    /// With so many segments free beyond the map pages that wait, and so many opened for hosts.
    fn end(&self, spare: u64, opened: u64) {
        self.ended.set(self.begun.get());
        self.in_vain.set(if self.gained.get() == 0 { self.in_vain.get() + 1 } else { 0 });
        let hosts_took = self.opened_by_end.replace(opened) != opened;
        let is_further = hosts_took || spare > self.most_spare.get();
        self.standing.set(if is_further { 0 } else { self.standing.get() + 1 });
        self.most_spare.set(if hosts_took { spare } else { self.most_spare.get().max(spare) });
    }

    /// Whether a checkpoint would start a cycle that somebody waits for. While one runs the next has
    /// to wait for its end, not for checkpoints.
    pub(crate) fn is_mark_wanted(&self) -> bool {
        self.is_asked_for() && !self.is_running()
    }

    /// Segments won by the last cycle.
    pub(crate) fn gained(&self) -> u64 {
        self.gained.get()
    }

    fn note_damaged(&self, segment: SegmentId) {
        self.damaged.borrow_mut().insert(segment);
    }

    fn note_vacating(&self, is_vacating: bool, error: &Error) {
        if is_vacating {
            self.vacating_trouble.replace(Some(error.to_string()));
        }
    }

    /// Has these segments tried again: what could not be read of them may be gone or mended by now.
    pub(crate) fn forgive(&self, segments: impl Iterator<Item = SegmentId>) {
        let mut damaged = self.damaged.borrow_mut();
        segments.for_each(|segment| {
            damaged.remove(&segment);
        });
    }

    /// Why the last mark could not be made: until one is, nothing is freed.
    pub(crate) fn mark_trouble(&self) -> Option<String> {
        self.mark_trouble.borrow().clone()
    }

    /// Why the last cycle did not empty all that is on a drive that leaves.
    pub(crate) fn vacating_trouble(&self) -> Option<String> {
        self.vacating_trouble.borrow().clone()
    }
}

/// What a cycle starts from.
struct Start {
    roots: Vec<Pointer>,
    /// Table records: alive, but rewritten rather than moved.
    tables: Vec<Pointer>,
    candidates: Vec<SegmentEntry>,
    /// Shared by dedupe since the published checkpoint: alive, whatever its roots say.
    shares: Vec<Pointer>,
    /// Chunks die with their overwriting: no block of the pool is shared by content.
    is_eager: bool,
    /// The first number of segments opened later.
    young_from: u32,
    lsn: u64,
}

/// A cycle after its mark.
struct Cycle {
    marks: Rc<Marks>,
    /// Segments that hold records of tables.
    with_tables: BTreeSet<SegmentId>,
    /// What may be emptied yet.
    candidates: Vec<SegmentEntry>,
    /// Bytes that died since the mark.
    died: FxHashMap<SegmentId, u64>,
    /// And those of them in segments that the mark came too early for.
    died_young_bytes: u64,
    /// The first number of such segments.
    young_from: u32,
    is_eager: bool,
    plan: Plan,
}

impl Inner {
    /// Whether a cycle could win anything: one is under way, something changed since the last one, or that
    /// one won and the last few left more room.
    pub(crate) fn can_clean(&self) -> bool {
        let is_online = *self.life.borrow() == Life::Online;
        let has_news = self.cleaner.marked_lsn.get() != Some(self.applied_lsn());
        let may_win = self.cleaner.gained() > 0 && !self.cleaner.is_standing();
        is_online && (self.cleaner.is_running() || has_news || may_win)
    }

    /// The LSN behind the last change.
    pub(crate) fn applied_lsn(&self) -> u64 {
        self.applied.get().next_lsn.0
    }

    pub(crate) fn should_mark(&self) -> bool {
        let spare = self.pool.cells_available().saturating_sub(self.reserve_segments());
        let share = (self.segments_total() / CONSUMED_FRACTION).min(spare / 4).max(2);
        self.cleaner.is_asked_for() || self.consumed_since_mark() >= share
    }

    /// Cycles, whenever one is asked for, until the pool closes.
    pub(crate) async fn run_cleaner(self: Rc<Self>) {
        loop {
            self.cleaner.wake.notified().await;
            match &*self.life.borrow() {
                Life::Online => {}
                Life::Stopped(_) => continue,
                Life::Closing | Life::Closed => return,
            }
            self.cleaner.begin();
            let cleaned = self.clean().await;
            // Without a free segment nothing moves.
            if cleaned.as_ref().is_err_and(|error| error.kind == ErrorKind::NoSpace) {
                self.cleaner.gained.set(0);
            }
            let spare = self.pool.cells_available().saturating_sub(self.dirty_segments());
            self.cleaner.end(spare, self.journal.counters().segments);
            if self.cleaner.is_asked_for() {
                self.checkpoints.wanted.notify_one();
            }
            self.cleaner.deaths.borrow_mut().end();
            self.cleaner.condemned.end();
            self.dedupe.marked();
            self.cleaner.finished.notify_waiters();
            match cleaned {
                Ok(()) => {}
                // Deletes and unmap go on; writes that wait for room are told that there is none.
                Err(error) if error.kind == ErrorKind::NoSpace => {}
                // Cut short by the end of the pool: close writes the last checkpoint.
                Err(error) if error.kind == ErrorKind::Closed && self.is_closing() => return,
                Err(error) => self.stop(&error),
            }
        }
    }

    /// One cycle.
    async fn clean(self: &Rc<Self>) -> Result<()> {
        let opened_before = self.journal.counters().segments;
        self.renew_checkpoint().await?;
        let is_asked_for = self.cleaner.is_wanted.replace(false);
        let is_urgent = self.cleaner.is_urgent.replace(false);
        let start = self.start_of_cycle().await?;
        let Some(marks) = self.if_readable(&start, self.mark(&start).await)? else { return Ok(()) };
        check_deaths(&marks)?;
        let mut plan = Plan::default();
        let swept = self.sweep(marks, &mut plan).await;
        let Some(marks) = self.if_readable(&start, swept)? else { return Ok(()) };
        self.cleaner.mark_trouble.replace(None);
        let marks = Rc::new(marks);
        if !start.is_eager {
            self.cleaner.condemned.judged(&marks);
        }
        self.dedupe.marked();
        self.note_live(&start.candidates, &marks);
        let is_dead = |entry: &&SegmentEntry| marks.of(entry.segment).is_none();
        plan.freed.extend(start.candidates.iter().filter(is_dead).map(|entry| entry.segment));
        let has_news = self.cleaner.marked_lsn.replace(Some(start.lsn)) != Some(start.lsn);
        if has_news && self.cleaner.is_standing() {
            // Something may have been deleted.
            self.cleaner.standing.set(0);
        }
        let opened = self.journal.counters().segments;
        self.cleaner.marked_segments.set(opened);
        self.cleaner.opened_meanwhile.set(opened - opened_before);
        self.cleaner.gained.set(0);
        self.counters.borrow_mut().marks += 1;
        let with_tables = start.tables.iter().map(|pointer| pointer.segment()).collect();
        let mut candidates = start.candidates;
        candidates.retain(|entry| !plan.is_done_with(entry.segment));
        let mut cycle = Cycle {
            marks,
            with_tables,
            candidates,
            died: FxHashMap::default(),
            died_young_bytes: 0,
            young_from: start.young_from,
            is_eager: start.is_eager,
            plan,
        };
        self.win_room(&mut cycle, is_asked_for, is_urgent).await?;
        self.vacate(&mut cycle).await?;
        self.keep_up(&mut cycle).await
    }

    /// Empties segments while room is wanted. What a mark found dead stays dead: one mark serves several
    /// rounds of moving.
    async fn win_room(self: &Rc<Self>, cycle: &mut Cycle, is_asked_for: bool, is_urgent: bool) -> Result<()> {
        for _ in 0..ROUNDS_MAX {
            let (wanted, reason) = match self.segments_wanted(self.usable(&cycle.plan.freed)) {
                0 if is_asked_for => (cycle.candidates.len() as u64, Reason::GivenBack),
                wanted if is_urgent => (wanted, Reason::Urgent),
                wanted => (wanted, Reason::Scarce),
            };
            if !self.run_round(cycle, wanted, reason).await? {
                break;
            }
        }
        Ok(())
    }

    /// Empties what is on a drive that leaves, whatever is alive in it; hosts that wait for room go first.
    async fn vacate(self: &Rc<Self>, cycle: &mut Cycle) -> Result<()> {
        self.cleaner.vacating_trouble.replace(None);
        for _ in 0..VACATING_ROUNDS_MAX {
            let wanted = cycle.candidates.iter().filter(|entry| self.pool.is_leaving(entry.segment)).count();
            if wanted == 0
                || self.cleaner.is_urgent.get()
                || !self.run_round(cycle, wanted as u64, Reason::Leaving).await?
            {
                break;
            }
        }
        Ok(())
    }

    /// Keeps the cleaner from freeing anything that the last checkpoint refers to. Waits for a round under
    /// way: what it leaves behind is dead, but not yet in the images of that checkpoint.
    pub(crate) async fn hold_cleaner(&self) -> Result<MutexGuard<'_, ()>> {
        let held = self.cleaner.round.lock().await;
        if self.cleaner.is_ahead.get() {
            self.checkpoint_now(false).await?;
        }
        Ok(held)
    }

    /// One round: segments are emptied, the plan becomes the truth, and a checkpoint makes it last. False
    /// when there was nothing to do.
    async fn run_round(self: &Rc<Self>, cycle: &mut Cycle, wanted: u64, reason: Reason) -> Result<bool> {
        let _round = self.cleaner.round.lock().await;
        let opened_before = self.mover.lock().await.opened;
        if wanted > 0 {
            self.note_died(cycle);
            // On a drive that leaves there is no room to win.
            let is_vacating = reason == Reason::Leaving;
            let is_eligible = |entry: &&SegmentEntry| self.pool.is_leaving(entry.segment) == is_vacating;
            let candidates: Vec<SegmentEntry> =
                cycle.candidates.iter().filter(is_eligible).copied().collect();
            let choice = Choice {
                candidates: &candidates,
                with_tables: &cycle.with_tables,
                marks: &cycle.marks,
                died: &cycle.died,
                wanted,
                reason,
            };
            self.evacuate(&choice, &mut cycle.plan).await?;
        }
        let plan = std::mem::take(&mut cycle.plan);
        if !plan.has_changes() {
            return Ok(false);
        }
        if reason != Reason::Leaving {
            let opened = self.mover.lock().await.opened - opened_before;
            let gained = self.usable(&plan.freed).saturating_sub(opened);
            self.cleaner.gained.set(self.cleaner.gained.get() + gained);
        }
        cycle.candidates.retain(|entry| !plan.is_done_with(entry.segment));
        self.count(&plan);
        self.apply_plan(plan).await?;
        self.checkpoint_now(false).await?;
        self.cleaner.finished.notify_waiters();
        Ok(true)
    }

    /// Segments of these whose places can be used again: those on a drive that leaves cannot.
    fn usable(&self, segments: &[SegmentId]) -> u64 {
        segments.iter().filter(|segment| !self.pool.is_leaving(**segment)).count() as u64
    }

    /// Writes a checkpoint if there is news and room for it. A mark of images that are old finds little: the
    /// cycle before may have taken long.
    pub(crate) async fn renew_checkpoint(&self) -> Result<()> {
        if self.applied.get().next_lsn.0 == self.checkpoints.published_lsn.get() {
            return Ok(());
        }
        match self.checkpoint_now(false).await {
            Err(error) if error.kind == ErrorKind::NoSpace => Ok(()),
            other => other,
        }
    }

    async fn start_of_cycle(&self) -> Result<Start> {
        let checkpointer = self.checkpointer.lock().await;
        // What is dirty in memory refers only to pages of the last checkpoint or to segments too young
        // to be freed, so starting from the roots in the published volume table is enough.
        let images = checkpointer.published_images().await?;
        let is_left_out = |image: &VolumeEntry| planted(Fault::DeletedIsNoRoot) && image.deleted().is_some();
        let mut roots: Vec<Pointer> =
            images.iter().filter(|image| !is_left_out(image)).map(|image| image.root).collect();
        roots.retain(|root| root.is_page());
        roots.sort_unstable();
        roots.dedup();
        let superblock = self.pool.superblock();
        let mut tables = checkpointer.tables.all();
        tables.extend(self.media.relocations.borrow().all());
        let mut candidates = self.candidates(superblock.journal);
        candidates.retain(|entry| {
            !checkpointer.stream.unpublished.contains(&entry.segment) || planted(Fault::UnpublishedCleaned)
        });
        // No await between these two: what dedupe decided before is in the list, and what it decides
        // from here on keeps away from the candidates.
        let shares = self.dedupe.shares.pointers();
        self.cleaner.condemned.begin(&candidates);
        // What the superblock does not tell of was never shared, and what is condemned will not be.
        let is_eager = superblock.incompatible & INCOMPATIBLE_SHARES == 0;
        if is_eager {
            self.cleaner.deaths.borrow_mut().begin();
        }
        let lsn = superblock.checkpoint.0;
        let young_from = self.pool.segment_number_next();
        Ok(Start { roots, tables, candidates, shares, is_eager, young_from, lsn })
    }

    async fn mark(&self, start: &Start) -> Result<Marks> {
        let mut marks = Marks::new(self.cleaner.deaths.borrow_mut().take_left_behind(start.lsn));
        start.tables.iter().for_each(|pointer| marks.add_page(*pointer));
        start
            .shares
            .iter()
            .filter(|_| !planted(Fault::SharesNotMarked))
            .for_each(|pointer| marks.add_block(*pointer));
        let mut walk = Walk::new(self);
        for root in &start.roots {
            walk.visit_root(*root, &mut marks).await?;
        }
        Ok(marks)
    }

    /// What a page that cannot be read refers to is not known, so nothing can be freed; everything else goes
    /// on. What it is part of can be deleted, which asks for another mark. Others are tried as often as they
    /// would be made.
    fn if_readable<T>(&self, start: &Start, found: Result<T>) -> Result<Option<T>> {
        match found {
            Err(error) if matches!(error.kind, ErrorKind::Damaged | ErrorKind::Medium) => {
                self.cleaner.mark_trouble.replace(Some(error.to_string()));
                self.counters.borrow_mut().damage += 1;
                self.cleaner.marked_lsn.set(Some(start.lsn));
                self.cleaner.marked_segments.set(self.journal.counters().segments);
                self.cleaner.gained.set(0);
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// What died since the cut, by segment, for the estimates by which segments are chosen.
    fn note_died(&self, cycle: &mut Cycle) {
        let news = self.cleaner.deaths.borrow_mut().take_news();
        let relocations = self.media.relocations.borrow();
        for death in news {
            let segment = match relocations.find(death.chunk) {
                Found::Here(moved) => moved.container,
                Found::Load(_) | Found::Nowhere => death.chunk.segment(),
            };
            let bytes = death.bytes.min(death.chunk.length_bytes_max());
            *cycle.died.entry(segment).or_default() += bytes;
            if segment.0 >= cycle.young_from {
                cycle.died_young_bytes += bytes;
            }
        }
    }

    /// Relocation entries whose old address is alive keep what they name alive; the others go.
    async fn sweep(&self, mut marks: Marks, plan: &mut Plan) -> Result<Marks> {
        let pages = self.media.relocations.borrow().pages();
        let mut looked_at = 0;
        for (slot, segment) in pages {
            self.check_not_closing()?;
            looked_at += 1;
            if looked_at % PAGES_PER_TURN == 0 {
                self.runtime.yield_now().await;
            }
            let Some(old) = marks.of(segment) else {
                plan.pages.insert(slot, Vec::new());
                continue;
            };
            let entries = self.media.relocated_from(slot).await?;
            let is_alive = |entry: &&Relocation| old.has(u64::from(entry.old_units) * PLACE_UNIT_BYTES);
            let kept: Vec<_> = entries.iter().filter(is_alive).copied().collect();
            let old_blocks: Vec<u16> = kept
                .iter()
                .map(|entry| old.block_mask(u64::from(entry.old_units) * PLACE_UNIT_BYTES))
                .collect();
            for (entry, blocks) in kept.iter().zip(old_blocks) {
                if !planted(Fault::MovedTakenForDead) {
                    marks.add_moved(entry, blocks);
                }
            }
            // A page with a few dead entries is not worth writing anew.
            if kept.len() * 4 <= entries.len() * 3 {
                plan.pages.insert(slot, kept);
            }
        }
        Ok(marks)
    }

    /// Segments to win by moving: none while there is plenty of room.
    fn segments_wanted(&self, freed: u64) -> u64 {
        let total = self.segments_total();
        // A drive that leaves is emptied into free segments, a round at a time.
        let vacating = self.pool.drive_leaving().map_or(0, |drive| self.pool.cells_taken_on(drive));
        let share = total * u64::from(self.settings.free_percent_wanted.min(100)) / 100;
        let next_mark = self.cleaner.opened_meanwhile.get().min(total / MARK_FRACTION);
        let kept = self.reserve_segments() + self.kept_segments(None);
        let wanted = kept + share.max(2) + next_mark + vacating.min(MOVED_SEGMENTS_MAX);
        wanted.saturating_sub(self.lasting_segments() + freed)
    }

    fn note_live(&self, candidates: &[SegmentEntry], marks: &Marks) {
        self.pool.with_table_mut(|table| {
            for entry in candidates {
                table.set_live(entry.segment, marks.of(entry.segment).map_or(0, |marks| marks.live_bytes()));
            }
        });
    }

    /// Makes the plan the truth. No checkpoint is under way: it must see all of it or nothing.
    async fn apply_plan(&self, plan: Plan) -> Result<()> {
        let mut checkpointer = self.checkpointer.lock().await;
        self.check_not_closing()?;
        for segment in &plan.rewritten {
            self.rewrite_table_records(&mut checkpointer, *segment).await?;
        }
        self.cleaner.deaths.borrow_mut().leave_behind(&plan.left_behind, self.applied.get().next_lsn.0);
        let mut relocations = self.media.relocations.borrow_mut();
        plan.pages.iter().for_each(|(slot, entries)| relocations.replace(*slot, entries));
        plan.emptied.iter().for_each(|(segment, entries)| relocations.add_segment(*segment, entries));
        self.pool.with_table_mut(|table| plan.freed.iter().for_each(|segment| table.free(*segment)));
        self.cleaner.is_ahead.set(true);
        Ok(())
    }

    /// The next checkpoint writes the table records in this segment anew.
    async fn rewrite_table_records(
        &self,
        checkpointer: &mut crate::checkpoint::Checkpointer,
        segment: SegmentId,
    ) -> Result<()> {
        let tables = &mut checkpointer.tables;
        let volume_pages = tables.volumes.rewrite_records_in(segment, tables.volume_root);
        let segment_pages = tables.segments.rewrite_records_in(segment, tables.segment_root);
        let note_pages = tables.notebook.rewrite_records_in(segment, tables.notebook_root);
        self.tree.borrow_mut().catalogue.mark_dirty(volume_pages.into_iter());
        self.tree.borrow_mut().notebook.mark_dirty(note_pages.into_iter());
        self.pool.with_table_mut(|table| segment_pages.into_iter().for_each(|page| table.touch_page(page)));
        loop {
            let to_load = self.media.relocations.borrow_mut().rewrite_records_in(segment);
            let Some(slot) = to_load.first() else { return Ok(()) };
            self.media.relocated_from(*slot).await?;
        }
    }

    fn count(&self, plan: &Plan) {
        let mut counters = self.counters.borrow_mut();
        counters.segments_freed += plan.freed.len() as u64;
        counters.segments_emptied += plan.emptied.len() as u64;
        counters.moved_bytes += plan.moved_bytes;
        counters.left_behind_chunks += plan.left_behind.len() as u64;
        counters.recompressed_saved_bytes += plan.recompressed_saved_bytes;
        counters.trimmed_blocks += plan.trimmed_blocks;
    }

    /// Sealed segments that the published checkpoint has seen to the end.
    fn candidates(&self, position: JournalPosition) -> Vec<SegmentEntry> {
        let damaged = self.cleaner.damaged.borrow();
        self.pool.with_table(|table| {
            let first_group = table.find(position.segment).map_or(0, |entry| entry.birth);
            // So all groups of a candidate are before the position: durable, and in the published images.
            let sequence = position.sequence;
            assert!(first_group <= sequence, "journal at {sequence}, in a segment from {first_group} on");
            let is_candidate = |entry: &&SegmentEntry| {
                entry.state == SegmentState::Sealed
                    && !damaged.contains(&entry.segment)
                    && match entry.kind {
                        SegmentKind::Journal => {
                            entry.birth < first_group || planted(Fault::YoungSegmentCleaned)
                        }
                        SegmentKind::Metadata | SegmentKind::Moved => true,
                    }
            };
            table.entries().iter().filter(is_candidate).copied().collect()
        })
    }
}

/// Eager death must be a subset of the full mark: what was taken for dead and is referred to has lost its
/// place, and whatever else was taken for dead may have, too.
fn check_deaths(marks: &Marks) -> Result<()> {
    let Some(chunk) = marks.wrongly_dead() else { return Ok(()) };
    let what = format!("{chunk:?} was taken for dead and is referred to: run `ashlar pool check`");
    Err(Error::new(ErrorKind::Damaged, what))
}
