//! Snapshots that clones need: what a clone is reset to stays while it is there.

use std::collections::BTreeMap;

use ashlar_api as api;
use ashlar_database::{Record, Stage};

use super::super::Service;
use crate::error::{Error, Result};

impl Service {
    /// The snapshots that databases are reset to, each with one of these.
    pub(in super::super) async fn needed_snapshots(&self) -> Result<BTreeMap<String, String>> {
        let all = self.database_records().await?.into_iter().map(|known| known.record);
        let needed = |record: Record| Some((needed_by(&record)?.to_string(), record.name));
        Ok(all.filter_map(needed).collect())
    }

    /// Refuses snapshots that a database is reset to, unless a person overrules that.
    pub(in super::super) async fn check_not_needed(&self, names: &[String], is_forced: bool) -> Result<()> {
        let needed = self.needed_snapshots().await?;
        for snapshot in names {
            let Some(database) = needed.get(snapshot) else { continue };
            if !is_forced {
                return Err(Error::new(
                    api::ErrorKind::Busy,
                    format!("database `{database}` is reset to snapshot `{snapshot}`: none was deleted"),
                    format!(
                        "`ashlar database reset {database} --latest` gives it another one; --force deletes \
                         this one all the same"
                    ),
                ));
            }
            let what = format!("overruled: database {database} is reset to it");
            self.log.warning(format!("snapshot {snapshot}"), what);
        }
        Ok(())
    }

    /// Leaves a snapshot that was taken for one clone to another that is reset to it, with which it goes
    /// then; false where none is.
    pub(super) async fn hand_on_snapshot(&self, snapshot: &str) -> bool {
        let needs = |record: &Record| needed_by(record) == Some(snapshot);
        for other in self.database_records().await.unwrap_or_default() {
            let name = &other.record.name;
            if !needs(&other.record) {
                continue;
            }
            // Where somebody works on that one the snapshot stays as well, and behind it, too.
            let Ok(_alone) = self.work_alone(name) else { continue };
            let Ok(mut known) = self.database_record(name).await else { continue };
            if !needs(&known.record) {
                continue;
            }
            if let Some(origin) = &mut known.record.origin {
                origin.is_own = true;
            }
            if self.keep_record(&known).await.is_ok() {
                let what = format!("stays: database {name} is reset to it");
                self.log.info(format!("snapshot {snapshot}"), what);
                return true;
            }
        }
        false
    }
}

/// The snapshot that a database is reset to. One that goes has no need of it, nor has one that is being made
/// of a snapshot of its own, which goes with it if that fails.
fn needed_by(record: &Record) -> Option<&str> {
    let origin = record.origin.as_ref()?;
    let is_needed = match record.stage {
        Stage::Deleting => false,
        Stage::Making => !origin.is_own,
        Stage::Ready | Stage::Resetting => true,
    };
    is_needed.then_some(origin.snapshot.as_str())
}

/// What to do where a clone cannot be reset because its snapshot is gone.
pub(super) fn origin_gone(clone: &str, error: Error) -> Error {
    if error.kind != api::ErrorKind::NotFound {
        return error;
    }
    let action = format!(
        "`ashlar database reset {clone} --latest` takes a new one of its source, --to names another snapshot \
         or a time"
    );
    Error { action, ..error }
}

#[cfg(test)]
mod tests {
    use ashlar_database::Origin;

    use super::*;

    /// A schedule deleted what a clone was made of, and the clone could not be reset any more.
    #[test]
    fn what_a_clone_is_reset_to_is_needed_until_it_goes() {
        let mut record = Record::beginning("dev", 7000, Vec::new(), 1_000);
        record.stage = Stage::Ready;
        assert_eq!(needed_by(&record), None, "no clone");
        let (database, snapshot) = ("prod".to_string(), "undo.1".to_string());
        record.origin = Some(Origin { database, snapshot, is_own: false, volumes: Vec::new() });
        for (stage, is_own, is_needed) in [
            (Stage::Ready, false, true),
            (Stage::Ready, true, true),
            (Stage::Resetting, true, true),
            (Stage::Making, false, true),
            (Stage::Making, true, false),
            (Stage::Deleting, false, false),
            (Stage::Deleting, true, false),
        ] {
            record.stage = stage;
            if let Some(origin) = &mut record.origin {
                origin.is_own = is_own;
            }
            assert_eq!(needed_by(&record).is_some(), is_needed, "{stage:?} {is_own}");
        }
    }

    #[test]
    fn who_cannot_reset_hears_of_other_ways() {
        let gone = origin_gone("dev", Error::not_found("snapshot", "undo.1"));
        assert!(gone.message.contains("`undo.1` does not exist"), "{gone}");
        assert!(gone.action.contains("reset dev --latest"), "{gone}");
        let other = Error::invalid("what", "do");
        assert_eq!(origin_gone("dev", other.clone()), other);
    }
}
