//! What `ashlar database create --engine none` says of commands.

use ashlar_api::{DatabaseEngine, DatabaseHooks};

/// Databases without a server of ours.
#[derive(clap::Args)]
pub struct Hooks {
    /// Which server it has: `postgres`, or `none` for volumes and commands alone.
    #[arg(long, value_name = "ENGINE", default_value = "postgres", value_parser = engine)]
    engine: DatabaseEngine,
    /// Who runs the commands, an account of this machine; the directory of the data is that account's.
    #[arg(long, value_name = "ACCOUNT")]
    account: Option<String>,
    /// With --engine none: command for `sh -c` that has your server hold still before a snapshot.
    #[arg(long, value_name = "CMD", requires = "thaw")]
    freeze: Option<String>,
    /// Lets it go on behind the snapshot, also when the freeze failed, took too long or was cut short.
    #[arg(long, value_name = "CMD", requires = "freeze")]
    thaw: Option<String>,
    /// Starts your server once the volumes are mounted, and ends; a clone's, too. It is told ASHLAR_DATABASE
    /// and ASHLAR_DATA.
    #[arg(long, value_name = "CMD", requires = "account")]
    start: Option<String>,
    /// Stops it before they are unmounted.
    #[arg(long, value_name = "CMD", requires = "account")]
    stop: Option<String>,
    /// Ends with 0 when the copy in ASHLAR_DATA is whole: that is what `verify` runs.
    #[arg(long, value_name = "CMD", requires = "account")]
    check: Option<String>,
    /// How long freeze and thaw may take [default: 30s].
    #[arg(long, value_name = "TIME", value_parser = ashlar_schedule::term, requires = "freeze")]
    hook_timeout: Option<u64>,
}

fn engine(text: &str) -> Result<DatabaseEngine, String> {
    match text {
        "postgres" => Ok(DatabaseEngine::Postgres),
        "none" => Ok(DatabaseEngine::None),
        _ => Err("an engine is postgres or none".to_string()),
    }
}

impl Hooks {
    /// As a request has it.
    pub fn into_request(self) -> (DatabaseEngine, Option<DatabaseHooks>) {
        let Hooks { engine, account, freeze, thaw, start, stop, check, hook_timeout } = self;
        let commands = [&freeze, &thaw, &start, &stop, &check];
        let is_any = account.is_some() || commands.into_iter().any(Option::is_some);
        let hooks = is_any.then(|| DatabaseHooks {
            account: account.unwrap_or_default(),
            freeze,
            thaw,
            start,
            stop,
            check,
            timeout_seconds: hook_timeout,
        });
        (engine, hooks)
    }
}
