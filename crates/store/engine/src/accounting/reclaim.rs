//! What deleting a set of volumes and snapshots would give back.

use std::collections::BTreeSet;

use ashlar_format::catalogue::{VolumeEntry, VolumeKind};

use super::census::{Tally, count};
use super::frozen::Frozen;
use super::info::ReclaimReport;
use super::lengths::Measured;
use super::sharing::{Holders, Others, Role};
use super::turn::Turn;
use crate::Result;
use crate::holds::hold_of;

impl Tally for ReclaimReport {
    fn wants(&self, holders: Holders) -> bool {
        holders.is_target()
    }

    fn chunk(&mut self, holders: Holders, measured: Measured, _blocks: u16) {
        if holders.others() == Others::Nobody {
            self.chunk_bytes += measured.bytes;
            self.chunk_count += 1;
        } else {
            self.kept_bytes += measured.bytes;
        }
    }

    fn page(&mut self, holders: Holders, measured: Measured) {
        if holders.others() == Others::Nobody {
            self.map_page_bytes += measured.bytes;
            self.map_page_count += 1;
        }
    }
}

/// Roots of the set against the roots of everything else in the pool: relations do not matter, so
/// origins deleted long ago cannot mislead.
pub(super) async fn reclaim(turn: &Turn<'_>, frozen: &Frozen, set: &[usize]) -> Result<ReclaimReport> {
    let roots: Vec<_> = (frozen.images.iter().enumerate())
        .map(|(index, entry)| {
            // The others are one to this question: a page held by two of them is visited once.
            (entry.root, if set.contains(&index) { Role::Target } else { Role::other(0) })
        })
        .collect();
    let members = set.iter().map(|index| frozen.images[*index].full_name()).collect();
    let mut report = ReclaimReport { members, held: held(turn, frozen, set), ..ReclaimReport::default() };
    count(turn, &roots, &mut report).await?;
    Ok(report)
}

/// The snapshots among these that are held, each once.
fn held(turn: &Turn<'_>, frozen: &Frozen, set: &[usize]) -> Vec<String> {
    let tree = turn.inner.tree.borrow();
    let snapshots = set.iter().map(|index| &frozen.images[*index]);
    let snapshots = snapshots.filter(|image| image.kind == VolumeKind::Snapshot);
    let held = snapshots.filter(|image| hold_of(&tree.notebook, image.group).is_some());
    BTreeSet::from_iter(held.map(|image| image.name.clone())).into_iter().collect()
}

/// Chunks that only these images refer to. What they share with others is not measured.
pub(super) async fn unique_bytes(
    turn: &Turn<'_>,
    frozen: &Frozen,
    is_asked: impl Fn(&VolumeEntry) -> bool,
) -> Result<u64> {
    let role = |entry| if is_asked(entry) { Role::Target } else { Role::other(0) };
    let roots: Vec<_> = frozen.images.iter().map(|entry| (entry.root, role(entry))).collect();
    let mut unique = Unique::default();
    count(turn, &roots, &mut unique).await?;
    Ok(unique.chunk_bytes)
}

#[derive(Default)]
struct Unique {
    chunk_bytes: u64,
}

impl Tally for Unique {
    fn wants(&self, holders: Holders) -> bool {
        holders.is_target() && holders.others() == Others::Nobody
    }

    fn chunk(&mut self, _holders: Holders, measured: Measured, _blocks: u16) {
        self.chunk_bytes += measured.bytes;
    }

    fn page(&mut self, _holders: Holders, _measured: Measured) {}
}

/// The indices of everything these names stand for, each once.
pub(super) fn resolve_set(frozen: &Frozen, names: &[String]) -> Result<Vec<usize>> {
    let mut set = Vec::new();
    for name in names {
        set.extend(frozen.resolve(name)?);
    }
    set.sort_unstable();
    set.dedup();
    Ok(set)
}
