//! What pointers name, wherever it is now: in its own segment, or moved by the cleaner.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use ashlar_format::Pointer;
use ashlar_format::chunk::ChunkHeader;
use ashlar_format::page::{PAGE_POINTERS, PageContent, pointers_from_bytes};
use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_format::relocation::{self, Relocation, RelocationPage};
use ashlar_format::segment::Place;
use ashlar_units::SegmentId;

use crate::pages::{Expected, Stored, open_chunk, open_record};
use crate::segments::Segments;
use crate::storage::Storage;
use crate::why::Why;

/// Pages of the relocation table kept in memory. Arbitrary: 5 MiB.
const RELOCATION_PAGES_KEPT: usize = 1024;

/// A map page.
pub(crate) type Page = Box<[Pointer; PAGE_POINTERS]>;

/// The drives of a pool, by pointer.
pub(crate) struct Media {
    pub(crate) storage: Storage,
    pub(crate) segments: Segments,
    /// Pages of the relocation table, by the first address they speak of.
    relocations: BTreeMap<(SegmentId, u32), Pointer>,
    /// Parts of the relocation table that cannot be had.
    pub(crate) damage: Vec<String>,
    kept: RefCell<BTreeMap<Pointer, Rc<Vec<Relocation>>>>,
}

/// A place to look at, and what its segment is called there.
struct Location {
    place: Place,
    segment: SegmentId,
    offset_bytes: u64,
    length_bytes_max: u64,
}

impl Media {
    pub(crate) fn open(storage: Storage) -> Media {
        let segments = Segments::load(&storage);
        let mut media = Media {
            storage,
            segments,
            relocations: BTreeMap::new(),
            damage: Vec::new(),
            kept: RefCell::default(),
        };
        media.load_relocations();
        media
    }

    /// Pages of the relocation table.
    pub(crate) fn relocation_pages(&self) -> usize {
        self.relocations.len()
    }

    /// Where the pages of the relocation table are.
    pub(crate) fn relocation_pointers(&self) -> Vec<Pointer> {
        self.relocations.values().copied().collect()
    }

    /// Reads a relocation page anew, to verify it.
    pub(crate) fn verify_relocations(&self, pointer: Pointer) -> Result<usize, Why> {
        Ok(self.relocated_from(pointer)?.len())
    }

    fn load_relocations(&mut self) {
        let root = self.storage.superblock.relocation_table;
        if !root.is_page() {
            return;
        }
        let content = PageContent::Relocations;
        let read = self.read_table_page(root, Expected { content, level: 2, index: 0 });
        let decoded = read.and_then(|bytes| relocation::decode_root(&bytes).map_err(|_| Why::Damaged));
        let directories = match decoded {
            Ok(directories) => directories,
            Err(why) => return self.damage.push(format!("root of the relocation table: {why}")),
        };
        for (index, pointer) in directories.into_iter().enumerate() {
            let read = self.read_table_page(pointer, Expected { content, level: 1, index: index as u64 });
            match read.and_then(|bytes| relocation::decode_directory(&bytes).map_err(|_| Why::Damaged)) {
                Ok(pages) => self.relocations.extend(pages.iter().filter(|page| page.pointer.is_page()).map(
                    |RelocationPage { pointer, segment, first_units }| ((*segment, *first_units), *pointer),
                )),
                Err(why) => self.damage.push(format!("directory {index} of the relocation table: {why}")),
            }
        }
    }

    /// Records of tables are rewritten, never moved: reading one asks no other.
    pub(crate) fn read_table_page(&self, pointer: Pointer, expected: Expected) -> Result<Vec<u8>, Why> {
        if !pointer.is_page() || pointer.as_in_memory().is_some() {
            return Err(Why::Nowhere);
        }
        let location = self.own(pointer).ok_or(Why::Nowhere)?;
        self.read_at(&location, |bytes| full(open_record(self.storage.key(), pointer, expected, bytes).ok()?))
    }

    /// Reads and verifies a map page: its record, and the one that it is a difference from.
    pub(crate) fn read_map_page(&self, pointer: Pointer, level: u8, index: u64) -> Result<Page, Why> {
        let expected = Expected { content: PageContent::Map, level, index };
        let (base, overrides) = match self.read_record(pointer, expected)? {
            Stored::Full(bytes) => return pointers_of(&bytes, level),
            Stored::Delta(base, overrides) => (base, overrides),
        };
        let Stored::Full(bytes) = self.read_record(base, expected)? else { return Err(Why::Damaged) };
        let mut page = pointers_of(&bytes, level)?;
        for change in overrides {
            page[usize::from(change.slot)] = change.pointer;
        }
        check_kinds(&page, level)?;
        Ok(page)
    }

    fn read_record(&self, pointer: Pointer, expected: Expected) -> Result<Stored, Why> {
        self.read_target(pointer, |bytes| open_record(self.storage.key(), pointer, expected, bytes).ok())
    }

    /// Reads, verifies and decodes the chunk that a pointer names.
    pub(crate) fn read_chunk(&self, pointer: Pointer) -> Result<(ChunkHeader, Vec<u8>), Why> {
        self.read_target(pointer, |bytes| {
            let (header, decoded) = open_chunk(self.storage.key(), pointer, bytes).ok()?;
            Some(((header, decoded), header.total_bytes()))
        })
    }

    /// Reads what a pointer names in each place where it may be until `prove` takes it, and tells its length.
    fn read_target<T>(
        &self,
        pointer: Pointer,
        mut prove: impl FnMut(&[u8]) -> Option<(T, u64)>,
    ) -> Result<T, Why> {
        let mut why = Why::Nowhere;
        if let Some(location) = self.own(pointer) {
            match self.read_at(&location, &mut prove) {
                Ok(proven) => return Ok(proven),
                Err(error) => why = error,
            }
        }
        match self.relocated(pointer) {
            Ok(Some(location)) => match self.read_at(&location, &mut prove) {
                Ok(proven) => return Ok(proven),
                Err(error) => why = error,
            },
            Ok(None) => {}
            Err(error) => why = error,
        }
        if self.segments.place_of(pointer.segment()).is_some() {
            return Err(why);
        }
        // A place that was freed and not used again still holds what it held: nothing is written twice.
        let place = self.segments.place_by_header(&self.storage, pointer.segment()).ok_or(why)?;
        self.read_at(&at_birth(pointer, place), prove).map_err(|_| why)
    }

    fn read_at<T>(&self, at: &Location, prove: impl FnMut(&[u8]) -> Option<(T, u64)>) -> Result<T, Why> {
        let range = at.offset_bytes..at.offset_bytes + at.length_bytes_max;
        let (proven, length) = self.storage.read_proven(at.place, at.segment, range, prove)?;
        self.storage.note_use(at.place, at.offset_bytes..at.offset_bytes + length);
        Ok(proven)
    }

    fn own(&self, pointer: Pointer) -> Option<Location> {
        self.segments.place_of(pointer.segment()).map(|place| at_birth(pointer, place))
    }

    fn relocated(&self, pointer: Pointer) -> Result<Option<Location>, Why> {
        let units = (pointer.offset_bytes() / PLACE_UNIT_BYTES) as u32;
        let address = (pointer.segment(), units);
        let Some((of, page)) = self.relocations.range(..=address).next_back() else { return Ok(None) };
        if of.0 != pointer.segment() {
            return Ok(None);
        }
        let entries = self.relocated_from(*page)?;
        let Ok(at) = entries.binary_search_by_key(&units, |entry| entry.old_units) else { return Ok(None) };
        let moved = entries[at];
        let place = self
            .segments
            .place_of(moved.container)
            .or_else(|| self.segments.place_by_header(&self.storage, moved.container));
        Ok(place.map(|place| Location {
            place,
            segment: moved.container,
            offset_bytes: moved.offset_bytes,
            length_bytes_max: moved.length_bytes_max,
        }))
    }

    fn relocated_from(&self, page: Pointer) -> Result<Rc<Vec<Relocation>>, Why> {
        if let Some(entries) = self.kept.borrow().get(&page) {
            return Ok(entries.clone());
        }
        let location = self.own(page).ok_or(Why::Nowhere)?;
        let entries = self.read_at(&location, |bytes| {
            let (header, _) = ashlar_format::page::PageHeader::open(self.storage.key(), page, bytes).ok()?;
            let index = header.identity.index;
            let expected = Expected { content: PageContent::Relocations, level: 0, index };
            let (page, length) = full(open_record(self.storage.key(), page, expected, bytes).ok()?)?;
            Some((relocation::decode_page(&page).ok()?.1, length))
        })?;
        let entries = Rc::new(entries);
        let mut kept = self.kept.borrow_mut();
        if kept.len() >= RELOCATION_PAGES_KEPT {
            kept.clear();
        }
        kept.insert(page, entries.clone());
        Ok(entries)
    }
}

fn at_birth(pointer: Pointer, place: Place) -> Location {
    Location {
        place,
        segment: pointer.segment(),
        offset_bytes: pointer.offset_bytes(),
        length_bytes_max: pointer.length_bytes_max(),
    }
}

fn full((stored, length): (Stored, u64)) -> Option<(Vec<u8>, u64)> {
    match stored {
        Stored::Full(page) => Some((page, length)),
        Stored::Delta(..) => None,
    }
}

fn pointers_of(bytes: &[u8], level: u8) -> Result<Page, Why> {
    let page = pointers_from_bytes(bytes).map_err(|_| Why::Damaged)?;
    check_kinds(&page, level)?;
    Ok(page)
}

/// Leaves hold data, inner pages hold pages: nothing else can be followed.
fn check_kinds(page: &Page, level: u8) -> Result<(), Why> {
    let is_good = |pointer: &Pointer| if level == 0 { !pointer.is_page() } else { !pointer.is_data() };
    if page.iter().all(is_good) { Ok(()) } else { Err(Why::Damaged) }
}
