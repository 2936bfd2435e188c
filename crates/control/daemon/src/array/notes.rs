//! What the pools remember for the control side.

use ashlar_api as api;
use ashlar_engine::{Note, NoteBatch, NoteKind};

use super::{Array, Shard};
use crate::error::Result;

/// The version of what the control side writes into a note.
pub(super) const VERSION: u16 = 1;
/// The part of a note that holds the record of what it is about.
const RECORD: u16 = 0;
/// Of the note about a database these, too.
const PROOFS: u16 = 1;
const OBJECTIVE: u16 = 2;
/// The first of the parts that hold a clone's SQL. Arbitrary: room for others is left before it.
const SCRIPT: u16 = 16;

/// The record of a database or of a schedule, or an objective.
pub(crate) struct RecordNote {
    pub(crate) pool: String,
    /// Its number in its pool, or its volume's identity.
    pub(crate) number: u64,
    pub(crate) value: Vec<u8>,
}

impl Shard {
    /// The records of a kind in all open pools. Those of later versions are left out.
    pub(super) fn record_notes(&self, kind: NoteKind) -> Vec<RecordNote> {
        self.notes_of_part(kind, RECORD)
    }

    fn notes_of_part(&self, kind: NoteKind, part: u16) -> Vec<RecordNote> {
        let engines = self.engines.borrow();
        let notes = engines.iter().flat_map(|(pool, engine)| {
            let notes = engine.notes_of(kind).into_iter();
            let is_record = move |note: &Note| note.version == VERSION && note.key.part == part;
            notes.filter(is_record).map(|note| RecordNote {
                pool: pool.clone(),
                number: note.key.subject,
                value: note.value,
            })
        });
        notes.collect()
    }
}

impl Array {
    /// The records of a kind in all open pools. Those of later versions are left out.
    pub(crate) async fn record_notes(&self, kind: NoteKind) -> Result<Vec<RecordNote>> {
        self.notes_of_part(kind, RECORD).await
    }

    /// The objectives of volumes, under their identities, or those of databases, under their numbers.
    pub(crate) async fn objective_notes(&self, of: api::ObjectiveKind) -> Result<Vec<RecordNote>> {
        let (kind, part) = objective_note(of);
        self.notes_of_part(kind, part).await
    }

    async fn notes_of_part(&self, kind: NoteKind, part: u16) -> Result<Vec<RecordNote>> {
        self.run(move |_, shard| Box::pin(async move { Ok(shard.notes_of_part(kind, part)) })).await
    }

    /// Writes a record, in place of the one of that number. One that is new needs room in the pool; without a
    /// change to another nothing could be deleted in a full one.
    pub(crate) async fn record_note_put(
        &self,
        kind: NoteKind,
        pool: &str,
        number: u64,
        value: Vec<u8>,
        is_new: bool,
    ) -> Result<()> {
        let batch = NoteBatch::new().put(kind, number, RECORD, VERSION, value);
        let batch = if is_new { batch } else { batch.from_reserve() };
        self.with_pool(pool, |engine, _| Box::pin(async move { engine.notes_put(batch).await.map(drop) }))
            .await
    }

    /// Writes an objective down, in place of the one before; `None` removes it.
    pub(crate) async fn objective_put(
        &self,
        of: api::ObjectiveKind,
        pool: &str,
        number: u64,
        value: Option<Vec<u8>>,
    ) -> Result<()> {
        let (kind, part) = objective_note(of);
        let batch = match value {
            Some(value) => NoteBatch::new().put(kind, number, part, VERSION, value),
            None => NoteBatch::new().delete(kind, number, part),
        };
        // In a full pool, too: each volume and each database has one at most.
        let batch = batch.from_reserve();
        self.with_pool(pool, |engine, _| Box::pin(async move { engine.notes_put(batch).await.map(drop) }))
            .await
    }

    /// The proofs of a database.
    pub(crate) async fn database_proofs(&self, pool: &str, number: u64) -> Result<Option<Vec<u8>>> {
        self.with_pool(pool, move |engine, _| {
            Box::pin(async move {
                let note = engine.notes_get(NoteKind::Database, number, PROOFS);
                Ok(note.filter(|note| note.version == VERSION).map(|note| note.value))
            })
        })
        .await
    }

    /// Writes them, in place of those before.
    pub(crate) async fn database_proofs_put(&self, pool: &str, number: u64, value: Vec<u8>) -> Result<()> {
        let batch = NoteBatch::new().put(NoteKind::Database, number, PROOFS, VERSION, value);
        self.with_pool(pool, |engine, _| Box::pin(async move { engine.notes_put(batch).await.map(drop) }))
            .await
    }

    /// The pieces of a clone's SQL, as many as are there.
    pub(crate) async fn database_script(&self, pool: &str, number: u64, notes: u16) -> Result<Vec<Vec<u8>>> {
        self.with_pool(pool, move |engine, _| {
            Box::pin(async move {
                let piece = |index| engine.notes_get(NoteKind::Database, number, SCRIPT + index);
                let notes = (0..notes).filter_map(piece).filter(|note| note.version == VERSION);
                Ok(notes.map(|note| note.value).collect())
            })
        })
        .await
    }

    /// Writes them down.
    pub(crate) async fn database_script_put(
        &self,
        pool: &str,
        number: u64,
        pieces: Vec<Vec<u8>>,
    ) -> Result<()> {
        let batch = (SCRIPT..).zip(pieces).fold(NoteBatch::new(), |batch, (part, piece)| {
            batch.put(NoteKind::Database, number, part, VERSION, piece)
        });
        self.with_pool(pool, |engine, _| Box::pin(async move { engine.notes_put(batch).await.map(drop) }))
            .await
    }

    /// Removes a record, and whatever else is noted under its number.
    pub(crate) async fn record_note_delete(&self, kind: NoteKind, pool: &str, number: u64) -> Result<()> {
        self.with_pool(pool, move |engine, _| {
            Box::pin(async move {
                let parts = engine.notes_range(kind, number);
                let batch = parts
                    .iter()
                    .fold(NoteBatch::new(), |batch, note| batch.delete(kind, number, note.key.part));
                if parts.is_empty() { Ok(()) } else { engine.notes_put(batch).await.map(drop) }
            })
        })
        .await
    }
}

/// Which note an objective is: it goes with its volume, or with the record of its database.
fn objective_note(of: api::ObjectiveKind) -> (NoteKind, u16) {
    match of {
        api::ObjectiveKind::Volume => (NoteKind::Objective, RECORD),
        api::ObjectiveKind::Database => (NoteKind::Database, OBJECTIVE),
    }
}
