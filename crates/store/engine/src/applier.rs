//! The applier: durable groups in, map changed, hosts told. One task, one record at a time.

use ashlar_format::group::Record;
use ashlar_format::page::{PageContent, PageIdentity, pointers_from_bytes};
use ashlar_map::Missing;
use ashlar_units::Lsn;

use crate::apply::Outcome;
use crate::checkpoint::Applied;
use crate::engine::Inner;
use crate::media::Media;
use crate::{Error, ErrorKind, Result};

/// Segments opened since the last checkpoint after which the next one starts: a quarter of what the
/// frontier can list.
const SEGMENTS_PER_CHECKPOINT: usize = 16;

impl Inner {
    pub(crate) async fn run_applier(&self) {
        while let Some(group) = self.journal.next_durable().await {
            let turn = self.apply_turn.lock().await;
            for submission in group.submissions {
                let result = self.apply_submission(submission.first_lsn, &submission.records).await;
                // A failure here is the host's to know, and damage is counted; the pool goes on.
                let result = result.map_err(|error| {
                    ashlar_journal::Error::new(ashlar_journal::ErrorKind::Damaged, error.context)
                });
                drop(submission.done.send(result));
            }
            self.applied.set(Applied { end: group.end, next_lsn: group.next_lsn });
            drop(turn);
            self.want_checkpoint_if_due();
        }
        if let Some(failure) = self.journal.failure() {
            self.stop(&failure.into());
        }
    }

    async fn apply_submission(&self, first_lsn: Lsn, records: &[Record]) -> Result<Outcome> {
        let mut worst = Outcome::Done;
        for (index, record) in records.iter().enumerate() {
            let lsn = Lsn(first_lsn.0 + index as u64);
            let outcome = loop {
                let attempt = self.tree.borrow_mut().apply(lsn, record);
                match attempt {
                    Ok(outcome) => break outcome,
                    Err(missing) => self.load_page(missing).await?,
                }
            };
            if outcome != Outcome::Done {
                worst = outcome;
            }
        }
        Ok(worst)
    }

    /// Reads a map page into the arena.
    pub(crate) async fn load_page(&self, missing: Missing) -> Result<()> {
        let loaded = load_map_page(&self.media, missing).await;
        let inserted = loaded.and_then(|page| {
            let mut tree = self.tree.borrow_mut();
            let inserted = tree.arena.insert_clean(missing.pointer, missing.level, page);
            inserted.map_err(|invalid| Error::new(ErrorKind::Damaged, invalid.to_string()))
        });
        if let Err(error) = &inserted
            && error.kind == ErrorKind::Damaged
        {
            self.counters.borrow_mut().damage += 1;
        }
        inserted
    }

    fn want_checkpoint_if_due(&self) {
        let dirty_bytes = self.tree.borrow().arena.dirty_count() as u64 * 4096;
        let is_due = dirty_bytes > self.dirty_bytes_max()
            || self.pool.opened_since_table() >= SEGMENTS_PER_CHECKPOINT
            || self.cleaner.is_mark_wanted();
        if is_due {
            self.checkpoints.wanted.notify_one();
        }
    }

    /// Dirty map pages that start a checkpoint: half the map cache, and never more than the free
    /// segments could take.
    fn dirty_bytes_max(&self) -> u64 {
        let free = self.pool.cells_available() * self.pool.segment_bytes();
        (self.settings.map_cache_bytes / 2).min(free / 8).max(64 << 10)
    }
}

/// Reads and verifies a map page.
pub(crate) async fn load_map_page(media: &Media, missing: Missing) -> Result<Box<ashlar_map::Page>> {
    let Missing { pointer, level, index } = missing;
    let identity = PageIdentity { content: PageContent::Map, level, tree: 0, index };
    let bytes = media.read_page(pointer, identity).await?;
    pointers_from_bytes(&bytes)
        .map_err(|damage| Error::new(ErrorKind::Damaged, format!("{pointer:?}: {damage}")))
}
