//! A drive that is to join a pool: whether it bears another's mark, and whether it is large enough.

use ashlar_drive::{Drive, Ring};
use ashlar_format::superblock::{DriveState, Superblock};
use ashlar_units::ByteCount;

use crate::open::of_other_version;
use crate::{Error, ErrorKind, Result};

/// Refuses a drive that a pool is on. `own` is the pool that it is to join, if that is there already: what
/// bears its mark and is none of its drives may be used.
pub(crate) fn check_unclaimed(path: &str, ring: &Ring, own: Option<&Superblock>) -> Result<()> {
    if let Some(version) = &ring.other_version {
        return Err(of_other_version(path, version));
    }
    let Some(remains) = ring.valid.first() else { return Ok(()) };
    let own = own.filter(|own| own.pool == remains.pool);
    match own.map(|own| number_in(own, remains)) {
        // An attempt to add it was cut short, another took its place, or it has left.
        Some(None) => Ok(()),
        Some(Some(number)) => Err(is_member(path, &remains.name, number)),
        None => {
            let what = format!("drive {path} belongs to pool {} ({})", remains.name, remains.pool);
            Err(Error::new(ErrorKind::Busy, what).and_do("choose another drive"))
        }
    }
}

/// Which drive of `pool` the one is that carries `remains`; none that has left.
fn number_in(pool: &Superblock, remains: &Superblock) -> Option<usize> {
    let own = remains.drives.get(usize::from(remains.drive.0))?.id;
    pool.drives.iter().position(|entry| entry.id == own && entry.state != DriveState::Gone)
}

/// The refusal of a drive that is one of the pool's already.
pub(crate) fn is_member(path: &str, pool: &str, number: usize) -> Error {
    let what = format!("drive {path} is drive {number} of pool {pool} itself");
    let action = format!("`ashlar pool online-drive {pool} {number} --drive {path}` takes it back");
    Error::new(ErrorKind::Busy, what).and_do(action)
}

/// Refuses a drive that is too small for what it is to hold.
pub(crate) fn check_size(drive: &Drive, needed_bytes: u64) -> Result<()> {
    if drive.size_bytes() >= needed_bytes {
        return Ok(());
    }
    let (path, size, needed) = (drive.path(), ByteCount(drive.size_bytes()), ByteCount(needed_bytes));
    let what = format!("drive {path} is {size} and must be at least {needed}");
    Err(Error::new(ErrorKind::Invalid, what).and_do("choose a larger one"))
}
