//! Which segment lies where: the table of the last checkpoint, the frontier, and, where the table is
//! damaged, the headers of the segments themselves.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use ashlar_format::Pointer;
use ashlar_format::bytes::Reader;
use ashlar_format::page::{PAGE_BYTES, PageContent};
use ashlar_format::segment::{
    Place, SEGMENT_ENTRY_BYTES, SegmentEntry, SegmentHeader, SegmentKind, SegmentState,
};
use ashlar_units::{DriveIndex, SegmentId};

use crate::pages::{Expected, Stored, open_record};
use crate::storage::Storage;
use crate::why::Why;

const ENTRIES_PER_PAGE: usize = PAGE_BYTES / SEGMENT_ENTRY_BYTES;
/// Entries of a directory of the segment table: a pointer and a place.
const PAGES_PER_DIRECTORY: usize = PAGE_BYTES / 16;

/// The segments of a pool.
pub(crate) struct Segments {
    pub(crate) by_number: BTreeMap<SegmentId, SegmentEntry>,
    /// Free places.
    pub(crate) free: usize,
    /// Parts of the table that cannot be had.
    pub(crate) damage: Vec<String>,
    /// Segments that were opened since the table was written.
    pub(crate) from_frontier: Vec<SegmentId>,
    /// Places of the frontier that cannot be read: a segment may have been opened there, or not.
    pub(crate) frontier_unreadable: Vec<SegmentId>,
    /// Segments told by their headers alone.
    by_header: OnceCell<BTreeMap<SegmentId, Place>>,
    places: Vec<Place>,
    /// Places of damaged parts of the table of which drives that can be relied on do not tell what is there.
    unsure_places: usize,
}

#[derive(Clone, Copy)]
struct Located {
    pointer: Pointer,
    place: Place,
}

/// What a part of the table says of the next.
#[derive(Clone, Copy)]
enum Listed {
    At(Located),
    /// There was none when it was written.
    Nowhere,
    /// It cannot be had.
    Lost,
}

impl Segments {
    pub(crate) fn load(storage: &Storage) -> Segments {
        let places = storage.places();
        let mut segments = Segments {
            by_number: BTreeMap::new(),
            free: 0,
            damage: Vec::new(),
            from_frontier: Vec::new(),
            frontier_unreadable: Vec::new(),
            by_header: OnceCell::new(),
            places,
            unsure_places: 0,
        };
        segments.load_table(storage);
        if segments.unsure_places > 0 {
            let count = segments.unsure_places;
            segments
                .damage
                .push(format!("what {count} places hold now cannot be told: segments may be missing"));
        }
        segments.probe_frontier(storage);
        segments
    }

    /// Where a segment lies, by the table or its frontier.
    pub(crate) fn place_of(&self, segment: SegmentId) -> Option<Place> {
        self.by_number.get(&segment).map(|entry| entry.place)
    }

    /// Where a header says that a segment lies. The first call reads the first block of every place.
    pub(crate) fn place_by_header(&self, storage: &Storage, segment: SegmentId) -> Option<Place> {
        let by_header = self.by_header.get_or_init(|| {
            let headers = self.places.iter().filter_map(|place| storage.newest_header(*place).header);
            headers.map(|header| (header.segment, header.place)).collect()
        });
        by_header.get(&segment).copied()
    }

    /// Takes every segment whose header is there, also where the table says that the place is free: what
    /// an earlier checkpoint needs may still be there.
    pub(crate) fn take_all_headers(&mut self, storage: &Storage) {
        for place in self.places.clone() {
            let Some(header) = storage.newest_header(place).header else { continue };
            self.by_number.entry(header.segment).or_insert_with(|| entry_of(storage, &header));
        }
    }

    fn load_table(&mut self, storage: &Storage) {
        if !storage.superblock.segment_table.is_page() {
            // The pool was made, and never opened far enough to write one.
            self.free = storage.place_count();
            return;
        }
        let pages = self.places.len().div_ceil(ENTRIES_PER_PAGE);
        for (page, listed) in self.find_pages(storage, pages).into_iter().enumerate() {
            let read = match listed {
                Listed::At(located) => read_table(storage, located, PageContent::SegmentTable, 0, page),
                // The pool was smaller when the table was written.
                Listed::Nowhere => Ok(vec![0; PAGE_BYTES]),
                Listed::Lost => Err(Why::Nowhere),
            };
            let loaded = read.and_then(|bytes| self.take_page(storage, page, &bytes));
            if let Err(why) = loaded {
                self.damage.push(format!("page {page} of the segment table: {why}; told by segment headers"));
                self.take_headers(storage, page);
            }
        }
    }

    fn find_pages(&mut self, storage: &Storage, pages: usize) -> Vec<Listed> {
        let superblock = &storage.superblock;
        let mut found = vec![Listed::Lost; pages];
        let root = Located { pointer: superblock.segment_table, place: superblock.segment_table_place };
        let directories = match read_table(storage, root, PageContent::Directory, 2, 0) {
            Ok(bytes) => listed_in(&bytes),
            Err(why) => {
                self.damage.push(format!("root of the segment table: {why}"));
                return found;
            }
        };
        for (index, slots) in found.chunks_mut(PAGES_PER_DIRECTORY).enumerate() {
            let read = match directories.get(index).copied().unwrap_or(Listed::Lost) {
                Listed::At(located) => read_table(storage, located, PageContent::Directory, 1, index),
                Listed::Nowhere => {
                    slots.fill(Listed::Nowhere);
                    continue;
                }
                Listed::Lost => Err(Why::Nowhere),
            };
            match read {
                Ok(bytes) => {
                    slots.iter_mut().zip(listed_in(&bytes)).for_each(|(slot, listed)| *slot = listed);
                }
                Err(why) => self.damage.push(format!("directory {index} of the segment table: {why}")),
            }
        }
        found
    }

    fn take_page(&mut self, storage: &Storage, page: usize, bytes: &[u8]) -> Result<(), Why> {
        let mut reader = Reader::new(bytes);
        let first = page * ENTRIES_PER_PAGE;
        let places: Vec<Place> = self.places.iter().skip(first).take(ENTRIES_PER_PAGE).copied().collect();
        let mut entries = Vec::new();
        for (index, place) in places.into_iter().enumerate() {
            let bytes = reader.take(SEGMENT_ENTRY_BYTES).map_err(|_| Why::Damaged)?;
            if (page, index) != (0, 0) && bytes.iter().all(|byte| *byte == 0) {
                // The pool was smaller when the page was written.
                entries.push(SegmentEntry::free(place));
                continue;
            }
            let entry = SegmentEntry::decode(&mut Reader::new(bytes)).map_err(|_| Why::Damaged)?;
            if entry.place != place {
                return Err(Why::Damaged);
            }
            entries.push(entry);
        }
        for entry in entries {
            match entry.state {
                SegmentState::Free => self.free += usize::from(!storage.has_left(entry.place)),
                SegmentState::Open | SegmentState::Sealed => {
                    self.by_number.insert(entry.segment, entry);
                }
            }
        }
        Ok(())
    }

    fn take_headers(&mut self, storage: &Storage, page: usize) {
        let first = page * ENTRIES_PER_PAGE;
        let places: Vec<Place> = self.places.iter().skip(first).take(ENTRIES_PER_PAGE).copied().collect();
        for place in places {
            let newest = storage.newest_header(place);
            self.unsure_places += usize::from(!newest.is_sure);
            if let Some(header) = newest.header {
                self.by_number.insert(header.segment, entry_of(storage, &header));
            }
        }
    }

    fn probe_frontier(&mut self, storage: &Storage) {
        for listed in &storage.superblock.frontier {
            if self.by_number.contains_key(&listed.segment) {
                continue;
            }
            // What lies there otherwise says nothing: a former segment, or a first write that was cut off.
            match storage.read_header(listed.place, listed.segment) {
                Ok(header) => {
                    self.from_frontier.push(header.segment);
                    self.by_number.insert(header.segment, entry_of(storage, &header));
                }
                Err(Why::Damaged) => {}
                Err(_) => self.frontier_unreadable.push(listed.segment),
            }
        }
    }
}

/// What a header tells of its segment. How far it is written it does not tell: all of it may be.
fn entry_of(storage: &Storage, header: &SegmentHeader) -> SegmentEntry {
    let units = storage.segment_bytes() / ashlar_format::pointer::PLACE_UNIT_BYTES;
    SegmentEntry {
        segment: header.segment,
        state: SegmentState::Open,
        has_footer: false,
        kind: header.kind,
        protection: storage.superblock.protection,
        heat: 0,
        place: header.place,
        birth: if header.kind == SegmentKind::Journal { header.first_group } else { 0 },
        used_units: units as u32,
        live_units: 0,
    }
}

fn read_table(
    storage: &Storage,
    at: Located,
    content: PageContent,
    level: u8,
    index: usize,
) -> Result<Vec<u8>, Why> {
    let expected = Expected { content, level, index: index as u64 };
    let start = at.pointer.offset_bytes();
    let range = start..start + at.pointer.length_bytes_max();
    let read = storage.read_proven(at.place, at.pointer.segment(), range, |bytes| {
        match open_record(storage.key(), at.pointer, expected, bytes) {
            Ok((Stored::Full(page), length)) => Some((page, length)),
            Ok((Stored::Delta(..), _)) | Err(_) => None,
        }
    });
    let (page, length) = read?;
    storage.note_use(at.place, start..start + length);
    Ok(page)
}

fn listed_in(bytes: &[u8]) -> Vec<Listed> {
    let mut reader = Reader::new(bytes);
    let mut next = || {
        let pointer = Pointer(reader.u64().ok()?);
        let drive = DriveIndex(reader.u16().ok()?);
        reader.u16().ok()?;
        let place = Place { drive, cell: reader.u32().ok()? };
        Some(Located { pointer, place })
    };
    let is_there = |located: &Located| located.pointer.is_page() && located.pointer.as_in_memory().is_none();
    (0..PAGES_PER_DIRECTORY).map(|_| next().filter(is_there).map_or(Listed::Nowhere, Listed::At)).collect()
}
