//! First fit against a map: whatever is put and deleted, the pages hold it, and are few.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use ashlar_format::note_kind::NoteKind;
use ashlar_format::notes::{NOTE_HEADER_BYTES, NOTE_PAGE_BYTES, NOTE_VALUE_BYTES_MAX, NoteChange, NoteKey};
use ashlar_units::{Lsn, VolumeId};

use super::Notebook;

/// A small generator: the runtime's needs a simulation.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

type Model = BTreeMap<NoteKey, (u16, Lsn, Vec<u8>)>;

fn draw_change(draw: &mut Draw, bytes_max: u64, deletes_in_ten: u64) -> NoteChange {
    // Some kinds that nobody knows, one of them secret.
    let kinds = [NoteKind::Label.code(), NoteKind::Schedule.code(), 0x0fff, 0x2ffe];
    let key =
        NoteKey { kind: kinds[draw.below(4) as usize], subject: draw.below(40), part: draw.below(4) as u16 };
    let length = draw.below(bytes_max + 1) as usize;
    let version = draw.below(3) as u16;
    let is_delete = draw.below(10) < deletes_in_ten;
    NoteChange { key, value: (!is_delete).then(|| (version, vec![length as u8; length])) }
}

/// Invariants 1 and 3.
fn check_pages(notebook: &Notebook, model: &Model) {
    let listed: usize = notebook.pages.iter().map(|page| page.keys.len()).sum();
    assert_eq!((listed, notebook.notes.len()), (model.len(), model.len()));
    let mut bytes = 0;
    for (number, page) in notebook.pages.iter().enumerate() {
        let of_page: usize = page.keys.iter().map(|key| notebook.notes[key].note.stored_bytes()).sum();
        assert!(page.keys.iter().all(|key| notebook.notes[key].page == number));
        assert!(of_page == page.bytes && of_page <= NOTE_PAGE_BYTES, "page {number}: {of_page} bytes");
        bytes += of_page;
    }
    assert_eq!(notebook.bytes(), bytes);
    assert_eq!(notebook.kinds().map(|(_, bytes)| bytes).sum::<usize>(), bytes);
}

fn check_content(notebook: &Notebook, model: &Model) {
    for (key, (version, lsn, value)) in model {
        let note = notebook.get(*key).unwrap();
        assert_eq!((note.version, note.lsn, &note.value), (*version, *lsn, value), "{key:?}");
    }
}

/// What a checkpoint would have on drives, kept across cuts.
fn write(notebook: &mut Notebook, on_drives: &mut BTreeMap<usize, Vec<u8>>) {
    let frozen = notebook.take_dirty_pages();
    if frozen.is_empty {
        on_drives.clear();
        return;
    }
    for (page, bytes) in frozen.pages {
        match bytes {
            Some(bytes) => drop(on_drives.insert(page, bytes)),
            None => drop(on_drives.remove(&page)),
        }
    }
}

fn read(on_drives: &BTreeMap<usize, Vec<u8>>) -> Notebook {
    let mut notebook = Notebook::default();
    on_drives.iter().for_each(|(page, bytes)| notebook.load_page(*page, bytes).unwrap());
    assert_eq!(notebook.dirty_count(), 0);
    notebook
}

#[test]
fn pages_hold_what_a_map_holds() {
    for seed in 0..40 {
        let mut draw = Draw(seed);
        let (mut notebook, mut model) = (Notebook::default(), Model::new());
        let mut on_drives = BTreeMap::new();
        let mut pages_most = 0;
        for lsn in 1..600 {
            // Times of growth and times of decline, of small notes and of long ones.
            let bytes_max = [60, 900, NOTE_VALUE_BYTES_MAX as u64][lsn as usize / 50 % 3];
            let deletes = [1, 1, 9][lsn as usize / 150 % 3];
            let changes: Vec<_> =
                (0..=draw.below(6)).map(|_| draw_change(&mut draw, bytes_max, deletes)).collect();
            for NoteChange { key, value } in changes.clone() {
                match value {
                    Some((version, value)) => drop(model.insert(key, (version, Lsn(lsn), value))),
                    None => drop(model.remove(&key)),
                }
            }
            notebook.apply(Lsn(lsn), &changes);
            if draw.below(30) == 0 {
                let id = draw.below(40);
                notebook.drop_volume(VolumeId(id));
                model.retain(|key, _| (key.kind, key.subject) != (NoteKind::Label.code(), id));
            }
            check_pages(&notebook, &model);
            let bytes_most = notebook.bytes();
            let filled: usize = bytes_most.div_ceil(NOTE_PAGE_BYTES);
            pages_most = pages_most.max(2 * filled + 1);
            assert!(notebook.pages.len() <= pages_most, "{} pages", notebook.pages.len());
            if draw.below(10) == 0 {
                write(&mut notebook, &mut on_drives);
                check_content(&notebook, &model);
                let again = read(&on_drives);
                check_content(&again, &model);
                check_pages(&again, &model);
                if draw.below(3) == 0 {
                    notebook = again;
                }
            }
        }
    }
}

/// Small notes left in many pages would make a notebook of any size of a few bytes.
#[test]
fn pages_that_hold_little_are_emptied_before_another_is_made() {
    let mut notebook = Notebook::default();
    let key = |subject, part| NoteKey { kind: NoteKind::Schedule.code(), subject, part };
    let put = |key, bytes| NoteChange { key, value: Some((1, vec![7; bytes])) };
    for round in 0..50 {
        // A long note and a short one fill a page; the long one goes, and one a little longer follows.
        let long = NOTE_PAGE_BYTES - 2 * NOTE_HEADER_BYTES - 100 + round;
        notebook
            .apply(Lsn(round as u64 + 1), &[put(key(round as u64, 1), long), put(key(round as u64, 0), 50)]);
        notebook.apply(Lsn(round as u64 + 1), &[NoteChange { key: key(round as u64, 1), value: None }]);
    }
    assert!(notebook.pages.len() <= 3, "{} pages", notebook.pages.len());
}

#[test]
fn a_note_in_two_pages_is_damage() {
    let mut notebook = Notebook::default();
    let key = NoteKey { kind: NoteKind::Label.code(), subject: 1, part: 1 };
    notebook.apply(Lsn(1), &[NoteChange { key, value: Some((1, Vec::new())) }]);
    let bytes = notebook.take_dirty_pages().pages.remove(0).1.unwrap();
    let mut opened = Notebook::default();
    opened.load_page(0, &bytes).unwrap();
    assert!(opened.load_page(1, &bytes).is_err());
}

/// Of a full notebook: what a put costs at worst.
#[test]
fn a_full_notebook_is_filled_first_fit() {
    let mut notebook = Notebook::default();
    let mut draw = Draw(5);
    let mut lsn = 0;
    while notebook.bytes() < 15 << 20 {
        lsn += 1;
        let key = NoteKey { kind: 0x0fff, subject: lsn, part: 0 };
        let value = vec![1; draw.below(NOTE_VALUE_BYTES_MAX as u64) as usize];
        notebook.apply(Lsn(lsn), &[NoteChange { key, value: Some((1, value)) }]);
    }
    let filled = notebook.bytes().div_ceil(NOTE_PAGE_BYTES);
    assert!(notebook.pages.len() <= filled * 2 + 1, "{} pages for {filled}", notebook.pages.len());
}
