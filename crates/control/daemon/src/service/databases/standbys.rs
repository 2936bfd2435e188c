//! Standbys: shown with what they lack, promoted, and let go of by their primary.

use ashlar_api as api;
use ashlar_database::{Record, Standing, Work};

use super::super::Service;
use super::{Known, check_ready};
use crate::error::{Error, Result};

impl Service {
    /// Ends the following of a standby.
    pub(crate) async fn database_promote(&self, name: &str) -> Result<api::DatabasePromotion> {
        let _alone = self.work_alone(name)?;
        let mut known = self.database_record(name).await?;
        check_ready(&known.record)?;
        if known.record.follows.is_none() {
            let what = format!("database `{name}` follows nobody");
            return Err(Error::invalid(what, "`ashlar database list` shows which do"));
        }
        let site = self.site(&known.record);
        if !site.is_running() {
            let started = self.start_grown(&mut known).await;
            self.started_or_late(&mut known, started).await?;
        }
        self.work(&site, Work::Promote).await?;
        self.work(&site, Work::GivePassword).await?;
        let notes: Vec<String> = self.leave_primary(&known.record).await.into_iter().collect();
        known.record.follows = None;
        known.record.is_wanted = true;
        self.keep_record(&known).await?;
        self.log.info(format!("database {name}"), "promoted: it follows nobody any more");
        let url = self.site(&known.record).url();
        Ok(api::DatabasePromotion { database: self.view(&known), url, notes })
    }

    /// Has the primary drop the slot of a standby; what of it stays.
    pub(super) async fn leave_primary(&self, record: &Record) -> Option<String> {
        let follows = record.follows.as_ref()?;
        let error = self.work(&self.site(record), Work::LeavePrimary).await.err()?;
        let note = format!(
            "slot {slot} stays on the primary and holds back its log: {error}; there: select \
             pg_drop_replication_slot('{slot}')",
            slot = follows.slot
        );
        self.log.warning(format!("database {}", record.name), note.clone());
        Some(note)
    }

    /// What a standby follows and lacks; `None` of any other.
    pub(super) async fn standby_of(&self, known: &Known) -> Option<api::DatabaseStandby> {
        let record = &known.record;
        let follows = record.follows.as_ref()?;
        let site = self.site(record);
        let standing = match site.is_running() && check_ready(record).is_ok() {
            true => self.work(&site, Work::Standing).await.ok().and_then(|done| done.standing),
            false => None,
        };
        let told = |what: fn(&Standing) -> u64| standing.as_ref().map(what);
        Some(api::DatabaseStandby {
            primary: follows.primary.clone(),
            slot: follows.slot.clone(),
            is_streaming: standing.as_ref().map(|standing| standing.is_streaming),
            lag_bytes: told(|standing| standing.lag_bytes),
            lag_millis: told(|standing| standing.lag_millis),
        })
    }
}

/// Refuses what a standby cannot be asked: its content is its primary's.
pub(super) fn check_leads(record: &Record) -> Result<()> {
    let Some(follows) = &record.follows else { return Ok(()) };
    Err(Error::invalid(
        format!("database `{}` follows {}: its content is that server's", record.name, follows.primary),
        format!(
            "clone it and work on the clone, or end the following with `ashlar database promote {}`",
            record.name
        ),
    ))
}
