//! What is changed of a database while it runs: settings, and the sizes of its volumes.

use std::path::PathBuf;

use ashlar_api as api;
use ashlar_database::{AutoGrow, Part, Record, Site, Work};
use ashlar_units::ByteCount;

use super::super::Service;
use super::grow::grow_wanted;
use super::{Known, check_ready};
use crate::attach::Steps;
use crate::error::{Error, Result};
use crate::tag::Seen;

impl Service {
    /// The settings that are kept of a database.
    pub(crate) async fn database_settings(&self, name: &str) -> Result<api::DatabaseSettings> {
        let known = self.database_record(name).await?;
        let waiting = match self.site(&known.record).is_running() {
            true => self.work(&self.site(&known.record), Work::LookAtSettings).await?.notes,
            false => Vec::new(),
        };
        Ok(settings_of(&known.record, waiting))
    }

    /// Changes them. A value that the server would not start with is refused.
    pub(crate) async fn database_settings_change(
        &self,
        name: &str,
        request: api::DatabaseSettingsChange,
        seen: &Seen,
    ) -> Result<api::DatabaseSettings> {
        let _alone = self.work_alone(name)?;
        let mut known = self.database_record(name).await?;
        seen.check(&settings_of(&known.record, Vec::new()))?;
        check_ready(&known.record)?;
        let before = known.record.clone();
        for name_of_setting in &request.reset {
            if known.record.settings.remove(name_of_setting).is_none() {
                return Err(Error::invalid(
                    format!("database `{name}`: setting `{name_of_setting}` is not kept"),
                    format!("`ashlar database settings {name}` shows those that are"),
                ));
            }
        }
        known.record.settings.extend(request.set);
        let site = self.site(&known.record);
        let is_running = site.is_running();
        let port_taken = self.new_databases.lock().await;
        if let Some(port) = request.port {
            self.check_new_port(&known, port, is_running && !request.restart).await?;
            known.record.port = port;
        }
        let moves = known.record.port != before.port;
        self.mount_parts(&known.record, |_| false).await?;
        let found_by = Site { port: before.port, ..self.site(&known.record) };
        self.work(&found_by, Work::CheckSettings).await?;
        self.keep_record(&known).await?;
        drop(port_taken);
        let mut waiting = Vec::new();
        if is_running {
            waiting = self.work(&found_by, Work::TakeSettings).await?.notes;
            if request.restart && (moves || !waiting.is_empty()) {
                self.start_anew(&mut known, before).await?;
                waiting.clear();
            }
        }
        self.log.info(format!("database {name}"), "settings changed");
        Ok(settings_of(&known.record, waiting))
    }

    /// Stops a server and starts it with what its record says. One that does not start so gets back what it
    /// ran with before.
    async fn start_anew(&self, known: &mut Known, before: Record) -> Result<()> {
        let found_by = Site { port: before.port, ..self.site(&known.record) };
        self.work(&found_by, Work::Stop).await?;
        let error = match self.work(&self.site(&known.record), Work::Start).await {
            Ok(started) => return self.started_or_late(known, Ok(started)).await.map(drop),
            Err(error) => error,
        };
        known.record = before;
        self.keep_record(known).await?;
        let started = self.work(&self.site(&known.record), Work::Start).await;
        self.started_or_late(known, started).await?;
        let message = format!("{}; it runs again as it was before", error.message);
        Err(Error::invalid(message, "choose other values, or see the server's log"))
    }

    /// Enlarges volumes and their file systems.
    pub(crate) async fn database_resize(
        &self,
        name: &str,
        request: api::DatabaseResize,
    ) -> Result<api::Database> {
        let _alone = self.work_alone(name)?;
        let mut known = self.database_record(name).await?;
        check_ready(&known.record)?;
        let grows = self.grow_change(&known.record, &request)?;
        let mut wanted = Vec::new();
        for (role, size_bytes) in request.sizes_bytes {
            let part = part_of(&known.record, &role)?;
            self.check_larger(&part.volume, size_bytes).await?;
            wanted.push((part.clone(), size_bytes));
        }
        if wanted.is_empty() && grows.is_none() {
            return Err(Error::invalid("no size is named", "name one, as in --size 128GiB")
                .over_rest("name one in `sizes_bytes`"));
        }
        if let Some(grows) = grows {
            known.record.auto_grow = grows;
            self.keep_record(&known).await?;
        }
        if wanted.is_empty() {
            return Ok(self.view(&known));
        }
        let is_running = self.site(&known.record).is_running();
        if !is_running {
            self.unmount_parts(&known.record).await?;
        }
        for (part, size_bytes) in wanted {
            let request = api::VolumeResize { size_bytes, may_shrink: false, force: false };
            self.volume_resize(&part.volume, request, &Seen::Unsaid).await?;
            match is_running {
                true => self.grow_mounted(name, &part.volume).await?,
                false => self.grow_unmounted(&part.volume).await?,
            }
            self.set_waiting(&mut known, &part.volume, false).await?;
        }
        Ok(self.view(&known))
    }

    /// Whether volumes are to grow by themselves from now on; `None` where nothing is said.
    fn grow_change(
        &self,
        record: &Record,
        request: &api::DatabaseResize,
    ) -> Result<Option<Option<AutoGrow>>> {
        let Some(is_wanted) = request.auto_grow else {
            return grow_wanted(&record.name, false, request.auto_grow_max_bytes).map(|_| None);
        };
        let waiting = record.auto_grow.as_ref().map_or(Vec::new(), |before| before.waiting.clone());
        let grows = grow_wanted(&record.name, is_wanted, request.auto_grow_max_bytes)?;
        Ok(Some(grows.map(|grows| AutoGrow { waiting, ..grows })))
    }

    /// A size that is the present one may be an attempt that was cut short: its file system grows.
    async fn check_larger(&self, volume: &str, size_bytes: u64) -> Result<()> {
        let now = self.volume(volume).await?.size_bytes;
        if size_bytes < now {
            let what = format!("volume `{volume}` has {}: it only grows", ByteCount(now));
            return Err(Error::invalid(what, "name a larger size; volumes are thin"));
        }
        Ok(())
    }

    /// Has the file system of a mounted volume take all of it.
    pub(super) async fn grow_mounted(&self, name: &str, volume: &str) -> Result<()> {
        let attachment = self.attachments().into_iter().find(|one| one.volume == volume);
        let Some(attachment) = attachment else { return Ok(()) };
        let grown = self.grow(volume, attachment.device, true).await;
        grown.map_err(|error| {
            let action = format!(
                "the volume is larger already. Growing ext4 while it is mounted takes the right \
                 CAP_SYS_RESOURCE; without it: `ashlar database stop {name}`, then the same once more"
            );
            Error::new(api::ErrorKind::Medium, error.to_string(), action)
        })
    }

    /// The same for a volume that nobody uses.
    pub(super) async fn grow_unmounted(&self, volume: &str) -> Result<()> {
        let attached = self.attach(super::content::attach_request(volume, None, None)).await?;
        let grown = self.grow(volume, attached.device, false).await;
        self.detach(volume, false).await?;
        grown
    }

    async fn grow(&self, volume: &str, device: String, is_mounted: bool) -> Result<()> {
        let steps = Steps::Grow { device: PathBuf::from(device), is_mounted };
        self.take(steps).await.map(drop).map_err(|undone| {
            let what = format!("volume `{volume}`: enlarge its file system: {}", undone.error);
            Error::new(api::ErrorKind::Medium, what, "the volume is larger already; repeat the command")
        })
    }
}

fn part_of<'a>(record: &'a Record, role: &str) -> Result<&'a Part> {
    record.parts.iter().find(|part| part.role.name() == role).ok_or_else(|| {
        let has: Vec<String> = record.parts.iter().map(|part| part.role.name()).collect();
        let what = format!("database `{}` has no volume for {role}", record.name);
        Error::invalid(what, format!("it has those for {}", has.join(", ")))
    })
}

fn settings_of(record: &Record, waiting_for_restart: Vec<String>) -> api::DatabaseSettings {
    let (name, settings) = (record.name.clone(), record.settings.clone());
    api::DatabaseSettings { name, settings, waiting_for_restart }
}
