//! What the running cycle may free: nobody may come to refer to it any more.
//!
//! ```text
//! begin    every candidate is condemned: the mark may not have seen what it holds
//! judged   the mark is done: what it found alive stays (moved or not), the rest is dead for good
//! end      everything planned is applied: what is left in the pool may be referred to again
//! ```

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use ashlar_format::segment::SegmentEntry;
use ashlar_units::SegmentId;

use super::marks::Marks;

#[derive(Default)]
pub(crate) struct Condemned {
    cycle: RefCell<Option<Cycle>>,
}

struct Cycle {
    candidates: BTreeSet<SegmentId>,
    marks: Option<Rc<Marks>>,
}

impl Condemned {
    pub(super) fn begin(&self, candidates: &[SegmentEntry]) {
        let candidates = candidates.iter().map(|entry| entry.segment).collect();
        *self.cycle.borrow_mut() = Some(Cycle { candidates, marks: None });
    }

    pub(super) fn judged(&self, marks: &Rc<Marks>) {
        if let Some(cycle) = &mut *self.cycle.borrow_mut() {
            cycle.marks = Some(marks.clone());
        }
    }

    pub(super) fn end(&self) {
        *self.cycle.borrow_mut() = None;
    }

    /// True while a cycle is under way.
    pub(crate) fn is_cycle(&self) -> bool {
        self.cycle.borrow().is_some()
    }

    /// True while the mark is under way: what is condemned now may be found alive soon.
    pub(crate) fn is_marking(&self) -> bool {
        self.cycle.borrow().as_ref().is_some_and(|cycle| cycle.marks.is_none())
    }

    /// True when this block of the chunk born at this address may be freed by the running cycle: it is in
    /// a candidate, or it was moved and its relocation may go. The cleaner trims by the same marks.
    pub(crate) fn has(
        &self,
        segment: SegmentId,
        offset_bytes: u64,
        block_index: usize,
        is_moved: bool,
    ) -> bool {
        let cycle = self.cycle.borrow();
        let is_in_question = |cycle: &&Cycle| is_moved || cycle.candidates.contains(&segment);
        let Some(cycle) = cycle.as_ref().filter(is_in_question) else { return false };
        let marks = cycle.marks.as_ref().and_then(|marks| marks.of(segment));
        !marks.is_some_and(|marks| marks.has_block(offset_bytes, block_index))
    }
}
