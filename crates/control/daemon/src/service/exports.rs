//! Exports: volumes as hosts reach them over iSCSI. An export is a note about its volume, and goes and comes
//! back with it.

use ashlar_api as api;
use ashlar_engine::NoteKind;

use super::Service;
use super::scrubs::unix_seconds;
use crate::error::{Error, Result};
use crate::iscsi::ExportRecord;
use crate::tag::Seen;

/// Numbers that are given first: Windows finds no unit beyond.
const FIRST_UNITS: u16 = 255;

impl Service {
    /// All exports, by volume.
    pub(crate) async fn exports(&self) -> Result<Vec<api::Export>> {
        self.array.exports().await
    }

    /// One export.
    pub(crate) async fn export(&self, volume: &str) -> Result<api::Export> {
        let found = self.exports().await?.into_iter().find(|export| export.volume == volume);
        found.ok_or_else(|| {
            let what = format!("volume `{volume}` is not exported");
            Error::new(api::ErrorKind::NotFound, what, "`ashlar export list` shows those that are")
                .about(api::ObjectKind::Export, volume)
        })
    }

    /// Exports a volume.
    pub(crate) async fn export_create(&self, request: api::ExportCreate) -> Result<api::Export> {
        let name = request.volume.clone();
        let turn = self.change().await?;
        let pool = self.known().index.volume(&name)?;
        self.check_not_exported(&name, "then export it anew").await?;
        self.check_shared(&name)?;
        self.check_hosts(&pool, &request.hosts).await?;
        let volumes = self.array.volumes().await?;
        let found = volumes.into_iter().find(|volume| volume.name == name);
        let volume = found.ok_or_else(|| Error::not_found("volume", &name))?;
        let block_bytes = request.block_bytes.unwrap_or(volume.logical_block_bytes);
        if ![512, 4096].contains(&block_bytes) {
            let what = format!("export of volume `{name}`: blocks of {block_bytes} bytes are not possible");
            return Err(Error::invalid(what, "use 512 or 4096"));
        }
        let record = ExportRecord {
            unit: self.free_unit(&pool, &name, request.unit).await?,
            block_bytes,
            hosts: request.hosts,
            created_unix_seconds: unix_seconds(),
        };
        self.note_unit(&pool, record.unit, request.unit.is_some()).await?;
        let value = serde_json::to_vec(&record).expect("records are plain data");
        self.array.record_note_put(NoteKind::Export, &pool, volume.id, value, true).await?;
        self.array.refresh_exports().await?;
        drop(turn);
        let export = self.export(&name).await?;
        let whom = if export.hosts.is_empty() { "every host".to_string() } else { export.hosts.join(", ") };
        let what = format!("exported to {whom} as LUN {} of {}", export.unit, export.target);
        self.log.info(format!("volume {name}"), what);
        Ok(export)
    }

    /// Exports a volume no more.
    pub(crate) async fn export_delete(&self, name: &str, is_forced: bool, seen: &Seen) -> Result<()> {
        let turn = self.change().await?;
        let export = self.export(name).await?;
        seen.check(&export)?;
        if !is_forced {
            self.check_of_none_away(name).await?;
        }
        let users = self.users(|image| image == name).await?;
        let session = users.iter().find(|user| user.kind == api::UseKind::Iscsi);
        if let Some(session) = session.filter(|_| !is_forced) {
            return Err(Error::new(
                api::ErrorKind::Busy,
                format!("volume `{name}` may be in use: {}", session.who),
                "log it out there, or take the volume from it with --force",
            )
            .about(api::ObjectKind::Export, name)
            .because(api::Reason::InUse));
        }
        let volumes = self.array.volumes().await?;
        let volume = volumes.into_iter().find(|volume| volume.name == name);
        if let Some(volume) = &volume {
            self.array.record_note_delete(NoteKind::Export, &volume.pool, volume.id).await?;
            self.array.record_note_delete(NoteKind::Reservation, &volume.pool, volume.id).await?;
        }
        self.array.refresh_exports().await?;
        // Whoever takes the volume next is not to meet what the host began before. Others may make room
        // meanwhile for a write that waits for it.
        drop(turn);
        if let Some(volume) = &volume {
            // Those that wait for the volume's rates first: they would hold up the rest.
            match self.array.volume_drain(&volume.pool, name).await {
                Err(error) if error.kind != api::ErrorKind::NotFound => return Err(error),
                _ => self.array.wait_for_gone_exports(&volume.pool, volume.id).await?,
            }
            // A reservation may have been kept meanwhile.
            let _turn = self.change().await?;
            if !self.exports().await?.iter().any(|export| export.volume == name) {
                self.array.record_note_delete(NoteKind::Reservation, &volume.pool, volume.id).await?;
            }
        }
        self.log.info(format!("volume {name}"), "exported no more");
        Ok(())
    }

    /// The number that is asked for, or the next that no export of the pool has: also of deleted volumes, for
    /// they may come back. Numbers come round late, because a host takes what it finds at a number for the
    /// disk that it knew there, and writes to it.
    async fn free_unit(&self, pool: &str, volume: &str, asked: Option<u16>) -> Result<u16> {
        let taken = self.units_of(pool).await?;
        let wrong = |what: String, action: String| {
            Err(Error::invalid(format!("export of volume `{volume}`: {what}"), action))
        };
        let unfit = |what: String, action: String| {
            Err(Error::unfit(format!("export of volume `{volume}`: {what}"), action))
        };
        match asked {
            Some(unit) if unit > api::UNIT_MAX => {
                wrong(format!("{unit} is no LUN"), format!("name one of 0 to {}", api::UNIT_MAX))
            }
            Some(unit) if taken.contains(&unit) => unfit(
                format!("LUN {unit} of pool `{pool}` is taken, maybe by a deleted volume"),
                "name another, or none for the next that is free".to_string(),
            ),
            Some(unit) => Ok(unit),
            None => match next_unit(self.last_unit(pool).await?.or(taken.iter().max().copied()), &taken) {
                Some(unit) => Ok(unit),
                None => wrong("no LUN is free".to_string(), "delete an export first".to_string()),
            },
        }
    }

    /// Numbers go on behind this one, so that it does not come again soon. One that was asked for brings none
    /// back that were given since.
    async fn note_unit(&self, pool: &str, unit: u16, is_asked: bool) -> Result<()> {
        let last = self.last_unit(pool).await?.or(self.units_of(pool).await?.into_iter().max());
        if is_asked && (unit >= FIRST_UNITS || last.is_some_and(|last| unit <= last)) {
            return Ok(());
        }
        let last = serde_json::to_vec(&unit).expect("a number is plain data");
        self.array.record_note_put(NoteKind::LastUnit, pool, 0, last, true).await
    }

    /// The numbers that exports of a pool have, also those of deleted volumes.
    async fn units_of(&self, pool: &str) -> Result<Vec<u16>> {
        let notes = self.array.record_notes(NoteKind::Export).await?;
        let of_pool = notes.iter().filter(|note| note.pool == pool);
        let records = of_pool.filter_map(|note| serde_json::from_slice::<ExportRecord>(&note.value).ok());
        Ok(records.map(|record| record.unit).collect())
    }

    async fn last_unit(&self, pool: &str) -> Result<Option<u16>> {
        let notes = self.array.record_notes(NoteKind::LastUnit).await?;
        let note = notes.into_iter().find(|note| note.pool == pool);
        Ok(note.and_then(|note| serde_json::from_slice(&note.value).ok()))
    }

    /// Refuses hosts that the pool does not know.
    pub(super) async fn check_hosts(&self, pool: &str, hosts: &[String]) -> Result<()> {
        let known = self.array.noted_hosts().await?;
        for name in hosts {
            let of_name = || known.iter().filter(|host| host.record.name == *name);
            let host = of_name().next().ok_or_else(|| self.not_there("host", name))?;
            if !of_name().any(|host| host.pool == pool) {
                return Err(Error::unfit(
                    format!("host `{name}` is one of pool `{}`, and the volume is in `{pool}`", host.pool),
                    "make a host for this pool, too, under another name: `ashlar host create`",
                ));
            }
        }
        Ok(())
    }

    /// Refuses a volume that somebody attached for himself.
    fn check_shared(&self, name: &str) -> Result<()> {
        let known = self.known();
        match known.attached.get(name) {
            Some(slot) if !slot.request.shared => Err(Error::new(
                api::ErrorKind::Busy,
                format!("volume `{name}` is attached"),
                format!("`ashlar detach {name}` first, or attach it with --shared if both are made for that"),
            )
            .about(api::ObjectKind::Volume, name)
            .because(api::Reason::Attached)),
            _ => Ok(()),
        }
    }
}

/// The number behind the last one, of those that are free.
fn next_unit(last: Option<u16>, taken: &[u16]) -> Option<u16> {
    let start = last.map_or(0, |last| last.saturating_add(1)) % FIRST_UNITS;
    let mut numbers = (start..FIRST_UNITS).chain(0..start).chain(FIRST_UNITS..=api::UNIT_MAX);
    numbers.find(|unit| !taken.contains(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_was_free_comes_again_after_all_others() {
        assert_eq!(next_unit(None, &[]), Some(0));
        assert_eq!(next_unit(Some(3), &[0, 1]), Some(4));
        assert_eq!(next_unit(Some(3), &[0, 1, 4]), Some(5));
        assert_eq!(next_unit(Some(254), &[0, 2]), Some(1));
        assert_eq!(next_unit(Some(u16::MAX), &[]), Some(0));
        let first: Vec<u16> = (0..FIRST_UNITS).collect();
        assert_eq!(next_unit(Some(7), &first), Some(255));
        assert_eq!(next_unit(Some(7), &(0..=api::UNIT_MAX).collect::<Vec<u16>>()), None);
    }
}
