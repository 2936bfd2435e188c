//! The relocation table in memory: which page speaks of which old addresses, and some of the pages.
//!
//! Loaded lazily: an opening reads the directories only. Only the cleaner changes it, while it holds
//! the checkpointer; readers load pages and drop them. The format is `ashlar_format::relocation`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use ashlar_format::Pointer;
use ashlar_format::page::{PageContent, PageIdentity};
use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_format::relocation::{
    self, RELOCATION_DIRECTORIES_MAX, RELOCATION_PAGES_PER_DIRECTORY, RELOCATIONS_PER_PAGE, Relocation,
    RelocationPage,
};
use ashlar_units::SegmentId;

/// The tree number of relocation pages, like those of the tables no volume's.
const RELOCATION_TREE: u64 = u64::MAX - 1;

/// Number of a page of the table.
pub(crate) type PageSlot = usize;

/// What the table says of an address.
pub(crate) enum Found {
    /// It moved here.
    Here(Relocation),
    /// This page knows, and must be loaded first.
    Load(PageSlot),
    /// Nothing.
    Nowhere,
}

struct Page {
    /// Its copy on a drive; a hole before the first.
    pointer: Pointer,
    segment: SegmentId,
    first_units: u32,
    entries: Option<Rc<[Relocation]>>,
    is_dirty: bool,
}

/// Where the survivors of emptied segments are.
pub(crate) struct Relocations {
    slots: Vec<Option<Page>>,
    free: Vec<PageSlot>,
    by_address: BTreeMap<(SegmentId, u32), PageSlot>,
    directories: Vec<Pointer>,
    changed: BTreeSet<usize>,
    is_root_stale: bool,
    root: Pointer,
    /// Clean pages in memory, oldest first.
    loaded: VecDeque<PageSlot>,
    loaded_max: usize,
    /// Pages given a place by a checkpoint that may not have reached the drive yet.
    unsettled: BTreeSet<PageSlot>,
    epoch: u64,
}

impl Relocations {
    /// An empty table that keeps about `cache_bytes` of clean pages.
    pub(crate) fn new(cache_bytes: u64) -> Relocations {
        Relocations {
            slots: Vec::new(),
            free: Vec::new(),
            by_address: BTreeMap::new(),
            directories: Vec::new(),
            changed: BTreeSet::new(),
            is_root_stale: false,
            root: Pointer::HOLE,
            loaded: VecDeque::new(),
            loaded_max: (cache_bytes / 4096).max(16) as usize,
            unsettled: BTreeSet::new(),
            epoch: 0,
        }
    }

    /// Takes the directories as read from drives, in order.
    pub(crate) fn load(&mut self, root: Pointer, directories: Vec<Pointer>, pages: &[RelocationPage]) {
        self.root = root;
        self.directories = directories;
        for (slot, page) in pages.iter().enumerate() {
            let RelocationPage { pointer, segment, first_units } = *page;
            if !pointer.is_page() {
                self.slots.push(None);
                self.free.push(slot);
                continue;
            }
            self.slots.push(Some(Page { pointer, segment, first_units, entries: None, is_dirty: false }));
            self.by_address.insert((segment, first_units), slot);
        }
    }

    /// Grows with every change: a reader that fails looks whether what it read has moved meanwhile.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Where a pointer's target is, if it was moved.
    pub(crate) fn find(&self, pointer: Pointer) -> Found {
        let units = (pointer.offset_bytes() / PLACE_UNIT_BYTES) as u32;
        let Some(slot) = self.slot_of(pointer.segment(), units) else { return Found::Nowhere };
        let Some(entries) = &self.page(slot).entries else { return Found::Load(slot) };
        match entries.binary_search_by_key(&units, |entry| entry.old_units) {
            Ok(at) => Found::Here(entries[at]),
            Err(_) => Found::Nowhere,
        }
    }

    /// The page that would know of an address.
    pub(crate) fn slot_of(&self, segment: SegmentId, units: u32) -> Option<PageSlot> {
        let (address, slot) = self.by_address.range(..=(segment, units)).next_back()?;
        (address.0 == segment).then_some(*slot)
    }

    /// All pages, with the segments they speak of.
    pub(crate) fn pages(&self) -> Vec<(PageSlot, SegmentId)> {
        self.by_address.iter().map(|(address, slot)| (*slot, address.0)).collect()
    }

    /// A page's entries, if they are in memory.
    pub(crate) fn entries(&self, slot: PageSlot) -> Option<Rc<[Relocation]>> {
        self.slots.get(slot)?.as_ref()?.entries.clone()
    }

    /// Where a page is on a drive; a hole when it was never written, or is gone.
    pub(crate) fn pointer(&self, slot: PageSlot) -> Pointer {
        self.slots.get(slot).and_then(Option::as_ref).map_or(Pointer::HOLE, |page| page.pointer)
    }

    /// Whether there is such a page.
    pub(crate) fn is_page(&self, slot: PageSlot) -> bool {
        self.slots.get(slot).is_some_and(Option::is_some)
    }

    /// Keeps a page as read from a drive, and drops the oldest beyond the limit.
    pub(crate) fn keep(&mut self, slot: PageSlot, entries: Vec<Relocation>) {
        let Some(page) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return };
        if page.entries.is_some() {
            return;
        }
        page.entries = Some(entries.into());
        self.loaded.push_back(slot);
        while self.loaded.len() > self.loaded_max {
            let Some(oldest) = self.loaded.pop_front() else { return };
            if let Some(page) = &mut self.slots[oldest]
                && !page.is_dirty
                && !self.unsettled.contains(&oldest)
            {
                page.entries = None;
            }
        }
    }

    /// Whether this many more entries of new segments still fit the format.
    pub(crate) fn has_room(&self, entries: usize, segments: usize) -> bool {
        let pages = self.by_address.len() + entries.div_ceil(RELOCATIONS_PER_PAGE) + segments;
        pages <= RELOCATION_DIRECTORIES_MAX * RELOCATION_PAGES_PER_DIRECTORY
    }

    /// The survivors of a segment that was just emptied, sorted.
    pub(crate) fn add_segment(&mut self, segment: SegmentId, entries: &[Relocation]) {
        self.epoch += 1;
        for part in entries.chunks(RELOCATIONS_PER_PAGE) {
            let slot = self.free.pop().unwrap_or_else(|| {
                self.slots.push(None);
                self.slots.len() - 1
            });
            let first_units = part[0].old_units;
            self.slots[slot] = Some(Page {
                pointer: Pointer::HOLE,
                segment,
                first_units,
                entries: Some(part.into()),
                is_dirty: true,
            });
            self.by_address.insert((segment, first_units), slot);
        }
    }

    /// New content of a page; without entries it goes.
    pub(crate) fn replace(&mut self, slot: PageSlot, entries: &[Relocation]) {
        self.epoch += 1;
        let page = self.slots[slot].as_mut().expect("only the cleaner drops pages");
        self.by_address.remove(&(page.segment, page.first_units));
        self.changed.insert(slot / RELOCATION_PAGES_PER_DIRECTORY);
        let Some(first) = entries.first() else {
            self.slots[slot] = None;
            self.free.push(slot);
            return;
        };
        page.first_units = first.old_units;
        page.entries = Some(entries.into());
        page.is_dirty = true;
        self.by_address.insert((page.segment, page.first_units), slot);
    }

    /// Has the loaded pages and the directories that lie in `segment` written anew, so that it empties.
    /// Returns pages that must be loaded first.
    pub(crate) fn rewrite_records_in(&mut self, segment: SegmentId) -> Vec<PageSlot> {
        let mut to_load = Vec::new();
        for (slot, page) in self.slots.iter_mut().enumerate() {
            let Some(page) = page else { continue };
            if page.pointer.is_page() && page.pointer.segment() == segment {
                page.is_dirty |= page.entries.is_some();
                if page.entries.is_none() {
                    to_load.push(slot);
                }
            }
        }
        for (index, pointer) in self.directories.iter().enumerate() {
            if pointer.is_page() && pointer.segment() == segment {
                self.changed.insert(index);
            }
        }
        self.is_root_stale |= self.root.is_page() && self.root.segment() == segment;
        to_load
    }

    /// Everything of this table that is on drives.
    pub(crate) fn all(&self) -> impl Iterator<Item = Pointer> {
        let pages = self.slots.iter().flatten().map(|page| page.pointer);
        pages.chain(self.directories.iter().copied()).chain([self.root]).filter(|pointer| pointer.is_page())
    }

    pub(crate) fn dirty_pages(&self) -> Vec<PageSlot> {
        let is_dirty = |slot: &PageSlot| self.slots[*slot].as_ref().is_some_and(|page| page.is_dirty);
        (0..self.slots.len()).filter(is_dirty).collect()
    }

    pub(crate) fn encode_page(&self, slot: PageSlot) -> Vec<u8> {
        let page = self.page(slot);
        relocation::encode_page(page.segment, page.entries.as_ref().expect("a dirty page is in memory"))
    }

    pub(crate) fn set_page(&mut self, slot: PageSlot, pointer: Pointer) {
        let page = self.slots[slot].as_mut().expect("only the cleaner drops pages");
        page.pointer = pointer;
        page.is_dirty = false;
        self.unsettled.insert(slot);
        self.changed.insert(slot / RELOCATION_PAGES_PER_DIRECTORY);
    }

    /// What got a place can be read there now.
    pub(crate) fn settle(&mut self) {
        self.loaded.extend(std::mem::take(&mut self.unsettled));
    }

    pub(crate) fn changed_directories(&self) -> Vec<usize> {
        self.changed.iter().copied().collect()
    }

    pub(crate) fn encode_directory(&self, index: usize) -> Vec<u8> {
        let first = index * RELOCATION_PAGES_PER_DIRECTORY;
        let pages = self.slots.iter().skip(first).take(RELOCATION_PAGES_PER_DIRECTORY);
        let entry = |page: &Option<Page>| match page {
            Some(Page { pointer, segment, first_units, .. }) => {
                RelocationPage { pointer: *pointer, segment: *segment, first_units: *first_units }
            }
            None => RelocationPage::NONE,
        };
        relocation::encode_directory(&pages.map(entry).collect::<Vec<_>>())
    }

    pub(crate) fn set_directory(&mut self, index: usize, pointer: Pointer) {
        if self.directories.len() <= index {
            self.directories.resize(index + 1, Pointer::HOLE);
        }
        self.directories[index] = pointer;
        self.changed.remove(&index);
        self.is_root_stale = true;
    }

    pub(crate) fn is_root_stale(&self) -> bool {
        self.is_root_stale
    }

    pub(crate) fn encode_root(&self) -> Vec<u8> {
        relocation::encode_root(&self.directories)
    }

    pub(crate) fn set_root(&mut self, pointer: Pointer) {
        self.root = pointer;
        self.is_root_stale = false;
    }

    pub(crate) fn root(&self) -> Pointer {
        self.root
    }

    fn page(&self, slot: PageSlot) -> &Page {
        self.slots[slot].as_ref().expect("only the cleaner drops pages")
    }
}

/// Who a record of the table is: pages have level 0, directories 1, the root 2.
pub(crate) fn identity(level: u8, index: usize) -> PageIdentity {
    PageIdentity { content: PageContent::Relocations, level, tree: RELOCATION_TREE, index: index as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(numbers: impl Iterator<Item = u32>) -> Vec<Relocation> {
        let entry = |old_units| Relocation {
            old_units,
            container: SegmentId(900),
            offset_bytes: u64::from(old_units) * 64 + 4096,
            length_bytes_max: 4352,
        };
        numbers.map(entry).collect()
    }

    fn pointer(segment: u32, units: u32) -> Pointer {
        Pointer::data(SegmentId(segment), u64::from(units) * 64, 4128)
    }

    #[test]
    fn an_address_is_found_in_the_page_that_covers_it() {
        let mut table = Relocations::new(1 << 20);
        let many = entries((0..1000).map(|number| number * 3));
        table.add_segment(SegmentId(5), &many);
        table.add_segment(SegmentId(7), &entries([12].into_iter()));
        for entry in &many {
            assert!(matches!(table.find(pointer(5, entry.old_units)), Found::Here(found) if found == *entry));
        }
        assert!(matches!(table.find(pointer(5, 1)), Found::Nowhere));
        assert!(matches!(table.find(pointer(6, 3)), Found::Nowhere));
        assert!(matches!(table.find(pointer(7, 11)), Found::Nowhere));
        assert!(matches!(table.find(pointer(7, 12)), Found::Here(_)));
        assert_eq!(table.pages().len(), 4);
    }

    #[test]
    fn what_was_written_is_loaded_again_and_what_is_emptied_goes() {
        let mut table = Relocations::new(1 << 20);
        let kept = entries([1, 2, 3].into_iter());
        table.add_segment(SegmentId(5), &kept);
        table.add_segment(SegmentId(6), &kept);
        let on_drive = |slot: usize| Pointer::page(SegmentId(40), 64 * slot as u64, 300);
        table.dirty_pages().into_iter().for_each(|slot| table.set_page(slot, on_drive(slot)));
        assert_eq!(table.changed_directories(), [0]);
        let directory = relocation::decode_directory(&table.encode_directory(0)).expect("just encoded");
        table.set_directory(0, on_drive(70));
        assert!(table.is_root_stale());

        let mut opened = Relocations::new(1 << 20);
        opened.load(on_drive(71), vec![on_drive(70)], &directory);
        let Found::Load(slot) = opened.find(pointer(6, 2)) else { panic!("nothing is loaded yet") };
        opened.keep(slot, kept.clone());
        assert!(matches!(opened.find(pointer(6, 2)), Found::Here(_)));
        opened.replace(slot, &kept[2..]);
        assert!(matches!(opened.find(pointer(6, 2)), Found::Nowhere));
        assert!(matches!(opened.find(pointer(6, 3)), Found::Here(_)));
        opened.replace(slot, &[]);
        assert!(matches!(opened.find(pointer(6, 3)), Found::Nowhere));
        assert_eq!(opened.pages().len(), 1);
    }
}
