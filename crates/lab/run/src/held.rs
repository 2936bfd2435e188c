//! A run of I/O on a volume of which the array holds snapshots, or has a clone: they are made before it, and
//! are gone behind it.

use std::path::{Path, PathBuf};

use ashlar_scenario::{CloneUse, Held};
use ashlar_target::{Refusal, Volumes};

use crate::jobs::Area;
use crate::{Error, Result};

/// What a run needs beside the data.
pub(crate) struct Ground<'a> {
    pub(crate) volumes: &'a Volumes,
    /// Notes what is on the target.
    pub(crate) keep: &'a dyn Fn() -> Result<()>,
    /// Overwrites an area at random; the number tells its content from others.
    pub(crate) overwrite: &'a dyn Fn(&Area, u64) -> Result<()>,
}

/// Has the work done while everything is held; it is told where.
pub(crate) fn while_held<T>(
    held: Held,
    areas: &[Area],
    ground: &Ground<'_>,
    work: impl FnOnce(&[Area]) -> Result<T>,
) -> Result<T> {
    let device = device(areas)?;
    has_room(ground.volumes, areas)?;
    let volume = ground.volumes.named_as(&device).map_err(refused)?;
    for number in 1..=held.snapshots {
        for area in areas {
            (ground.overwrite)(&area.part(number - 1, held.parts()), number)?;
        }
        ground
            .volumes
            .snapshot_all(&format!("{volume}-{number}"), std::slice::from_ref(&volume))
            .map_err(refused)?;
        (ground.keep)()?;
    }
    let clone = match held.clone {
        None => None,
        Some(of) => Some((of, cloned(&volume, ground)?)),
    };
    let found = match &clone {
        Some((CloneUse::Measured, (_, device))) => {
            let areas: Vec<Area> = areas.iter().map(|area| area.moved(device)).collect();
            work(&areas)?
        }
        Some((CloneUse::Beside, _)) | None => work(areas)?,
    };
    if let Some((_, (name, _))) = clone {
        ground.volumes.forget(&name).map_err(refused)?;
    }
    ground.volumes.forget_snapshots().map_err(refused)?;
    // What is given back is not given back while the next one is measured.
    ground.volumes.settled().map_err(refused)?;
    (ground.keep)()?;
    Ok(found)
}

/// Its name and its device.
fn cloned(volume: &str, ground: &Ground<'_>) -> Result<(String, PathBuf)> {
    let snapshot = format!("{volume}-of-clone");
    ground.volumes.snapshot_all(&snapshot, &[volume.to_string()]).map_err(refused)?;
    (ground.keep)()?;
    let made = ground.volumes.clone_device(&snapshot);
    (ground.keep)()?;
    made.map_err(refused)
}

/// The one that all of them lie on.
fn device(areas: &[Area]) -> Result<PathBuf> {
    let found = areas.first().and_then(Area::device).map(Path::to_path_buf);
    found.ok_or_else(|| Error::environment("copies are of a volume of a pool"))
}

/// What is overwritten stays, once in the snapshots and once while it is measured.
fn has_room(volumes: &Volumes, areas: &[Area]) -> Result<()> {
    let size: u64 = areas.iter().map(Area::size_bytes).sum();
    let room = volumes.free_room_bytes().map_err(refused)?;
    match room < 2 * size {
        true => Err(Error::environment(format!(
            "the pool has room for {} more, and {} are needed, because a snapshot keeps what is overwritten: make \
             room, or take a smaller preset",
            ashlar_report::bytes(room),
            ashlar_report::bytes(2 * size)
        ))),
        false => Ok(()),
    }
}

fn refused(refusal: Refusal) -> Error {
    Error::environment(refusal.to_string())
}
