//! How far each drive is to be relied on, and how many more may fail.
//!
//! A drive that lacks what it should have is no damage while parity makes up for it. It is a finding all
//! the same: whoever believes in the protection that was asked for must learn that it is gone.

use ashlar_format::superblock::Superblock;
use ashlar_units::SegmentId;
use serde::Serialize;

use crate::drives::DriveReport;

/// How far a drive is to be relied on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// It holds what it should, or spare space does.
    Sound,
    /// It has left the pool: nothing is needed of it.
    Gone,
    /// It is not there, or cannot be opened.
    Missing,
    /// It is smaller than what the pool needs of it.
    Short,
    /// It carries no superblock: which drive it is was told by the only one that is missing.
    Nameless,
    /// The pool's superblock calls it out: only segments below this number are on it as they should be.
    Out { stale_from: u32 },
    /// The same of one that is being restored.
    Rebuilding { stale_from: u32 },
    /// It is in service by the pool's superblock, and its own are older than a crash explains.
    OutOfDate { generation: u64, stale_from: u32 },
}

impl Standing {
    /// Whether a segment is on it as it should be, if the drive is there.
    pub(crate) fn holds(self, segment: SegmentId) -> bool {
        match self {
            Standing::Sound | Standing::Gone | Standing::Missing => true,
            Standing::Short | Standing::Nameless => false,
            Standing::Out { stale_from }
            | Standing::Rebuilding { stale_from }
            | Standing::OutOfDate { stale_from, .. } => segment.0 < stale_from,
        }
    }

    fn is_fault(self) -> bool {
        !matches!(self, Standing::Sound | Standing::Gone)
    }

    fn explain(self, generation: u64) -> String {
        match self {
            Standing::Sound | Standing::Gone => "holds what it should".to_string(),
            Standing::Missing => "is missing".to_string(),
            Standing::Short => "is smaller than what the pool needs of it".to_string(),
            Standing::Nameless => "carries no superblock: nothing on it is relied on".to_string(),
            Standing::Out { .. } => "is out of service: it lacks what was written since".to_string(),
            Standing::Rebuilding { .. } => "is being rebuilt: it lacks what is not restored yet".to_string(),
            Standing::OutOfDate { generation: own, .. } => format!(
                "is out of date: its newest superblock is of generation {own}, the pool's of {generation}"
            ),
        }
    }
}

/// What is left of the protection that was asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Redundancy {
    /// Drives that may fail when nothing is wrong.
    pub drives_promised: u64,
    /// Drives that may fail from here on.
    pub drives_left: u64,
    /// Which drives lack what they should hold, and what that means.
    pub findings: Vec<String>,
    /// More drives lack something than the protection covers: data may be gone.
    pub is_exceeded: bool,
}

impl Redundancy {
    /// Whether as many drives may fail as was asked for.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.findings.is_empty()
    }
}

pub(crate) fn judge(superblock: &Superblock, standings: &[Standing], reports: &[DriveReport]) -> Redundancy {
    let promised = u64::from(superblock.protection.parity_strips());
    let name = &superblock.name;
    let faults: Vec<(usize, Standing)> =
        standings.iter().copied().enumerate().filter(|(_, standing)| standing.is_fault()).collect();
    let left = promised.saturating_sub(faults.len() as u64);
    let mut findings: Vec<String> = faults
        .iter()
        .map(|(number, standing)| {
            let path = reports[*number].path.as_ref().map(|path| format!(" ({})", path.display()));
            let what = standing.explain(superblock.generation);
            format!("drive {number} of pool `{name}`{} {what}", path.unwrap_or_default())
        })
        .collect();
    if !faults.is_empty() {
        findings.push(match (promised, left) {
            (0, _) => format!("pool `{name}` has no protection: what only that drive holds cannot be had"),
            (_, 0) => format!("no more drive of pool `{name}` may fail: its protection promises {promised}"),
            _ => format!("{left} more drive of pool `{name}` may fail: its protection promises {promised}"),
        });
    }
    let is_exceeded = faults.len() as u64 > promised;
    Redundancy { drives_promised: promised, drives_left: left, findings, is_exceeded }
}
