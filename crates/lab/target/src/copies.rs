//! Snapshots of a volume that the lab made, and clones of them, mounted for a look at what they hold.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ashlar_client::api::{
    AttachRequest, CloneCreate, ErrorKind, SnapshotCreate, SnapshotsDelete, VolumeClass,
};
use ashlar_client::{Client, Error};
use serde::{Deserialize, Serialize};

use crate::place::Refusal;
use crate::volumes::{LOG_SUFFIX, MadeVolume, plain_attachment, remove};

/// A snapshot that the lab made and will remove.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MadeSnapshot {
    pub name: String,
    /// Drawn when the pool was created.
    pub pool_id: String,
}

/// What was made of one kind and is still there, for whoever clears up.
pub(crate) type Made<T> = Arc<Mutex<Vec<T>>>;

/// Of one volume with a file system, and of the one that has the log of its database.
#[derive(Clone)]
pub struct Copies {
    pub(crate) client: Arc<Client>,
    pub(crate) named: String,
    pub(crate) volume: String,
    pub(crate) log: Option<String>,
    pub(crate) pool_id: String,
    pub(crate) volumes: Made<MadeVolume>,
    pub(crate) snapshots: Made<MadeSnapshot>,
}

/// Clones that are mounted; they go when this is dropped.
pub struct Opened {
    copies: Copies,
    volumes: Vec<MadeVolume>,
    pub directory: PathBuf,
    /// Of the log, where that is on a volume of its own.
    pub log: Option<PathBuf>,
}

impl std::fmt::Debug for Copies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Copies").field(&self.volume).finish()
    }
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Opened").field(&self.directory).finish()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        for volume in self.volumes.iter().rev() {
            // One that stays is told when its target is cleared.
            if remove(&self.copies.client, volume).is_ok() {
                locked(&self.copies.volumes).retain(|made| made != volume);
            }
        }
    }
}

impl Copies {
    /// With the volume that the log lies on: both are in a snapshot at the same moment.
    ///
    /// # Errors
    /// When that is of another pool.
    pub fn with_log(self, log: &Copies) -> Result<Copies, Refusal> {
        match self.pool_id == log.pool_id {
            true => Ok(Copies { log: Some(log.volume.clone()), ..self }),
            false => Err(Refusal(format!(
                "{}: a snapshot of data and log is of one moment, and {} is another pool: name the same one",
                self.named, log.named
            ))),
        }
    }

    fn volumes_named(&self) -> Vec<String> {
        [&self.volume].into_iter().chain(&self.log).cloned().collect()
    }

    /// Takes a snapshot, as it is under way.
    ///
    /// # Errors
    /// When the array refuses it or does not answer.
    pub fn snapshot(&self, name: &str) -> Result<(), Refusal> {
        let made = MadeSnapshot { name: name.to_string(), pool_id: self.pool_id.clone() };
        locked(&self.snapshots).push(made);
        let request = SnapshotCreate { name: name.to_string(), volumes: self.volumes_named() };
        self.client.snapshot_create(&request).map(drop).map_err(|error| self.refusal(&error))
    }

    /// Writable clones of a snapshot, mounted: of the data there, and of a log beside it.
    ///
    /// # Errors
    /// When the array refuses it or does not answer.
    pub fn open(&self, snapshot: &str, mount: &Path) -> Result<Opened, Refusal> {
        let log = self.log.as_ref().map(|_| mount.with_extension("log"));
        let (copies, directory) = (self.clone(), mount.to_path_buf());
        let mut clones = Opened { copies, volumes: Vec::new(), directory, log };
        let mounts: Vec<PathBuf> = [mount.to_path_buf()].into_iter().chain(clones.log.clone()).collect();
        for (volume, mount) in self.volumes_named().iter().zip(mounts) {
            let suffix = if Some(volume) == self.log.as_ref() { LOG_SUFFIX } else { "" };
            let (name, from) = (format!("{snapshot}-clone{suffix}"), format!("{volume}@{snapshot}"));
            let made = cloned_as(&self.client, (&name, &from), &self.pool_id);
            let made = made.map_err(|error| self.refusal(&error))?;
            let clone = MadeVolume { mount: Some(mount.clone()), ..made };
            locked(&self.volumes).push(clone.clone());
            clones.volumes.push(clone);
            let request =
                AttachRequest { mount: Some(mount.display().to_string()), ..plain_attachment(&name) };
            self.client.attach(&request).map_err(|error| self.refusal(&error))?;
        }
        Ok(clones)
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

/// Snapshots in one of these pools that a process of the lab took while a database worked: they are called by
/// the process, and it may have been killed before it noted them.
///
/// # Errors
/// When the array does not answer.
pub fn snapshots_of_process(
    client: &Client,
    process: &str,
    volumes: &[MadeVolume],
) -> Result<Vec<MadeSnapshot>, Refusal> {
    let unasked = |error: Error| Refusal(format!("snapshots of {process}: {error}"));
    let beginning = format!("{process}-");
    let mut found = Vec::new();
    for snapshot in client.snapshots().map_err(unasked)? {
        let pool_id = client.pool(&snapshot.pool).map_err(unasked)?.id;
        let is_own = volumes.iter().any(|volume| volume.pool_id == pool_id);
        if is_own && snapshot.name.starts_with(&beginning) {
            found.push(MadeSnapshot { name: snapshot.name, pool_id });
        }
    }
    Ok(found)
}

fn delete(client: &Client, name: &str) -> Result<(), Error> {
    client.snapshots_delete(&SnapshotsDelete { names: vec![name.to_string()], force: false })
}

/// A writable clone of a snapshot of one volume, which nobody has attached.
pub(crate) fn cloned(client: &Client, snapshot: &str, pool_id: &str) -> Result<MadeVolume, Error> {
    cloned_as(client, (&format!("{snapshot}-clone"), snapshot), pool_id)
}

/// The same under a name, of what `from` says.
pub(crate) fn cloned_as(
    client: &Client,
    (name, from): (&str, &str),
    pool_id: &str,
) -> Result<MadeVolume, Error> {
    let request = CloneCreate {
        name: name.to_string(),
        from: from.to_string(),
        limit_bytes: None,
        reserve_bytes: None,
        floor_micros: None,
        class: VolumeClass::Normal,
    };
    let made = client.clone_create(&request)?;
    let id = made.first().map_or(0, |volume| volume.id);
    Ok(MadeVolume { name: name.to_string(), id, pool_id: pool_id.to_string(), mount: None })
}

pub(crate) fn locked<T>(made: &Made<T>) -> std::sync::MutexGuard<'_, Vec<T>> {
    made.lock().unwrap_or_else(PoisonError::into_inner)
}
