//! What an array does with a volume that the lab made: a clone of it as a device, the way back to a snapshot,
//! and its file system taken away and brought back.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ashlar_client::api::AttachRequest;

use crate::copies::{cloned, locked};
use crate::place::Refusal;
use crate::volumes::{Volumes, attach, detach, plain_attachment};

impl Volumes {
    /// What hosts can still write to the pool.
    ///
    /// # Errors
    /// When the pool is not open, or the array does not answer.
    pub fn free_room_bytes(&self) -> Result<u64, Refusal> {
        self.room_bytes()
    }

    /// The name of the volume that was made and is this device.
    ///
    /// # Errors
    /// When none is, or the array does not answer.
    pub fn named_as(&self, device: &Path) -> Result<String, Refusal> {
        for made in self.made() {
            let volume = self.client.volume(&made.name).map_err(|error| self.refusal(&error))?;
            if volume.device.as_deref().map(Path::new) == Some(device) {
                return Ok(made.name);
            }
        }
        Err(Refusal(format!("{}: {} is no volume that was made here", self.named, device.display())))
    }

    /// A writable clone of a snapshot of one volume, as a device: its name, and the device.
    ///
    /// # Errors
    /// When the array refuses it or does not answer.
    pub fn clone_device(&self, snapshot: &str) -> Result<(String, PathBuf), Refusal> {
        let pool_id = self.pool()?.id;
        let made = cloned(&self.client, snapshot, &pool_id).map_err(|error| self.refusal(&error))?;
        let name = made.name.clone();
        locked(&self.made).push(made);
        let device = attach(&self.client, &name).map_err(|error| self.refusal(&error))?;
        Ok((name, device))
    }

    /// Takes the volume's file system and its device away.
    ///
    /// # Errors
    /// When it is in use or the array does not answer.
    pub fn unmount(&self, name: &str) -> Result<(), Refusal> {
        detach(&self.client, name).map_err(|error| self.refusal(&error))
    }

    /// Brings them back.
    ///
    /// # Errors
    /// When the array refuses it or does not answer.
    pub fn mount(&self, name: &str, mount: &Path) -> Result<(), Refusal> {
        let mount = Some(mount.display().to_string());
        let request = AttachRequest { mount, ..plain_attachment(name) };
        self.client.attach(&request).map(drop).map_err(|error| self.refusal(&error))
    }

    /// Sets the volumes of a snapshot back to it, and keeps nothing of what they were; how long that took.
    ///
    /// # Errors
    /// When one of them is attached, or the array does not answer.
    pub fn set_back(&self, snapshot: &str) -> Result<Duration, Refusal> {
        let begun = Instant::now();
        self.client.snapshot_restore(snapshot, false, false).map_err(|error| self.refusal(&error))?;
        Ok(begun.elapsed())
    }
}
