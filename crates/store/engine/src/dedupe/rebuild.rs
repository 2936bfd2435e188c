//! A pass over the maps of volumes with dedupe: it brings a lost index back, and finds what was written
//! while the switch was off, or dropped. Online, and only while nothing written lately waits.

use ashlar_block::ExtentKind;
use ashlar_format::chunk::CHUNK_REGION_BLOCKS;
use ashlar_units::{BLOCK_BYTES, VolumeId};

use super::chunks::ChunkReader;
use crate::engine::Inner;

/// Blocks asked about at a time: the leaves of 8 MiB. A larger question would load more leaves before it
/// is answered.
const EXTENT_BLOCKS_MAX: u64 = 2048;
/// Blocks read at a time.
const STEP_BLOCKS: u64 = 64;

/// How far a pass is.
pub(super) struct Rebuild {
    /// Volumes to come, the next one last.
    volumes: Vec<(VolumeId, u64)>,
    /// The next block of the last of them.
    block: u64,
    done_blocks: u64,
    total_blocks: u64,
}

impl Rebuild {
    pub(super) fn percent(&self) -> u8 {
        ((self.done_blocks + self.block) * 100 / self.total_blocks.max(1)).min(100) as u8
    }

    fn finish_volume(&mut self) {
        if let Some((_, blocks)) = self.volumes.pop() {
            self.done_blocks += blocks;
        }
        self.block = 0;
    }
}

impl Inner {
    /// Starts a pass from the beginning.
    pub(super) fn begin_rebuild(&self) {
        let mut volumes: Vec<(VolumeId, u64)> = {
            let tree = self.tree.borrow();
            let wanted = tree.catalogue.volumes().filter(|entry| entry.dedupe);
            wanted.map(|entry| (entry.id, entry.size_bytes / BLOCK_BYTES)).collect()
        };
        // The oldest first: what was there first is what the others come to share.
        volumes.sort_unstable_by_key(|(id, _)| std::cmp::Reverse(*id));
        let total_blocks = volumes.iter().map(|(_, blocks)| blocks).sum();
        let rebuild = Rebuild { volumes, block: 0, done_blocks: 0, total_blocks };
        *self.dedupe.rebuild.borrow_mut() = Some(rebuild);
        self.dedupe.wake.notify_one();
    }

    /// One step; false when there is nothing to do now.
    pub(super) async fn rebuild_step(&self, reader: &mut ChunkReader) -> bool {
        // A full pool: go on when there is room again. Every checkpoint has it look.
        if self.dedupe.rebuild.borrow().is_none() || !self.has_room(None) {
            return false;
        }
        // Most of the pool is condemned until the mark is done, and the end of it rings.
        if self.cleaner.condemned.is_marking() {
            self.cleaner.news.notify_one();
            return false;
        }
        let Some((volume, block)) = self.rebuild_position() else {
            *self.dedupe.rebuild.borrow_mut() = None;
            return false;
        };
        let next = match self.blocks_to_dedupe(volume) {
            Some(blocks) if block < blocks => Some(self.rebuild_blocks(volume, block, blocks, reader).await),
            _ => None,
        };
        if let Some(rebuild) = &mut *self.dedupe.rebuild.borrow_mut()
            && rebuild.volumes.last().is_some_and(|(last, _)| *last == volume)
            && rebuild.block == block
        {
            match next {
                Some(next) => rebuild.block = next,
                None => rebuild.finish_volume(),
            }
        }
        self.runtime.yield_now().await;
        true
    }

    fn rebuild_position(&self) -> Option<(VolumeId, u64)> {
        let rebuild = self.dedupe.rebuild.borrow();
        let rebuild = rebuild.as_ref()?;
        Some((rebuild.volumes.last()?.0, rebuild.block))
    }

    /// Looks at some blocks; returns the first one after them.
    async fn rebuild_blocks(
        &self,
        volume: VolumeId,
        block: u64,
        volume_blocks: u64,
        reader: &mut ChunkReader,
    ) -> u64 {
        let asked = EXTENT_BLOCKS_MAX.min(volume_blocks - block);
        let extents = self.extents(volume, block * BLOCK_BYTES, asked * BLOCK_BYTES, 1).await;
        let first = extents.ok().and_then(|extents| extents.first().copied());
        // Deleted meanwhile, or a map page that cannot be read: hosts will be told.
        let Some(extent) = first else { return block + asked };
        let blocks = (extent.length_bytes / BLOCK_BYTES).max(1);
        if extent.kind != ExtentKind::Data {
            return block + blocks;
        }
        let end = (block + STEP_BLOCKS) / CHUNK_REGION_BLOCKS * CHUNK_REGION_BLOCKS;
        let count = blocks.min(end - block);
        let mut pointers = Vec::with_capacity(count as usize);
        if self.look_up(volume, block, count, &mut pointers).await.is_err() {
            return block + count;
        }
        let mut fingerprints = Vec::with_capacity(pointers.len());
        for pointer in pointers {
            let chunk = if pointer.is_data() { reader.read(self, pointer).await } else { None };
            fingerprints.push(chunk.map(|chunk| self.dedupe.key.of(chunk.block(pointer.block_index()))));
        }
        let is_again = self.dedupe_run(volume, block, fingerprints, reader).await;
        if is_again { block } else { block + count }
    }
}
