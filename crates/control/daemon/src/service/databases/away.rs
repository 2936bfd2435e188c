//! Clones that run on another machine: their volumes are exported to a host, and nothing of them is here.
//!
//! ```text
//!   made and started here ─► stopped, detached ─► away (written down) ─► exported ─► ready
//!                                                   return: exports end ─► mounted, made its own, started
//! ```
//!
//! The record says that it is away before the first export is there: whoever finds a making that was cut
//! short knows that there may be exports to end. While it is away nobody here mounts or starts it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ashlar_api as api;
use ashlar_database::{Away, EngineKind, FILE_SYSTEM, Handed, Handover, Outcome, Part, Record, Site, Work};

use super::super::Service;
use super::make::unix_seconds;
use super::{Known, check_at_rest};
use crate::error::{Error, Result};
use crate::tag::Seen;

/// How long commands that came before the end of an export may go on. Arbitrary: far longer than one takes.
const QUIET_MAX: Duration = Duration::from_secs(5);
const QUIET_POLL: Duration = Duration::from_millis(10);

impl Service {
    /// Refuses, before anything is made, a clone that could not be handed to its host.
    pub(super) async fn check_handover(&self, source: &Known, request: &api::DatabaseClone) -> Result<()> {
        let Some(host) = &request.host else { return Ok(()) };
        let name = &request.name;
        if source.record.engine != EngineKind::Postgres {
            return Err(Error::unfit(
                format!("database `{name}`: Ashlar does not know how its server runs on another machine"),
                "leave --host out, and export the clone's volumes with `ashlar export create`",
            )
            .over_rest("leave `host` out, and export the clone's volumes"));
        }
        self.check_hosts(&source.pool, std::slice::from_ref(host)).await?;
        if self.array.iscsi_addresses().await?.is_empty() {
            return Err(Error::unfit(
                format!("database `{name}`: the array serves no iSCSI, so host `{host}` does not reach it"),
                "name an address in `iscsi_listen` and start the array again; `ashlar status` tells why one is not open",
            ));
        }
        let directory = self.site_directory(name).display().to_string();
        if !Handover::is_plain_path(&directory) {
            return Err(Error::unfit(
                format!("database `{name}` would be mounted below {directory} on host `{host}`, too"),
                "that takes a state directory whose path has letters, digits and `._-/` alone",
            ));
        }
        Ok(())
    }

    /// Hands a clone that was started to another machine.
    pub(super) async fn hand_over(
        &self,
        known: &mut Known,
        started: &Outcome,
        host: &str,
    ) -> Result<api::DatabaseHandover> {
        let object = format!("database `{}`", known.record.name);
        let server = started.server.clone().ok_or_else(|| {
            Error::new(
                api::ErrorKind::Medium,
                format!("{object}: its server is not known"),
                "see `ashlar doctor`",
            )
        })?;
        self.work(&self.site(&known.record), Work::Stop).await?;
        self.unmount_parts(&known.record).await?;
        known.record.away = Some(Away { host: host.to_string(), unix_seconds: unix_seconds(), server });
        known.record.is_wanted = false;
        self.keep_record(known).await?;
        for volume in known.record.volumes() {
            let hosts = vec![host.to_string()];
            self.export_create(api::ExportCreate { volume, hosts, unit: None, block_bytes: None }).await?;
        }
        self.handover(known).await
    }

    /// What the machine needs that a clone is away at.
    pub(crate) async fn database_handover(&self, name: &str) -> Result<api::DatabaseHandover> {
        self.handover(&self.database_record(name).await?).await
    }

    async fn handover(&self, known: &Known) -> Result<api::DatabaseHandover> {
        let record = &known.record;
        let Some(away) = &record.away else { return Err(not_away(&record.name)) };
        let host = self.host(&away.host).await?;
        let site = self.site(record);
        let exports = self.exports().await?;
        let handed = |part: &Part| handed(&site, part, &exports, &away.host);
        let volumes = record.parts.iter().map(handed).collect::<Result<Vec<_>>>()?;
        let export = exports.iter().find(|export| record.parts.iter().any(|one| one.volume == export.volume));
        let (target, addresses) =
            export.map_or_else(Default::default, |one| (one.target.clone(), reached(&one.addresses)));
        let places = site.places();
        let bare = api::DatabaseHandover {
            name: record.name.clone(),
            host: away.host.clone(),
            since_unix_seconds: away.unix_seconds,
            target,
            addresses,
            chap_user: host.chap_user,
            mutual_chap_user: host.mutual_chap_user,
            major_version: record.major,
            programs: away.server.programs.clone(),
            account: away.server.account.clone(),
            user_id: away.server.user,
            group_id: away.server.group,
            port: record.port,
            data_directory: places.data.display().to_string(),
            socket_directory: places.socket.display().to_string(),
            volumes,
            script: String::new(),
        };
        let script = written(&bare, record).script();
        Ok(api::DatabaseHandover { script, ..bare })
    }

    /// Takes a clone back that is away. The other machine may have lost it, and then has nothing to say.
    pub(crate) async fn database_return(&self, name: &str) -> Result<api::DatabaseReady> {
        let since = Instant::now();
        let _alone = self.work_alone(name)?;
        let mut known = self.database_record(name).await?;
        check_at_rest(&known.record)?;
        let Some(away) = known.record.away.clone() else { return Err(not_away(name)) };
        self.end_exports(&known.record).await?;
        self.wait_for_quiet(name, &away.host).await?;
        if let Err(error) = self.mount_returned(&known.record).await {
            self.unmount_parts(&known.record).await?;
            let message = format!("{}; host `{}` has its volumes no more", error.message, away.host);
            return Err(Error { message, ..error });
        }
        known.record.away = None;
        known.record.is_wanted = true;
        self.keep_record(&known).await?;
        self.log.info(format!("database {name}"), format!("is back from host {}", away.host));
        let started = self.start_grown(&mut known).await;
        let started = self.started_or_late(&mut known, started).await.map_err(|error| Error {
            message: format!("{}; its volumes are back from host `{}`", error.message, away.host),
            action: format!("mend that, then `ashlar database start {name}`"),
            over_rest: None,
            ..error
        })?;
        Ok(self.ready(&known, since, &started).await)
    }

    async fn mount_returned(&self, record: &Record) -> Result<()> {
        self.make_site(record)?;
        self.mount_parts(record, |_| false).await?;
        self.work(&self.site(record), Work::TakeBack).await.map(drop)
    }

    /// A command that came before its export ended may still write.
    async fn wait_for_quiet(&self, name: &str, host: &str) -> Result<()> {
        let end = Instant::now() + QUIET_MAX;
        loop {
            let hosts = self.hosts().await?;
            let sessions = hosts.iter().filter(|one| one.name == host).flat_map(|one| &one.sessions);
            if sessions.map(|session| session.in_flight_count).all(|count| count == 0) {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(Error::new(
                    api::ErrorKind::Busy,
                    format!("database `{name}`: host `{host}` has commands under way that do not end"),
                    "end what works there, or its session (`ashlar client disconnect`), then repeat",
                )
                .about(api::ObjectKind::Database, name)
                .because(api::Reason::InUse));
            }
            tokio::time::sleep(QUIET_POLL).await;
        }
    }

    /// Takes the volumes from the machine that has them. Some of them may be exported no more.
    pub(super) async fn end_exports(&self, record: &Record) -> Result<()> {
        for volume in record.volumes() {
            match self.export_delete(&volume, true, &Seen::Unsaid).await {
                Err(error) if error.kind != api::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Refuses what would take a volume from the machine that its database is away at.
    pub(in super::super) async fn check_of_none_away(&self, volume: &str) -> Result<()> {
        let has_it = |known: &Known| known.record.parts.iter().any(|part| part.volume == volume);
        let owner = self.database_records().await?.into_iter().find(has_it);
        let Some(Record { name, away: Some(away), .. }) = owner.map(|known| known.record) else {
            return Ok(());
        };
        Err(Error::new(
            api::ErrorKind::Busy,
            format!("volume `{volume}` is of database `{name}`, which is away at host `{}`", away.host),
            format!(
                "`ashlar database return {name}` or `delete {name}` ends its exports; --force ends this one"
            ),
        )
        .about(api::ObjectKind::Export, volume)
        .because(api::Reason::InUse))
    }
}

/// The addresses for another machine: on loopback it would ask itself. They are all there is where both are
/// one machine.
fn reached(addresses: &[String]) -> Vec<String> {
    let is_far = |text: &&String| text.parse::<SocketAddr>().is_ok_and(|address| !address.ip().is_loopback());
    let far: Vec<String> = addresses.iter().filter(is_far).cloned().collect();
    if far.is_empty() { addresses.to_vec() } else { far }
}

fn handed(
    site: &Site,
    part: &Part,
    exports: &[api::Export],
    host: &str,
) -> Result<api::DatabaseHandoverVolume> {
    let export = exports.iter().find(|export| export.volume == part.volume).ok_or_else(|| {
        let volume = &part.volume;
        Error::new(
            api::ErrorKind::Busy,
            format!("volume `{volume}` of database `{}` is exported no more", site.name),
            format!(
                "`ashlar database return {}` takes it back, also where that was cut short; \
                 `ashlar export create {volume} --host {host}` lets it stay away",
                site.name
            ),
        )
    })?;
    Ok(api::DatabaseHandoverVolume {
        role: part.role.name(),
        volume: part.volume.clone(),
        unit: export.unit,
        wwn: export.wwn.clone(),
        file_system: FILE_SYSTEM.to_string(),
        mount: site.mount(&part.role).display().to_string(),
    })
}

/// As the script has it.
fn written(told: &api::DatabaseHandover, record: &Record) -> Handover {
    let volume = |one: &api::DatabaseHandoverVolume| Handed {
        role: one.role.clone(),
        wwn: one.wwn.clone(),
        mount: one.mount.clone(),
    };
    Handover {
        database: told.name.clone(),
        source: record.origin.as_ref().map(|origin| origin.database.clone()).unwrap_or_default(),
        host: told.host.clone(),
        target: told.target.clone(),
        portals: told.addresses.clone(),
        chap_user: told.chap_user.clone(),
        mutual_chap_user: told.mutual_chap_user.clone(),
        major: told.major_version,
        programs: told.programs.clone(),
        account: told.account.clone(),
        user: told.user_id,
        group: told.group_id,
        port: told.port,
        limits: record.limits,
        data: told.data_directory.clone(),
        socket: told.socket_directory.clone(),
        volumes: told.volumes.iter().map(volume).collect(),
    }
}

/// Of what is refused while a clone is away.
pub(super) fn is_away(record: &Record, away: &Away) -> Error {
    let (name, host) = (&record.name, &away.host);
    Error::new(
        api::ErrorKind::Busy,
        format!("database `{name}` is away at host `{host}`"),
        format!("stop it there, then `ashlar database return {name}`; or work on it there"),
    )
    .about(api::ObjectKind::Database, name.as_str())
    .because(api::Reason::InUse)
}

fn not_away(name: &str) -> Error {
    Error::invalid(
        format!("database `{name}` is not away: its volumes are on the array's machine"),
        format!("`ashlar database clone {name} CLONE --host HOST` makes a clone that is"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_machine_is_told_no_address_that_is_its_own() {
        let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_string()).collect::<Vec<_>>();
        let both = list(&["127.0.0.1:3260", "192.0.2.2:3260", "[::1]:3260", "[2001:db8::1]:3260"]);
        assert_eq!(reached(&both), list(&["192.0.2.2:3260", "[2001:db8::1]:3260"]));
        let here = list(&["127.0.0.1:3260"]);
        assert_eq!(reached(&here), here);
    }
}
