//! What an operator may do to dedupe while it runs: nothing that could cost more than savings.

use crate::engine::Engine;
use crate::info::DedupeStatus;
use crate::{Error, ErrorKind, Result};

/// A smaller index holds nothing worth its name. Arbitrary.
const INDEX_BYTES_MIN: u64 = 64 << 10;

impl Engine {
    /// Goes over all volumes with dedupe again, in the background.
    pub fn dedupe_rebuild(&self) -> Result<DedupeStatus> {
        let inner = &self.inner;
        inner.check_online()?;
        if inner.dedupe.index_bytes_max.get() == 0 {
            let what = "the fingerprint index has no memory: give it some with a resize";
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        inner.begin_rebuild();
        Ok(inner.dedupe.status())
    }

    /// Forgets the index, what waits to be looked at, and a rebuild under way, and gives the memory
    /// back. The next write to a volume with dedupe starts a new one.
    pub fn dedupe_drop(&self) -> DedupeStatus {
        let dedupe = &self.inner.dedupe;
        *dedupe.index.borrow_mut() = None;
        *dedupe.rebuild.borrow_mut() = None;
        dedupe.queue.borrow_mut().clear();
        dedupe.postponed.borrow_mut().clear();
        dedupe.status()
    }

    /// A new limit for the index; 0 switches dedupe off. The index is dropped and, unless it is off,
    /// rebuilt in the background.
    pub fn dedupe_resize(&self, index_bytes_max: u64) -> Result<DedupeStatus> {
        if index_bytes_max > 0 && index_bytes_max < INDEX_BYTES_MIN {
            let what =
                format!("an index of {index_bytes_max} bytes is too small: {INDEX_BYTES_MIN} at least");
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        self.dedupe_drop();
        self.inner.dedupe.index_bytes_max.set(index_bytes_max);
        if index_bytes_max > 0 && self.inner.check_online().is_ok() {
            self.inner.begin_rebuild();
        }
        Ok(self.inner.dedupe.status())
    }
}
