//! The one binary `ashlar`: `serve` is the array, every other verb talks to one that serves.
//!
//! Exit status: 0 done, 1 refused or failed (one line on stderr: what, which object, why, what to do), 2
//! wrong usage, or something would be destroyed without `--yes` and without a terminal to ask at, or the
//! lab could not begin, 3 done in part, 4 done and a finding to see to (`inspect`: the report says what is
//! missing, or which drives lack something; `lab`: which check failed).

// They panic where nothing can be written: `output` and `stderr` do not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod ask;
mod failure;
mod output;
mod parse;
mod password;
mod progress;
mod reference;
mod stderr;
mod usage;
mod verb;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use ashlar_client::{Address, Client, Remote};
use clap::{Parser, Subcommand};

use crate::failure::{Failure, Result};
use crate::output::Output;

/// Requests make many small allocations of one thread; glibc's allocator took an eighth of an uncached
/// read's time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// An all-flash array in software for databases: thin volumes, instant snapshots and writable
/// clones over ordinary drives.
#[derive(Parser)]
#[command(
    name = "ashlar",
    version,
    term_width = 100,
    propagate_version = true,
    after_help = "Example:\n  \
        ashlar serve --state /srv/ashlar &\n  \
        ashlar pool create main --drive /srv/drive.img,size=10GiB --state /srv/ashlar\n  \
        ashlar volume create db --size 64GiB --state /srv/ashlar\n  \
        ashlar attach db --format ext4 --mount /mnt/db --state /srv/ashlar"
)]
struct Arguments {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

/// What may stand before or after any command.
#[derive(clap::Args)]
struct Global {
    /// State directory of the array [default: /var/lib/ashlar as root, $XDG_STATE_HOME/ashlar otherwise].
    #[arg(long, global = true, value_name = "DIR", env = "ASHLAR_STATE", hide_env_values = true)]
    state: Option<PathBuf>,
    /// Ask the array at this TCP address (its setting `api`) instead of at the socket in its state directory.
    #[arg(long, global = true, value_name = "ADDR", env = "ASHLAR_ADDRESS", hide_env_values = true)]
    address: Option<SocketAddr>,
    /// Ask the array of another machine, over TLS: https://HOST:PORT (its setting `api`).
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "ASHLAR_SERVER",
        hide_env_values = true,
        conflicts_with = "address"
    )]
    server: Option<Remote>,
    /// File with the certificate that vouches for --server, or with its own
    /// [default: whom this machine trusts].
    #[arg(long, global = true, value_name = "FILE", env = "ASHLAR_CA", hide_env_values = true)]
    ca: Option<PathBuf>,
    /// File with the token to show over TCP [default: what ASHLAR_TOKEN has; with --address api.token in the
    /// state directory].
    #[arg(long, global = true, value_name = "FILE", env = "ASHLAR_TOKEN_FILE", hide_env_values = true)]
    token_file: Option<PathBuf>,
    /// Print JSON with exact numbers.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Verb {
    Serve(verb::serve::Serve),
    #[command(hide = true)]
    Keep(verb::keep::Keep),
    #[command(hide = true)]
    DatabaseWork(verb::database_work::DatabaseWork),
    #[command(hide = true)]
    Device(verb::device::Device),
    Stop(verb::stop::Stop),
    Reload(verb::reload::Reload),
    Upgrade(verb::upgrade::Upgrade),
    Pool(verb::pool::Pool),
    Volume(verb::volume::Volume),
    Snapshot(verb::snapshot::Snapshot),
    Clone(verb::clone::Clone),
    Database(verb::database::Database),
    Schedule(verb::schedule::Schedule),
    Objective(verb::objective::Objective),
    Mark(verb::mark::Mark),
    Attach(verb::attach::Attach),
    Detach(verb::detach::Detach),
    Host(verb::host::Host),
    Export(verb::export::Export),
    Space(verb::space::Space),
    Client(verb::client::Client),
    Job(verb::job::Job),
    Console(verb::console::Console),
    User(verb::user::User),
    Token(verb::token::Token),
    Audit(verb::audit::Audit),
    Status(verb::status::Status),
    Top(verb::top::Top),
    History(verb::history::History),
    Events(verb::events::Events),
    Doctor(verb::doctor::Doctor),
    SupportBundle(verb::support_bundle::SupportBundle),
    Demo(verb::demo::Demo),
    Lab(verb::lab::Lab),
    Sim(verb::sim::Sim),
    Inspect(verb::inspect::Inspect),
    Completions(verb::completions::Completions),
    Man(verb::man::Man),
    #[command(hide = true)]
    Reference(reference::Reference),
}

/// Where a token may be that is in no file.
const TOKEN: &str = "ASHLAR_TOKEN";

/// What every verb gets besides its own arguments.
struct Context {
    state: PathBuf,
    /// The array's TCP address, where the socket is not meant.
    address: Option<SocketAddr>,
    /// That of another machine.
    server: Option<Remote>,
    token_file: Option<PathBuf>,
    output: Output,
}

impl Context {
    fn client(&self) -> Result<Client> {
        let address = match (&self.server, self.address) {
            (Some(remote), _) => Address::Remote(remote.clone()),
            (None, Some(address)) => Address::Tcp(address),
            (None, None) => {
                return Ok(Client::new(Address::Socket(self.state.join(ashlar_daemon::API_SOCKET)))?);
            }
        };
        Ok(Client::new(address)?.with_token(self.token()?))
    }

    /// Refuses what looks at the machine that it runs on, where another one is meant.
    fn only_here(&self, verb: &str) -> Result<()> {
        match &self.server {
            None => Ok(()),
            Some(remote) => Err(Failure::new(format!(
                "`ashlar {verb}` looks at this machine and not at {}: run it there, without --server",
                remote.host
            ))),
        }
    }

    /// What is shown over TCP. The token of this machine's array is for no other one.
    fn token(&self) -> Result<String> {
        let of_environment = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
        let path = match (&self.token_file, of_environment, &self.server) {
            (Some(path), ..) => path.clone(),
            (None, Some(token), _) => return Ok(token.trim().to_string()),
            (None, None, None) => self.state.join(ashlar_daemon::API_TOKEN),
            (None, None, Some(_)) => {
                let what =
                    format!("no token is given: name its file with --token-file, or put it into {TOKEN}");
                return Err(Failure::new(what));
            }
        };
        let token = std::fs::read_to_string(&path).map_err(|error| {
            Failure::new(format!(
                "read token {}: {error}: name the file of the array's token with --token-file",
                path.display()
            ))
        })?;
        Ok(token.trim().to_string())
    }
}

fn main() -> ExitCode {
    end_on_panic();
    match usage::parse().map_err(told).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure @ (Failure::OutputClosed | Failure::Told(_))) => failure.status(),
        Err(failure) => {
            stderr::line(format_args!("ashlar: {failure}"));
            failure.status()
        }
    }
}

/// What a thread that panicked held up would wait for ever: the whole process ends, in any build.
fn end_on_panic() {
    if cfg!(panic = "unwind") {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            tell(panic);
            std::process::abort();
        }));
    }
}

/// Prints help, the version, or what is wrong with the usage.
fn told(error: clap::Error) -> Failure {
    match error.print() {
        Err(unwritten) if !error.use_stderr() => unwritten.into(),
        _ => Failure::Told(u8::try_from(error.exit_code()).unwrap_or(2)),
    }
}

fn run(arguments: Arguments) -> Result<()> {
    let state = match arguments.global.state {
        Some(path) => path,
        None => ashlar_daemon::state_directory_default()?,
    };
    let context = Context {
        state: parse::absolute(&state)?,
        address: arguments.global.address,
        server: arguments.global.server.map(|remote| Remote { authority: arguments.global.ca, ..remote }),
        token_file: arguments.global.token_file,
        output: Output::new(arguments.global.json),
    };
    match arguments.verb {
        Verb::Serve(verb) => verb.run(&context),
        Verb::Keep(verb) => verb.run(&context),
        Verb::Database(verb) => verb.run(&context),
        Verb::Schedule(verb) => verb.run(&context),
        Verb::Objective(verb) => verb.run(&context),
        Verb::Mark(verb) => verb.run(&context),
        Verb::DatabaseWork(verb) => verb.run(&context),
        Verb::Device(verb) => verb.run(&context),
        Verb::Stop(verb) => verb.run(&context),
        Verb::Reload(verb) => verb.run(&context),
        Verb::Upgrade(verb) => verb.run(&context),
        Verb::Pool(verb) => verb.run(&context),
        Verb::Volume(verb) => verb.run(&context),
        Verb::Snapshot(verb) => verb.run(&context),
        Verb::Clone(verb) => verb.run(&context),
        Verb::Attach(verb) => verb.run(&context),
        Verb::Detach(verb) => verb.run(&context),
        Verb::Host(verb) => verb.run(&context),
        Verb::Export(verb) => verb.run(&context),
        Verb::Space(verb) => verb.run(&context),
        Verb::Client(verb) => verb.run(&context),
        Verb::Job(verb) => verb.run(&context),
        Verb::Console(verb) => verb.run(&context),
        Verb::User(verb) => verb.run(&context),
        Verb::Token(verb) => verb.run(&context),
        Verb::Audit(verb) => verb.run(&context),
        Verb::Status(verb) => verb.run(&context),
        Verb::Top(verb) => verb.run(&context),
        Verb::History(verb) => verb.run(&context),
        Verb::Events(verb) => verb.run(&context),
        Verb::Doctor(verb) => verb.run(&context),
        Verb::SupportBundle(verb) => verb.run(&context),
        Verb::Demo(verb) => verb.run(&context),
        Verb::Lab(verb) => verb.run(&context),
        Verb::Sim(verb) => verb.run(&context),
        Verb::Inspect(verb) => verb.run(&context),
        Verb::Completions(verb) => verb.run(&context),
        Verb::Man(verb) => verb.run(&context),
        Verb::Reference(verb) => verb.run(&context),
    }
}
