//! The census: every map page and chunk of a pool once, with who refers to it and what it takes.
//!
//! Images are walked one after the other. A page that another image has been through is descended
//! again only if that changes who holds it: a page shared by thousands of snapshots is visited by the
//! first two of them. Chunks are counted by their address, however many leaves refer to them.
//!
//! Where asked for, sharing by clone is told from sharing by content on the way (`families`).
//!
//! Memory is bounded by the chunks kept at a time: beyond that half of the segments are put off to
//! another round, again and again if need be.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;

use ashlar_format::Pointer;
use ashlar_format::page::PAGE_POINTERS;
use ashlar_map::{Missing, Page, ROOT_LEVEL, TrackedPage};
use ashlar_units::SegmentId;
use rustc_hash::FxHashMap;

use super::families::{Families, Spot, Spots};
use super::lengths::{Measured, measure};
use super::sharing::{Holders, Role};
use super::turn::Turn;
use crate::Result;
use crate::walk::{PAGES_AT_ONCE, base_beside, children_of, load_page, load_pages};

/// Chunks kept at a time: some 120 MB, for 16 to 64 GiB of data.
const CHUNKS_MAX: usize = 2 << 20;

/// What a census is for.
pub(super) trait Tally {
    /// Whether what these hold is to be measured.
    fn wants(&self, holders: Holders) -> bool;
    /// A chunk, and a bit for each of its blocks that is referred to.
    fn chunk(&mut self, holders: Holders, measured: Measured, blocks: u16);
    /// A map page.
    fn page(&mut self, holders: Holders, measured: Measured);
}

/// Counts everything below these roots.
pub(super) async fn count(turn: &Turn<'_>, roots: &[(Pointer, Role)], tally: &mut dyn Tally) -> Result<()> {
    count_keeping(CHUNKS_MAX, turn, roots, None, tally).await.map(drop)
}

/// The same; returns the blocks shared by content, too. Families as far as known; what shares a page
/// joins them.
pub(super) async fn count_with_families(
    turn: &Turn<'_>,
    roots: &[(Pointer, Role)],
    families: &mut Families,
    tally: &mut dyn Tally,
) -> Result<u64> {
    count_keeping(CHUNKS_MAX, turn, roots, Some(families), tally).await
}

/// The same with this many chunks kept at a time.
pub(super) async fn count_keeping(
    chunks_max: usize,
    turn: &Turn<'_>,
    roots: &[(Pointer, Role)],
    mut families: Option<&mut Families>,
    tally: &mut dyn Tally,
) -> Result<u64> {
    let mut shared_by_content = 0;
    let mut later = vec![Part { modulus: 1, remainder: 0 }];
    let mut is_first = true;
    while let Some(part) = later.pop() {
        let (pages, bases, chunks) = (BySegment::default(), BySegment::default(), BySegment::default());
        let (families_now, spots) = (families.as_deref_mut(), Spots::default());
        let mut round = Round {
            turn,
            chunks_max,
            part,
            later: &mut later,
            pages,
            bases,
            chunks,
            families: families_now,
            spots,
        };
        for (root, role) in roots {
            round.visit_root(*root, *role).await?;
        }
        let Round { mut pages, bases, chunks, spots, .. } = round;
        if let Some(families) = families.as_deref_mut() {
            shared_by_content += spots.shared_by_content(families);
        }
        if is_first {
            pages.join(turn, bases).await?;
            let wants = |tally: &dyn Tally, page: &SeenPage| tally.wants(page.holders);
            let tell = |tally: &mut dyn Tally, page: SeenPage, measured| tally.page(page.holders, measured);
            pages.tell(turn, tally, wants, tell).await?;
            is_first = false;
        }
        let wants = |tally: &dyn Tally, chunk: &Chunk| tally.wants(chunk.holders);
        let tell = |tally: &mut dyn Tally, chunk: Chunk, measured| {
            tally.chunk(chunk.holders, measured, chunk.blocks);
        };
        chunks.tell(turn, tally, wants, tell).await?;
    }
    Ok(shared_by_content)
}

/// Things by where they were born. A map for each segment, so that no step over all of them, be it
/// sorting or the growth of a table, keeps hosts waiting.
struct BySegment<T> {
    segments: BTreeMap<SegmentId, FxHashMap<Pointer, T>>,
    count: usize,
}

impl<T> Default for BySegment<T> {
    fn default() -> BySegment<T> {
        BySegment { segments: BTreeMap::new(), count: 0 }
    }
}

impl<T: Default> BySegment<T> {
    fn entry(&mut self, pointer: Pointer) -> &mut T {
        match self.segments.entry(pointer.segment()).or_default().entry(pointer) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                self.count += 1;
                entry.insert(T::default())
            }
        }
    }

    fn keep(&mut self, part: Part) {
        self.segments.retain(|segment, _| part.has(*segment));
        self.count = self.segments.values().map(FxHashMap::len).sum();
    }

    /// Measures what is wanted and tells it, segment by segment.
    async fn tell(
        self,
        turn: &Turn<'_>,
        tally: &mut dyn Tally,
        wants: impl Fn(&dyn Tally, &T) -> bool,
        tell: impl Fn(&mut dyn Tally, T, Measured),
    ) -> Result<()> {
        for entries in self.segments.into_values() {
            turn.step().await?;
            let mut wanted: Vec<_> = entries.into_iter().filter(|(_, entry)| wants(tally, entry)).collect();
            wanted.sort_unstable_by_key(|(pointer, _)| *pointer);
            let pointers: Vec<Pointer> = wanted.iter().map(|(pointer, _)| *pointer).collect();
            let lengths = measure(turn, &pointers).await?;
            wanted.into_iter().zip(lengths).for_each(|((_, entry), length)| tell(tally, entry, length));
        }
        Ok(())
    }
}

impl BySegment<SeenPage> {
    /// Takes in others: who refers to something in either refers to it.
    async fn join(&mut self, turn: &Turn<'_>, others: BySegment<Holders>) -> Result<()> {
        for entries in others.segments.into_values() {
            turn.step().await?;
            for (pointer, holders) in entries {
                let joined = self.entry(pointer);
                joined.holders = joined.holders.and(holders);
            }
        }
        Ok(())
    }
}

/// The segments of one round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    modulus: u32,
    remainder: u32,
}

impl Part {
    fn has(self, segment: SegmentId) -> bool {
        segment.0 % self.modulus == self.remainder
    }

    /// The half to go on with, and the half for later.
    fn halves(self) -> (Part, Part) {
        let modulus = self.modulus * 2;
        (Part { modulus, ..self }, Part { modulus, remainder: self.remainder + self.modulus })
    }
}

#[derive(Default)]
struct SeenPage {
    holders: Holders,
    /// The first image that had it, where families are told.
    first: Option<u32>,
}

#[derive(Default)]
struct Chunk {
    holders: Holders,
    /// A bit for each block that something refers to.
    blocks: u16,
    /// Met at several spots, which are noted.
    has_spots: bool,
    /// Where it was met first, where families are told.
    spot: Spot,
}

impl Chunk {
    /// Notes spots from the second one on: nearly all chunks have one.
    fn meet(&mut self, pointer: &Pointer, spot: Spot, spots: &mut Spots) {
        if self.blocks == 0 {
            self.spot = spot;
        }
        if !self.has_spots && self.spot != spot {
            self.has_spots = true;
            spots.add(pointer.chunk(), self.spot, self.blocks);
        }
        if self.has_spots {
            spots.add(pointer.chunk(), spot, 1 << pointer.block_index());
        }
    }
}

struct Round<'a> {
    turn: &'a Turn<'a>,
    chunks_max: usize,
    part: Part,
    later: &'a mut Vec<Part>,
    pages: BySegment<SeenPage>,
    /// Records that pages are differences from. Apart from pages: nobody went through their children.
    bases: BySegment<Holders>,
    chunks: BySegment<Chunk>,
    families: Option<&'a mut Families>,
    spots: Spots,
}

impl Round<'_> {
    async fn visit_root(&mut self, root: Pointer, role: Role) -> Result<()> {
        if !root.is_page() {
            return Ok(());
        }
        let mut waiting = vec![Missing { pointer: root, level: ROOT_LEVEL, index: 0 }];
        while let Some(at) = waiting.pop() {
            if !self.is_news(at, role) {
                continue;
            }
            self.turn.step().await?;
            let tracked = load_page(self.turn.inner, at).await?;
            self.take_page(at, &tracked, role);
            let children = children_of(at, &tracked);
            if at.level > 1 {
                waiting.extend(children);
                continue;
            }
            let news: Vec<Missing> = children.into_iter().filter(|leaf| self.is_news(*leaf, role)).collect();
            for leaves in news.chunks(PAGES_AT_ONCE) {
                for (leaf, tracked) in load_pages(self.turn.inner, leaves).await? {
                    self.turn.step().await?;
                    self.take_page(leaf, &tracked, role);
                }
            }
        }
        Ok(())
    }

    /// Notes that an image has a page. False when whoever made it so before went through everything below,
    /// too.
    fn is_news(&mut self, at: Missing, role: Role) -> bool {
        let page = self.pages.entry(at.pointer);
        if let (Some(families), Some(number)) = (&mut self.families, role.number()) {
            families.join(*page.first.get_or_insert(number), number);
        }
        let with_us = page.holders.with(role);
        let is_news = page.holders != with_us;
        page.holders = with_us;
        is_news
    }

    fn take_page(&mut self, at: Missing, tracked: &TrackedPage, role: Role) {
        if let Some(base) = base_beside(at.pointer, tracked) {
            let holders = self.bases.entry(base);
            *holders = holders.with(role);
        }
        if at.level == 0 {
            self.visit_leaf(tracked.pointers(), at.index, role);
        }
    }

    fn visit_leaf(&mut self, page: &Page, index: u64, role: Role) {
        let family = match (&mut self.families, role.number()) {
            (Some(families), Some(number)) => Some(families.find(number)),
            _ => None,
        };
        let first_block = (index * PAGE_POINTERS as u64).cast_signed();
        let is_ours = |pointer: &Pointer| pointer.is_data() && self.part.has(pointer.segment());
        for (block, pointer) in (first_block..).zip(page).filter(|(_, pointer)| is_ours(pointer)) {
            let chunk = self.chunks.entry(pointer.chunk());
            chunk.holders = chunk.holders.with(role);
            if let Some(family) = family {
                let spot = (family, block - pointer.block_index() as i64);
                chunk.meet(pointer, spot, &mut self.spots);
            }
            chunk.blocks |= 1 << pointer.block_index();
        }
        while self.chunks.count + self.spots.count() > self.chunks_max && self.part.modulus < 1 << 30 {
            self.put_off_half();
        }
    }

    fn put_off_half(&mut self) {
        let (part, later) = self.part.halves();
        self.part = part;
        self.later.push(later);
        self.chunks.keep(part);
        self.spots.keep(|segment| part.has(segment));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_a_part_are_the_part_and_do_not_overlap() {
        let part = Part { modulus: 4, remainder: 3 };
        let (now, later) = part.halves();
        for segment in (0..1000).map(SegmentId) {
            let parts = u32::from(now.has(segment)) + u32::from(later.has(segment));
            assert_eq!(parts, u32::from(part.has(segment)), "segment {segment}");
        }
    }
}
