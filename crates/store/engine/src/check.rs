//! `check`: everything below every image read from the drives and verified; the oracle's oracle.

use ashlar_format::Pointer;
use ashlar_format::pointer::PLACE_UNIT_BYTES;

use crate::Result;
use crate::engine::Engine;
use crate::info::CheckReport;
use crate::read_path::open_chunk;
use crate::walk::{Visitor, Walk};

/// Errors listed at most: the first ones tell the story.
const ERRORS_MAX: usize = 100;

#[derive(Default)]
struct Gather {
    chunks: Vec<Pointer>,
}

impl Visitor for Gather {
    fn page(&mut self, _pointer: Pointer) {}

    fn leaf(&mut self, pointers: &[Pointer]) {
        self.chunks.extend(pointers.iter().filter(|pointer| pointer.is_data()));
    }
}

impl Engine {
    /// Writes a checkpoint, then reads every map page and every chunk below every image from the
    /// drives and verifies header, place and checksum. Runs beside I/O.
    pub async fn check(&self) -> Result<CheckReport> {
        let inner = &self.inner;
        if inner.check_online().is_ok() {
            inner.checkpoint_now(false).await?;
        }
        // Keeps the cleaner from freeing what is being read.
        let checkpointer = inner.checkpointer.lock().await;
        let mut report = CheckReport::default();
        let mut walk = Walk::new(inner, false);
        for pointer in checkpointer.tables.all() {
            self.check_place(pointer, &mut report).await;
        }
        self.check_relocations(&mut report).await;
        let images: Vec<(String, Pointer, u64)> = {
            let mut tree = inner.tree.borrow_mut();
            let tree = &mut *tree;
            // Each image as it is now; sharing keeps live writes from changing what is walked.
            let entries: Vec<_> = tree.catalogue.entries().cloned().collect();
            entries
                .iter()
                .map(|entry| (entry.name.clone(), tree.arena.share(entry.root), entry.written_blocks))
                .collect()
        };
        for (name, root, written_blocks) in &images {
            let Some(root) = inner.tree.borrow().arena.root_media(*root) else {
                // Changed since the checkpoint: its pages are in memory and verified when written.
                continue;
            };
            let mut gather = Gather::default();
            match walk.visit_root(root, &mut gather).await {
                Ok(mapped) => {
                    let blocks = mapped.data_blocks;
                    let is_known = *written_blocks != crate::apply::WRITTEN_UNKNOWN;
                    if is_known && blocks != *written_blocks {
                        let line =
                            format!("{name}: {blocks} blocks are mapped, {written_blocks} are counted");
                        note(&mut report, line);
                    }
                }
                Err(error) => note(&mut report, format!("{name}: {error}")),
            }
            self.check_chunks(name, gather.chunks, &mut report).await?;
        }
        let mut tree = inner.tree.borrow_mut();
        images.iter().for_each(|(_, root, _)| tree.arena.release(*root));
        report.pages = walk.pages;
        Ok(report)
    }

    async fn check_chunks(
        &self,
        name: &str,
        mut blocks: Vec<Pointer>,
        report: &mut CheckReport,
    ) -> Result<()> {
        let inner = &self.inner;
        blocks.sort_unstable();
        blocks.dedup();
        let mut scratch = Vec::new();
        for of_chunk in blocks.chunk_by(|one, next| one.chunk() == next.chunk()) {
            let pointer = of_chunk[0];
            self.check_place(pointer, report).await;
            let verified = inner.media.read_proven(pointer, |bytes| {
                let chunk = open_chunk(pointer, bytes, &mut scratch)?;
                of_chunk.iter().try_for_each(|pointer| chunk.block(*pointer).map(drop))
            });
            match verified.await {
                Ok(()) => {
                    report.chunks += 1;
                    report.live_bytes += pointer.length_bytes_max();
                }
                Err(error) => note(report, format!("{name}: {error}")),
            }
        }
        Ok(())
    }

    /// Every page of the relocation table reads, and speaks of segments that are gone.
    async fn check_relocations(&self, report: &mut CheckReport) {
        let media = &self.inner.media;
        let pages = media.relocations.borrow().pages();
        for (slot, segment) in pages {
            if media.pool.has_segment(segment) {
                note(report, format!("segment {segment} is in the table and relocated"));
            }
            if let Err(error) = media.relocated_from(slot).await {
                note(report, format!("relocations of segment {segment}: {error}"));
            }
            report.pages += 1;
        }
    }

    /// The segment is in the table and was written that far.
    async fn check_place(&self, pointer: Pointer, report: &mut CheckReport) {
        // What cannot be located cannot be read either: the reading tells.
        let Ok(location) = self.inner.media.locate(pointer).await else { return };
        let used = self.inner.pool.with_table(|table| {
            table.find(location.segment).map(|entry| u64::from(entry.used_units) * PLACE_UNIT_BYTES)
        });
        match used {
            None => note(report, format!("{pointer:?} is in a segment that is not in the table")),
            Some(used) if location.offset_bytes >= used => {
                note(report, format!("{pointer:?} lies beyond the {used} bytes written of its segment"));
            }
            Some(_) => {}
        }
    }
}

fn note(report: &mut CheckReport, line: String) {
    if report.errors.len() < ERRORS_MAX {
        report.errors.push(line);
    }
}
