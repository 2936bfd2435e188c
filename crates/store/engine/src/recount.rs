//! Recounts the written blocks of volumes after an unmap dropped whole subtrees uncounted.

use std::rc::Rc;

use ashlar_format::Pointer;
use ashlar_runtime::Priority;
use ashlar_units::VolumeId;

use crate::apply::WRITTEN_UNKNOWN;
use crate::engine::Inner;
use crate::walk::{Visitor, Walk};

struct Count;

impl Visitor for Count {
    fn page(&mut self, _pointer: Pointer) {}
    fn leaf(&mut self, _pointers: &[Pointer]) {}
}

impl Inner {
    /// Starts a recount of every volume whose count is unknown and whose map is on drives.
    pub(crate) fn recount_if_unknown(self: &Rc<Self>) {
        let unknown: Vec<(VolumeId, Pointer)> = {
            let tree = self.tree.borrow();
            let entries = tree.catalogue.entries().filter(|entry| entry.written_blocks == WRITTEN_UNKNOWN);
            entries
                .filter(|entry| entry.root.as_in_memory().is_none())
                .map(|entry| (entry.id, entry.root))
                .collect()
        };
        if unknown.is_empty() {
            return;
        }
        let inner = self.clone();
        self.spawn(Priority::Background, async move {
            let mut walk = Walk::new(&inner);
            for (id, root) in unknown {
                // A page that cannot be read leaves the count unknown; the next checkpoint tries again.
                let Ok(mapped) = walk.visit_root(root, &mut Count).await else { return };
                let mut tree = inner.tree.borrow_mut();
                let is_same = tree.catalogue.get(id).is_some_and(|entry| entry.root == root);
                if is_same && let Some(entry) = tree.catalogue.get_mut(id) {
                    entry.written_blocks = mapped.data_blocks;
                }
            }
        });
    }
}
