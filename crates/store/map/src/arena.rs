//! The arena: where pages live, who refers to them, and when they go.

use std::collections::{HashMap, VecDeque};

use ashlar_format::{Pointer, PointerKind};
use rustc_hash::FxBuildHasher;

use crate::error::PageInvalid;
use crate::geometry::{LEVELS, Page};
use crate::lineage::TrackedPage;

/// Clean pages that may stay however many dirty pages fill the capacity. A page just read must survive
/// until its reader asks again, for as many concurrent readers as a shard has, or they would evict each
/// other's pages for ever: 128 readers of 4 levels each, doubled.
const CLEAN_PAGES_MIN: usize = 1024;

/// Pages looked at in one call for eviction, so that a call's time is bounded. Far below
/// [`CLEAN_PAGES_MIN`], so that the page just inserted is never reached.
const EVICTION_STEPS_MAX: usize = 128;

/// The number of a page in the arena; valid while the page lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageNumber(pub(crate) u32);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PageState {
    /// The slot holds no page.
    Free,
    /// Changed since it was read, or never on a drive.
    Dirty,
    /// The same as on the drive at `media`; found by it.
    Clean,
    /// Was dirty and nobody refers to it any more: its references to children are dropped by `reap`.
    Condemned,
}

pub(crate) struct Slot {
    pub(crate) page: Option<TrackedPage>,
    /// The address of a clean page; a hole otherwise.
    pub(crate) media: Pointer,
    pub(crate) references: u32,
    pub(crate) level: u8,
    pub(crate) state: PageState,
    /// Its write is under way: it cannot be read back from the drive yet.
    pub(crate) is_pinned: bool,
    /// Used since the eviction hand last passed.
    pub(crate) is_hot: bool,
}

impl Slot {
    /// True for a clean page that can be read back and that nobody refers to by its number.
    #[inline]
    pub(crate) fn is_evictable(&self) -> bool {
        self.state == PageState::Clean && !self.is_pinned && self.references == 0
    }
}

/// Pages of all trees of a shard.
pub struct PageArena {
    pub(crate) slots: Vec<Slot>,
    pub(crate) free: Vec<u32>,
    pub(crate) by_media: HashMap<u64, u32, FxBuildHasher>,
    /// Clean pages in the order the eviction hand meets them.
    pub(crate) eviction_queue: VecDeque<u32>,
    pub(crate) condemned: Vec<u32>,
    pub(crate) dirty_count: usize,
    /// Clean pages that cannot be evicted now. They must not use up the room of those that can: a
    /// checkpoint pins many, and every page read meanwhile would be dropped before its reader came back.
    pub(crate) held_count: usize,
    capacity_pages: usize,
    clean_pages_min: usize,
    evicted_count: u64,
    loaded_count: u64,
}

/// What the arena holds and has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArenaCounters {
    /// Pages that differ from any drive.
    pub dirty_pages: usize,
    /// Pages equal to their copy on a drive.
    pub clean_pages: usize,
    /// Unreachable pages that wait for [`PageArena::reap`].
    pub condemned_pages: usize,
    /// Pages given to [`PageArena::insert_clean`] since the start.
    pub loaded_pages: u64,
    /// Clean pages dropped to make room since the start.
    pub evicted_pages: u64,
}

impl PageArena {
    /// An arena that drops clean pages when all pages together exceed `capacity_bytes`.
    ///
    /// Dirty pages are never dropped, and about 4 MiB of clean pages stay in any case.
    #[must_use]
    pub fn new(capacity_bytes: usize) -> PageArena {
        PageArena::with_clean_pages_min(capacity_bytes, CLEAN_PAGES_MIN)
    }

    pub(crate) fn with_clean_pages_min(capacity_bytes: usize, clean_pages_min: usize) -> PageArena {
        PageArena {
            slots: Vec::new(),
            free: Vec::new(),
            by_media: HashMap::default(),
            eviction_queue: VecDeque::new(),
            condemned: Vec::new(),
            dirty_count: 0,
            held_count: 0,
            capacity_pages: capacity_bytes / size_of::<Page>(),
            clean_pages_min,
            evicted_count: 0,
            loaded_count: 0,
        }
    }

    /// Pages that a checkpoint would have to write, or that only trees about to go still refer to.
    #[must_use]
    pub fn dirty_count(&self) -> usize {
        self.dirty_count
    }

    /// Bytes of all pages held, in whatever state.
    #[must_use]
    pub fn bytes_used(&self) -> usize {
        (self.slots.len() - self.free.len()) * size_of::<Page>()
    }

    /// What the arena holds and has done.
    #[must_use]
    pub fn counters(&self) -> ArenaCounters {
        ArenaCounters {
            dirty_pages: self.dirty_count,
            clean_pages: self.eviction_queue.len(),
            condemned_pages: self.condemned.len(),
            loaded_pages: self.loaded_count,
            evicted_pages: self.evicted_count,
        }
    }

    /// Changes the capacity; the next insertions bring the arena down to it.
    pub fn set_capacity_bytes(&mut self, capacity_bytes: usize) {
        self.capacity_pages = capacity_bytes / size_of::<Page>();
        self.evict();
    }

    /// Takes a page read from a drive, after an operation answered [`Missing`](crate::Missing).
    ///
    /// Does nothing if the page is already loaded: two readers may have asked for it. The caller has
    /// verified checksum and identity of the record; an error is damage all the same.
    pub fn insert_clean(
        &mut self,
        pointer: Pointer,
        level: u8,
        page: TrackedPage,
    ) -> Result<(), PageInvalid> {
        if !pointer.is_page() || pointer.as_in_memory().is_some() || level >= LEVELS {
            return Err(PageInvalid::Pointer { pointer });
        }
        if let Some(&number) = self.by_media.get(&pointer.0) {
            let loaded_level = self.slot(number).level;
            if loaded_level != level {
                return Err(PageInvalid::Level { pointer, level, loaded_level });
            }
            self.slot_mut(number).is_hot = true;
            return Ok(());
        }
        let pointers = page.pointers();
        if let Some(slot) = pointers.iter().position(|found| !is_allowed_on_media(*found, level)) {
            return Err(PageInvalid::Slot { pointer, level, slot, found: pointers[slot] });
        }
        let number = self.allocate(page, level, PageState::Clean);
        let slot = self.slot_mut(number);
        slot.media = pointer;
        slot.is_hot = true;
        self.loaded_count += 1;
        self.enlist_clean(number);
        self.evict();
        Ok(())
    }

    /// The page at `pointer`, if it is in memory at this level.
    #[must_use]
    pub fn loaded(&self, pointer: Pointer, level: u8) -> Option<&TrackedPage> {
        self.find(pointer, level).map(|number| self.tracked(number))
    }

    /// A second reference to a tree: a snapshot, a clone, or a checkpoint's frozen root. O(1).
    ///
    /// The result is the caller's to keep and to [`release`](Self::release); both trees have the same
    /// content now and part ways with the next change of either.
    #[must_use]
    pub fn share(&mut self, root: Pointer) -> Pointer {
        let Some(number) = root.as_in_memory() else { return root };
        let slot = self.slot(number);
        match slot.state {
            PageState::Clean => slot.media,
            PageState::Dirty => {
                self.add_reference(number);
                root
            }
            PageState::Free | PageState::Condemned => panic!("root {root:?} was released before"),
        }
    }

    /// Gives up a tree: it must not be used any more. O(1) whatever its size; pages that nobody else
    /// refers to are freed by [`reap`](Self::reap).
    pub fn release(&mut self, root: Pointer) {
        if let Some(number) = root.as_in_memory() {
            self.drop_reference(number);
        }
    }

    /// Frees up to `pages_max` unreachable pages and returns how many are known to wait still. Freeing a
    /// page may condemn its children, so only 0 means that all is done.
    pub fn reap(&mut self, pages_max: usize) -> usize {
        for _ in 0..pages_max {
            let Some(number) = self.condemned.pop() else { break };
            assert_eq!(self.slot(number).state, PageState::Condemned, "page {number} is reaped");
            let page = self.vacate(number);
            if self.slot(number).level > 0 {
                for child in page.pointers().iter().filter_map(|pointer| pointer.as_in_memory()) {
                    self.drop_reference(child);
                }
            }
        }
        self.condemned.len()
    }

    #[inline]
    pub(crate) fn slot(&self, number: u32) -> &Slot {
        &self.slots[number as usize]
    }

    #[inline]
    pub(crate) fn slot_mut(&mut self, number: u32) -> &mut Slot {
        &mut self.slots[number as usize]
    }

    #[inline]
    pub(crate) fn page(&self, number: u32) -> &Page {
        self.tracked(number).pointers()
    }

    #[inline]
    pub(crate) fn tracked(&self, number: u32) -> &TrackedPage {
        self.slot(number).page.as_ref().expect("a referenced page is not free")
    }

    #[inline]
    pub(crate) fn tracked_mut(&mut self, number: u32) -> &mut TrackedPage {
        self.slot_mut(number).page.as_mut().expect("a referenced page is not free")
    }

    /// The number of the page at `pointer`, if it is in memory at this level. A page that is loaded at
    /// another level counts as missing: its second load is refused with the reason.
    #[inline]
    pub(crate) fn find(&self, pointer: Pointer, level: u8) -> Option<u32> {
        if let Some(number) = pointer.as_in_memory() {
            debug_assert_eq!(self.slot(number).level, level, "invariant 4: {pointer:?}");
            return Some(number);
        }
        let number = *self.by_media.get(&pointer.0)?;
        (self.slot(number).level == level).then_some(number)
    }

    /// Puts a page in a free slot, with no reference and on no list.
    pub(crate) fn allocate(&mut self, page: TrackedPage, level: u8, state: PageState) -> u32 {
        assert!(level < LEVELS, "a page of level {level}");
        assert!(matches!(state, PageState::Dirty | PageState::Clean), "a page begins {state:?}");
        self.dirty_count += usize::from(state == PageState::Dirty);
        let slot = Slot {
            page: Some(page),
            media: Pointer::HOLE,
            references: 0,
            level,
            state,
            is_pinned: false,
            is_hot: false,
        };
        if let Some(number) = self.free.pop() {
            assert_eq!(self.slot(number).state, PageState::Free, "slot {number} is given out twice");
            *self.slot_mut(number) = slot;
            return number;
        }
        let number = u32::try_from(self.slots.len()).expect("2^32 pages are 16 TiB of memory");
        self.slots.push(slot);
        number
    }

    #[inline]
    pub(crate) fn add_reference(&mut self, number: u32) {
        let slot = self.slot_mut(number);
        debug_assert!(matches!(slot.state, PageState::Dirty | PageState::Clean), "page {number} is gone");
        let was_evictable = slot.is_evictable();
        slot.references = slot.references.checked_add(1).expect("2^32 references are 32 GiB of pointers");
        self.held_count += usize::from(was_evictable);
    }

    pub(crate) fn drop_reference(&mut self, number: u32) {
        let slot = self.slot_mut(number);
        assert!(
            matches!(slot.state, PageState::Dirty | PageState::Clean),
            "page {number} is {:?}",
            slot.state
        );
        slot.references = slot.references.checked_sub(1).expect("a page is released once per reference");
        if slot.references == 0 && slot.state == PageState::Dirty {
            slot.state = PageState::Condemned;
            self.dirty_count -= 1;
            self.condemned.push(number);
        } else if slot.is_evictable() {
            self.held_count -= 1;
        }
    }

    /// Makes a page that has just become clean findable and evictable.
    pub(crate) fn enlist_clean(&mut self, number: u32) {
        let Slot { media, state, .. } = *self.slot(number);
        assert_eq!(state, PageState::Clean, "invariant 5: page {number} is to be found by {media:?}");
        assert!(media.is_page() && media.as_in_memory().is_none(), "page {number} at {media:?}");
        let previous = self.by_media.insert(media.0, number);
        assert_eq!(previous, None, "invariant 5: two pages at {media:?}");
        self.eviction_queue.push_back(number);
    }

    /// Drops clean pages that nobody refers to, not recently used first, until the capacity holds: CLOCK,
    /// as a queue in which a page gets a second round for each use. A few steps per call; a call that
    /// cannot finish leaves the rest to the next.
    pub(crate) fn evict(&mut self) {
        let pages_kept = self.dirty_count + self.held_count;
        let (held, queued) = (self.held_count, self.eviction_queue.len());
        assert!(held <= queued, "{held} of {queued} clean pages are held");
        let evictable_max = self.capacity_pages.saturating_sub(pages_kept).max(self.clean_pages_min);
        for _ in 0..EVICTION_STEPS_MAX {
            if self.eviction_queue.len() - self.held_count <= evictable_max {
                return;
            }
            let number = self.eviction_queue.pop_front().expect("the queue is longer than its limit");
            let slot = self.slot_mut(number);
            if slot.is_hot || !slot.is_evictable() {
                slot.is_hot = false;
                self.eviction_queue.push_back(number);
                continue;
            }
            let media = slot.media;
            self.by_media.remove(&media.0);
            self.vacate(number);
            self.evicted_count += 1;
        }
    }

    /// Empties a slot that is on no list any more, and returns its page.
    fn vacate(&mut self, number: u32) -> TrackedPage {
        let slot = self.slot_mut(number);
        assert_eq!(slot.references, 0, "page {number} is freed while referred to");
        assert!(!slot.is_pinned, "page {number} is freed while being written");
        slot.state = PageState::Free;
        slot.media = Pointer::HOLE;
        let page = slot.page.take().expect("a page is freed once");
        self.free.push(number);
        page
    }
}

/// Invariants 2 and 6 for a page from a drive. Holes and zeroes have one form only, so that they can be
/// compared as numbers.
fn is_allowed_on_media(pointer: Pointer, level: u8) -> bool {
    match pointer.kind() {
        PointerKind::Hole => pointer == Pointer::HOLE,
        PointerKind::Zero => pointer == Pointer::ZERO,
        PointerKind::Data => level == 0,
        PointerKind::Page => level > 0 && pointer.as_in_memory().is_none(),
    }
}

const _: () = assert!(EVICTION_STEPS_MAX < CLEAN_PAGES_MIN);
