//! What the sessions of a database wait for: is it the storage?

use ashlar_api as api;
use ashlar_database::Work;

use super::super::Service;
use super::check_ready;
use crate::error::{Error, Result};

/// How long it is looked where nobody says how long. Arbitrary.
const SECONDS: u64 = 3;

impl Service {
    /// Looks for some seconds.
    pub(crate) async fn database_waits(
        &self,
        name: &str,
        seconds: Option<u64>,
    ) -> Result<api::DatabaseWaits> {
        let seconds = seconds.unwrap_or(SECONDS);
        if !(1..=api::LOOK_SECONDS_MAX).contains(&seconds) {
            let what = format!("database `{name}` cannot be looked at for {seconds} s");
            return Err(Error::invalid(what, format!("choose from 1 to {} s", api::LOOK_SECONDS_MAX)));
        }
        let known = self.database_record(name).await?;
        check_ready(&known.record)?;
        let site = self.site(&known.record);
        if !site.is_running() {
            let what = format!("database `{name}` does not run");
            return Err(Error::new(
                api::ErrorKind::Busy,
                what,
                format!("start it: `ashlar database start {name}`"),
            ));
        }
        let found = self.work(&site, Work::LookAtWaits(1000 * seconds)).await?;
        let waits = found.waits.unwrap_or_default();
        Ok(view(name, waits.look_count, &waits.sessions))
    }
}

fn view(
    name: &str,
    look_count: u64,
    sessions: &std::collections::BTreeMap<String, u64>,
) -> api::DatabaseWaits {
    let mean = |count: u64| count as f64 / look_count.max(1) as f64;
    let mut waits: Vec<api::DatabaseWait> = sessions
        .iter()
        .map(|(event, count)| api::DatabaseWait {
            event: event.clone(),
            cause: api::WaitCause::of(event),
            session_count: mean(*count),
        })
        .collect();
    waits.sort_by(|one, other| other.session_count.total_cmp(&one.session_count));
    api::DatabaseWaits {
        name: name.to_string(),
        look_count,
        session_count: mean(sessions.values().sum()),
        waits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_told_as_means_with_their_cause() {
        let found = [("IO:WALSync", 10), ("LWLock:WALWrite", 60), ("Lock:tuple", 20), ("CPU:Running", 30)];
        let sessions = found.into_iter().map(|(event, count)| (event.to_string(), count)).collect();
        let told = view("prod", 20, &sessions);
        assert!((told.session_count - 6.0).abs() < 1e-9, "{told:?}");
        let causes: Vec<api::WaitCause> = told.waits.iter().map(|one| one.cause).collect();
        use api::WaitCause::{Locks, Processor, Storage};
        assert_eq!(causes, [Storage, Processor, Locks, Storage]);
        assert!((told.waits[0].session_count - 3.0).abs() < 1e-9, "{told:?}");
        assert!(view("idle", 20, &Default::default()).waits.is_empty());
    }
}
