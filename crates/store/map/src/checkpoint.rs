//! Making a tree durable: the order of writing, the form written, the change from dirty to clean.
//!
//! A checkpoint takes a [`share`](PageArena::share) of each root, so that nothing reachable from these
//! frozen roots changes any more: every live change copies. Then for each frozen root:
//!
//! ```text
//! let mut order = WriteOrder::new(frozen);
//! while let Some(next) = order.next(&arena) {        // children before parents
//!     let record = arena.encode(next.page);           // all pointers are media pointers
//!     let (media, form) = …choose FULL or DELTA, assign a place…;
//!     arena.set_persisted(next.page, media, form);    // clean and pinned from here on
//!     …start writing; when it has completed: arena.unpin(next.page)…
//! }
//! arena.normalise(&mut frozen);                       // now the root's media pointer
//! ```
//!
//! Between any two of these rounds the engine may wait and live trees may change; from `encode` to
//! `set_persisted` they must not, a copy made then would not know the form chosen. A page is written once
//! even if several frozen roots share it, because it is clean when the second root meets it. The frozen
//! root must be held until the last page is persisted; giving up half-way is [`release`](PageArena::release)
//! of the frozen root and [`unpin`](PageArena::unpin) of what was written: pages already clean stay
//! usable, the others are condemned unless a live tree has them.

use ashlar_format::Pointer;

use crate::arena::{PageArena, PageNumber, PageState};
use crate::geometry::{LEVELS, PAGE_POINTERS, Page, ROOT_LEVEL};
use crate::lineage::{Delta, RecordForm};

/// The next page of a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageToWrite {
    /// Its number in the arena.
    pub page: PageNumber,
    /// Its level; 0 is a leaf.
    pub level: u8,
    /// Which page of its level it is, counted from the start of the tree.
    pub index: u64,
}

/// What to write of a page.
#[derive(Debug)]
pub struct PageRecord<'a> {
    /// The whole page.
    pub pointers: &'a Page,
    /// The same, told by the difference from its base, where that is possible.
    pub delta: Option<Delta>,
}

/// Goes over the dirty pages of a frozen tree, children before parents.
///
/// It remembers a position and not page numbers, so that whatever happens to pages meanwhile (healed
/// pointers, pages persisted through another root, evictions) cannot lead it astray.
#[derive(Debug)]
pub struct WriteOrder {
    root: Pointer,
    /// For each level the slot to look at next, in the page chosen by the slots of the levels above.
    next_slot: [usize; LEVELS as usize],
}

impl WriteOrder {
    /// Starts at the leftmost leaf of a root that the caller holds until the end.
    #[must_use]
    pub fn new(root: Pointer) -> WriteOrder {
        WriteOrder { root, next_slot: [0; LEVELS as usize] }
    }

    /// The next page whose children are all persisted. The same one again until it is persisted itself.
    #[must_use]
    pub fn next(&mut self, arena: &PageArena) -> Option<PageToWrite> {
        let mut number = dirty_page(arena, self.root)?;
        let mut index = 0;
        let mut level = ROOT_LEVEL;
        while level > 0 {
            let Some(child) = self.seek_dirty_child(arena, number, usize::from(level)) else { break };
            index = index * PAGE_POINTERS as u64 + self.next_slot[usize::from(level)] as u64;
            number = child;
            level -= 1;
        }
        let page = arena.slot(number);
        assert_eq!(page.level, level, "page {number} is met at level {level}");
        assert_eq!(page.state, PageState::Dirty, "page {number} is to be written");
        Some(PageToWrite { page: PageNumber(number), level, index })
    }

    /// Moves on to the next slot of an inner page that leads to a dirty page.
    fn seek_dirty_child(&mut self, arena: &PageArena, number: u32, level: usize) -> Option<u32> {
        let page = arena.page(number);
        while self.next_slot[level] < PAGE_POINTERS {
            if let Some(child) = dirty_page(arena, page[self.next_slot[level]]) {
                return Some(child);
            }
            self.next_slot[level] += 1;
            self.next_slot[..level].fill(0);
        }
        None
    }
}

fn dirty_page(arena: &PageArena, pointer: Pointer) -> Option<u32> {
    pointer.as_in_memory().filter(|number| arena.slot(*number).state == PageState::Dirty)
}

impl PageArena {
    /// The content of a dirty page as it goes to the drive: its persisted children take their media
    /// pointers, here and for good.
    ///
    /// # Panics
    /// When a child is not persisted yet: the page was not chosen by [`WriteOrder`].
    pub fn encode(&mut self, page: PageNumber) -> PageRecord<'_> {
        let number = page.0;
        assert_eq!(self.slot(number).state, PageState::Dirty, "page {number} has nothing to write");
        let override_count = self.tracked(number).override_count();
        if self.slot(number).level > 0 {
            for index in 0..PAGE_POINTERS {
                let Some(child) = self.page(number)[index].as_in_memory() else { continue };
                let child_slot = self.slot(child);
                assert_eq!(child_slot.state, PageState::Clean, "page {number} is written before its child");
                let media = child_slot.media;
                self.tracked_mut(number).put(index, media);
                self.drop_reference(child);
            }
        }
        let tracked = self.tracked(number);
        // Copies were made by this count: see `lineage`.
        assert_eq!(tracked.override_count(), override_count, "invariant 8: a frozen page has changed");
        debug_assert!(self.is_told_by_base(number), "invariant 8: page {number} differs unnoticed");
        PageRecord { pointers: tracked.pointers(), delta: tracked.as_delta() }
    }

    /// Whether base and overrides tell the page, as far as the base is in memory to compare.
    pub(crate) fn is_told_by_base(&self, number: u32) -> bool {
        let page = self.tracked(number);
        let Some(base) = page.base().and_then(|base| self.loaded(base, self.slot(number).level)) else {
            return true;
        };
        page.is_told_by(base.pointers())
    }

    /// Turns an encoded page clean at its new address, and pins it until [`unpin`](Self::unpin): its
    /// write has not completed, so it could not be read back.
    ///
    /// # Panics
    /// When the page was not encoded, the address is not a fresh one on a drive, or the form is one that
    /// [`encode`](Self::encode) did not offer.
    pub fn set_persisted(&mut self, page: PageNumber, media: Pointer, form: RecordForm) {
        let number = page.0;
        assert!(media.is_page() && media.as_in_memory().is_none(), "{media:?} is no page on a drive");
        assert_eq!(self.slot(number).state, PageState::Dirty, "page {number} is persisted once");
        let is_encoded = self.page(number).iter().all(|pointer| pointer.as_in_memory().is_none());
        assert!(is_encoded, "invariant 2: page {number} still points into memory");
        self.tracked_mut(number).persisted(media, form);
        let slot = self.slot_mut(number);
        slot.state = PageState::Clean;
        slot.media = media;
        slot.is_pinned = true;
        self.dirty_count -= 1;
        self.held_count += 1;
        self.enlist_clean(number);
        self.evict();
    }

    /// Lets a persisted page be evicted: its write has completed.
    pub fn unpin(&mut self, page: PageNumber) {
        let slot = self.slot_mut(page.0);
        assert!(slot.is_pinned, "page {} is not being written", page.0);
        slot.is_pinned = false;
        let is_evictable = slot.is_evictable();
        self.held_count -= usize::from(is_evictable);
        self.evict();
    }

    /// The root as it can be stored on a drive; `None` while its page is dirty.
    #[must_use]
    pub fn root_media(&self, root: Pointer) -> Option<Pointer> {
        let Some(number) = root.as_in_memory() else { return Some(root) };
        let slot = self.slot(number);
        (slot.state == PageState::Clean).then_some(slot.media)
    }

    /// Turns a root whose page has been persisted into its media pointer, so that the page can be evicted.
    /// True when the root is now fit for a drive.
    pub fn normalise(&mut self, root: &mut Pointer) -> bool {
        let Some(media) = self.root_media(*root) else { return false };
        assert!(media.as_in_memory().is_none(), "root {root:?} would be stored as {media:?}");
        self.release(std::mem::replace(root, media));
        true
    }
}
