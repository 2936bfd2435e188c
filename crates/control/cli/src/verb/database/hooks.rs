//! What `ashlar database create --engine none` says of commands, and how they are changed.

use ashlar_api::{DatabaseEngine, DatabaseHooks};

use super::shown::show;
use crate::Context;
use crate::failure::Result;

/// Databases without a server of ours.
#[derive(clap::Args)]
pub struct Hooks {
    /// Which server it has: `postgres`, or `none` for volumes and commands alone.
    #[arg(long, value_name = "ENGINE", default_value = "postgres", value_parser = engine)]
    engine: DatabaseEngine,
    #[command(flatten)]
    commands: Commands,
}

/// What stands for a server.
#[derive(clap::Args)]
struct Commands {
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

/// Give a database of --engine none other commands.
///
/// They take the place of all that it has: a command that is not named is none any more. The server itself is
/// left as it is.
#[derive(clap::Args)]
#[command(
    group = clap::ArgGroup::new("who").args(["account"]).required(true),
    after_help = "Example:\n  ashlar database commands files --account mysql --freeze /opt/freeze \
        --thaw /opt/thaw"
)]
pub struct Change {
    /// Name of the database.
    name: String,
    #[command(flatten)]
    commands: Commands,
}

impl Change {
    pub fn run(self, context: &Context) -> Result<()> {
        let changed = context.client()?.database_commands(&self.name, &self.commands.into_hooks())?;
        Ok(context.output.print(&changed, show)?)
    }
}

fn engine(text: &str) -> std::result::Result<DatabaseEngine, String> {
    match text {
        "postgres" => Ok(DatabaseEngine::Postgres),
        "none" => Ok(DatabaseEngine::None),
        _ => Err("an engine is postgres or none".to_string()),
    }
}

impl Hooks {
    /// As a request has it.
    pub fn into_request(self) -> (DatabaseEngine, Option<DatabaseHooks>) {
        let Commands { account, freeze, thaw, start, stop, check, hook_timeout: _ } = &self.commands;
        let is_any = [account, freeze, thaw, start, stop, check].into_iter().any(Option::is_some);
        (self.engine, is_any.then(|| self.commands.into_hooks()))
    }
}

impl Commands {
    fn into_hooks(self) -> DatabaseHooks {
        let Commands { account, freeze, thaw, start, stop, check, hook_timeout } = self;
        DatabaseHooks {
            account: account.unwrap_or_default(),
            freeze,
            thaw,
            start,
            stop,
            check,
            timeout_seconds: hook_timeout,
        }
    }
}
