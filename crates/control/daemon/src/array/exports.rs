//! What notebooks say of hosts, exports and reservations, and what is served of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use ashlar_api as api;
use ashlar_block::Identity;
use ashlar_engine::{Note, NoteBatch, NoteKind};
use ashlar_scsi::Saved;

use super::notes::VERSION;
use super::{Array, Shard, from_engine};
use crate::error::Result;
use crate::iscsi::{NotedExport, NotedHost, NotedTarget, as_notes, from_notes, target_name};

impl Shard {
    /// The targets that the open pools are.
    pub(crate) fn noted_targets(&self) -> Vec<NotedTarget> {
        let engines = self.engines.borrow();
        let target = |(pool, engine): (&String, &ashlar_engine::Engine)| NotedTarget {
            name: target_name(pool, engine.pool_number()),
            pool: pool.clone(),
        };
        engines.iter().map(target).collect()
    }

    /// The hosts that the open pools remember.
    pub(crate) fn noted_hosts(&self) -> Vec<NotedHost> {
        let notes = self.record_notes(NoteKind::Chap).into_iter();
        notes
            .filter_map(|note| {
                let record = serde_json::from_slice(&note.value).ok()?;
                Some(NotedHost { pool: note.pool, number: note.number, record })
            })
            .collect()
    }

    /// The exports that the open pools remember. Those of deleted volumes, which may come back, are left out.
    pub(crate) fn noted_exports(&self) -> Vec<NotedExport> {
        let notes = self.record_notes(NoteKind::Export);
        if notes.is_empty() {
            return Vec::new();
        }
        let engines = self.engines.borrow();
        let names: BTreeMap<(&str, u64), String> = engines
            .iter()
            .flat_map(|(pool, engine)| {
                engine.volumes().into_iter().map(|volume| ((pool.as_str(), volume.id), volume.name))
            })
            .collect();
        notes
            .into_iter()
            .filter_map(|note| {
                let volume = names.get(&(note.pool.as_str(), note.number))?.clone();
                let pool = engines.get(&note.pool)?.pool_number();
                let record = serde_json::from_slice(&note.value).ok()?;
                let identity = Identity { pool, image: note.number };
                Some(NotedExport { pool: note.pool, volume, identity, record })
            })
            .collect()
    }

    /// The reservations on a volume that hosts wanted to be kept.
    pub(crate) fn kept_reservations(&self, pool: &str, volume: u64) -> Saved {
        let notes = self.engine(pool).map(|engine| engine.notes_range(NoteKind::Reservation, volume));
        let mut notes = notes.unwrap_or_default();
        notes.retain(|note| note.version == VERSION);
        from_notes(notes.iter().map(|note: &Note| note.value.as_slice()))
    }

    /// Keeps them, in place of those before. Durable when this returns.
    pub(crate) async fn keep_reservations(&self, pool: &str, volume: u64, saved: &Saved) -> Result<()> {
        let engine = self.engine(pool)?;
        let kind = NoteKind::Reservation;
        let notes = as_notes(saved);
        let before = engine.notes_range(kind, volume);
        if notes.is_empty() && before.is_empty() {
            return Ok(());
        }
        let left_over = before.iter().filter(|note| usize::from(note.key.part) >= notes.len());
        let batch = left_over.fold(NoteBatch::new(), |batch, note| batch.delete(kind, volume, note.key.part));
        let batch = (0..)
            .zip(notes)
            .fold(batch, |batch, (part, value)| batch.put(kind, volume, part, VERSION, value));
        // Without room a cluster could fence nobody off.
        engine.notes_put(batch.from_reserve()).await.map(drop).map_err(from_engine)
    }
}

impl Array {
    /// Serves over iSCSI what the notebooks say now.
    pub(crate) async fn refresh_exports(&self) -> Result<()> {
        self.run(|runtime, shard| {
            Box::pin(async move {
                shard.refresh_exports(&runtime);
                Ok(())
            })
        })
        .await
    }

    /// Returns when nothing is written any more of what hosts sent to exports of a volume that are gone.
    pub(crate) async fn wait_for_gone_exports(&self, pool: &str, volume: u64) -> Result<()> {
        let pool = pool.to_string();
        self.run(move |_, shard| {
            Box::pin(async move {
                shard.servers.exporter.wait_for_retired(&pool, volume).await;
                Ok(())
            })
        })
        .await
    }

    /// The hosts that the open pools remember, with their secrets.
    pub(crate) async fn noted_hosts(&self) -> Result<Vec<NotedHost>> {
        self.run(|_, shard| Box::pin(async move { Ok(shard.noted_hosts()) })).await
    }

    /// The hosts.
    pub(crate) async fn hosts(&self) -> Result<Vec<api::Host>> {
        self.run(|_, shard| Box::pin(async move { Ok(shard.servers.exporter.hosts()) })).await
    }

    /// Where hosts come in.
    pub(crate) async fn iscsi_addresses(&self) -> Result<Vec<SocketAddr>> {
        self.run(|_, shard| Box::pin(async move { Ok(shard.servers.exporter.addresses()) })).await
    }

    /// The exports.
    pub(crate) async fn exports(&self) -> Result<Vec<api::Export>> {
        self.run(|_, shard| Box::pin(async move { Ok(shard.servers.exporter.exports()) })).await
    }
}
