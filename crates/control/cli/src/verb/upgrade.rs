//! `ashlar upgrade`: the array goes on as another program.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use ashlar_api::{Program, UpgradeRequest};
use serde::Serialize;

use crate::Context;
use crate::failure::{Failure, Result};

/// A stop and a start at most.
const END_MAX: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(5);

/// Have the array go on as another program, in the same process; prints how long attached volumes waited.
///
/// The program is asked what it is first: it must write the same format to drives. Databases on attached
/// volumes see a pause. NBD clients are cut off and come back where they can. `ashlar upgrade OLD` goes
/// back.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar upgrade /usr/local/bin/ashlar-1.1")]
pub struct Upgrade {
    /// The program.
    #[arg(required_unless_present = "check")]
    program: Option<PathBuf>,
    /// Only print what this program itself is.
    #[arg(long, conflicts_with = "program")]
    check: bool,
}

/// What an upgrade did.
#[derive(Serialize)]
struct Upgraded {
    from_version: String,
    to_version: String,
    /// How long attached volumes waited; none when nothing was attached.
    pause_millis: Option<u64>,
}

impl Upgrade {
    pub fn run(self, context: &Context) -> Result<()> {
        let Some(program) = self.program else {
            return Ok(context.output.print(&ashlar_daemon::own_program(), program_line)?);
        };
        let path = std::fs::canonicalize(&program)
            .map_err(|error| Failure::new(format!("{}: {error}: name a program", program.display())))?;
        let client = context.client()?;
        let before = client.status()?;
        let request = UpgradeRequest { program: path.display().to_string() };
        let chosen = client.upgrade(&request)?;
        let end = Instant::now() + END_MAX;
        loop {
            match client.status() {
                Ok(now) if now.started_unix_millis != before.started_unix_millis => {
                    let done = Upgraded {
                        from_version: before.version,
                        to_version: now.version,
                        pause_millis: now.handover_pause_millis,
                    };
                    return Ok(context.output.print(&done, upgraded_line)?);
                }
                _ if Instant::now() >= end => {
                    let version = chosen.version;
                    return Err(Failure::new(format!(
                        "version {version} does not answer yet: the array's log says what it does; what is attached \
                         waits for an array"
                    )));
                }
                _ => std::thread::sleep(POLL),
            }
        }
    }
}

fn program_line(program: &Program) -> String {
    let Program { version, media_version, handover_version } = program;
    format!("version {version}, format {media_version} on drives, handover {handover_version}")
}

fn upgraded_line(done: &Upgraded) -> String {
    let pause = match done.pause_millis {
        Some(millis) => format!("attached volumes waited {millis} ms"),
        None => "nothing was attached".to_string(),
    };
    format!("version {} goes on as version {}: {pause}", done.from_version, done.to_version)
}
