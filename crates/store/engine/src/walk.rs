//! Walks the map pages on drives below a root, each page once however many trees share it.

use std::cell::Cell;

use ashlar_format::Pointer;
use ashlar_format::page::PAGE_POINTERS;
use ashlar_map::{Missing, ROOT_LEVEL, TrackedPage, slot_span_blocks};
use ashlar_runtime::{LocalFuture, Priority};
use rustc_hash::FxHashMap;

use crate::Result;
use crate::accounting::Turn;
use crate::engine::Inner;
use crate::own::own_bytes;
use crate::pace::Pace;

/// What a walk tells.
pub(crate) trait Visitor {
    /// A page, before its children; and the base of a page that is told by the difference from it. The
    /// same record may be both, and the base of several.
    fn page(&mut self, pointer: Pointer);
    /// A leaf's pointers.
    fn leaf(&mut self, pointers: &[Pointer]);
}

/// Pages to look at before others get a turn.
const PAGES_PER_TURN: u64 = 32;

/// Pages read from drives at a time: one by one a walk would take the drive's latency for each, minutes
/// for the pages that a thousand snapshots of a busy volume do not share.
pub(crate) const PAGES_AT_ONCE: usize = 32;

/// What a tree maps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Mapped {
    pub(crate) data_blocks: u64,
    pub(crate) zero_blocks: u64,
    /// Of the chunks that are born where the walk was told, or later.
    pub(crate) own_bytes: u64,
}

impl Mapped {
    fn add(&mut self, other: Mapped) {
        self.own_bytes += other.own_bytes;
        self.data_blocks += other.data_blocks;
        self.zero_blocks += other.zero_blocks;
    }
}

/// A walk over any number of roots.
pub(crate) struct Walk<'a> {
    inner: &'a Inner,
    /// Whose turn the walk is part of, if it has an end in time.
    turn: Option<&'a Turn<'a>>,
    /// Where the chunks are born whose bytes are told, if they are.
    own_from: Option<u64>,
    /// Since when it looks at the pages of this turn.
    pace: Cell<Pace>,
    /// What is mapped below each page seen.
    mapped: FxHashMap<Pointer, Mapped>,
    pub(crate) pages: u64,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(inner: &'a Inner) -> Walk<'a> {
        let pace = Cell::new(inner.begin_pace());
        Walk { inner, turn: None, own_from: None, pace, mapped: FxHashMap::default(), pages: 0 }
    }

    /// A walk that tells of own bytes, which begin there.
    pub(crate) fn of_own(inner: &'a Inner, own_from: u64) -> Walk<'a> {
        Walk { own_from: Some(own_from), ..Walk::new(inner) }
    }

    /// A walk that ends with its turn.
    pub(crate) fn within(turn: &'a Turn<'a>) -> Walk<'a> {
        Walk { turn: Some(turn), ..Walk::new(turn.inner) }
    }

    /// Visits everything below a root on a drive that was not visited before. Returns what is mapped
    /// below it.
    pub(crate) async fn visit_root(&mut self, root: Pointer, visitor: &mut dyn Visitor) -> Result<Mapped> {
        if !root.is_page() {
            return Ok(Mapped::default());
        }
        self.visit(Missing { pointer: root, level: ROOT_LEVEL, index: 0 }, visitor).await
    }

    fn visit<'b>(&'b mut self, at: Missing, visitor: &'b mut dyn Visitor) -> LocalFuture<'b, Result<Mapped>> {
        Box::pin(async move {
            if let Some(mapped) = self.mapped.get(&at.pointer) {
                return Ok(*mapped);
            }
            self.step(self.pages.is_multiple_of(PAGES_PER_TURN)).await?;
            let tracked = load_page(self.inner, at).await?;
            let mut mapped = self.take_page(at, &tracked, visitor);
            if at.level > 0 {
                let children = children_of(at, &tracked);
                mapped.add(self.visit_children(&children, visitor).await?);
            }
            self.mapped.insert(at.pointer, mapped);
            Ok(mapped)
        })
    }

    /// Tells of a page; returns what it maps itself.
    fn take_page(&mut self, at: Missing, tracked: &TrackedPage, visitor: &mut dyn Visitor) -> Mapped {
        self.pages += 1;
        visitor.page(at.pointer);
        if let Some(base) = base_beside(at.pointer, tracked) {
            visitor.page(base);
        }
        let page = tracked.pointers();
        let zero_slots = page.iter().filter(|pointer| **pointer == Pointer::ZERO).count() as u64;
        let zero_blocks = zero_slots * slot_span_blocks(at.level);
        let mut mapped = Mapped { zero_blocks, ..Mapped::default() };
        if at.level == 0 {
            visitor.leaf(&page[..]);
            mapped.data_blocks = page.iter().filter(|pointer| pointer.is_data()).count() as u64;
            mapped.own_bytes = self.own_from.map_or(0, |from| own_bytes(&page[..], from));
        }
        mapped
    }

    async fn visit_children(&mut self, children: &[Missing], visitor: &mut dyn Visitor) -> Result<Mapped> {
        let mut mapped = Mapped::default();
        if children.first().is_none_or(|child| child.level > 0) {
            for child in children {
                mapped.add(self.visit(*child, visitor).await?);
            }
            return Ok(mapped);
        }
        // Gathered first: of what a snapshot has to itself there are few below each inner page.
        let is_new = |leaf: &&Missing| !self.mapped.contains_key(&leaf.pointer);
        let new: Vec<Missing> = children.iter().filter(is_new).copied().collect();
        for leaves in new.chunks(PAGES_AT_ONCE) {
            self.step(true).await?;
            for (leaf, tracked) in load_pages(self.inner, leaves).await? {
                self.step(false).await?;
                let of_leaf = self.take_page(leaf, &tracked, visitor);
                self.mapped.insert(leaf.pointer, of_leaf);
            }
        }
        children.iter().for_each(|leaf| mapped.add(self.mapped[&leaf.pointer]));
        Ok(mapped)
    }

    async fn step(&self, is_turn_over: bool) -> Result<()> {
        if let Some(turn) = self.turn {
            return turn.step().await;
        }
        if is_turn_over {
            self.pace.set(self.inner.stand_aside(self.pace.get()).await);
        }
        self.inner.check_not_closing()
    }
}

/// A map page, from memory where it is there.
pub(crate) async fn load_page(inner: &Inner, at: Missing) -> Result<TrackedPage> {
    match loaded(inner, at) {
        Some(page) => Ok(page),
        None => inner.media.read_map_page(at).await,
    }
}

/// The same for several, those on drives at once.
pub(crate) async fn load_pages(inner: &Inner, pages: &[Missing]) -> Result<Vec<(Missing, TrackedPage)>> {
    let mut found = Vec::with_capacity(pages.len());
    let mut reads = Vec::new();
    for at in pages {
        if let Some(page) = loaded(inner, *at) {
            found.push((*at, page));
            continue;
        }
        let (media, at) = (inner.media.clone(), *at);
        let read = async move { (at, media.read_map_page(at).await) };
        reads.push(inner.runtime.spawn(Priority::Background, read));
    }
    let mut result = Ok(());
    for read in reads {
        match read.await {
            (at, Ok(page)) => found.push((at, page)),
            (_, Err(error)) => result = result.and(Err(error)),
        }
    }
    result.map(|()| found)
}

fn loaded(inner: &Inner, at: Missing) -> Option<TrackedPage> {
    inner.tree.borrow().arena.loaded(at.pointer, at.level).cloned()
}

/// The pages that an inner page refers to, in the order of its slots.
pub(crate) fn children_of(at: Missing, page: &TrackedPage) -> Vec<Missing> {
    let slots = page.pointers().iter().enumerate().filter(|(_, pointer)| pointer.is_page());
    let child = |(slot, pointer): (usize, &Pointer)| {
        let index = at.index * PAGE_POINTERS as u64 + slot as u64;
        Missing { pointer: *pointer, level: at.level - 1, index }
    };
    slots.map(child).collect()
}

/// The record that a page at `pointer` is a difference from, if it is one: as alive as the page.
pub(crate) fn base_beside(pointer: Pointer, page: &TrackedPage) -> Option<Pointer> {
    page.base().filter(|base| *base != pointer)
}
