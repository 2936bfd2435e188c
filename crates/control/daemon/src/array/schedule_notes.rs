//! What the pools remember of schedules.

use ashlar_engine::{NoteBatch, NoteKind};

use super::Array;
use crate::error::Result;

/// The version of what the control side writes into a note.
const VERSION: u16 = 1;
/// The one part of the note about a schedule.
const RECORD: u16 = 0;

/// A note about a schedule.
pub(crate) struct ScheduleNote {
    pub(crate) pool: String,
    /// Its number in its pool.
    pub(crate) number: u64,
    pub(crate) value: Vec<u8>,
}

impl Array {
    /// The notes about schedules in all open pools. Those of later versions are left out.
    pub(crate) async fn schedule_notes(&self) -> Result<Vec<ScheduleNote>> {
        self.run(|_, shard| {
            Box::pin(async move {
                let engines = shard.engines.borrow();
                let notes = engines.iter().flat_map(|(pool, engine)| {
                    let notes = engine.notes_of(NoteKind::Schedule).into_iter();
                    let known = notes.filter(|note| note.version == VERSION && note.key.part == RECORD);
                    known.map(|note| ScheduleNote {
                        pool: pool.clone(),
                        number: note.key.subject,
                        value: note.value,
                    })
                });
                Ok(notes.collect())
            })
        })
        .await
    }

    /// Writes a note about a schedule, in place of the one of that number.
    pub(crate) async fn schedule_note_put(&self, pool: &str, number: u64, value: Vec<u8>) -> Result<()> {
        let batch = NoteBatch::new().put(NoteKind::Schedule, number, RECORD, VERSION, value);
        self.with_pool(pool, |engine, _| Box::pin(async move { engine.notes_put(batch).await.map(drop) }))
            .await
    }

    /// Removes it.
    pub(crate) async fn schedule_note_delete(&self, pool: &str, number: u64) -> Result<()> {
        let batch = NoteBatch::new().delete(NoteKind::Schedule, number, RECORD);
        self.with_pool(pool, |engine, _| Box::pin(async move { engine.notes_put(batch).await.map(drop) }))
            .await
    }
}
