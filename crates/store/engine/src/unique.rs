//! How many bytes on the drives only one volume refers to: what deleting it would give back.
//!
//! Without dedupe blocks are shared only along snapshots and clones, so only the volume's family is
//! walked. The answer is exact for the last checkpoint, which is taken first.

use std::collections::BTreeSet;

use ashlar_format::Pointer;
use ashlar_units::VolumeId;
use rustc_hash::FxHashMap;

use crate::Result;
use crate::catalogue::Catalogue;
use crate::engine::Engine;
use crate::walk::{Visitor, Walk};

/// Blocks of a family beyond which the question is not answered on the spot: 64 GiB of data, some
/// seconds of walking.
const FAMILY_BLOCKS_MAX: u64 = 16 << 20;

/// The chunks of the volume, and whether somebody else refers to them too.
#[derive(Default)]
struct Chunks {
    is_shared: FxHashMap<Pointer, bool>,
    are_others: bool,
}

impl Visitor for Chunks {
    fn page(&mut self, _pointer: Pointer) {}

    fn leaf(&mut self, pointers: &[Pointer]) {
        for pointer in pointers.iter().filter(|pointer| pointer.is_data()) {
            if !self.are_others {
                self.is_shared.insert(pointer.chunk(), false);
            } else if let Some(is_shared) = self.is_shared.get_mut(&pointer.chunk()) {
                *is_shared = true;
            }
        }
    }
}

impl Engine {
    /// Bytes of chunks that only this volume refers to; `None` when its family is too large to walk
    /// on the spot.
    pub async fn unique_bytes(&self, name: &str) -> Result<Option<u64>> {
        let inner = &self.inner;
        let id = inner.volume_id(name)?;
        let has_news = inner.applied.get().next_lsn.0 != inner.checkpoints.published_lsn.get();
        if has_news && inner.check_online().is_ok() {
            inner.checkpoint_now(false).await?;
        }
        // Keeps the cleaner from freeing what is being walked.
        let _checkpointer = inner.checkpointer.lock().await;
        let (own, others, blocks) = {
            let mut tree = inner.tree.borrow_mut();
            let tree = &mut *tree;
            let family = family(&tree.catalogue, id);
            let mut roots = Vec::new();
            let mut own = Pointer::HOLE;
            let mut blocks = 0_u64;
            for member in family {
                let Some(entry) = tree.catalogue.get(member) else { continue };
                blocks = blocks.saturating_add(entry.written_blocks);
                // What changed since the checkpoint is in memory and left out: a moment's writes.
                let root = tree.arena.root_media(entry.root).unwrap_or(Pointer::HOLE);
                if member == id { own = root } else { roots.push(root) }
            }
            (own, roots, blocks)
        };
        if blocks > FAMILY_BLOCKS_MAX {
            return Ok(None);
        }
        let mut chunks = Chunks::default();
        Walk::new(inner, true).visit_root(own, &mut chunks).await?;
        chunks.are_others = true;
        let mut walk = Walk::new(inner, true);
        for root in others {
            walk.visit_root(root, &mut chunks).await?;
        }
        #[allow(clippy::disallowed_methods, reason = "a sum: the order does not matter")]
        let unique = chunks.is_shared.iter().filter(|(_, is_shared)| !**is_shared);
        Ok(Some(unique.map(|(chunk, _)| chunk.length_bytes_max()).sum()))
    }
}

/// Everything connected to a volume by snapshots and clones, deleted links between them included
/// as far as the survivors name them.
fn family(catalogue: &Catalogue, id: VolumeId) -> BTreeSet<VolumeId> {
    let mut names = BTreeSet::from([id]);
    loop {
        let before = names.len();
        for entry in catalogue.entries() {
            let has_origin = entry.origin != VolumeId(0);
            if names.contains(&entry.id) && has_origin {
                names.insert(entry.origin);
            } else if has_origin && names.contains(&entry.origin) {
                names.insert(entry.id);
            }
        }
        if names.len() == before {
            return names;
        }
    }
}
