//! Deleted volumes that may still come back.
//!
//! ```text
//!   alive ── set aside ──► deleted ── given up ──► gone
//!     ▲                       │
//!     └────── undelete ───────┘
//! ```
//!
//! The state stands in the volume's own entry, and each step is one record: a crash finds it before or behind
//! it. Who deletes and when a deleted volume is given up is decided above; here it is only carried out.
//!
//! Invariants:
//! 1. No name leads to a deleted volume, no door serves it, and no record changes its content.
//! 2. What it refers to stays: to mark, check and census it is a root like any other.

use std::collections::BTreeMap;

use ashlar_format::catalogue::{Deleted, VolumeEntry, VolumeKind};
use ashlar_format::group::Record;
use ashlar_format::superblock::INCOMPATIBLE_DELETED;
use ashlar_units::VolumeId;

use crate::control::{check_name, volume_info};
use crate::engine::{Engine, Inner};
use crate::info::{DeletedVolume, VolumeInfo};
use crate::{Error, ErrorKind, Result};

/// Sightings journalled together: some 5 KiB, so that small journal groups hold them too.
const SEEN_TOGETHER_MAX: usize = 32;

impl Engine {
    /// Deletes a volume so that it may come back. Its snapshots and clones stay; its name is free.
    pub async fn volume_set_aside(&self, name: &str) -> Result<DeletedVolume> {
        let inner = &self.inner;
        let _turn = inner.control_turn.lock().await;
        let volume = inner.volume_id(name)?;
        inner.allow_feature(INCOMPATIBLE_DELETED).await?;
        let deleted = Deleted { unix_seconds: inner.unix_seconds(), seen_seconds: 0 };
        inner.change(inner.record_of(volume, name, Some(deleted))?).await?;
        inner.deleted_of(volume).map(|entry| view(inner, &entry))
    }

    /// Brings a deleted volume back, under this name. Devices from before it was deleted stay without it.
    pub async fn volume_undelete(&self, id: u64, name: &str) -> Result<VolumeInfo> {
        let inner = &self.inner;
        check_name("volume", name)?;
        // What was begun before the delete finds it deleted.
        inner.under_way.drain(VolumeId(id)).await;
        let _turn = inner.control_turn.lock().await;
        let entry = inner.deleted_of(VolumeId(id))?;
        inner.check_volume_free(name)?;
        inner.check_image_names(entry.id, name)?;
        // First: while the volume is deleted nobody has a device that leads to it.
        self.lineage.brings_back(entry.id);
        inner.change(inner.record_of(entry.id, name, None)?).await?;
        inner.info_of(name)
    }

    /// Gives up a deleted volume: it cannot come back any more.
    pub async fn deleted_give_up(&self, id: u64) -> Result<()> {
        let inner = &self.inner;
        let _turn = inner.control_turn.lock().await;
        let entry = inner.deleted_of(VolumeId(id))?;
        inner.delete(vec![entry.id]).await
    }

    /// The deleted volumes that may come back, the one deleted first at the front.
    #[must_use]
    pub fn deleted_volumes(&self) -> Vec<DeletedVolume> {
        let entries: Vec<VolumeEntry> = self.inner.tree.borrow().catalogue.deleted().cloned().collect();
        let mut deleted: Vec<DeletedVolume> = entries.iter().map(|entry| view(&self.inner, entry)).collect();
        // By what was seen, not by the clock of the wall, which may have been set.
        deleted
            .sort_by_key(|one| (std::cmp::Reverse(one.seen_seconds), one.deleted_unix_seconds, one.info.id));
        deleted
    }

    /// Makes durable for how many seconds deleted volumes have been seen so. Those that are not deleted any
    /// more are left alone.
    pub async fn deleted_seen(&self, seen: &BTreeMap<u64, u64>) -> Result<()> {
        let inner = &self.inner;
        let _turn = inner.control_turn.lock().await;
        let mut records = Vec::new();
        for (id, seconds) in seen {
            let Ok(entry) = inner.deleted_of(VolumeId(*id)) else { continue };
            let before = entry.deleted().unwrap_or_default();
            if *seconds > before.seen_seconds {
                let deleted = Deleted { seen_seconds: *seconds, ..before };
                records.push(inner.record_of(entry.id, &entry.name, Some(deleted))?);
            }
        }
        let mut records = records.into_iter().peekable();
        while records.peek().is_some() {
            inner.change_together(records.by_ref().take(SEEN_TOGETHER_MAX).collect()).await?;
        }
        Ok(())
    }
}

impl Inner {
    fn deleted_of(&self, id: VolumeId) -> Result<VolumeEntry> {
        let tree = self.tree.borrow();
        let entry = tree.catalogue.get(id).filter(|entry| entry.deleted().is_some()).cloned();
        entry.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("there is no deleted volume {id}"))
                .and_do("`ashlar volume list --deleted` shows what there is")
        })
    }

    /// The record that gives a volume a name and makes it deleted or alive; the rest stays.
    fn record_of(&self, volume: VolumeId, name: &str, deleted: Option<Deleted>) -> Result<Record> {
        let tree = self.tree.borrow();
        let entry = tree.catalogue.get(volume).filter(|entry| entry.kind == VolumeKind::Volume);
        let missing = || Error::new(ErrorKind::NotFound, format!("there is no volume {name}"));
        let entry = entry.ok_or_else(missing)?;
        let (compression, dedupe) = (entry.compression, entry.dedupe);
        let carried = Deleted::mark(&entry.carried, deleted);
        Ok(Record::SetEntry { volume, name: name.to_string(), compression, dedupe, carried })
    }

    /// Images go by the name of their volume: two of one snapshot must not come to have one name.
    fn check_image_names(&self, volume: VolumeId, name: &str) -> Result<()> {
        let tree = self.tree.borrow();
        for (snapshot, images) in tree.catalogue.snapshots() {
            let is_in_it = images.iter().any(|image| image.origin == volume);
            let others = || images.iter().filter(|image| image.origin != volume);
            let is_taken =
                || others().any(|image| image.origin_name == name || tree.catalogue.is_image_of(image, name));
            if is_in_it && is_taken() {
                let what = format!("snapshot {snapshot} of the volume has another volume {name}");
                return Err(Error::new(ErrorKind::Exists, what).and_do("choose another name"));
            }
        }
        Ok(())
    }
}

fn view(inner: &Inner, entry: &VolumeEntry) -> DeletedVolume {
    let Deleted { unix_seconds, seen_seconds } = entry.deleted().unwrap_or_default();
    let info = volume_info(&inner.tree.borrow(), entry);
    DeletedVolume { info, deleted_unix_seconds: unix_seconds, seen_seconds }
}
