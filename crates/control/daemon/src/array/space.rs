//! The accounts of a pool, in the API's types.

use std::time::Duration;

use ashlar_api as api;
use ashlar_engine::{Engine, ErrorKind, HoldersReport, ReclaimReport, SpaceReport, VolumeSpace};
use ashlar_runtime::Runtime;

use super::{Array, from_engine};
use crate::error::{Error, Result};

impl Array {
    /// Where a pool's bytes are: walked within so long, or else by the last mark.
    pub(crate) async fn pool_space(&self, name: &str, within: Option<Duration>) -> Result<api::PoolSpace> {
        let name = name.to_string();
        self.run(move |runtime, shard| {
            Box::pin(async move {
                let engine = shard.engine(&name)?;
                let start = runtime.now();
                let (report, reason) = space(&engine, within).await.map_err(from_engine)?;
                let mut view = pool_space_view(name, report, reason);
                view.duration_millis = millis_since(&runtime, start);
                Ok(view)
            })
        })
        .await
    }

    /// What deleting these of one pool together would give back.
    pub(crate) async fn reclaim(
        &self,
        pool: &str,
        names: Vec<String>,
        within: Duration,
    ) -> Result<api::Reclaim> {
        let pool = pool.to_string();
        self.run(move |runtime, shard| {
            Box::pin(async move {
                let start = runtime.now();
                let counted = shard.engine(&pool)?.reclaim(&names, within).await.map_err(from_count)?;
                Ok(reclaim_view(counted, millis_since(&runtime, start)))
            })
        })
        .await
    }

    /// What keeps the space of a volume or snapshot.
    pub(crate) async fn holders(&self, pool: &str, name: &str, within: Duration) -> Result<api::Holders> {
        let (pool, name) = (pool.to_string(), name.to_string());
        self.run(move |runtime, shard| {
            Box::pin(async move {
                let start = runtime.now();
                let counted = shard.engine(&pool)?.holders(&name, within).await.map_err(from_count)?;
                Ok(holders_view(pool, counted, millis_since(&runtime, start)))
            })
        })
        .await
    }
}

fn millis_since(runtime: &Runtime, start: ashlar_runtime::Instant) -> u64 {
    (runtime.now() - start).as_millis() as u64
}

/// The report, and why it is an estimate though a walk was wanted.
async fn space(
    engine: &Engine,
    within: Option<Duration>,
) -> ashlar_engine::Result<(SpaceReport, Option<String>)> {
    let Some(within) = within else { return Ok((engine.space_estimate().await?, None)) };
    match engine.space_report(within).await {
        Ok(report) => Ok((report, None)),
        Err(error) if error.kind == ErrorKind::Busy => {
            Ok((engine.space_estimate().await?, Some(error.context)))
        }
        Err(error) => Err(error),
    }
}

/// `Busy` means one thing here: no answer in the time allowed.
pub(super) fn from_count(error: ashlar_engine::Error) -> Error {
    if error.kind == ErrorKind::Busy {
        let action = "allow more time with --within, or ask again when the pool is less busy";
        return Error::new(api::ErrorKind::Busy, error.context, action);
    }
    from_engine(error)
}

fn pool_space_view(pool: String, report: SpaceReport, reason: Option<String>) -> api::PoolSpace {
    let parts = report.parts;
    let (snapshots, volumes): (Vec<VolumeSpace>, Vec<VolumeSpace>) =
        report.images.into_iter().partition(|image| image.is_snapshot);
    let (deleted, volumes): (Vec<VolumeSpace>, Vec<VolumeSpace>) =
        volumes.into_iter().partition(|image| image.is_deleted);
    let all = volumes.iter().chain(&snapshots).chain(&deleted);
    let written_bytes = all.map(|image| image.written_bytes).sum::<Option<u64>>();
    api::PoolSpace {
        pool,
        basis: if report.is_estimate { api::SpaceBasis::LastMark } else { api::SpaceBasis::Walk },
        reason,
        parts: api::SpaceParts {
            physical_bytes: parts.physical_bytes,
            data_alive_bytes: parts.data_alive_bytes,
            stranded_bytes: parts.stranded_bytes,
            recoverable_bytes: parts.recoverable_bytes,
            metadata_alive_bytes: parts.metadata_alive_bytes,
            dead_bytes: parts.dead_bytes,
            recent_bytes: parts.recent_bytes,
            slack_bytes: parts.slack_bytes,
            reserve_bytes: parts.reserve_bytes,
            kept_bytes: parts.kept_bytes,
            free_bytes: parts.free_bytes,
            freed_bytes: parts.freed_bytes,
            superblock_bytes: parts.superblock_bytes,
            unusable_bytes: parts.unusable_bytes,
            parity_bytes: parts.parity_bytes,
            spare_bytes: parts.spare_bytes,
        },
        map_page_bytes: report.walked.map(|walked| walked.map_page_bytes),
        provisioned_bytes: volumes.iter().map(|volume| volume.provisioned_bytes).sum(),
        written_bytes,
        shared_bytes: report.walked.map(|walked| walked.shared_bytes),
        sharing_saved_bytes: report.walked.map(|walked| walked.sharing_saved_bytes),
        content_saved_bytes: report.walked.map(|walked| walked.content_saved_bytes),
        compression_saved_bytes: report.walked.map(|walked| walked.compression_saved_bytes),
        volumes: image_views(volumes),
        snapshots: image_views(snapshots),
        deleted_volumes: image_views(deleted),
        duration_millis: 0,
    }
}

fn image_views(mut images: Vec<VolumeSpace>) -> Vec<api::VolumeSpace> {
    images.sort_by(|one, other| one.name.cmp(&other.name));
    let view = |image: VolumeSpace| {
        let walked = image.walked;
        let shared =
            |only_written: u64| image.written_bytes.map(|written| written.saturating_sub(only_written));
        api::VolumeSpace {
            name: image.name,
            provisioned_bytes: image.provisioned_bytes,
            written_bytes: image.written_bytes,
            zero_bytes: walked.map(|walked| walked.zero_bytes),
            unwritten_bytes: walked.map(|walked| walked.unwritten_bytes),
            shared_written_bytes: walked.and_then(|walked| shared(walked.only_written_bytes)),
            only_bytes: walked.map(|walked| walked.only_bytes),
        }
    };
    images.into_iter().map(view).collect()
}

fn reclaim_view(report: ReclaimReport, duration_millis: u64) -> api::Reclaim {
    api::Reclaim {
        members: report.members,
        held: report.held,
        chunk_bytes: report.chunk_bytes,
        chunk_count: report.chunk_count,
        map_page_bytes: report.map_page_bytes,
        map_page_count: report.map_page_count,
        kept_bytes: report.kept_bytes,
        duration_millis,
    }
}

fn holders_view(pool: String, report: HoldersReport, duration_millis: u64) -> api::Holders {
    let question = if report.is_snapshot {
        api::HoldersQuestion::StaysAfterDelete
    } else {
        api::HoldersQuestion::Overwritten
    };
    let holder = |holder: ashlar_engine::Holder| api::Holder {
        name: holder.name,
        is_snapshot: holder.is_snapshot,
        bytes: holder.bytes,
    };
    api::Holders {
        pool,
        members: report.members,
        question,
        only_bytes: report.only_bytes,
        holders: report.holders.into_iter().map(holder).collect(),
        several_bytes: report.several_bytes,
        duration_millis,
    }
}
