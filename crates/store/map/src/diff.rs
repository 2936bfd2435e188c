//! The blocks at which two trees differ, without a look at what they share.
//!
//! Trees that were made from one another refer to the same pages, and a page is never changed where it lies:
//! the same pointer is the same content, down to the last block below it. So the cost goes with what differs.
//! No I/O here: the caller reads the pages that are asked for.
//!
//! ```text
//! loop { next() ─► pairs ─► the caller reads their pages ─► compare(pair, pages) ─► runs of blocks }
//! ```
//!
//! Walk roots that do not change: those of a checkpoint whose pages nobody frees meanwhile. Blocks are told
//! in order. A block that is told may still be equal, since it may have been written with what was there; one
//! that is not told is equal.

use std::ops::Range;

use ashlar_format::Pointer;
use ashlar_units::{Fault, planted};

use crate::error::Missing;
use crate::geometry::{BLOCKS_MAX, PAGE_POINTERS, Page, ROOT_LEVEL, slot_span_blocks};

/// The same page of two trees; in one of them a hole or zero may stand for all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PagePair {
    /// Its level; 0 is a leaf.
    level: u8,
    /// Which page of its level it is.
    index: u64,
    one: Pointer,
    other: Pointer,
}

impl PagePair {
    /// The pages that must be read: of the one tree, and of the other.
    #[must_use]
    pub fn pages(&self) -> [Option<Missing>; 2] {
        let PagePair { level, index, one, other } = *self;
        [one, other].map(|pointer| pointer.is_page().then_some(Missing { pointer, level, index }))
    }

    fn first_block(&self) -> u64 {
        self.index * slot_span_blocks(self.level + 1)
    }
}

/// Two trees that are compared.
#[derive(Debug)]
pub struct TreeDiff {
    /// What is still to be compared, the next pair last: at most the slots of one page of each level.
    waiting: Vec<PagePair>,
    from_block: u64,
}

impl TreeDiff {
    /// Compares two trees from this block on.
    #[must_use]
    pub fn new(one: Pointer, other: Pointer, from_block: u64) -> TreeDiff {
        let root = PagePair { level: ROOT_LEVEL, index: 0, one, other };
        let has_more = from_block < BLOCKS_MAX && may_differ(ROOT_LEVEL + 1, one, other);
        TreeDiff { waiting: if has_more { vec![root] } else { Vec::new() }, from_block }
    }

    /// The pairs to be compared next, in order: one of inner pages, or at most so many of leaves. None is the
    /// end.
    pub fn next(&mut self, leaves_max: usize) -> Vec<PagePair> {
        assert!(leaves_max > 0, "a walk over no leaves would not end");
        let mut next: Vec<PagePair> = Vec::new();
        let fits = |next: &[PagePair], pair: &PagePair| match next.first() {
            None => true,
            Some(first) => first.level == 0 && pair.level == 0 && next.len() < leaves_max,
        };
        while let Some(pair) = self.waiting.pop_if(|pair| fits(&next, pair)) {
            next.push(pair);
        }
        next
    }

    /// Compares a pair whose pages are read, and tells the runs of blocks that differ.
    pub fn compare(
        &mut self,
        pair: &PagePair,
        one: Option<&Page>,
        other: Option<&Page>,
        tell: &mut dyn FnMut(Range<u64>),
    ) {
        assert_eq!(pair.one.is_page(), one.is_some(), "{pair:?} is compared without its pages");
        assert_eq!(pair.other.is_page(), other.is_some(), "{pair:?} is compared without its pages");
        let span = slot_span_blocks(pair.level);
        let of_slot = |slot: usize| {
            let pointers = [(one, pair.one), (other, pair.other)];
            let [one, other] = pointers.map(|(page, whole)| page.map_or(whole, |page| page[slot]));
            let first_block = pair.first_block() + slot as u64 * span;
            let is_wanted = first_block + span > self.from_block && may_differ(pair.level, one, other);
            is_wanted.then_some((first_block, one, other))
        };
        let found = (0..PAGE_POINTERS).filter_map(of_slot);
        if pair.level == 0 {
            let mut run: Option<Range<u64>> = None;
            for (block, ..) in found {
                match &mut run {
                    Some(run) if run.end == block => run.end += 1,
                    _ => {
                        run.take().into_iter().for_each(&mut *tell);
                        run = Some(block..block + 1);
                    }
                }
            }
            run.into_iter().for_each(tell);
            return;
        }
        let child = |(block, one, other)| PagePair { level: pair.level - 1, index: block / span, one, other };
        let children: Vec<PagePair> = found.map(child).collect();
        self.waiting.extend(children.into_iter().rev());
    }
}

/// Whether what two slots of pages of this level stand for may differ. A hole and zeroes read the same.
fn may_differ(level: u8, one: Pointer, other: Pointer) -> bool {
    let is_empty = |pointer: Pointer| !(pointer.is_page() || level == 0 && pointer.is_data());
    if planted(Fault::DiffMissesUnmapped) && is_empty(one) {
        return false;
    }
    one != other && !(is_empty(one) && is_empty(other))
}
