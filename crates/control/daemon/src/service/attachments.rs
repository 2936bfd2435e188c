//! Attachments: a volume's file becomes a loop device, and if wanted a mounted file system.
//!
//! The blocking calls run on threads of their own: the kernel asks the data shard meanwhile. A
//! volume is entered in the table before the first call and leaves it after the last, so that it is
//! not deleted under its device.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ashlar_api as api;

use super::Service;
use super::pools::device_volume;
use crate::attach;
use crate::error::{Error, Result};
use crate::state::VOLUMES;

/// How long a stop waits for an attach or detach that is under way: a `mkfs` of a large volume.
const UNFINISHED_WAIT_MAX: Duration = Duration::from_secs(60);
const UNFINISHED_POLL: Duration = Duration::from_millis(20);

impl Service {
    /// The attached volumes, by name.
    pub(crate) fn attachments(&self) -> Vec<api::Attachment> {
        self.known().attached.values().flatten().cloned().collect()
    }

    /// Attaches a volume.
    pub(crate) async fn attach(&self, request: api::AttachRequest) -> Result<api::Attachment> {
        let mount = mount_directory(&request)?;
        let options = self.attach_begin(&request).await?;
        let attached = self.attach_steps(&request, mount, options).await;
        let mut known = self.known();
        match &attached {
            Ok(attachment) => {
                known.attached.insert(request.volume.clone(), Some(attachment.clone()));
            }
            Err(_) => {
                known.attached.remove(&request.volume);
            }
        }
        drop(known);
        let attachment = attached?;
        let place = attachment.mount.as_ref().map_or(String::new(), |mount| format!(" on {mount}"));
        self.log
            .info(format!("volume {}", request.volume), format!("attached: {}{place}", attachment.device));
        Ok(attachment)
    }

    /// Enters the volume in the table; returns how its device is to be.
    async fn attach_begin(&self, request: &api::AttachRequest) -> Result<attach::AttachOptions> {
        let _turn = self.change().await?;
        let geometry = match request.volume.split_once('@') {
            Some((volume, snapshot)) => {
                self.pool_of_image(volume, snapshot)?;
                self.array.geometry(&request.volume).await?
            }
            None => {
                self.known().index.volume(&request.volume)?;
                self.array.geometry(&request.volume).await?
            }
        };
        let geometry = geometry.ok_or_else(|| Error::not_found("volume", &request.volume))?;
        if geometry.is_read_only && request.format.is_some() {
            return Err(Error::invalid(
                format!("`{}` takes no new file system: it is read-only", request.volume),
                "format a volume or a clone",
            ));
        }
        self.check_detached(&request.volume)?;
        self.doors.start_fuse(&self.array, &self.log).await?;
        self.known().attached.insert(request.volume.clone(), None);
        Ok(attach::AttachOptions {
            logical_block_bytes: geometry.logical_block_bytes,
            is_direct: true,
            is_read_only: geometry.is_read_only,
        })
    }

    async fn attach_steps(
        &self,
        request: &api::AttachRequest,
        mount: Option<PathBuf>,
        options: attach::AttachOptions,
    ) -> Result<api::Attachment> {
        let file = self.state().path(VOLUMES).join(&request.volume);
        let file_system = request.format.map(|format| match format {
            api::FileSystem::Ext4 => attach::FileSystem::Ext4,
            api::FileSystem::Xfs => attach::FileSystem::Xfs,
        });
        let trust =
            attach::Trust { allows_suid: request.allows_suid, allows_devices: request.allows_devices };
        let name = request.volume.clone();
        blocking(move || {
            let device = attach::attach(&file, options).map_err(|error| from_attach(&name, &error))?;
            let made = format_and_mount(&device, file_system, mount.as_deref(), options.is_read_only, trust);
            if let Err(error) = made {
                // Back to where we started; the first error is the one that says what to do.
                let _ = attach::detach(&device);
                return Err(from_attach(&name, &error));
            }
            Ok(api::Attachment {
                volume: name,
                device: device.display().to_string(),
                mount: mount.map(|directory| directory.display().to_string()),
            })
        })
        .await
    }

    /// Unmounts and detaches a volume.
    pub(crate) async fn detach(&self, name: &str) -> Result<()> {
        let attachment = {
            let _turn = self.change().await?;
            let mut known = self.known();
            match known.attached.get_mut(name) {
                // Taken out, the name stays: nobody else detaches or deletes it meanwhile.
                Some(entry @ Some(_)) => entry.take(),
                Some(None) => {
                    return Err(Error::new(
                        api::ErrorKind::Busy,
                        format!("volume `{name}` is being attached or detached"),
                        "wait a moment and repeat",
                    ));
                }
                None => {
                    known.index.volume(device_volume(name))?;
                    return Err(Error::new(
                        api::ErrorKind::NotFound,
                        format!("volume `{name}` is not attached"),
                        "`ashlar volume list` shows devices",
                    ));
                }
            }
        };
        let Some(attachment) = attachment else { return Ok(()) };
        let detached = self.detach_steps(&attachment, false).await;
        let mut known = self.known();
        match &detached {
            Ok(()) => {
                known.attached.remove(name);
            }
            Err(_) => {
                known.attached.insert(name.to_string(), Some(attachment));
            }
        }
        drop(known);
        detached?;
        self.log.info(format!("volume {name}"), "detached");
        Ok(())
    }

    async fn detach_steps(&self, attachment: &api::Attachment, is_forced: bool) -> Result<()> {
        let device = PathBuf::from(&attachment.device);
        let name = attachment.volume.clone();
        let file = self.state().path(VOLUMES).join(&name);
        blocking(move || {
            // Somebody may have detached it behind our back, and loop numbers are given out again at
            // once: a device that does not stand on the volume any more is none of ours.
            let ours = attach::find_device(&file).map_err(|error| from_attach(&name, &error))?;
            if ours.as_ref() != Some(&device) {
                return Ok(());
            }
            // The kernel's table, not our memory: a person may have mounted or unmounted since.
            let mounts = attach::mounts_of_device(&device).map_err(|error| from_attach(&name, &error))?;
            for directory in mounts {
                let unmounted = attach::unmount(&directory);
                let unmounted = match unmounted {
                    Err(_) if is_forced => attach::unmount_lazily(&directory),
                    other => other,
                };
                unmounted.map_err(|error| from_attach(&name, &error))?;
            }
            attach::detach(&device).map_err(|error| from_attach(&name, &error))
        })
        .await
    }

    /// Detaches everything before the array stops; what is in use is taken away lazily.
    pub(super) async fn detach_all(&self) -> bool {
        let mut is_clean = true;
        let patience = Instant::now() + UNFINISHED_WAIT_MAX;
        while self.known().attached.values().any(Option::is_none) && Instant::now() < patience {
            tokio::time::sleep(UNFINISHED_POLL).await;
        }
        for attachment in self.attachments() {
            let object = format!("volume {}", attachment.volume);
            let mut detached = self.detach_steps(&attachment, false).await;
            if let Err(error) = &detached {
                self.log.warning(object.clone(), format!("in use while the array stops: {error}"));
                detached = self.detach_steps(&attachment, true).await;
            }
            match detached {
                Ok(()) => {
                    self.known().attached.remove(&attachment.volume);
                    self.log.info(object, "detached");
                }
                Err(error) => {
                    is_clean = false;
                    self.log.error(object, format!("not detached: {error}"));
                }
            }
        }
        is_clean
    }

    /// Tells a volume's device that the volume has another size.
    pub(super) async fn resize_device(&self, name: &str) -> Result<()> {
        let attachment = self.known().attached.get(name).cloned().flatten();
        let Some(attachment) = attachment else { return Ok(()) };
        let name = name.to_string();
        blocking(move || {
            attach::resize(Path::new(&attachment.device)).map_err(|error| from_attach(&name, &error))
        })
        .await
    }
}

fn mount_directory(request: &api::AttachRequest) -> Result<Option<PathBuf>> {
    let Some(mount) = &request.mount else { return Ok(None) };
    if !Path::new(mount).is_absolute() || mount.contains('\0') {
        return Err(Error::invalid(
            format!("`{}` is not an absolute path of a directory", mount.escape_debug()),
            "name it from the root, as in /mnt/db",
        ));
    }
    let directory = PathBuf::from(mount);
    if attach::is_mount_point(&directory).map_err(|error| from_attach(&request.volume, &error))? {
        return Err(Error::new(
            api::ErrorKind::Busy,
            format!("something is mounted on {mount} already"),
            "name another directory",
        ));
    }
    Ok(Some(directory))
}

fn format_and_mount(
    device: &Path,
    file_system: Option<attach::FileSystem>,
    mount: Option<&Path>,
    is_read_only: bool,
    trust: attach::Trust,
) -> attach::Result<()> {
    if let Some(file_system) = file_system {
        attach::make_file_system(device, file_system, false)?;
    }
    if let Some(directory) = mount {
        attach::mount(device, directory, is_read_only, trust)?;
    }
    Ok(())
}

/// Runs blocking system calls away from the threads that answer requests.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(Error::stopping()))
}

fn from_attach(volume: &str, error: &attach::Error) -> Error {
    let (kind, action) = match error.kind {
        attach::ErrorKind::Unsupported => (
            api::ErrorKind::Medium,
            "run the array as root on a kernel with FUSE and loop devices; see `ashlar doctor`",
        ),
        attach::ErrorKind::Busy => {
            (api::ErrorKind::Busy, "end what uses it (fuser -vm shows it), then repeat")
        }
        attach::ErrorKind::HasData => {
            (api::ErrorKind::Exists, "attach without --format to use what is there")
        }
        attach::ErrorKind::Invalid => (api::ErrorKind::Invalid, "mend the request"),
        attach::ErrorKind::System => (api::ErrorKind::Medium, "see `ashlar doctor`"),
    };
    Error::new(kind, format!("volume `{volume}`: {error}"), action)
}
