//! Emptying segments: which, and how what is alive in them moves.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use ashlar_format::pointer::{LENGTH_UNIT_BYTES, PLACE_UNIT_BYTES, POINTED_BYTES_MAX};
use ashlar_format::relocation::Relocation;
use ashlar_format::segment::{SegmentEntry, SegmentKind};
use ashlar_units::{BLOCK_BYTES, SegmentId};
use rustc_hash::FxHashMap;

use super::marks::{LINE_BYTES, Marks, SegmentMarks};
use super::recompress::Recompressor;
use crate::engine::Inner;
use crate::listing::{Damaged, Listed};
use crate::mover::{Age, FoundRecord, Mover};
use crate::pace::PATIENT;
use crate::relocations::PageSlot;
use crate::{Error, ErrorKind, Result};

/// Live bytes moved in one round, in segments: what bounds its memory and how long it is until the
/// emptied places can be used.
pub(super) const MOVED_SEGMENTS_MAX: u64 = 12;

/// While hosts write they find so much less room until a round has ended: this share of the pool at most,
/// and at least a few segments, of which the checkpoint costs little.
const MOVED_FRACTION: u64 = 256;
const MOVED_SEGMENTS_MIN: u64 = 4;

/// Why segments are emptied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reason {
    /// Something was deleted, and whoever did so looks for the room. There is no hurry.
    GivenBack,
    /// The pool runs out of free segments.
    Scarce,
    /// Writes wait for room.
    Urgent,
    /// The drive that they are on leaves. Hosts go first.
    Leaving,
}

impl Reason {
    /// A segment fuller than this, in per cent, gives too little back for what moving it costs.
    fn live_percent_max(self) -> u64 {
        match self {
            Reason::GivenBack => 25,
            Reason::Scarce => 90,
            Reason::Urgent => 97,
            Reason::Leaving => 100,
        }
    }

    /// Segments' worth of live bytes to move in a round of a pool of so many.
    fn moved_segments_max(self, total: u64) -> u64 {
        match self {
            Reason::Scarce => (total / MOVED_FRACTION).clamp(MOVED_SEGMENTS_MIN, MOVED_SEGMENTS_MAX),
            Reason::GivenBack | Reason::Urgent | Reason::Leaving => MOVED_SEGMENTS_MAX,
        }
    }
}

/// Segments won for one that is taken from what is kept for checkpoints, at least: one pays it back, and one
/// the checkpoint that follows.
const EMPTIED_FOR_ONE_MIN: usize = 3;

/// A segment is read in pieces of this size.
const READ_BYTES: u64 = 1 << 20;

/// Bytes of a segment to go through before others get a turn: some hundred microseconds when chunks are
/// compressed anew.
const TURN_BYTES: u64 = 64 << 10;

/// Buffers for emptying, kept from one segment to the next.
struct Tools {
    segment: Vec<u8>,
    recompressor: Recompressor,
    /// Compress better what moves.
    is_cold: bool,
}

/// What a cycle wants to change, all at once.
#[derive(Default)]
pub(super) struct Plan {
    /// Segments to be freed.
    pub(super) freed: Vec<SegmentId>,
    /// Survivors of segments freed, sorted by old offset.
    pub(super) emptied: Vec<(SegmentId, Vec<Relocation>)>,
    /// New content of pages of the relocation table.
    pub(super) pages: BTreeMap<PageSlot, Vec<Relocation>>,
    /// Segments whose table records are to be written anew.
    pub(super) rewritten: Vec<SegmentId>,
    /// Chunks, by address of birth, that died before they could be moved.
    pub(super) left_behind: Vec<(SegmentId, u32)>,
    /// Bytes of chunks and records moved.
    pub(super) moved_bytes: u64,
    /// Bytes saved by compressing moved chunks better.
    pub(super) recompressed_saved_bytes: u64,
    /// Blocks of moved chunks that nothing refers to, left out.
    pub(super) trimmed_blocks: u64,
}

impl Plan {
    pub(super) fn has_changes(&self) -> bool {
        !self.freed.is_empty() || !self.pages.is_empty() || !self.rewritten.is_empty()
    }

    /// Freed, or waiting for the next checkpoint.
    pub(super) fn is_done_with(&self, segment: SegmentId) -> bool {
        self.freed.contains(&segment) || self.rewritten.contains(&segment)
    }
}

/// What there is to choose from.
pub(super) struct Choice<'a> {
    pub(super) candidates: &'a [SegmentEntry],
    /// Segments that hold records of tables.
    pub(super) with_tables: &'a BTreeSet<SegmentId>,
    pub(super) marks: &'a Marks,
    /// Bytes that died since the mark.
    pub(super) died: &'a FxHashMap<SegmentId, u64>,
    /// Segments to win.
    pub(super) wanted: u64,
    pub(super) reason: Reason,
}

impl Choice<'_> {
    /// Segments worth emptying, best first: cost and benefit as in LFS (Rosenblum and Ousterhout 1991),
    /// free share times age over the cost of reading and writing what is alive. With the square root of
    /// the age: in a model of this cleaner at 80 % full it moves a fifth less than the age itself under
    /// a skewed load, and the same under a uniform one.
    fn victims(&self, segment_bytes: u64, moved_max: u64) -> Vec<Victim> {
        let percent_max = self.reason.live_percent_max();
        let newest = self.candidates.iter().map(|entry| entry.segment.0).max().unwrap_or(0);
        let mut scored: Vec<(u64, u64, SegmentEntry)> = Vec::new();
        for entry in self.candidates {
            let Some(marks) = self.marks.of(entry.segment) else { continue };
            let died = self.died.get(&entry.segment).copied().unwrap_or(0);
            let live = marks.kept_bytes().saturating_sub(died).min(segment_bytes);
            if live * 100 > segment_bytes * percent_max {
                continue;
            }
            let age = u64::from(newest - entry.segment.0) + 1;
            let score = (segment_bytes - live) * 1000 / (segment_bytes + live) * (age << 16).isqrt();
            scored.push((score, live, *entry));
        }
        scored.sort_by_key(|(score, _, entry)| (std::cmp::Reverse(*score), entry.segment));
        let (mut won, mut moved) = (0, 0);
        let mut victims = Vec::new();
        for (_, live, entry) in scored {
            if won >= self.wanted * segment_bytes || moved + live > moved_max * segment_bytes {
                break;
            }
            won += segment_bytes - live;
            moved += live;
            let age = if entry.kind == SegmentKind::Moved { Age::Old } else { Age::Young };
            victims.push(Victim { entry, live, age });
        }
        victims
    }
}

/// A segment to be emptied.
struct Victim {
    entry: SegmentEntry,
    /// Bytes alive in it, an estimate.
    live: u64,
    /// How long they have lived.
    age: Age,
}

/// How many of these, emptiest first, one container takes.
fn fitting_one(victims: &[Victim], container_bytes: u64) -> usize {
    let mut moved = 0;
    let fits = |victim: &&Victim| {
        moved += victim.live;
        moved <= container_bytes
    };
    victims.iter().take_while(fits).count()
}

impl Inner {
    /// Moves what is alive out of the best victims. Ends early when the pool has no segment left.
    pub(super) async fn evacuate(self: &Rc<Self>, choice: &Choice<'_>, plan: &mut Plan) -> Result<()> {
        let mut mover = self.mover.lock().await;
        let is_vacating = choice.reason == Reason::Leaving;
        mover.is_room_short = choice.reason == Reason::Urgent;
        let moved_max = choice.reason.moved_segments_max(self.segments_total());
        let victims = choice.victims(self.pool.segment_bytes(), moved_max);
        let victims = if is_vacating {
            mover.segments_left_min = self.kept_from_vacating(self.segments_total());
            victims
        } else {
            self.within_room(victims, &mut mover)
        };
        let mut pace = self.begin_pace();
        // What is moved only because its neighbours were deleted, or its drive leaves, need not be cold.
        let is_cold = matches!(choice.reason, Reason::Scarce | Reason::Urgent);
        let recompressor = Recompressor::new(self.pool.key());
        let mut tools = Tools { segment: Vec::new(), recompressor, is_cold };
        for victim in victims {
            if is_vacating {
                pace = self.give_way(pace, PATIENT).await;
                if self.cleaner.is_urgent.get() {
                    break;
                }
            }
            let segment = victim.entry.segment;
            if choice.with_tables.contains(&segment) {
                // Table records are written anew by the next checkpoint; the next cycle has the rest.
                plan.rewritten.push(segment);
                continue;
            }
            let Some(marks) = choice.marks.of(segment) else { continue };
            // What is moved of one that does not fit is moved for nothing; another may be small enough.
            if let Err(error) = mover.check_room(victim.live, victim.age) {
                self.cleaner.note_vacating(is_vacating, &error);
                continue;
            }
            match self.evacuate_one(&victim, marks, choice.marks, &mut mover, &mut tools, plan).await {
                Ok(()) => {}
                Err(error) if error.kind == ErrorKind::NoSpace => {
                    self.cleaner.note_vacating(is_vacating, &error);
                    break;
                }
                Err(error) if error.kind == ErrorKind::Damaged => {
                    self.cleaner.note_vacating(is_vacating, &error);
                    // It stays as it is: what cannot be read now may be mended one day.
                    self.counters.borrow_mut().damage += 1;
                    self.cleaner.note_damaged(segment);
                }
                Err(error) => return Err(error),
            }
        }
        plan.recompressed_saved_bytes += tools.recompressor.saved_bytes;
        plan.trimmed_blocks += tools.recompressor.trimmed_blocks;
        mover.flush().await
    }

    /// Half of the reserve is left to checkpoints. When there is no more than that, a segment of it is taken
    /// if it wins several: a pool in which little is alive must not stay full.
    fn within_room(&self, mut victims: Vec<Victim>, mover: &mut Mover) -> Vec<Victim> {
        let kept = self.reserve_segments() / 2;
        let available = self.pool.cells_available();
        mover.segments_left_min = kept;
        if available <= kept && available >= 2 {
            victims.sort_by_key(|victim| (victim.live, victim.entry.segment));
            let count = fitting_one(&victims, mover.container_bytes());
            if count >= EMPTIED_FOR_ONE_MIN {
                victims.truncate(count);
                victims.iter_mut().for_each(|victim| victim.age = Age::Young);
                mover.segments_left_min = available - 1;
            }
        }
        victims
    }

    async fn evacuate_one(
        self: &Rc<Self>,
        victim: &Victim,
        marks: &SegmentMarks,
        all_marks: &Marks,
        mover: &mut Mover,
        tools: &mut Tools,
        plan: &mut Plan,
    ) -> Result<()> {
        let Victim { entry: victim, age, .. } = victim;
        let listed = self.listed_in(victim, marks).await?;
        self.read_marked(victim, marks, &mut tools.segment).await?;
        let mut survivors = Vec::new();
        let mut dead = Vec::new();
        let mut end_of_turn = TURN_BYTES;
        let mut pace = self.begin_pace();
        let mut last_line = None;
        for listed in &listed {
            if !self.belongs(listed, victim, plan).await? {
                continue;
            }
            last_line = self.next_line(marks, last_line, listed.offset, victim)?;
            self.mend_listed(victim, listed, &mut tools.segment).await?;
            let bytes = &tools.segment[listed.offset as usize..];
            let record = listed.open(self.pool.key(), bytes).expect("it was intact, or mended");
            if listed.offset > end_of_turn {
                end_of_turn = listed.offset + TURN_BYTES;
                pace = self.stand_aside(pace).await;
            }
            let old_units = record.old_units();
            if self.is_dead(&record) {
                dead.push((record.segment, old_units));
                continue;
            }
            // The address of birth knows which blocks are referred to.
            let old_marks = all_marks.of(record.segment);
            let alive = old_marks.map_or(0, |marks| marks.block_mask(record.offset_bytes));
            let bytes = tools.recompressor.fit(record.bytes, alive, tools.is_cold);
            let (container, offset_bytes) = mover.append(bytes, *age).await?;
            plan.moved_bytes += (bytes.len() as u64).next_multiple_of(PLACE_UNIT_BYTES);
            let length_bytes_max = (bytes.len() as u64).next_multiple_of(LENGTH_UNIT_BYTES);
            let moved = Relocation { old_units, container, offset_bytes, length_bytes_max };
            survivors.push((record.segment, moved));
        }
        self.next_line(marks, last_line, self.pool.segment_bytes(), victim)?;
        self.plan_move(victim, survivors, &dead, plan).await
    }

    /// What is listed of a segment and begins in marked lines: several small records can begin in one, and
    /// the mark does not say which is alive.
    async fn listed_in(&self, victim: &SegmentEntry, marks: &SegmentMarks) -> Result<Vec<Listed>> {
        let end = marks.lines().last().map_or(0, |line| line + LINE_BYTES);
        let listing = self.listing(victim, end, Damaged::Mended).await?;
        let lines = marks.lines().flat_map(|line| listing.between(line, line + LINE_BYTES));
        let listed = lines.copied().collect();
        self.listings.keep(listing);
        Ok(listed)
    }

    /// The marked line of an offset. In every marked line before it something must have begun.
    fn next_line(
        &self,
        marks: &SegmentMarks,
        last_line: Option<u64>,
        offset: u64,
        victim: &SegmentEntry,
    ) -> Result<Option<u64>> {
        let line = offset / LINE_BYTES * LINE_BYTES;
        let from = last_line.map_or(0, |last| last + LINE_BYTES);
        match marks.first_between(from, line) {
            None => Ok(Some(line)),
            Some(missing) => {
                let what = format!("nothing is listed in segment {} at {missing}", victim.segment);
                Err(Error::new(ErrorKind::Damaged, what))
            }
        }
    }

    /// Sees to it that a listed record is there. What is left behind would be lost with the segment.
    async fn mend_listed(&self, victim: &SegmentEntry, listed: &Listed, bytes: &mut [u8]) -> Result<()> {
        let (key, at) = (self.pool.key(), listed.offset as usize);
        if listed.open(key, &bytes[at..]).is_some() {
            return Ok(());
        }
        let proven = |bytes: &[u8]| listed.open(key, bytes).map(|record| record.bytes.len() as u64);
        let mended = self.pool.mend(victim.segment, listed.offset, listed.length_max, proven).await?;
        let Some(mended) = mended else {
            let what = format!("nothing intact in segment {} at {at}", victim.segment);
            return Err(Error::new(ErrorKind::Damaged, what));
        };
        bytes[at..at + mended.len()].copy_from_slice(&mended);
        Ok(())
    }

    /// Whether all of a chunk died since the mark.
    fn is_dead(&self, record: &FoundRecord<'_>) -> bool {
        let deaths = self.cleaner.deaths.borrow();
        record.blocks > 0 && deaths.is_dead(record.segment, record.offset_bytes, record.blocks)
    }

    /// Reads the pieces of a segment in which something alive begins or goes on.
    async fn read_marked(
        self: &Rc<Self>,
        victim: &SegmentEntry,
        marks: &SegmentMarks,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let size = self.pool.segment_bytes();
        bytes.clear();
        bytes.resize(size as usize, 0);
        let mut read_to = 0;
        let mut pace = self.begin_pace();
        let mut doubtful: Vec<Range<u64>> = Vec::new();
        for line in marks.lines() {
            self.check_not_closing()?;
            let end = (line + LINE_BYTES + POINTED_BYTES_MAX + BLOCK_BYTES).min(size);
            while read_to < end {
                let start = read_to.max(line / BLOCK_BYTES * BLOCK_BYTES);
                read_to = start + READ_BYTES.min(size - start);
                if !self.read_compared(victim, start..read_to, bytes).await? {
                    doubtful.push(start..read_to);
                }
                pace = self.stand_aside(pace).await;
            }
        }
        for range in doubtful {
            // Most of it is set right stripe by stripe; the records that then are not intact are mended each.
            let weigh = |segment, offset, piece| self.weigh(segment, offset, piece);
            self.pool.set_range_right(victim.segment, range.clone(), &weigh).await?;
            self.read_compared(victim, range, bytes).await?;
        }
        Ok(())
    }

    /// Reads a piece of a segment; false when parity does not bear it out.
    async fn read_compared(
        &self,
        victim: &SegmentEntry,
        range: Range<u64>,
        bytes: &mut [u8],
    ) -> Result<bool> {
        let read = self.pool.read_compared(victim.segment, range.start, range.end - range.start).await;
        // A place that cannot be read is the segment's trouble, not the pool's.
        let (piece, skip, is_borne_out) =
            read.map_err(|error| Error::new(ErrorKind::Damaged, error.to_string()))?;
        bytes[range.start as usize..range.end as usize].copy_from_slice(&piece[skip..]);
        Ok(is_borne_out)
    }

    /// Whether pointers lead to a listed record. To what died before in a container they do not.
    async fn belongs(&self, listed: &Listed, victim: &SegmentEntry, plan: &Plan) -> Result<bool> {
        if victim.kind != SegmentKind::Moved {
            return Ok(true);
        }
        let slot = self.media.relocations.borrow().slot_of(listed.born_in, listed.born_units);
        let Some(slot) = slot else { return Ok(false) };
        match plan.pages.get(&slot) {
            Some(entries) => Ok(listed.is_told_by(entries, victim.segment)),
            None => Ok(listed.is_told_by(&self.media.relocated_from(slot).await?, victim.segment)),
        }
    }

    async fn plan_move(
        &self,
        victim: &SegmentEntry,
        survivors: Vec<(SegmentId, Relocation)>,
        dead: &[(SegmentId, u32)],
        plan: &mut Plan,
    ) -> Result<()> {
        if victim.kind == SegmentKind::Moved {
            // Loaded first, changed then: an error must not leave half of it in the plan.
            let survived = survivors.iter().map(|(segment, survivor)| (*segment, survivor.old_units));
            for (segment, old_units) in survived.chain(dead.iter().copied()) {
                let slot = self.media.relocations.borrow().slot_of(segment, old_units);
                let Some(slot) = slot else { continue };
                if let Entry::Vacant(place) = plan.pages.entry(slot) {
                    place.insert(self.media.relocated_from(slot).await?.to_vec());
                }
            }
            let relocations = self.media.relocations.borrow();
            for (segment, survivor) in survivors {
                let slot = relocations.slot_of(segment, survivor.old_units);
                let Some(entries) = slot.and_then(|slot| plan.pages.get_mut(&slot)) else { continue };
                if let Ok(at) = entries.binary_search_by_key(&survivor.old_units, |entry| entry.old_units) {
                    entries[at] = survivor;
                }
            }
            for (segment, old_units) in dead {
                let slot = relocations.slot_of(*segment, *old_units);
                let Some(entries) = slot.and_then(|slot| plan.pages.get_mut(&slot)) else { continue };
                entries.retain(|entry| entry.old_units != *old_units);
            }
        } else {
            let entries: Vec<Relocation> = survivors.into_iter().map(|(_, moved)| moved).collect();
            let planned: usize = plan.emptied.iter().map(|(_, entries)| entries.len()).sum();
            if !self.media.relocations.borrow().has_room(planned + entries.len(), plan.emptied.len() + 1) {
                return Err(Error::new(ErrorKind::NoSpace, "the relocation table is full"));
            }
            plan.emptied.push((victim.segment, entries));
        }
        plan.freed.push(victim.segment);
        plan.left_behind.extend(dead);
        Ok(())
    }
}
