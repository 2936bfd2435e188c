//! Databases: records in the pool, volumes, mounts, and servers that processes of their own start and stop.
//!
//! Each operation writes down first what it is about to do, in the record's stage. An array that is killed
//! meanwhile finds that at its next start: what was being made is removed, what was being reset or deleted is
//! gone on with.

mod away;
mod care;
mod change;
mod content;
mod difference;
mod expire;
mod grow;
mod hooks;
mod imports;
mod late;
mod life;
mod make;
mod moment;
mod needed;
mod prove;
mod records;
mod standbys;
mod tend;
mod waits;

use std::path::PathBuf;
use std::time::Instant;

use ashlar_api as api;
use ashlar_database::{Outcome, Record, Site, Stage, Task, Work, carry_out};

use super::Service;
use crate::error::{Error, MEND, Result};
use crate::state::DATABASES;
use crate::subprocess;
use crate::tag::Seen;
use records::Known;

/// The hidden verb that runs [`run_database_process`].
const VERB: &str = "database-work";

/// The life of a process that works on a database.
pub fn run_database_process(state: &std::path::Path) -> std::io::Result<()> {
    subprocess::answer(subprocess::DATABASE_PROCESS, state, |task: Task| carry_out(&task))
}

impl Service {
    /// All databases, by name.
    pub(crate) async fn databases(&self) -> Result<Vec<api::Database>> {
        let mut all = Vec::new();
        for known in self.database_records().await? {
            all.push(self.view_of_now(&known).await?);
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// One database.
    pub(crate) async fn database(&self, name: &str) -> Result<api::Database> {
        self.view_of_now(&self.database_record(name).await?).await
    }

    /// The names of its volumes.
    pub(crate) async fn database_volumes(&self, name: &str) -> Result<Vec<String>> {
        Ok(self.database_record(name).await?.record.volumes())
    }

    /// Refuses a database that is not as somebody saw it.
    async fn check_database_seen(&self, known: &Known, seen: &Seen) -> Result<()> {
        if seen.is_said() {
            seen.check(&self.view_of_now(known).await?)?;
        }
        Ok(())
    }

    /// Where it is found.
    pub(crate) async fn database_url(&self, name: &str) -> Result<api::DatabaseUrl> {
        let known = self.database_record(name).await?;
        Ok(api::DatabaseUrl { url: self.site(&known.record).url() })
    }

    /// Takes a snapshot of databases at one instant.
    pub(crate) async fn database_snapshot(&self, request: api::DatabaseSnapshot) -> Result<api::Snapshot> {
        let volumes = self.volumes_of_databases(&request.databases).await?;
        self.check_not_of_schedule(&request.name).await?;
        if volumes.is_empty() {
            return Err(Error::invalid("no database is named", "name one or more databases of one pool"));
        }
        if request.checkpoint {
            // A name that is taken is told before servers write for it.
            self.known().index.check_snapshot_free(&request.name)?;
            self.checkpoint(&request.databases).await?;
        }
        let taken = api::SnapshotCreate { name: request.name, volumes };
        self.snapshot_held(&request.databases, taken, true).await
    }

    /// Has the servers of databases that run make a checkpoint.
    async fn checkpoint(&self, databases: &[String]) -> Result<()> {
        for database in databases {
            let site = self.site(&self.database_record(database).await?.record);
            if site.is_running() {
                self.work(&site, Work::Checkpoint).await?;
            }
        }
        Ok(())
    }

    /// What a snapshot of databases holds; refused while one is being made, reset or deleted.
    pub(super) async fn volumes_of_databases(&self, databases: &[String]) -> Result<Vec<String>> {
        let mut volumes = Vec::new();
        for database in databases {
            let known = self.database_record(database).await?;
            check_ready(&known.record)?;
            volumes.extend(known.record.kept_parts().into_iter().map(|part| part.volume));
        }
        Ok(volumes)
    }

    async fn view_of_now(&self, known: &Known) -> Result<api::Database> {
        let proofs = self.database_proofs(known).await?.into_iter().map(prove::view).collect();
        let is_busy = self.known().busy_databases.contains(&known.record.name);
        let standby = self.standby_of(known).await;
        let view = self.view(known);
        let view = api::Database { proofs, standby: standby.or(view.standby.clone()), ..view };
        Ok(match view.state {
            api::DatabaseState::Running | api::DatabaseState::Failed | api::DatabaseState::Stopped
                if is_busy =>
            {
                api::Database { state: api::DatabaseState::Busy, ..view }
            }
            _ => view,
        })
    }

    /// As whoever works on it leaves it.
    fn view(&self, known: &Known) -> api::Database {
        let Known { pool, record, .. } = known;
        let site = self.site(record);
        let state = match record.stage {
            Stage::Resetting if is_given_up(record) => api::DatabaseState::Stopped,
            Stage::Making => api::DatabaseState::Making,
            Stage::Resetting => api::DatabaseState::Resetting,
            Stage::Deleting => api::DatabaseState::Deleting,
            Stage::Ready if record.away.is_some() => api::DatabaseState::Away,
            Stage::Ready if site.is_running() => api::DatabaseState::Running,
            Stage::Ready if record.is_wanted => api::DatabaseState::Failed,
            Stage::Ready => api::DatabaseState::Stopped,
        };
        let volume = |part: &ashlar_database::Part| api::DatabaseVolume {
            role: part.role.name(),
            volume: part.volume.clone(),
            mount: site.mount(&part.role).display().to_string(),
        };
        let origin = record.origin.as_ref().map(|origin| api::DatabaseOrigin {
            database: origin.database.clone(),
            snapshot: origin.snapshot.clone(),
        });
        api::Database {
            name: record.name.clone(),
            pool: pool.clone(),
            engine: record.engine.name().to_string(),
            major_version: record.major,
            state,
            port: record.port,
            volumes: record.parts.iter().map(volume).collect(),
            memory_bytes: record.limits.and_then(|limits| limits.memory_bytes),
            cores: record.limits.and_then(|limits| limits.cores),
            origin,
            created_unix_seconds: record.created_unix_seconds,
            away: record.away.as_ref().map(|away| api::DatabaseAway {
                host: away.host.clone(),
                since_unix_seconds: away.unix_seconds,
            }),
            standby: record.follows.as_ref().map(|follows| api::DatabaseStandby {
                primary: follows.primary.clone(),
                slot: follows.slot.clone(),
                is_streaming: None,
                lag_bytes: None,
                lag_millis: None,
            }),
            progress: (record.stage != Stage::Ready).then(|| site.progress()).flatten().map(progress),
            expires_unix_seconds: record.expiry.map(|end| end.unix_seconds),
            proofs: Vec::new(),
            start_timeout_seconds: record.start_timeout_seconds,
            reason: self.reason(record, state),
            auto_grow: record.auto_grow.as_ref().map(grow::view),
            commands: record.hooks.as_ref().map(hooks::view),
        }
    }

    /// Why its server does not run, although it should or somebody wanted it to.
    fn reason(&self, record: &Record, state: api::DatabaseState) -> Option<String> {
        let trouble = || self.known().database_troubles.get(&record.name).cloned();
        match state {
            api::DatabaseState::Stopped => record.reason.clone(),
            api::DatabaseState::Failed | api::DatabaseState::Resetting => trouble(),
            _ => None,
        }
    }

    fn site(&self, record: &Record) -> Site {
        Site::of(record, self.site_directory(&record.name))
    }

    fn site_directory(&self, name: &str) -> PathBuf {
        self.state().path(DATABASES).join(name)
    }

    /// Has a process do something to a database.
    async fn work(&self, site: &Site, work: Work) -> Result<Outcome> {
        let object = format!("database `{}`", site.name);
        let task = Task { site: site.clone(), work };
        let state = self.state().directory().to_path_buf();
        let asked = tokio::task::spawn_blocking(move || {
            subprocess::ask::<_, ashlar_database::Result<Outcome>>(VERB, &state, &task)
        });
        let failed = |why: String| Error::new(api::ErrorKind::Medium, why, "see `ashlar doctor`");
        match asked.await {
            Ok(Ok(Ok(done))) => done.map_err(|error| from_database(&object, &error)),
            Ok(Ok(Err(status))) => {
                Err(failed(format!("{object}: the process that worked on it ended with {status}")))
            }
            Ok(Err(error)) => Err(failed(format!("{object}: start a process to work on it: {error}"))),
            Err(_) => Err(Error::stopping()),
        }
    }

    async fn ready(&self, known: &Known, since: Instant, started: &Outcome) -> api::DatabaseReady {
        api::DatabaseReady {
            database: self.view(known),
            url: self.site(&known.record).url(),
            took_millis: since.elapsed().as_millis() as u64,
            start_millis: started.start_millis,
            restored: None,
            backup: None,
            notes: started.notes.clone(),
            handover: None,
        }
    }
}

fn progress(found: ashlar_database::Progress) -> api::DatabaseProgress {
    let ashlar_database::Progress { stage, done_bytes, total_bytes } = found;
    api::DatabaseProgress { stage, done_bytes, total_bytes }
}

/// Its server did not start within its time after a reset: nobody goes on with that by himself.
fn is_given_up(record: &Record) -> bool {
    record.stage == Stage::Resetting && !record.is_wanted
}

/// Refuses a database that is being worked on, or that another machine has.
fn check_ready(record: &Record) -> Result<()> {
    check_at_rest(record)?;
    match &record.away {
        None => Ok(()),
        Some(away) => Err(away::is_away(record, away)),
    }
}

/// Refuses one that is being worked on.
fn check_at_rest(record: &Record) -> Result<()> {
    if is_given_up(record) {
        let (name, why) = (&record.name, record.reason.as_deref().unwrap_or("it was not started"));
        return Err(Error::new(
            api::ErrorKind::Busy,
            format!("database `{name}` is stopped in the middle of its reset: {why}"),
            format!("go on with `ashlar database start {name} --start-timeout 10m`, or reset it again"),
        )
        .about(api::ObjectKind::Database, name.as_str()));
    }
    let doing = match record.stage {
        Stage::Ready => return Ok(()),
        Stage::Making => "made",
        Stage::Resetting => "reset",
        Stage::Deleting => "deleted",
    };
    Err(Error::new(
        api::ErrorKind::Busy,
        format!("database `{}` is being {doing}", record.name),
        "wait for that, or start the array again where it was cut short",
    )
    .about(api::ObjectKind::Database, record.name.as_str())
    .because(api::Reason::WorkedOn))
}

fn from_database(object: &str, error: &ashlar_database::Error) -> Error {
    let kind = if error.is_of_request { api::ErrorKind::Invalid } else { api::ErrorKind::Medium };
    let action = if error.action.is_empty() { MEND } else { &error.action };
    Error { is_late: error.is_late, ..Error::new(kind, format!("{object}: {error}"), action) }
}
