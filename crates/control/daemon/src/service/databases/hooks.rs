//! Databases without a server of ours: what a request says of their commands, and snapshots that they hold
//! still for.

use std::time::{Duration, Instant};

use ashlar_api as api;
use ashlar_database::{EngineKind, Hooks, Record, Work};

use super::super::Service;
use super::check_ready;
use super::records::Busy;
use crate::error::{Error, Result};
use crate::tag::Seen;

/// How long `freeze` and `thaw` may take where nobody says so. Arbitrary.
const SECONDS: u64 = 30;
/// How long a snapshot waits for its turn with a database that holds still for another, and how often it
/// looks. Arbitrary: as long as `freeze` and `thaw` may take where nobody says so.
const TURN_MAX: Duration = Duration::from_secs(30);
const TURN_POLL: Duration = Duration::from_millis(20);
/// Of a command: all of them are in one note with the rest of the record.
const COMMAND_BYTES_MAX: usize = 400;

/// The kind of server and the commands that a request asks for.
pub(super) fn wanted(request: &api::DatabaseCreate) -> Result<(EngineKind, Option<Hooks>)> {
    let wrong = |what: &str, action: &str| {
        Error::invalid(format!("database `{}`: {what}", request.name), action.to_string())
    };
    match (request.engine, &request.hooks) {
        (api::DatabaseEngine::Postgres, None) => Ok((EngineKind::Postgres, None)),
        (api::DatabaseEngine::Postgres, Some(_)) => {
            Err(wrong("commands are for databases without a server", "ask for --engine none, too"))
        }
        (api::DatabaseEngine::None, hooks) => {
            let is_of_server = request.port.is_some()
                || request.major_version.is_some()
                || request.memory_bytes.is_some()
                || request.cores.is_some()
                || request.temp_size_bytes.is_some()
                || !request.tablespaces.is_empty();
            if is_of_server {
                return Err(wrong(
                    "port, version, limits, tablespaces and temporary files are those of a server",
                    "leave them out: Ashlar starts none with --engine none",
                ));
            }
            let hooks = hooks.as_ref().map(|hooks| checked(&request.name, hooks)).transpose()?;
            Ok((EngineKind::None, hooks))
        }
    }
}

fn checked(name: &str, hooks: &api::DatabaseHooks) -> Result<Hooks> {
    let api::DatabaseHooks { account, freeze, thaw, start, stop, check, timeout_seconds } = hooks;
    let wrong = |what: String, action: &str| Error::invalid(format!("database `{name}`: {what}"), action);
    if account.is_empty() {
        let action = "name one with --account; commands run as root only where you say so";
        return Err(wrong("its commands have no account to run as".to_string(), action));
    }
    if freeze.is_some() != thaw.is_some() {
        let action = "give both, or none: a crash-consistent snapshot needs neither";
        return Err(wrong("of `freeze` and `thaw` only one is given".to_string(), action));
    }
    for (kind, command) in
        [("freeze", freeze), ("thaw", thaw), ("start", start), ("stop", stop), ("check", check)]
    {
        let Some(command) = command else { continue };
        if command.trim().is_empty() || command.len() > COMMAND_BYTES_MAX || command.contains('\0') {
            let action = format!("give one of at most {COMMAND_BYTES_MAX} bytes, such as a script's path");
            return Err(wrong(format!("its command `{kind}` is empty or too long"), &action));
        }
    }
    let seconds_max = timeout_seconds.unwrap_or(SECONDS);
    if !(1..=api::HOOK_SECONDS_MAX).contains(&seconds_max) {
        let what = format!("`freeze` and `thaw` cannot be given {seconds_max} s");
        return Err(wrong(what, &format!("choose from 1 to {} s", api::HOOK_SECONDS_MAX)));
    }
    Ok(Hooks {
        account: account.clone(),
        freeze: freeze.clone(),
        thaw: thaw.clone(),
        start: start.clone(),
        stop: stop.clone(),
        check: check.clone(),
        seconds_max,
    })
}

/// Refuses what is for a server of ours.
pub(super) fn check_clone(record: &Record, request: &api::DatabaseClone) -> Result<()> {
    let is_of_server = request.port.is_some()
        || request.memory_bytes.is_some()
        || request.cores.is_some()
        || request.password.is_some()
        || request.has_fresh_password
        || request.after_clone.is_some();
    if record.engine == EngineKind::Postgres || !is_of_server {
        return Ok(());
    }
    Err(Error::invalid(
        format!(
            "database `{}` has no server of Ashlar's: port, limits, password and SQL are those of one",
            record.name
        ),
        "leave them out; its command `start` is told the clone's name and directory",
    ))
}

/// Which commands there are; what they say may be secret.
pub(super) fn view(hooks: &Hooks) -> api::DatabaseCommands {
    let all = [
        ("freeze", &hooks.freeze),
        ("thaw", &hooks.thaw),
        ("start", &hooks.start),
        ("stop", &hooks.stop),
        ("check", &hooks.check),
    ];
    let there = all.into_iter().filter(|(_, command)| command.is_some());
    api::DatabaseCommands {
        account: hooks.account.clone(),
        names: there.map(|(name, _)| name.to_string()).collect(),
        timeout_seconds: hooks.seconds_max,
    }
}

impl Service {
    /// Gives a database without a server these commands instead of those that it has.
    pub(crate) async fn database_commands(
        &self,
        name: &str,
        request: api::DatabaseHooks,
        seen: &Seen,
    ) -> Result<api::Database> {
        let _alone = self.work_alone(name)?;
        let mut known = self.database_record(name).await?;
        self.check_database_seen(&known, seen).await?;
        check_ready(&known.record)?;
        if known.record.engine == EngineKind::Postgres {
            let what =
                format!("database `{name}` has a server of Ashlar's: commands are for those without one");
            return Err(Error::invalid(what, "change its settings instead"));
        }
        let hooks = checked(name, &request)?;
        let before = known.record.hooks.as_ref().map(|hooks| hooks.account.as_str());
        if let Some(account) = before.filter(|account| *account != hooks.account) {
            let what = format!("the files of database `{name}` are those of account `{account}`");
            return Err(Error::invalid(what, "name that one: who runs the commands stays"));
        }
        known.record.hooks = Some(hooks);
        // Whether the account exists.
        self.work(&self.site(&known.record), Work::Find).await?;
        self.keep_record(&known).await?;
        self.log.info(format!("database {name}"), "has other commands");
        Ok(self.view(&known))
    }

    /// The turns of those of these databases that hold still for a snapshot, once all can be had at once: who
    /// waits holds up nobody.
    async fn turns_to_freeze(&self, databases: &[String]) -> Result<Vec<(Busy<'_>, Record)>> {
        let end = Instant::now() + TURN_MAX;
        loop {
            match self.try_turns_to_freeze(databases).await {
                Err(error) if error.kind == api::ErrorKind::Busy && Instant::now() < end => {}
                had => return had,
            }
            tokio::time::sleep(TURN_POLL).await;
        }
    }

    async fn try_turns_to_freeze(&self, databases: &[String]) -> Result<Vec<(Busy<'_>, Record)>> {
        let mut had = Vec::new();
        for name in databases {
            // One that is gone holds nothing still.
            let Ok(known) = self.database_record(name).await else { continue };
            let freezes = known.record.hooks.as_ref().is_some_and(|hooks| hooks.freeze.is_some());
            if freezes && self.site(&known.record).is_running() {
                had.push((self.work_alone(name)?, known.record));
            }
        }
        Ok(had)
    }

    /// Takes a snapshot while databases that want to hold still do. Whatever becomes of it, they go on: where
    /// that fails, or the array is killed, it is tried again by whoever looks after databases.
    pub(in super::super) async fn snapshot_held(
        &self,
        databases: &[String],
        request: api::SnapshotCreate,
        is_told: bool,
    ) -> Result<api::Snapshot> {
        let held = self.turns_to_freeze(databases).await?;
        let mut frozen = Ok(());
        for (_, record) in &held {
            frozen = self.work(&self.site(record), Work::Freeze).await.map(drop);
            if frozen.is_err() {
                break;
            }
        }
        let taken = match (frozen, is_told) {
            (Err(error), _) => Err(error),
            (Ok(()), true) => self.snapshot_make(request).await,
            (Ok(()), false) => self.snapshot_take(request).await,
        };
        for (_, record) in &held {
            if let Err(error) = self.work(&self.site(record), Work::Thaw).await {
                let what =
                    format!("holds still behind a snapshot, and is let go on again and again: {error}");
                self.log.error(format!("database {}", record.name), what);
            }
        }
        taken
    }
}
