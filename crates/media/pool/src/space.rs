//! How the cells of a pool are used, in parts that sum to the whole.

use ashlar_format::segment::{SegmentKind, SegmentState};

use crate::Pool;

/// Cells by use. `journal + metadata + moved + free + set_aside + freed` is `total`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CellCount {
    /// All cells, but for the free ones of drives that leave.
    pub total: u64,
    /// Journal segments, adopted as data.
    pub journal: u64,
    /// Metadata segments.
    pub metadata: u64,
    /// Segments of what the cleaner moved.
    pub moved: u64,
    /// Free.
    pub free: u64,
    /// Free, listed in the frontier.
    pub set_aside: u64,
    /// Freed, waiting for the next superblock.
    pub freed: u64,
}

impl CellCount {
    /// Cells that can be opened, now or after a superblock.
    #[must_use]
    pub fn available(&self) -> u64 {
        self.free + self.set_aside
    }

    /// Cells that are neither in use nor available: freed, or being trimmed.
    #[must_use]
    pub fn freed_only(&self) -> u64 {
        self.total - self.journal - self.metadata - self.moved - self.available()
    }
}

impl Pool {
    /// Cells by use.
    #[must_use]
    pub fn cells(&self) -> CellCount {
        let state = self.inner.state.borrow();
        let mut count = CellCount {
            total: (state.table.entries().len() - state.table.closed_free_count()) as u64,
            free: state.table.free_count() as u64,
            set_aside: state.frontier.unopened_count() as u64,
            freed: state.table.freed_count() as u64,
            ..CellCount::default()
        };
        for entry in state.table.entries() {
            match (entry.state, entry.kind) {
                (SegmentState::Free, _) => {}
                (_, SegmentKind::Journal) => count.journal += 1,
                (_, SegmentKind::Metadata) => count.metadata += 1,
                (_, SegmentKind::Moved) => count.moved += 1,
            }
        }
        count
    }

    /// Bytes of all parity columns.
    #[must_use]
    pub fn parity_bytes(&self) -> u64 {
        self.inner.striping.as_ref().map_or(0, |striping| {
            u64::from(striping.row_count()) * striping.parity as u64 * striping.cell_bytes
        })
    }

    /// Bytes of the spare space that no drive lives in.
    #[must_use]
    pub fn spare_bytes(&self) -> u64 {
        self.inner
            .striping
            .as_ref()
            .map_or(0, |striping| striping.rows.borrow().spare_cells() * striping.cell_bytes)
    }

    /// Cells that can still be opened: what admission of host writes looks at, cheap.
    #[must_use]
    pub fn cells_available(&self) -> u64 {
        let state = self.inner.state.borrow();
        state.table.free_count() as u64 + state.frontier.unopened_count() as u64
    }

    /// The same, without those of one drive.
    #[must_use]
    pub fn cells_available_without(&self, drive: usize) -> u64 {
        let state = self.inner.state.borrow();
        let on_drive = state.table.free_on(drive) + state.frontier.unopened_on(drive);
        state.table.free_count() as u64 + state.frontier.unopened_count() as u64 - on_drive as u64
    }
}
