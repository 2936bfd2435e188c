//! The notebook in memory: all notes by key, and which page each is in.
//!
//! Changed by [`apply`](crate::apply) alone; [`requests`] decides what may be put, [`load`] reads what a
//! checkpoint wrote. Pages are filled first fit, and a note never goes over two.
//!
//! Invariants:
//! 1. Every note is in one page, which lists it; a page's notes fit it.
//! 2. A page that is not what the last cut took, or what was loaded, is dirty.
//! 3. A new page is made only when no note fits in elsewhere of the emptiest page: then all are half full.
//!    So there are at most twice as many pages as the notes fill, whatever was put and deleted.

#[cfg(test)]
mod class_tests;
mod load;
mod requests;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use ashlar_format::note_kind::NoteKind;
use ashlar_format::notes::{NOTE_PAGE_BYTES, Note, NoteChange, NoteKey, decode_page, encode_page};
use ashlar_format::{Damage, DamageKind};
use ashlar_units::{Lsn, VolumeId};

pub(crate) use load::{load, read_pages, refuse_unknown};
pub(crate) use requests::NotesState;
pub use requests::{NoteBatch, NotesStatus};

/// A note and the page it is in.
struct Placed {
    page: usize,
    note: Note,
}

#[derive(Clone, Default)]
struct NotePage {
    keys: BTreeSet<NoteKey>,
    bytes: usize,
}

impl NotePage {
    fn has_room(&self, bytes: usize) -> bool {
        self.bytes + bytes <= NOTE_PAGE_BYTES
    }
}

/// All notes of a pool.
#[derive(Default)]
pub(crate) struct Notebook {
    notes: BTreeMap<NoteKey, Placed>,
    pages: Vec<NotePage>,
    dirty: BTreeSet<usize>,
    bytes_by_kind: BTreeMap<u16, usize>,
    bytes: usize,
    last_lsn: Lsn,
    limits_lsn: Lsn,
}

impl Notebook {
    pub(crate) fn get(&self, key: NoteKey) -> Option<&Note> {
        self.notes.get(&key).map(|placed| &placed.note)
    }

    /// The notes of a kind about these subjects, in order.
    pub(crate) fn range(
        &self,
        kind: u16,
        subjects: std::ops::RangeInclusive<u64>,
    ) -> impl DoubleEndedIterator<Item = &Note> {
        let first = NoteKey { kind, subject: *subjects.start(), part: 0 };
        let last = NoteKey { kind, subject: *subjects.end(), part: u16::MAX };
        self.notes.range(first..=last).map(|(_, placed)| &placed.note)
    }

    /// Bytes of all notes of a kind.
    pub(crate) fn bytes_of(&self, kind: u16) -> usize {
        self.bytes_by_kind.get(&kind).copied().unwrap_or(0)
    }

    /// Kinds that there are notes of, known or not, and their bytes.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (u16, usize)> {
        self.bytes_by_kind.iter().map(|(kind, bytes)| (*kind, *bytes))
    }

    /// Bytes of all notes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// The LSN of the last record with notes that was applied since the pool was opened.
    pub(crate) fn last_lsn(&self) -> Lsn {
        self.last_lsn
    }

    /// The same of the last record that changed a volume's limits: requests of hosts look at it.
    pub(crate) fn limits_lsn(&self) -> Lsn {
        self.limits_lsn
    }

    /// Applies the changes of a record, one after the other.
    pub(crate) fn apply(&mut self, lsn: Lsn, changes: &[NoteChange]) {
        for NoteChange { key, value } in changes {
            match value {
                Some((version, value)) => {
                    self.put(Note { key: *key, version: *version, lsn, value: value.clone() });
                }
                None => self.remove(*key),
            }
        }
        self.last_lsn = lsn;
        if changes.iter().any(|change| change.key.kind == NoteKind::Limit.code()) {
            self.limits_lsn = lsn;
        }
    }

    /// A volume or an image is gone: so is what is noted about it.
    pub(crate) fn drop_volume(&mut self, id: VolumeId) {
        for kind in NoteKind::all().map(NoteKind::code).filter(|code| NoteKind::is_about_volumes(*code)) {
            let gone: Vec<NoteKey> = self.range(kind, id.0..=id.0).map(|note| note.key).collect();
            gone.into_iter().for_each(|key| self.remove(key));
        }
    }

    fn put(&mut self, note: Note) {
        // The page it is in may have room for it again.
        self.remove(note.key);
        let page = self.page_for(note.stored_bytes());
        self.insert(page, note);
    }

    fn insert(&mut self, page: usize, note: Note) {
        let (key, bytes) = (note.key, note.stored_bytes());
        assert!(self.pages[page].has_room(bytes), "note {key:?} of {bytes} bytes does not fit page {page}");
        self.pages[page].keys.insert(key);
        self.pages[page].bytes += bytes;
        self.dirty.insert(page);
        self.bytes += bytes;
        *self.bytes_by_kind.entry(key.kind).or_default() += bytes;
        let before = self.notes.insert(key, Placed { page, note });
        assert!(before.is_none(), "note {key:?} is in two pages");
    }

    fn remove(&mut self, key: NoteKey) {
        let Some(Placed { page, note }) = self.notes.remove(&key) else { return };
        let bytes = note.stored_bytes();
        let is_listed = self.pages[page].keys.remove(&key);
        assert!(is_listed, "page {page} does not list note {key:?}");
        self.pages[page].bytes -= bytes;
        self.dirty.insert(page);
        self.bytes -= bytes;
        let of_kind = self.bytes_by_kind.get_mut(&key.kind).expect("a note's kind is counted");
        *of_kind -= bytes;
        if *of_kind == 0 {
            self.bytes_by_kind.remove(&key.kind);
        }
    }

    /// The first page with so much room.
    fn page_for(&mut self, bytes: usize) -> usize {
        let first = self.pages.iter().position(|page| page.has_room(bytes));
        first.or_else(|| self.empty_a_page()).unwrap_or_else(|| {
            self.pages.push(NotePage::default());
            self.pages.len() - 1
        })
    }

    /// Moves the notes of the emptiest page to others, if all of them fit there.
    fn empty_a_page(&mut self) -> Option<usize> {
        let (emptiest, _) = self.pages.iter().enumerate().min_by_key(|(_, page)| page.bytes)?;
        let mut bytes_used: Vec<usize> = self.pages.iter().map(|page| page.bytes).collect();
        bytes_used[emptiest] = NOTE_PAGE_BYTES;
        let mut moves = Vec::new();
        for key in &self.pages[emptiest].keys {
            let bytes = self.notes[key].note.stored_bytes();
            let page = bytes_used.iter().position(|used| used + bytes <= NOTE_PAGE_BYTES)?;
            bytes_used[page] += bytes;
            moves.push((*key, page));
        }
        for (key, page) in moves {
            let note = self.notes[&key].note.clone();
            self.remove(key);
            self.insert(page, note);
        }
        Some(emptiest)
    }

    /// Pages that changed since they were written.
    pub(crate) fn dirty_count(&self) -> usize {
        self.dirty.len()
    }

    /// Has pages written anew.
    pub(crate) fn mark_dirty(&mut self, pages: impl Iterator<Item = usize>) {
        self.dirty.extend(pages);
    }

    /// The changed pages as they are now.
    pub(crate) fn take_dirty_pages(&mut self) -> FrozenNotes {
        let pages = std::mem::take(&mut self.dirty);
        let pages = pages.into_iter().map(|page| (page, self.encode_page(page))).collect();
        FrozenNotes { pages, is_empty: self.is_empty() }
    }

    /// A page's bytes, if anything is in it.
    fn encode_page(&self, page: usize) -> Option<Vec<u8>> {
        let keys = &self.pages[page].keys;
        (!keys.is_empty()).then(|| encode_page(keys.iter().map(|key| &self.notes[key].note)))
    }

    /// Takes a page as read from a drive.
    fn load_page(&mut self, page: usize, bytes: &[u8]) -> Result<(), Damage> {
        if self.pages.len() <= page {
            self.pages.resize(page + 1, NotePage::default());
        }
        for note in decode_page(bytes)? {
            if self.notes.contains_key(&note.key) {
                return Err(Damage::new(DamageKind::Impossible, "note is in two pages"));
            }
            self.insert(page, note);
        }
        self.dirty.remove(&page);
        Ok(())
    }
}

/// The notebook's changed pages at a checkpoint's LSN.
pub(crate) struct FrozenNotes {
    /// Number and bytes; none of a page that is empty.
    pub(crate) pages: Vec<(usize, Option<Vec<u8>>)>,
    /// There are no notes at all.
    pub(crate) is_empty: bool,
}
