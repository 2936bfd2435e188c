//! Who uses a volume or an image: the one place that knows, asked by every verb that takes something away.
//!
//! ```text
//!   table of attachments ─┐
//!   NBD, iSCSI: sessions ─┼─► users ─► refused, or overruled
//!   FUSE door: open files ┘     ▲
//!                               └─ the kernel: mounts, devices, swap, processes
//! ```
//!
//! The FUSE door's count is the truth for everything that goes through a file of the directory of volumes:
//! whatever the kernel mounts or stacks on a loop device keeps that file open. The kernel's tables only put
//! names to it; a user whom they do not show is one all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use ashlar_api as api;
use ashlar_api::{UseKind, VolumeUser};
use ashlar_runtime::Peer;

use super::attachments::blocking;
use super::pools::device_volume;
use super::{Service, Slot};
use crate::attach::{self, FileUse, Process, Use};
use crate::doors::DoorUsers;
use crate::error::{Error, Result};
use crate::iscsi::ExportUse;
use crate::state::VOLUMES;

/// The kernel tells the FUSE door of a closed file a moment later. Arbitrary: some milliseconds were seen.
const CLOSING_MAX: Duration = Duration::from_secs(1);
const CLOSING_POLL: Duration = Duration::from_millis(20);
/// An NBD client that has just ended is seen to be gone a moment later. Arbitrary, as above.
const LEAVING_MAX: Duration = Duration::from_millis(250);
/// Users named in a refusal; the rest is counted.
const NAMED_MAX: usize = 3;

/// What a verb takes away, which decides whom a person may overrule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Taking {
    /// The data go: whoever is overruled gets errors.
    All,
    /// The data change under whoever looks: what the kernel remembers would destroy what came back.
    Content,
}

impl Service {
    /// Everybody who uses `VOLUME` with its images, or `VOLUME@SNAPSHOT`.
    pub(crate) async fn volume_users(&self, name: &str) -> Result<Vec<VolumeUser>> {
        let name = self.check_image(name)?;
        self.users(move |image| image == name || device_volume(image) == name).await
    }

    /// Cuts off NBD clients; whatever else uses the volume is left alone and told.
    pub(crate) async fn volume_disconnect(&self, name: &str) -> Result<api::Disconnected> {
        let meant = self.check_image(name)?;
        let clients = self.doors.users(&self.array).await?.clients.into_iter();
        let exports = clients.filter_map(|client| client.export);
        let exports = exports.filter(|image| *image == meant || device_volume(image) == meant).collect();
        let cut = self.cut_clients(exports).await?;
        Ok(api::Disconnected { cut, remaining: self.volume_users(name).await? })
    }

    /// The name, if there is such a volume or image.
    fn check_image(&self, name: &str) -> Result<String> {
        self.pool_holding(name).map(|_| name.to_string())
    }

    async fn cut_clients(&self, exports: BTreeSet<String>) -> Result<Vec<VolumeUser>> {
        if exports.is_empty() {
            return Ok(Vec::new());
        }
        // Rates do not hold up what they have sent: nobody waits for that.
        let (cut, ()) =
            tokio::join!(self.doors.disconnect(&self.array, exports.clone()), self.drain_all(&exports));
        let cut = cut?;
        let mut cut: Vec<VolumeUser> = cut.iter().map(nbd_user).collect();
        cut.sort();
        cut.dedup();
        for client in &cut {
            self.log.warning(format!("volume {}", client.volume), format!("cut off: {}", client.who));
        }
        Ok(cut)
    }

    /// Waits until what hosts wrote to these before is over; those that are not there have nothing.
    pub(super) async fn drain_all(&self, images: impl IntoIterator<Item = &String>) {
        for image in images {
            if let Ok(pool) = self.pool_holding(image) {
                let _ = self.array.volume_drain(&pool, image).await;
            }
        }
    }

    /// Refuses while somebody uses one of the images, and names who. Where a person overrules that, NBD
    /// clients are cut off.
    pub(super) async fn check_unused(
        &self,
        is_meant: impl Fn(&str) -> bool,
        taking: Taking,
        is_forced: bool,
    ) -> Result<()> {
        let mut users = self.users(&is_meant).await?;
        if !is_forced {
            let end = Instant::now() + LEAVING_MAX;
            while !users.is_empty() {
                let may_leave = users.iter().all(|user| [UseKind::Nbd, UseKind::Iscsi].contains(&user.kind));
                if !may_leave || Instant::now() > end {
                    return Err(refusal(&users, taking));
                }
                tokio::time::sleep(CLOSING_POLL).await;
                users = self.users(&is_meant).await?;
            }
            return Ok(());
        }
        let stays = |user: &&VolumeUser| match taking {
            Taking::All => user.kind == UseKind::Attachment && user.path.is_none(),
            Taking::Content => ![UseKind::Nbd, UseKind::Process].contains(&user.kind),
        };
        let held: Vec<VolumeUser> = users.iter().filter(stays).cloned().collect();
        if !held.is_empty() {
            return Err(refusal(&held, Taking::Content));
        }
        for user in &users {
            self.log.warning(format!("volume {}", user.volume), format!("overruled: {}", user.who));
        }
        let clients = users.iter().filter(|user| user.kind == UseKind::Nbd);
        self.cut_clients(clients.map(|user| user.volume.clone()).collect()).await.map(drop)
    }

    /// Refuses to attach a volume to which somebody else writes.
    pub(super) async fn check_no_writer(&self, name: &str) -> Result<()> {
        let (leave_end, end) = (Instant::now() + LEAVING_MAX, Instant::now() + CLOSING_MAX);
        loop {
            let doors = self.doors.users(&self.array).await?;
            if let Some(export) = doors.exports.iter().find(|export| export.volume == name) {
                let or = "or attach it with --shared if all that write to it are made for that";
                return Err(exported(export, or));
            }
            let writers: BTreeSet<VolumeUser> = doors
                .clients
                .iter()
                .filter(|client| export_of(client) == name && !client.is_read_only)
                .map(nbd_user)
                .collect();
            if let Some(first) = writers.first() {
                if Instant::now() < leave_end {
                    tokio::time::sleep(CLOSING_POLL).await;
                    continue;
                }
                return Err(Error::new(
                    api::ErrorKind::Busy,
                    format!("volume `{name}` is written by somebody else: {}", first.who),
                    format!("{} first, or attach it with --shared if both are made for that", first.action),
                )
                .about(api::ObjectKind::Volume, name)
                .because(api::Reason::InUse));
            }
            if !doors.files.iter().any(|(file, is_writable)| file == name && *is_writable) {
                return Ok(());
            }
            let named = self.named_uses(BTreeMap::from([(name.to_string(), name.to_string())])).await?;
            if named.is_empty() && Instant::now() < end {
                tokio::time::sleep(CLOSING_POLL).await;
                continue;
            }
            let users = if named.is_empty() { vec![self.unknown_user(name)] } else { named };
            return Err(refusal(&users, Taking::Content));
        }
    }

    /// Everybody who uses an image for which `is_meant`.
    pub(super) async fn users(&self, is_meant: impl Fn(&str) -> bool) -> Result<Vec<VolumeUser>> {
        let end = Instant::now() + CLOSING_MAX;
        loop {
            let doors = self.doors.users(&self.array).await?;
            let mut users: BTreeSet<VolumeUser> =
                doors.clients.iter().filter(|client| is_meant(export_of(client))).map(nbd_user).collect();
            users.extend(self.attachment_users(&is_meant));
            users
                .extend(doors.exports.iter().filter(|export| is_meant(&export.volume)).flat_map(iscsi_users));
            let images = self.images_of_files(&doors, &is_meant);
            let named = match images.is_empty() {
                true => Vec::new(),
                false => self.named_uses(images.clone()).await?,
            };
            let explained: BTreeSet<&String> = named.iter().map(|user| &user.volume).collect();
            let unexplained = images.values().filter(|image| !explained.contains(image));
            let unexplained: Vec<VolumeUser> = unexplained.map(|image| self.unknown_user(image)).collect();
            if !unexplained.is_empty() && Instant::now() < end {
                tokio::time::sleep(CLOSING_POLL).await;
                continue;
            }
            users.extend(unexplained);
            users.extend(named);
            // A device that carries an attachment is told with it.
            let attached = users.iter().filter(|user| user.kind == UseKind::Attachment);
            let told: BTreeSet<String> =
                attached.filter_map(|user| user.path.as_deref().map(stands_on_it)).collect();
            users.retain(|user| !told.contains(&user.who));
            return Ok(users.into_iter().collect());
        }
    }

    /// Refuses a volume that is exported over iSCSI.
    pub(super) async fn check_not_exported(&self, name: &str, or: &str) -> Result<()> {
        let exports = self.doors.users(&self.array).await?.exports;
        match exports.iter().find(|export| export.volume == name) {
            Some(export) => Err(exported(export, or)),
            None => Ok(()),
        }
    }

    /// The table of attachments: image, device and carrier of each. A copy, because whoever goes through it
    /// asks for names meanwhile, under the same lock.
    fn slots(&self) -> Vec<(String, Option<String>, String)> {
        let known = self.known();
        let device = |slot: &Slot| slot.attachment.as_ref().map(|attachment| attachment.device.clone());
        let slots = known.attached.iter();
        slots.map(|(image, slot)| (image.clone(), device(slot), slot.carrier.clone())).collect()
    }

    fn attachment_users(&self, is_meant: impl Fn(&str) -> bool) -> Vec<VolumeUser> {
        let view = |(image, path, _): (String, Option<String>, String)| {
            let (who, action) = match &path {
                Some(device) => (format!("it is attached as {device}"), format!("`ashlar detach {image}`")),
                None => ("it is being attached or detached".to_string(), "wait a moment".to_string()),
            };
            VolumeUser { path, ..user(&image, UseKind::Attachment, who, action) }
        };
        self.slots().into_iter().filter(|(image, ..)| is_meant(image)).map(view).collect()
    }

    /// The image behind each open file of the directory of volumes: the file of a hidden clone stands for the
    /// snapshot it was made of.
    fn images_of_files(
        &self,
        doors: &DoorUsers,
        is_meant: impl Fn(&str) -> bool,
    ) -> BTreeMap<String, String> {
        let slots = self.slots();
        let image_of = |file: &String| {
            let carried = slots.iter().find(|(_, _, carrier)| carrier == file);
            carried.map_or(file.clone(), |(image, ..)| image.clone())
        };
        let files = doors.files.iter().map(|(file, _)| (file.clone(), image_of(file)));
        files.filter(|(_, image)| is_meant(image)).collect()
    }

    /// What the kernel's tables tell of the users of files, by file and image.
    async fn named_uses(&self, images: BTreeMap<String, String>) -> Result<Vec<VolumeUser>> {
        let directory = self.state().path(VOLUMES);
        let scanned = blocking(move || {
            attach::uses_below(&directory).map_err(|error| {
                Error::new(
                    api::ErrorKind::Medium,
                    format!("look for users of volumes: {error}"),
                    "mount /proc and /sys, and run the array as root",
                )
            })
        });
        let found = scanned.await?.into_iter();
        let slots = self.slots();
        let is_ours = |found: &FileUse| {
            let device = found.device.as_ref().map(|device| device.display().to_string());
            device.is_some() && slots.iter().any(|(_, ours, _)| *ours == device)
        };
        let view = |found: FileUse| Some(file_user(images.get(&found.file)?, &found, is_ours(&found)));
        Ok(found.filter_map(view).collect())
    }

    fn unknown_user(&self, image: &str) -> VolumeUser {
        let file = self.state().path(VOLUMES).join(image).display().to_string();
        let who = format!("somebody has {file} open, or a device on it");
        let action = format!("end it (`fuser -v {file}` may show it)");
        VolumeUser { path: Some(file), ..user(image, UseKind::Unknown, who, action) }
    }

    /// Tells the log who still uses a volume when the doors close.
    pub(super) async fn tell_users(&self) {
        for user in self.users(|_| true).await.unwrap_or_default() {
            self.log.warning(format!("volume {}", user.volume), format!("the array stops, but {}", user.who));
        }
    }
}

/// A refusal that names the users and what ends their use.
fn refusal(users: &[VolumeUser], taking: Taking) -> Error {
    let image = &users[0].volume;
    let (what, kind) = match image.contains('@') {
        true => ("snapshot", api::ObjectKind::Snapshot),
        false => ("volume", api::ObjectKind::Volume),
    };
    let of_first = users.iter().filter(|user| user.volume == *image);
    let mut who: Vec<String> = of_first.take(NAMED_MAX).map(|user| user.who.clone()).collect();
    if users.len() > who.len() {
        who.push(format!("and {} more", users.len() - who.len()));
    }
    let all = format!("`ashlar volume users {}` lists all", device_volume(image));
    let way_out = match taking {
        Taking::All => ", or overrule it with --force",
        Taking::Content => "",
    };
    Error::new(
        api::ErrorKind::Busy,
        format!("{what} `{image}` is in use: {}", who.join("; ")),
        format!("{} first{way_out}; {all}", users[0].action),
    )
    .about(kind, image.rsplit('@').next().unwrap_or(image))
    .because(api::Reason::InUse)
}

fn user(image: &str, kind: UseKind, who: String, action: String) -> VolumeUser {
    VolumeUser {
        volume: image.to_string(),
        kind,
        who,
        process_id: None,
        process_name: None,
        path: None,
        client: None,
        action,
    }
}

/// What a client has chosen; those that have not are no users.
fn export_of(client: &ashlar_nbd::Client) -> &str {
    client.export.as_deref().unwrap_or_default()
}

fn nbd_user(client: &ashlar_nbd::Client) -> VolumeUser {
    let process = match client.peer {
        Some(Peer::Process { process_id, .. }) => Some(process_id).filter(|id| *id > 0).map(Process::of),
        Some(Peer::Tcp(_)) | None => None,
    };
    let place = match (&process, client.peer) {
        (Some(process), _) => process.to_string(),
        (None, Some(Peer::Tcp(address))) => address.to_string(),
        (None, Some(Peer::Process { .. }) | None) => "a process that cannot be named".to_string(),
    };
    let verb = if client.is_read_only { "reads" } else { "may write" };
    let who = format!("{place} {verb} it over NBD");
    let action = format!("`ashlar volume disconnect {}`", export_of(client));
    VolumeUser {
        process_id: process.as_ref().map(|process| process.id),
        process_name: process.map(|process| process.name),
        client: Some(place),
        ..user(export_of(client), UseKind::Nbd, who, action)
    }
}

fn iscsi_users(export: &ExportUse) -> Vec<VolumeUser> {
    let view = |(initiator, address): &(String, String)| {
        let who = format!("{initiator} is logged in over iSCSI from {address}");
        let action = format!("log it out there, or `ashlar export delete {} --force`", export.volume);
        VolumeUser { client: Some(address.clone()), ..user(&export.volume, UseKind::Iscsi, who, action) }
    };
    export.initiators.iter().map(view).collect()
}

/// A refusal to take away what hosts reach, with what else can be done.
fn exported(export: &ExportUse, or: &str) -> Error {
    let ExportUse { volume, place, .. } = export;
    Error::new(
        api::ErrorKind::Busy,
        format!("volume `{volume}` is exported over iSCSI as {place}"),
        format!("`ashlar export delete {volume}` first, {or}"),
    )
    .about(api::ObjectKind::Volume, volume)
    .because(api::Reason::Exported)
}

/// What is said of a device that only is there.
fn stands_on_it(device: &str) -> String {
    format!("{device} stands on it")
}

/// `is_ours` where the device is that of an attachment.
fn file_user(image: &str, file_use: &FileUse, is_ours: bool) -> VolumeUser {
    let text = |path: &Path| Some(path.display().to_string());
    let end_by = |other: String| if is_ours { format!("`ashlar detach {image}`") } else { other };
    let Some(using) = &file_use.using else {
        let device = file_use.device.as_deref().unwrap_or(Path::new("/dev"));
        let who = stands_on_it(&device.display().to_string());
        let action = format!("`losetup -d {}`", device.display());
        return VolumeUser { path: text(device), ..user(image, UseKind::Device, who, action) };
    };
    let who = using.to_string();
    let end = |process: &Process| format!("end process {} ({})", process.id, process.name);
    let (kind, process, path, action) = match using {
        Use::Mounted { directory } => {
            (UseKind::Mount, None, directory, end_by(format!("`umount {}`", directory.display())))
        }
        Use::MountedElsewhere { directory, process, .. } => {
            let there = format!("unmount it there (`nsenter -t {} -m umount ...`)", process.id);
            (UseKind::Mount, Some(process), directory, format!("{} or {there}", end(process)))
        }
        Use::MountedUpon { directory } => {
            (UseKind::Mount, None, directory, format!("`umount {}`", directory.display()))
        }
        Use::Open { process, path } => (UseKind::Process, Some(process), path, end(process)),
        Use::Device { device } => (UseKind::Device, None, device, format!("take down {}", device.display())),
        Use::Swap { device } => (UseKind::Device, None, device, format!("`swapoff {}`", device.display())),
        Use::Claimed { device } => {
            (UseKind::Unknown, None, device, end_by(format!("`losetup -d {}`", device.display())))
        }
    };
    VolumeUser {
        process_id: process.map(|process| process.id),
        process_name: process.map(|process| process.name.clone()),
        path: text(path),
        ..user(image, kind, who, action)
    }
}
