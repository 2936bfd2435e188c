//! Clones that are deleted when their time is over, after a warning.
//!
//! The time is told by the machine's clock, the wait behind the warning is counted: a clock that jumps ahead,
//! or an array that was off, deletes nothing that was not warned of before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ashlar_api as api;
use ashlar_database::{Expiry, Stage};
use ashlar_schedule::told;

use super::super::Service;
use super::make::unix_seconds;
use super::{Known, check_at_rest};
use crate::error::{Error, Result};
use crate::tag::Seen;

const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// A deletion that failed is tried again after so long. Arbitrary.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// A clone that was warned of.
struct Warned {
    /// For this end.
    unix_seconds: u64,
    at: Instant,
    /// Its deletion failed, for this reason.
    failed: Option<(String, Instant)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Wait,
    Warn,
    Delete,
}

/// What is to be done, where the warning for this end is so old.
fn step(expiry: Expiry, now: u64, warned: Option<Duration>) -> Step {
    let lead = expiry.lead_seconds();
    match warned {
        _ if now.saturating_add(lead) < expiry.unix_seconds => Step::Wait,
        None => Step::Warn,
        Some(warned) if now >= expiry.unix_seconds && warned >= Duration::from_secs(lead) => Step::Delete,
        Some(_) => Step::Wait,
    }
}

/// When something ends that is to last so long from now.
pub(super) fn expiry_in(database: &str, seconds: Option<u64>) -> Result<Option<Expiry>> {
    let Some(seconds) = seconds else { return Ok(None) };
    if !(1..=api::EXPIRY_SECONDS_MAX).contains(&seconds) {
        return Err(Error::invalid(
            format!("database `{database}` cannot expire after {seconds} s"),
            format!("choose from 1 to {} s, or never", api::EXPIRY_SECONDS_MAX),
        ));
    }
    Ok(Some(Expiry { unix_seconds: unix_seconds() + seconds, term_seconds: seconds }))
}

impl Service {
    /// Sets when a clone is deleted, or that it is not.
    pub(crate) async fn database_expire(
        &self,
        name: &str,
        request: api::DatabaseExpiry,
        seen: &Seen,
    ) -> Result<api::Database> {
        let expiry = expiry_in(name, request.expires_after_seconds)?;
        let _alone = self.work_alone(name)?;
        let mut known = self.database_record(name).await?;
        self.check_database_seen(&known, seen).await?;
        check_at_rest(&known.record)?;
        if known.record.origin.is_none() {
            return Err(Error::invalid(
                format!("database `{name}` is no clone: it never expires"),
                format!("`ashlar database delete {name}` deletes it"),
            ));
        }
        known.record.expiry = expiry;
        self.keep_record(&known).await?;
        let what =
            expiry.map_or("never expires".to_string(), |end| format!("expires {}", told(end.unix_seconds)));
        self.log.info(format!("database {name}"), what);
        Ok(self.view(&known))
    }

    /// Deletes clones when their time is over, until the array stops.
    pub(crate) async fn expire_databases(self: Arc<Self>) {
        let mut warned: BTreeMap<String, Warned> = BTreeMap::new();
        while !self.is_stopping() {
            tokio::time::sleep(LOOK_INTERVAL).await;
            if !self.may_tend_databases.load(Ordering::Acquire) {
                continue;
            }
            let Ok(all) = self.database_records().await else { continue };
            warned.retain(|name, _| all.iter().any(|known| known.record.name == *name));
            for known in all {
                self.expire(&known, &mut warned).await;
            }
        }
    }

    async fn expire(&self, known: &Known, warned: &mut BTreeMap<String, Warned>) {
        let name = &known.record.name;
        let (Some(expiry), Stage::Ready) = (known.record.expiry, known.record.stage) else { return };
        let before = warned.get(name).filter(|warned| warned.unix_seconds == expiry.unix_seconds);
        let object = format!("database {name}");
        match step(expiry, unix_seconds(), before.map(|warned| warned.at.elapsed())) {
            Step::Wait => {}
            Step::Warn => {
                let end = expiry.unix_seconds.max(unix_seconds() + expiry.lead_seconds());
                let keep = format!("`ashlar database expire {name} --never` keeps it");
                self.log.warning(object, format!("expires {} and is deleted then; {keep}", told(end)));
                let unix_seconds = expiry.unix_seconds;
                warned.insert(name.clone(), Warned { unix_seconds, at: Instant::now(), failed: None });
            }
            Step::Delete => {
                let failed = before.and_then(|warned| warned.failed.clone());
                if failed.as_ref().is_some_and(|(_, at)| at.elapsed() < RETRY_INTERVAL) {
                    return;
                }
                match self.database_delete_expired(name, expiry).await {
                    Ok(()) => {
                        warned.remove(name);
                    }
                    Err(_) if self.is_stopping() => {}
                    Err(error) => {
                        let why = error.to_string();
                        if failed.is_none_or(|(before, _)| before != why) {
                            self.log.error(
                                object,
                                format!("expired and is not deleted: {why}; it is tried again"),
                            );
                        }
                        if let Some(warned) = warned.get_mut(name) {
                            warned.failed = Some((why, Instant::now()));
                        }
                    }
                }
            }
        }
    }

    /// Somebody may have kept it in this moment.
    async fn database_delete_expired(&self, name: &str, expiry: Expiry) -> Result<()> {
        if self.database_record(name).await?.record.expiry != Some(expiry) {
            return Ok(());
        }
        // Whoever made a schedule of it heard when it ends.
        let deleted = self.database_delete(name, true, &Seen::Unsaid).await?;
        let hours = deleted.recoverable_seconds / 3600;
        let volumes = deleted.volumes.join(" ");
        let back = format!("`ashlar volume undelete` brings {volumes} back for {hours} hours");
        self.log.warning(format!("database {name}"), format!("expired: deleted; {back}"));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Option<Duration> {
        Some(Duration::from_secs(count))
    }

    #[test]
    fn a_clone_is_warned_of_and_then_deleted() {
        let (start, day) = (1_000_000, 86_400);
        let expiry = Expiry { unix_seconds: start + day, term_seconds: day };
        assert_eq!(step(expiry, start, None), Step::Wait);
        assert_eq!(step(expiry, start + day - 3601, None), Step::Wait);
        assert_eq!(step(expiry, start + day - 3600, None), Step::Warn, "an hour before");
        assert_eq!(step(expiry, start + day - 1, seconds(3599)), Step::Wait);
        assert_eq!(step(expiry, start + day, seconds(3600)), Step::Delete);
        let short = Expiry { unix_seconds: start + 100, term_seconds: 100 };
        assert_eq!(step(short, start + 89, None), Step::Wait);
        assert_eq!(step(short, start + 90, None), Step::Warn, "a tenth of its term before");
    }

    /// The harm: a clock that was years ahead at the start deleted every clone that had an end.
    #[test]
    fn whatever_the_clock_says_nothing_goes_without_a_warning_in_time() {
        let expiry = Expiry { unix_seconds: 1_000_000, term_seconds: 86_400 };
        for now in [1_000_000, 2_000_000, u64::MAX] {
            assert_eq!(step(expiry, now, None), Step::Warn);
            assert_eq!(step(expiry, now, seconds(3599)), Step::Wait);
            assert_eq!(step(expiry, now, seconds(3600)), Step::Delete);
        }
        assert_eq!(step(expiry, 0, seconds(9999)), Step::Wait, "set back again");
    }
}
