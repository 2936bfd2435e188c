//! The segment table in memory: one entry for each cell, found by segment number.

use std::collections::VecDeque;
use std::ops::Range;

use ashlar_format::bytes::{Reader, Writer};
use ashlar_format::segment::{
    Place, Protection, SEGMENT_ENTRY_BYTES, SegmentEntry, SegmentKind, SegmentState,
};
use ashlar_format::{Damage, DamageKind};
use ashlar_units::{DriveIndex, Fault, SegmentId, planted};
use rustc_hash::FxHashMap;

use crate::frontier::SEGMENT_NUMBERS_END;

/// Entries of one table page.
const ENTRIES_PER_PAGE: usize = 4096 / SEGMENT_ENTRY_BYTES;

/// `used_units` of a free place that held a segment before: it needs no preparing.
const WRITTEN_BEFORE: u32 = 1;

/// The segment table.
pub struct SegmentTable {
    /// How segments of the pool are protected.
    protection: Protection,
    entries: Vec<SegmentEntry>,
    /// First entry of each drive.
    drive_starts: Vec<usize>,
    by_segment: FxHashMap<SegmentId, usize>,
    /// Free places, for each drive.
    free: Vec<VecDeque<u32>>,
    /// Drives that get no segment any more: their free places are kept, and not given out.
    is_closed: Vec<bool>,
    /// Free places that may be opened.
    free_count: usize,
    /// Places, free or not, of drives that are not closed.
    open_count: usize,
    /// Freed in memory, as they were: their places are reusable only after the superblock that says so.
    freed: Vec<SegmentEntry>,
    /// Freed ones whose table page is being written: the next superblock releases them.
    freed_published: Vec<SegmentEntry>,
    is_page_dirty: Vec<bool>,
}

impl SegmentTable {
    /// A table of free cells.
    #[must_use]
    pub fn new(cells_per_drive: &[u32]) -> SegmentTable {
        let mut entries = Vec::new();
        let mut drive_starts = Vec::new();
        for (drive, cells) in cells_per_drive.iter().enumerate() {
            drive_starts.push(entries.len());
            for cell in 0..*cells {
                entries.push(SegmentEntry::free(Place { drive: DriveIndex(drive as u16), cell }));
            }
        }
        let pages = entries.len().div_ceil(ENTRIES_PER_PAGE);
        let mut table = SegmentTable {
            protection: Protection::None,
            entries,
            drive_starts,
            by_segment: FxHashMap::default(),
            free: vec![VecDeque::new(); cells_per_drive.len()],
            is_closed: vec![false; cells_per_drive.len()],
            free_count: 0,
            open_count: 0,
            freed: Vec::new(),
            freed_published: Vec::new(),
            is_page_dirty: vec![true; pages],
        };
        table.rebuild();
        table
    }

    /// A table of free rows.
    #[must_use]
    pub(crate) fn of_rows(rows: u32, protection: Protection) -> SegmentTable {
        let mut table = SegmentTable::new(&[rows]);
        table.protection = protection;
        table
    }

    /// The cells of another drive, free.
    pub(crate) fn add_drive(&mut self, cells: u32) {
        let drive = self.drive_starts.len();
        self.drive_starts.push(self.entries.len());
        self.free.push(VecDeque::new());
        self.is_closed.push(false);
        self.append(DriveIndex(drive as u16), 0..cells);
    }

    /// More free rows, so that there are this many.
    pub(crate) fn grow_rows(&mut self, rows: u32) {
        let before = self.entries.len() as u32;
        self.append(DriveIndex(0), before..rows);
    }

    fn append(&mut self, drive: DriveIndex, cells: Range<u32>) {
        if let Some(last) = self.is_page_dirty.last_mut() {
            *last = true;
        }
        self.open_count += cells.len();
        for cell in cells {
            let place = Place { drive, cell };
            self.entries.push(SegmentEntry::free(place));
            self.put_free(place);
        }
        self.is_page_dirty.resize(self.entries.len().div_ceil(ENTRIES_PER_PAGE), true);
    }

    fn rebuild(&mut self) {
        self.by_segment.clear();
        self.free.iter_mut().for_each(VecDeque::clear);
        (self.free_count, self.open_count) = (0, 0);
        for (index, entry) in self.entries.iter().enumerate() {
            let drive = usize::from(entry.place.drive.0);
            self.open_count += usize::from(!self.is_closed[drive]);
            match entry.state {
                SegmentState::Free => {
                    self.free[drive].push_back(entry.place.cell);
                    self.free_count += usize::from(!self.is_closed[drive]);
                }
                SegmentState::Open | SegmentState::Sealed => {
                    self.by_segment.insert(entry.segment, index);
                }
            }
        }
    }

    /// No place of this drive is given out any more.
    pub(crate) fn close_drive(&mut self, drive: usize) {
        if !std::mem::replace(&mut self.is_closed[drive], true) {
            self.free_count -= self.free[drive].len();
            self.open_count -= self.cells_on(drive).len();
        }
    }

    /// The free places of this drive are given out again.
    pub(crate) fn reopen_drive(&mut self, drive: usize) {
        if std::mem::replace(&mut self.is_closed[drive], false) {
            self.free_count += self.free[drive].len();
            self.open_count += self.cells_on(drive).len();
        }
    }

    /// Whether a place is on a drive that gets no segment any more.
    pub(crate) fn is_closed(&self, place: Place) -> bool {
        self.is_closed.get(usize::from(place.drive.0)).is_some_and(|is_closed| *is_closed)
    }

    /// Whether a drive has places: one that is joining has none yet.
    pub(crate) fn has_drive(&self, drive: usize) -> bool {
        drive < self.drive_starts.len()
    }

    /// Entries of a drive.
    fn cells_on(&self, drive: usize) -> Range<usize> {
        let end = self.drive_starts.get(drive + 1).copied().unwrap_or(self.entries.len());
        self.drive_starts[drive]..end
    }

    /// The entries of a drive's places.
    pub(crate) fn entries_on(&self, drive: usize) -> &[SegmentEntry] {
        &self.entries[self.cells_on(drive)]
    }

    /// Places of a drive that hold a segment, are set aside for one, or whose being free is not durable yet.
    pub(crate) fn taken_on(&self, drive: usize) -> usize {
        self.cells_on(drive).len() - self.free[drive].len()
    }

    /// Free places of drives that get no segment any more.
    pub(crate) fn closed_free_count(&self) -> usize {
        let closed = self.free.iter().zip(&self.is_closed).filter(|(_, is_closed)| **is_closed);
        closed.map(|(free, _)| free.len()).sum()
    }

    /// Places, free or not, that hosts can count on: those of drives that are leaving or gone are not.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.open_count
    }

    /// True for places that the pool has.
    #[must_use]
    pub fn has_place(&self, place: Place) -> bool {
        self.index(place).is_some()
    }

    fn index(&self, place: Place) -> Option<usize> {
        let drive = usize::from(place.drive.0);
        let cells = self.has_drive(drive).then(|| self.cells_on(drive))?;
        let index = cells.start + place.cell as usize;
        (index < cells.end).then_some(index)
    }

    /// Table pages.
    #[must_use]
    pub fn page_count(&self) -> usize {
        self.is_page_dirty.len()
    }

    /// True when the page changed since it was last encoded.
    #[must_use]
    pub fn is_page_dirty(&self, page: usize) -> bool {
        self.is_page_dirty[page]
    }

    /// A page's bytes as of now; the page counts as clean from here on.
    pub fn encode_page(&mut self, page: usize) -> Vec<u8> {
        self.is_page_dirty[page] = false;
        let mut writer = Writer::new();
        let first = page * ENTRIES_PER_PAGE;
        for entry in self.entries.iter().skip(first).take(ENTRIES_PER_PAGE) {
            entry.encode(&mut writer);
        }
        writer.pad_to(4096);
        writer.into_bytes()
    }

    /// Takes a page as read from a drive. Call [`SegmentTable::finish_loading`] after the last.
    pub fn load_page(&mut self, page: usize, bytes: &[u8]) -> Result<(), Damage> {
        let first = page * ENTRIES_PER_PAGE;
        for (at, index) in (first..(first + ENTRIES_PER_PAGE).min(self.entries.len())).enumerate() {
            let bytes =
                bytes.get(at * SEGMENT_ENTRY_BYTES..(at + 1) * SEGMENT_ENTRY_BYTES).unwrap_or_default();
            if index > 0 && bytes.iter().all(|byte| *byte == 0) {
                // The pool was smaller when the page was written.
                continue;
            }
            let mut entry = SegmentEntry::decode(&mut Reader::new(bytes))?;
            // The place follows from the index; a page that disagrees is of another geometry.
            if entry.place != self.entries[index].place {
                return Err(Damage::new(DamageKind::Impossible, "segment entry of another place"));
            }
            if entry.state != SegmentState::Free && entry.segment.0 >= SEGMENT_NUMBERS_END {
                return Err(Damage::new(DamageKind::Impossible, "segment number that no pointer holds"));
            }
            if entry.state == SegmentState::Free {
                let used_units = entry.used_units;
                entry = SegmentEntry { used_units, ..SegmentEntry::free(entry.place) };
            }
            self.entries[index] = entry;
        }
        self.is_page_dirty[page] = false;
        Ok(())
    }

    /// After the last `load_page`. Damage when two entries have one number: who asks for a segment would be
    /// given either.
    pub fn finish_loading(&mut self) -> Result<(), Damage> {
        self.rebuild();
        let used = self.entries.iter().filter(|entry| entry.state != SegmentState::Free).count();
        if used != self.by_segment.len() {
            return Err(Damage::new(DamageKind::Impossible, "two segments with one number"));
        }
        Ok(())
    }

    /// The entry of a segment.
    #[must_use]
    pub fn find(&self, segment: SegmentId) -> Option<&SegmentEntry> {
        self.by_segment.get(&segment).map(|index| &self.entries[*index])
    }

    /// All entries, by place.
    #[must_use]
    pub fn entries(&self) -> &[SegmentEntry] {
        &self.entries
    }

    /// Free cells that may be opened, the ones the frontier has set aside not counted.
    #[must_use]
    pub fn free_count(&self) -> usize {
        self.free_count
    }

    /// Those of them on a drive.
    pub(crate) fn free_on(&self, drive: usize) -> usize {
        if self.is_closed[drive] { 0 } else { self.free[drive].len() }
    }

    /// Cells freed since the last superblock.
    #[must_use]
    pub fn freed_count(&self) -> usize {
        self.freed.len() + self.freed_published.len()
    }

    fn touch(&mut self, index: usize) -> &mut SegmentEntry {
        self.is_page_dirty[index / ENTRIES_PER_PAGE] = true;
        &mut self.entries[index]
    }

    /// Takes a free place off the drive with the largest share of free cells, so that chunks spread
    /// over the drives in proportion to their size.
    pub(crate) fn take_free(&mut self) -> Option<Place> {
        let open = (0..self.free.len()).filter(|drive| !self.is_closed[*drive]);
        let drive = open.max_by_key(|drive| (self.free[*drive].len(), usize::MAX - drive))?;
        let cell = self.free[drive].pop_front()?;
        self.free_count -= 1;
        Some(Place { drive: DriveIndex(drive as u16), cell })
    }

    /// Takes this place, if it is free.
    pub(crate) fn take_place(&mut self, place: Place) -> bool {
        let Some(cells) = self.free.get_mut(usize::from(place.drive.0)) else { return false };
        let Some(at) = cells.iter().position(|cell| *cell == place.cell) else { return false };
        cells.remove(at);
        self.free_count -= usize::from(!self.is_closed(place));
        true
    }

    /// Gives a taken place back unopened.
    pub(crate) fn put_free(&mut self, place: Place) {
        self.free[usize::from(place.drive.0)].push_back(place.cell);
        self.free_count += usize::from(!self.is_closed(place));
    }

    /// True when nothing was ever written to a place.
    pub(crate) fn is_pristine(&self, place: Place) -> bool {
        self.index(place).is_some_and(|index| self.entries[index].used_units == 0)
    }

    /// A taken place becomes an open segment.
    pub(crate) fn set_open(&mut self, segment: SegmentId, place: Place, kind: SegmentKind, birth: u64) {
        let index = self.index(place).expect("the frontier only holds places of this pool");
        let protection = self.protection;
        let entry = self.touch(index);
        assert_eq!(entry.state, SegmentState::Free, "place {place:?} opened twice");
        *entry = SegmentEntry {
            segment,
            state: SegmentState::Open,
            kind,
            protection,
            birth,
            ..SegmentEntry::free(place)
        };
        let before = self.by_segment.insert(segment, index);
        assert!(before.is_none(), "segment number {segment} given out twice");
    }

    /// Has a table page written anew.
    pub fn touch_page(&mut self, page: usize) {
        self.is_page_dirty[page] = true;
    }

    /// How far a segment is written.
    pub fn set_used(&mut self, segment: SegmentId, used_bytes: u64) {
        if let Some(index) = self.by_segment.get(&segment).copied() {
            self.touch(index).used_units = (used_bytes / 64) as u32;
        }
    }

    /// Nothing more is written to a segment, whose last write was its footer.
    pub fn seal_with_footer(&mut self, segment: SegmentId) {
        self.seal(segment);
        if let Some(index) = self.by_segment.get(&segment).copied() {
            self.touch(index).has_footer = true;
        }
    }

    /// Nothing more is written to a segment.
    pub fn seal(&mut self, segment: SegmentId) {
        if let Some(index) = self.by_segment.get(&segment).copied() {
            self.touch(index).state = SegmentState::Sealed;
        }
    }

    /// Live bytes by the last mark.
    pub fn set_live(&mut self, segment: SegmentId, live_bytes: u64) {
        if let Some(index) = self.by_segment.get(&segment).copied() {
            let units = live_bytes.div_ceil(64).min(u64::from(u32::MAX)) as u32;
            if self.entries[index].live_units != units {
                self.touch(index).live_units = units;
            }
        }
    }

    /// A sealed segment with no live data goes. Its place is reusable after the next published table.
    pub fn free(&mut self, segment: SegmentId) {
        let Some(index) = self.by_segment.get(&segment).copied() else { return };
        assert_eq!(self.entries[index].state, SegmentState::Sealed, "segment {segment} freed while open");
        self.by_segment.remove(&segment);
        let freed = self.entries[index];
        *self.touch(index) = SegmentEntry { used_units: WRITTEN_BEFORE, ..SegmentEntry::free(freed.place) };
        self.freed.push(freed);
    }

    /// An open segment that no table on a drive knows goes as if it had never been opened: nothing refers to
    /// it, and the superblock that gives its place another number is durable before anybody opens that.
    pub(crate) fn abandon(&mut self, segment: SegmentId) {
        let index = self.by_segment.remove(&segment).expect("only what was just adopted is abandoned");
        assert_eq!(self.entries[index].state, SegmentState::Open, "segment {segment} is known to a table");
        let place = self.entries[index].place;
        *self.touch(index) = SegmentEntry { used_units: WRITTEN_BEFORE, ..SegmentEntry::free(place) };
        self.put_free(place);
    }

    /// The segment at a place.
    pub(crate) fn at(&self, place: Place) -> Option<SegmentId> {
        let entry = &self.entries[self.index(place)?];
        (entry.state != SegmentState::Free).then_some(entry.segment)
    }

    /// The table is being encoded: what is freed by now is published by the next superblock.
    pub fn publish_freed(&mut self) {
        self.freed_published.append(&mut self.freed);
    }

    /// The superblock that published them is durable: the caller trims them and puts them back.
    pub(crate) fn release_freed(&mut self) -> Vec<Place> {
        std::mem::take(&mut self.freed_published).into_iter().map(|entry| entry.place).collect()
    }

    /// The segments that are in use by the table on the drives, and may be again after a crash: those of this
    /// table, and those freed since.
    pub(crate) fn durable(&self) -> impl Iterator<Item = &SegmentEntry> {
        self.entries.iter().filter(|entry| entry.state != SegmentState::Free).chain(self.unpublished())
    }

    fn unpublished(&self) -> impl Iterator<Item = &SegmentEntry> {
        let freed = self.freed.iter().chain(&self.freed_published);
        freed.filter(|_| !planted(Fault::FreedNotRebuilt))
    }

    /// One of them.
    pub(crate) fn find_durable(&self, segment: SegmentId) -> Option<&SegmentEntry> {
        self.find(segment).or_else(|| self.unpublished().find(|entry| entry.segment == segment))
    }
}
