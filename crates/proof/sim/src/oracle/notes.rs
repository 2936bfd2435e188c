//! Notes in the model: batches that happen wholly or not at all, and what goes with a volume.
//!
//! The workload keeps batches in flight apart by their notes, and a batch about a volume from what ends the
//! volume; so of each it can be said by itself whether it happened.

use std::collections::BTreeMap;

use super::{Oracle, Outcome};
use crate::chance::mix;

/// The part that is noted with a volume when it is made.
const CREATION_PART: u16 = 1000;
/// Bytes of a page of notes: what one may take that is alone.
const PAGE_BYTES: u64 = 4096;

/// What a note is found by: a volume or, with an empty name, the pool; and a number.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NoteName {
    /// The volume.
    pub volume: String,
    /// Which of its notes.
    pub part: u16,
}

/// One change of a batch: the number from which the new content is made, or none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoteEdit {
    /// Which note.
    pub name: NoteName,
    /// Its content; `None` deletes it.
    pub content: Option<u64>,
}

/// The bytes of a content: some empty but for the number, most short, a few as long as can be.
#[must_use]
pub fn note_bytes(content: u64) -> Vec<u8> {
    let draw = mix(content);
    let more = match draw % 24 {
        0 => 4000 - 8,
        1..4 => draw / 24 % 1200,
        4..8 => 0,
        _ => draw / 24 % 200,
    };
    let mut bytes = content.to_le_bytes().to_vec();
    bytes.extend((0..more).map(|at| (draw >> (at % 8 * 8)) as u8 ^ at as u8));
    bytes
}

/// The content of these bytes, if they are that of any.
#[must_use]
pub fn content_of(bytes: &[u8]) -> Option<u64> {
    let number = bytes.get(..8)?.try_into().ok().map(u64::from_le_bytes)?;
    (note_bytes(number) == bytes).then_some(number)
}

/// Under which name the notes of a deleted volume are told: no volume can have it.
#[must_use]
pub fn deleted_name(volume: &str) -> String {
    format!("{volume}:")
}

/// What every second volume is made with: a note in the same submission.
#[must_use]
pub fn note_of_creation(volume: &str, size_bytes: u64) -> Option<(u16, u64)> {
    let draw = volume.bytes().fold(mix(size_bytes), |draw, byte| mix(draw ^ u64::from(byte)));
    draw.is_multiple_of(2).then_some((CREATION_PART, draw >> 1))
}

/// Notes that are not about volumes, batches in flight, and those of which nobody knows.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    of_pool: BTreeMap<u16, u64>,
    pending: BTreeMap<u32, Vec<NoteEdit>>,
    doubts: Vec<Vec<NoteEdit>>,
}

impl Notes {
    /// The pool stopped: what was in flight is in doubt.
    pub(super) fn stop(&mut self) {
        self.doubts.extend(std::mem::take(&mut self.pending).into_values());
    }

    pub(super) fn is_changing(&self) -> bool {
        !self.pending.is_empty()
    }
}

impl Oracle {
    /// A number that no content was made from.
    pub fn next_note_content(&mut self) -> u64 {
        u64::from(self.number())
    }

    /// A batch is issued. Its notes are those of no other in flight, and no note is in it twice.
    pub fn notes_begin(&mut self, edits: &[NoteEdit]) -> u32 {
        let id = self.number();
        self.notes.pending.insert(id, edits.to_vec());
        id
    }

    /// The batch's end.
    pub fn notes_end(&mut self, id: u32, outcome: Outcome) {
        if outcome == Outcome::Doubtful {
            // As good as in flight until the pool stops.
            return;
        }
        let edits = self.notes.pending.remove(&id).expect("a batch ends once");
        if outcome == Outcome::Done {
            self.given_back_at = self.tick();
            self.note(edits);
        }
    }

    fn note(&mut self, edits: Vec<NoteEdit>) {
        for NoteEdit { name, content } in edits {
            let notes = match name.volume.as_str() {
                "" => &mut self.notes.of_pool,
                volume => &mut self.volumes.get_mut(volume).expect("a noted volume is kept alive").notes,
            };
            match content {
                Some(content) => notes.insert(name.part, content),
                None => notes.remove(&name.part),
            };
        }
    }

    fn note_of(&self, name: &NoteName) -> Option<u64> {
        let notes = match name.volume.as_str() {
            "" => &self.notes.of_pool,
            volume => &self.volumes.get(volume)?.notes,
        };
        notes.get(&name.part).copied()
    }

    /// Decides of batches in doubt whether they happened, then compares all notes. Of volumes nothing is in
    /// doubt any more.
    pub(super) fn reconcile_notes(&mut self, found: &BTreeMap<NoteName, u64>) -> Result<(), String> {
        for edits in std::mem::take(&mut self.notes.doubts) {
            let is_new = edits.iter().all(|edit| found.get(&edit.name).copied() == edit.content);
            let is_old = edits.iter().all(|edit| found.get(&edit.name).copied() == self.note_of(&edit.name));
            match (is_new, is_old) {
                (true, _) => self.note(edits),
                (false, true) => {}
                (false, false) => return Err(format!("a batch of notes happened in part: {edits:?}")),
            }
        }
        self.check_notes(found)
    }

    /// Compares all notes but those of batches in flight. No change of volumes is in flight or in doubt.
    pub fn check_notes(&self, found: &BTreeMap<NoteName, u64>) -> Result<(), String> {
        let open: Vec<&NoteName> = self.notes.pending.values().flatten().map(|edit| &edit.name).collect();
        let expected = self.notes_expected();
        for name in expected.keys().chain(found.keys()).filter(|name| !open.contains(name)) {
            let (expected, found) = (expected.get(name), found.get(name));
            if expected != found {
                return Err(format!("{name:?}: content {found:?}, expected {expected:?}"));
            }
        }
        Ok(())
    }

    /// True while no change of volumes is in flight or in doubt: then it is known which notes there are.
    #[must_use]
    pub fn knows_notes(&self) -> bool {
        self.pending.is_empty() && self.doubts.is_empty()
    }

    fn notes_expected(&self) -> BTreeMap<NoteName, u64> {
        let of = |volume: &str, notes: &BTreeMap<u16, u64>| -> Vec<(NoteName, u64)> {
            let name = |part: u16| NoteName { volume: volume.to_string(), part };
            notes.iter().map(|(part, content)| (name(*part), *content)).collect()
        };
        let of_volumes = self.volumes.iter().flat_map(|(name, volume)| of(name, &volume.notes));
        let of_deleted =
            self.deleted.iter().flat_map(|(name, volume)| of(&deleted_name(name), &volume.notes));
        of("", &self.notes.of_pool).into_iter().chain(of_volumes).chain(of_deleted).collect()
    }

    /// What notes take at most: those that may be, in pages that are half full, and one page beside.
    pub(super) fn notes_bytes_max(&self) -> u64 {
        let stored = |content: u64| 2 * (note_bytes(content).len() as u64 + 24);
        let pending = self.notes.pending.values().flatten().filter_map(|edit| edit.content);
        let all = self.notes_expected().into_values().chain(pending);
        all.map(stored).sum::<u64>() + PAGE_BYTES
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::oracle::{Change, Listing};

    fn name(volume: &str, part: u16) -> NoteName {
        NoteName { volume: volume.to_string(), part }
    }

    fn edit(volume: &str, part: u16, content: Option<u64>) -> NoteEdit {
        NoteEdit { name: name(volume, part), content }
    }

    fn listing(notes: &[(NoteName, u64)], volumes: &[&str]) -> Listing {
        let volumes = volumes.iter().map(|name| ((*name).to_string(), (1 << 20, 4096))).collect();
        Listing { volumes, notes: Some(notes.iter().cloned().collect()), ..Listing::default() }
    }

    /// A model with one volume that has no note.
    fn model() -> Oracle {
        let mut oracle = Oracle::new(4096);
        let change = Change::VolumeCreate { name: "v1".into(), size_bytes: 1 << 20, unit_bytes: 4096 };
        let id = oracle.change_begin(&change);
        oracle.change_end(id, Outcome::Done).unwrap();
        oracle.volumes.get_mut("v1").unwrap().notes.clear();
        oracle
    }

    #[test]
    fn a_batch_in_doubt_happened_or_did_not() {
        let edits = [edit("v1", 1, Some(5)), edit("", 2, Some(6))];
        let (both, neither) = (vec![(name("v1", 1), 5), (name("", 2), 6)], vec![]);
        let in_part = vec![(name("v1", 1), 5)];
        let wrong = vec![(name("v1", 1), 5), (name("", 2), 7)];
        for (found, is_good) in [(both, true), (neither, true), (in_part, false), (wrong, false)] {
            let mut oracle = model();
            oracle.notes_begin(&edits);
            oracle.stop();
            let judged = oracle.reconcile(&listing(&found, &["v1"]));
            assert_eq!(judged.is_ok(), is_good, "{found:?}: {judged:?}");
            // What was found is what counts from now on.
            if is_good {
                oracle.reconcile(&listing(&found, &["v1"])).unwrap();
                assert_eq!(oracle.reconcile(&listing(&[], &["v1"])).is_ok(), found.is_empty());
            }
        }
    }

    #[test]
    fn what_was_acknowledged_is_there_and_goes_with_its_volume() {
        let mut oracle = model();
        let id = oracle.notes_begin(&[edit("v1", 1, Some(5)), edit("", 2, Some(6))]);
        oracle.notes_end(id, Outcome::Done);
        oracle.stop();
        let all = [(name("v1", 1), 5), (name("", 2), 6)];
        assert!(oracle.reconcile(&listing(&all[..1], &["v1"])).is_err());
        oracle.reconcile(&listing(&all, &["v1"])).unwrap();
        oracle.change_begin(&Change::VolumeDelete { name: "v1".into() });
        oracle.stop();
        assert!(oracle.reconcile(&listing(&all, &[])).is_err(), "an orphan");
        oracle.reconcile(&listing(&all[1..], &[])).unwrap();
    }

    #[test]
    fn contents_are_told_by_their_bytes() {
        for content in 0..200 {
            let mut bytes = note_bytes(content);
            assert!(bytes.len() <= 4000);
            assert_eq!(content_of(&bytes), Some(content));
            *bytes.last_mut().unwrap() ^= 1;
            assert_ne!(content_of(&bytes), Some(content));
        }
    }
}
