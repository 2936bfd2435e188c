//! Why work on a database failed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Result of work on a database.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, for a person to read; it crosses from process to process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Error {
    /// What happened, and to what.
    pub what: String,
    /// What to do about it; may be empty.
    pub action: String,
    /// The request is at fault, not this machine.
    pub is_of_request: bool,
    /// A server did not start within its time, and was ended.
    #[serde(default)]
    pub is_late: bool,
}

impl Error {
    /// This machine or the database is at fault.
    pub fn failed(what: impl Into<String>, action: impl Into<String>) -> Error {
        Error { what: what.into(), action: action.into(), is_of_request: false, is_late: false }
    }

    /// The request is at fault.
    pub fn refused(what: impl Into<String>, action: impl Into<String>) -> Error {
        Error { what: what.into(), action: action.into(), is_of_request: true, is_late: false }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Error {}

impl From<ashlar_postgres::Error> for Error {
    fn from(error: ashlar_postgres::Error) -> Error {
        let is_late = error.kind == ashlar_postgres::ErrorKind::Late;
        let action = if is_late { "give it more with --start-timeout" } else { "" };
        Error { is_late, ..Error::failed(error.to_string(), action) }
    }
}
