//! Bringing a database in: from a directory of a stopped server, by a base backup of a running one, or by a
//! dump.
//!
//! ```text
//! look (nothing is made yet)  ──►  bring: copy ─► settings ─► access rules ─► links   ──►  care, start
//! ```
//!
//! Whatever the source is, it is only read.

mod backup;
mod directory;
mod dump;
mod server;
mod settings;
mod spaces;

use std::path::PathBuf;

use ashlar_postgres::Installation;
use serde::{Deserialize, Serialize};

pub(crate) use dump::run_with_input;
pub(crate) use server::{drop_slot, read_pass_file, write_pass_file};
pub use spaces::Space;

use crate::error::{Error, Result};
use crate::postgres::{Postgres, failed, programs};
use crate::progress::Teller;
use crate::site::Site;
use crate::task::Outcome;
use crate::tls;
use crate::url::Primary;

/// What is brought in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The data directory of a stopped server of this machine.
    Directory {
        /// The directory.
        path: PathBuf,
        /// Where its settings are, when they are not in it.
        configuration: Option<PathBuf>,
    },
    /// All databases of a running server, by a base backup.
    Server(Primary),
    /// The same; the copy follows it.
    Followed {
        /// The server.
        primary: Primary,
        /// The name of the slot that it keeps for the copy.
        slot: String,
    },
    /// One database of a running server, by a dump.
    Dump(Primary),
}

/// What a look at a source found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Survey {
    /// The major version that the copy is of.
    pub major: u32,
    /// Bytes of its data, by estimate.
    pub data_bytes: u64,
    /// Bytes of its log, by estimate.
    pub log_bytes: u64,
    /// Its first superuser, where the source tells.
    pub superuser: Option<String>,
    /// Settings of a source whose files of settings are elsewhere.
    #[serde(default)]
    pub settings: Vec<(String, String)>,
    /// Tablespaces of its own. Their files are not in `data_bytes` where they are known.
    #[serde(default)]
    pub spaces: Vec<Space>,
}

/// Looks at a source, and refuses what cannot be brought in. Nothing is changed.
///
/// # Errors
/// When the source is not there, is in use, refuses, or needs what this machine has not.
pub(crate) fn survey(site: &Site, source: &Source) -> Result<Outcome> {
    let mut teller = Teller::new(site);
    teller.stage("looks at the source", 0)?;
    let found = match source {
        Source::Directory { path, configuration } => directory::survey(site, path, configuration.as_deref())?,
        Source::Server(primary) => server::survey(site, &tls::take_in(site, primary)?, None)?,
        Source::Followed { primary, slot } => {
            server::survey(site, &tls::take_in(site, primary)?, Some(slot))?
        }
        Source::Dump(primary) => dump::survey(site, &tls::take_in(site, primary)?)?,
    };
    Ok(Outcome { major: found.major, survey: Some(found), ..Outcome::default() })
}

/// Brings it in, onto mounted volumes.
///
/// # Errors
/// When something of it cannot be read, or cannot be here.
pub(crate) fn bring(postgres: &mut Postgres, source: &Source, survey: &Survey) -> Result<Outcome> {
    let mut teller = Teller::new(postgres.site());
    let outcome = match source {
        Source::Directory { path, configuration } => {
            directory::bring(postgres, path, configuration.as_deref(), survey, &mut teller)
        }
        Source::Server(primary) => {
            let primary = tls::reached(postgres.site(), primary);
            backup::bring(postgres, &primary, None, survey, &mut teller)
        }
        Source::Followed { primary, slot } => {
            let primary = tls::reached(postgres.site(), primary);
            tls::keep(postgres)?;
            backup::bring(postgres, &primary, Some(slot), survey, &mut teller)
        }
        Source::Dump(primary) => {
            let primary = tls::reached(postgres.site(), primary);
            dump::bring(postgres, &primary, survey, &mut teller)
        }
    }?;
    if !matches!(source, Source::Followed { .. }) {
        tls::forget(postgres.site())?;
    }
    Ok(outcome)
}

/// The programs that a source of this version needs.
fn programs_of(site: &Site, major: u32, what: &str) -> Result<Installation> {
    programs(site, Some(major)).map_err(|error| {
        let why = format!("{what} is of PostgreSQL {major}, which is not installed here: {}", error.what);
        Error::refused(why, format!("install it (on Debian: apt-get install postgresql-{major})"))
    })
}
