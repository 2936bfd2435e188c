//! Old drives: a drive that was away while the pool was written, a copy of a drive from before.
//!
//! A superblock says of each drive the newest superblock that the drive is known to hold. A crash loses a
//! drive at most the one that was being written, so a drive whose own newest is older than that was away.
//! What it lacks is what was written since; with protection that is restored, as for any drive that returns.

use ashlar_format::superblock::{DriveState, Superblock};
use ashlar_units::{DriveIndex, Fault, planted};

use crate::drives::KnownDrive;
use crate::open::Found;
use crate::opening::Opening;
use crate::{Error, ErrorKind, Result};

/// Whether a drive lacks what the pool wrote: `own` is the newest superblock on it.
pub(crate) fn is_behind(own: &Superblock, pool: &Superblock) -> bool {
    let Some(entry) = pool.drives.get(usize::from(own.drive.0)) else { return false };
    match entry.state {
        DriveState::InService | DriveState::Leaving | DriveState::Rebuilding => {
            own.generation < entry.confirmed && !planted(Fault::OldDriveTrusted)
        }
        // Nobody counts on it.
        DriveState::Out | DriveState::Gone => false,
    }
}

/// The first segment that a drive which was away may lack, by its own newest superblock.
pub(crate) fn stale_from(own: &Superblock) -> u32 {
    let index = usize::from(own.drive.0);
    let Some(layout) = &own.layout else { return 0 };
    match own.drives[index].state {
        DriveState::InService | DriveState::Leaving => layout.settled_below,
        DriveState::Out | DriveState::Rebuilding | DriveState::Gone => {
            layout.stale_from[index].min(layout.settled_below)
        }
    }
}

/// Each drive with the newest generation on it, for a refusal.
pub(crate) fn told(found: &[Found]) -> String {
    let one = |found: &Found| format!("{} holds generation {}", found.drive.path(), found.ring[0].generation);
    found.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Refuses a pool that is older than what this array saw of it.
pub(crate) fn check_remembered(found: &[Found], pool: &Superblock, opening: &Opening) -> Result<()> {
    let remembered = opening.remembered.iter().find(|one| one.pool == pool.pool.0);
    let Some(remembered) = remembered else { return Ok(()) };
    if pool.generation >= remembered.generation || opening.is_older_accepted {
        return Ok(());
    }
    let what = format!(
        "pool {} is older than this array knows it: its drives are at generation {}, it was at {} ({})",
        pool.name,
        pool.generation,
        remembered.generation,
        told(found)
    );
    Err(refused(what, &pool.name, "everything written since is lost"))
}

/// Refuses to go on without so many drives that those that are not there could have gone on as well.
/// After an orderly stop nobody did: who opens a pool says so first on the drives it has, and a half of
/// them is refused here.
pub(crate) fn check_quorum(known: &[KnownDrive], pool: &Superblock, opening: &Opening) -> Result<()> {
    if pool.layout.is_none() || pool.is_clean || opening.is_older_accepted {
        return Ok(());
    }
    let is_counted = |state| match state {
        DriveState::InService | DriveState::Leaving | DriveState::Rebuilding => true,
        DriveState::Out | DriveState::Gone => false,
    };
    let counted = || pool.drives.iter().zip(known).filter(|(entry, _)| is_counted(entry.state));
    let stand_ins = pool.layout.as_ref().map_or(&[][..], |layout| &layout.stand_ins);
    let is_elsewhere = |index: u16| stand_ins.iter().any(|one| one.drive == DriveIndex(index));
    let in_spare_space = counted().filter(|(_, known)| is_elsewhere(known.number.0)).count();
    let needed = counted().count() - in_spare_space;
    let there = counted().filter(|(_, known)| known.drive.is_some()).count();
    if there * 2 > needed {
        return Ok(());
    }
    let what = format!(
        "pool {} was not closed and only {there} of its {needed} drives in service are here: the others may have \
         gone on without them",
        pool.name
    );
    Err(refused(what, &pool.name, "what the others took in since is lost"))
}

/// Refuses drives that lack what nothing can restore.
pub(crate) fn refused_behind(told: &str, pool: &Superblock) -> Error {
    let what = format!(
        "pool {} is at generation {}, and drives of it are older than that; nothing can restore what they lack ({told})",
        pool.name, pool.generation
    );
    refused(what, &pool.name, "what was written to the older drives since is damaged")
}

fn refused(what: String, pool: &str, loss: &str) -> Error {
    let action = format!(
        "name the drives as they were last, or `ashlar pool import {pool} --accept-older-state`: {loss}"
    );
    Error::new(ErrorKind::Damaged, what).and_do(action)
}
