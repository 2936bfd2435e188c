//! Segments that writes are under way to: a checkpoint must not take one for settled, sealed or not. A drive
//! that then fails the write, or loses it with the power, would not get it back when it returns.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use ashlar_units::{Fault, SegmentId, planted};

use crate::Pool;

/// Writes under way, for each segment that has any.
#[derive(Clone, Default)]
pub(crate) struct UnderWay {
    counts: Rc<RefCell<BTreeMap<SegmentId, u32>>>,
}

impl UnderWay {
    /// The least number of a segment that writes are under way to.
    pub(crate) fn least(&self) -> Option<SegmentId> {
        let counts = self.counts.borrow();
        counts.keys().next().copied().filter(|_| !planted(Fault::SettledUnderWay))
    }

    fn begin(&self, segment: SegmentId) -> AnnouncedWrite {
        *self.counts.borrow_mut().entry(segment).or_default() += 1;
        AnnouncedWrite { under_way: self.clone(), segment }
    }
}

/// A write that is under way until this is dropped.
pub struct AnnouncedWrite {
    under_way: UnderWay,
    segment: SegmentId,
}

impl Drop for AnnouncedWrite {
    fn drop(&mut self) {
        let mut counts = self.under_way.counts.borrow_mut();
        let Some(count) = counts.get_mut(&self.segment) else { return };
        *count -= 1;
        if *count == 0 {
            counts.remove(&self.segment);
        }
    }
}

impl Pool {
    /// Announces a write that a task of its own will make: the segment may be sealed before that task takes
    /// its first step. Only drives of pools with protection come back, so only those count.
    #[must_use]
    pub fn announce_write(&self, segment: SegmentId) -> Option<AnnouncedWrite> {
        self.inner.striping.as_ref().map(|_| self.inner.under_way.begin(segment))
    }
}
