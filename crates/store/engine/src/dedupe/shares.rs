//! What was shared or copied since the last published checkpoint: alive, although its roots may not say so.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use ashlar_format::Pointer;
use ashlar_runtime::sync::Notify;

/// Shares between two checkpoints: 2 MiB. Dedupe and copies ask for a checkpoint and wait when it is full.
const SHARES_MAX: usize = 64 << 10;

/// Names an entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShareNumber(u64);

struct Share {
    /// The first block that is shared.
    pointer: Pointer,
    /// How many of its chunk.
    blocks: usize,
    /// Cuts taken when the share was known to be applied; `None` before.
    applied_after_cut: Option<u64>,
}

/// The list.
#[derive(Default)]
pub(crate) struct ShareList {
    shares: RefCell<BTreeMap<ShareNumber, Share>>,
    next: Cell<u64>,
    /// Rung when there may be room.
    pruned: Notify,
}

impl ShareList {
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.shares.borrow().len() + more <= SHARES_MAX
    }

    /// Notes a share that is about to be submitted.
    pub(crate) fn add(&self, pointer: Pointer, blocks: usize) -> ShareNumber {
        let number = ShareNumber(self.next.get());
        self.next.set(number.0 + 1);
        self.shares.borrow_mut().insert(number, Share { pointer, blocks, applied_after_cut: None });
        number
    }

    /// It was applied (or overtaken); so many cuts were taken by now. That may be later than when it was
    /// applied: then it is kept for one checkpoint more than needed.
    pub(crate) fn applied(&self, number: ShareNumber, cuts: u64) {
        if let Some(share) = self.shares.borrow_mut().get_mut(&number) {
            share.applied_after_cut = Some(cuts);
        }
    }

    /// The cut of this number is on the drives: it holds what was applied before it was taken.
    pub(super) fn published(&self, cut: u64) {
        let is_in = |share: &Share| share.applied_after_cut.is_some_and(|before| before < cut);
        self.shares.borrow_mut().retain(|_, share| !is_in(share));
        self.ring();
    }

    /// The blocks that are shared.
    pub(crate) fn pointers(&self) -> Vec<Pointer> {
        let blocks = |share: &Share| {
            let first = share.pointer;
            (0..share.blocks).map(move |index| first.with_block_index(first.block_index() + index))
        };
        self.shares.borrow().values().flat_map(blocks).collect()
    }

    pub(super) fn ring(&self) {
        self.pruned.notify_waiters();
    }

    /// Waits until the list was pruned, or the pool closes.
    pub(super) fn changed(&self) -> ashlar_runtime::sync::Notified {
        self.pruned.notified()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_units::SegmentId;

    #[test]
    fn a_share_is_kept_until_a_cut_taken_after_it_is_published() {
        let list = ShareList::default();
        let pointer = |segment| Pointer::data(SegmentId(segment), 640, 100);
        let (first, second) = (list.add(pointer(1), 2), list.add(pointer(2), 1));
        list.applied(first, 4);
        list.published(4);
        assert_eq!(list.pointers(), [pointer(1), pointer(1).with_block_index(1), pointer(2)]);
        list.published(5);
        assert_eq!(list.pointers(), [pointer(2)]);
        list.applied(second, 5);
        list.published(6);
        assert!(list.pointers().is_empty());
    }
}
