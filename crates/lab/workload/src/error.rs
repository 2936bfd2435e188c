//! Why a load, a transaction or a check did not do what it was asked.

use std::fmt;

/// What whoever asked does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The machine lacks something, or the settings do not fit: mend that and run again.
    Environment,
    /// The transaction met another one: try it again as it is.
    Conflict,
    /// The server refused the statement: the schema or the server is not what the workload needs.
    Refused,
    /// No answer came: nobody knows whether it was done, and the session is of no use any more.
    Lost,
    /// What came back is not what was stored: keep everything as it is, and look into it.
    Content,
    /// Somebody asked to stop.
    Interrupted,
}

/// An error of a workload.
#[derive(Clone, Debug)]
pub struct Error {
    /// What to do about it.
    pub kind: ErrorKind,
    /// What happened, to which object.
    pub context: String,
}

/// Result of loading, driving or checking.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The machine lacks something, or the settings do not fit.
    pub fn environment(context: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Environment, context: context.into() }
    }

    /// What came back is not what was stored.
    pub fn content(context: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Content, context: context.into() }
    }

    /// Somebody asked to stop.
    pub(crate) fn interrupted(what: &str) -> Error {
        Error { kind: ErrorKind::Interrupted, context: format!("{what}: stopped") }
    }

    /// The same with the action in front.
    #[must_use]
    pub(crate) fn while_doing(self, what: &str) -> Error {
        Error { context: format!("{what}: {}", self.context), ..self }
    }
}

impl From<Error> for ashlar_programs::Error {
    fn from(error: Error) -> ashlar_programs::Error {
        match error.kind {
            ErrorKind::Environment => ashlar_programs::Error::environment(error.context),
            ErrorKind::Interrupted => ashlar_programs::Error::interrupted(),
            ErrorKind::Conflict | ErrorKind::Refused | ErrorKind::Lost | ErrorKind::Content => {
                ashlar_programs::Error::command(error.context)
            }
        }
    }
}

impl From<ashlar_postgres::Error> for Error {
    fn from(error: ashlar_postgres::Error) -> Error {
        let kind = match &error.kind {
            _ if error.is_conflict() => ErrorKind::Conflict,
            ashlar_postgres::ErrorKind::Refused(_) => ErrorKind::Refused,
            ashlar_postgres::ErrorKind::Lost => ErrorKind::Lost,
            ashlar_postgres::ErrorKind::Environment
            | ashlar_postgres::ErrorKind::Command
            | ashlar_postgres::ErrorKind::Late => ErrorKind::Environment,
            ashlar_postgres::ErrorKind::Interrupted => ErrorKind::Interrupted,
        };
        Error { kind, context: error.context }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for Error {}
