//! The images of a pool, slice by slice.

use ashlar_format::Pointer;
use ashlar_format::catalogue::{VolumeEntry, VolumeKind};
use ashlar_map::{Missing, ROOT_LEVEL, slot_span_blocks};
use ashlar_runtime::{LocalFuture, Priority};
use ashlar_units::VolumeId;

use super::Check;
use crate::Result;
use crate::apply::WRITTEN_UNKNOWN;
use crate::info::CheckReport;
use crate::walk::{Visitor, Walk, children_of};

/// Leaves of a slice: 16 MiB of a volume, a tenth of a second, or a few of them beside hosts.
const LEAVES_AT_ONCE: usize = 8;

struct Nothing;

impl Visitor for Nothing {
    fn page(&mut self, _pointer: Pointer) {}
    fn leaf(&mut self, _pointers: &[Pointer]) {}
}

impl Check<'_> {
    pub(super) async fn check_images(
        &mut self,
        between: impl AsyncFn(&CheckReport) -> Result<()>,
    ) -> Result<()> {
        self.read_images().await?;
        let ids: Vec<VolumeId> = self.images.entries.iter().map(|image| image.id).collect();
        for id in ids {
            let mut from = Some(0);
            while let Some(leaf) = from {
                between(&self.report).await?;
                self.inner.check_not_closing()?;
                let cleaner_waits = self.inner.hold_cleaner().await?;
                self.read_images().await?;
                let Some(image) = self.images.entries.iter().find(|image| image.id == id).cloned() else {
                    // Deleted meanwhile.
                    break;
                };
                from = self.check_slice(&image, leaf).await;
                drop(cleaner_waits);
                self.inner.runtime.yield_now().await;
            }
            self.compare_own(id).await?;
        }
        Ok(())
    }

    /// What a volume has of its own against what its entry says.
    async fn compare_own(&mut self, id: VolumeId) -> Result<()> {
        let _cleaner_waits = self.inner.hold_cleaner().await?;
        self.read_images().await?;
        let Some(image) = self.images.entries.iter().find(|image| image.id == id) else { return Ok(()) };
        if image.kind != VolumeKind::Volume || image.written_blocks == WRITTEN_UNKNOWN {
            return Ok(());
        }
        let (name, counted) = (image.full_name(), image.own_bytes);
        let mut walk = Walk::of_own(self.inner, image.own_from);
        // What cannot be read was told of.
        let walked = walk.visit_root(image.root, &mut Nothing).await;
        if let Ok(mapped) = walked
            && mapped.own_bytes != counted
        {
            let own = mapped.own_bytes;
            self.note(format!("{name}: {own} bytes are its own, {counted} are counted"));
        }
        self.inner.check_not_closing()
    }

    /// Reads what images there are, when another checkpoint was published.
    async fn read_images(&mut self) -> Result<()> {
        let checkpointer = self.inner.checkpointer.lock().await;
        let lsn = Some(self.inner.checkpoints.published_lsn.get());
        if self.images.lsn != lsn {
            self.images.entries = checkpointer.published_images().await?;
            self.images.lsn = lsn;
        }
        Ok(())
    }

    /// Verifies some leaves of an image, from this one on. Returns where to go on; `None` at its end.
    async fn check_slice(&mut self, image: &VolumeEntry, from: u64) -> Option<u64> {
        if !image.root.is_page() {
            return None;
        }
        let name = image.full_name();
        let mut leaves = Vec::new();
        let root = Missing { pointer: image.root, level: ROOT_LEVEL, index: 0 };
        self.find_leaves(&name, root, from, &mut leaves).await;
        let Some(last) = leaves.last() else {
            self.compare_counts(image);
            return None;
        };
        let next = last.index + 1;
        let chunks = self.read_leaves(&name, &leaves).await;
        self.check_chunks(&name, chunks).await;
        Some(next)
    }

    /// Gathers leaves below a page that are not done with. When all are, so is the page; not when some came
    /// in the place of one that was, before `from`.
    fn find_leaves<'b>(
        &'b mut self,
        name: &'b str,
        at: Missing,
        from: u64,
        leaves: &'b mut Vec<Missing>,
    ) -> LocalFuture<'b, ()> {
        Box::pin(async move {
            if self.done.contains_key(&at.pointer) {
                return;
            }
            let page = match self.inner.media.read_map_page(at).await {
                Ok(page) => page,
                Err(error) => {
                    self.note_of(name, &error);
                    self.done.insert(at.pointer, None);
                    return;
                }
            };
            let found_before = leaves.len();
            let children = children_of(at, &page);
            for child in &children {
                // A page spans as many leaves as each of its slots spans blocks.
                let end = (child.index + 1) * slot_span_blocks(child.level);
                if leaves.len() == LEAVES_AT_ONCE {
                    return;
                }
                if end <= from || self.done.contains_key(&child.pointer) {
                    continue;
                }
                match child.level {
                    0 => leaves.push(*child),
                    _ => self.find_leaves(name, *child, from, leaves).await,
                }
            }
            let is_done = |child: &Missing| self.done.contains_key(&child.pointer);
            if leaves.len() == found_before && children.iter().all(is_done) {
                let mapped = children.iter().map(|child| self.done[&child.pointer]).sum();
                self.done.insert(at.pointer, mapped);
                self.report.pages += 1;
            }
        })
    }

    /// Reads leaves; returns the blocks that they map.
    async fn read_leaves(&mut self, name: &str, leaves: &[Missing]) -> Vec<Pointer> {
        let read = |leaf: &Missing| {
            let (media, leaf) = (self.inner.media.clone(), *leaf);
            let read = async move { media.read_map_page(leaf).await };
            self.inner.runtime.spawn(Priority::Background, read)
        };
        let reads: Vec<_> = leaves.iter().map(read).collect();
        let mut blocks = Vec::new();
        for (leaf, read) in leaves.iter().zip(reads) {
            let mapped = match read.await {
                Ok(page) => {
                    let before = blocks.len();
                    blocks.extend(page.pointers().iter().filter(|pointer| pointer.is_data()));
                    self.report.pages += 1;
                    Some((blocks.len() - before) as u64)
                }
                Err(error) => {
                    self.note_of(name, &error);
                    None
                }
            };
            self.done.insert(leaf.pointer, mapped);
        }
        blocks
    }

    /// What an image maps against what its entry says.
    fn compare_counts(&mut self, image: &VolumeEntry) {
        let mapped = self.done.get(&image.root).copied().flatten();
        let counted = Some(image.written_blocks).filter(|blocks| *blocks != WRITTEN_UNKNOWN);
        if let (Some(mapped), Some(counted)) = (mapped, counted)
            && mapped != counted
        {
            self.note(format!("{}: {mapped} blocks are mapped, {counted} are counted", image.full_name()));
        }
    }
}
