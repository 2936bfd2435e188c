//! Servers that do not start within their time: they were ended, and it is written down why.

use ashlar_api::START_SECONDS_MAX;
use ashlar_database::Outcome;

use super::super::Service;
use super::Known;
use crate::error::{Error, Result};

/// Of a reason in a record, which is one note with the rest.
const REASON_CHARS_MAX: usize = 300;

/// How long a start may take, where that is possible.
pub(super) fn start_limit(database: &str, seconds: Option<u64>) -> Result<Option<u64>> {
    match seconds {
        Some(seconds) if !(1..=START_SECONDS_MAX).contains(&seconds) => Err(Error::invalid(
            format!("database `{database}`: a start cannot be given {seconds} s"),
            format!("choose from 1 to {START_SECONDS_MAX} s"),
        )),
        seconds => Ok(seconds),
    }
}

impl Service {
    /// Takes back a limit that was asked for, where the start was not.
    pub(super) async fn forget_limit(&self, known: &mut Known, before: Option<u64>) -> Result<()> {
        if known.record.start_timeout_seconds == before {
            return Ok(());
        }
        known.record.start_timeout_seconds = before;
        self.keep_record(known).await
    }

    /// Writes down that a database is stopped because its server did not start in time, or that it runs.
    pub(super) async fn started_or_late(
        &self,
        known: &mut Known,
        started: Result<Outcome>,
    ) -> Result<Outcome> {
        let name = known.record.name.clone();
        match &started {
            Ok(_) if known.record.reason.is_none() => {}
            Ok(_) => {
                known.record.reason = None;
                self.keep_record(known).await?;
            }
            Err(error) if error.is_late => {
                let own = format!("database `{name}`: ");
                let why = error.message.strip_prefix(&own).unwrap_or(&error.message);
                known.record.is_wanted = false;
                known.record.reason = Some(why.chars().take(REASON_CHARS_MAX).collect());
                self.keep_record(known).await?;
                self.log.error(format!("database {name}"), format!("{why}; it stays stopped"));
            }
            Err(_) => {}
        }
        let stopped =
            |error: Error| Error { message: format!("{}; it stays stopped", error.message), ..error };
        started.map_err(|error| if error.is_late { stopped(error) } else { error })
    }
}
