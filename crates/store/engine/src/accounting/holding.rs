//! What keeps the space of a volume or snapshot: the others that refer to it.
//!
//! Of a volume: what it referred to once and does not any more. That is what it wrote itself, and what
//! a snapshot of it shows (it may have come from the volume's own origin). Who holds it cannot be told
//! from relations alone: a snapshot between a volume and its clone may be long deleted.
//!
//! Of a snapshot, which never changes: what it refers to, and so would stay if it were deleted.

use std::collections::BTreeMap;

use ashlar_format::catalogue::VolumeKind;

use super::census::{Tally, count};
use super::frozen::Frozen;
use super::info::{Holder, HoldersReport};
use super::lengths::Measured;
use super::sharing::{Holders, Others, Role};
use super::turn::Turn;
use crate::Result;

/// Bits of a volume's identity in what it wrote.
const WRITER_BITS: u32 = 28;

struct Holdings {
    is_snapshot: bool,
    /// What a chunk of the volume names as its writer.
    writer: u64,
    only_bytes: u64,
    several_bytes: u64,
    alone: BTreeMap<usize, u64>,
}

impl Holdings {
    /// Whether a chunk's others are what is asked for.
    fn counts(&self, holders: Holders, measured: Measured) -> bool {
        if self.is_snapshot {
            return holders.is_target();
        }
        !holders.is_target() && (holders.is_related() || measured.writer == self.writer)
    }
}

impl Tally for Holdings {
    fn wants(&self, holders: Holders) -> bool {
        // Of a volume the writer decides, and only the chunk itself tells it.
        !self.is_snapshot || holders.is_target()
    }

    fn chunk(&mut self, holders: Holders, measured: Measured, _blocks: u16) {
        if holders.is_target() && holders.others() == Others::Nobody {
            self.only_bytes += measured.bytes;
        } else if self.counts(holders, measured) {
            match holders.others() {
                Others::Nobody => {}
                Others::One(index) => *self.alone.entry(index).or_default() += measured.bytes,
                Others::Several => self.several_bytes += measured.bytes,
            }
        }
    }

    fn page(&mut self, _holders: Holders, _measured: Measured) {}
}

/// Who holds what of these images: one volume, or the images of one snapshot.
pub(super) async fn holders(turn: &Turn<'_>, frozen: &Frozen, asked: &[usize]) -> Result<HoldersReport> {
    let first = &frozen.images[asked[0]];
    let is_snapshot = first.kind == VolumeKind::Snapshot;
    let roots: Vec<_> = (frozen.images.iter().enumerate())
        .map(|(index, entry)| {
            let is_related = !is_snapshot && entry.kind == VolumeKind::Snapshot && entry.origin == first.id;
            let role = Role::Other { number: index, is_related };
            (entry.root, if asked.contains(&index) { Role::Target } else { role })
        })
        .collect();
    let writer = first.id.0 & ((1 << WRITER_BITS) - 1);
    let mut found = Holdings { is_snapshot, writer, only_bytes: 0, several_bytes: 0, alone: BTreeMap::new() };
    count(turn, &roots, &mut found).await?;
    let mut holders: Vec<Holder> =
        found.alone.iter().map(|(index, bytes)| holder(frozen, *index, *bytes)).collect();
    holders.sort_by(|one, other| other.bytes.cmp(&one.bytes).then_with(|| one.name.cmp(&other.name)));
    Ok(HoldersReport {
        members: asked.iter().map(|index| frozen.images[*index].full_name()).collect(),
        is_snapshot,
        only_bytes: found.only_bytes,
        holders,
        several_bytes: found.several_bytes,
    })
}

fn holder(frozen: &Frozen, index: usize, bytes: u64) -> Holder {
    let entry = &frozen.images[index];
    Holder { name: entry.full_name(), is_snapshot: entry.kind == VolumeKind::Snapshot, bytes }
}
