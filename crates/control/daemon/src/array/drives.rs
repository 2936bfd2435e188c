//! The life of a pool's drives, in the API's types.

use ashlar_api as api;
use ashlar_engine::{Away, DriveStatus, PoolStatus, Protection, RebuildStatus, RemovalStatus};

use super::Array;
use crate::error::Result;

impl Array {
    /// Puts a drive in the place of one that is out of service.
    pub(crate) async fn drive_replace(&self, pool: &str, number: u32, with: &api::DriveSpec) -> Result<()> {
        let spec = ashlar_engine::DriveSpec { path: with.path.clone(), create_size_bytes: with.size_bytes };
        self.with_pool(pool, move |engine, _| {
            Box::pin(async move { engine.drive_replace(number as usize, &spec).await })
        })
        .await
    }

    /// Adds drives.
    pub(crate) async fn drives_add(&self, pool: &str, drives: &[api::DriveSpec]) -> Result<()> {
        let spec = |drive: &api::DriveSpec| ashlar_engine::DriveSpec {
            path: drive.path.clone(),
            create_size_bytes: drive.size_bytes,
        };
        let specs: Vec<_> = drives.iter().map(spec).collect();
        self.with_pool(pool, move |engine, _| Box::pin(async move { engine.drives_add(&specs).await })).await
    }

    /// Takes the drive at a path back into service.
    pub(crate) async fn drive_online(&self, pool: &str, number: u32, path: &str) -> Result<()> {
        let path = path.to_string();
        self.with_pool(pool, move |engine, _| {
            Box::pin(async move { engine.drive_return(number as usize, &path).await })
        })
        .await
    }

    /// The identities of drives that have been out since the opening, and why.
    pub(crate) async fn drives_away(&self, pool: &str) -> Result<Vec<(String, Away)>> {
        self.with_pool(pool, move |engine, _| {
            Box::pin(async move {
                let drives = engine.status().drives.into_iter();
                let away = drives.filter(|drive| !drive.is_in_spare_space);
                Ok(away.filter_map(|drive| Some((drive.id, drive.away?))).collect())
            })
        })
        .await
    }

    /// Lets a drive leave: what it holds, or held, goes to spare space, or without protection to the others.
    pub(crate) async fn drive_remove(&self, pool: &str, number: u32) -> Result<()> {
        self.with_pool(pool, move |engine, _| {
            Box::pin(async move { engine.drive_remove(number as usize).await })
        })
        .await
    }

    /// Takes a drive back that is leaving.
    pub(crate) async fn drive_stay(&self, pool: &str, number: u32) -> Result<()> {
        self.with_pool(pool, move |engine, _| {
            Box::pin(async move { engine.drive_stay(number as usize).await })
        })
        .await
    }

    /// Takes a drive out of service.
    pub(crate) async fn drive_offline(&self, pool: &str, number: u32) -> Result<()> {
        self.with_pool(pool, move |engine, _| {
            Box::pin(async move { engine.drive_offline(number as usize).await })
        })
        .await
    }
}

/// The drives by their numbers, without those that have left; what was written to them is yet only since they
/// were opened.
pub(super) fn views(drives: Vec<DriveStatus>) -> Vec<api::Drive> {
    let view = |(number, status)| {
        let DriveStatus { id, path, size_bytes, state, reason, is_in_spare_space, counters, .. } = status;
        api::Drive {
            number: Some(number),
            id,
            path,
            size_bytes,
            state,
            reason,
            read_bytes: counters.read_bytes,
            written_bytes: counters.written_bytes,
            error_count: counters.errors,
            mended_block_count: counters.mended_blocks,
            steered_read_count: counters.steered_reads,
            is_in_spare_space,
            ..api::Drive::default()
        }
    };
    (0..).zip(drives).filter(|(_, drive)| drive.state != "gone").map(view).collect()
}

/// The removal under way.
pub(super) fn removal_view(removal: RemovalStatus) -> api::Removal {
    api::Removal {
        drive_number: removal.drive as u32,
        total_bytes: removal.total_bytes,
        done_bytes: removal.done_bytes,
        elapsed_millis: removal.elapsed_millis,
        remaining_millis: removal.remaining_millis(),
        trouble: removal.trouble,
    }
}

/// The rebuild under way. One whose drive is in service only waits for the superblock that says so.
pub(super) fn rebuild_view(status: &PoolStatus, rebuild: Option<RebuildStatus>) -> Option<api::Rebuild> {
    let rebuild =
        rebuild.filter(|now| ["rebuilding", "moving"].contains(&status.drives[now.drive].state.as_str()))?;
    Some(api::Rebuild {
        drive_number: rebuild.drive as u32,
        total_bytes: rebuild.total_bytes,
        done_bytes: rebuild.done_bytes,
        elapsed_millis: rebuild.elapsed_millis,
        remaining_millis: rebuild.remaining_millis(),
    })
}

/// What a pool that serves lacks of its drives, in a line.
pub(super) fn lack(status: &PoolStatus) -> Option<String> {
    let count = |state: &str| status.drives.iter().filter(|drive| drive.state == state).count();
    let (out, rebuilding, all) = (count("out"), count("rebuilding"), status.drives.len());
    let what = match (out, rebuilding) {
        (0, 0) => return None,
        (0, _) => format!("{rebuilding} of {all} drives rebuilding"),
        (_, 0) => format!("{out} of {all} drives out"),
        _ => format!("{out} of {all} drives out, {rebuilding} rebuilding"),
    };
    let parity: usize = match status.protection {
        Protection::None => 0,
        Protection::Single => 1,
        Protection::Dual => 2,
    };
    Some(format!("{what}, survives {} more", parity.saturating_sub(out + rebuilding)))
}
