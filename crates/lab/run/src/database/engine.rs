//! The server that a database lies on: one of the lab's own, or one that was there and is left as it is.

use ashlar_postgres::{Address, ColdStart, Limitation, Rows, Server, Session, Statistics, Usage};

use super::ANSWER_LIMIT;
use crate::{Error, Result};

/// Why a server that was there has the memory that it has.
const NOT_OURS: &str = "it was there before, with settings of its own";

pub(crate) enum Engine {
    Own(Box<Server>),
    There { address: Address, version: String },
}

impl Engine {
    pub(crate) fn address(&self) -> Address {
        match self {
            Engine::Own(server) => server.address(),
            Engine::There { address, .. } => address.clone(),
        }
    }

    pub(crate) fn session(&self) -> Result<Session> {
        Ok(match self {
            Engine::Own(server) => server.session()?,
            Engine::There { address, .. } => Session::open(address, "ashlar lab", ANSWER_LIMIT)?,
        })
    }

    pub(crate) fn query(&self, statements: &str) -> Result<Rows> {
        Ok(self.session()?.run(statements)?)
    }

    pub(crate) fn statistics(&self) -> Result<Statistics> {
        Ok(Statistics::read(&mut self.session()?)?)
    }

    /// For what only a server of the lab's own can be asked for.
    pub(crate) fn own(&self) -> Result<&Server> {
        match self {
            Engine::Own(server) => Ok(server),
            Engine::There { address, .. } => Err(not_own(address)),
        }
    }

    pub(super) fn own_mut(&mut self) -> Result<&mut Server> {
        match self {
            Engine::Own(server) => Ok(server),
            Engine::There { address, .. } => Err(not_own(address)),
        }
    }

    /// With nothing of its files in memory; one that was there goes on as it is.
    pub(super) fn begin(&mut self) -> Result<Option<ColdStart>> {
        match self {
            Engine::Own(server) => Ok(Some(server.cold_start()?)),
            Engine::There { .. } => Ok(None),
        }
    }

    pub(super) fn end(&mut self) -> Result<()> {
        match self {
            Engine::Own(server) => Ok(server.stop()?),
            Engine::There { .. } => Ok(()),
        }
    }

    /// As `15.18`.
    pub(super) fn version(&self) -> &str {
        match self {
            Engine::Own(server) => server.installation().version(),
            Engine::There { version, .. } => version,
        }
    }

    pub(super) fn usage(&self) -> Option<Usage> {
        match self {
            Engine::Own(server) => server.usage().ok().flatten(),
            Engine::There { .. } => None,
        }
    }

    /// Why memory is not limited although a limit was asked for.
    pub(super) fn not_limited(&self) -> Option<String> {
        match self {
            Engine::Own(server) => match server.limitation() {
                Limitation::NotLimited(why) => Some(why.clone()),
                Limitation::NotAsked | Limitation::Limited => None,
            },
            Engine::There { .. } => Some(NOT_OURS.to_string()),
        }
    }
}

fn not_own(address: &Address) -> Error {
    let shown = address.shown();
    Error::environment(format!("{shown}: it takes a server of the lab's own, and this one was there before"))
}
