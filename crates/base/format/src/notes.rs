//! Notes: small facts of a pool, in pages of the notebook and in records of the journal.
//!
//! ```text
//! note:   u16 kind   u16 part   u16 bytes of the value   u16 version of the value
//!         u64 subject   u64 LSN of the record that put it   value
//! page:   u16 notes   u16 bytes of them   u32 zero   notes, by kind, subject and part
//! record: notes without their LSN; bytes 0xffff: the note is deleted, and no value follows
//! ```
//!
//! Kind, subject and part are a note's key. Of a kind that is not known nothing is known but its
//! [class](crate::note_kind::NoteClass): its notes are written again byte for byte.

use std::fmt;

use ashlar_units::Lsn;

use crate::bytes::{Reader, Writer};
use crate::note_kind::is_secret;
use crate::page::PAGE_BYTES;
use crate::{Damage, DamageKind};

/// Bytes of a stored note before its value.
pub const NOTE_HEADER_BYTES: usize = 24;
/// Bytes of a value at most.
pub const NOTE_VALUE_BYTES_MAX: usize = 4000;
/// Bytes of all notes of a pool at most, headers included: they are all in memory.
pub const NOTEBOOK_BYTES_MAX: usize = 16 << 20;
/// Bytes of notes that a page holds.
pub const NOTE_PAGE_BYTES: usize = PAGE_BYTES - PAGE_START_BYTES;
/// Bytes of the changes that one record carries at most: what its length can say.
pub const NOTES_RECORD_BYTES_MAX: usize = u16::MAX as usize;

const PAGE_START_BYTES: usize = 8;
/// A note in a record has no LSN: it is the record's.
const CHANGE_HEADER_BYTES: usize = NOTE_HEADER_BYTES - 8;
/// The length that deletes.
const DELETED: u16 = u16::MAX;

const _: () = assert!(NOTE_HEADER_BYTES + NOTE_VALUE_BYTES_MAX <= NOTE_PAGE_BYTES);

/// What a note is found by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NoteKey {
    /// The code of its kind, known or not.
    pub kind: u16,
    /// What it speaks of.
    pub subject: u64,
    /// Which of the notes about that.
    pub part: u16,
}

/// A note, durable since its LSN.
#[derive(Clone, PartialEq, Eq)]
pub struct Note {
    /// What it is found by.
    pub key: NoteKey,
    /// How its kind lays out the value.
    pub version: u16,
    /// The record that put it.
    pub lsn: Lsn,
    /// What it says.
    pub value: Vec<u8>,
}

/// One change of a note: a new value, or none.
#[derive(Clone, PartialEq, Eq)]
pub struct NoteChange {
    /// Which note.
    pub key: NoteKey,
    /// Version and value; `None` deletes it.
    pub value: Option<(u16, Vec<u8>)>,
}

/// What may be printed of a value.
fn shown(key: NoteKey, value: &[u8]) -> String {
    if is_secret(key.kind) { format!("{} secret bytes", value.len()) } else { format!("{value:02x?}") }
}

impl fmt::Debug for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Note { key, version, lsn, value } = self;
        write!(f, "Note {{ {key:?}, version {version}, {lsn:?}, {} }}", shown(*key, value))
    }
}

impl fmt::Debug for NoteChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some((version, value)) => {
                write!(f, "Put {{ {:?}, version {version}, {} }}", self.key, shown(self.key, value))
            }
            None => write!(f, "Delete {{ {:?} }}", self.key),
        }
    }
}

impl Note {
    /// Bytes that it takes in a page, and that count towards quotas.
    #[must_use]
    pub fn stored_bytes(&self) -> usize {
        NOTE_HEADER_BYTES + self.value.len()
    }
}

impl NoteChange {
    /// Bytes that it takes in a record.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        CHANGE_HEADER_BYTES + self.value.as_ref().map_or(0, |(_, value)| value.len())
    }

    /// Bytes that the note takes afterwards.
    #[must_use]
    pub fn stored_bytes(&self) -> usize {
        self.value.as_ref().map_or(0, |(_, value)| NOTE_HEADER_BYTES + value.len())
    }

    fn encode(&self, writer: &mut Writer) {
        let NoteKey { kind, subject, part } = self.key;
        let (length, version, value) = match &self.value {
            Some((version, value)) => (length_of(value), *version, &value[..]),
            None => (DELETED, 0, &[][..]),
        };
        writer.u16(kind).u16(part).u16(length).u16(version).u64(subject).put(value);
    }
}

fn length_of(value: &[u8]) -> u16 {
    assert!(value.len() <= NOTE_VALUE_BYTES_MAX, "a note of {} bytes", value.len());
    value.len() as u16
}

/// The changes as the body of a record.
#[must_use]
pub fn encode_changes(changes: &[NoteChange]) -> Vec<u8> {
    let mut writer = Writer::new();
    changes.iter().for_each(|change| change.encode(&mut writer));
    assert!(writer.len() <= NOTES_RECORD_BYTES_MAX, "notes of {} bytes in a record", writer.len());
    writer.into_bytes()
}

/// Reads the body of a record.
pub fn decode_changes(bytes: &[u8]) -> Result<Vec<NoteChange>, Damage> {
    let mut reader = Reader::new(bytes);
    let mut changes = Vec::new();
    while reader.position() < bytes.len() {
        let Header { key, length, version } = read_header(&mut reader)?;
        let value = match length {
            DELETED if version == 0 => None,
            DELETED => return Err(impossible("deleted note has a version")),
            _ => Some((version, read_value(&mut reader, length)?)),
        };
        changes.push(NoteChange { key, value });
    }
    Ok(changes)
}

/// A page of notes, which come in order and fit it.
#[must_use]
pub fn encode_page<'a>(notes: impl Iterator<Item = &'a Note>) -> Vec<u8> {
    let (mut content, mut count, mut last) = (Writer::new(), 0, None);
    for Note { key, version, lsn, value } in notes {
        assert!(last.is_none_or(|last| last < *key), "notes of a page are not in order at {key:?}");
        last = Some(*key);
        let NoteKey { kind, subject, part } = *key;
        content.u16(kind).u16(part).u16(length_of(value)).u16(*version).u64(subject).u64(lsn.0).put(value);
        count += 1;
    }
    assert!(content.len() <= NOTE_PAGE_BYTES, "{} bytes of notes in a page", content.len());
    let mut writer = Writer::new();
    writer.u16(count).u16(content.len() as u16).u32(0).put(content.as_bytes()).pad_to(PAGE_BYTES);
    writer.into_bytes()
}

/// Reads a page of notes.
pub fn decode_page(bytes: &[u8]) -> Result<Vec<Note>, Damage> {
    let mut reader = Reader::new(bytes);
    let (count, length) = (reader.u16()?, usize::from(reader.u16()?));
    if reader.u32()? != 0 {
        return Err(Damage::new(
            DamageKind::Version,
            "page of notes is of a kind this program does not know",
        ));
    }
    let mut notes: Vec<Note> = Vec::new();
    for _ in 0..count {
        let Header { key, length, version } = read_header(&mut reader)?;
        let lsn = Lsn(reader.u64()?);
        let value = read_value(&mut reader, length)?;
        if notes.last().is_some_and(|last| last.key >= key) {
            return Err(impossible("notes of a page are not in order"));
        }
        notes.push(Note { key, version, lsn, value });
    }
    if bytes.len() != PAGE_BYTES || reader.position() != PAGE_START_BYTES + length {
        return Err(impossible("page of notes is longer or shorter than it says"));
    }
    Ok(notes)
}

struct Header {
    key: NoteKey,
    length: u16,
    version: u16,
}

fn read_header(reader: &mut Reader<'_>) -> Result<Header, Damage> {
    let (kind, part, length, version) = (reader.u16()?, reader.u16()?, reader.u16()?, reader.u16()?);
    Ok(Header { key: NoteKey { kind, subject: reader.u64()?, part }, length, version })
}

fn read_value(reader: &mut Reader<'_>, length: u16) -> Result<Vec<u8>, Damage> {
    if usize::from(length) > NOTE_VALUE_BYTES_MAX {
        return Err(impossible("note is longer than any can be"));
    }
    Ok(reader.take(usize::from(length))?.to_vec())
}

fn impossible(what: &'static str) -> Damage {
    Damage::new(DamageKind::Impossible, what)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::note_kind::NoteKind;

    fn key(kind: u16, subject: u64, part: u16) -> NoteKey {
        NoteKey { kind, subject, part }
    }

    fn notes() -> Vec<Note> {
        let note = |key, version, value: &[u8]| Note { key, version, lsn: Lsn(77), value: value.to_vec() };
        vec![
            note(key(1, 0, 0), 1, b""),
            note(key(1, 9, 3), 2, b"fast"),
            note(key(0xffff, u64::MAX, u16::MAX), u16::MAX, &[9; 3000]),
        ]
    }

    #[test]
    fn pages_survive_the_trip() {
        let notes = notes();
        let page = encode_page(notes.iter());
        assert_eq!(page.len(), PAGE_BYTES);
        assert_eq!(decode_page(&page).unwrap(), notes);
        assert_eq!(decode_page(&encode_page([].iter())).unwrap(), []);
        let longest = Note { value: vec![7; NOTE_VALUE_BYTES_MAX], ..notes[1].clone() };
        assert_eq!(decode_page(&encode_page([longest.clone()].iter())).unwrap(), [longest]);
    }

    #[test]
    fn changes_survive_the_trip() {
        let key = key(4, 17, 2);
        let changes = vec![
            NoteChange { key, value: Some((3, b"gold".to_vec())) },
            NoteChange { key, value: None },
            NoteChange { key, value: Some((0, Vec::new())) },
        ];
        let bytes = encode_changes(&changes);
        assert_eq!(bytes.len(), changes.iter().map(NoteChange::encoded_bytes).sum::<usize>());
        assert_eq!(decode_changes(&bytes).unwrap(), changes);
        assert_eq!(decode_changes(&[]).unwrap(), []);
        assert!(decode_changes(&bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn impossible_pages_and_changes_are_damage() {
        let page = encode_page(notes().iter());
        // Count, length, what is reserved, the length of a value, and the order of the first two.
        for (at, value) in [(0, 9), (2, 1), (5, 1), (8 + 5, 0x20), (8 + 1, 0x80)] {
            let mut damaged = page.clone();
            damaged[at] = value;
            assert!(decode_page(&damaged).is_err(), "byte {at}");
        }
        assert!(decode_page(&page[..100]).is_err());
        let mut change = encode_changes(&[NoteChange { key: key(4, 1, 1), value: None }]);
        change[4] = 0xa1;
        assert!(decode_changes(&change).is_err(), "longer than a value can be");
    }

    #[test]
    fn secrets_are_never_printed() {
        let value = b"swordfish".to_vec();
        for kind in [NoteKind::Chap.code(), 0x2fff] {
            let note = Note { key: key(kind, 1, 0), version: 1, lsn: Lsn(1), value: value.clone() };
            let change = NoteChange { key: note.key, value: Some((1, value.clone())) };
            let printed = format!("{note:?} {change:?}");
            assert!(printed.contains("9 secret bytes"), "{printed}");
            assert!(!printed.contains(&format!("{:02x}", value[0])), "{printed}");
        }
    }
}
