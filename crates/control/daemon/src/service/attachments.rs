//! Attachments: a volume's file becomes a loop device, and if wanted a mounted file system.
//!
//! What may wait for a volume is done by a process of its own: the kernel asks the data shard
//! meanwhile. A volume is entered in the table before the first call and leaves it after the last, so that it
//! is not deleted under its device.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use ashlar_api as api;
use ashlar_units::ByteCount;

use super::pools::device_volume;
use super::{Service, Slot};
use crate::attach;
use crate::error::{Error, Result};
use crate::names;
use crate::state::VOLUMES;

const UNFINISHED_POLL: Duration = Duration::from_millis(20);
/// A pool that is so full, in per cent, has its file systems trimmed when they are mounted; and it may be why
/// a mount fails.
const FULL_PERCENT: u8 = 90;

/// How a volume is attached.
struct Plan {
    /// The file that carries the device.
    file: PathBuf,
    options: attach::AttachOptions,
    /// A snapshot, mounted by a clone.
    is_by_clone: bool,
}

impl Service {
    /// The attached volumes, by name.
    pub(crate) fn attachments(&self) -> Vec<api::Attachment> {
        let outlives = self.doors.outlives();
        let known = self.known();
        let attached = known.attached.values().filter_map(|slot| slot.attachment.clone());
        attached.map(|attachment| api::Attachment { outlives, ..attachment }).collect()
    }

    /// One of them.
    pub(crate) fn attachment(&self, name: &str) -> Result<api::Attachment> {
        let found = self.attachments().into_iter().find(|attachment| attachment.volume == name);
        found.ok_or_else(|| {
            Error::new(
                api::ErrorKind::NotFound,
                format!("volume `{name}` is not attached"),
                "`ashlar volume list` shows devices",
            )
            .about(api::ObjectKind::Attachment, name)
        })
    }

    /// Attaches a volume.
    pub(crate) async fn attach(&self, request: api::AttachRequest) -> Result<api::Attachment> {
        let (mount, hidden) = self.mount_directory(&request).await?;
        let plan = self.attach_begin(&request, mount.is_some()).await?;
        if mount.is_some() {
            // A log to replay needs room in a full pool, too, and so does who deletes files then.
            let carrier = self.carrier_of(&request.volume);
            self.array.lend_reserve(&self.pool_holding(&request.volume)?, &carrier).await?;
        }
        let ready = async {
            // A file system is not to meet what hosts that have left wrote before.
            self.array.volume_drain(&self.pool_holding(&request.volume)?, &request.volume).await?;
            self.check_blank(&request).await
        };
        let attached = match ready.await {
            Ok(()) => self.attach_steps(&request, mount, plan).await,
            Err(error) => Err((error, None)),
        };
        let attachment = match attached {
            Ok(attachment) => attachment,
            Err((error, left)) => {
                self.attach_undone(&request.volume, left).await;
                return Err(self.with_want_of_room(&request.volume, error).await);
            }
        };
        self.known().to_attach.remove(&request.volume);
        self.enter(&request.volume, attachment.clone());
        self.trim_if_full(&attachment).await;
        let place = attachment.mount.as_ref().map_or(String::new(), |mount| format!(" on {mount}"));
        if hidden > 0 {
            let what = format!("mounted{place}, whose {hidden} entries are out of sight until the detach");
            self.log.warning(format!("volume {}", request.volume), what);
        }
        self.log
            .info(format!("volume {}", request.volume), format!("attached: {}{place}", attachment.device));
        Ok(api::Attachment { outlives: self.doors.outlives(), ..attachment })
    }

    fn enter(&self, name: &str, attachment: api::Attachment) {
        if let Some(slot) = self.known().attached.get_mut(name) {
            slot.attachment = Some(attachment);
        }
        self.remember_attachments();
    }

    /// An attempt that failed leaves the table, unless its device could not be let go: then it is attached.
    async fn attach_undone(&self, name: &str, left: Option<PathBuf>) {
        match left {
            None => self.forget_attachment(name).await,
            Some(device) => {
                let device = device.display().to_string();
                self.log.warning(format!("volume {name}"), format!("still attached: {device} is in use"));
                self.enter(
                    name,
                    api::Attachment {
                        volume: name.to_string(),
                        device,
                        mount: None,
                        outlives: api::Outlives::default(),
                    },
                );
            }
        }
    }

    /// What a file system wrote and did not come to record, because there was no room, it does not discard by
    /// itself.
    async fn trim_if_full(&self, attachment: &api::Attachment) {
        let (name, Some(mount)) = (&attachment.volume, &attachment.mount) else { return };
        if name.contains('@') {
            return;
        }
        let pools = self.array.pools().await.unwrap_or_default();
        let pool = self.pool_holding(name).unwrap_or_default();
        if !pools.iter().any(|one| is_at_limit(one, name) || one.name == pool && is_full(one)) {
            return;
        }
        match self.take(attach::Steps::Trim { directory: PathBuf::from(mount) }).await {
            Ok(attach::Done::Trimmed(bytes)) => {
                let what = format!("trimmed {mount}: {} that hold no file", ByteCount(bytes));
                self.log.info(format!("volume {name}"), what);
            }
            Ok(_) => {}
            Err(undone) => self.log.warning(format!("volume {name}"), undone.error.to_string()),
        }
    }

    /// A file system that writes a log when it is mounted fails at its volume's limit and in a full pool:
    /// says so.
    async fn with_want_of_room(&self, name: &str, mut error: Error) -> Error {
        if !matches!(error.kind, api::ErrorKind::Medium | api::ErrorKind::NoSpace) {
            return error;
        }
        let pools = self.array.pools().await.unwrap_or_default();
        let pool = self.pool_holding(name).unwrap_or_default();
        if pools.iter().any(|pool| is_at_limit(pool, name)) {
            error.message.push_str("; the volume is at its limit");
            error.action = format!("`ashlar volume set {name} --limit` raises it");
        } else if let Some(full) = pools.iter().find(|one| one.name == pool && is_full(one)) {
            error.message.push_str(&format!("; pool {pool} is {} % full", full.full_percent));
            error.action = format!(
                "`ashlar space reclaim` tells what deleting gives back, `ashlar pool add-drive {pool} DRIVE` adds \
                 room; attach again then"
            );
        }
        error
    }

    /// The volume whose file carries the device of an attachment.
    fn carrier_of(&self, name: &str) -> String {
        self.known().attached.get(name).map_or(name.to_string(), |slot| slot.carrier.clone())
    }

    /// Takes a volume out of the table, and what was there for its attachment only.
    async fn forget_attachment(&self, name: &str) {
        let slot = self.known().attached.remove(name);
        self.remember_attachments();
        // Once the array stops nobody asks any more.
        let _ = self.doors.shield(&self.array, name, false).await;
        let Some(slot) = slot.filter(|slot| slot.carrier != name) else { return };
        if let Err(error) = self.array.volume_delete(&slot.pool, &slot.carrier).await {
            let what = format!("the clone it was mounted by goes when its pool opens again: {error}");
            self.log.warning(format!("volume {name}"), what);
        }
    }

    /// The pool of `VOLUME` or `VOLUME@SNAPSHOT`.
    pub(super) fn pool_holding(&self, name: &str) -> Result<String> {
        match name.split_once('@') {
            Some((volume, snapshot)) => self.pool_of_image(volume, snapshot),
            None => self.known().index.volume(name),
        }
    }

    /// Enters the volume in the table; returns how its device is to be.
    async fn attach_begin(&self, request: &api::AttachRequest, is_mounted: bool) -> Result<Plan> {
        let _turn = self.change().await?;
        let name = &request.volume;
        let pool = self.pool_holding(name)?;
        let geometry = self.array.geometry(name).await?;
        let geometry = geometry.ok_or_else(|| Error::not_found("volume", name))?;
        if geometry.is_read_only && request.format.is_some() {
            return Err(Error::unfit(
                format!("`{name}` takes no new file system: it is read-only"),
                "format a volume or a clone",
            ));
        }
        self.check_detached(name)?;
        self.check_mount_free(request.mount.as_deref())?;
        self.doors.start_fuse(&self.array, &self.keeping, &self.log).await?;
        self.check_volumes_mounted()?;
        self.known().attached.insert(name.clone(), Slot::new(request, pool));
        let is_by_clone = name.contains('@') && is_mounted;
        let carried = match is_by_clone {
            true => self.clone_to_mount(name).await,
            false => self.attach_alone(request, geometry.is_read_only).await.map(|()| name.clone()),
        };
        match carried {
            Ok(carrier) => Ok(Plan {
                file: self.state().path(VOLUMES).join(carrier),
                options: attach::AttachOptions {
                    logical_block_bytes: geometry.logical_block_bytes,
                    is_direct: true,
                    is_read_only: geometry.is_read_only && !is_by_clone,
                },
                is_by_clone,
            }),
            Err(error) => {
                self.forget_attachment(name).await;
                Err(error)
            }
        }
    }

    /// Makes the clone by which a snapshot is mounted: its file system replays its log there, so the mount
    /// shows what was synced before the snapshot. It goes with the attachment.
    async fn clone_to_mount(&self, name: &str) -> Result<String> {
        let clone = names::of_mounted_snapshot(self.snapshots_mounted.fetch_add(1, Ordering::Relaxed));
        let (name_of_clone, from) = (clone.clone(), name.to_string());
        let request = api::CloneCreate {
            name: name_of_clone,
            from,
            limit_bytes: None,
            reserve_bytes: None,
            floor_micros: None,
            class: api::VolumeClass::Normal,
        };
        let pool = self.pool_holding(name)?;
        self.array.clone_create(&pool, request).await.map_err(|error| {
            let message = format!("no clone by which to mount `{name}`: {}", error.message);
            let by_hand = format!("or `ashlar attach {name}` and mount the device without its log");
            Error::new(error.kind, message, format!("{}; {by_hand}", error.action))
        })?;
        if let Some(slot) = self.known().attached.get_mut(name) {
            slot.carrier.clone_from(&clone);
        }
        Ok(clone)
    }

    /// Refuses to format what is not blank, unless a person says so.
    async fn check_blank(&self, request: &api::AttachRequest) -> Result<()> {
        let name = &request.volume;
        if request.format.is_none() || request.force {
            return Ok(());
        }
        let Some(first) = self.array.first_data(name).await? else { return Ok(()) };
        let what = match self.occupant(name).await? {
            Some(occupant) => format!("carries {}", occupant.name),
            None => format!("holds data from byte {first} on"),
        };
        Err(Error::new(
            api::ErrorKind::Exists,
            format!("volume `{name}` {what}: --format would lose it"),
            "attach without --format to use what is there, or add --force to lose it",
        ))
    }

    /// The directory to mount on, absolute, on which nothing is mounted yet, and how much is in it.
    async fn mount_directory(&self, request: &api::AttachRequest) -> Result<(Option<PathBuf>, usize)> {
        let Some(mount) = &request.mount else { return Ok((None, 0)) };
        if !Path::new(mount).is_absolute() || mount.contains('\0') {
            return Err(Error::invalid(
                format!("`{}` is not an absolute path of a directory", mount.escape_debug()),
                "name it from the root, as in /mnt/db",
            ));
        }
        let directory = PathBuf::from(mount);
        let seen = self.take(attach::Steps::Look { directory: directory.clone() }).await;
        let (place, entries) = match seen.map_err(|undone| from_attach(&request.volume, &undone.error))? {
            attach::Done::Seen(Some(place), entries) => (place, entries),
            _ => (directory.clone(), 0),
        };
        let busy = |why: &str| Error::new(api::ErrorKind::Busy, why, "name another directory");
        if attach::is_listed(&place).map_err(|error| from_attach(&request.volume, &error))? {
            let by_us = self.mounted_on(&directory, &place);
            return Err(by_us.unwrap_or_else(|| busy(&format!("something is mounted on {mount} already"))));
        }
        if self.state().directory().starts_with(place) {
            return Err(busy(&format!("a mount on {mount} would hide the array's own state directory")));
        }
        Ok((Some(directory), entries))
    }

    /// The refusal of a directory on which a volume of this array is mounted.
    fn mounted_on(&self, directory: &Path, place: &Path) -> Option<Error> {
        // As it is recorded: no other mount is asked, which may not answer.
        let is_there = |mount: &str| [directory, place].contains(&Path::new(mount));
        let known = self.known();
        let mut attachments = known.attached.values().filter_map(|slot| slot.attachment.as_ref());
        let there = attachments.find(|other| other.mount.as_deref().is_some_and(is_there))?;
        let (volume, mount) = (&there.volume, directory.display());
        let what = format!("volume `{volume}` is attached already, and mounted on {mount}");
        let action = format!("`ashlar detach {volume}` ends that");
        Some(Error::new(api::ErrorKind::Exists, what, action))
    }

    /// Refuses where somebody unmounted the directory of volumes.
    fn check_volumes_mounted(&self) -> Result<()> {
        let volumes = self.state().path(VOLUMES);
        if attach::is_listed(&volumes).unwrap_or(true) {
            return Ok(());
        }
        Err(Error::new(
            api::ErrorKind::Medium,
            format!("somebody unmounted {}, in which volumes are files", volumes.display()),
            "stop the array and start it again",
        ))
    }

    /// Refuses a directory on which another volume is about to be mounted.
    fn check_mount_free(&self, mount: Option<&str>) -> Result<()> {
        let known = self.known();
        let is_same = |slot: &&Slot| slot.attachment.is_none() && slot.request.mount.as_deref() == mount;
        match (mount, known.attached.values().find(is_same)) {
            (Some(directory), Some(_)) => Err(Error::new(
                api::ErrorKind::Busy,
                format!("another volume is being mounted on {directory}"),
                "name another directory",
            )),
            _ => Ok(()),
        }
    }

    /// Sees to it that nobody else writes to a volume while it is attached.
    async fn attach_alone(&self, request: &api::AttachRequest, is_read_only: bool) -> Result<()> {
        if is_read_only || request.shared {
            return Ok(());
        }
        // First no new writer, then a look at those there are.
        self.doors.shield(&self.array, &request.volume, true).await?;
        self.check_no_writer(&request.volume).await
    }

    async fn attach_steps(
        &self,
        request: &api::AttachRequest,
        mount: Option<PathBuf>,
        plan: Plan,
    ) -> std::result::Result<api::Attachment, (Error, Option<PathBuf>)> {
        let format = request.format.map(|format| match format {
            api::FileSystem::Ext4 => attach::FileSystem::Ext4,
            api::FileSystem::Xfs => attach::FileSystem::Xfs,
        });
        let trust =
            attach::Trust { allows_suid: request.allows_suid, allows_devices: request.allows_devices };
        let steps = attach::Steps::Attach(attach::Attachment {
            file: plan.file,
            options: plan.options,
            format,
            is_forced: request.force,
            mount: mount.clone(),
            is_mounted_read_only: plan.is_by_clone,
            trust,
        });
        let device = match self.take(steps).await {
            Ok(attach::Done::Attached(device)) => device.display().to_string(),
            Ok(_) => return Err((Error::stopping(), None)),
            Err(undone) => return Err((from_attach(&request.volume, &undone.error), undone.left)),
        };
        let mount = mount.map(|directory| directory.display().to_string());
        let outlives = api::Outlives::default();
        Ok(api::Attachment { volume: request.volume.clone(), device, mount, outlives })
    }

    /// Has a process of its own take steps that may wait for a volume.
    pub(super) async fn take(
        &self,
        steps: attach::Steps,
    ) -> std::result::Result<attach::Done, attach::Undone> {
        let state = self.state().directory().to_path_buf();
        let taken = tokio::task::spawn_blocking(move || attach::take_steps(&state, &steps)).await;
        taken.unwrap_or_else(|_| Err(attach::Undone::stopping()))
    }

    /// Unmounts and detaches a volume. A forced one is unmounted lazily, and stays in the table until its
    /// device has gone with its last user.
    pub(crate) async fn detach(&self, name: &str, is_forced: bool) -> Result<()> {
        if self.do_not_attach(name) {
            self.log.info(format!("volume {name}"), "is not to be attached any more");
            return Ok(());
        }
        let attachment = self.detach_begin(name).await?;
        let detached = self.detach_steps(name, &attachment, is_forced).await;
        match &detached {
            Ok(()) => self.forget_attachment(name).await,
            Err(_) => self.enter(name, attachment),
        }
        detached?;
        self.log.info(format!("volume {name}"), "detached");
        Ok(())
    }

    async fn detach_begin(&self, name: &str) -> Result<api::Attachment> {
        let _turn = self.change().await?;
        let mut known = self.known();
        if let Some(slot) = known.attached.get_mut(name) {
            // Taken out, the name stays: nobody else detaches or deletes it meanwhile.
            return slot.attachment.take().ok_or_else(|| {
                Error::new(
                    api::ErrorKind::Busy,
                    format!("volume `{name}` is being attached or detached"),
                    "wait a moment and repeat",
                )
            });
        }
        known.index.volume(device_volume(name))?;
        let image = known.attached.keys().find(|image| device_volume(image) == name);
        Err(match image {
            Some(image) => Error::new(
                api::ErrorKind::NotFound,
                format!("volume `{name}` is not attached, but `{image}` is"),
                format!("`ashlar detach {image}`"),
            )
            .about(api::ObjectKind::Attachment, name),
            None => Error::new(
                api::ErrorKind::NotFound,
                format!("volume `{name}` is not attached"),
                "`ashlar volume list` shows devices",
            )
            .about(api::ObjectKind::Attachment, name),
        })
    }

    async fn detach_steps(&self, name: &str, attachment: &api::Attachment, is_forced: bool) -> Result<()> {
        let device = PathBuf::from(&attachment.device);
        let carrier = self.carrier_of(name);
        let file = self.state().path(VOLUMES).join(carrier);
        let is_loss_told = self.is_loss_told(name);
        let steps = attach::Steps::Detach { file, device, is_forced, is_loss_told };
        let Err(attach::Undone { error, .. }) = self.take(steps).await else { return Ok(()) };
        let is_loss = error.kind == attach::ErrorKind::NotWritten;
        if let Some(slot) = self.known().attached.get_mut(name).filter(|_| is_loss) {
            slot.is_loss_told = true;
        }
        Err(from_attach(name, &error))
    }

    fn is_loss_told(&self, name: &str) -> bool {
        self.known().attached.get(name).is_some_and(|slot| slot.is_loss_told)
    }

    /// Takes out of the table what was detached behind the array's back: a forced detach ends with the last
    /// user, and loop devices can be detached by anybody. The number of one that went is given out again.
    pub(super) async fn forget_gone(&self) -> Result<()> {
        let attachments = self.attachments();
        if attachments.is_empty() {
            return Ok(());
        }
        let volumes = self.state().path(VOLUMES);
        let there = blocking(move || {
            attach::find_attached(&volumes).map_err(|error| from_attach("the attached volumes", &error))
        });
        let there = there.await?;
        for attachment in attachments {
            let carrier = self.carrier_of(&attachment.volume);
            let device = Path::new(&attachment.device);
            if there.iter().any(|one| one.volume == carrier && one.device == device) {
                continue;
            }
            // Unless somebody is at it: the table is asked again.
            let is_still = self.attachments().contains(&attachment);
            if is_still {
                self.forget_attachment(&attachment.volume).await;
                let what = format!("detached: {} has gone with its last user", attachment.device);
                self.log.info(format!("volume {}", attachment.volume), what);
            }
        }
        Ok(())
    }

    /// Waits until no volume is being attached or detached.
    pub(super) async fn finish_attaching(&self) {
        while self.known().attached.values().any(|slot| slot.attachment.is_none()) {
            tokio::time::sleep(UNFINISHED_POLL).await;
        }
    }

    /// Detaches everything before the array stops; what is in use is taken away lazily.
    pub(super) async fn detach_all(&self) -> bool {
        let mut is_clean = true;
        for attachment in self.attachments() {
            let name = attachment.volume.clone();
            let object = format!("volume {name}");
            let mut detached = self.detach_steps(&name, &attachment, false).await;
            if let Err(error) = &detached {
                self.log
                    .warning(object.clone(), format!("the array stops, so it is detached by force: {error}"));
                detached = self.detach_steps(&name, &attachment, true).await;
            }
            match detached {
                Ok(()) => {
                    self.forget_attachment(&name).await;
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
        let attachment = self.known().attached.get(name).and_then(|slot| slot.attachment.clone());
        let Some(attachment) = attachment else { return Ok(()) };
        let steps = attach::Steps::Resize { device: PathBuf::from(attachment.device) };
        let resized = self.take(steps).await;
        resized.map(drop).map_err(|undone| from_attach(name, &undone.error))
    }
}

fn is_full(pool: &api::Pool) -> bool {
    pool.full_percent >= FULL_PERCENT
}

fn is_at_limit(pool: &api::Pool, volume: &str) -> bool {
    pool.volumes_at_limit.iter().any(|name| name == volume)
}

/// Runs blocking system calls away from the threads that answer requests.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(Error::stopping()))
}

fn from_attach(volume: &str, error: &attach::Error) -> Error {
    let (kind, action) = match error.kind {
        attach::ErrorKind::Unsupported => (
            api::ErrorKind::Medium,
            "run the array as root on a kernel with FUSE and loop devices; see `ashlar doctor`",
        ),
        attach::ErrorKind::Busy => (
            api::ErrorKind::Busy,
            "end what uses it (`ashlar volume users` and fuser -vm show it), then repeat",
        ),
        attach::ErrorKind::HasData => {
            (api::ErrorKind::Exists, "attach without --format to use what is there")
        }
        attach::ErrorKind::Content => (
            api::ErrorKind::Invalid,
            "attach it without --mount: its device can be checked (`fsck`) and mounted by hand",
        ),
        attach::ErrorKind::NotWritten => (
            api::ErrorKind::Medium,
            "`ashlar events` tells why: mend that and write the files again, or detach again and lose it",
        ),
        attach::ErrorKind::Invalid => (api::ErrorKind::Invalid, "mend the request"),
        attach::ErrorKind::System => (api::ErrorKind::Medium, "see `ashlar doctor`"),
    };
    Error::new(kind, format!("volume `{volume}`: {error}"), action)
}
