//! Deleted volumes and held snapshots, in the API's types: asked for on the data shard.

use std::collections::BTreeMap;

use ashlar_api as api;
use ashlar_engine::DeletedVolume;

use super::{Array, from_engine, snapshot_view, volume_view};
use crate::error::Result;

/// A deleted volume of an open pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Deleted {
    pub(crate) pool: String,
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) size_bytes: u64,
    pub(crate) written_bytes: Option<u64>,
    pub(crate) deleted_unix_seconds: u64,
    /// For how long it was seen so, as far as that is durable.
    pub(crate) seen_seconds: u64,
}

fn deleted_of(pool: &str, deleted: DeletedVolume) -> Deleted {
    let DeletedVolume { info, deleted_unix_seconds, seen_seconds } = deleted;
    Deleted {
        pool: pool.to_string(),
        id: info.id,
        name: info.name,
        size_bytes: info.size_bytes,
        written_bytes: info.written_bytes,
        deleted_unix_seconds,
        seen_seconds,
    }
}

impl Array {
    /// The deleted volumes of all open pools.
    pub(crate) async fn deleted_volumes(&self) -> Result<Vec<Deleted>> {
        self.run(|_, shard| {
            Box::pin(async move {
                let engines = shard.engines.borrow();
                let all = engines.iter().flat_map(|(pool, engine)| {
                    engine.deleted_volumes().into_iter().map(|one| deleted_of(pool, one))
                });
                Ok(all.collect())
            })
        })
        .await
    }

    /// Deletes a volume so that it can come back.
    pub(crate) async fn volume_set_aside(&self, pool: &str, name: &str) -> Result<Deleted> {
        let (pool, name) = (pool.to_string(), name.to_string());
        self.run(move |_, shard| {
            Box::pin(async move {
                let deleted = shard.engine(&pool)?.volume_set_aside(&name).await.map_err(from_engine)?;
                shard.registry.forget(&name);
                Ok(deleted_of(&pool, deleted))
            })
        })
        .await
    }

    pub(crate) async fn volume_undelete(&self, pool: &str, id: u64, name: &str) -> Result<api::Volume> {
        let name = name.to_string();
        self.with_pool(pool, move |engine, pool| {
            Box::pin(async move { Ok(volume_view(&pool, engine.volume_undelete(id, &name).await?)) })
        })
        .await
    }

    pub(crate) async fn deleted_give_up(&self, pool: &str, id: u64) -> Result<()> {
        self.with_pool(pool, move |engine, _| Box::pin(async move { engine.deleted_give_up(id).await })).await
    }

    /// Makes durable for how many seconds deleted volumes were seen so.
    pub(crate) async fn deleted_seen(&self, pool: &str, seen: BTreeMap<u64, u64>) -> Result<()> {
        self.with_pool(pool, move |engine, _| Box::pin(async move { engine.deleted_seen(&seen).await })).await
    }

    /// What giving up all deleted volumes of a pool gives back; `None` when that takes too long to find out.
    pub(crate) async fn recoverable_bytes(&self, pool: &str) -> Result<Option<u64>> {
        self.with_pool(pool, |engine, _| Box::pin(async move { engine.recoverable_bytes().await })).await
    }

    pub(crate) async fn snapshot_hold(
        &self,
        pool: &str,
        name: &str,
        reason: String,
    ) -> Result<api::Snapshot> {
        let name = name.to_string();
        self.with_pool(pool, move |engine, pool| {
            Box::pin(async move { Ok(snapshot_view(&pool, engine.snapshot_hold(&name, &reason).await?)) })
        })
        .await
    }

    pub(crate) async fn snapshot_release(&self, pool: &str, name: &str) -> Result<api::Snapshot> {
        let name = name.to_string();
        self.with_pool(pool, move |engine, pool| {
            Box::pin(async move { Ok(snapshot_view(&pool, engine.snapshot_release(&name).await?)) })
        })
        .await
    }
}
