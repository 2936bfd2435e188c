//! Volumes, snapshots and clones: what an operator asks for, checked, journalled, applied.
//!
//! One change at a time holds the control turn from its checks to its application, so that what was
//! checked still holds. All are O(1) in the size of the volumes.

use std::collections::BTreeSet;

use ashlar_format::Pointer;
use ashlar_format::catalogue::{CARRIED_BYTES, NAME_BYTES_MAX, ORIGIN_BYTES_MAX, VolumeEntry, VolumeKind};
use ashlar_format::group::Record;
use ashlar_journal::Draft;
use ashlar_map::BLOCKS_MAX;
use ashlar_units::{BLOCK_BYTES, Fault, Lsn, VolumeId, planted};

use crate::allowance::Allowance;
use crate::apply::{Tree, WRITTEN_UNKNOWN};
use crate::engine::{Engine, Inner};
use crate::holds::hold_of;
use crate::info::{SnapshotInfo, VolumeInfo, VolumePolicy, VolumeSpec};
use crate::notebook::NoteBatch;
use crate::precedence::Precedence;
use crate::rates::Rates;
use crate::terms::Terms;
use crate::write_path::outcome_of;
use crate::{Error, ErrorKind, Result};

/// Volumes in one snapshot at most: its record and its clones must fit a journal group.
const SNAPSHOT_VOLUMES_MAX: usize = 64;
/// Images that one record deletes at most: 8 KiB, so that small journal groups hold it too.
const IMAGES_DELETED_MAX: usize = 1024;

impl Engine {
    /// Makes an empty volume.
    pub async fn volume_create(&self, spec: VolumeSpec) -> Result<VolumeInfo> {
        self.create(spec, Terms::default(), |_| NoteBatch::new()).await
    }

    /// Makes an empty volume on these terms.
    pub async fn volume_create_on(&self, spec: VolumeSpec, terms: impl Into<Terms>) -> Result<VolumeInfo> {
        self.create(spec, terms.into(), |_| NoteBatch::new()).await
    }

    /// Makes an empty volume and notes, which are told the volume's identity: both, or neither.
    pub async fn volume_create_noted(
        &self,
        spec: VolumeSpec,
        notes: impl FnOnce(VolumeId) -> NoteBatch,
    ) -> Result<VolumeInfo> {
        self.create(spec, Terms::default(), notes).await
    }

    async fn create(
        &self,
        spec: VolumeSpec,
        terms: Terms,
        notes: impl FnOnce(VolumeId) -> NoteBatch,
    ) -> Result<VolumeInfo> {
        let inner = &self.inner;
        check_hidden_name("volume", &spec.name)?;
        check_size(&spec.name, spec.size_bytes)?;
        if !matches!(spec.logical_block_bytes, 512 | 4096) {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "logical block {} of volume {} is neither 512 nor 4096",
                    spec.logical_block_bytes, spec.name
                ),
            ));
        }
        let _turn = inner.control_turn.lock().await;
        inner.check_volume_free(&spec.name)?;
        terms.check(&spec.name)?;
        inner.check_reserve(&spec.name, terms.allowance.reserve_bytes.unwrap_or(0), None)?;
        let entry = VolumeEntry {
            id: inner.next_id(),
            kind: VolumeKind::Volume,
            profile: spec.profile,
            compression: spec.compression,
            dedupe: spec.dedupe,
            logical_block_shift: spec.logical_block_bytes.trailing_zeros() as u8,
            created_unix_seconds: inner.unix_seconds(),
            size_bytes: spec.size_bytes,
            root: Pointer::HOLE,
            origin: VolumeId(0),
            group: VolumeId(0),
            birth: Lsn(0),
            newest_snapshot: Lsn(0),
            written_blocks: 0,
            own_bytes: 0,
            own_from: 0,
            name: spec.name.clone(),
            origin_name: String::new(),
            carried: [0; CARRIED_BYTES],
        };
        let batch = terms.note(entry.id, notes(entry.id));
        inner.change_noted(Some(Record::CreateVolume(Box::new(entry))), batch).await?;
        inner.info_of(&spec.name)
    }

    /// Grows or shrinks a volume. What lies beyond a smaller size is gone.
    pub async fn volume_resize(&self, name: &str, size_bytes: u64) -> Result<VolumeInfo> {
        let inner = &self.inner;
        check_size(name, size_bytes)?;
        let _turn = inner.control_turn.lock().await;
        let volume = inner.volume_id(name)?;
        let _held = inner.hold_volumes([volume].into_iter()).await;
        let old_bytes = inner.tree.borrow().catalogue.get(volume).map_or(0, |entry| entry.size_bytes);
        if size_bytes < old_bytes {
            let (first, blocks) = (size_bytes / BLOCK_BYTES, (old_bytes - size_bytes) / BLOCK_BYTES);
            inner.load_pages_of_fill(volume, first, blocks).await?;
        }
        inner.change(Record::ResizeVolume { volume, size_bytes }).await?;
        inner.cleaner.want_mark();
        inner.info_of(name)
    }

    /// Changes how a volume's data are reduced from now on, what it may take, what is kept for it and how
    /// fast it may be and who goes first. What is stored already stays as it is.
    pub async fn volume_set(&self, name: &str, policy: VolumePolicy) -> Result<VolumeInfo> {
        let inner = &self.inner;
        let _turn = inner.control_turn.lock().await;
        let volume = inner.volume_id(name)?;
        let now = inner.info_of(name)?;
        let allowance = Allowance {
            limit_bytes: policy.limit_bytes.unwrap_or(now.allowance.limit_bytes),
            reserve_bytes: policy.reserve_bytes.unwrap_or(now.allowance.reserve_bytes),
        };
        allowance.check(name)?;
        let rates = Rates {
            requests_per_second: policy.requests_per_second.unwrap_or(now.rates.requests_per_second),
            bytes_per_second: policy.bytes_per_second.unwrap_or(now.rates.bytes_per_second),
            burst_seconds: policy.burst_seconds.unwrap_or(now.rates.burst_seconds),
        };
        // A burst goes with the last of the rates that it is of.
        let rates = if policy.burst_seconds.is_none() { rates.or_none() } else { rates };
        rates.check(name)?;
        let precedence = Precedence {
            floor: policy.floor.unwrap_or(now.precedence.floor),
            class: policy.class.unwrap_or(now.precedence.class),
        };
        precedence.check(name)?;
        if allowance.reserve_bytes > now.allowance.reserve_bytes {
            let wanted = allowance.reserve_bytes.unwrap_or(0).saturating_sub(now.own_bytes);
            inner.check_reserve(name, wanted, Some(volume))?;
        }
        let compression = policy.compression.unwrap_or(now.compression);
        let dedupe = policy.dedupe.unwrap_or(now.dedupe);
        if (compression, dedupe) != (now.compression, now.dedupe) {
            let carried =
                inner.tree.borrow().catalogue.get(volume).map_or([0; CARRIED_BYTES], |own| own.carried);
            let name = name.to_string();
            inner.change(Record::SetEntry { volume, name, compression, dedupe, carried }).await?;
        }
        if (allowance, rates, precedence) != (now.allowance, now.rates, now.precedence) {
            let batch = allowance.note(now.allowance, volume, rates.note(now.rates, volume));
            let batch = precedence.note(now.precedence, volume, batch);
            // In a full pool, too: who fills it can be held back then. A volume has one such note of each.
            inner.change_noted(None, batch.from_reserve()).await?;
            inner.follow_precedence();
        }
        inner.info_of(name)
    }

    /// Deletes a volume for good. Its snapshots and clones stay.
    pub async fn volume_delete(&self, name: &str) -> Result<()> {
        let inner = &self.inner;
        let _turn = inner.control_turn.lock().await;
        let volume = inner.volume_id(name)?;
        inner.delete(vec![volume]).await
    }

    /// Takes a snapshot of several volumes at one instant.
    pub async fn snapshot_create(&self, name: &str, volumes: &[String]) -> Result<SnapshotInfo> {
        let inner = &self.inner;
        check_name("snapshot", name)?;
        if volumes.is_empty() || volumes.len() > SNAPSHOT_VOLUMES_MAX {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "snapshot {name} names {} volumes; 1 to {SNAPSHOT_VOLUMES_MAX} are possible",
                    volumes.len()
                ),
            ));
        }
        let _turn = inner.control_turn.lock().await;
        if inner.tree.borrow().catalogue.snapshot(name).is_some() {
            return Err(Error::new(ErrorKind::Exists, format!("there is a snapshot {name} already")));
        }
        let mut members = Vec::new();
        for volume in volumes {
            let id = inner.volume_id(volume)?;
            if members.iter().any(|(member, _)| *member == id) {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    format!("snapshot {name} names volume {volume} twice"),
                ));
            }
            members.push((id, VolumeId(inner.next_id().0 + members.len() as u64)));
        }
        let created_unix_seconds = inner.unix_seconds();
        inner.change(Record::Snapshot { name: name.to_string(), created_unix_seconds, members }).await?;
        let tree = inner.tree.borrow();
        let images = tree.catalogue.snapshot(name).unwrap_or_default();
        Ok(snapshot_info(&tree, name, &images))
    }

    /// Deletes a snapshot. Clones made from it stay.
    pub async fn snapshot_delete(&self, name: &str) -> Result<()> {
        self.snapshots_delete(&[name.to_string()]).await
    }

    /// Deletes several snapshots for little more than the time of one, which is that of a durable
    /// write. Where one does not exist none is deleted; each is deleted whole or not at all.
    pub async fn snapshots_delete(&self, names: &[String]) -> Result<()> {
        let inner = &self.inner;
        let _turn = inner.control_turn.lock().await;
        let mut snapshots = Vec::new();
        for name in BTreeSet::from_iter(names) {
            inner.check_not_held(name)?;
            snapshots.push(inner.images_of(name)?.iter().map(|image| image.id).collect());
        }
        for images in of_one_record(snapshots) {
            inner.delete(images).await?;
        }
        Ok(())
    }

    /// Takes the snapshot's volumes back to it, all at once.
    pub async fn snapshot_restore(&self, name: &str) -> Result<()> {
        self.restore(name, None).await
    }

    /// The same, and what was there before is kept in another snapshot: nothing is between the two, and both
    /// happen or neither does.
    pub async fn snapshot_restore_keeping(&self, name: &str, backup: &str) -> Result<()> {
        check_name("snapshot", backup)?;
        self.restore(name, Some(backup)).await
    }

    async fn restore(&self, name: &str, backup: Option<&str>) -> Result<()> {
        let inner = &self.inner;
        // Before it is anybody's turn: in a full pool a write may wait until others have deleted.
        for image in inner.images_of(name)? {
            inner.under_way.drain(image.origin).await;
        }
        let _turn = inner.control_turn.lock().await;
        let mut members = Vec::new();
        for image in inner.images_of(name)? {
            inner.check_origin_alive(name, &image)?;
            members.push((image.origin, image.id));
        }
        let backup = backup.map(|backup| inner.backup_of(backup, &members)).transpose()?;
        let _held = inner.hold_volumes(members.iter().map(|(volume, _)| *volume)).await;
        let mut records = vec![Record::Restore { members }];
        records.splice(0..0, backup);
        if planted(Fault::BackupBehindRestore) {
            records.reverse();
        }
        inner.change_together(records).await?;
        inner.cleaner.want_mark();
        Ok(())
    }

    /// Makes writable volumes from a snapshot (`NAME`, or `NAME-VOLUME` for each when it has several
    /// volumes), from one of its volumes (`VOLUME@SNAPSHOT`), or from a volume as it is now.
    pub async fn clone_create(&self, name: &str, from: &str) -> Result<Vec<VolumeInfo>> {
        self.clone_create_on(name, from, Terms::default()).await
    }

    /// The same, each on these terms.
    pub async fn clone_create_on(
        &self,
        name: &str,
        from: &str,
        terms: impl Into<Terms>,
    ) -> Result<Vec<VolumeInfo>> {
        let terms: Terms = terms.into();
        let inner = &self.inner;
        check_hidden_name("clone", name)?;
        let _turn = inner.control_turn.lock().await;
        let sources = inner.clone_sources(from)?;
        let is_single = sources.len() == 1;
        terms.check(name)?;
        let wanted = terms.allowance.reserve_bytes.unwrap_or(0).saturating_mul(sources.len() as u64);
        inner.check_reserve(name, wanted, None)?;
        let mut members = Vec::new();
        let mut names = Vec::new();
        for source in sources {
            let is_image = source.kind == VolumeKind::Snapshot;
            let volume = inner.volume_name_of(&source);
            let clone_name = if is_single { name.to_string() } else { format!("{name}-{volume}") };
            check_hidden_name("clone", &clone_name)?;
            inner.check_volume_free(&clone_name)?;
            let mut origin_name =
                if is_image { format!("{volume}@{}", source.name) } else { source.name.clone() };
            origin_name.truncate(ORIGIN_BYTES_MAX);
            let entry = VolumeEntry {
                id: VolumeId(inner.next_id().0 + members.len() as u64),
                kind: VolumeKind::Volume,
                created_unix_seconds: inner.unix_seconds(),
                root: Pointer::HOLE,
                origin: source.id,
                group: VolumeId(0),
                name: clone_name.clone(),
                origin_name,
                ..source.clone()
            };
            members.push((entry, source.id));
            names.push(clone_name);
        }
        let batch = members.iter().fold(NoteBatch::new(), |batch, (entry, _)| terms.note(entry.id, batch));
        inner.change_noted(Some(Record::Clone { members }), batch).await?;
        names.iter().map(|name| inner.info_of(name)).collect()
    }
}

impl Inner {
    /// Fails where a volume of a snapshot is not there to be taken back.
    fn check_origin_alive(&self, snapshot: &str, image: &VolumeEntry) -> Result<()> {
        let tree = self.tree.borrow();
        let name = &image.origin_name;
        let what = format!("volume {name} of snapshot {snapshot} was deleted");
        match tree.catalogue.get(image.origin) {
            Some(volume) if volume.deleted().is_none() => Ok(()),
            Some(volume) => Err(Error::new(ErrorKind::NotFound, what)
                .and_do(format!("`ashlar volume undelete {}` brings it back; or make a clone", volume.name))),
            None => Err(Error::new(ErrorKind::NotFound, what).and_do("make a clone instead")),
        }
    }

    /// The record of a snapshot of the volumes that are about to be restored.
    fn backup_of(&self, name: &str, restored: &[(VolumeId, VolumeId)]) -> Result<Record> {
        if self.tree.borrow().catalogue.snapshot(name).is_some() {
            return Err(Error::new(ErrorKind::Exists, format!("there is a snapshot {name} already")));
        }
        let volumes = restored.iter().map(|(volume, _)| *volume);
        let members = volumes.zip(self.next_id().0..).map(|(volume, id)| (volume, VolumeId(id))).collect();
        Ok(Record::Snapshot { name: name.to_string(), created_unix_seconds: self.unix_seconds(), members })
    }

    /// Journals records as one: all of them happen, or none.
    pub(crate) async fn change_together(&self, records: Vec<Record>) -> Result<()> {
        self.check_online()?;
        self.admit_change().await?;
        let bytes = records.iter().map(Record::encoded_bytes).max().unwrap_or_default();
        let credits = self.change_credits(records.len(), bytes).await;
        let drafts = records.into_iter().map(Draft::Record).collect();
        outcome_of(self.submit(drafts, [credits]).await)
    }

    /// Sees to it that the superblock tells of features that older programs do not know, before the first
    /// record of them is journalled.
    pub(crate) async fn allow_feature(&self, bits: u64) -> Result<()> {
        if self.pool.superblock().incompatible & bits == bits {
            return Ok(());
        }
        self.checkpointer.lock().await.incompatible |= bits;
        self.checkpoint_now(false).await
    }

    /// The name of a volume, or of the volume of an image.
    fn volume_name_of(&self, entry: &VolumeEntry) -> String {
        match entry.kind {
            VolumeKind::Volume => entry.name.clone(),
            VolumeKind::Snapshot => self.tree.borrow().catalogue.origin_name(entry).to_string(),
        }
    }

    fn next_id(&self) -> VolumeId {
        VolumeId(self.tree.borrow().catalogue.volume_next)
    }

    pub(crate) fn unix_seconds(&self) -> u64 {
        self.runtime.unix_nanos() / 1_000_000_000
    }

    pub(crate) async fn delete(&self, images: Vec<VolumeId>) -> Result<()> {
        self.prefer_room().await?;
        self.change(Record::Delete { images }).await?;
        self.cleaner.want_mark();
        self.checkpoints.wanted.notify_one();
        Ok(())
    }

    pub(crate) fn check_volume_free(&self, name: &str) -> Result<()> {
        if self.tree.borrow().catalogue.volume(name).is_some() {
            return Err(Error::new(ErrorKind::Exists, format!("there is a volume {name} already")));
        }
        Ok(())
    }

    pub(crate) fn info_of(&self, name: &str) -> Result<VolumeInfo> {
        let tree = self.tree.borrow();
        let entry = tree.catalogue.volume(name);
        entry
            .map(|entry| volume_info(&tree, entry))
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no volume {name}")))
    }

    pub(crate) fn images_of(&self, name: &str) -> Result<Vec<VolumeEntry>> {
        let tree = self.tree.borrow();
        let images = tree.catalogue.snapshot(name).map(|images| images.into_iter().cloned().collect());
        images.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("there is no snapshot {name}"))
                .and_do("`ashlar snapshot list` shows what there is")
        })
    }

    fn clone_sources(&self, from: &str) -> Result<Vec<VolumeEntry>> {
        if let Some((volume, snapshot)) = from.split_once('@') {
            self.images_of(snapshot)?;
            let tree = self.tree.borrow();
            return tree.catalogue.image(volume, snapshot).map(|image| vec![image.clone()]).ok_or_else(
                || Error::new(ErrorKind::NotFound, format!("snapshot {snapshot} has no volume {volume}")),
            );
        }
        if let Ok(images) = self.images_of(from) {
            return Ok(images);
        }
        let tree = self.tree.borrow();
        tree.catalogue.volume(from).map(|entry| vec![entry.clone()]).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("there is no snapshot or volume {from} to clone"))
        })
    }
}

/// Names are what file names, export names and URLs can carry without quoting.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    let is_first_good = name.starts_with(|first: char| first.is_ascii_alphanumeric());
    let is_rest_good = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    if is_first_good && is_rest_good && name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Invalid, format!("`{name}` is no {what} name")).and_do(format!(
        "use 1 to {NAME_BYTES_MAX} letters, digits, dots, dashes and underscores, starting with a letter or digit"
    )))
}

/// The daemon hides what it makes for itself behind a dot; people's names never begin with one.
fn check_hidden_name(what: &str, name: &str) -> Result<()> {
    check_name(what, name.strip_prefix('.').unwrap_or(name))?;
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::new(ErrorKind::Invalid, format!("`{name}` is too long for a name of a {what}")));
    }
    Ok(())
}

/// Joins the images of whole snapshots to what one record deletes.
fn of_one_record(snapshots: Vec<Vec<VolumeId>>) -> Vec<Vec<VolumeId>> {
    let mut records: Vec<Vec<VolumeId>> = Vec::new();
    for images in snapshots {
        match records.last_mut() {
            Some(record) if record.len() + images.len() <= IMAGES_DELETED_MAX => record.extend(images),
            _ => records.push(images),
        }
    }
    records
}

fn check_size(name: &str, size_bytes: u64) -> Result<()> {
    if size_bytes == 0 || !size_bytes.is_multiple_of(BLOCK_BYTES) || size_bytes / BLOCK_BYTES > BLOCKS_MAX {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("size {size_bytes} of volume {name} is not a multiple of 4096 from 4 KiB to 256 TiB"),
        ));
    }
    Ok(())
}

/// A volume's entry as told to the outside.
pub(crate) fn volume_info(tree: &Tree, entry: &VolumeEntry) -> VolumeInfo {
    let written = Some(entry.written_blocks).filter(|blocks| *blocks != WRITTEN_UNKNOWN);
    VolumeInfo {
        id: entry.id.0,
        name: entry.name.clone(),
        size_bytes: entry.size_bytes,
        logical_block_bytes: 1 << entry.logical_block_shift,
        profile: entry.profile,
        compression: entry.compression,
        dedupe: entry.dedupe,
        written_bytes: written.map(|blocks| blocks * BLOCK_BYTES),
        own_bytes: entry.own_bytes,
        allowance: Allowance::of(&tree.notebook, entry.id),
        rates: Rates::of(&tree.notebook, entry.id),
        precedence: Precedence::of(&tree.notebook, entry.id),
        origin: tree.catalogue.made_from(entry),
        created_unix_seconds: entry.created_unix_seconds,
    }
}

/// A snapshot's images as told to the outside.
pub(crate) fn snapshot_info(tree: &Tree, name: &str, images: &[&VolumeEntry]) -> SnapshotInfo {
    let catalogue = &tree.catalogue;
    SnapshotInfo {
        hold: images.first().and_then(|image| hold_of(&tree.notebook, image.group)),
        name: name.to_string(),
        order: images.first().map_or(0, |image| image.id.0),
        volumes: images.iter().map(|image| catalogue.origin_name(image).to_string()).collect(),
        created_unix_seconds: images.first().map_or(0, |image| image.created_unix_seconds),
        size_bytes: images.iter().map(|image| image.size_bytes).sum(),
    }
}
