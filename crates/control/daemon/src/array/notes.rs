//! What the pools remember for the control side.

use ashlar_engine::{NoteBatch, NoteKind};

use super::Array;
use crate::error::Result;

/// The version of what the control side writes into a note.
const VERSION: u16 = 1;

/// A note about a database.
pub(crate) struct DatabaseNote {
    pub(crate) pool: String,
    /// Its number in its pool.
    pub(crate) number: u64,
    pub(crate) value: Vec<u8>,
}

impl Array {
    /// The notes about databases in all open pools. Those of later versions are left out.
    pub(crate) async fn database_notes(&self) -> Result<Vec<DatabaseNote>> {
        self.run(|_, shard| {
            Box::pin(async move {
                let engines = shard.engines.borrow();
                let notes = engines.iter().flat_map(|(pool, engine)| {
                    let notes = engine.notes_of(NoteKind::Database).into_iter();
                    notes.filter(|note| note.version == VERSION).map(|note| DatabaseNote {
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

    /// Writes a note about a database, in place of the one of that number.
    pub(crate) async fn database_note_put(&self, pool: &str, number: u64, value: Vec<u8>) -> Result<()> {
        let batch = NoteBatch::new().put(NoteKind::Database, number, 0, VERSION, value);
        self.with_pool(pool, |engine, _| Box::pin(async move { engine.notes_put(batch).await.map(drop) }))
            .await
    }

    /// Removes it.
    pub(crate) async fn database_note_delete(&self, pool: &str, number: u64) -> Result<()> {
        let batch = NoteBatch::new().delete(NoteKind::Database, number, 0);
        self.with_pool(pool, |engine, _| Box::pin(async move { engine.notes_put(batch).await.map(drop) }))
            .await
    }
}
