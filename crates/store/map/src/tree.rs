//! Reading and changing one tree: look-up, set, fill, extents.

use ashlar_format::{Pointer, PointerKind};
use ashlar_units::{Fault, planted};

use crate::arena::{PageArena, PageState};
use crate::error::Missing;
use crate::geometry::{
    LEVELS, PAGE_POINTERS, ROOT_LEVEL, page_index, range_end, slot_end, slot_of, slot_span_blocks,
};
use crate::lineage::TrackedPage;

/// Condemned pages freed along with each change, so that memory cannot run away even if nobody calls
/// [`PageArena::reap`]: a change condemns a handful of roots at most and copies four pages.
const REAPED_PER_CHANGE: usize = 4;

/// What [`PageArena::set`] replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetOutcome {
    /// Blocks of the range that were mapped to data before.
    pub data_blocks_before: u64,
    /// Blocks of the range that are mapped to data now.
    pub data_blocks_after: u64,
}

/// What [`PageArena::fill`] replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FillOutcome {
    /// Blocks of the range that were mapped to data before; `None` when whole subtrees were dropped,
    /// which are not counted because that would mean reading them.
    pub data_blocks_before: Option<u64>,
}

/// A run of blocks of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// How long.
    pub blocks: u64,
    /// Of which kind.
    pub kind: ExtentKind,
}

/// The kind of an [`Extent`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExtentKind {
    /// Never written, or unmapped.
    Hole,
    /// Zeroes, written.
    Zero,
    /// Data.
    Data,
}

/// Where a descent ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    /// At the page of the wanted level.
    Page(u32),
    /// Before: at a hole or zero in a slot of this level (of [`LEVELS`]: at the root), which stands for
    /// all the blocks the slot covers.
    Uniform { pointer: Pointer, level: u8 },
}

/// Slots of one page to fill: the largest aligned part at the front of a range.
struct FillPart {
    block: u64,
    /// The level of the page whose slots are filled; [`LEVELS`] is the root pointer itself.
    level: u8,
    slots: usize,
}

impl PageArena {
    /// Where `block` is mapped to.
    #[inline]
    pub fn lookup(&mut self, root: Pointer, block: u64) -> Result<Pointer, Missing> {
        range_end(block, 1);
        match self.descend(root, block, 0)? {
            Found::Page(leaf) => Ok(self.page(leaf)[slot_of(block, 0)]),
            Found::Uniform { pointer, .. } => Ok(pointer),
        }
    }

    /// Appends where each block of a range is mapped to. After [`Missing`], `out` is as before.
    pub fn lookup_run(
        &mut self,
        root: Pointer,
        first_block: u64,
        count: u64,
        out: &mut Vec<Pointer>,
    ) -> Result<(), Missing> {
        let end = range_end(first_block, count);
        let length_before = out.len();
        let mut block = first_block;
        while block < end {
            let found = self.descend(root, block, 0).inspect_err(|_| out.truncate(length_before))?;
            let part_end = end.min(found_end(block, found));
            let part = (part_end - block) as usize;
            match found {
                Found::Page(leaf) => out.extend_from_slice(&self.page(leaf)[slot_of(block, 0)..][..part]),
                Found::Uniform { pointer, .. } => out.resize(out.len() + part, pointer),
            }
            assert!(part_end > block, "a look-up stands still at block {block}");
            block = part_end;
        }
        let found = (out.len() - length_before) as u64;
        assert_eq!(found, count, "blocks looked up from {first_block} on");
        Ok(())
    }

    /// Answers [`Missing`] for the first page not loaded on the way to any block of a range.
    pub fn prefetch_check(&mut self, root: Pointer, first_block: u64, count: u64) -> Result<(), Missing> {
        let end = range_end(first_block, count);
        let mut block = first_block;
        while block < end {
            block = found_end(block, self.descend(root, block, 0)?);
        }
        Ok(())
    }

    /// Answers [`Missing`] for the first page not loaded that a fill of the range must change.
    pub fn prefetch_check_fill(
        &mut self,
        root: Pointer,
        first_block: u64,
        count: u64,
    ) -> Result<(), Missing> {
        let end = range_end(first_block, count);
        let mut block = first_block;
        while let Some(part) = FillPart::next(block, end) {
            if part.level < LEVELS {
                self.descend(root, block, part.level)?;
            }
            block = part.end();
        }
        Ok(())
    }

    /// Maps consecutive blocks. All or nothing: after [`Missing`] the tree is unchanged.
    pub fn set(
        &mut self,
        root: &mut Pointer,
        first_block: u64,
        pointers: &[Pointer],
    ) -> Result<SetOutcome, Missing> {
        assert!(
            !pointers.iter().any(|pointer| pointer.is_page()),
            "invariant 6: a leaf holds no page pointers"
        );
        self.prefetch_check(*root, first_block, pointers.len() as u64)?;
        self.reap(REAPED_PER_CHANGE);
        let mut outcome = SetOutcome::default();
        let mut block = first_block;
        let mut rest = pointers;
        while !rest.is_empty() {
            let slot = slot_of(block, 0);
            let (part, after) = rest.split_at(rest.len().min(PAGE_POINTERS - slot));
            let leaf = self.make_mutable(root, block, 0);
            outcome.data_blocks_before += count_data(&self.page(leaf)[slot..slot + part.len()]);
            outcome.data_blocks_after += count_data(part);
            self.tracked_mut(leaf).put_run(slot, part);
            block += part.len() as u64;
            rest = after;
        }
        let count = pointers.len() as u64;
        assert_eq!(block, first_block + count, "blocks mapped from {first_block} on");
        let SetOutcome { data_blocks_before: before, data_blocks_after: after } = outcome;
        assert!(before <= count && after <= count, "{before} and {after} data blocks of {count}");
        Ok(outcome)
    }

    /// Makes a range all [`Pointer::HOLE`] or all [`Pointer::ZERO`]. All or nothing, as for
    /// [`set`](Self::set).
    ///
    /// Touches at most two pages of each level however long the range is, and drops whole subtrees
    /// without reading them. Pages that become uniform are replaced by their value, up to the root.
    pub fn fill(
        &mut self,
        root: &mut Pointer,
        first_block: u64,
        count: u64,
        value: Pointer,
    ) -> Result<FillOutcome, Missing> {
        assert!(value == Pointer::HOLE || value == Pointer::ZERO, "{value:?} is not a hole or zero");
        self.prefetch_check_fill(*root, first_block, count)?;
        let end = range_end(first_block, count);
        self.reap(REAPED_PER_CHANGE);
        let mut data_blocks_before = Some(0);
        let mut block = first_block;
        while let Some(part) = FillPart::next(block, end) {
            let before = self.fill_part(root, &part, value);
            data_blocks_before = data_blocks_before.zip(before).map(|(sum, part)| sum + part);
            block = part.end();
        }
        assert_eq!(block, end, "blocks filled from {first_block} on");
        let is_counted = data_blocks_before.is_none_or(|blocks| blocks <= count);
        assert!(is_counted, "{data_blocks_before:?} data blocks among {count}");
        Ok(FillOutcome { data_blocks_before })
    }

    /// Runs of equal kind from `first_block` on: at most `extents_max` of them and at most `count` blocks.
    ///
    /// May stop early, at a page that is not loaded, when it has something to tell; the caller goes on
    /// from where the answer ends. Neighbouring answers may therefore be of the same kind.
    pub fn extents(
        &mut self,
        root: Pointer,
        first_block: u64,
        count: u64,
        extents_max: usize,
    ) -> Result<Vec<Extent>, Missing> {
        assert!(extents_max > 0, "an answer without extents would make the caller ask for ever");
        let end = range_end(first_block, count);
        let mut extents = Vec::new();
        let mut block = first_block;
        while block < end {
            let found = match self.descend(root, block, 0) {
                Ok(found) => found,
                Err(_) if !extents.is_empty() => break,
                Err(missing) => return Err(missing),
            };
            let part_end = end.min(found_end(block, found));
            let is_full = match found {
                Found::Uniform { pointer, .. } => {
                    !push_extent(&mut extents, extents_max, part_end - block, extent_kind(pointer))
                }
                Found::Page(leaf) => {
                    let slots = &self.page(leaf)[slot_of(block, 0)..][..(part_end - block) as usize];
                    !slots.iter().all(|slot| push_extent(&mut extents, extents_max, 1, extent_kind(*slot)))
                }
            };
            if is_full {
                break;
            }
            block = part_end;
        }
        let told: u64 = extents.iter().map(|extent| extent.blocks).sum();
        assert!(told <= count, "extents of {told} blocks where {count} were asked for");
        assert!(count == 0 || told > 0, "the caller would ask for ever");
        assert!(extents.len() <= extents_max, "{} extents, at most {extents_max}", extents.len());
        Ok(extents)
    }

    /// Goes down towards `block` to the page of `target_level`, marking pages as used.
    ///
    /// Heals on the way: where a dirty page points in memory to a page that has become clean, the media
    /// pointer takes its place, so that the clean page can be evicted.
    #[inline]
    pub(crate) fn descend(&mut self, root: Pointer, block: u64, target_level: u8) -> Result<Found, Missing> {
        let mut pointer = root;
        let mut parent = None;
        let mut level = LEVELS;
        loop {
            if !pointer.is_page() {
                debug_assert!(!pointer.is_data(), "invariant 6: {pointer:?} at level {level}");
                return Ok(Found::Uniform { pointer, level });
            }
            level -= 1;
            let Some(number) = self.find(pointer, level) else {
                return Err(Missing { pointer, level, index: page_index(block, level) });
            };
            let slot = self.slot_mut(number);
            slot.is_hot = true;
            if slot.state == PageState::Clean && pointer.as_in_memory().is_some() {
                self.heal(parent, number);
            }
            if level == target_level {
                return Ok(Found::Page(number));
            }
            let index = slot_of(block, level);
            parent = Some((number, index));
            pointer = self.page(number)[index];
        }
    }

    #[cold]
    fn heal(&mut self, parent: Option<(u32, usize)>, child: u32) {
        // Without a parent it is the root, which its holder normalises.
        if let Some((parent, index)) = parent {
            let media = self.slot(child).media;
            self.tracked_mut(parent).put(index, media);
            self.drop_reference(child);
        }
    }

    /// The page of `target_level` over `block`, changed to be reachable from `root` alone: copies what is
    /// shared or clean on the path and unfolds holes and zeroes (invariant 7). The pages on the path are
    /// loaded, the caller has checked.
    fn make_mutable(&mut self, root: &mut Pointer, block: u64, target_level: u8) -> u32 {
        let mut number = self.mutable_child(*root, ROOT_LEVEL);
        self.replace_root(root, number);
        for level in (target_level..ROOT_LEVEL).rev() {
            let index = slot_of(block, level + 1);
            let old = self.page(number)[index];
            let child = self.mutable_child(old, level);
            if old.as_in_memory() != Some(child) {
                self.tracked_mut(number).put(index, Pointer::in_memory(child));
                self.add_reference(child);
                self.release(old);
            }
            number = child;
        }
        let page = self.slot(number);
        assert_eq!(page.level, target_level, "page {number} over block {block}");
        assert_eq!(page.state, PageState::Dirty, "page {number} is about to change");
        assert_eq!(page.references, 1, "invariant 7: page {number} is about to change");
        number
    }

    fn replace_root(&mut self, root: &mut Pointer, number: u32) {
        if root.as_in_memory() != Some(number) {
            self.add_reference(number);
            self.release(std::mem::replace(root, Pointer::in_memory(number)));
        }
    }

    /// The page at `pointer` itself if only `pointer` refers to it and it is dirty, else a new dirty page
    /// with the same content and no reference yet.
    fn mutable_child(&mut self, pointer: Pointer, level: u8) -> u32 {
        if !pointer.is_page() {
            let page = TrackedPage::new(Box::new([pointer; PAGE_POINTERS]));
            return self.allocate(page, level, PageState::Dirty);
        }
        let number = self.find(pointer, level).expect("the caller checked that the path is loaded");
        let slot = self.slot(number);
        if slot.state == PageState::Dirty && slot.references == 1 {
            return number;
        }
        self.copy_page(number)
    }

    fn copy_page(&mut self, number: u32) -> u32 {
        let (level, state) = (self.slot(number).level, self.slot(number).state);
        assert!(
            matches!(state, PageState::Dirty | PageState::Clean),
            "page {number} is {state:?}, not to copy"
        );
        if state != PageState::Dirty {
            let page = self.tracked(number).copy_clean();
            return self.allocate(page, level, PageState::Dirty);
        }
        let mut page = self.tracked_mut(number).copy_dirty();
        if level > 0 {
            for index in 0..PAGE_POINTERS {
                let Some(child) = page.pointers()[index].as_in_memory() else { continue };
                let child_slot = self.slot(child);
                if child_slot.state == PageState::Clean {
                    page.put(index, child_slot.media);
                } else if !planted(Fault::SharedChildNotCounted) {
                    self.add_reference(child);
                }
            }
        }
        self.allocate(page, level, PageState::Dirty)
    }

    /// Fills one part; the count is of data blocks before, if it is known.
    fn fill_part(&mut self, root: &mut Pointer, part: &FillPart, value: Pointer) -> Option<u64> {
        if part.level == LEVELS {
            let old = std::mem::replace(root, value);
            self.release(old);
            return (!old.is_page()).then_some(0);
        }
        let first = slot_of(part.block, part.level);
        let slots = first..first + part.slots;
        assert!(slots.end <= PAGE_POINTERS, "slots {slots:?} of one page");
        match self.descend(*root, part.block, part.level).expect("fill checked that the path is loaded") {
            Found::Uniform { pointer, .. } if pointer == value => return Some(0),
            Found::Page(number) if self.page(number)[slots.clone()].iter().all(|old| *old == value) => {
                return Some(0);
            }
            Found::Uniform { .. } | Found::Page(_) => {}
        }
        let number = self.make_mutable(root, part.block, part.level);
        let mut data_blocks = Some(0);
        for index in slots {
            let old = self.tracked_mut(number).put(index, value);
            match old.kind() {
                PointerKind::Hole | PointerKind::Zero => {}
                PointerKind::Data => data_blocks = data_blocks.map(|blocks| blocks + 1),
                PointerKind::Page => {
                    data_blocks = None;
                    self.release(old);
                }
            }
        }
        self.collapse(root, part.block, part.level, value);
        data_blocks
    }

    /// Replaces uniform pages by their value from `level` upwards. The path is mutable.
    fn collapse(&mut self, root: &mut Pointer, block: u64, level: u8, value: Pointer) {
        let mut path = [0; LEVELS as usize];
        let mut pointer = *root;
        for level in (level..LEVELS).rev() {
            let number = pointer.as_in_memory().expect("the path was just made mutable");
            path[usize::from(level)] = number;
            pointer = self.page(number)[slot_of(block, level)];
        }
        for level in level..LEVELS {
            let number = path[usize::from(level)];
            if self.page(number).iter().any(|slot| *slot != value) {
                return;
            }
            if level == ROOT_LEVEL {
                *root = value;
            } else {
                self.tracked_mut(path[usize::from(level) + 1]).put(slot_of(block, level + 1), value);
            }
            self.drop_reference(number);
        }
    }
}

impl FillPart {
    fn next(block: u64, end: u64) -> Option<FillPart> {
        if block == end {
            return None;
        }
        let fits = |level: &u8| {
            let span = slot_span_blocks(*level);
            block.is_multiple_of(span) && end - block >= span
        };
        let level = (0..=LEVELS).rev().find(fits).expect("one block fits at level 0");
        let whole_slots = ((end - block) / slot_span_blocks(level)) as usize;
        let slots = if level == LEVELS { 1 } else { whole_slots.min(PAGE_POINTERS - slot_of(block, level)) };
        Some(FillPart { block, level, slots })
    }

    fn end(&self) -> u64 {
        self.block + self.slots as u64 * slot_span_blocks(self.level)
    }
}

/// The first block that what was found on the way to a leaf does not cover any more.
#[inline]
fn found_end(block: u64, found: Found) -> u64 {
    match found {
        Found::Page(_) => slot_end(block, 1),
        Found::Uniform { level, .. } => slot_end(block, level),
    }
}

fn count_data(pointers: &[Pointer]) -> u64 {
    pointers.iter().filter(|pointer| pointer.is_data()).count() as u64
}

fn extent_kind(pointer: Pointer) -> ExtentKind {
    match pointer.kind() {
        PointerKind::Hole => ExtentKind::Hole,
        PointerKind::Zero => ExtentKind::Zero,
        PointerKind::Data => ExtentKind::Data,
        PointerKind::Page => unreachable!("invariant 6: a leaf holds no page pointers"),
    }
}

/// Appends or lengthens; false when that would take one extent too many.
fn push_extent(extents: &mut Vec<Extent>, extents_max: usize, blocks: u64, kind: ExtentKind) -> bool {
    if let Some(last) = extents.last_mut().filter(|last| last.kind == kind) {
        last.blocks += blocks;
        return true;
    }
    let has_room = extents.len() < extents_max;
    if has_room {
        extents.push(Extent { blocks, kind });
    }
    has_room
}
