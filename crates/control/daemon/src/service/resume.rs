//! Attachments that outlive an array: what it leaves, and how the next one goes on with it.
//!
//! ```text
//!   array ends ──► requests wait in the kernel, loop devices and mounts stay
//!   next array:   recall (names of what is attached) ► pools open ► resume (requests go on)
//! ```
//!
//! Which devices are there the kernel knows; what they are to us stands in `attachments.toml`. What that
//! does not name was about to be attached when the array was killed: it stays, without a mount. What that
//! names and is not there, because the machine or the keeper ended too, is attached again when its pool is
//! open.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ashlar_api as api;
use ashlar_fuse::Left;

use super::attachments::blocking;
use super::{Service, Slot};
use crate::attach;
use crate::error::{Error, Result};
use crate::keeping::Pause;
use crate::state::{KnownAttachment, VOLUMES};
use crate::subprocess;

/// Pause between looks for volumes that are not there yet. Arbitrary: their pools wait for drives.
const MISSING_PAUSE: Duration = Duration::from_millis(200);

/// An attachment that is to be there again.
pub(super) struct Return {
    known: KnownAttachment,
    /// It was tried, and a person has to see to it.
    is_tried: bool,
}

impl Service {
    /// Writes down what is attached, and what is to be again. Once the array detaches all for its stop, that
    /// stays as it is.
    pub(super) fn remember_attachments(&self) {
        if self.is_closed() {
            return;
        }
        let known = self.known();
        let is_attached = |slot: &&Slot| slot.attachment.is_some();
        let attached = known.attached.values().filter(is_attached).map(Slot::to_known);
        let returning = known.to_attach.values().map(|one| one.known.clone());
        let attached = attached.chain(returning).collect();
        // Under the table's lock: two writers must not overtake each other.
        if let Err(error) = self.state().store_attachments(attached) {
            self.log.warning("attach", format!("{error}: a later array may not know what is attached"));
        }
    }

    /// Enters in the table what the last array had attached and still is, before any pool is opened: the
    /// clones that carry mounted snapshots must not be taken for leftovers. The rest is attached again
    /// later.
    pub(crate) async fn recall_attachments(&self, is_left: bool) {
        let remembered = self.state().load_attachments().unwrap_or_else(|error| {
            self.log.error("attach", error.to_string());
            Vec::new()
        });
        let mut returning = by_volume(&remembered);
        if is_left {
            for known in self.recall_devices(&remembered).await {
                returning.remove(&known.request.volume);
                self.recall(known).await;
            }
        }
        returning.retain(|_, one| !one.known.request.once);
        self.known().to_attach = returning;
    }

    /// What is attached now, as the last array knew it.
    async fn recall_devices(&self, remembered: &[KnownAttachment]) -> Vec<KnownAttachment> {
        let volumes = self.state().path(VOLUMES);
        let there = blocking(move || {
            attach::find_attached(&volumes)
                .map_err(|error| Error::new(api::ErrorKind::Medium, error.to_string(), "see `ashlar doctor`"))
        });
        let there = there.await.unwrap_or_else(|error| {
            self.log.error("attach", error.to_string());
            Vec::new()
        });
        let there = there.iter().filter(|device| !device.is_leaving);
        let as_known = |device: &attach::Attached| {
            let path = Some(device.device.display().to_string());
            let is_this = |one: &&KnownAttachment| one.carrier == device.volume && one.device == path;
            let unknown = || KnownAttachment::unfinished(&device.volume, path.clone());
            remembered.iter().find(is_this).cloned().unwrap_or_else(unknown)
        };
        there.map(as_known).collect()
    }

    async fn recall(&self, known: KnownAttachment) {
        let KnownAttachment { request, carrier, pool, device } = known;
        let volume = request.volume.clone();
        if !request.shared {
            let _ = self.doors.shield(&self.array, &volume, true).await;
        }
        let (device, mount) = (device.unwrap_or_default(), request.mount.clone());
        let outlives = api::Outlives::default();
        let attachment = Some(api::Attachment { volume: volume.clone(), device, mount, outlives });
        let slot = Slot { attachment, carrier, ..Slot::new(&request, pool) };
        self.known().attached.insert(volume, slot);
    }

    /// Attaches again what was attached before the start and whose pools are open now. What fails is told,
    /// stays in the file, and is tried at the next start.
    pub(crate) async fn attach_again(self: &Arc<Self>) {
        let due: Vec<api::AttachRequest> = {
            let known = self.known();
            let is_open = |pool: &str| known.pool(pool).is_some() && known.is_opened(pool);
            let is_due = |one: &&Return| !one.is_tried && is_open(&one.known.pool);
            known.to_attach.values().filter(is_due).map(|one| one.known.request.clone()).collect()
        };
        for request in due {
            if self.is_stopping() {
                return;
            }
            let name = request.volume.clone();
            let Err(error) = self.attach(request).await else { continue };
            let object = format!("volume {name}");
            if let Some(one) = self.known().to_attach.get_mut(&name) {
                one.is_tried = true;
            }
            self.log.error(object, format!("not attached as it was before the start: {error}"));
        }
    }

    /// Tells what is still to be attached when the array says that it is ready.
    pub(crate) fn tell_unattached(&self) {
        let known = self.known();
        for (volume, one) in known.to_attach.iter().filter(|(_, one)| !one.is_tried) {
            let what = format!(
                "not attached as it was before the start: pool {} is not open; `ashlar detach {volume}` gives up",
                one.known.pool
            );
            self.log.error(format!("volume {volume}"), what);
        }
    }

    /// Detaches everything, to be attached again at the next start. Where one is in use, all stay attached.
    pub(super) async fn detach_for_restart(self: &Arc<Self>, is_forced: bool) -> Result<()> {
        let names = self.attachments().into_iter().map(|attachment| attachment.volume);
        for name in names.collect::<Vec<_>>() {
            let known = self.known().attached.get(&name).map(Slot::to_known);
            // Not by this array.
            let returning = known.map(|known| Return { known, is_tried: true });
            if let Err(error) = self.detach(&name, is_forced).await {
                self.known().to_attach.values_mut().for_each(|one| one.is_tried = false);
                self.attach_again().await;
                return Err(error);
            }
            self.known().to_attach.extend(returning.map(|one| (name, one)));
            self.remember_attachments();
        }
        self.known().to_attach.retain(|_, one| !one.known.request.once);
        self.remember_attachments();
        Ok(())
    }

    /// A volume that is to be attached again is not; true when it was.
    pub(super) fn do_not_attach(&self, volume: &str) -> bool {
        let was_to_be = self.known().to_attach.remove(volume).is_some();
        if was_to_be {
            self.remember_attachments();
        }
        was_to_be
    }

    /// Goes on with the requests that wait. Where volumes are missing whose pools wait for drives, that is
    /// done in the background, and all requests wait.
    pub(crate) async fn resume(self: Arc<Self>, left: Left, pause: Pause) {
        let Some((left, missing)) = self.try_resume(left, pause).await else { return };
        let names = missing.join(", ");
        self.log
            .warning("attach", format!("requests to attached volumes wait for {names}: open their pools"));
        tokio::spawn(async move {
            let mut waiting = Some(left);
            while let Some(left) = waiting.take() {
                tokio::time::sleep(MISSING_PAUSE).await;
                waiting = self.try_resume(left, pause).await.map(|(left, _)| left);
            }
        });
    }

    async fn try_resume(&self, left: Left, pause: Pause) -> Option<(Left, Vec<String>)> {
        match self.doors.take_over_fuse(&self.array, left, &self.log).await {
            Ok(Ok(())) => {
                let waited = pause.elapsed();
                // One array takes over once.
                let _ = self.handover_pause.set(waited);
                let waited = waited.as_millis();
                self.recall_made_late().await;
                for api::Attachment { volume, device, .. } in self.attachments() {
                    let what = format!("{device} goes on: its requests waited {waited} ms");
                    self.log.info(format!("volume {volume}"), what);
                }
                self.remember_attachments();
                None
            }
            Ok(Err(waiting)) => Some(waiting),
            Err(error) => {
                self.log.error("attach", format!("what is attached does not go on: {error}"));
                None
            }
        }
    }

    /// A device process of the last array may have waited for its answer, and only now made its device.
    async fn recall_made_late(&self) {
        let state = self.state().directory().to_path_buf();
        let are_gone = tokio::task::spawn_blocking(move || subprocess::wait_for_all(&state)).await;
        if !matches!(are_gone, Ok(Ok(true))) {
            self.log
                .warning("attach", "a process of the array before still works on a device (ashlar-device)");
        }
        for known in self.recall_devices(&[]).await {
            let is_known = self.known().attached.values().any(|slot| slot.carrier == known.carrier);
            if !is_known {
                self.recall(known).await;
            }
        }
    }

    /// Starts another keeper where the last one is gone; tells a trouble once.
    pub(super) fn watch_keeper(&self, trouble: &mut Option<String>) {
        match tokio::task::block_in_place(|| self.keeping.look()) {
            Ok(false) => *trouble = None,
            Ok(true) => self.log.warning("keeper", "it was gone: another keeps what is attached"),
            Err(error) => {
                let told = error.to_string();
                if trouble.as_ref() != Some(&told) {
                    self.log.error("keeper", told.clone());
                }
                *trouble = Some(told);
            }
        }
    }

    /// Says what goes on waiting.
    pub(super) fn tell_left(&self) {
        for attachment in self.attachments() {
            let what = format!(
                "{} stays attached: its requests wait for the next array; {}",
                attachment.device,
                self.keeping.patience()
            );
            self.log.info(format!("volume {}", attachment.volume), what);
        }
    }
}

impl Slot {
    /// As it is written down.
    fn to_known(&self) -> KnownAttachment {
        let device = self.attachment.as_ref().map(|attachment| attachment.device.clone());
        let (request, carrier, pool) = (self.request.clone(), self.carrier.clone(), self.pool.clone());
        KnownAttachment { request, carrier, pool, device }
    }
}

fn by_volume(remembered: &[KnownAttachment]) -> BTreeMap<String, Return> {
    let named = |known: &KnownAttachment| {
        (known.request.volume.clone(), Return { known: known.clone(), is_tried: false })
    };
    remembered.iter().map(named).collect()
}
