//! A pool at its last checkpoint: every image with its root, and what the segments hold.

use ashlar_format::Pointer;
use ashlar_format::catalogue::{VolumeEntry, VolumeKind};
use ashlar_format::segment::SegmentEntry;
use ashlar_format::superblock::JournalPosition;
use ashlar_pool::CellCount;

use crate::engine::Inner;
use crate::{Error, ErrorKind, Result};

/// The state a count speaks of. Taken under the checkpointer's lock, so all of it is of one checkpoint.
pub(crate) struct Frozen {
    /// Volumes and images of snapshots, their roots on drives.
    pub(crate) images: Vec<VolumeEntry>,
    /// Records of the tables.
    pub(super) tables: Vec<Pointer>,
    pub(super) segments: Vec<SegmentEntry>,
    pub(super) cells: CellCount,
    /// Bytes of each drive: drives may join and go while a count walks.
    pub(super) drives: Vec<u64>,
    pub(super) parity_bytes: u64,
    pub(super) spare_bytes: u64,
    /// The end of the journal that the checkpoint holds.
    pub(super) position: JournalPosition,
}

impl Frozen {
    /// Writes a checkpoint if there is news, and reads back what it says.
    pub(crate) async fn take(inner: &Inner) -> Result<Frozen> {
        let has_news = inner.applied.get().next_lsn.0 != inner.checkpoints.published_lsn.get();
        if has_news && inner.check_online().is_ok() {
            inner.checkpoint_now(false).await?;
        }
        let checkpointer = inner.checkpointer.lock().await;
        let images = checkpointer.published_images().await?;
        let mut tables = checkpointer.tables.all();
        tables.extend(inner.media.relocations.borrow().all());
        Ok(Frozen {
            images,
            tables,
            segments: inner.pool.with_table(|table| table.entries().to_vec()),
            cells: inner.pool.cells(),
            drives: inner.pool.drives().iter().map(|(_, bytes)| *bytes).collect(),
            parity_bytes: inner.pool.parity_bytes(),
            spare_bytes: inner.pool.spare_bytes(),
            position: inner.pool.superblock().journal,
        })
    }

    /// The images that a name stands for: `VOLUME`, `SNAPSHOT` or `VOLUME@SNAPSHOT`; `volume:NAME` and
    /// `snapshot:NAME` where both exist; `VOLUME:NUMBER` of a deleted volume.
    pub(super) fn resolve(&self, name: &str) -> Result<Vec<usize>> {
        let is_volume = |entry: &VolumeEntry, name: &str| entry.is_alive_volume() && entry.name == name;
        let is_image =
            |entry: &VolumeEntry, name: &str| entry.kind == VolumeKind::Snapshot && entry.name == name;
        let found = if let Some(name) = name.strip_prefix("volume:") {
            self.select(|entry| is_volume(entry, name))
        } else if let Some(name) = name.strip_prefix("snapshot:") {
            self.select(|entry| is_image(entry, name))
        } else if let Some((volume, snapshot)) = name.split_once('@') {
            self.select(|entry| is_image(entry, snapshot) && entry.origin_name == volume)
        } else {
            self.unambiguous(
                name,
                self.select(|entry| is_volume(entry, name)),
                self.select(|entry| is_image(entry, name)),
            )?
        };
        let found = match found.is_empty() {
            true => self.select(|entry| entry.deleted().is_some() && entry.full_name() == name),
            false => found,
        };
        if found.is_empty() {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no volume or snapshot {name}")));
        }
        Ok(found)
    }

    fn unambiguous(&self, name: &str, volume: Vec<usize>, snapshot: Vec<usize>) -> Result<Vec<usize>> {
        if !volume.is_empty() && !snapshot.is_empty() {
            let what = format!("{name} is a volume and a snapshot: say volume:{name} or snapshot:{name}");
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        Ok(if volume.is_empty() { snapshot } else { volume })
    }

    fn select(&self, is_wanted: impl Fn(&VolumeEntry) -> bool) -> Vec<usize> {
        let found = self.images.iter().enumerate().filter(|(_, entry)| is_wanted(entry));
        found.map(|(index, _)| index).collect()
    }
}
