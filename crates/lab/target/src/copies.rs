//! Snapshots of a volume that the lab made, and clones of them, mounted for a look at what they hold.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ashlar_client::api::{AttachRequest, CloneCreate, ErrorKind, SnapshotCreate, SnapshotsDelete};
use ashlar_client::{Client, Error};
use serde::{Deserialize, Serialize};

use crate::place::Refusal;
use crate::volumes::{MadeVolume, plain_attachment, remove};

/// A snapshot that the lab made and will remove.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MadeSnapshot {
    pub name: String,
    /// Drawn when the pool was created.
    pub pool_id: String,
}

/// What was made of one kind and is still there, for whoever clears up.
pub(crate) type Made<T> = Arc<Mutex<Vec<T>>>;

/// Of one volume with a file system.
#[derive(Clone)]
pub struct Copies {
    pub(crate) client: Arc<Client>,
    pub(crate) named: String,
    pub(crate) volume: String,
    pub(crate) pool_id: String,
    pub(crate) volumes: Made<MadeVolume>,
    pub(crate) snapshots: Made<MadeSnapshot>,
}

/// A clone that is mounted; goes when it is dropped.
pub struct Opened {
    copies: Copies,
    volume: MadeVolume,
    pub directory: PathBuf,
}

impl std::fmt::Debug for Copies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Copies").field(&self.volume).finish()
    }
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Opened").field(&self.volume.name).finish()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // One that stays is told when its target is cleared.
        if remove(&self.copies.client, &self.volume).is_ok() {
            locked(&self.copies.volumes).retain(|made| *made != self.volume);
        }
    }
}

impl Copies {
    /// Takes a snapshot, as it is under way.
    ///
    /// # Errors
    /// When the array refuses it or does not answer.
    pub fn snapshot(&self, name: &str) -> Result<(), Refusal> {
        let made = MadeSnapshot { name: name.to_string(), pool_id: self.pool_id.clone() };
        locked(&self.snapshots).push(made);
        let request = SnapshotCreate { name: name.to_string(), volumes: vec![self.volume.clone()] };
        self.client.snapshot_create(&request).map(drop).map_err(|error| self.refusal(&error))
    }

    /// A writable clone of a snapshot, mounted.
    ///
    /// # Errors
    /// When the array refuses it or does not answer.
    pub fn open(&self, snapshot: &str, mount: &Path) -> Result<Opened, Refusal> {
        let mount = mount.to_path_buf();
        let made = cloned(&self.client, snapshot, &self.pool_id).map_err(|error| self.refusal(&error))?;
        let volume = MadeVolume { mount: Some(mount.clone()), ..made };
        locked(&self.volumes).push(volume.clone());
        let clone = Opened { copies: self.clone(), volume, directory: mount.clone() };
        let name = &clone.volume.name;
        let request = AttachRequest { mount: Some(mount.display().to_string()), ..plain_attachment(name) };
        self.client.attach(&request).map_err(|error| self.refusal(&error))?;
        Ok(clone)
    }

    /// Deletes a snapshot whose clones are gone.
    ///
    /// # Errors
    /// When the array refuses it or does not answer.
    pub fn delete(&self, snapshot: &str) -> Result<(), Refusal> {
        delete(&self.client, snapshot).map_err(|error| self.refusal(&error))?;
        locked(&self.snapshots).retain(|made| made.name != snapshot);
        Ok(())
    }

    fn refusal(&self, error: &Error) -> Refusal {
        Refusal(format!("{}: {error}", self.named))
    }
}

/// Deletes a snapshot that the lab made, if it is still of that pool.
///
/// # Errors
/// When it is in use or the array does not answer: says what to do.
pub fn remove_snapshot(client: &Client, made: &MadeSnapshot) -> Result<(), Refusal> {
    let name = &made.name;
    let left = |error: Error| {
        let what = format!("then remove it with `ashlar snapshot delete {name}`");
        Refusal(format!("snapshot {name} is left: {error}; {what}"))
    };
    let is_it = || {
        let found = client.snapshot(name)?;
        Ok::<bool, Error>(client.pool(&found.pool)?.id == made.pool_id)
    };
    match is_it() {
        Ok(true) => delete(client, name).map_err(left),
        Ok(false) => Ok(()),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(left(error)),
    }
}

fn delete(client: &Client, name: &str) -> Result<(), Error> {
    client.snapshots_delete(&SnapshotsDelete { names: vec![name.to_string()], force: false })
}

/// A writable clone of a snapshot of one volume, which nobody has attached.
pub(crate) fn cloned(client: &Client, snapshot: &str, pool_id: &str) -> Result<MadeVolume, Error> {
    let name = format!("{snapshot}-clone");
    let request = CloneCreate {
        name: name.clone(),
        from: snapshot.to_string(),
        limit_bytes: None,
        reserve_bytes: None,
    };
    let made = client.clone_create(&request)?;
    let id = made.first().map_or(0, |volume| volume.id);
    Ok(MadeVolume { name, id, pool_id: pool_id.to_string(), mount: None })
}

pub(crate) fn locked<T>(made: &Made<T>) -> std::sync::MutexGuard<'_, Vec<T>> {
    made.lock().unwrap_or_else(PoisonError::into_inner)
}
