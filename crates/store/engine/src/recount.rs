//! Recounts what volumes have written, and of their own, after an unmap dropped whole subtrees uncounted.

use std::rc::Rc;

use ashlar_format::Pointer;
use ashlar_format::catalogue::VolumeEntry;
use ashlar_runtime::Priority;
use ashlar_units::VolumeId;

use crate::Result;
use crate::apply::WRITTEN_UNKNOWN;
use crate::engine::Inner;
use crate::walk::{Visitor, Walk};

struct Count;

impl Visitor for Count {
    fn page(&mut self, _pointer: Pointer) {}
    fn leaf(&mut self, _pointers: &[Pointer]) {}
}

/// What is to be counted: a volume, its root on a drive, and where its own begins.
struct Uncounted {
    own_from: u64,
    id: VolumeId,
    root: Pointer,
}

impl Uncounted {
    fn of(entry: &VolumeEntry) -> Option<Uncounted> {
        let is_it = entry.written_blocks == WRITTEN_UNKNOWN && entry.root.as_in_memory().is_none();
        is_it.then_some(Uncounted { own_from: entry.own_from, id: entry.id, root: entry.root })
    }
}

impl Inner {
    /// Starts a recount of every volume whose count is unknown and whose map is on drives.
    pub(crate) fn recount_if_unknown(self: &Rc<Self>) {
        let tree = self.tree.borrow();
        let mut unknown: Vec<Uncounted> = tree.catalogue.entries().filter_map(Uncounted::of).collect();
        drop(tree);
        if unknown.is_empty() {
            return;
        }
        // A volume and its snapshots have their own from the same place on: one walk goes through what they
        // share once.
        unknown.sort_by_key(|volume| (volume.own_from, volume.id));
        let inner = self.clone();
        self.spawn(Priority::Background, async move {
            for alike in unknown.chunk_by(|one, next| one.own_from == next.own_from) {
                let mut walk = Walk::of_own(&inner, alike[0].own_from);
                for volume in alike {
                    // A page that cannot be read leaves the count unknown; the next checkpoint tries again.
                    let Ok(()) = inner.recount(&mut walk, volume).await else { return };
                }
            }
        });
    }

    /// Counts a volume anew, if its count is unknown and nothing is written to it meanwhile.
    pub(crate) async fn recount_now(&self, id: VolumeId) -> Result<()> {
        self.checkpoint_now(false).await?;
        let unknown = self.tree.borrow().catalogue.get(id).and_then(Uncounted::of);
        let Some(volume) = unknown else { return Ok(()) };
        self.recount(&mut Walk::of_own(self, volume.own_from), &volume).await
    }

    async fn recount(&self, walk: &mut Walk<'_>, volume: &Uncounted) -> Result<()> {
        let mapped = walk.visit_root(volume.root, &mut Count).await?;
        let mut tree = self.tree.borrow_mut();
        let is_same = tree.catalogue.get(volume.id).is_some_and(|entry| entry.root == volume.root);
        if is_same && let Some(entry) = tree.catalogue.get_mut(volume.id) {
            entry.written_blocks = mapped.data_blocks;
            entry.own_bytes = mapped.own_bytes;
        }
        Ok(())
    }
}
