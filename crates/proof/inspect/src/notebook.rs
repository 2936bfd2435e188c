//! The notebook: from the pages of a checkpoint, then from the journal. What secrets say is told to nobody.

use std::collections::BTreeMap;

use ashlar_format::Pointer;
use ashlar_format::note_kind::{NoteKind, is_secret};
use ashlar_format::notes::{Note, NoteChange, NoteKey, decode_page};
use ashlar_format::page::{PAGE_BYTES, PageContent};
use ashlar_units::{Lsn, VolumeId};
use serde::Serialize;

use crate::catalogue::pointers_in;
use crate::media::Media;
use crate::pages::Expected;

/// Notes of one kind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NotesReport {
    /// What the kind is called, where it is known.
    pub name: Option<&'static str>,
    /// Its code.
    pub kind: u16,
    /// How many there are.
    pub notes: u64,
    /// Their bytes, headers included.
    pub bytes: u64,
    /// Whether what they say is told to nobody.
    pub is_secret: bool,
}

/// All notes that were found.
#[derive(Default)]
pub(crate) struct Notebook {
    pub(crate) notes: BTreeMap<NoteKey, Note>,
    /// Parts of it that cannot be had.
    pub(crate) damage: Vec<String>,
}

impl Notebook {
    pub(crate) fn load(media: &Media, root: Pointer) -> Notebook {
        let mut notebook = Notebook::default();
        if !root.is_page() {
            return notebook;
        }
        let directory = |level, index| Expected { content: PageContent::Directory, level, index };
        let directories = match media.read_table_page(root, directory(2, 0)) {
            Ok(bytes) => pointers_in(&bytes),
            Err(why) => {
                notebook.damage.push(format!("root of the notebook: {why}"));
                return notebook;
            }
        };
        for (index, pointer) in directories.into_iter().enumerate().filter(|(_, at)| at.is_page()) {
            match media.read_table_page(pointer, directory(1, index as u64)) {
                Ok(bytes) => notebook.load_pages(media, index * (PAGE_BYTES / 8), &pointers_in(&bytes)),
                Err(why) => notebook.damage.push(format!("directory {index} of the notebook: {why}")),
            }
        }
        notebook
    }

    fn load_pages(&mut self, media: &Media, first: usize, pages: &[Pointer]) {
        for (index, pointer) in pages.iter().enumerate().filter(|(_, at)| at.is_page()) {
            let page = first + index;
            let expected = Expected { content: PageContent::Notebook, level: 0, index: page as u64 };
            let read = media.read_table_page(*pointer, expected).map_err(|why| why.to_string());
            match read.and_then(|bytes| decode_page(&bytes).map_err(|damage| damage.to_string())) {
                Ok(notes) => notes.into_iter().for_each(|note| self.take(page, note)),
                Err(why) => self.damage.push(format!("page {page} of the notebook: {why}")),
            }
        }
    }

    fn take(&mut self, page: usize, note: Note) {
        let key = note.key;
        if self.notes.insert(key, note).is_some() {
            self.damage.push(format!("page {page} of the notebook: {key:?} is in another page, too"));
        }
    }

    /// Changes of a record: all, or none when one is about a volume that `is_gone`.
    pub(crate) fn apply(&mut self, lsn: Lsn, changes: &[NoteChange], is_gone: impl Fn(VolumeId) -> bool) {
        let is_orphan = |change: &NoteChange| {
            let NoteChange { key, value } = change;
            value.is_some() && NoteKind::is_about_volumes(key.kind) && is_gone(VolumeId(key.subject))
        };
        if changes.iter().any(is_orphan) {
            return;
        }
        for NoteChange { key, value } in changes {
            match value {
                Some((version, value)) => {
                    let note = Note { key: *key, version: *version, lsn, value: value.clone() };
                    self.notes.insert(*key, note);
                }
                None => drop(self.notes.remove(key)),
            }
        }
    }

    /// A volume or an image is deleted.
    pub(crate) fn drop_volume(&mut self, id: VolumeId) {
        self.notes.retain(|key, _| key.subject != id.0 || !NoteKind::is_about_volumes(key.kind));
    }

    pub(crate) fn report(&self) -> Vec<NotesReport> {
        let mut kinds: BTreeMap<u16, NotesReport> = BTreeMap::new();
        for note in self.notes.values() {
            let kind = note.key.kind;
            let name = NoteKind::from_code(kind).map(NoteKind::name);
            let empty = NotesReport { name, kind, notes: 0, bytes: 0, is_secret: is_secret(kind) };
            let report = kinds.entry(kind).or_insert(empty);
            report.notes += 1;
            report.bytes += note.stored_bytes() as u64;
        }
        kinds.into_values().collect()
    }
}
