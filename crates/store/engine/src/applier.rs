//! The applier: durable groups in, map changed, hosts told. One task, one record at a time.

use ashlar_format::Pointer;
use ashlar_format::group::Record;
use ashlar_map::{Missing, PageArena};
use ashlar_units::{Fault, Lsn, VolumeId, planted};

use crate::apply::Outcome;
use crate::checkpoint::Applied;
use crate::engine::Inner;
use crate::{Error, ErrorKind, Result};

/// Segments opened since the last checkpoint after which the next one starts: a quarter of what the
/// frontier can list.
const SEGMENTS_PER_CHECKPOINT: usize = 16;

/// Larger unmaps leave it to the mark to find what died.
const REPLACED_BLOCKS_MAX: u64 = 1024;

impl Inner {
    pub(crate) async fn run_applier(&self) {
        while let Some(mut group) = self.journal.next_durable().await {
            if planted(Fault::AppliedOutOfOrder) {
                group.submissions.reverse();
            }
            let turn = self.apply_turn.lock().await;
            if planted(Fault::SnapshotLate) {
                let is_snapshot = |record: Option<&Record>| matches!(record, Some(Record::Snapshot { .. }));
                group.submissions.sort_by_key(|submission| is_snapshot(submission.records.first()));
            }
            for submission in group.submissions {
                let applied = match self.check_applies() {
                    Ok(()) => self.apply_submission(submission.first_lsn, &submission.records).await,
                    failed => failed.map(|()| Outcome::Gone),
                };
                if let Err(error) = &applied {
                    // The record is in the journal and replay will apply it. Nothing behind it may be
                    // applied before it, or this life would differ from the next: the pool stops.
                    self.apply_failure.borrow_mut().get_or_insert_with(|| error.clone());
                    self.stop(error);
                }
                let told = applied.map_err(|error| {
                    ashlar_journal::Error::new(ashlar_journal::ErrorKind::Damaged, error.context)
                });
                drop(submission.done.send(told));
            }
            if self.check_applies().is_ok() {
                self.applied.set(Applied { end: group.end, next_lsn: group.next_lsn });
            }
            drop(turn);
            self.want_checkpoint_if_due();
            self.want_room_if_scarce();
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
                let replaced = self.replaced_by(record);
                let attempt = self.tree.borrow_mut().apply(lsn, record);
                match attempt {
                    Ok(outcome) => {
                        if let Some((pointers, young_from)) = replaced.filter(|_| outcome == Outcome::Done) {
                            self.cleaner.deaths.borrow_mut().note(&pointers, young_from);
                        }
                        break outcome;
                    }
                    Err(missing) => self.load_page(missing).await?,
                }
            };
            if outcome != Outcome::Done {
                worst = outcome;
            }
        }
        Ok(worst)
    }

    /// What a record is about to replace, when the cleaner wants to know, and from which segment on that
    /// is the volume's own. Pages that are not loaded are met again when they are.
    fn replaced_by(&self, record: &Record) -> Option<(Vec<Pointer>, u32)> {
        let mut deaths = self.cleaner.deaths.borrow_mut();
        let (volume, block, blocks) = match record {
            Record::Write { volume, block, blocks, .. } => (*volume, *block, u64::from(*blocks)),
            Record::Fill { volume, block, blocks, .. } => (*volume, *block, *blocks),
            _ => return None,
        };
        if !deaths.is_recording() || blocks > REPLACED_BLOCKS_MAX {
            return None;
        }
        let mut tree = self.tree.borrow_mut();
        let tree = &mut *tree;
        let entry = tree.catalogue.get(volume)?;
        let young_from = deaths.young_from(entry, || self.pool.segment_number_next());
        let mut pointers = Vec::with_capacity(blocks as usize);
        tree.arena.lookup_run(entry.root, block, blocks, &mut pointers).ok()?;
        Some((pointers, young_from))
    }

    /// Fails when a record could not be applied: the state is between two records for good.
    pub(crate) fn check_applies(&self) -> Result<()> {
        self.apply_failure.borrow().clone().map_or(Ok(()), Err)
    }

    /// Loads the map pages that mapping a range will change. A page that cannot be read fails the
    /// request here, before anything is journalled; and pages load beside each other, not one after
    /// the other in the applier.
    pub(crate) async fn load_pages_of(&self, id: VolumeId, first_block: u64, blocks: u64) -> Result<()> {
        self.load_while(id, |arena, root| arena.prefetch_check(root, first_block, blocks)).await
    }

    /// The same for a range that is to become a hole or zeroes.
    pub(crate) async fn load_pages_of_fill(&self, id: VolumeId, first_block: u64, blocks: u64) -> Result<()> {
        self.load_while(id, |arena, root| arena.prefetch_check_fill(root, first_block, blocks)).await
    }

    async fn load_while(
        &self,
        id: VolumeId,
        check: impl Fn(&mut PageArena, Pointer) -> std::result::Result<(), Missing>,
    ) -> Result<()> {
        loop {
            let missing = {
                let mut tree = self.tree.borrow_mut();
                let tree = &mut *tree;
                // Deleted meanwhile: applying will say so.
                let Some(entry) = tree.catalogue.get(id) else { return Ok(()) };
                check(&mut tree.arena, entry.root)
            };
            match missing {
                Ok(()) => return Ok(()),
                Err(missing) => self.load_page(missing).await?,
            }
        }
    }

    /// Reads a map page into the arena, for a caller who then asks the map again.
    pub(crate) async fn load_page(&self, missing: Missing) -> Result<()> {
        let published = self.checkpoints.published.get();
        let loaded = self.media.read_map_page(missing).await;
        if loaded.is_err() && self.checkpoints.published.get() != published {
            // The map may not have this page any more, and the cleaner may have freed it and its base
            // while they were read. Whoever still needs it will miss it again.
            return Ok(());
        }
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
        let dirty_bytes = self.dirty_count() * 4096;
        let is_due = dirty_bytes > self.dirty_bytes_max()
            || self.pool.opened_since_table() >= SEGMENTS_PER_CHECKPOINT
            || self.cleaner.is_mark_wanted();
        if is_due {
            self.checkpoints.wanted.notify_one();
        }
    }

    /// Pages of maps and of the notebook that wait to be written.
    pub(crate) fn dirty_count(&self) -> u64 {
        let tree = self.tree.borrow();
        (tree.arena.dirty_count() + tree.notebook.dirty_count()) as u64
    }

    /// Dirty pages that start a checkpoint: half the map cache, and never more than the free
    /// segments could take.
    fn dirty_bytes_max(&self) -> u64 {
        let free = self.pool.cells_available() * self.pool.segment_bytes();
        (self.settings.map_cache_bytes / 2).min(free / 8).max(64 << 10)
    }
}
