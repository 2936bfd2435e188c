//! Holds: snapshots that must not be deleted until somebody releases them.
//!
//! A hold is a note about the snapshot's first image, so it is durable, goes with the pool, and ends with the
//! snapshot. Everything that deletes snapshots asks here, under the control turn.

use ashlar_format::hold::{HOLD_REASON_BYTES_MAX, HOLD_VERSION, Hold};
use ashlar_format::note_kind::NoteKind;
use ashlar_units::VolumeId;

use crate::engine::{Engine, Inner};
use crate::info::SnapshotInfo;
use crate::notebook::{NoteBatch, Notebook};
use crate::{Error, ErrorKind, Result};

impl Engine {
    /// Holds a snapshot; one that is held gets the new reason.
    pub async fn snapshot_hold(&self, name: &str, reason: &str) -> Result<SnapshotInfo> {
        if reason.len() > HOLD_REASON_BYTES_MAX {
            let what = format!("a reason of {} bytes, {HOLD_REASON_BYTES_MAX} at most", reason.len());
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        let inner = &self.inner;
        let _turn = inner.control_turn.lock().await;
        let hold = Hold { unix_seconds: inner.unix_seconds(), reason: reason.to_string() };
        let group = inner.group_of(name)?;
        let batch = NoteBatch::new().put(NoteKind::Hold, group.0, 0, HOLD_VERSION, hold.encode());
        inner.change_noted(None, batch).await?;
        self.snapshot_info(name)
    }

    /// Ends the hold of a snapshot, if there is one.
    pub async fn snapshot_release(&self, name: &str) -> Result<SnapshotInfo> {
        let inner = &self.inner;
        let _turn = inner.control_turn.lock().await;
        let group = inner.group_of(name)?;
        let notes = self.notes_range(NoteKind::Hold, group.0);
        if !notes.is_empty() {
            let parts = notes.iter().map(|note| note.key.part);
            let delete = |batch: NoteBatch, part| batch.delete(NoteKind::Hold, group.0, part);
            inner.change_noted(None, parts.fold(NoteBatch::new(), delete)).await?;
        }
        self.snapshot_info(name)
    }

    fn snapshot_info(&self, name: &str) -> Result<SnapshotInfo> {
        let tree = self.inner.tree.borrow();
        let images = tree.catalogue.snapshot(name);
        let missing = || Error::new(ErrorKind::NotFound, format!("there is no snapshot {name}"));
        Ok(crate::control::snapshot_info(&tree, name, &images.ok_or_else(missing)?))
    }
}

impl Inner {
    /// Refuses a snapshot that is held.
    pub(crate) fn check_not_held(&self, name: &str) -> Result<()> {
        let group = self.group_of(name)?;
        let Some(hold) = hold_of(&self.tree.borrow().notebook, group) else { return Ok(()) };
        let why = if hold.reason.is_empty() { String::new() } else { format!(": {}", hold.reason) };
        Err(Error::new(ErrorKind::Busy, format!("snapshot {name} is held{why}"))
            .and_do(format!("`ashlar snapshot release {name}` ends that")))
    }

    /// The number that the images of a snapshot share: the identity of the first.
    fn group_of(&self, name: &str) -> Result<VolumeId> {
        let images = self.images_of(name)?;
        Ok(images.first().map_or(VolumeId(0), |image| image.group))
    }
}

/// The hold of the snapshot of these images. Any note of the kind is one.
pub(crate) fn hold_of(notebook: &Notebook, group: VolumeId) -> Option<Hold> {
    let mut notes = notebook.range(NoteKind::Hold.code(), group.0..=group.0);
    notes.next().map(|note| Hold::decode(note.version, &note.value))
}
