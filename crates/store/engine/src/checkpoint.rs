//! A checkpoint: an internal snapshot at an exact LSN, made durable.
//!
//! ```text
//! cut (no await): share every dirty root, copy the changed pages of the volume table and the notebook
//! write: map pages children first · volume table · notebook · relocation table · segment table
//!        · flush the drives
//! publish: superblock on a majority
//! settle: live roots that did not change since take their media pointers
//! ```
//!
//! Live writes go on all the time: the shared roots make them copy what the checkpoint still holds.

use std::cell::RefCell;
use std::collections::BTreeMap;

use ashlar_format::Pointer;
use ashlar_format::catalogue::{VOLUME_ENTRY_BYTES, VolumeEntry, VolumeKind};
use ashlar_format::page::{PageContent, PageIdentity};
use ashlar_format::superblock::JournalPosition;
use ashlar_map::{PageNumber, WriteOrder};
use ashlar_pool::Pool;
use ashlar_units::{Fault, Lsn, VolumeId, planted};

use crate::apply::Tree;
use crate::catalogue::FrozenTablePage;
use crate::media::Media;
use crate::metadata::MetadataStream;
use crate::notebook::FrozenNotes;
use crate::relocations::identity;
use crate::tables::{Located, TableDirectory, Tables};
use crate::{Error, ErrorKind, Result};

/// Everything below this is in the state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Applied {
    pub(crate) end: JournalPosition,
    pub(crate) next_lsn: Lsn,
}

/// The state at an LSN, frozen.
pub(crate) struct Cut {
    pub(crate) applied: Applied,
    is_clean: bool,
    frozen: BTreeMap<VolumeId, Pointer>,
    pages: Vec<FrozenTablePage>,
    notes: FrozenNotes,
    volume_next: u64,
}

impl Cut {
    /// Freezes the state. Nothing may be half applied.
    pub(crate) fn take(tree: &mut Tree, applied: Applied, is_clean: bool) -> Cut {
        let mut frozen = BTreeMap::new();
        for id in tree.catalogue.dirty_roots() {
            let Some(root) = tree.catalogue.root_mut(id) else { continue };
            tree.arena.normalise(root);
            if root.as_in_memory().is_some() {
                frozen.insert(id, tree.arena.share(*root));
            } else {
                tree.catalogue.root_is_clean(id);
            }
        }
        let pages = tree.catalogue.take_dirty_pages();
        let notes = tree.notebook.take_dirty_pages();
        Cut { applied, is_clean, frozen, pages, notes, volume_next: tree.catalogue.volume_next }
    }
}

/// Writes checkpoints of one pool, one at a time.
pub(crate) struct Checkpointer {
    pool: Pool,
    media: Media,
    pub(crate) stream: MetadataStream,
    pub(crate) tables: Tables,
    /// Features to be noted in the superblock from the next checkpoint on.
    pub(crate) incompatible: u64,
}

impl Checkpointer {
    pub(crate) fn new(media: &Media, tables: Tables) -> Checkpointer {
        let stream = MetadataStream::new(&media.pool);
        Checkpointer { pool: media.pool.clone(), media: media.clone(), stream, tables, incompatible: 0 }
    }

    /// Every volume and image in the published volume table, read from the drives. The catalogue in memory
    /// has no place on a drive for the roots of those that were written to since.
    pub(crate) async fn published_images(&self) -> Result<Vec<VolumeEntry>> {
        let volumes = &self.tables.volumes;
        let mut images = Vec::new();
        for (page, located) in volumes.pages().iter().enumerate() {
            if !located.pointer.is_page() {
                continue;
            }
            let bytes = self.media.read_page_here(located.pointer, volumes.page_identity(page)).await?;
            for slot in bytes.chunks_exact(VOLUME_ENTRY_BYTES) {
                let entry = VolumeEntry::decode(slot).map_err(|damage| {
                    Error::new(ErrorKind::Damaged, format!("volume table page {page}: {damage}"))
                })?;
                images.extend(entry);
            }
        }
        name_origins(&mut images);
        Ok(images)
    }

    /// Writes and publishes a cut. When the pool has no segment left the cut is given up and the
    /// state stays as it was: dirty. Any other failure leaves the pool fenced.
    pub(crate) async fn write(&mut self, mut cut: Cut, tree: &RefCell<Tree>) -> Result<()> {
        let mut pinned = Vec::new();
        let volumes_before = (self.tables.volumes.clone(), self.tables.volume_root);
        let notebook_before = (self.tables.notebook.clone(), self.tables.notebook_root);
        let result = self.write_pages(&mut cut, tree, &mut pinned).await;
        let result = match result {
            Ok(()) => self.publish(&cut).await,
            Err(error) => Err(error),
        };
        if result.is_err() {
            // A check and the accounts read the images of the checkpoint published, not of half of this one.
            // The cleaner does, too: what it frees is free with the next checkpoint only, which is whole.
            (self.tables.volumes, self.tables.volume_root) = volumes_before;
            (self.tables.notebook, self.tables.notebook_root) = notebook_before;
            // What was appended has an address already and must be readable there.
            if self.stream.flush().await.is_err() {
                self.pool.fence();
            }
        }
        let mut tree = tree.borrow_mut();
        let tree = &mut *tree;
        pinned.into_iter().for_each(|page| tree.arena.unpin(page));
        self.media.relocations.borrow_mut().settle();
        match &result {
            Ok(()) => {
                self.stream.unpublished.clear();
                settle(tree, &cut);
            }
            Err(error) => {
                if error.kind != ErrorKind::NoSpace {
                    self.pool.fence();
                }
                cut.frozen.values().for_each(|root| tree.arena.release(*root));
                if !planted(Fault::GivenUpTableForgotten) {
                    tree.catalogue.mark_dirty(cut.pages.iter().map(|page| page.page));
                }
                tree.notebook.mark_dirty(cut.notes.pages.iter().map(|(page, _)| *page));
            }
        }
        result
    }

    async fn write_pages(
        &mut self,
        cut: &mut Cut,
        tree: &RefCell<Tree>,
        pinned: &mut Vec<PageNumber>,
    ) -> Result<()> {
        let lsn = cut.applied.next_lsn;
        for (id, root) in &mut cut.frozen {
            let mut order = WriteOrder::new(*root);
            loop {
                self.stream.reserve(1, lsn).await?;
                let mut tree = tree.borrow_mut();
                let Some(next) = order.next(&tree.arena) else { break };
                let identity = PageIdentity {
                    content: PageContent::Map,
                    level: next.level,
                    tree: id.0,
                    index: next.index,
                };
                let record = tree.arena.encode(next.page);
                let (located, form) = self.stream.append_map_page(identity, lsn, &record);
                tree.arena.set_persisted(next.page, located.pointer, form);
                pinned.push(next.page);
            }
            let is_clean = tree.borrow_mut().arena.normalise(root);
            assert!(is_clean, "checkpoint left a dirty page under volume {id}");
        }
        for page in &cut.pages {
            self.stream.reserve(1, lsn).await?;
            let bytes = page.encode(|entry| {
                let root = cut.frozen.get(&entry.id).copied().unwrap_or(entry.root);
                assert!(root.as_in_memory().is_none(), "root of volume {} is not on a drive", entry.id);
                root
            });
            let located = self.stream.append(self.tables.volumes.page_identity(page.page), lsn, &bytes);
            let is_there =
                self.tables.volumes.pages().get(page.page).is_some_and(|old| old.pointer.is_page());
            if !(planted(Fault::VolumeTablePageTooOld) && is_there) {
                self.tables.volumes.set_page(page.page, located);
            }
        }
        let root = write_directories(&mut self.stream, &mut self.tables.volumes, lsn).await?;
        if let Some(root) = root {
            self.tables.volume_root = root.pointer;
        }
        self.write_notebook(&cut.notes, lsn).await?;
        self.write_relocations(lsn).await
    }

    async fn write_notebook(&mut self, notes: &FrozenNotes, lsn: Lsn) -> Result<()> {
        let Tables { notebook, notebook_root, .. } = &mut self.tables;
        if notes.is_empty {
            *notebook = TableDirectory::new(PageContent::Notebook);
            *notebook_root = Pointer::HOLE;
            return Ok(());
        }
        for (page, bytes) in &notes.pages {
            let located = match bytes {
                Some(bytes) => {
                    self.stream.reserve(1, lsn).await?;
                    self.stream.append(notebook.page_identity(*page), lsn, bytes)
                }
                None => Located::default(),
            };
            notebook.set_page(*page, located);
        }
        if let Some(root) = write_directories(&mut self.stream, notebook, lsn).await? {
            *notebook_root = root.pointer;
        }
        Ok(())
    }

    /// Nobody changes the relocation table meanwhile: only the cleaner does, and it holds us then.
    async fn write_relocations(&mut self, lsn: Lsn) -> Result<()> {
        let dirty = self.media.relocations.borrow().dirty_pages();
        for slot in dirty {
            self.stream.reserve(1, lsn).await?;
            let mut relocations = self.media.relocations.borrow_mut();
            let located = self.stream.append(identity(0, slot), lsn, &relocations.encode_page(slot));
            relocations.set_page(slot, located.pointer);
        }
        let changed = self.media.relocations.borrow().changed_directories();
        for index in changed {
            self.stream.reserve(1, lsn).await?;
            let mut relocations = self.media.relocations.borrow_mut();
            let located = self.stream.append(identity(1, index), lsn, &relocations.encode_directory(index));
            relocations.set_directory(index, located.pointer);
        }
        if self.media.relocations.borrow().is_root_stale() {
            self.stream.reserve(1, lsn).await?;
            let mut relocations = self.media.relocations.borrow_mut();
            let located = self.stream.append(identity(2, 0), lsn, &relocations.encode_root());
            relocations.set_root(located.pointer);
        }
        Ok(())
    }

    /// Writes the segment table as of now and the superblock that names everything.
    async fn publish(&mut self, cut: &Cut) -> Result<()> {
        let lsn = cut.applied.next_lsn;
        // Writing pages opens segments, which changes the table: write most of it first, then the
        // rest in one go without opening anything.
        loop {
            let dirty = self.dirty_segment_pages();
            let records = self.records_to_finish(&dirty);
            if dirty.len() <= 1
                || records * crate::metadata::RECORD_BYTES_MAX <= self.pool.segment_bytes() / 4
            {
                self.stream.reserve(records + SPARE_RECORDS, lsn).await?;
                break;
            }
            self.stream.reserve(1, lsn).await?;
            self.append_segment_page(dirty[0], lsn);
        }
        let dirty = self.dirty_segment_pages();
        let records = self.records_to_finish(&dirty);
        self.stream.note_used(records + SPARE_RECORDS);
        let recorded = self.pool.opened_mark();
        self.pool.with_table_mut(ashlar_pool::SegmentTable::publish_freed);
        for page in self.dirty_segment_pages() {
            self.append_segment_page(page, lsn);
        }
        let segments = &mut self.tables.segments;
        for index in segments.changed_directories() {
            let identity = segments.directory_identity(1, index);
            let located = self.stream.append(identity, lsn, &segments.encode_directory(index));
            segments.set_directory(index, located);
        }
        let root = self.stream.append(segments.directory_identity(2, 0), lsn, &segments.encode_root());
        self.tables.segment_root = root.pointer;
        self.stream.flush().await?;
        if !planted(Fault::CheckpointNotFlushed) {
            self.pool.sync().await?;
        }
        let (volume_root, notebook_root) = (self.tables.volume_root, self.tables.notebook_root);
        let relocation_root = self.media.relocations.borrow().root();
        let (applied, is_clean, volume_next) = (cut.applied, cut.is_clean, cut.volume_next);
        let incompatible = self.incompatible;
        self.pool
            .commit(&recorded, move |superblock| {
                superblock.is_clean = is_clean;
                superblock.checkpoint =
                    Lsn(applied.next_lsn.0 + u64::from(planted(Fault::CheckpointLsnTooHigh)));
                superblock.journal = applied.end;
                superblock.volume_table = volume_root;
                superblock.segment_table = root.pointer;
                superblock.segment_table_place = root.place;
                superblock.volume_next = volume_next;
                superblock.relocation_table = relocation_root;
                superblock.notebook = notebook_root;
                superblock.set_incompatible(incompatible);
            })
            .await?;
        Ok(())
    }

    fn append_segment_page(&mut self, page: usize, lsn: Lsn) {
        let bytes = self.pool.with_table_mut(|table| table.encode_page(page));
        let located = self.stream.append(self.tables.segments.page_identity(page), lsn, &bytes);
        self.tables.segments.set_page(page, located);
    }

    fn dirty_segment_pages(&self) -> Vec<usize> {
        self.pool
            .with_table(|table| (0..table.page_count()).filter(|page| table.is_page_dirty(*page)).collect())
    }

    /// Pages, at most as many directories, and the root.
    fn records_to_finish(&self, dirty: &[usize]) -> u64 {
        let fan_out = self.tables.segments.directory_fan_out();
        let pages = self.pool.with_table(ashlar_pool::SegmentTable::page_count);
        (dirty.len() + pages.div_ceil(fan_out) + 1) as u64
    }
}

/// Pages that opening a segment, sealing another and noting the end may dirty beside the known ones.
const SPARE_RECORDS: u64 = 8;

/// Images go by the present name of their volume, where it is still there.
fn name_origins(images: &mut [VolumeEntry]) {
    let volumes = images.iter().filter(|entry| entry.is_alive_volume());
    let names: BTreeMap<VolumeId, String> = volumes.map(|entry| (entry.id, entry.name.clone())).collect();
    for image in images.iter_mut().filter(|entry| entry.kind == VolumeKind::Snapshot) {
        if let Some(name) = names.get(&image.origin) {
            image.origin_name.clone_from(name);
        }
    }
}

/// Writes changed directories and, if any changed, the root. Returns the new root.
async fn write_directories(
    stream: &mut MetadataStream,
    table: &mut TableDirectory,
    lsn: Lsn,
) -> Result<Option<Located>> {
    let changed = table.changed_directories();
    if changed.is_empty() {
        return Ok(None);
    }
    for index in changed {
        stream.reserve(1, lsn).await?;
        let located = stream.append(table.directory_identity(1, index), lsn, &table.encode_directory(index));
        table.set_directory(index, located);
    }
    stream.reserve(1, lsn).await?;
    Ok(Some(stream.append(table.directory_identity(2, 0), lsn, &table.encode_root())))
}

/// Live roots that are still what was frozen take their media pointers; the freeze is over.
fn settle(tree: &mut Tree, cut: &Cut) {
    for id in cut.frozen.keys() {
        let Some(root) = tree.catalogue.root_mut(*id) else { continue };
        if (tree.arena.normalise(root) && root.as_in_memory().is_none())
            || planted(Fault::ChangedRootTakenForClean)
        {
            tree.catalogue.root_is_clean(*id);
        }
    }
}
