//! Visiting every page of a tree, for marking live data and for checking.

use ashlar_format::Pointer;

use crate::arena::PageArena;
use crate::error::Missing;
use crate::geometry::{BLOCKS_MAX, LEVELS, Page, ROOT_LEVEL, page_index, slot_end, slot_span_blocks};
use crate::tree::Found;

/// A page met by a [`PageWalk`].
#[derive(Clone, Copy, Debug)]
pub struct PageVisit<'a> {
    /// Where it is on a drive; `None` while it is dirty.
    pub media: Option<Pointer>,
    /// Its level; 0 is a leaf.
    pub level: u8,
    /// Which page of its level it is.
    pub index: u64,
    /// The first block it covers.
    pub first_block: u64,
    /// Its content.
    pub pointers: &'a Page,
}

/// Goes over the pages of a tree, parents before children, from the first block to the last.
///
/// It remembers a position and not page numbers, so it may be kept across waits and evictions. Walk a
/// root that does not change (a snapshot, or a share); over a live one the answer is a mixture of times.
#[derive(Debug)]
pub struct PageWalk {
    root: Pointer,
    /// The next page is the one of this level that covers this block.
    block: u64,
    level: u8,
    /// Where to go on when the children of the page last visited are of no interest.
    after_children: u64,
}

impl PageWalk {
    /// Starts at the root page.
    #[must_use]
    pub fn new(root: Pointer) -> PageWalk {
        PageWalk { root, block: 0, level: ROOT_LEVEL, after_children: BLOCKS_MAX }
    }

    /// The next page; `None` at the end. After [`Missing`], load the page and ask again.
    pub fn next<'a>(&mut self, arena: &'a mut PageArena) -> Result<Option<PageVisit<'a>>, Missing> {
        while self.block < BLOCKS_MAX {
            let number = match arena.descend(self.root, self.block, self.level)? {
                Found::Uniform { level, .. } => {
                    self.go_to(slot_end(self.block, level));
                    continue;
                }
                Found::Page(number) => number,
            };
            let (first_block, level) = (self.block, self.level);
            self.after_children = slot_end(first_block, level + 1);
            if level > 0 {
                self.level -= 1;
            } else {
                self.go_to(self.after_children);
            }
            assert!(self.after_children > first_block, "a walk stands still at block {first_block}");
            return Ok(Some(PageVisit {
                media: arena.media_of(number),
                level,
                index: page_index(first_block, level),
                first_block,
                pointers: arena.page(number),
            }));
        }
        Ok(None)
    }

    /// Leaves out everything below the page last visited: it is known already through another tree.
    pub fn skip_children(&mut self) {
        let (from, to) = (self.block, self.after_children);
        assert!(from <= to, "a walk at block {from} would go back to {to}");
        self.go_to(self.after_children);
    }

    /// Goes on with the topmost page that begins at `block`.
    fn go_to(&mut self, block: u64) {
        self.block = block;
        let begins = |level: &u8| block.is_multiple_of(slot_span_blocks(level + 1));
        self.level = (0..LEVELS).rev().find(begins).expect("a subtree ends where a leaf begins");
    }
}

impl PageArena {
    fn media_of(&self, number: u32) -> Option<Pointer> {
        let media = self.slot(number).media;
        media.is_page().then_some(media)
    }
}
