//! A pool's accounts: parts that sum to physical, and each image's share.

use ashlar_format::Pointer;
use ashlar_format::catalogue::{VolumeEntry, VolumeKind};
use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_format::segment::{SegmentEntry, SegmentKind, SegmentState};
use ashlar_units::BLOCK_BYTES;

use super::census::{Tally, count_with_families};
use super::families::Families;
use super::frozen::Frozen;
use super::info::{SpaceParts, SpaceReport, VolumeSpace, WalkedSpace, WalkedVolume};
use super::lengths::{Measured, measure};
use super::sharing::{Holders, Others, Role};
use super::turn::Turn;
use crate::apply::WRITTEN_UNKNOWN;
use crate::engine::{Inner, superblock_bytes};
use crate::walk::{Mapped, Visitor, Walk};
use crate::{Error, ErrorKind, Result};

/// What segments hold, by the table.
#[derive(Default)]
struct Written {
    /// Up to the checkpoint.
    settled_bytes: u64,
    recent_bytes: u64,
    /// Cells of segments beyond what is written in them.
    rest_bytes: u64,
    /// Alive by the last mark; a segment that no mark has seen yet counts as a whole.
    data_marked_bytes: u64,
    metadata_marked_bytes: u64,
}

impl Written {
    fn of(frozen: &Frozen, segment_bytes: u64) -> Written {
        let position = frozen.position;
        let first_recent =
            frozen.segments.iter().find(|entry| entry.segment == position.segment && is_used(entry));
        let birth = first_recent.map_or(0, |entry| entry.birth);
        let mut written = Written::default();
        for entry in frozen.segments.iter().filter(|entry| is_used(entry)) {
            let used = (u64::from(entry.used_units) * PLACE_UNIT_BYTES).min(segment_bytes);
            let settled = match entry.kind {
                SegmentKind::Metadata | SegmentKind::Moved => used,
                SegmentKind::Journal if entry.segment == position.segment => used.min(position.offset_bytes),
                SegmentKind::Journal if entry.birth > birth => 0,
                SegmentKind::Journal => used,
            };
            written.settled_bytes += settled;
            written.recent_bytes += used - settled;
            written.rest_bytes += segment_bytes - used;
            let marked = match u64::from(entry.live_units) * PLACE_UNIT_BYTES {
                0 => settled,
                marked => marked.min(settled),
            };
            if entry.kind == SegmentKind::Metadata {
                written.metadata_marked_bytes += marked;
            } else {
                written.data_marked_bytes += marked;
            }
        }
        written
    }
}

fn is_used(entry: &SegmentEntry) -> bool {
    entry.state != SegmentState::Free
}

/// What of it is in use: whole chunks, and page records.
struct InUse {
    data_bytes: u64,
    /// Of that, the share of blocks that nothing refers to; only a walk tells.
    stranded_bytes: Option<u64>,
    /// Of the rest, the share of blocks that only deleted volumes refer to; only a walk tells.
    recoverable_bytes: Option<u64>,
    metadata_bytes: u64,
}

/// The parts, with what is in use; the rest of what is written is dead.
fn parts(inner: &Inner, frozen: &Frozen, written: &Written, in_use: &InUse) -> Result<SpaceParts> {
    let size = inner.pool.segment_bytes();
    let Frozen { cells, drives, parity_bytes, spare_bytes, .. } = frozen;
    let physical_bytes: u64 = drives.iter().sum();
    let superblocks = superblock_bytes(drives.iter().copied());
    let reserve = inner.reserve_segments().min(cells.available());
    let kept = inner.kept_segments(None).min(cells.available() - reserve);
    let settled = written.settled_bytes;
    let in_use_bytes = in_use.data_bytes + in_use.metadata_bytes;
    // No assertion: a pool stopped half way through a checkpoint is still to be looked at.
    let dead_bytes = settled.checked_sub(in_use_bytes).ok_or_else(|| {
        let what = format!("{in_use_bytes} bytes are alive, {settled} are written: run a check");
        Error::new(ErrorKind::Damaged, what)
    })?;
    Ok(SpaceParts {
        physical_bytes,
        data_alive_bytes: in_use.data_bytes
            - in_use.stranded_bytes.unwrap_or(0)
            - in_use.recoverable_bytes.unwrap_or(0),
        stranded_bytes: in_use.stranded_bytes,
        recoverable_bytes: in_use.recoverable_bytes,
        metadata_alive_bytes: in_use.metadata_bytes,
        dead_bytes,
        recent_bytes: written.recent_bytes,
        slack_bytes: written.rest_bytes,
        reserve_bytes: reserve * size,
        kept_bytes: kept * size,
        free_bytes: (cells.available() - reserve - kept) * size,
        freed_bytes: cells.freed_only() * size,
        superblock_bytes: superblocks,
        unusable_bytes: physical_bytes - superblocks - parity_bytes - spare_bytes - cells.total * size,
        parity_bytes: *parity_bytes,
        spare_bytes: *spare_bytes,
    })
}

/// The accounts as the last mark has them: at once.
pub(super) fn estimate(inner: &Inner, frozen: &Frozen) -> Result<SpaceReport> {
    let written = Written::of(frozen, inner.pool.segment_bytes());
    let marked = InUse {
        data_bytes: written.data_marked_bytes,
        stranded_bytes: None,
        recoverable_bytes: None,
        metadata_bytes: written.metadata_marked_bytes,
    };
    let parts = parts(inner, frozen, &written, &marked)?;
    let images = frozen.images.iter().map(image).collect();
    Ok(SpaceReport { parts, is_estimate: true, images, walked: None })
}

fn image(entry: &VolumeEntry) -> VolumeSpace {
    let is_known = entry.written_blocks != WRITTEN_UNKNOWN;
    VolumeSpace {
        name: entry.full_name(),
        is_snapshot: entry.kind == VolumeKind::Snapshot,
        is_deleted: entry.deleted().is_some(),
        provisioned_bytes: entry.size_bytes,
        written_bytes: is_known.then(|| entry.written_blocks * BLOCK_BYTES),
        walked: None,
    }
}

/// What the census adds up.
#[derive(Default)]
struct Alive {
    /// Whole chunks.
    data_bytes: u64,
    /// Of these, the share of blocks that nothing refers to.
    stranded_bytes: u64,
    /// Of the rest, the share of blocks that only deleted volumes refer to.
    recoverable_bytes: u64,
    map_page_bytes: u64,
    shared_bytes: u64,
    /// Blocks referred to, each once.
    blocks: u64,
    images: Vec<WalkedVolume>,
}

impl Tally for Alive {
    fn wants(&self, _holders: Holders) -> bool {
        true
    }

    fn chunk(&mut self, holders: Holders, measured: Measured, alive: u16) {
        let blocks = u64::from(alive.count_ones());
        self.data_bytes += measured.bytes;
        self.stranded_bytes += measured.stranded_bytes(alive);
        // Related is whatever is not deleted.
        if !holders.is_related() {
            self.recoverable_bytes += measured.bytes - measured.stranded_bytes(alive);
        }
        self.blocks += blocks;
        match holders.others() {
            Others::One(index) => {
                self.images[index].only_bytes += measured.bytes;
                self.images[index].only_written_bytes += blocks * BLOCK_BYTES;
            }
            Others::Several => self.shared_bytes += measured.bytes,
            Others::Nobody => {}
        }
    }

    fn page(&mut self, _holders: Holders, measured: Measured) {
        self.map_page_bytes += measured.bytes;
    }
}

struct Nothing;

impl Visitor for Nothing {
    fn page(&mut self, _pointer: Pointer) {}
    fn leaf(&mut self, _pointers: &[Pointer]) {}
}

/// The accounts as they are, by walking every image.
pub(super) async fn walked(turn: &Turn<'_>, frozen: &Frozen) -> Result<SpaceReport> {
    let inner = turn.inner;
    let images = vec![WalkedVolume::default(); frozen.images.len()];
    let mut alive = Alive { images, ..Alive::default() };
    let role =
        |number: usize, entry: &VolumeEntry| Role::Other { number, is_related: entry.deleted().is_none() };
    let roots: Vec<_> =
        (frozen.images.iter().enumerate()).map(|(index, entry)| (entry.root, role(index, entry))).collect();
    let mut families = Families::of(&frozen.images);
    let by_content = count_with_families(turn, &roots, &mut families, &mut alive).await?;
    let tables: u64 = measure(turn, &frozen.tables).await?.iter().map(|measured| measured.bytes).sum();
    let mut report = SpaceReport::default();
    let mut walk = Walk::within(turn);
    let mut written_blocks = 0;
    for (entry, share) in frozen.images.iter().zip(&alive.images) {
        let mapped = walk.visit_root(entry.root, &mut Nothing).await?;
        written_blocks += mapped.data_blocks;
        report.images.push(walked_image(entry, mapped, *share)?);
    }
    let written = Written::of(frozen, inner.pool.segment_bytes());
    let in_use = InUse {
        data_bytes: alive.data_bytes,
        stranded_bytes: Some(alive.stranded_bytes),
        recoverable_bytes: Some(alive.recoverable_bytes),
        metadata_bytes: alive.map_page_bytes + tables,
    };
    report.parts = parts(inner, frozen, &written, &in_use)?;
    report.walked = Some(WalkedSpace {
        map_page_bytes: alive.map_page_bytes,
        shared_bytes: alive.shared_bytes,
        sharing_saved_bytes: (written_blocks - alive.blocks) * BLOCK_BYTES,
        content_saved_bytes: by_content * BLOCK_BYTES,
        compression_saved_bytes: (alive.blocks * BLOCK_BYTES).cast_signed()
            - (report.parts.data_alive_bytes + alive.recoverable_bytes).cast_signed(),
    });
    Ok(report)
}

fn walked_image(entry: &VolumeEntry, mapped: Mapped, share: WalkedVolume) -> Result<VolumeSpace> {
    let written_bytes = mapped.data_blocks * BLOCK_BYTES;
    let zero_bytes =
        if entry.root == Pointer::ZERO { entry.size_bytes } else { mapped.zero_blocks * BLOCK_BYTES };
    let unwritten_bytes = entry.size_bytes.checked_sub(written_bytes + zero_bytes).ok_or_else(|| {
        Error::new(ErrorKind::Damaged, format!("{}: blocks are mapped beyond its end", entry.full_name()))
    })?;
    Ok(VolumeSpace {
        written_bytes: Some(written_bytes),
        walked: Some(WalkedVolume { zero_bytes, unwritten_bytes, ..share }),
        ..image(entry)
    })
}
