//! What callers ask of the notebook: notes read, and put in batches that are durable when the call returns.
//!
//! A batch is one record: all of it happens or nothing, whatever crashes. One batch at a time is checked and
//! journalled, so that what was checked still holds when it is applied, and each takes as long as a durable
//! write. Deletes need no room: they pass when the notebook or the pool is full. So do, in a full pool, puts
//! for which the caller says so.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use ashlar_format::group::Record;
use ashlar_format::note_kind::{EVENTS_MAX, NoteKind, NoteSubject};
use ashlar_format::notes::{NOTEBOOK_BYTES_MAX, NOTES_RECORD_BYTES_MAX, Note, NoteChange, NoteKey};
use ashlar_journal::Draft;
use ashlar_runtime::Instant;
use ashlar_runtime::sync::Mutex;
use ashlar_units::{Lsn, VolumeId};

use super::Notebook;
use crate::apply::Tree;
use crate::engine::{Engine, Inner};
use crate::write_path::outcome_of;
use crate::{Error, ErrorKind, Result};

/// Events in a second at most; others are left out and counted. A loop that goes wrong must not wear drives.
const EVENTS_PER_SECOND: u32 = 10;

/// Changes of notes that happen together. What is said last of a note counts.
#[derive(Clone, Default, Debug)]
pub struct NoteBatch {
    changes: Vec<NoteChange>,
    events: Vec<(u16, Vec<u8>)>,
    is_from_reserve: bool,
}

impl NoteBatch {
    /// Nothing.
    #[must_use]
    pub fn new() -> NoteBatch {
        NoteBatch::default()
    }

    /// A note gets this value.
    #[must_use]
    pub fn put(self, kind: NoteKind, subject: u64, part: u16, version: u16, value: Vec<u8>) -> NoteBatch {
        self.change(kind, subject, part, Some((version, value)))
    }

    /// A note goes, if it is there.
    #[must_use]
    pub fn delete(self, kind: NoteKind, subject: u64, part: u16) -> NoteBatch {
        self.change(kind, subject, part, None)
    }

    /// An event becomes the newest. It is left out when there are too many in a second.
    #[must_use]
    pub fn event(mut self, version: u16, value: Vec<u8>) -> NoteBatch {
        self.events.push((version, value));
        self
    }

    /// Passes in a full pool as deletes do: for the few notes without which nothing can be deleted, stopped
    /// or held back.
    #[must_use]
    pub fn from_reserve(self) -> NoteBatch {
        NoteBatch { is_from_reserve: true, ..self }
    }

    fn change(mut self, kind: NoteKind, subject: u64, part: u16, value: Option<(u16, Vec<u8>)>) -> NoteBatch {
        self.changes.push(NoteChange { key: NoteKey { kind: kind.code(), subject, part }, value });
        self
    }

    fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.events.is_empty()
    }

    /// Whether it needs room: it puts something, and may not take that from the reserve.
    fn needs_room(&self) -> bool {
        let puts = !self.events.is_empty() || self.changes.iter().any(|change| change.value.is_some());
        puts && !self.is_from_reserve
    }

    /// What can be said without looking at the pool.
    fn check(&self) -> Result<()> {
        let invalid = |what: String| Err(Error::new(ErrorKind::Invalid, what));
        let put =
            |change: &NoteChange| (kind_of(change.key), change.value.as_ref().map(|(_, value)| value.len()));
        let events = self.events.iter().map(|(_, value)| (NoteKind::Event, Some(value.len())));
        for (kind, length) in self.changes.iter().map(put).chain(events) {
            let most = kind.value_bytes_max();
            if let Some(length) = length.filter(|length| *length > most) {
                return invalid(format!("note of kind {} has {length} bytes, {most} at most", kind.name()));
            }
        }
        for NoteChange { key, value } in &self.changes {
            let kind = kind_of(*key);
            if kind.subject() == NoteSubject::Pool && key.subject != 0 {
                return invalid(format!("notes of kind {} are about the pool, subject 0", kind.name()));
            }
            if kind == NoteKind::Event && value.is_some() {
                return invalid(
                    "events are numbered by the pool: they are not put under a number".to_string(),
                );
            }
        }
        Ok(())
    }
}

/// Every key of a batch was made from a known kind.
fn kind_of(key: NoteKey) -> NoteKind {
    NoteKind::from_code(key.kind).expect("batches are made of known kinds")
}

/// How full the notebook is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotesStatus {
    /// Bytes of all notes.
    pub bytes: u64,
    /// Bytes they may have.
    pub bytes_max: u64,
    /// Code of each kind that there are notes of, how many, and their bytes.
    pub kinds: Vec<(u16, u64, u64)>,
    /// Events that were left out since the pool was opened.
    pub events_left_out: u64,
}

/// What the notebook of an open pool needs beside the notes.
pub(crate) struct NotesState {
    turn: Mutex<()>,
    /// Events of the second that began then.
    events: Cell<(Option<Instant>, u32)>,
    events_left_out: Cell<u64>,
}

impl Default for NotesState {
    fn default() -> NotesState {
        NotesState { turn: Mutex::new(()), events: Cell::new((None, 0)), events_left_out: Cell::new(0) }
    }
}

impl NotesState {
    /// Whether another event may be noted now.
    fn takes_event(&self, now: Instant) -> bool {
        let (began, count) = match self.events.get() {
            (Some(began), count) if now.duration_since(began) < Duration::from_secs(1) => (began, count),
            _ => (now, 0),
        };
        let is_taken = count < EVENTS_PER_SECOND;
        self.events.set((Some(began), count + u32::from(is_taken)));
        self.events_left_out.set(self.events_left_out.get() + u64::from(!is_taken));
        is_taken
    }
}

impl Engine {
    /// A note.
    #[must_use]
    pub fn notes_get(&self, kind: NoteKind, subject: u64, part: u16) -> Option<Note> {
        let key = NoteKey { kind: kind.code(), subject, part };
        self.inner.tree.borrow().notebook.get(key).cloned()
    }

    /// The notes of a kind about a subject, by part.
    #[must_use]
    pub fn notes_range(&self, kind: NoteKind, subject: u64) -> Vec<Note> {
        self.inner.tree.borrow().notebook.range(kind.code(), subject..=subject).cloned().collect()
    }

    /// All notes of a kind, by subject and part: events, the oldest first.
    #[must_use]
    pub fn notes_of(&self, kind: NoteKind) -> Vec<Note> {
        self.inner.tree.borrow().notebook.range(kind.code(), 0..=u64::MAX).cloned().collect()
    }

    /// How full the notebook is.
    #[must_use]
    pub fn notes_status(&self) -> NotesStatus {
        let notebook = &self.inner.tree.borrow().notebook;
        let count = |kind| notebook.range(kind, 0..=u64::MAX).count() as u64;
        NotesStatus {
            bytes: notebook.bytes() as u64,
            bytes_max: NOTEBOOK_BYTES_MAX as u64,
            kinds: notebook.kinds().map(|(kind, bytes)| (kind, count(kind), bytes as u64)).collect(),
            events_left_out: self.inner.notes.events_left_out.get(),
        }
    }

    /// Makes all changes of a batch, or none. They are durable when this returns, since the LSN it returns.
    pub async fn notes_put(&self, batch: NoteBatch) -> Result<Lsn> {
        if batch.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, "a batch of notes has no change"));
        }
        self.inner.change_noted(None, batch).await
    }
}

impl Inner {
    /// Journals a change of volumes and the notes that belong to it as one: both happen, or neither does.
    /// The control turn is held if there is a change, so that it is not refused any more.
    pub(crate) async fn change_noted(&self, record: Option<Record>, batch: NoteBatch) -> Result<Lsn> {
        self.check_online()?;
        batch.check()?;
        let bytes: usize = batch.changes.iter().map(NoteChange::encoded_bytes).sum();
        let credits = match batch.needs_room() {
            true => Some(self.admit(None, bytes).await?),
            false => {
                self.admit_change().await?;
                None
            }
        };
        let _turn = self.notes.turn.lock().await;
        let changes = self.planned(record.as_ref(), batch)?;
        let notes = (!changes.is_empty()).then_some(Record::Notes { changes });
        let drafts: Vec<Draft> = record.into_iter().chain(notes).map(Draft::Record).collect();
        if !drafts.is_empty() {
            outcome_of(self.submit(drafts, credits).await)?;
        }
        // Nobody else's was applied since: the turn is ours.
        Ok(self.tree.borrow().notebook.last_lsn())
    }

    /// The changes of a batch with its events numbered, if they may be made.
    fn planned(&self, record: Option<&Record>, batch: NoteBatch) -> Result<Vec<NoteChange>> {
        let tree = self.tree.borrow();
        check_subjects(&tree, record, &batch.changes)?;
        let now = self.runtime.now();
        let mut changes = batch.changes;
        let events = batch.events.into_iter().filter(|_| self.notes.takes_event(now)).collect();
        number_events(&tree.notebook, events, &mut changes);
        let bytes: usize = changes.iter().map(NoteChange::encoded_bytes).sum();
        if bytes > NOTES_RECORD_BYTES_MAX {
            let what = format!("a batch of notes has {bytes} bytes, {NOTES_RECORD_BYTES_MAX} at most");
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        check_quotas(&tree.notebook, &changes)?;
        Ok(changes)
    }
}

/// The volumes that notes are about must be there, or be made by the same submission.
fn check_subjects(tree: &Tree, record: Option<&Record>, changes: &[NoteChange]) -> Result<()> {
    for NoteChange { key, value } in changes {
        let id = VolumeId(key.subject);
        let is_missing =
            value.is_some() && NoteKind::is_about_volumes(key.kind) && tree.catalogue.get(id).is_none();
        if is_missing && !record.is_some_and(|record| makes(record, id)) {
            let what =
                format!("note of kind {} is about volume {id}, which is not there", kind_of(*key).name());
            return Err(Error::new(ErrorKind::NotFound, what));
        }
    }
    Ok(())
}

fn makes(record: &Record, id: VolumeId) -> bool {
    match record {
        Record::CreateVolume(entry) => entry.id == id,
        Record::Snapshot { members, .. } => members.iter().any(|(_, image)| *image == id),
        Record::Clone { members } => members.iter().any(|(entry, _)| entry.id == id),
        Record::Write { .. }
        | Record::Fill { .. }
        | Record::ResizeVolume { .. }
        | Record::Delete { .. }
        | Record::Restore { .. }
        | Record::Share { .. }
        | Record::Copy { .. }
        | Record::SetEntry { .. }
        | Record::Notes { .. }
        | Record::Skipped { .. } => false,
    }
}

/// Events get the numbers after the newest; as many of the oldest go as the ring has no place for.
fn number_events(notebook: &Notebook, events: Vec<(u16, Vec<u8>)>, changes: &mut Vec<NoteChange>) {
    if events.is_empty() {
        return;
    }
    let kind = NoteKind::Event.code();
    let old: Vec<NoteKey> = notebook.range(kind, 0..=u64::MAX).map(|note| note.key).collect();
    let excess = (old.len() + events.len()).saturating_sub(usize::from(EVENTS_MAX));
    changes.extend(old.iter().take(excess).map(|key| NoteChange { key: *key, value: None }));
    let next = old.last().map_or(0, |newest| newest.subject + 1);
    let numbered = (next..).zip(events);
    changes.extend(
        numbered.map(|(subject, value)| NoteChange {
            key: NoteKey { kind, subject, part: 0 },
            value: Some(value),
        }),
    );
}

/// A batch that makes a kind, or the notebook, larger must leave it within its quota.
fn check_quotas(notebook: &Notebook, changes: &[NoteChange]) -> Result<()> {
    let finally: BTreeMap<NoteKey, usize> =
        changes.iter().map(|change| (change.key, change.stored_bytes())).collect();
    let mut kinds: BTreeMap<u16, (usize, usize)> = BTreeMap::new();
    for (key, bytes) in finally {
        let (gone, new) = kinds.entry(key.kind).or_default();
        *gone += notebook.get(key).map_or(0, Note::stored_bytes);
        *new += bytes;
    }
    let refuse = |what: &str, used: usize, wanted: usize, most: usize| {
        let what = format!("{what} take {used} bytes, and would take {wanted} of {most}");
        Err(Error::new(ErrorKind::NoSpace, what).and_do("delete some of them"))
    };
    let mut total = notebook.bytes();
    for (code, (gone, new)) in kinds {
        let used = notebook.bytes_of(code);
        let wanted = used - gone + new;
        total = total - gone + new;
        let kind = NoteKind::from_code(code).expect("batches are made of known kinds");
        if wanted > used && wanted > kind.quota_bytes() {
            return refuse(&format!("notes of kind {}", kind.name()), used, wanted, kind.quota_bytes());
        }
    }
    if total > notebook.bytes() && total > NOTEBOOK_BYTES_MAX {
        return refuse("the pool's notes", notebook.bytes(), total, NOTEBOOK_BYTES_MAX);
    }
    Ok(())
}
